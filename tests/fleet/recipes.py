"""Recipes that a fleet can be made of, and rows for it."""

from __future__ import annotations

import time

import numpy as np

import streamgp as sg

D = 2
POINTS = np.random.default_rng(7).normal(size=(6, D))

RECIPES = {
    "SOGP": lambda: sg.SOGP(capacity=8),
    "SOGP, window": lambda: sg.SOGP(sg.Matern(2.5), capacity=6, depth=3, evict="kl"),
    "SOGP, adapting": lambda: sg.SOGP(sg.SquaredExponential([1.0, 1.0]), capacity=8, adapt=sg.SNGD(interval=5, rest=3)),
    "SOGP, outliers": lambda: sg.SOGP(capacity=8, likelihood=sg.StudentT(0.1)),
    "OESGP": lambda: sg.OESGP(units=8, capacity=8),
    "OIESGP": lambda: sg.OIESGP(depth=3, capacity=8),
    "KRLS": lambda: sg.KRLS(),
    "KRLS, least squares": lambda: sg.KRLS(noise=0.0, novelty=0.05),
    "KRLST": lambda: sg.KRLST(capacity=8, forgetting=0.99),
    "SWKRLS": lambda: sg.SWKRLS(capacity=8),
    "FBKRLS": lambda: sg.FBKRLS(capacity=8),
    "RecursiveGP": lambda: sg.RecursiveGP(POINTS, batch=3),
    "RecursiveGP, adapting": lambda: sg.RecursiveGP(POINTS, adapt=sg.SNGD(interval=5)),
    "ISSGPR": lambda: sg.ISSGPR(features=6),
    "ISSGPR, information form": lambda: sg.ISSGPR(features=6, form="cholesky"),
    "IRFRR": lambda: sg.IRFRR(features=6),
    "RLSESN": lambda: sg.RLSESN(units=8, forgetting=0.98),
    "OnlineGP": lambda: sg.OnlineGP(sg.Basis(sg.SquaredExponential() + sg.Constant(0.5)), memory=sg.Window(2)),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8), warmup=20),
    "Standardize, outliers": lambda: sg.Standardize(sg.SOGP(capacity=8, likelihood=sg.StudentT(0.1)), warmup=20),
    "Calibrated": lambda: sg.Calibrated(sg.KRLST(capacity=8), warmup=5),
    "Calibrated, no variance": lambda: sg.Calibrated(sg.IRFRR(features=6), warmup=5),
    "Calibrated Standardize": lambda: sg.Calibrated(sg.Standardize(sg.SOGP(capacity=8), warmup=20), warmup=5),
    "Standardize Calibrated": lambda: sg.Standardize(sg.Calibrated(sg.SOGP(capacity=8), warmup=5), warmup=20),
    "TimeGP": lambda: sg.TimeGP(sg.Matern(1.5, lengthscale=5.0) + sg.Periodic(7.0), noise=0.1),
    "KRLST, half-life": lambda: sg.KRLST(capacity=5, half_life=3.0),
    "Standardize, half-life": lambda: sg.Standardize(sg.KRLST(capacity=5, half_life=3.0), warmup=20),
}
TIMED = {"TimeGP", "KRLST, half-life", "Standardize, half-life"}


def auto(**settings):
    return sg.Auto(warmup=40, tune=False, candidates={"capacity": 8}, **settings)


# Models that are called one by one, and others that Python calls between rows.
OTHERS = {
    "Auto": auto,
    "Tuned": lambda: sg.Tuned(sg.KRLST(capacity=5), warmup=20, tune=False),
    "DriftAware": lambda: sg.DriftAware(sg.SOGP(capacity=5), false_alarm_rate=0.3, trial=5, warmup=3),
    "Committee": lambda: sg.Committee([sg.KRLST(capacity=5), sg.ISSGPR(features=6), sg.filters.KLMS(capacity=5)]),
    "Lagged": lambda: sg.Lagged(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=5), warmup=8), warmup=3), lags=2),
    "Ahead": lambda: sg.Ahead(sg.Lagged(sg.KRLST(capacity=5), lags=2), horizon=2),
    "Delayed": lambda: sg.Delayed(sg.KRLST(capacity=5), pending=3),
    "Columns": lambda: sg.Columns(sg.KRLST(capacity=5), columns=[1]),
    "KLMS": lambda: sg.filters.KLMS(capacity=5),
    "Standardize QKLMS": lambda: sg.Standardize(sg.filters.QKLMS(capacity=5), warmup=8),
    "SGDESN": lambda: sg.filters.SGDESN(units=6, feedback=0.2),
    "LWPR": lambda: sg.LWPR(init_D=2.0, capacity=5),
    "LocalGP": lambda: sg.LocalGP(experts=3, capacity=5),
    "SeasonalValue": lambda: sg.SeasonalValue(3),
    "mean function": lambda: sg.RecursiveGP(POINTS, mean=lambda X: X.sum(axis=1)),
}
# One object stands for all models of these.
TOGETHER = {"KLMS", "Standardize QKLMS", "SGDESN", "LWPR", "LocalGP", "mean function"}


FAILS, WAITS = 99.0, 77.0


class Touchy(sg.SeasonalValue):
    """Fails when the first input of a call's first row is 99, and takes a while when it is 77.

    It says that it may fail once it has seen five rows.
    """

    @property
    def _may_fail(self):
        return self.rows_seen >= 5

    def _pass(self, ops, X, Y, conditions, kept):
        if X[0, 0] == FAILS:
            raise ValueError("no memory left")
        if X[0, 0] == WAITS:
            time.sleep(1.0)
        return super()._pass(ops, X, Y, conditions, kept)


def dense(rng, rows, size, outputs=()):
    """Rows of all models, (rows, size, D) and (rows, size, *outputs); a fifth of the targets is missing."""
    X = rng.normal(size=(rows, size, D))
    Y = 3.0 + np.sin(X.sum(axis=-1)) + 0.1 * rng.normal(size=(rows, size))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return X, np.stack([Y, -2.0 * Y], axis=-1) if outputs else Y


def sparse(rng, rows, size, outputs=()):
    """Rows of some models, whose ids come in any order and several times."""
    X, Y = dense(rng, rows, 1, outputs)
    return rng.integers(0, size, size=rows), X[:, 0], Y[:, 0]

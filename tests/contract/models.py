"""One small example of every exported model, in every form that has code of its own. Inputs have D columns."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

D = 3
_weights = np.random.default_rng(6).normal(size=500)
_points = np.random.default_rng(5).uniform(-2, 2, (12, D))

EXAMPLES = {
    "SOGP": lambda: sg.SOGP(capacity=8, noise=0.05),
    "SOGP windowed": lambda: sg.SOGP(sg.Matern(1.5), capacity=8, depth=3, absorb="dtc", evict="kl", removal="kl"),
    "SOGP separate": lambda: sg.SOGP(capacity=8, noise=0.05, outputs="separate"),
    "SOGP untested": lambda: sg.SOGP(capacity=8, novelty=0, evict="error"),
    "SOGP factors": lambda: sg.SOGP(sg.SquaredExponential(factors=2), capacity=8, noise=0.05),
    "KRLST": lambda: sg.KRLST(capacity=8, forgetting=0.97),
    "KRLST with weights in its mean": lambda: sg.KRLST(capacity=8, forgetting=0.97, mean=sg.LinearMean(variance=4.0)),
    "KRLST injecting": lambda: sg.KRLST(2.0 * sg.SquaredExponential(), capacity=8, forgetting=0.9, mode="injection"),
    "KRLST estimating power": lambda: sg.KRLST(capacity=8, forgetting=0.99, estimate_power=True, outputs="separate"),
    "SOGP Student-t": lambda: sg.SOGP(capacity=8, likelihood=sg.StudentT(0.2), outputs="separate"),
    "KRLST Student-t": lambda: sg.KRLST(
        capacity=8, forgetting=0.9, likelihood=sg.StudentT(0.2, dof=2.5), mode="injection", outputs="separate"
    ),
    "KRLS": lambda: sg.KRLS(capacity=8, noise=0.05),
    "KRLS least squares": lambda: sg.KRLS(capacity=8, noise=0.0, depth=2),
    "SWKRLS": lambda: sg.SWKRLS(capacity=8),
    "FBKRLS": lambda: sg.FBKRLS(capacity=8, depth=2),
    "OESGP": lambda: sg.OESGP(units=6, capacity=8, feedback=0.3),
    "OIESGP": lambda: sg.OIESGP(depth=4, lengthscale=[1.0, 2.0, 3.0], capacity=8),
    "RLSESN": lambda: sg.RLSESN(units=6, forgetting=0.98),
    "SGDESN": lambda: sg.filters.SGDESN(units=6, feedback=0.2),
    "KLMS": lambda: sg.filters.KLMS(capacity=8),
    "QKLMS": lambda: sg.filters.QKLMS(quantization=0.5, capacity=8),
    "KNLMS": lambda: sg.filters.KNLMS(sg.SquaredExponential(factors=1), capacity=8, depth=2),
    "BetaKLMS": lambda: sg.filters.BetaKLMS(capacity=8),
    "NORMA": lambda: sg.filters.NORMA(capacity=8),
    "SOGP adapting": lambda: sg.SOGP(capacity=8, noise=0.05, adapt=sg.SNGD(interval=5)),
    "OIESGP adapting": lambda: sg.OIESGP(depth=2, capacity=8, adapt=sg.SNGD(interval=3, on_move="rebuild")),
    "OIESGP factors adapting": lambda: sg.OIESGP(
        kernel=sg.RecursiveSquaredExponential(factors=1), depth=2, capacity=8, adapt=sg.SNGD(interval=3)
    ),
    "KRLST adapting": lambda: sg.KRLST(capacity=8, forgetting=0.99, mode="injection", adapt=sg.SNGD(interval=4)),
    "RecursiveGP adapting": lambda: sg.RecursiveGP(_points, outputs="separate", adapt=sg.SNGD(interval=5)),
    "ISSGPR adapting": lambda: sg.ISSGPR(features=10, adapt=sg.SNGD(interval=5)),
    "LWPR": lambda: sg.LWPR(init_D=2.0, capacity=20),
    "LWPR full": lambda: sg.LWPR(init_D=2.0, capacity=5, diag_only=False, meta=True, depth=2),
    "LocalGP": lambda: sg.LocalGP(experts=3, capacity=6),
    "LocalGP oldest": lambda: sg.LocalGP(sg.Matern(factors=1), experts=2, capacity=6, drop="oldest", depth=2),
    "IRFRR": lambda: sg.IRFRR(features=10),
    "RecursiveGP": lambda: sg.RecursiveGP(_points, noise=0.05),
    "RecursiveGP separate": lambda: sg.RecursiveGP(_points, jitter=1e-6, outputs="separate"),
    "ISSGPR": lambda: sg.ISSGPR(features=10, noise=0.05),
    "ISSGPR covariance": lambda: sg.ISSGPR(features=10, form="covariance", depth=2, outputs="separate"),
    "OnlineGP reservoir": lambda: sg.OnlineGP(
        sg.Basis(), memory=sg.Reservoir(6, feedback=0.3), budget=sg.Budget(8), forgetting=sg.BackToPrior(0.98)
    ),
    "OnlineGP linear": lambda: sg.OnlineGP(
        sg.Linear(), memory=sg.Reservoir(6), forgetting=sg.Injection(0.9), form="cholesky"
    ),
    "Encoded": lambda: sg.Encoded(
        sg.TrainedEncoder("lstm", inputs=D, depth=4, units=5, weights=_weights[: 20 * (D + 5 + 2) + 12], embedding=2),
        model=sg.KRLST(capacity=8),
        input_shift=[0.1, 0.0, -0.2],
        input_scale=[2.0, 1.0, 0.5],
    ),
    "Encoded filter": lambda: sg.Encoded(
        sg.TrainedEncoder("rnn", inputs=D, depth=3, units=4, weights=_weights[: 4 * (D + 6) + 4 * 10], layers=2),
        model=sg.filters.QKLMS(capacity=8),
    ),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8), warmup=20),
    "Standardize warming up": lambda: sg.Standardize(sg.SOGP(capacity=8, depth=2), warmup=80),
    "Calibrated": lambda: sg.Calibrated(sg.KRLST(capacity=8)),
    "Calibrated filter": lambda: sg.Calibrated(sg.filters.QKLMS(capacity=8, depth=2), level=0.5, warmup=10),
    "DriftAware": lambda: sg.DriftAware(sg.KRLST(capacity=8), warmup=10),
    "DriftAware on trial": lambda: sg.DriftAware(
        sg.SOGP(capacity=8), false_alarm_rate=0.3, trial=5, warmup=3, history=2
    ),
    "CalibratedForecasts": lambda: sg.CalibratedForecasts(sg.SOGP(capacity=8), steps=4),
    "Alarms": lambda: sg.Alarms(sg.KRLST(capacity=8), rate=0.1, warmup=10, history=3),
    "Committee": lambda: sg.Committee([sg.KRLST(capacity=8), sg.ISSGPR(features=10)]),
    "Committee stacked": lambda: sg.Committee(
        [sg.KRLST(capacity=8), sg.SeasonalValue(), sg.RunningMean()], rule="stacked"
    ),
    "Committee by regret": lambda: sg.Committee([sg.SOGP(capacity=8), sg.IRFRR(features=10)], rule="ml-poly"),
    "SeasonalValue": lambda: sg.SeasonalValue(3),
    "InputValue": lambda: sg.InputValue(1),
    "RunningMean": lambda: sg.RunningMean(),
    "Columns": lambda: sg.Columns(sg.KRLST(capacity=8), columns=[0]),
    "Differenced": lambda: sg.Differenced(sg.SOGP(capacity=8), column=0),
    "Auto": lambda: sg.Auto(warmup=50, candidates={"capacity": 8, "features": 8}, tune=False),
    "Tuned": lambda: sg.Tuned(sg.KRLST(capacity=8), warmup=40),
    "Lagged": lambda: sg.Lagged(sg.KRLST(capacity=8), lags=2),
    "Ahead with weights in its mean": lambda: sg.Ahead(sg.KRLST(capacity=8, mean=sg.LinearMean()), horizon=2),
    "Lagged memory": lambda: sg.Lagged(sg.OESGP(units=6, capacity=8, feedback=0.3), lags=1),
    "Ahead": lambda: sg.Ahead(sg.SOGP(capacity=8), horizon=3),
    "Delayed": lambda: sg.Delayed(sg.KRLST(capacity=8), pending=4),
    "Delayed reservoir": lambda: sg.Delayed(sg.OESGP(units=6, capacity=8, feedback=0.3), pending=2),
    "Calibrated committee": lambda: sg.Calibrated(
        sg.DriftAware(sg.Standardize(sg.Committee([sg.KRLST(capacity=8), sg.ISSGPR(features=10)]), warmup=20))
    ),
}

# Models whose targets are not any numbers.
CLASSES_AND_COUNTS = {
    "SOGP of classes": lambda: sg.SOGP(capacity=8, depth=2, likelihood=sg.Probit(), outputs="separate"),
    "KRLST of classes": lambda: sg.KRLST(capacity=8, forgetting=0.9, likelihood=sg.Probit(), outputs="separate"),
    "OESGP of counts": lambda: sg.OESGP(units=6, capacity=8, likelihood=sg.Poisson(), outputs="separate", absorb="dtc"),
    "RecursiveGP of classes": lambda: sg.RecursiveGP(_points, likelihood=sg.Probit(), outputs="separate"),
    "ISSGPR of counts": lambda: sg.ISSGPR(features=10, form="covariance", likelihood=sg.Poisson(), outputs="separate"),
}

# Wrappers of which stacks are made; they take whatever model suits them.
LAYERS = {
    "Standardize": lambda model: sg.Standardize(model, warmup=20),
    "Calibrated": lambda model: sg.Calibrated(model, warmup=10),
    "DriftAware": lambda model: sg.DriftAware(model, false_alarm_rate=0.4, trial=5, warmup=2),
    "Alarms": lambda model: sg.Alarms(model, rate=0.1, warmup=5),
    "Committee": lambda model: sg.Committee([model, sg.KRLS(capacity=8, depth=2)]),
    "Columns": lambda model: sg.Columns(model, columns=[0, 2]),
    "Lagged": lambda model: sg.Lagged(model, lags=2),
    "Ahead": lambda model: sg.Ahead(model, horizon=2),
    "Delayed": lambda model: sg.Delayed(model, pending=4),
}


def stack(seed):
    """One of the models above, in two or three layers, at random."""
    rng, innermost = np.random.default_rng(seed), EXAMPLES | CLASSES_AND_COUNTS
    while True:
        model = innermost[rng.choice(sorted(innermost.keys() - SLOW))]()
        if model._children():
            continue
        try:
            for layer in rng.choice(sorted(LAYERS), rng.integers(2, 4), replace=False):
                model = LAYERS[layer](model)
            model.predict_one(np.ones(D))
        except ValueError:  # these do not fit
            continue
        return model


# Those that take long to build.
SLOW = {"Auto", "Tuned"}

# One of each kind, for tests that take long.
KINDS = {
    *(
        "SOGP",
        "SOGP adapting",
        "KRLST",
        "OESGP",
        "OIESGP",
        "LWPR",
        "LocalGP",
        "QKLMS",
        "RecursiveGP separate",
        "ISSGPR",
    ),
    *("Encoded", "Standardize", "Calibrated", "DriftAware on trial", "Committee", "Lagged", "Ahead", "Delayed"),
}


def parameters(examples):
    """Names as parameters of tests; make test leaves all but one of each kind to make test-more."""
    return [pytest.param(name, marks=() if name in KINDS else pytest.mark.more) for name in examples]

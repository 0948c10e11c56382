"""Which models, and with which hyperparameters: decided on the first rows of a stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract.model import StreamModel
from streamgp.evaluate.metrics import rmse
from streamgp.job.candidates import CANDIDATES, FIRST
from streamgp.job.request import AUTO, Request
from streamgp.settings import FloatArray
from streamgp.tuning.tune import fit_prefix, with_hyperparameters
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize

FEWEST = 30  # rows from which hyperparameters can be found at all
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search
TAKEN = 3  # candidates that auto takes


class Choice(NamedTuple):
    """Which models were taken, and why.

    Args:
        names: of the models, the best first.
        model: how it was built.
        reason: a sentence.
        scores: by candidate, the root mean squared error on the later of the first rows, in units of the target.
    """

    names: list[str]
    model: str
    reason: str
    scores: dict[str, float]

    @property
    def name(self) -> str:
        """For people."""
        return " + ".join(self.names)


def starter(request: Request, d: int) -> Calibrated:
    """The model that predicts the first rows, with its defaults."""
    names = FIRST if request.model == AUTO else (request.model,)
    return _wrapped(request, [request.build(name, d) for name in names], request.stages()[0])


def tuned_starter(request: Request, X: FloatArray, y: FloatArray) -> Calibrated:
    """The same with hyperparameters from these rows; it has learnt nothing yet."""
    names = FIRST if request.model == AUTO else (request.model,)
    return _wrapped(request, _tuned(request, list(names), X, y), len(y))


def choose(request: Request, X: FloatArray, y: FloatArray) -> tuple[Calibrated, Choice]:
    """Compare models on the first rows of a stream, and tune the best ones.

    The candidates' hyperparameters are found on the first half of the rows; then each predicts and learns all of them,
    and the errors on the second half decide. The best ones are tuned on all rows and make up a committee, which has
    learnt nothing yet.

    Args:
        request: what was asked for.
        X: (n, d) inputs.
        y: (n,) targets, NaN where missing.
    """
    scores: dict[str, float] = {}
    names, reason = [request.model], "asked for"
    if request.model == AUTO:
        half = len(y) // 2
        for name, model in zip(CANDIDATES, _tuned(request, list(CANDIDATES), X[:half], y[:half]), strict=True):
            mean = Standardize(model, warmup=max(half, 2)).track(X, y).mean
            error = rmse(y[half:], mean[half:])
            scores[name] = error if np.isfinite(error) else np.inf
        order = sorted(scores, key=scores.__getitem__)
        names = order[:TAKEN]
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in order)
        reason = f"the best on rows {half + 1} to {len(y)} by root mean squared error: {listed}"
    models = _tuned(request, names, X, y)
    shown = " + ".join(repr(model) for model in models)
    return _wrapped(request, models, len(y)), Choice(names, shown, reason, scores)


def _wrapped(request: Request, models: list[StreamModel], warmup: int) -> Calibrated:
    """Models for rows as they come, whose units are those of the first rows."""
    model = models[0] if len(models) == 1 else Committee(models)
    whole: StreamModel = Standardize(model, warmup=max(warmup, 2))
    if request.run["drift"] and not whole._cannot_forget_because:
        whole = DriftAware(whole)
    return Calibrated(whole, level=request.level)


def _tuned(request: Request, names: list[str], X: FloatArray, y: FloatArray) -> list[StreamModel]:
    """Models for standard units, with hyperparameters from these rows where they have any that can be found."""
    models = [request.build(name, X.shape[1]) for name in names]
    if not request.run["tune"] or np.count_nonzero(~np.isnan(y)) < FEWEST:
        return models
    found: dict[str, FullGP | SSGPR | None] = {}
    result = []
    for name, model in zip(names, models, strict=True):
        family = CANDIDATES[name].family if request.model == AUTO else name
        if family not in found:
            found[family] = _hyperparameters(model, X, y)
        batch = found[family]
        result.append(model if batch is None else with_hyperparameters(model, batch))
    return result


def _hyperparameters(model: StreamModel, X: FloatArray, y: FloatArray) -> FullGP | SSGPR | None:
    evidence = Evidence(restarts=0, iterations=ITERATIONS)
    try:
        return fit_prefix(Standardize(model, warmup=max(len(y), 2)), X, y, evidence, rows=TUNED_ROWS)
    except TypeError:  # no kernel and no Fourier features: nothing to find
        return None

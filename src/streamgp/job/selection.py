"""Selection: which models, and with which hyperparameters; decided on the first rows of a stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError
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


class Chosen(NamedTuple):
    """Which models were chosen, and why.

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


class Selection:
    """Keeps the first rows, and builds the model anew on them: once early, and for good at the end of the warm-up.

    Args:
        request: what was asked for.
        inputs: of a row.
        made_up: first rows whose lags reach back beyond the first target.
    """

    def __init__(self, request: Request, inputs: int, made_up: int = 0) -> None:
        self.request, self.made_up = request, made_up
        self.chosen: Chosen | None = None
        self._kept = np.empty((0, inputs + 1))  # inputs and target of the first rows

    def first(self) -> Calibrated:
        """The model that predicts from the first row on, with its default hyperparameters."""
        models = [self.request.build(name, self._kept.shape[1] - 1) for name in _first_names(self.request)]
        return _wrapped(self.request, models, self.request.stages()[0])

    def before_next(self, n: int) -> int:
        """How many of the next n rows come before the next model is built."""
        kept = len(self._kept)
        stages = () if self.chosen else self.request.stages()
        return min([n, *(stage - kept for stage in stages if stage > kept)])

    def keep(self, X: FloatArray, y: FloatArray) -> Calibrated | None:
        """Keep rows that were predicted; returns a model that has learnt all of them where a new one is due.

        Args:
            X: (n, d) inputs, no more than ``before_next`` allows.
            y: (n,) targets as they came with these rows, NaN where missing.
        """
        if self.chosen:
            return None
        self._kept = np.concatenate([self._kept, np.column_stack([X, y])])
        rows, horizon = len(self._kept), self.request.horizon
        if rows not in self.request.stages():
            return None
        X, y = self._kept[: rows - horizon, :-1], self._kept[horizon:, -1].copy()
        # Made-up lags are enough for a first guess, but not to be built upon.
        if len(y) - self.made_up >= FEWEST:
            y[: self.made_up] = np.nan
        if rows < self.request.stages()[1]:
            model = _wrapped(self.request, _tuned(self.request, _first_names(self.request), X, y), len(y))
        else:
            model, self.chosen = choose(self.request, X, y)
            self._kept = self._kept[:0]
        model.learn_many(X, y)
        return model

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"kept": self._kept}

    def restore(self, kept: FloatArray, chosen: dict[str, Any] | None) -> None:
        """Go on from saved rows, or from what was chosen."""
        if kept.ndim != 2 or kept.shape[1] != self._kept.shape[1] or kept.dtype != self._kept.dtype:
            raise SnapshotError(f"the array kept has shape {kept.shape}, the run needs {self._kept.shape}")
        self._kept, self.chosen = kept.copy(), None if chosen is None else Chosen(**chosen)


def _first_names(request: Request) -> list[str]:
    return list(FIRST) if request.model == AUTO else [request.model]


def choose(request: Request, X: FloatArray, y: FloatArray) -> tuple[Calibrated, Chosen]:
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
    names, reason = [request.model], "as requested"
    if request.model == AUTO:
        half = len(y) // 2
        for name, model in zip(CANDIDATES, _tuned(request, list(CANDIDATES), X[:half], y[:half]), strict=True):
            mean = Standardize(model, warmup=max(half, 2)).track(X, y).mean
            error = rmse(y[half:], mean[half:])
            scores[name] = error if np.isfinite(error) else np.inf
        order = sorted(scores, key=scores.__getitem__)
        names = order[:TAKEN]
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in order)
        reason = f"lowest RMSE on rows {half + 1} to {len(y)}: {listed}"
    models = _tuned(request, names, X, y)
    shown = " + ".join(repr(model) for model in models)
    return _wrapped(request, models, len(y)), Chosen(names, shown, reason, scores)


def _wrapped(request: Request, models: list[StreamModel], first_rows: int) -> Calibrated:
    """Models for rows as they come, in the units of the first rows."""
    model = models[0] if len(models) == 1 else Committee(models)
    whole: StreamModel = Standardize(model, warmup=max(first_rows, 2))
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

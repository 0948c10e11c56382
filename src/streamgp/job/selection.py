"""Selection: the hyperparameters of a model that was asked for by name, found on the first rows of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError
from streamgp.job.request import Request
from streamgp.settings import FloatArray
from streamgp.tuning.tune import NoEvidenceError, fit_prefix, with_hyperparameters
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize

FEWEST = 30  # rows from which hyperparameters can be found at all
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search


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
        self.names = [request.model]
        self.doing: Callable[[str], None] = lambda _: None
        self.chosen: Chosen | None = None
        self._kept = np.empty((0, inputs + 2))  # inputs, time and target of the first rows

    def first(self) -> Calibrated:
        """The model that predicts from the first row on, with its default hyperparameters."""
        return self._wrapped(self.request.build(self.request.model, self._kept.shape[1] - 2), self.request.stages()[0])

    def before_next(self, n: int) -> int:
        """How many of the next n rows come before the next model is built."""
        kept = len(self._kept)
        stages = () if self.chosen else self.request.stages()
        return min([n, *(stage - kept for stage in stages if stage > kept)])

    def keep(self, X: FloatArray, y: FloatArray, time: FloatArray | None, model: Calibrated) -> Calibrated:
        """Keep rows that were predicted; returns the model, or one that has learnt all of them where a new one is due.

        Args:
            X: (n, d) inputs, no more than ``before_next`` allows.
            y: (n,) targets as they came with these rows, NaN where missing.
            time: (n,) times at which they came, if models forget by it.
            model: that predicted them.
        """
        if self.chosen:
            return model
        self._kept = np.concatenate([self._kept, kept_rows(X, y, time)])
        rows, horizon = len(self._kept), self.request.horizon
        if rows not in self.request.stages():
            return model
        X, y = self._kept[: rows - horizon, :-2], self._kept[horizon:, -1].copy()
        time = None if time is None else self._kept[horizon:, -2]
        # Made-up lags are enough for a first guess, but not to be built upon.
        if len(y) - self.made_up >= FEWEST:
            y[: self.made_up] = np.nan
        built = self.request.build(self.request.model, X.shape[1])
        if self.request.run["tune"] and np.count_nonzero(~np.isnan(y)) >= FEWEST:
            self.doing(f"tuning {self.request.model} on {len(y):,} rows")
            batch = hyperparameters(built, X, y)
            built = built if batch is None else with_hyperparameters(built, batch)
        if rows == self.request.stages()[1]:
            self.chosen = Chosen(self.names, repr(built), "as requested", {})
            self._kept = self._kept[:0]
        model = self._wrapped(built, len(y))
        model.learn_many(X, y, time=time)
        return model

    def _wrapped(self, model: StreamModel, first_rows: int) -> Calibrated:
        """A model for rows as they come, in the units of the first rows."""
        whole: StreamModel = Standardize(model, warmup=max(first_rows, 2), screen=False)
        if self.request.run["drift"] and not whole._cannot_forget_because:
            whole = DriftAware(whole)
        return Calibrated(whole, level=self.request.level)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"kept": self._kept}

    def header(self) -> dict[str, Any]:
        """The rest of it."""
        return {"choice": None if self.chosen is None else self.chosen._asdict()}

    def restore(self, tensors: dict[str, np.ndarray], saved: dict[str, Any]) -> None:
        """Go on from saved rows, or from what was chosen."""
        kept, chosen = tensors["kept"], saved["choice"]
        if kept.ndim != 2 or kept.shape[1] != self._kept.shape[1] or kept.dtype != self._kept.dtype:
            raise SnapshotError(f"the array kept has shape {kept.shape}, the run needs {self._kept.shape}")
        self._kept, self.chosen = kept.copy(), None if chosen is None else Chosen(**chosen)


def kept_rows(X: FloatArray, y: FloatArray, time: FloatArray | None) -> FloatArray:
    """Rows to be learnt again, (n, d + 2): inputs, time (NaN: none) and target."""
    return np.column_stack([X, np.full(len(y), np.nan) if time is None else time, y])


def hyperparameters(model: StreamModel, X: FloatArray, y: FloatArray) -> FullGP | SSGPR | None:
    """What the first rows say of a model for standard units; None where it has nothing to find."""
    evidence = Evidence(restarts=0, iterations=ITERATIONS)
    try:
        return fit_prefix(Standardize(model, warmup=max(len(y), 2)), X, y, evidence, rows=TUNED_ROWS)
    except NoEvidenceError:
        return None

"""Yardsticks: simple predictions that any model of a run should beat."""

from __future__ import annotations

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError
from streamgp.job.candidates import least_squares
from streamgp.job.scores import START_UP
from streamgp.loading import from_bytes
from streamgp.recipes.naive import SeasonalValue
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.standardize import Standardize

FORGETTING = 0.999  # of least squares: about the last thousand rows count
LINE_FROM = 20  # rows that least squares learns before it counts
MOST_INPUTS = 200  # beyond this least squares takes longer than many a model
PREVIOUS, LINE = "previous value", "least squares"


class Yardsticks:
    """The previous value, least squares on the inputs of the model, and the values of a day and of a week ago.

    Least squares predicts when the model predicts and learns when it learns, so that targets reach both at the same
    time. It leaves out first rows with lags from before the first target.

    Args:
        inputs: columns that least squares sees; they come first.
        horizon: rows ahead.
        seasons: rows of a day and of a week, where they are known.
    """

    def __init__(self, inputs: int, horizon: int, seasons: tuple[int, ...]) -> None:
        self._inputs = inputs
        self.skipped = 0  # first rows that least squares leaves out
        ahead = max(horizon, 1)
        backs = sorted({-(-ahead // period) * period for period in seasons})  # whole seasons, known by then
        self._models: dict[str, StreamModel] = {}
        if inputs <= MOST_INPUTS:
            self._models[LINE] = Standardize(least_squares(FORGETTING), warmup=START_UP, screen=False)
        self._models |= {f"value {back} rows ago": SeasonalValue(back) for back in backs}
        self.names = [PREVIOUS, *self._models]

    @property
    def _line(self) -> StreamModel | None:
        return self._models.get(LINE)

    def track(self, row: int, X: FloatArray, y: FloatArray) -> FloatArray:
        """What least squares says of rows, learning each before the next; the first has this number, from 0."""
        said, line = np.full(len(y), np.nan), self._line
        start = max(self.skipped - row, 0)
        if line is not None and start < len(y):
            unsure = start + max(LINE_FROM - line.rows_seen, 0)
            said[start:] = line.track(X[start:, : self._inputs], y[start:]).mean
            said[start:unsure] = np.nan
        return said

    def predict(self, row: int, x: FloatArray) -> float:
        """What least squares says of a row."""
        if self._line is None or row < self.skipped or self._line.rows_seen < LINE_FROM:
            return np.nan
        return float(self._line.predict_one(x[: self._inputs]).mean)

    def learn(self, row: int, x: FloatArray, y: float) -> None:
        """Let least squares learn the target of a row."""
        if self._line is not None and row >= self.skipped:
            self._line.learn_one(x[: self._inputs], y)

    def said(self, previous: FloatArray, line: FloatArray, y: FloatArray) -> FloatArray:
        """What all of them say of the next rows, (n, names).

        Args:
            previous: the previous value of every row.
            line: what least squares says.
            y: (n,) targets, NaN where missing.
        """
        seasonal = [model for name, model in self._models.items() if name != LINE]
        own = [] if self._line is None else [line]
        return np.column_stack([previous, *own, *(model.track(np.zeros((len(y), 1)), y).mean for model in seasonal)])

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The models by name."""
        return {name: np.frombuffer(model.to_bytes(), dtype=np.uint8) for name, model in self._models.items()}

    def restore(self, tensors: dict[str, np.ndarray], skipped: int) -> None:
        """Go on from saved models."""
        self.skipped = whole("skipped", skipped, at_least=0)
        for name, model in self._models.items():
            saved = from_bytes(tensors[name].tobytes())
            inputs = self._inputs if name == LINE else 1
            if repr(saved) != repr(model) or saved._d not in (None, inputs) or saved._p not in (None, 1):
                raise SnapshotError(f"the snapshot's {name} must be {model!r} of {inputs} inputs; it is {saved!r}")
            self._models[name] = saved

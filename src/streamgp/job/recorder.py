"""Recorder: what a long run looked like, in constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from streamgp.contract.prediction import gaussian_reach
from streamgp.job.observer import Block, Observer
from streamgp.job.pipeline import Pipeline
from streamgp.settings import FloatArray, whole
from streamgp.tables.writing import PredictedRows

SUMS = ("squared", "known", "inside", "raw_inside", "density", "width")
LEAST = ("observed_low", "mean_low", "lower")
MOST = ("observed_high", "mean_high", "upper")
PIT_BINS = 20
SAMPLES = 512  # looks at the model that are kept
MOST_NUMBERS = 40  # of one hyperparameter that are kept


class Recorder(Observer):
    """Keeps at most so many buckets of rows; when they are full, two and two are joined.

    Args:
        buckets: most buckets, a power of 2 or any even number. With fewer rows every row has its own.
    """

    def __init__(self, buckets: int = 1 << 15) -> None:
        if whole("buckets", buckets, at_least=2) % 2:
            raise ValueError(f"buckets must be even, because they are merged in pairs; got {buckets}")
        self.buckets = buckets
        self.stride = 1
        self.rows = 0
        self.first = 1  # the number of the first row
        self.columns = {name: np.full(buckets, np.inf) for name in LEAST}
        self.columns |= {name: np.full(buckets, -np.inf) for name in MOST}
        self.columns |= {name: np.zeros(buckets) for name in SUMS}
        self.times: list[str] = []
        self.pit = np.zeros(PIT_BINS, dtype=np.int64)
        self.samples: list[dict[str, Any]] = []
        self._sample_every, self._looks = 1, 0

    @property
    def used(self) -> int:
        """Buckets that hold rows."""
        return -(-self.rows // self.stride)

    def block(self, block: Block) -> None:
        predicted, pipeline = block.predicted, block.pipeline
        n = len(predicted.row)
        if n == 0:
            return
        if self.rows == 0:
            self.first = int(predicted.row[0])
        while self.rows + n > self.buckets * self.stride:
            self._join()
        index = (self.rows + np.arange(n)) // self.stride
        if predicted.time is not None:
            for at in range(-(-self.rows // self.stride) * self.stride - self.rows, n, self.stride):
                self.times.append(predicted.time[at])
        y, mean = predicted.observed, predicted.mean
        for name, values in (("observed_low", y), ("mean_low", mean), ("lower", predicted.lower)):
            np.fmin.at(self.columns[name], index, values)
        for name, values in (("observed_high", y), ("mean_high", mean), ("upper", predicted.upper)):
            np.fmax.at(self.columns[name], index, values)
        known = np.isfinite(y) & np.isfinite(mean)
        sums = {
            "squared": (y - mean) ** 2,
            "known": known,
            "inside": (predicted.lower <= y) & (y <= predicted.upper),
            "raw_inside": (predicted.raw_lower <= y) & (y <= predicted.raw_upper),
            "density": predicted.log_density,
            "width": predicted.upper - predicted.lower,
        }
        for name, counted in sums.items():
            np.add.at(self.columns[name], index[known], np.asarray(counted, dtype=np.float64)[known])
        self._add_pit(predicted, known, pipeline.level)
        self.rows += n
        self._look(pipeline, 1e6 * block.seconds / n)

    def _add_pit(self, predicted: PredictedRows, known: np.ndarray, level: float) -> None:
        error = (predicted.observed - predicted.mean)[known]
        below, above = (predicted.mean - predicted.lower)[known], (predicted.upper - predicted.mean)[known]
        side = np.where(error < 0, below, above) / gaussian_reach(level)
        p = ndtr(error[side > 0] / side[side > 0])
        self.pit += np.histogram(p, bins=PIT_BINS, range=(0.0, 1.0))[0]

    def _look(self, pipeline: Pipeline, microseconds: float) -> None:
        """Keep a look at the model, thinned to a fixed number."""
        self._looks += 1
        if self._looks % self._sample_every:
            return
        model = pipeline.model
        named = {name: np.ravel(value)[:MOST_NUMBERS].copy() for name, value in model.hyperparameters.items()}
        try:
            relevance = model.relevance().inputs.copy()
        except ValueError:  # a model without lengthscales
            relevance = np.zeros(0)
        self.samples.append(
            {
                "row": pipeline.rows,
                "size": model.size,
                "microseconds": microseconds,
                "hyperparameters": named,
                "relevance": relevance,
                "weights": {name: np.array([weight]) for name, weight in pipeline.weights.items()},
            }
        )
        if len(self.samples) >= SAMPLES:
            self.samples = self.samples[1::2]
            self._sample_every *= 2

    def _join(self) -> None:
        half = self.buckets // 2
        for names, join, empty in ((LEAST, np.fmin, np.inf), (MOST, np.fmax, -np.inf), (SUMS, np.add, 0.0)):
            for name in names:
                column = self.columns[name]
                column[:half] = join(column[0::2], column[1::2])
                column[half:] = empty
        self.times = self.times[::2]
        self.stride *= 2

    # What can be drawn.

    def series(self) -> dict[str, FloatArray]:
        """The buckets in use: lowest and highest observation and mean, outermost bounds; NaN where there are none."""
        found = {name: self.columns[name][: self.used].copy() for name in (*LEAST, *MOST)}
        for values in found.values():
            values[~np.isfinite(values)] = np.nan
        return found

    def running(self, rows: int) -> dict[str, FloatArray]:
        """Root mean squared error, coverage and mean width over about the last rows, at every bucket.

        Args:
            rows: over how many; at least one bucket.
        """
        width = max(1, rows // self.stride)
        sums = {name: _moving(self.columns[name][: self.used], width) for name in SUMS}
        with np.errstate(divide="ignore", invalid="ignore"):
            known = np.where(sums["known"] > 0, sums["known"], np.nan)
            return {
                "rmse": np.sqrt(sums["squared"] / known),
                "coverage": sums["inside"] / known,
                "raw_coverage": sums["raw_inside"] / known,
                "width": sums["width"] / known,
                "density": sums["density"] / known,
            }

    def paths(self) -> dict[str, FloatArray]:
        """How every hyperparameter of the present model has moved, (looks, numbers); NaN where it had others."""
        return self._stacked(lambda sample: sample["hyperparameters"])

    def relevance(self) -> FloatArray:
        """How much every input has counted, (looks, inputs)."""
        return self._stacked(lambda sample: {"relevance": sample["relevance"]}).get("relevance", np.zeros((0, 0)))

    def weights(self) -> dict[str, FloatArray]:
        """How much every model has had to say, (looks,); NaN before it was chosen."""
        return {name: values[:, 0] for name, values in self._stacked(lambda sample: sample["weights"]).items()}

    def _stacked(self, part: Any) -> dict[str, FloatArray]:
        if not self.samples:
            return {}
        result = {}
        for name, last in part(self.samples[-1]).items():
            rows = [part(sample).get(name, np.zeros(0)) for sample in self.samples]
            nothing = np.full(last.shape, np.nan)
            result[name] = np.array([row if row.shape == last.shape else nothing for row in rows])
        return result


def _moving(values: FloatArray, width: int) -> FloatArray:
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    sums: FloatArray = total[end] - total[np.maximum(end - width, 0)]
    return sums

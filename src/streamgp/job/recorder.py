"""Recorder: what a long run looked like, in constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract.tally import Buckets, counted, scored
from streamgp.job.job import Block, Observer
from streamgp.job.pipeline import Pipeline
from streamgp.settings import FloatArray

LEAST = ("observed_low", "mean_low", "lower")
MOST = ("observed_high", "mean_high", "upper")
PIT_BINS = 20
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)  # whose coverage is counted
SAMPLES = 512  # of the model along the run
MOST_NUMBERS = 40  # of one hyperparameter that are kept


class Recorder(Observer):
    """Keeps a long run in constant memory: extremes and sums of buckets of rows, and samples of the model.

    Args:
        buckets: most buckets, an even number. With fewer rows every row has its own.
    """

    def __init__(self, buckets: int = 1 << 15) -> None:
        joins = dict.fromkeys(LEAST, np.fmin) | dict.fromkeys(MOST, np.fmax)
        self.columns = Buckets(buckets, sums=np.add, raw_sums=np.add, **joins)
        self.first = 1  # the number of the first row
        self.times: list[str] = []  # of the first row of every bucket
        self.pit = np.zeros(PIT_BINS, dtype=np.int64)
        self.covered = np.zeros(len(LEVELS), dtype=np.int64)  # targets within the central interval of each level
        self.samples: list[dict[str, Any]] = []
        self._sample_every, self._looks = 1, 0

    def block(self, block: Block) -> None:
        predicted, pipeline = block.predicted, block.pipeline
        n, rows, stride = len(predicted.row), self.columns.rows, self.columns.stride
        if n == 0:
            return
        if rows == 0:
            self.first = int(predicted.row[0])
        y, mean, lower, upper = predicted.observed, predicted.mean, predicted.lower, predicted.upper
        raw_lower, raw_upper = predicted.raw_lower, predicted.raw_upper
        self.columns.add(
            sums=counted(y, mean, lower, upper, predicted.log_density),
            raw_sums=counted(y, mean, raw_lower, raw_upper),
            **dict(zip((*LEAST, *MOST), (y, mean, lower, y, mean, upper), strict=True)),
        )
        self.times = self.times[:: self.columns.stride // stride]
        if predicted.time is not None:
            self.times += predicted.time[-rows % self.columns.stride :: self.columns.stride]
        pit = predicted.pit[np.isfinite(predicted.pit)]
        self.pit += np.histogram(pit, bins=PIT_BINS, range=(0.0, 1.0))[0]
        self.covered += np.sum(np.abs(2.0 * pit[:, None] - 1.0) <= LEVELS, axis=0)
        self._look(pipeline, 1e6 * block.seconds / n)

    def _look(self, pipeline: Pipeline, microseconds: float) -> None:
        """Sample the model; every other sample is dropped when there are too many."""
        self._looks += 1
        if self._looks % self._sample_every:
            return
        model = pipeline.model
        named = {name: np.ravel(value)[:MOST_NUMBERS].copy() for name, value in model.hyperparameters.items()}
        self.samples.append(
            {
                "row": pipeline.rows,
                "size": model.size,
                "microseconds": microseconds,
                "hyperparameters": named,
                "weights": {name: np.array([weight]) for name, weight in pipeline.weights.items()},
            }
        )
        if len(self.samples) >= SAMPLES:
            self.samples = self.samples[1::2]
            self._sample_every *= 2

    # What can be drawn.

    def series(self) -> dict[str, FloatArray]:
        """The buckets in use: lowest and highest observation and mean, outermost bounds; NaN where there are none."""
        found = {name: self.columns[name].copy() for name in (*LEAST, *MOST)}
        for values in found.values():
            values[~np.isfinite(values)] = np.nan
        return found

    def running(self, rows: int) -> dict[str, FloatArray]:
        """Root mean squared error and coverage over about the last rows, at every bucket.

        Args:
            rows: over how many; at least one bucket.
        """
        width = max(1, rows // self.columns.stride)
        own, raw = (scored(_moving(self.columns[name], width)) for name in ("sums", "raw_sums"))
        return {"rmse": own.rmse, "coverage": own.coverage, "raw_coverage": raw.coverage}

    def paths(self) -> dict[str, FloatArray]:
        """How every hyperparameter of the present model has moved, (samples, numbers); NaN where it had others."""
        return self._stacked("hyperparameters")

    def weights(self) -> dict[str, FloatArray]:
        """The weight of every model, (samples,); NaN before it was chosen."""
        return {name: values[:, 0] for name, values in self._stacked("weights").items()}

    def _stacked(self, part: str) -> dict[str, FloatArray]:
        result: dict[str, FloatArray] = {}
        for name, last in self.samples[-1][part].items() if self.samples else ():
            rows = [sample[part].get(name, np.zeros(0)) for sample in self.samples]
            nothing = np.full(last.shape, np.nan)
            result[name] = np.array([row if row.shape == last.shape else nothing for row in rows])
        return result


@np.errstate(over="ignore", invalid="ignore")
def _moving(sums: FloatArray, width: int) -> FloatArray:
    """The sums over each bucket and the buckets before it, as many as the width in all."""
    total = np.concatenate([np.zeros_like(sums[:1]), np.cumsum(sums, axis=0)])
    end = np.arange(1, len(sums) + 1)
    moving: FloatArray = total[end] - total[np.maximum(end - width, 0)]
    return moving

"""Scores of a run, added up block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.settings import FloatArray
from streamgp.tables.writing import PredictedRows


@dataclass
class RunningScores:
    """Sums over all predictions so far, each made before its target was known, and the scores that follow from them."""

    rows: int = 0
    squared: float = 0.0
    density: float = 0.0
    inside: int = 0
    width: float = 0.0
    raw_rows: int = 0
    raw_inside: int = 0
    raw_width: float = 0.0
    squared_previous: float = 0.0
    rows_previous: int = 0

    def add(self, predicted: PredictedRows, previous: FloatArray) -> None:
        """Count a block of predictions.

        Args:
            predicted: the block.
            previous: the previous value as a prediction of the same rows.
        """
        known = np.isfinite(predicted.mean) & np.isfinite(predicted.observed)
        y = predicted.observed[known]
        self.rows += len(y)
        self.squared = _added(self.squared, (predicted.mean[known] - y) ** 2)
        self.density = _added(self.density, predicted.log_density[known])
        self.inside += int(np.count_nonzero((predicted.lower[known] <= y) & (y <= predicted.upper[known])))
        self.width = _added(self.width, predicted.upper[known] - predicted.lower[known])
        lower, upper = predicted.raw_lower[known], predicted.raw_upper[known]
        bounded = ~np.isnan(lower)  # a model without a variance has none of its own, and the first rows have no scale
        self.raw_rows += int(np.count_nonzero(bounded))
        self.raw_inside += int(np.count_nonzero((lower <= y) & (y <= upper)))
        self.raw_width = _added(self.raw_width, (upper - lower)[bounded])
        comparable = known & np.isfinite(previous)
        self.rows_previous += int(np.count_nonzero(comparable))
        self.squared_previous = _added(
            self.squared_previous, (previous[comparable] - predicted.observed[comparable]) ** 2
        )

    @property
    def rmse(self) -> float:
        return (self.squared / self.rows) ** 0.5 if self.rows else float("nan")

    @property
    def coverage(self) -> float:
        return self.inside / self.rows if self.rows else float("nan")

    def summary(self) -> dict[str, float]:
        """The scores by name; NaN before the first row."""
        n = self.rows or float("nan")
        return {
            "rows": self.rows,
            "rmse": self.rmse,
            "rmse_previous_value": (self.squared_previous / (self.rows_previous or float("nan"))) ** 0.5,
            "mean_log_density": self.density / n,
            "coverage": self.coverage,
            "mean_width": self.width / n,
            "raw_coverage": self.raw_inside / (self.raw_rows or float("nan")),
            "raw_mean_width": self.raw_width / (self.raw_rows or float("nan")),
        }


def _added(total: float, values: FloatArray) -> float:
    """A sum that does not depend on how the values are cut into blocks: one after the other."""
    return float(np.cumsum(np.concatenate([[total], values]))[-1])

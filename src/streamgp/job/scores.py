"""Scores of a run, added up block by block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.settings import FloatArray
from streamgp.tables.writing import PredictedRows

START_UP = 500  # first rows that are scored on their own
PARTS = ("start_up", "steady")
COMPARED = 0.75  # of a part's rows that a yardstick must predict; what is left out of a part is left out for all


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


class PartScores:
    """Scores of the first rows and of those after them, beside yardsticks on the same rows.

    A part compares all predictions on the rows of which each says something; a yardstick that says nothing of a quarter
    of a part's rows is left out of that part, and so are those after it.

    Args:
        names: of the yardsticks, those that begin first before the others.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        # By part, and by how many of the first yardsticks say something: rows, inside, width, own absolute errors,
        # squared errors of all.
        self._sums = np.zeros((len(PARTS), len(names) + 1, len(names) + 5))

    def add(self, predicted: PredictedRows, yardsticks: FloatArray) -> None:
        """Count a block of predictions.

        Args:
            predicted: the block.
            yardsticks: (n, names) predictions of the yardsticks, NaN where there is none.
        """
        y, mean, lower, upper = predicted.observed, predicted.mean, predicted.lower, predicted.upper
        usable = np.logical_and.accumulate(np.isfinite(yardsticks), axis=1)
        errors = np.where(usable, yardsticks - y[:, None], 0.0)
        counted = np.column_stack(
            [np.ones(len(y)), (lower <= y) & (y <= upper), upper - lower, abs(mean - y), (mean - y) ** 2, errors**2]
        )
        part = (predicted.row > START_UP).astype(np.int64)
        known = np.isfinite(mean) & np.isfinite(y)
        np.add.at(self._sums, (part[known], usable.sum(axis=1)[known]), counted[known])

    def summary(self, rows: int) -> dict[str, dict[str, Any]]:
        """The scores of both parts; NaN where there are no rows.

        Args:
            rows: so far.
        """
        ends = (1, min(rows, START_UP)), (START_UP + 1, max(rows, START_UP))
        return {
            name: {"from_row": first, "to_row": last} | self._part(sums)
            for name, (first, last), sums in zip(PARTS, ends, self._sums, strict=True)
        }

    def _part(self, sums: FloatArray) -> dict[str, Any]:
        at_least = np.cumsum(sums[::-1], axis=0)[::-1]  # of rows with at least so many yardsticks
        rows, inside, width, absolute = at_least[0, :4]
        most = int(np.flatnonzero(at_least[:, 0] >= COMPARED * rows)[-1]) if rows else 0
        compared = at_least[most, 0]
        errors = np.sqrt(at_least[most, 4 : 5 + most] / (compared or np.nan)).tolist()
        return {
            "rows": int(rows),
            "compared_rows": int(compared),
            "rmse": errors[0],
            "mae": float(absolute / (rows or np.nan)),
            "yardsticks": dict(zip(self.names, errors[1:], strict=False)),
            "coverage": float(inside / (rows or np.nan)),
            "mean_width": float(width / (rows or np.nan)),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"part_sums": self._sums}


def as_table(scores: Mapping[str, Any], level: float) -> list[list[str]]:
    """The scores of both parts as text, headings first; only one part where the other has no rows.

    Args:
        scores: of a run.
        level: of its intervals.
    """
    parts = [scores[name] for name in PARTS if scores[name]["rows"]]
    if not parts:
        return []
    intervals = f"{100 * level:g}% intervals"
    names = max((list(part["yardsticks"]) for part in parts), key=len)
    return [
        ["", *(_rows_of(part) for part in parts)],
        ["RMSE, streamgp", *(shown(part["rmse"]) for part in parts)],
        *([f"RMSE, {name}", *(shown(part["yardsticks"].get(name)) for part in parts)] for name in names),
        ["MAE, streamgp", *(shown(part["mae"]) for part in parts)],
        [f"coverage of {intervals}", *(f"{100 * part['coverage']:.1f}%" for part in parts)],
        [f"mean width of {intervals}", *(shown(part["mean_width"]) for part in parts)],
    ]


def better_yardstick(scores: Mapping[str, Any]) -> str:
    """A sentence where a yardstick had a lower error on the later rows; nothing where none had.

    Args:
        scores: of a run.
    """
    part = next((scores[name] for name in reversed(PARTS) if scores[name]["compared_rows"]), None)
    if part is None or not part["yardsticks"]:
        return ""
    name = min(part["yardsticks"], key=part["yardsticks"].__getitem__)
    error = part["yardsticks"][name]
    if not error < part["rmse"]:
        return ""
    return f"{name} was better ({_rows_of(part)}): RMSE {shown(error)}, streamgp {shown(part['rmse'])}"


def _rows_of(part: Mapping[str, Any]) -> str:
    return f"after row {START_UP}" if part["from_row"] > START_UP else f"rows 1-{part['to_row']}"


def shown(value: float | None) -> str:
    """Four figures, thousands apart; with an exponent only where zeros would outnumber them; nothing for None."""
    if value is None:
        return ""
    if not 1e-5 <= abs(value) < 1e9:
        return f"{value:.4g}"
    text = rounded(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text else text


def rounded(value: float, figures: int) -> str:
    """So many figures, thousands apart, without an exponent."""
    nearest = float(f"{value:.{figures}g}")
    decimals = max(0, figures - 1 - math.floor(math.log10(abs(nearest)))) if nearest else 0
    return f"{nearest:,.{decimals}f}"


def _added(total: float, values: FloatArray) -> float:
    """A sum that does not depend on how the values are cut into blocks: one after the other."""
    return float(np.cumsum(np.concatenate([[total], values]))[-1])

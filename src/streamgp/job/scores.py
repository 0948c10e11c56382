"""Scores of a run, added up block by block, and how people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgp.contract.tally import Scored, counted, scored
from streamgp.settings import FloatArray
from streamgp.tables.kept import Kept
from streamgp.tables.writing import PredictedRows

START_UP = 500  # first rows that are scored on their own
PARTS = ("start_up", "steady")
OWN = 2  # scores of a run before those of its yardsticks: with its calibrated intervals, and with its model's own
WINDOW = 1000  # rows over which coverage has to hold, too
TOGETHER = 256  # rows that are added up at once, or more
COMPARED = 0.75  # of a part's rows that a yardstick must predict; what is left out of a part is left out for all


class RunningScores(Kept):
    """Sums over all predictions so far, each made before its target was known, and the scores that follow from them.

    They are kept for the first rows and for those after them, beside yardsticks. All are compared on the rows that each
    of them predicts; a yardstick that does not predict a quarter of a part's rows is left out of that part, and so are
    those after it.

    Args:
        names: of the yardsticks, the previous value first, those that begin first before the others.
    """

    state = "scores", ("sums", "origin", "targets", "windows")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        # By part; by how many of the first yardsticks predict the row; of the run, of its model's own intervals, and of
        # the yardsticks.
        self._sums = np.zeros((len(PARTS), len(names) + 1, OWN + len(names), len(Scored._fields)))
        # The first target, and by part the number of targets that were learned, the sum of their distances from it, of
        # the squares, and of squared errors: one broken reading would be most of the variation.
        self._origin, self._targets = np.full(1, np.nan), np.zeros((len(PARTS), 4))
        # After the first rows: rows of the present window and targets within their intervals, and of the window before
        # it with the least coverage this, and its last row; row 0: there was none.
        self._windows = np.zeros(4)
        self._waiting: list[PredictedRows] = []  # not in the sums yet
        self._waiting_rows = 0

    def add(self, predicted: PredictedRows) -> None:
        """Count a block of predictions, beside those of the yardsticks; small ones are added up together."""
        self._waiting.append(predicted)
        self._waiting_rows += len(predicted.row)
        if self._waiting_rows >= TOGETHER:
            self._add_waiting()

    @property
    def sums(self) -> FloatArray:
        """All that scores follow from."""
        self._add_waiting()
        return self._sums

    def _add_waiting(self) -> None:
        if not self._waiting:
            return
        rows = PredictedRows.joined(self._waiting)
        row, y, mean, lower, upper = rows.row, rows.observed, rows.mean, rows.lower, rows.upper
        yardsticks, learned = np.asarray(rows.yardsticks), y if rows.learned is None else rows.learned
        self._waiting, self._waiting_rows = [], 0
        usable = np.logical_and.accumulate(np.isfinite(yardsticks), axis=1)
        known = np.isfinite(mean) & np.isfinite(y) & ~np.isnan(lower)
        part, first = (row > START_UP).astype(np.int64), usable.sum(axis=1)
        table = [
            counted(y, mean, lower, upper, rows.log_density, known=known),
            # a model without a variance has no interval of its own, and the first rows have no scale
            counted(y, mean, rows.raw_lower, rows.raw_upper, known=known & ~np.isnan(rows.raw_lower)),
            *(counted(y, column, known=known & says) for column, says in zip(yardsticks.T, usable.T, strict=True)),
        ]
        np.add.at(self._sums, (part, first), np.stack(table, axis=1))  # one row after the other, however they are cut
        if known.any():
            if np.isnan(self._origin[0]):
                self._origin[0] = y[known][0]
            used = known & np.isfinite(learned)
            away, error = y[used] - self._origin[0], y[used] - mean[used]
            with np.errstate(over="ignore"):
                np.add.at(self._targets, part[used], np.column_stack([np.ones_like(away), away, away**2, error**2]))
            later = known & (part == 1)
            self._look_at(row[later], ((lower <= y) & (y <= upper))[later])

    def _look_at(self, row: np.ndarray, inside: np.ndarray) -> None:
        """Count targets within their intervals, window by window."""
        while len(row):
            n = int(WINDOW - self._windows[0])
            self._windows[:2] += len(row[:n]), int(np.count_nonzero(inside[:n]))
            if self._windows[0] == WINDOW:
                coverage = self._windows[1] / WINDOW
                if not self._windows[3] or coverage < self._windows[2]:
                    self._windows[2:] = coverage, row[n - 1]
                self._windows[:2] = 0.0
            row, inside = row[n:], inside[n:]

    def arrays(self) -> dict[str, np.ndarray]:
        self._add_waiting()
        return super().arrays()

    @property
    def rows(self) -> int:
        return int(self._all[0].rows)

    @property
    @np.errstate(over="ignore", invalid="ignore")
    def _all(self) -> list[Scored]:
        """Over all rows: those of the run, of its model's own intervals, and of the previous value."""
        return [scored(sums) for sums in self.sums.sum(axis=(0, 1))[: OWN + 1]]

    def summary(self) -> dict[str, float]:
        """The scores over all rows by name; NaN before the first row."""
        own, raw, previous = self._all
        return {
            "rows": int(own.rows),
            "rmse": float(own.rmse),
            "rmse_previous_value": float(previous.rmse),
            "mean_log_density": float(own.log_density),
            "coverage": float(own.coverage),
            "mean_width": float(own.width),
            "raw_coverage": float(raw.coverage),
            "raw_mean_width": float(raw.width),
        }

    def parts(self, rows: int) -> dict[str, dict[str, Any]]:
        """The scores of both parts; NaN where there are no rows.

        Args:
            rows: so far.
        """
        ends = (1, min(rows, START_UP)), (START_UP + 1, max(rows, START_UP))
        return {
            name: {"from_row": first, "to_row": last} | self._part(sums) | {"explained": self._explained(targets)}
            for name, (first, last), sums, targets in zip(PARTS, ends, self.sums, self._targets, strict=True)
        }

    def worst_window(self) -> tuple[float, int] | None:
        """The least coverage of WINDOW rows that follow each other after the first ones, and the last of these rows."""
        self._add_waiting()
        _, _, coverage, row = self._windows.tolist()
        return (coverage, int(row)) if row else None

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _explained(self, targets: FloatArray) -> float:
        """The share of the variance of learned targets that predictions explain; NaN where they do not vary."""
        n, away, squares, errors = targets
        if n < 2:
            return np.nan
        variance = squares / n - (away / n) ** 2
        # Below this the difference of the two terms is rounding.
        return float(1.0 - errors / n / variance) if variance > 1e-12 * squares / n else np.nan

    @np.errstate(over="ignore", invalid="ignore")
    def _part(self, sums: FloatArray) -> dict[str, Any]:
        at_least = np.cumsum(sums[::-1], axis=0)[::-1]  # of rows with at least 0, 1, 2, ... yardsticks
        own = scored(at_least[:, 0])
        most = int(np.flatnonzero(own.rows >= COMPARED * own.rows[0])[-1]) if own.rows[0] else 0
        yardsticks = scored(at_least[most, OWN : OWN + most])
        return {
            "rows": int(own.rows[0]),
            "compared_rows": int(own.rows[most]),
            "rmse": float(own.rmse[most]),
            "mae": float(own.mae[0]),
            "compared_mae": float(own.mae[most]),
            "yardsticks": dict(zip(self.names, yardsticks.rmse.tolist(), strict=False)),
            "yardsticks_mae": dict(zip(self.names, yardsticks.mae.tolist(), strict=False)),
            "coverage": float(own.coverage[0]),
            "mean_width": float(own.width[0]),
        }


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
    names = max((list(part["yardsticks_mae"]) for part in parts), key=len)
    return [
        ["", *(rows_of(part) for part in parts)],
        ["MAE, streamgp", *(shown(part["compared_mae"]) for part in parts)],
        *([f"MAE, {name}", *(shown(part["yardsticks_mae"].get(name)) for part in parts)] for name in names),
        ["RMSE, streamgp", *(shown(part["rmse"]) for part in parts)],
        [f"coverage of {intervals}", *(f"{100 * part['coverage']:.1f}%" for part in parts)],
        [f"mean width of {intervals}", *(shown(part["mean_width"]) for part in parts)],
    ]


def later_part(scores: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The scores of the later rows, or of the first ones where there are no others; None where there are none."""
    return next((scores[name] for name in reversed(PARTS) if scores[name]["compared_rows"]), None)


def rows_of(part: Mapping[str, Any]) -> str:
    """Which rows a part has, for people."""
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

"""History: the last rows of a stream, thinned out, and their scores by parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamgp.contract import tally
from streamgp.serve.messages import DriftEvent, HistoryAnswer, ScoredRows
from streamgp.settings import FloatArray

SCORED_PARTS, LEAST_SCORED = 60, 25  # parts of a history that are scored; rows of the smallest


def counted(rows: FloatArray) -> FloatArray:
    """What rows, each a target with its mean, lower and upper, add to sums; nothing before the first interval."""
    return tally.counted(*rows.T, known=np.isfinite(rows).all(axis=1))


def thinned(points: FloatArray, most: int) -> FloatArray:
    """At most so many points, (n, POINT): the smallest and the largest of each of equal parts, in their order."""
    if len(points) <= most:
        return points
    parts = np.array_split(np.arange(len(points)), most // 2)
    kept = [part[i] for part in parts for i in sorted(set(_extremes(points[part])))]
    return points[kept]


def answered(points: FloatArray, rows: int, most: int, drift: Sequence[DriftEvent]) -> HistoryAnswer:
    """What a client gets to see of the newest rows as points, (n, POINT): so many rows, thinned out."""
    points = points[points[:, 0] > points[-1, 0] - rows] if len(points) else points
    row, observed, mean, lower, upper = (column.tolist() for column in thinned(points, most).T)
    first = row[0] if row else 0
    return HistoryAnswer(
        rows=int(row[-1] - first + 1) if row else 0,
        row=[int(number) for number in row],
        observed=observed,
        mean=mean,
        lower=lower,
        upper=upper,
        scores=list(_scores(points)),
        drift=[event for event in drift if event.row >= first],
    )


def _scores(points: FloatArray) -> Iterator[ScoredRows]:
    size = max(-(-len(points) // SCORED_PARTS), LEAST_SCORED)
    starts = range(0, len(points), size)
    if not starts:
        return
    with np.errstate(over="ignore"):  # an error whose square is infinite is answered as null
        found = tally.scored(np.add.reduceat(counted(points[:, 1:]), list(starts), axis=0))
    for start, rows, rmse, coverage in zip(starts, found.rows, found.rmse, found.coverage, strict=True):
        numbers = points[start : start + size, 0]
        scores = (float(rmse), float(coverage)) if rows else (None, None)
        yield ScoredRows(int(numbers[0]), int(numbers[-1]), int(rows), *scores)


def _extremes(points: FloatArray) -> list[int]:
    """Which points have the smallest and the largest target, or mean where there is no target, in their order."""
    values = np.where(np.isfinite(points[:, 1]), points[:, 1], points[:, 2])
    known = np.isfinite(values)
    smallest, largest = np.argmin(np.where(known, values, np.inf)), np.argmax(np.where(known, values, -np.inf))
    return sorted([int(smallest), int(largest)])

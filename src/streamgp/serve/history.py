"""History: the last rows one by one, older ones in blocks that keep their extremes and their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamgp.contract import tally
from streamgp.serve.messages import DriftEvent, HistoryAnswer, ScoredRows
from streamgp.settings import FloatArray

POINT = 5  # numbers of a row: its number, target (NaN: none), mean, lower, upper
BLOCK = 100  # rows of the smallest blocks
MERGED = 4  # blocks that become one of the next level
MOST_BLOCKS = 4096  # of a level; more, and the oldest are merged
# Numbers of a block: first row, last row, scored rows, squared errors, rows inside, and the two rows with the smallest
# and the largest target.
SUMS, TALLY = 5, [tally.ROWS, tally.SQUARED, tally.INSIDE]
WIDTH = SUMS + 2 * POINT
SCORED_PARTS, LEAST_SCORED = 60, 25  # parts of a history that are scored; rows of the smallest
NO_POINTS, NO_BLOCKS = np.empty((0, POINT)), np.empty((0, WIDTH))


@np.errstate(over="ignore")  # an error whose square is infinite is answered as null
def summarized(points: FloatArray) -> FloatArray:
    """One block of the rows, (WIDTH,).

    Args:
        points: (n, POINT), in the order of the rows.

    Example:
        >>> points = np.array([[1.0, 5.0, 4.0, 3.0, 6.0], [2.0, 9.0, 4.0, 3.0, 6.0], [3.0, np.nan, 4.0, 3.0, 6.0]])
        >>> summarized(points)[:SUMS]
        array([ 1.,  3.,  2., 26.,  1.])
    """
    sums = tally.counted(*points[:, 1:].T).sum(axis=0)[TALLY]
    return np.concatenate([[points[0, 0], points[-1, 0]], sums, points[_extremes(points)].ravel()])


@np.errstate(over="ignore")
def merged(blocks: FloatArray) -> FloatArray:
    """One block of several, (WIDTH,).

    Args:
        blocks: (n, WIDTH), in the order of the rows.
    """
    points = blocks[:, SUMS:].reshape(-1, POINT)
    sums = [blocks[0, 0], blocks[-1, 1], *blocks[:, 2:SUMS].sum(axis=0)]
    return np.concatenate([sums, points[_extremes(points)].ravel()])


def thinned(points: FloatArray, most: int) -> FloatArray:
    """Some of the points: the smallest and the largest of each of equal parts, in their order.

    Args:
        points: (n, POINT).
        most: points that are kept, at least 2.
    """
    if len(points) <= most:
        return points
    parts = np.array_split(np.arange(len(points)), most // 2)
    kept = [part[i] for part in parts for i in sorted(set(_extremes(points[part])))]
    return points[kept]


def answered(
    blocks: FloatArray, points: FloatArray, rows: int, most: int, drift: Sequence[DriftEvent]
) -> HistoryAnswer:
    """What a client gets to see.

    Args:
        blocks: (n, WIDTH) of the older rows.
        points: (n, POINT) of the newer ones.
        rows: that were asked for, newest.
        most: points.
        drift: where the stream changed.
    """
    last = points[-1, 0] if len(points) else blocks[-1, 1] if len(blocks) else 0
    blocks, points = blocks[blocks[:, 1] > last - rows], points[points[:, 0] > last - rows]
    shown = thinned(np.concatenate([blocks[:, SUMS:].reshape(-1, POINT), points]), most)
    size = max(len(points) // SCORED_PARTS, LEAST_SCORED)
    newer = [summarized(points[at : at + size]) for at in range(0, len(points), size)]
    scores = np.concatenate([blocks, np.reshape(newer, (-1, WIDTH))])
    if len(scores) > 2 * SCORED_PARTS:
        scores = np.array([merged(part) for part in np.array_split(scores, SCORED_PARTS)])
    row, observed, mean, lower, upper = (column.tolist() for column in shown.T)
    first = row[0] if row else 0
    return HistoryAnswer(
        rows=int(last - first + 1) if row else 0,
        row=[int(number) for number in row],
        observed=observed,
        mean=mean,
        lower=lower,
        upper=upper,
        scores=list(_scores(scores)),
        drift=[event for event in drift if event.row >= first],
    )


def _scores(blocks: FloatArray) -> Iterator[ScoredRows]:
    sums = np.zeros((len(blocks), len(tally.Scored._fields)))
    sums[:, TALLY] = blocks[:, 2:SUMS]
    found = tally.scored(sums)
    for (first, last), rows, rmse, coverage in zip(blocks[:, :2], found.rows, found.rmse, found.coverage, strict=True):
        scores = (float(rmse), float(coverage)) if rows else (None, None)
        yield ScoredRows(int(first), int(last), int(rows), *scores)


def _extremes(points: FloatArray) -> list[int]:
    """Which points have the smallest and the largest target, or mean where there is no target, in their order."""
    values = np.where(np.isfinite(points[:, 1]), points[:, 1], points[:, 2])
    known = np.isfinite(values)
    smallest, largest = np.argmin(np.where(known, values, np.inf)), np.argmax(np.where(known, values, -np.inf))
    return sorted([int(smallest), int(largest)])

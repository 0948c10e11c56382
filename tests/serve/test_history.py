"""History: thinning keeps extremes, blocks keep sums, and the journal keeps a bounded number of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.serve import history
from streamgp.serve.journal import Journal, _fold

NUMBERS = st.one_of(st.just(np.nan), st.floats(-1e6, 1e6))
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=60).map(
    lambda rows: np.array([[number, *row] for number, row in enumerate(rows, 1)])
)


@given(points=POINTS, most=st.integers(2, 30))
def test_thinned_points_are_some_of_them_in_order_with_the_extremes_of_all(points, most):
    kept = history.thinned(points, most)
    assert len(kept) <= max(most, 2)
    assert list(kept[:, 0]) == sorted(set(kept[:, 0]))
    for row in kept:
        assert np.array_equal(row, points[int(row[0]) - 1], equal_nan=True)
    if np.isfinite(points[:, 1]).all():
        assert kept[:, 1].max() == points[:, 1].max()
        assert kept[:, 1].min() == points[:, 1].min()


@given(points=POINTS, cut=st.integers(1, 59))
def test_a_merged_block_is_the_block_of_all_its_rows(points, cut):
    parts = [part for part in (points[:cut], points[cut:]) if len(part)]
    merged = history.merged(np.array([history.summarized(part) for part in parts]))
    whole = history.summarized(points)
    np.testing.assert_allclose(merged[: history.SUMS], whole[: history.SUMS], rtol=1e-12)
    if np.isfinite(points[:, 1]).all():
        pick = slice(history.SUMS + 1, None, history.POINT)
        assert sorted(merged[pick]) == sorted(whole[pick])


def test_a_block_is_scored_as_its_rows_are():
    rng = np.random.default_rng(0)
    points = np.column_stack([np.arange(1, 101), *rng.normal(size=(2, 100)), np.full(100, -1.0), np.full(100, 1.0)])
    points[7, 1] = points[8, 2] = np.nan
    _, _, rows, squared, inside = history.summarized(points)[: history.SUMS]
    known = [point for point in points if not np.isnan(point[1:3]).any()]
    assert rows == len(known) == 98
    assert squared == pytest.approx(sum((y - mean) ** 2 for _, y, mean, _, _ in known))
    assert inside == sum(low <= y <= high for _, y, _, low, high in known)


def test_the_largest_numbers_there_are_have_extremes_and_an_infinite_error():
    targets = [np.nan, 1.5e308, 1.7e308, -1.6e308, np.nan]
    points = np.column_stack([np.arange(1, 6), targets, *np.zeros((3, 5))])
    assert history.thinned(points, 2)[:, 0].tolist() == [3.0, 4.0]
    halves = np.array([history.summarized(points[:3]), history.summarized(points[3:])])
    for block in (history.summarized(points), history.merged(halves)):
        assert block[2 : history.SUMS].tolist() == [3.0, np.inf, 0.0]
        assert block[history.SUMS :: history.POINT].tolist() == [3.0, 4.0]


def test_blocks_are_merged_so_that_a_long_history_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "MOST_BLOCKS", 8)
    journal = Journal(tmp_path)
    try:
        last = 0
        for _ in range(40):
            points = np.column_stack([np.arange(last + 1, last + 1001), *np.ones((4, 1000))])
            points[500, 1] = last

            def write(cursor, points=points):
                cursor.execute(
                    "INSERT INTO points VALUES (1, ?, ?, 1, ?)",
                    (int(points[0, 0]), int(points[-1, 0]), points.tobytes()),
                )
                _fold(cursor, 1, int(points[-1, 0]))

            journal.write(write)
            last += 1000
        blocks = journal.blocks(1)
        assert len(blocks) < 8 * 5
        assert blocks[0, 0] == 1
        assert blocks[-1, 1] == last
        assert np.all(blocks[1:, 0] == blocks[:-1, 1] + 1)
        assert blocks[:, 2].sum() == last
        assert blocks[:, history.SUMS + 1 :: history.POINT].max() == last - 1000
    finally:
        journal.close()

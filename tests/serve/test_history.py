"""History: thinning keeps extremes, and parts have the scores of their rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamgp.serve import history

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


@given(points=POINTS, rows=st.integers(1, 70))
def test_the_scores_of_parts_are_those_of_their_rows(points, rows):
    found = history.answered(points, rows, 1000, [])
    newest = points[-rows:]
    assert found.row == newest[:, 0].tolist()
    assert [(part.from_row, part.to_row) for part in found.scores] == [
        (newest[at, 0], newest[min(at + 25, len(newest)) - 1, 0]) for at in range(0, len(newest), 25)
    ]
    for part in found.scores:
        own = newest[(newest[:, 0] >= part.from_row) & (newest[:, 0] <= part.to_row)]
        known = own[np.isfinite(own).all(axis=1)]  # as in the scores of the stream, a row without an interval is none
        assert part.rows == len(known)
        if len(known):
            np.testing.assert_allclose(part.rmse, np.sqrt(np.mean((known[:, 1] - known[:, 2]) ** 2)), rtol=1e-12)
            inside = np.mean((known[:, 3] <= known[:, 1]) & (known[:, 1] <= known[:, 4]))
            np.testing.assert_allclose(part.coverage, inside, rtol=1e-12)


def test_a_long_history_is_scored_in_sixty_parts_without_a_gap():
    points = np.column_stack([np.arange(1, 5001), *np.ones((4, 5000))])
    scores = history.answered(points, 10**6, 10, []).scores
    assert len(scores) == 60
    assert [part.from_row for part in scores] == [1, *(part.to_row + 1 for part in scores[:-1])]
    assert scores[-1].to_row == sum(part.rows for part in scores) == 5000


def test_the_largest_numbers_there_are_have_extremes_and_an_infinite_error():
    targets = [np.nan, 1.5e308, 1.7e308, -1.6e308, np.nan]
    points = np.column_stack([np.arange(1, 6), targets, *np.zeros((3, 5))])
    assert history.thinned(points, 2)[:, 0].tolist() == [3.0, 4.0]
    (part,) = history.answered(points, 5, 10, []).scores
    assert (part.rows, part.rmse, part.coverage) == (3, np.inf, 0.0)

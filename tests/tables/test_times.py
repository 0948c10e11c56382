"""Times of rows: which are kept, and how they are written."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.contract.snapshot import SnapshotError
from streamgp.tables.dates import TimeReader
from streamgp.tables.times import MOST_ANCHORS, Times, Written


def test_times_are_kept_of_the_last_rows_and_of_those_where_something_happened():
    times = Times(TimeReader(), 10)
    for start in range(0, 40, 7):
        times.add([f"2024-01-01T{i // 60:02d}:{i % 60:02d}:00+05:00" for i in range(start, start + 7)], 7)
        times.mark([3])
    assert (times.when(3), times.when(42)) == ("2024-01-01 00:02", "2024-01-01 00:41")
    assert times.when(20) == "row 20"
    again = Times(TimeReader(), 10)
    again.restore(times.arrays())
    assert [again.when(row) for row in (3, 20, 42)] == [times.when(row) for row in (3, 20, 42)]
    days = Times(TimeReader(), 5)
    days.add(["2024-01-31", "2024-02-01"], 2)
    assert days.when(2) == "2024-02-01"
    assert Times(TimeReader(), 5).when(1234) == "row 1,234"
    numbers = Times(TimeReader("number"), 5)
    numbers.add(["0.5", "", "1.5"], 3)
    assert [numbers.when(row) for row in (1, 2, 3)] == ["0.5", "row 2", "1.5"]


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_anchors_are_few_and_do_not_depend_on_how_rows_are_cut(every):
    texts = ["" if i % every else f"{1.7e9 + 60 * (i - 1):.0f}" for i in range(1, 1 + 5 * MOST_ANCHORS * every)]
    whole, cut = (Times(TimeReader("seconds"), 10) for _ in range(2))
    whole.add(texts, len(texts))
    for start in range(0, len(texts), 37):
        cut.add(texts[start : start + 37], len(texts[start : start + 37]))
    assert whole.anchors() == cut.anchors()
    assert whole.arrays()["times.anchors"].tolist() == cut.arrays()["times.anchors"].tolist()
    assert MOST_ANCHORS / 2 <= len(whole.anchors()) <= MOST_ANCHORS
    rows = [row for row, _ in whole._anchors]
    assert rows == sorted(set(rows))
    assert all(moment == 1.7e9 + 60 * (row - 1) for row, moment in whole.anchors())


def test_rows_without_a_time_have_no_anchor_however_that_is_said():
    silent, empty = Times(TimeReader(), 10), Times(TimeReader(), 10)
    silent.add(None, 30)
    empty.add([""] * 30, 30)
    assert all(np.array_equal(silent.arrays()[name], array, equal_nan=True) for name, array in empty.arrays().items())


def test_times_for_models_do_not_go_back_and_those_of_rows_to_come_change_nothing():
    times = Times(TimeReader("seconds"), 5)
    assert times.moments(["?", "1e9", "9e8", ""]).tolist() == [1e9] * 4
    assert times.coming(["5e8", "2e9"]).tolist() == [1e9, 2e9]
    assert times.moments(["1000000001"]).tolist() == [1e9 + 1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-03-01T05:00:00+02:00", "2024-03-02T02:00:00+02:00"),
        ("2024-03-01 05:00", "2024-03-02 00:00:00"),
        ("2024-03-01", "2024-03-02|00:00:00"),
        ("1709251200", "2024-03-02|00:00:00+00:00"),
    ],
)
def test_a_date_is_written_as_another_one(text, shown):
    assert Written.like(text, "|").shown(1709337600.0) == shown


def test_saved_times_of_another_shape_are_refused():
    saved = Times(TimeReader(), 5).arrays()
    with pytest.raises(SnapshotError, match="the array times.last has shape"):
        Times(TimeReader(), 6).restore(saved)
    with pytest.raises(SnapshotError, match="the array times.marked has shape"):
        Times(TimeReader(), 5).restore(saved | {"times.marked": np.zeros((3, 3))})

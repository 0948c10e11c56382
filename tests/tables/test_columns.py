from __future__ import annotations

import numpy as np
import pytest

from streamgp.tables import BadRow, Chunk, RowEncoder, RowsError, Schema, recognize
from streamgp.tables.columns import seconds


def chunk(**columns):
    n = len(next(iter(columns.values())))
    return Chunk(columns, list(range(2, n + 2)))


def encoded(rows, target="y", inputs=None):
    encoder = RowEncoder(recognize(rows, target, inputs))
    return encoder.fill(encoder.encode(rows)), encoder


def test_columns_are_numbers_categories_times_or_ignored():
    n = 30
    rows = chunk(
        when=[f"2024-01-01T00:{i:02d}:00" for i in range(n)],
        instant=[str(i + 1) for i in range(n)],
        x=[str(0.1 * i * i) for i in range(n)],
        kind=["b" if i % 3 else "a" for i in range(n)],
        who=[f"person {i}" for i in range(n)],
        site=["here"] * n,
        nothing=[""] * n,
        y=[str(i % 7) for i in range(n)],
    )
    schema = recognize(rows, "y")
    assert {c.name: c.kind for c in schema.columns} == {
        "when": "time",
        "instant": "ignored",
        "x": "number",
        "kind": "category",
        "who": "ignored",
        "site": "ignored",
        "nothing": "ignored",
        "y": "number",
    }
    assert schema.inputs == ("x", "kind")
    assert schema.input_names == ["x", "kind=b", "time of day (sin)", "time of day (cos)"]
    assert schema.sentences() == [
        "target: y",
        "numbers: x",
        "category: kind (a, b; other values count as none of these)",
        "time: when, used as time of day",
        "ignored: instant (row counter)",
        "ignored: who (text with more than 20 different values)",
        "ignored: site (constant text)",
        "ignored: nothing (no values in the first rows)",
    ]
    assert Schema.from_dict(schema.to_dict()) == schema


def test_categories_become_one_input_a_level_and_unknown_ones_none():
    rows, encoder = encoded(chunk(kind=["a", "b", "c", "a"], y=[1, 2, 3, 4]))
    assert rows.X.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert encoder.encode(chunk(kind=["d"], y=[1])).X.tolist() == [[0, 0, 0]]
    rows, _ = encoded(chunk(kind=["yes", "no", "yes"], y=[1, 2, 3]))
    assert rows.X.tolist() == [[1], [0], [1]]


def test_gaps_are_filled_with_the_last_value_also_across_blocks_and_counted():
    rows, encoder = encoded(chunk(x=["", "1", "NA", "3", "null"], y=["1", "", "3", "4", "?"]))
    assert rows.X[:, 0].tolist() == [0, 1, 1, 3, 3]
    np.testing.assert_array_equal(rows.y, [1, np.nan, 3, 4, np.nan])
    more = encoder.fill(encoder.encode(chunk(x=["nan", "7", None], y=["1", "2", "3"])))
    assert more.X[:, 0].tolist() == [3, 7, 7]
    assert encoder.gaps == {"x": 5, "y": 2}


def test_text_in_a_column_of_numbers_and_infinity_make_a_bad_row():
    _, encoder = encoded(chunk(x=["1"] * 20, y=[str(i) for i in range(20)]))
    rows = encoder.encode(chunk(x=["1", "two", "3", "4"], y=["1", "2", "inf", "4"]))
    assert rows.bad == [
        BadRow(3, "has 'two' in the column 'x', which holds numbers"),
        BadRow(4, "has an infinite number in the column 'y'"),
    ]
    assert (rows.X[:, 0].tolist(), rows.lines) == ([1, 4], [2, 5])


def test_a_few_mistakes_among_the_first_rows_do_not_make_numbers_a_category():
    schema = recognize(chunk(x=[str(i * i) for i in range(29)] + ["oops"], y=["1"] * 30), "y")
    assert schema.column("x").kind == "number"


def test_decimal_commas_are_understood():
    rows, _ = encoded(chunk(x=["1,5", "-2,25", "1.000,5", ""], y=["3", "4,5", "5", "6"]))
    assert rows.X[:, 0].tolist() == [1.5, -2.25, 1000.5, 1000.5]
    assert rows.y.tolist() == [3, 4.5, 5, 6]


def test_the_time_is_recognised_by_dates_or_by_its_name():
    def time_of(**columns):
        return recognize(chunk(**columns), "y").time

    y = ["1", "5", "2"]
    assert time_of(d=["1/1/11", "1/1/11", "1/2/11"], y=y) == "d"
    assert time_of(x=["1", "2", "4"], t=["0.1", "0.2", "0.35"], y=y) == "t"
    assert time_of(t=["0.3", "0.2", "0.35"], y=y) == ""
    assert time_of(x=["0.1", "0.2", "0.35"], y=y) == ""
    assert recognize(chunk(t=["0.1", "0.2", "0.35"], y=y), "y", ["t"]).inputs == ("t",)


@pytest.mark.parametrize(
    ("spacing", "cycles"),
    [(10, ()), (60, ("time of day",)), (3600, ("time of day", "day of week")), (86400, ("day of week",)), (864000, ())],
)
def test_cycles_of_the_time_are_inputs_where_some_hundred_rows_can_show_them(spacing, cycles):
    stamps = [str(1.7e9 + spacing * i) for i in range(20)]
    assert recognize(chunk(time=stamps, x=["1"] * 20, y=["2"] * 20), "y").cycles == cycles


def test_seconds_of_dates_and_stamps():
    assert seconds("1970-01-02") == seconds("1970-01-02T05:00:00+05:00") == seconds("1970-01-02T00:00Z") == 86400
    assert seconds("1700000000") == seconds("1700000000000") == 1.7e9
    assert seconds("12.5") is None
    assert seconds("soon") is None


def test_the_time_of_day_goes_by_the_clock_and_the_spacing_of_rows_by_utc():
    """Clocks go forward an hour before row 8, on a Sunday."""
    offsets = [1 if i < 8 else 2 for i in range(48)]
    hours = [i + 18 + (offset - 1) for i, offset in enumerate(offsets)]
    at = [f"2024-03-{30 + h // 24}T{h % 24:02d}:00+0{o}:00" for h, o in zip(hours, offsets, strict=True) if h < 48]
    assert at[7:9] == ["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"]
    assert np.diff([seconds(text) for text in at]).tolist() == [3600] * (len(at) - 1)
    rows, encoder = encoded(chunk(at=at, y=["1"] * len(at)))
    assert encoder.schema.cycles == ("time of day", "day of week")
    assert encoder.schema.seasons == (24, 168)
    angle = 2 * np.pi * np.array([h % 24 for h in hours[: len(at)]]) / 24
    np.testing.assert_allclose(rows.X[:, :2], np.stack([np.sin(angle), np.cos(angle)], axis=1), atol=1e-9)


def test_a_bad_time_makes_a_bad_row_where_it_is_an_input():
    _, encoder = encoded(chunk(time=[f"2024-01-01T{i:02d}:00" for i in range(20)], y=["1"] * 20))
    assert encoder.encode(chunk(time=["later"], y=["1"])).bad == [
        BadRow(2, "has 'later' in the column 'time', which holds the time")
    ]


@pytest.mark.parametrize(
    ("target", "inputs", "message"),
    [
        ("torqe", None, "there is no column 'torqe'. Did you mean 'torque'\\? The columns are: x, torque, name"),
        ("torque", ["xx"], "there is no column 'xx'. Did you mean 'x'"),
        ("torque", ["torque"], "'torque' is the target and cannot be an input; for its past values use `lags=3`"),
        ("name", None, "the target 'name' must hold numbers; it holds 'a', 'b'"),
        ("torque", ["name"], None),
        ("torque", ["who"], "the column 'who' cannot be an input: text with more than 20 different values"),
    ],
)
def test_columns_that_cannot_be_used_so_are_refused(target, inputs, message):
    n = 30
    rows = chunk(x=["1"] * n, torque=["2"] * n, name=["a", "b"] * 15, who=[f"p{i}" for i in range(n)])
    if message is None:
        assert recognize(rows, target, inputs).input_names == ["name=b"]
        return
    with pytest.raises(RowsError, match=message):
        recognize(rows, target, inputs)


def test_columns_that_were_not_asked_for_are_not_read():
    schema = recognize(chunk(x=["1"] * 3, z=["2"] * 3, y=["3"] * 3), "y", ["z"])
    rows = RowEncoder(schema).encode(chunk(x=["text"], z=["4"], y=["5"]))
    assert (rows.X.tolist(), rows.bad) == ([[4.0]], [])

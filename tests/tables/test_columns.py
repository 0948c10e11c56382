from __future__ import annotations

import numpy as np
import pytest

from streamgp.tables.columns import Schema
from streamgp.tables.dates import TimeReader, as_iso, form_of
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.formats import BadRow, Chunk
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError


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


def test_a_time_that_is_missing_is_one_gap_of_the_time():
    at = ["" if i == 3 else f"2024-01-{1 + i // 24:02d}T{i % 24:02d}:00" for i in range(48)]
    _, encoder = encoded(chunk(at=at, x=["1"] * 47 + [""], y=["2"] * 48))
    assert encoder.schema.cycles == ("time of day", "day of week")
    assert encoder.gaps == {"x": 1, "at": 1}


def test_a_row_of_units_has_no_levels():
    rows = chunk(x=["°C", *map(str, range(30))], kind=["", *["a", "b"] * 15], y=["kW", *map(str, range(30))])
    assert recognize(rows, "y").column("kind").levels == ("a", "b")
    broken = chunk(x=["#REF!", "1", "2"] * 10, z=["1", "1", "2"] * 10, kind=["a", "b", "a"] * 10, y=["1"] * 30)
    assert recognize(broken, "y", ["z", "kind"]).column("kind").levels == ("a", "b")


def test_a_few_mistakes_among_the_first_rows_do_not_make_numbers_a_category():
    schema = recognize(chunk(x=[str(i * i) for i in range(29)] + ["oops"], y=["1"] * 30), "y")
    assert schema.column("x").kind == "number"


def test_the_time_is_recognised_by_dates_or_by_its_name():
    def time_of(**columns):
        return recognize(chunk(**columns), "y").time

    y = ["1", "5", "2"]
    assert time_of(d=["1/1/11", "1/1/11", "1/2/11"], y=y) == "d"
    assert time_of(x=["1", "2", "4"], t=["0.1", "0.2", "0.35"], y=y) == "t"
    assert recognize(chunk(d=["2024-01-01", "2024-01-02", "2024-01-03"], y=y), "y", ["d"]).inputs == ()
    assert time_of(t=["0.3", "0.2", "0.35"], y=y) == ""
    assert time_of(t=["1 s", "2 s", "4 s"], y=y) == ""
    assert time_of(x=["0.1", "0.2", "0.35"], y=y) == ""
    assert recognize(chunk(t=["0.1", "0.2", "0.35"], y=y), "y", ["t"]).inputs == ("t",)


@pytest.mark.parametrize(
    ("spacing", "cycles"),
    [(10, ()), (60, ("time of day",)), (3600, ("time of day", "day of week")), (86400, ("day of week",)), (864000, ())],
)
def test_cycles_of_the_time_are_inputs_where_some_hundred_rows_can_show_them(spacing, cycles):
    stamps = [str(1.7e9 + spacing * i) for i in range(20)]
    assert recognize(chunk(time=stamps, x=["1"] * 20, y=["2"] * 20), "y").cycles == cycles


def test_seconds_of_dates():
    seconds = TimeReader().seconds
    assert seconds("1970-01-02") == seconds("1970-01-02T05:00:00+05:00") == seconds("1970-01-02T00:00Z") == 86400
    assert seconds("1970-01-02T05:00+05:00", local=True) == 86400 + 5 * 3600
    assert TimeReader("DMY").seconds("02.01.1970 00:00") == 86400
    assert np.isnan(TimeReader().moments(["12.5", "soon", "", "1700000000"])).all()


def test_a_leap_second_is_the_first_of_the_next_minute():
    last = TimeReader().seconds("2016-12-31T23:59:59Z")
    for text in ("2016-12-31T23:59:60Z", "2017-01-01 01:59:60+02:00"):
        assert TimeReader().seconds(text) == last + 1
    assert TimeReader().seconds("2016-12-31 23:59:60.5") == last + 1.5
    assert TimeReader("DMY").seconds("31.12.2016 23:59:60") == last + 1
    assert np.isnan(TimeReader().seconds("2016-12-31T23:59:61Z"))
    assert np.isnan(TimeReader().seconds("9999-12-31T23:59:60Z"))
    stamps = [f"2016-12-31T{i:02d}:59:59Z" for i in range(24)]
    encoder = RowEncoder(recognize(chunk(time=stamps, y=["1"] * 24), "y"))
    assert encoder.schema.cycles == ("time of day", "day of week")
    assert encoder.encode(chunk(time=["2016-12-31T23:59:60Z"], y=["1"])).bad == []


@pytest.mark.parametrize(
    ("numbers", "form", "unit"),
    [
        ([1.7e9, 1.7e9 + 0.25, 1.7e9 + 60], "seconds since 1970", 1),
        ([1700010112345, 1700010112346, 1700010112347], "milliseconds since 1970", 1e3),  # in ISO 8601 1700-01-01 23:45
        ([1700010112345000, 1700010112345001, 1700010112345002], "microseconds since 1970", 1e6),
        ([1700010112345000000, 1700010112345000256, 1700010112345000512], "nanoseconds since 1970", 1e9),
        ([0, 1, 2.5], "a number, which counts as seconds", 1),
        ([10150101, 10150102, 10150103], "a number, which counts as seconds", 1),
        ([-3e20, 0, 3e20], "a number, which counts as seconds", 1),
    ],
)
def test_numbers_are_times_in_one_unit_which_is_told(numbers, form, unit):
    rows = chunk(t=list(map(str, numbers)), y=["1", "2", "3"])
    schema = recognize(rows, "y")
    assert told(rows, "time: ") == f"time: t ({form})"
    found = schema.reader.moments(encoded(rows)[0].times)
    np.testing.assert_allclose(found, np.array(numbers, dtype=float) / unit, rtol=1e-15)
    assert schema.is_dated is form.endswith("1970")
    assert Schema.from_dict(schema.to_dict()).reader == schema.reader


def test_numbers_as_times_have_the_decimal_mark_of_their_column():
    rows = chunk(t=["0,5", "1,25", "2,0"], y=["1,5", "2,5", "3,5"])
    schema = recognize(rows, "y")
    assert schema.reader.moments(["0,5", "1.000,25", "", "?", "inf", "x"])[:2].tolist() == [0.5, 1000.25]
    assert np.isnan(schema.reader.moments(["", "?", "inf", "x", "2024-01-01"])).all()


def test_the_time_of_day_goes_by_the_clock_and_the_spacing_of_rows_by_utc():
    """Clocks go forward an hour before row 8, on a Sunday."""
    offsets = [1 if i < 8 else 2 for i in range(48)]
    hours = [i + 18 + (offset - 1) for i, offset in enumerate(offsets)]
    at = [f"2024-03-{30 + h // 24}T{h % 24:02d}:00+0{o}:00" for h, o in zip(hours, offsets, strict=True) if h < 48]
    assert at[7:9] == ["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"]
    assert np.diff(TimeReader().moments(at)).tolist() == [3600] * (len(at) - 1)
    rows, encoder = encoded(chunk(at=at, y=["1"] * len(at)))
    assert encoder.schema.cycles == ("time of day", "day of week")
    assert encoder.schema.seasons == (24, 168)
    angle = 2 * np.pi * np.array([h % 24 for h in hours[: len(at)]]) / 24
    np.testing.assert_allclose(rows.X[:, :2], np.stack([np.sin(angle), np.cos(angle)], axis=1), atol=1e-9)


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


HOURS = [(day, hour) for day in range(1, 32) for hour in range(0, 24, 6)]


def told(rows, part):
    """The sentence that has this."""
    return next(sentence for sentence in recognize(rows, "y").sentences() if part in sentence)


@pytest.mark.parametrize(
    ("written", "order"),
    [
        ("{day:02d}.12.2025 {hour:02d}:00", "day/month/year"),
        ("{day}. 12. 2025 {hour}:00", "day/month/year"),
        ("{day:02d}/12/2025 {hour:02d}:00", "day/month/year"),
        ("12/{day:02d}/2025 {hour:02d}:00", "month/day/year"),
        ("2025/12/{day:02d} {hour:02d}:00", "year/month/day"),
        ("{day:02d}-Dec-2025 {hour:02d}:00", "day/month/year"),
        ("{day:02d} 12 25 {hour:02d}:00:00", "day/month/year"),
    ],
)
def test_dates_in_any_order_are_read_as_the_same_times(written, order):
    rows = chunk(when=[written.format(day=d, hour=h) for d, h in HOURS], y=[d % 7 for d, _ in HOURS])
    assert told(rows, "time: ") == f"time: when, used as time of day and day of week ({order})"
    found, encoder = encoded(rows)
    assert found.times == [f"2025-12-{d:02d} {h:02d}:00:00" for d, h in HOURS]
    assert encoder.schema.seasons == (4, 28)
    assert Schema.from_dict(encoder.schema.to_dict()) == encoder.schema


def test_dates_without_a_day_beyond_12_are_read_in_the_closer_order_and_told():
    days = [f"0{month}/0{day}/2025" for month in (1, 2) for day in range(1, 10)]
    assert form_of(days) == ("MDY", False)
    assert form_of(
        [f"{day}/{month}/2025" for _, month, day in map(str.split, [f"x {d[:2]} {d[3:5]}" for d in days])]
    ) == (
        "DMY",
        False,
    )
    assert "no day is beyond 12, so that this is a guess; write 2025-12-31 to be sure" in told(
        chunk(when=days, y=range(18)), "time: "
    )
    assert form_of(["01.02.2025", "02.02.2025"]) == ("DMY", True)


@pytest.mark.parametrize(
    ("text", "order", "iso"),
    [
        ("12/31/2025 12:05 AM", "MDY", "2025-12-31 00:05:00"),
        ("12/31/2025 12:05:07.25 pm", "MDY", "2025-12-31 12:05:07.250000"),
        ("31/12/2025 13:00 PM", "DMY", None),
        ("32.12.2025", "DMY", None),
        ("31-Foo-2025", "DMY", None),
        ("31.12.2025 24:00", "DMY", None),
        ("2025.12.31", "DMY", None),
        ("31.12.99 23:59:60", "DMY", "2000-01-01 00:00:00"),
        ("1/1/00", "MDY", "2000-01-01 00:00:00"),
        ("31-Dec-68", "DMY", "2068-12-31 00:00:00"),
        ("01.01.69", "DMY", "1969-01-01 00:00:00"),
    ],
)
def test_a_date_is_read_in_its_order_or_not_at_all(text, order, iso):
    assert as_iso(text, order) == iso


def test_year_month_day_and_hour_in_four_columns_are_the_time():
    rows = chunk(
        Year=[2025] * len(HOURS),
        Month=["12"] * len(HOURS),
        Day=[d for d, _ in HOURS],
        Hour=[h + 6 for _, h in HOURS],
        y=[d % 7 for d, _ in HOURS],
    )
    assert told(rows, "time: ") == "time: Year, Month, Day, Hour, used as time of day and day of week"
    found, encoder = encoded(rows)
    assert found.times[3:5] == ["2025-12-02 00:00:00", "2025-12-02 06:00:00"]  # the hour 24 is the next day's 0
    assert encoder.schema.needed == ["y", "Year", "Month", "Day", "Hour"]
    assert encoder.encode(chunk(Year=[2025], Month=[None], Day=[1], Hour=[0], y=[1])).times == [""]
    assert Schema.from_dict(encoder.schema.to_dict()) == encoder.schema
    assert recognize(rows, "y", ["Hour"]).inputs == ("Hour",)


def test_repeated_times_are_told():
    rows = chunk(when=[f"2025-12-31 {i // 2:02d}:00" for i in range(20)], y=range(20))
    assert "(10 of the first 20 rows repeat the time of the row before)" in told(rows, "time: ")


@pytest.mark.parametrize(
    ("values", "numbers", "note"),
    [
        (["14.8 °C", "-3 °C", "1.5"], [14.8, -3, 1.5], "the unit °C is left out: x"),
        (["45%", "46 %", "n/a"], [45, 46, np.nan], "the unit % is left out: x"),
        (["1,234.5 kWh", "20 kWh", "3 kWh"], [1234.5, 20, 3], "the unit kWh is left out: x"),
        (["$1,234.5", "$ 7", "$8.5"], [1234.5, 7, 8.5], "the unit $ is left out: x"),
        (["1,5 m3/h", "2,5 m3/h", "3 m3/h"], [1.5, 2.5, 3], "decimal comma: x"),
        (["\u22121.5", "2", "3"], [-1.5, 2, 3], "the sign \u2212 counts as minus: x"),
        (["1,234.5", "2", "3.5"], [1234.5, 2, 3.5], "thousands separators: x"),
    ],
)
def test_numbers_with_units_and_signs_are_numbers_with_a_note(values, numbers, note):
    rows = chunk(x=values, y=[1, 2, 3])
    assert told(rows, note) == note
    encoder = RowEncoder(recognize(rows, "y"))
    np.testing.assert_array_equal(encoder.encode(rows).X[:, 0], numbers)
    assert Schema.from_dict(encoder.schema.to_dict()) == encoder.schema


def test_numbers_in_different_units_and_text_with_digits_are_no_numbers():
    rows = chunk(x=["14 °C", "58 °F", "15 °C"], size=["5XL", "3XL", "L"], y=[1, 2, 3])
    assert told(rows, "ignored: x") == "ignored: x (numbers in different units: °C, °F)"
    assert recognize(rows, "y").column("size").kind == "category"
    with pytest.raises(RowsError, match="cannot be an input: numbers in different units"):
        recognize(rows, "y", ["x"])


def test_a_later_value_that_does_not_fit_its_column_makes_a_bad_row():
    for first, later, holds in (
        ([f"2024-01-01T{i:02d}:00" for i in range(20)], "later", "the time"),
        ([f"{d:02d}.12.2025 {h:02d}:00" for d, h in HOURS], "12.31.2025 00:00", "the time"),
        (["14 °C", "15 °C", "16 °C"], "58 °F", "numbers"),
        (["1"] * 20, "two", "numbers"),
    ):
        encoder = RowEncoder(recognize(chunk(x=first, y=[i % 7 for i in range(len(first))]), "y"))
        rows = encoder.encode(chunk(x=[first[0], later, first[0]], y=["1", "2", "3"]))
        assert rows.bad == [BadRow(3, f"has {later!r} in the column 'x', which holds {holds}")]
        assert (rows.y.tolist(), rows.lines) == ([1, 3], [2, 4])


def test_infinity_and_integers_beyond_all_floats_make_bad_rows():
    for first, later in ((["1", "2"], "inf"), ([1, 2], 10**400), ([1, 2], -(10**400))):
        encoder = RowEncoder(recognize(chunk(x=first, y=first), "y"))
        bad = encoder.encode(chunk(x=[later, first[0]], y=[first[0], later])).bad
        assert bad == [BadRow(2 + i, f"has an infinite number in the column {name!r}") for i, name in enumerate("xy")]
    assert encoder.encode_complete([{"x": 10**400, "y": 1}]) is None


@pytest.mark.parametrize("value", [-999, -9999, 9999])
def test_values_that_may_stand_for_missing_ones_are_told(value):
    rows = chunk(x=[str(3.5 * (i % 9)) if i % 5 else str(value) for i in range(30)], y=[i % 7 for i in range(30)])
    assert told(rows, "missing") == f"{value} may stand for missing values (declare it in a `schema` if so): x"
    near = chunk(x=[str(value + 0.5 * (i % 9)) for i in range(30)], y=[i % 7 for i in range(30)])
    assert not any("missing" in sentence for sentence in recognize(near, "y").sentences())


def test_none_and_empty_cells_of_a_category_are_levels_of_their_own():
    rows = chunk(alarm=["None", "low", "high", "", "NA", None], y=[1, 2, 3, 4, 5, 6])
    schema = recognize(rows, "y")
    assert schema.column("alarm").levels == ("(empty)", "NA", "None", "high", "low")
    X = RowEncoder(schema).encode(rows).X
    assert X.argmax(axis=1).tolist() == [2, 4, 3, 0, 1, 0]
    assert recognize(chunk(note=["", "checked", ""], y=[1, 2, 3]), "y").column("note").note == "constant text"


def test_a_value_that_is_neither_of_two_levels_counts_half():
    encoder = RowEncoder(recognize(chunk(kind=["a", "b", "a"], y=[1, 2, 3]), "y"))
    assert encoder.encode(chunk(kind=["a", "b", "c", None], y=[1, 2, 3, 4])).X[:, 0].tolist() == [0, 1, 0.5, 0.5]

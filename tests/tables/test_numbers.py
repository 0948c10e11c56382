"""Numbers as people write them, and what is said of those that can be read in two ways."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.job import Job
from streamgp.job.comparison import compare_models
from streamgp.tables.columns import Schema
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.numbers import as_number
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError
from tests.cli.test_run import SMALL, streamgp
from tests.tables.test_columns import chunk


def read(target="y", inputs=None, decimal=None, **columns):
    """The numbers of all columns by name, and the schema."""
    rows = chunk(**columns)
    schema = recognize(rows, target, inputs, decimal=decimal)
    encoded = RowEncoder(schema).encode(rows)
    assert encoded.bad == []
    values = dict(zip(schema.input_names, encoded.X.T.tolist(), strict=True))
    return values | {target: encoded.y.tolist()}, schema


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1.5", 1.5, None),
        ("1,5", None, 1.5),
        ("0,208", None, 0.208),
        ("0.208", 0.208, None),
        ("1,096", 1096.0, 1.096),
        ("1.096", 1.096, 1096.0),
        ("-12,345,678.25", -12345678.25, None),
        ("12.345.678,25", None, 12345678.25),
        ("1234,567", None, 1234.567),
        ("1 234.5", 1234.5, None),
        ("1\u202f234,5", None, 1234.5),
        ("1\u00a0234\u00a0567", 1234567.0, 1234567.0),
        ("1'234.5", 1234.5, None),
        ("1\u2019234", 1234.0, 1234.0),
        ("1'234,567", None, 1234.567),
        ("\u22121.5", -1.5, None),
        ("\u22121,5e3", None, -1500.0),
        ("1.5D+03", 1500.0, None),
        ("-.25d-2", -0.0025, None),
        ("1,23,456", None, None),
        ("1,2345.5", None, None),
        ("3D1", None, None),
        ("5%", None, None),
        ("", math.nan, math.nan),
        (" - ", math.nan, math.nan),
        (".", math.nan, math.nan),
        ("n/a", math.nan, math.nan),
        ("\u2212", math.nan, math.nan),
    ],
)
def test_a_number_is_what_its_decimal_mark_makes_of_it(text, point, comma):
    assert [as_number(text, mark) for mark in ".,"] == pytest.approx([point, comma], nan_ok=True)


@pytest.mark.parametrize(
    "columns",
    [
        {"y": ["685", "822", "1,096", "1,233"]},
        {"y": ["1,096", "1,233", "2,000"], "x": ["1", "2", "3"]},
        {"y": ["1,096", "1.096", "3"]},
        {"y": ["1", "5", "7"], "x": ["685", "1,096", "12"]},
        {"y": ["1.096", "685", "1.233"], "x": ["1,5", "2,5", "3,25"]},  # a point beside decimal commas
        {"y": ["1,096", "685", "3"], "x": ["1,5", "2,5", "3"], "z": ["1.5", "2.5", "3"]},  # others disagree
    ],
)
def test_a_column_that_can_be_read_in_two_ways_is_asked_about(columns):
    rows = chunk(**columns)
    with pytest.raises(
        RowsError, match=r"the column '[xy]' has '1[,.][0-9]*', which may be 1.* or 1.*; say which with"
    ):
        recognize(rows, "y")
    for mark in ".,":
        assert recognize(rows, "y", decimal=mark).column("y").decimal == mark


def test_the_sentence_says_what_each_answer_means():
    with pytest.raises(RowsError) as error:
        recognize(chunk(sales=["685", "1,096"]), "sales")
    assert str(error.value) == (
        "the column 'sales' has '1,096', which may be 1096 or 1.096; "
        "say which with `decimal=.` (1096) or `decimal=,` (1.096)"
    )
    assert read("sales", decimal=".", sales=["685", "1,096"])[0]["sales"] == [685, 1096]
    assert read("sales", decimal=",", sales=["685", "1,096"])[0]["sales"] == [685, 1.096]
    with pytest.raises(ValueError, match="decimal must be one of '.', ','; got ';'"):
        recognize(chunk(sales=["685", "1,096"]), "sales", decimal=";")


def test_a_column_that_nobody_asked_for_is_not_asked_about():
    numbers, _ = read(inputs=["x"], y=["1", "2", "4"], x=["3", "5", "6"], sales=["685", "1,096", "7"])
    assert numbers == {"x": [3, 5, 6], "y": [1, 2, 4]}


def test_every_value_of_the_first_rows_counts_and_each_column_for_itself():
    n = 200
    sales = [f"{1000 + i:,}" for i in range(n - 1)] + ["999.5"]
    price = [f"{i}.5" for i in range(n - 1)] + ["1,234.5"]
    numbers, schema = read("sales", sales=sales, price=price)
    assert numbers["sales"] == [*range(1000, 1000 + n - 1), 999.5]
    assert numbers["price"][-2:] == [198.5, 1234.5]
    assert "thousands separators: sales, price" in schema.sentences()
    numbers, schema = read("y", y=["1,5", "12.345,25", "7"], x=["1.5", "2.5", "1,000.5"])
    assert numbers == {"y": [1.5, 12345.25, 7], "x": [1.5, 2.5, 1000.5]}
    assert schema.sentences()[2:] == ["decimal comma: y", "thousands separators: y, x"]
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_column_that_leaves_it_open_is_written_like_the_others():
    numbers, schema = read(y=["1,096", "685"], x=["3.50", "2.25"])
    assert numbers["y"] == [1096, 685]
    assert "thousands separators: y" in schema.sentences()
    numbers, schema = read(y=["1,096", "685"], x=["3,50", "2,25"])
    assert numbers["y"] == [1.096, 685]
    assert "decimal comma: y, x" in schema.sentences()


def test_text_with_something_like_a_number_in_it_says_nothing_of_the_others():
    n = 20
    notes = ["1,5" if i == 3 else "ab"[i % 2] for i in range(n)]
    numbers, schema = read(y=[f"{i},096" for i in range(n)], x=[f"{i}.5" for i in range(n)], notes=notes)
    assert schema.column("notes").kind == "category"
    assert numbers["y"][:3] == [0.096, 1.096, 2.096]  # 0,096 has a decimal comma in any case


@pytest.mark.parametrize(
    ("first", "later", "reason"),
    [
        (["1,096.5", "685"], "1,5", "has '1,5' in the column 'y', whose numbers have a decimal point"),
        (["1,5", "685"], "1.5", "has '1.5' in the column 'y', whose numbers have a decimal comma"),
        (["1", "685"], "1,5", "has '1,5' in the column 'y', whose first numbers have no comma; say what it means with"),
        (["1", "685"], "1,096", "has '1,096' in the column 'y', whose first numbers have no comma; say what it means"),
        (["1.5", "685"], "1,2,3", "has '1,2,3' in the column 'y', which holds numbers"),
    ],
)
def test_a_later_value_that_does_not_fit_is_a_bad_row(first, later, reason):
    encoder = RowEncoder(recognize(chunk(y=first), "y"))
    (bad,) = encoder.encode(chunk(y=[later])).bad
    assert bad.reason.startswith(reason)


def test_later_values_that_fit_are_read_alike():
    def later(first, values):
        return RowEncoder(recognize(chunk(y=first), "y")).encode(chunk(y=values)).y.tolist()

    assert later(["1.5", "2"], ["1,096", "3.25"]) == [1096, 3.25]
    assert later(["1,5", "2"], ["1.096", "1,096", "3"]) == [1096, 1.096, 3]
    assert later(["1", "2"], ["1,234,567", "1,234.5", "1.096"]) == [1234567, 1234.5, 1.096]


def test_marks_for_missing_values_are_read_and_told():
    y = ["0.5", "-", "1.5", "?", "2.5", ".", "NA", "None", "null", "n/a", "nan", "", "3.5"]
    numbers, schema = read(y=y, x=[str(i * i) for i in range(len(y))])
    assert np.nansum(numbers["y"]) == 8.0
    assert np.isnan(numbers["y"]).sum() == 9
    assert schema.sentences()[2:] == [f"{mark!r} counts as missing: y" for mark in ("-", "?", ".")]


def test_a_target_of_text_shows_the_values_that_are_no_numbers():
    y = [str(0.5 * i) for i in range(20)] + ["bad", "bad", "off", "x" * 50]
    with pytest.raises(RowsError, match="the target 'y' must hold numbers; it holds 'bad', 'off', 'xxxxxxx"):
        recognize(chunk(y=y), "y")


def test_dates_of_eight_digits_are_times_if_they_say_so():
    days = [f"202401{i:02d}" for i in range(1, 31)]
    y = [str(i % 7) for i in range(30)]
    schema = recognize(chunk(day=days, y=y), "y")
    assert (schema.time, schema.cycles, schema.inputs) == ("day", ("day of week",), ())
    assert recognize(chunk(day=list(map(int, days)), y=y), "y").time == "day"
    assert recognize(chunk(date=days[::-1], y=y), "y").time == "date"  # called so
    assert recognize(chunk(id=days[::2] + days[1::2], y=y), "y").inputs == ("id",)
    assert recognize(chunk(day=days, y=y), "y", ["day"]).inputs == ("day",)  # asked for
    assert recognize(chunk(number=[str(20240090 + i) for i in range(30)], y=y), "y").time == ""
    schema = recognize(chunk(at=[f"2024-01-{i:02d}" for i in range(1, 31)], day=days, y=y), "y")
    assert (schema.time, schema.column("day").note) == ("at", "dates")


# From the first row to the last


@pytest.fixture
def sales(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("day,sales\n" + "".join(f'{i % 7},"{137 * i + 685:,}"\n' for i in range(60)))
    return path


def test_a_run_asks_and_takes_the_answer(sales, tmp_path):
    asked = streamgp("run", sales, "--target", "sales", *SMALL)
    assert asked.exit_code == 3
    assert "the column 'sales' has '1,096', which may be 1096 or 1.096" in asked.stderr
    saved = tmp_path / "m.sgp"
    done = streamgp("run", sales, "--target", "sales", "--set", "decimal=.", "--save", saved, *SMALL)
    assert done.exit_code == 0, done.stderr
    assert "thousands separators: sales" in done.stderr
    assert [line.split(",")[5] for line in done.stdout.splitlines()[1:6]] == [
        "685.0",
        "822.0",
        "959.0",
        "1096.0",
        "1233.0",
    ]
    with open(sales, "a") as file:
        file.write('1,"9,000"\n1,"9,5"\n')
    more = streamgp("run", sales, "--load", saved)
    assert more.exit_code == 3
    assert more.stdout.splitlines()[1].split(",")[5] == "9000.0"
    assert "line 63 has '9,5' in the column 'sales', whose numbers have a decimal point" in more.stderr
    wrong = streamgp("run", sales, "--target", "sales", "--set", "decimal=x", *SMALL)
    assert wrong.exit_code == 2
    assert "decimal must be one of '.', ','; got 'x'" in wrong.stderr


def test_models_are_compared_on_numbers_read_as_asked(sales):
    settings = {"decimal": ".", "tune": False, "warmup": 20, "capacity": 8}
    with pytest.raises(RowsError, match="may be 1096 or 1.096"):
        compare_models(sales, "sales", ["KRLST", "SOGP"])
    assert compare_models(sales, "sales", ["KRLST", "SOGP"], settings=settings).rows == 40
    summary = Job(sales, "sales", model="KRLST", settings=settings).run()
    assert summary.pipeline.scores.summary()["rmse_previous_value"] == pytest.approx(137.0)

"""Schemas that users declare, and levels that appear later."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from streamgp.tables.columns import Schema
from streamgp.tables.declared import as_toml, declared_columns, misspelled, read_schema
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError
from tests.tables.test_columns import chunk

ROWS = {
    "t": ["14.8 °C", "n/a", "-999", "15.1 °C"],
    "code": ["1", "2", "1", "3"],
    "note": ["a", "b", "a", "c"],
    "mode": ["on", "on", "off", "on"],
    "y": ["1", "2", "3", "4"],
}


def test_a_schema_says_what_columns_are():
    said = {"t": {"unit": "°C", "missing": [-999]}, "code": "category", "note": "ignore", "mode": {"kind": "category",
            "levels": ["on", "off", "eco"]}}  # fmt: skip
    schema = recognize(chunk(**ROWS), "y", declared=declared_columns("schema", said), growing=True)
    assert schema.inputs == ("t", "code", "mode")
    encoder = RowEncoder(schema)
    rows = encoder.encode(chunk(**ROWS))
    assert encoder.input_names[:4] == ["t", "code=1", "code=2", "code=3"]
    np.testing.assert_array_equal(rows.X[:, 0], [14.8, np.nan, np.nan, 15.1])
    assert encoder.input_names[4:7] == ["mode=on", "mode=off", "mode=eco"]
    assert schema.column("note").note == "as declared"
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    plain = encoder.encode(chunk(t=[1.5, -999.0], code=["1", "1"], mode=["on", "new"], y=[1.0, 2.0]))
    np.testing.assert_array_equal(plain.X[:, 0], [1.5, np.nan])
    assert (encoder.joined, encoder.strangers) == ([], {"mode": 1})  # its levels are all that there are


def test_what_was_recognized_can_be_declared_again(tmp_path):
    rows = {"t": ROWS["t"] * 5, "mode": ROWS["mode"] * 5, "a name, with signs": ["x", "y"] * 10, "y": list("12345") * 4}
    schema = recognize(chunk(**rows), "y")
    found = schema.declared()
    assert found["t"] == {"kind": "number", "unit": "°C", "missing": [-999.0]}
    assert tomllib.loads(as_toml(found)) == found
    (tmp_path / "s.toml").write_text(as_toml(found), encoding="utf-8")
    (tmp_path / "s.json").write_text(json.dumps(found))
    for name in ("s.toml", "s.json"):
        again = recognize(chunk(**rows), "y", declared=declared_columns("schema", read_schema(tmp_path / name)))
        assert again.input_names == schema.input_names


@pytest.mark.parametrize(
    ("t", "known"),
    [
        (["14,8", "-999,0", "15,1", "-1,5", "16,25"], [14.8, np.nan, 15.1, -1.5, 16.25]),
        (["14,8 °C", "-999,0 °C", "15,1 °C", "-1,5 °C", "-999 °C"], [14.8, np.nan, 15.1, -1.5, np.nan]),
        (["14.8", "-999", "-999.0", "15.1", "-1.5"], [14.8, np.nan, np.nan, 15.1, -1.5]),
    ],
)
def test_a_declared_number_stands_for_missing_values_however_it_is_written(t, known):
    rows = chunk(t=t, y=["1,5", "2", "3", "4,5", "5"])
    found = recognize(rows, "y").declared()
    assert found["t"]["missing"] == [-999.0]
    schema = recognize(rows, "y", declared=declared_columns("schema", found))
    assert "may stand for missing values" not in " ".join(schema.sentences())
    np.testing.assert_array_equal(RowEncoder(schema).encode(rows).X[:, 0], known)


def test_a_declared_number_is_read_with_the_mark_of_its_column():
    rows = chunk(t=["14,8", "1,096", "15,1"], y=["1", "2", "3"])
    schema = recognize(rows, "y", declared=declared_columns("schema", {"t": {"missing": [1096]}}))
    assert RowEncoder(schema).encode(rows).X[:, 0].tolist() == [14.8, 1.096, 15.1]


def test_a_column_whose_values_never_return_is_no_category():
    def told(values, **options):
        rows = chunk(order=list(values), x=list(range(len(values))), y=list("12345678") * (len(values) // 8))
        return {c.name: c for c in recognize(rows, "y", **options).columns}["order"]

    orders = [f"FA{99 + i // 40}" for i in range(240)]
    orders[50] = ""
    assert told(orders).kind == "ignored"
    assert told(orders).note.startswith("each value comes once and never returns, as an order number does")
    assert told([f"{'zkqbxmaecdfgh'[i // 40]}-lot" for i in range(520)]).kind == "ignored"
    assert told(orders, inputs=["order"]).kind == "category"
    assert told(orders, declared=declared_columns("schema", {"order": "category"})).kind == "category"
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    for returning in (
        [*orders, *orders[:80]],
        [days[i // 280] for i in range(1960)],
        [f"phase {i // 100}" for i in range(400)],
        [f"P{(7 * (i // 40)) % 11}" for i in range(400)],
        ["before"] * 100 + ["after"] * 100,
    ):
        assert told(returning).kind == "category"


def test_bad_schemas_are_refused_with_a_way_out(tmp_path):
    for said, message in (
        ([1], "says by column what it is"),
        ({"t": "numbr"}, "kind must be one of .* Did you mean 'number'"),
        ({"t": 5}, "must be one of number, category"),
        ({"t": {"unti": "C"}}, "has 'unti'. Did you mean 'unit'"),
        ({"t": {"kind": "number", "levels": ["a", "b"]}}, "has levels, so its kind must be 'category'"),
        ({"t": {"kind": "category", "levels": ["a", "a"]}}, "has the level 'a' twice"),
        ({"t": {"kind": "category", "levels": ["a"]}}, "has one level, 'a'"),
        ({"t": {"kind": "time", "unit": "s"}}, "has a unit, so its kind must be 'number'"),
        ({"t": {"missing": -999}}, "missing must be a list"),
        ({"t": {"missing": [None]}}, "must hold texts and numbers"),
        ({"t": {"unit": 3}}, "unit must be a text"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            declared_columns("schema", said)
    for said, message in (
        ({"tt": "number"}, "has the column 'tt', but the table has not. Did you mean 't'"),
        ({"y": "category"}, "says that 'y' is 'category', but it is the target"),
        ({"t": "time", "code": "time"}, "two times, 't' and 'code'"),
    ):
        with pytest.raises(RowsError, match=message):
            recognize(chunk(**ROWS), "y", declared=declared_columns("schema", said))
    with pytest.raises(RowsError, match="'t' is 'ignore', but it is an input"):
        recognize(chunk(**ROWS), "y", ["t"], declared=declared_columns("schema", {"t": "ignore"}))
    (tmp_path / "bad.toml").write_text("t = ")
    with pytest.raises(RowsError, match="is not TOML"):
        read_schema(tmp_path / "bad.toml")
    with pytest.raises(RowsError, match="cannot be read"):
        read_schema(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"must be a \.toml or \.json file"):
        read_schema(tmp_path / "s.yaml")


def test_levels_that_appear_later_take_spare_inputs_in_their_order():
    first = chunk(mode=["day", "night"] * 10, kind=["a"] * 20, x=list("12345") * 4, y=list("12345") * 4)
    schema = recognize(first, "y", growing=True)
    assert schema.column("kind").levels == ("a",)
    encoder = RowEncoder(schema)
    assert encoder.encode(first).X[:, -3:].sum() == 0
    later = {"mode": ["off", "day", "eco", "off", "new"], "kind": ["a", "b", "a", "a", ""], "x": list("12345")}
    rows = encoder.encode(chunk(**later, y=list("12345")))
    assert encoder.joined == [("mode", "off"), ("mode", "eco"), ("mode", "new")]
    assert encoder.input_names[-3:] == ["mode=off", "mode=eco", "mode=new"]
    np.testing.assert_array_equal(rows.X[:, -3:], [[1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    assert encoder.strangers == {"kind": 1}
    assert "new level: off of mode has an input of its own" in encoder.sentences()
    assert "unknown level: 1 values of kind count as none of its levels" in encoder.sentences()
    assert recognize(first, "y").spare == 0
    bad = RowEncoder(schema)
    assert bad.encode(chunk(mode=["off"], kind=["a"], x=["?!"], y=["1"])).bad
    assert bad.joined == []  # of a row that is not used


def test_misspelled_names_are_told_from_other_names():
    assert misspelled("temperatur", ["temperature", "power"]) == "temperature"
    assert misspelled("mdoe", ["mode"]) == "mode"
    assert misspelled("sensor_12", ["sensor_11"]) == ""
    assert misspelled("x2", ["x1"]) == ""
    assert misspelled("wind", ["temperature"]) == ""

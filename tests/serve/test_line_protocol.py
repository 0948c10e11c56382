"""Line protocol: what is written is read back, and what is wrong is told by its line."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgp.serve.line_protocol import LineError, points, written

# Names as line protocol can have them: no line ends, no backslash at the end, no hash at the beginning.
NAMES = st.text(st.sampled_from("ab1 ,=\\\"'#é_-."), min_size=1, max_size=8).filter(
    lambda text: not text.endswith("\\") and not text.startswith(("#", " "))
)
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.text(st.sampled_from('ab ,=\\"\n#é'), max_size=8),
)
POINTS = st.tuples(
    NAMES,
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=3),
    st.none() | st.integers(-(2**62), 2**62),
)


def unescaped(text, marks):
    """The definition, one character after the other."""
    out, at = "", 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in marks and at + 1 < len(text):
            at += 1
        out, at = out + text[at], at + 1
    return out


@given(st.lists(POINTS, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_is_read_back(expected, end):
    text = end.join(["# a comment", *(written(*point) for point in expected), ""])
    assert [point[1:] for point in points(text)] == expected


@given(NAMES)
def test_names_are_unescaped_as_defined(name):
    text = written("m", {name: name}, {name: 1.0}).removeprefix("m,").removesuffix("=1.0")
    assert unescaped(text, ",= ") == f"{name}={name} {name}"


def test_the_kinds_of_values():
    line = 'm a=1,b=-1.5e-3,c=7i,d=18446744073709551615u,e=t,f=FALSE,g="a,b =c",h=.5,i=+2,j=3.'
    (point,) = points(line)
    assert point.fields == {
        "a": 1.0, "b": -1.5e-3, "c": 7, "d": 2**64 - 1, "e": True, "f": False, "g": "a,b =c", "h": 0.5, "i": 2.0,
        "j": 3.0,
    }  # fmt: skip
    assert [type(value) for value in point.fields.values()] == [float, float, int, int, bool, bool, str] + 3 * [float]


def test_timestamps_have_units_and_may_be_missing():
    for unit, factor in {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}.items():
        assert next(points("m a=1 1700000000", unit)).time == 1700000000 * factor
    assert next(points("m a=1")).time is None
    assert next(points("  m   a=1   -5  \n")).time == -5


def test_lines_are_counted_with_comments_empty_lines_and_line_ends_in_strings():
    text = '# one\n\n  \nm a="x\ny"\r\nm b=1\n\n#end'
    assert [(point.line, list(point.fields)) for point in points(text)] == [(4, ["a"]), (6, ["b"])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m", "line 1 is not line protocol: 'm'; write measurement,tag=value field=1.5 timestamp"),
        ("ok a=1\nm,a a=1", "line 2 is not line protocol: 'm,a a=1'"),
        *((text, "line 1 is not") for text in ("m,a= b=1", "m a=", "m a=1,", 'm a="b', 'm a="b"c 1', ",a=1 b=2")),
        *((text, "line 1 is not") for text in ("m a=1 12.5", "m a=1 1 2")),
        ("m,a=1,a=2 b=1", "line 1 has the tag 'a' twice"),
        ("m a=1,a=2", "line 1 has the field 'a' twice"),
        ("m a=nan", "line 1 has 'nan' in the field 'a', which is no number; put text in double quotes"),
        ("m a=1e999", "line 1 has '1e999' in the field 'a', which is no number"),
        ("m a=9223372036854775808i", "line 1 has '9223372036854775808i' in the field 'a'"),
        ("m a=-1u", "line 1 has '-1u' in the field 'a'"),
        ("m a=1 99999999999999999999", "line 1 has the timestamp 99999999999999999999, which is out of range"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(text, message):
    with pytest.raises(LineError) as caught:
        list(points(text))
    assert str(caught.value).startswith(message)


def test_a_point_without_finite_fields_is_no_line_and_names_that_cannot_be_are_refused():
    assert written("m", {"a": ""}, {"x": math.nan, "y": math.inf}) == ""
    for name in ("", "a\\", "a\nb", "#a"):
        with pytest.raises(ValueError, match="line protocol cannot have the name"):
            written(name, {}, {"x": 1.0})


@given(st.text(st.sampled_from('ma,= "\\\n\r1i#'), max_size=30))
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(LineError):
        for point in points(text):
            assert point.fields

from __future__ import annotations

import gzip
import io
import json
import sys
import threading
import time

import pytest

from streamgp.tables import BadRow, RowsError, read_rows, source
from streamgp.tables.source import same_source


def everything(reader):
    """All rows of a reader, with their lines, and the bad ones."""
    columns, lines, bad = {}, [], []
    try:
        for chunk in reader.chunks():
            for name, values in chunk.columns.items():
                columns.setdefault(name, []).extend(values)
            lines += chunk.lines
            bad += chunk.bad
    finally:
        reader.close()
    return columns, lines, bad


def written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("block", [1, 3, 10, 1 << 17])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_and_their_lines_do_not_depend_on_how_the_file_is_cut(tmp_path, monkeypatch, block, end):
    monkeypatch.setattr(source, "BLOCK", block)
    text = end.join(["x,y", "1,2", "", '3,"a,b"', '5,"two', 'lines"', "7,8", ""])
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    columns, lines, bad = everything(read_rows(path))
    assert columns["x"] == ["1", "3", "5", "7"]
    assert [value.replace("\r", "") for value in columns["y"]] == ["2", "a,b", "two\nlines", "8"]
    assert (lines, bad) == ([2, 4, 6, 7], [])


def test_the_last_line_needs_no_end(tmp_path):
    columns, _, _ = everything(read_rows(written(tmp_path / "a.csv", "x,y\n1,2\n3,4")))
    assert columns == {"x": ["1", "3"], "y": ["2", "4"]}


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_separator_is_recognised(tmp_path, sign):
    columns, _, _ = everything(read_rows(written(tmp_path / "a.csv", f"x{sign}y{sign}z\n1{sign}2{sign}3\n")))
    assert columns == {"x": ["1"], "y": ["2"], "z": ["3"]}


def test_without_names_the_columns_are_numbered(tmp_path):
    reader = read_rows(written(tmp_path / "a.csv", "1,2.5\n3,4\n"))
    columns, lines, _ = everything(reader)
    assert (columns, lines, reader.headless) == ({"1": ["1", "3"], "2": ["2.5", "4"]}, [1, 2], True)


def test_compressed_and_marked_text_is_read(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfx,y\n1,2\n"))
    assert everything(read_rows(path))[0] == {"x": ["1"], "y": ["2"]}


def test_a_malformed_row_is_named_with_its_line_and_the_others_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'x,y\n1,2\n3\n4,5\n6,\xff\n7,"8"9\n10,11\n')
    columns, lines, bad = everything(read_rows(path))
    assert (columns["x"], lines) == (["1", "4", "10"], [2, 4, 7])
    assert bad[0] == BadRow(3, "has 1 value, expected 2 as in the first line: '3'")
    assert bad[1].line == 5
    assert "is not UTF-8 text; if it is Latin-1, convert the file: iconv" in bad[1].reason
    assert bad[2].line == 6
    assert "cannot be read as CSV" in bad[2].reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv is empty; expected a header row, then rows"),
        ("\n\n", "a.csv is empty"),
        ('x,y\n1,2\n3,"4\n5,6\n', "the file ends inside a quote that was opened in line 3"),
        ("x,y,x\n1,2,3\n", "line 1: two columns are named 'x'"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_a_reason(tmp_path, text, message):
    with pytest.raises(RowsError, match=message):
        everything(read_rows(written(tmp_path / "a.csv", text)))


def test_a_quote_that_stays_open_is_noticed_before_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 200)
    text = 'x,y\n1,"2\n' + "3,4\n" * 3000
    with pytest.raises(RowsError, match="a quote opened in line 2 is not closed within 1000 lines"):
        everything(read_rows(written(tmp_path / "a.csv", text)))


def test_a_missing_file_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(RowsError, match="there is no file"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(RowsError, match="there is no file"):
        read_rows(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="format must be 'csv', 'ndjson' or 'parquet'; got 'xml'"):
        read_rows(tmp_path / "a", format="xml")


@pytest.mark.parametrize("name", ["a.ndjson", "a.unknown"])
def test_json_lines_may_miss_values_and_name_bad_lines(tmp_path, name):
    text = '{"x": 1, "y": "b"}\n{"y": null}\n[1]\n\n{"x": 2.5, "z": 1}\n{"x"\n'
    columns, lines, bad = everything(read_rows(written(tmp_path / name, text)))
    assert columns == {"x": [1, None, 2.5], "y": ["b", None, None], "z": [None, None, 1]}
    assert lines == [1, 2, 5]
    assert bad == [BadRow(3, "is not a JSON object: '[1]'"), BadRow(6, "is not a JSON object: '{\"x\"'")]


def test_a_first_line_that_is_no_object_is_a_bad_row_like_any_other(tmp_path):
    columns, lines, bad = everything(read_rows(written(tmp_path / "a.ndjson", '{x\n{"x": 1}\n')))
    assert (columns, lines, bad) == ({"x": [1]}, [2], [BadRow(1, "is not a JSON object: '{x'")])


def test_parquet_rows_are_numbered(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": [1, None, 3], "y": ["a", "b", None]}), tmp_path / "a.parquet")
    reader = read_rows(tmp_path / "a.parquet")
    assert reader.unit == "row"
    assert everything(reader) == ({"x": [1, None, 3], "y": ["a", "b", None]}, [1, 2, 3], [])
    reader = read_rows(tmp_path / "a.parquet")
    position = reader.position(2)
    assert everything(read_rows(tmp_path / "a.parquet", after=position))[1] == [3]
    with pytest.raises(RowsError, match="is a Parquet file and cannot be followed; follow a CSV file"):
        read_rows(tmp_path / "a.parquet", follow=True)
    written(tmp_path / "b.parquet", "no parquet at all")
    with pytest.raises(RowsError, match="b.parquet cannot be read as Parquet"):
        read_rows(tmp_path / "b.parquet")


def test_reading_goes_on_after_the_line_where_it_stopped_if_it_is_the_same_file(tmp_path):
    path = written(tmp_path / "a.csv", 'x,y\n1,2\n3,"4\n5"\n6,7\n')
    reader = read_rows(path)
    everything(reader)
    position = reader.position(4)
    assert same_source(str(path), position)
    assert everything(read_rows(path, after=position))[:2] == ({"x": ["6"], "y": ["7"]}, [5])
    with open(path, "a") as file:
        file.write("8,9\n")
    assert everything(read_rows(path, after=position))[1] == [5, 6]
    other = written(tmp_path / "b.csv", "x,y\n3,2\n3,4\n5,6\n6,7\n")
    assert everything(read_rows(other, after=position))[1] == [2, 3, 4, 5]


def test_standard_input_is_read_as_it_comes(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n1,2\n")))
    reader = read_rows("-")
    assert reader.live
    assert everything(reader)[0] == {"x": ["1"], "y": ["2"]}
    assert not same_source("-", reader.position(2))


def test_a_file_that_grows_is_followed_until_it_is_told_to_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "POLL", 0.01)
    path, stop = written(tmp_path / "a.csv", "x,y\n1,2\n3,"), threading.Event()

    def append():
        for text in ("4\n", "5,6\n7", ",8\n"):
            time.sleep(0.05)
            with open(path, "a") as file:
                file.write(text)
        time.sleep(0.1)
        stop.set()

    thread = threading.Thread(target=append)
    thread.start()
    columns, lines, _ = everything(read_rows(path, follow=True, stop=stop))
    thread.join()
    assert (columns, lines) == ({"x": ["1", "3", "5", "7"], "y": ["2", "4", "6", "8"]}, [2, 3, 4, 5])


def test_a_followed_file_that_shrinks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "POLL", 0.01)
    path = written(tmp_path / "a.csv", "x,y\n1,2\n3,4\n")
    reader = read_rows(path, follow=True)
    chunks = reader.chunks()
    next(chunks)
    path.write_text("x,y\n")
    with pytest.raises(RowsError, match="had 12 bytes and now has 4: it shrank while being followed"):
        list(chunks)
    reader.close()


def test_a_compressed_file_cannot_be_followed(tmp_path):
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(gzip.compress(json.dumps({"x": 1}).encode()))
    with pytest.raises(RowsError, match="is compressed and cannot be followed"):
        read_rows(path, follow=True)

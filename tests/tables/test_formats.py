from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import threading
import time
from itertools import islice

import pytest

from streamgp.tables import formats, source
from streamgp.tables.formats import BadRow, read_rows
from streamgp.tables.source import OtherSourceError, RowsError, lines_to_pass


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
    text = end.join(["x,y", "1,2", "", '3,"a,b"', '5,"two', 'lines"', "ü,8", ""])
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    columns, lines, bad = everything(read_rows(path))
    assert columns["x"] == ["1", "3", "5", "ü"]
    assert [value.replace("\r", "") for value in columns["y"]] == ["2", "a,b", "two\nlines", "8"]
    assert (lines, bad) == ([2, 4, 6, 7], [])


def test_the_separator_is_recognised_and_the_last_line_needs_no_end(tmp_path):
    for sign in ",;\t|":
        for end in ("\n", ""):
            text = f"x{sign}y{sign}z\n1{sign}2{sign}3{end}"
            columns, _, _ = everything(read_rows(written(tmp_path / "a.csv", text)))
            assert columns == {"x": ["1"], "y": ["2"], "z": ["3"]}


def test_without_names_the_columns_are_numbered(tmp_path):
    reader = read_rows(written(tmp_path / "a.csv", "1,2.5\n3,4\n"))
    columns, lines, _ = everything(reader)
    assert (columns, lines, reader.headless) == ({"1": ["1", "3"], "2": ["2.5", "4"]}, [1, 2], True)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_text_is_known_to_be_compressed_by_its_first_bytes(tmp_path, pack):
    for name, text in (("a.csv", b"\xef\xbb\xbfx,y\n1,2\n"), ("a.ndjson.gz", b'{"x": "1", "y": "2"}')):
        (tmp_path / name).write_bytes(pack(text))
        assert everything(read_rows(tmp_path / name))[0] == {"x": ["1"], "y": ["2"]}


def test_what_is_no_text_is_told_by_what_it_is(tmp_path):
    path = tmp_path / "a.csv"
    for data, message in (
        (b"\x28\xb5\x2f\xfd\x24\x08A\0\0x,y\n", "is compressed with Zstandard; unpack it first: zstd -dc FILE |"),
        (b"PK\x03\x04\x14\0\0\0\x08\0x,y\n", "is a zip archive or an Excel workbook; unpack it, or save"),
        ("x,y\n1,2\n".encode("utf-16"), "is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8"),
        ("x,y\n1,2\n".encode("utf-16-le"), "is UTF-16LE text"),
        ("x,y\n1,2\n".encode("utf-16-be"), "is UTF-16BE text"),
        ("x,y\n1,2\n".encode("utf-32"), "is UTF-32 text"),
        ("größe,y\n1,2\n".encode("latin-1"), "line 1 of .* is not UTF-8 text; if it is Latin-1, convert"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is binary data, not text; give a CSV, NDJSON or Parquet file"),
        (bytes(range(256)) * 3, "is binary data, not text"),
        (bytes(5000), "is binary data, not text"),
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(RowsError, match=message):
            everything(read_rows(path))


def test_a_malformed_row_is_named_with_its_line_and_the_others_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'x,y\n1,2\n3\n4,5\n6,\xff\n7,"8"9\n10,11\nx,y\n')
    columns, lines, bad = everything(read_rows(path))
    assert (columns["x"], lines) == (["1", "4", "10"], [2, 4, 7])
    assert bad[0] == BadRow(3, "has 1 value, expected 2 as in the first line: '3'")
    assert bad[1].line == 5
    assert "is not UTF-8 text; if it is Latin-1, convert the file: iconv" in bad[1].reason
    assert bad[2].line == 6
    assert "cannot be read as CSV" in bad[2].reason
    assert bad[3] == BadRow(8, "repeats the header")


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


def test_a_line_without_end_is_refused_before_the_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LONGEST_LINE", 1 << 18)
    with pytest.raises(RowsError, match="line 3: no end of the line within 0 MiB; expected one row a line"):
        everything(read_rows(written(tmp_path / "a.csv", "x,y\n1,2\n" + "7" * (1 << 19))))


def test_too_many_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the table has 5001 columns; the limit is 5000. Keep those you need, for ex"):
        everything(read_rows(written(tmp_path / "a.csv", ",".join(f"c{i}" for i in range(5001)) + "\n")))


def test_what_cannot_be_opened_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(json.dumps({"x": 1}).encode()))
    for name, options, message in (
        ("none.csv", {}, "there is no file"),
        ("none.parquet", {}, "there is no file"),
        (".", {}, "cannot be read: Is a directory; give a CSV, NDJSON or Parquet file"),
        ("a" * 300, {}, "cannot be read: File name too long"),
        ("loop", {}, "cannot be read: Too many levels of symbolic links"),
        ("a", {"format": "xml"}, "format must be 'csv', 'ndjson' or 'parquet'; got 'xml'"),
        ("a.ndjson.gz", {"follow": True}, "is compressed and cannot be followed"),
    ):
        with pytest.raises(ValueError, match=message):
            read_rows(tmp_path / name, **options)


@pytest.mark.parametrize("name", ["a.ndjson", "a.unknown"])
def test_json_lines_may_miss_values_and_name_bad_lines(tmp_path, name):
    nested = '{"x": %s}' % ("[" * 100_000 + "]" * 100_000)
    assert everything(read_rows(written(tmp_path / name, f'{{x\n{{"x": 1}}\n{nested}\n'))) == (
        {"x": [1]},
        [2],
        [BadRow(1, "is not a JSON object: '{x'"), BadRow(3, "is nested too deeply for a row")],
    )
    text = '{"x": 1, "y": "b"}\n{"y": null}\n[1]\n\n{"x": 2.5, "z": 1}\n{"x"\n'
    columns, lines, bad = everything(read_rows(written(tmp_path / name, text)))
    assert columns == {"x": [1, None, 2.5], "y": ["b", None, None], "z": [None, None, 1]}
    assert lines == [1, 2, 5]
    assert bad == [BadRow(3, "is not a JSON object: '[1]'"), BadRow(6, "is not a JSON object: '{\"x\"'")]


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
    assert lines_to_pass(str(path), position) == 4
    assert everything(read_rows(path, after=position))[:2] == ({"x": ["6"], "y": ["7"]}, [5])
    with open(path, "a") as file:
        file.write("8,9\n")
    assert everything(read_rows(path, after=position))[1] == [5, 6]
    text = path.read_bytes()
    for changed in (b"x,y\n3,2\n3,4\n5,6\n6,7\n", text.replace(b"1,2", b"1,3"), text.replace(b"\n", b"\r\n")):
        path.write_bytes(changed)
        with pytest.raises(OtherSourceError, match="a.csv does not begin as the file that was read before"):
            read_rows(path, after=position)
    path.write_bytes(text[:8])
    with pytest.raises(OtherSourceError, match="a.csv is shorter than what was read before: it was cut, or it is"):
        read_rows(path, after=position)
    path.write_bytes(text)
    with pytest.raises(OtherSourceError, match="a.csv is not the source that was read before, which was a pipe"):
        read_rows(path, after=source.Position(4))


@pytest.mark.parametrize("follow", [False, True])
def test_a_file_of_which_more_was_read_before_was_cut_short(tmp_path, monkeypatch, follow):
    monkeypatch.setattr(source, "POLL", 0.01)
    monkeypatch.setattr(source, "FINGERPRINT", 20)
    path = written(tmp_path / "a.csv", "x,y\n" + "1,2\n" * 9 + "3,4")
    reader = read_rows(path)
    everything(reader)
    position = reader.position(11)
    if not follow:  # the last line may still wait for its end
        assert everything(read_rows(path, after=position))[1] == []
    written(path, "x,y\n" + "1,2\n" * 6)
    with pytest.raises(OtherSourceError, match="a.csv has 7 lines, but 11 of it were read before: it was cut short"):
        everything(read_rows(path, after=position, follow=follow))


def test_a_parquet_file_that_has_fewer_rows_was_cut_short(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": [1.0, 2.0]}), path)
    reader = read_rows(path)
    reader.close()
    position = reader.position(3)
    with pytest.raises(OtherSourceError, match="a.parquet has 2 rows, but 3 of it were read before"):
        read_rows(path, after=position)


# JSON arrays

ROWS = [{"x": i, "s": 'a "]}, {[' + "é" * (i % 3), "deep": {"k": [i, {"l": 1}]}, "y": i / 2} for i in range(50)]


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.csv", "a.json.gz"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\ufeff\n [" + ",\n".join(map(json.dumps, ROWS)) + "]\n\n",
        "[\r\n" + "\r\n,".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\r\n]",
    ],
    ids=["one line", "indented", "one row a line", "crlf"],
)
@pytest.mark.parametrize("block", [7, 100, 1 << 17])
def test_a_json_array_of_objects_is_a_table(tmp_path, monkeypatch, name, text, block):
    monkeypatch.setattr(source, "BLOCK", block)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    reader = read_rows(path)
    columns, numbers, bad = everything(reader)
    assert columns == {key: [row[key] for row in ROWS] for key in ROWS[0]}
    assert (numbers, bad, reader.unit) == (list(range(1, 51)), [], "row")
    assert everything(read_rows(path, after=reader.position(30)))[1] == list(range(31, 51))


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_that_has_grown_is_the_same_file(tmp_path, indent):
    path = written(tmp_path / "a.json", json.dumps(ROWS[:3], indent=indent))
    reader = read_rows(path)
    everything(reader)
    position = reader.position(3)
    written(path, json.dumps(ROWS[:5], indent=indent))
    assert everything(read_rows(path, after=position))[1] == [4, 5]
    written(path, json.dumps(ROWS[1:5], indent=indent))
    with pytest.raises(OtherSourceError, match="a.json does not begin as the file"):
        read_rows(path, after=position)
    written(path, json.dumps([{**ROWS[0], "y": 9}, *ROWS[1:]], indent=indent))
    with pytest.raises(OtherSourceError, match="a.json does not begin as the file"):
        read_rows(path, after=position)


def test_an_array_is_read_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LONGEST_LINE", 1 << 12)
    path = written(tmp_path / "a.json", json.dumps(ROWS * 40))
    reader = read_rows(path)
    monkeypatch.setattr(source, "BLOCK", 1 << 10)
    assert path.stat().st_size > 100_000
    assert max(len(chunk) for chunk in reader.chunks()) < 20
    reader.close()


@pytest.mark.parametrize(
    ("text", "kept", "message"),
    [
        ('[{"x": 1}, {"x": 2}', 2, "ends inside its JSON array, after row 2; the ] is missing"),
        ('[{"x": 1}, {"x": 2', 1, "row 2 is not JSON, or cut short: '{\"x\": 2'"),
        ('[{"x": 1}, {"x": ]}, {"x": 2}]', 1, 'row 2 is not JSON, or cut short: \'{"x": ]}, {'),
        ('[{"x": 1}, {"x": ]}, ' + "0," * 600_000, 1, 'row 2 is not JSON: \'{"x": ]}, 0,0'),
        ('[{"x": 1}] {"x": 2}', 1, "goes on after the end of its JSON array: '{\"x\": 2}'"),
        ('[{"x": 1}, {"x": ' + "[" * 99_999 + "]" * 99_999 + "}]", 1, "row 2 is nested too deeply for a row"),
        ('[{"x": 1}, {"x": "\xe9"}]', 0, "a.json is not UTF-8 text"),
    ],
    ids=["no end", "cut", "broken", "broken and long", "more", "nested", "latin-1"],
)
def test_an_array_that_is_cut_or_broken_is_told_by_its_row(tmp_path, text, kept, message):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    reader, rows = read_rows(path), []
    with pytest.raises(RowsError, match=re.escape(message)):
        rows.extend(chunk.lines for chunk in reader.chunks())
    reader.close()
    assert sum(map(len, rows)) == kept


def test_elements_that_are_no_objects_are_bad_rows(tmp_path):
    path = written(tmp_path / "a.json", '[{"x": 1}, 2, {"x": 3}, [4]]')
    columns, numbers, bad = everything(read_rows(path))
    assert (columns, numbers) == ({"x": [1, 3]}, [1, 3])
    assert bad == [BadRow(2, "is not a JSON object: '2'"), BadRow(4, "is not a JSON object: '[4]'")]
    assert everything(read_rows(written(path, "[]"))) == ({}, [], [])


def test_an_array_that_is_no_table_is_refused_in_a_few_words(tmp_path):
    path = written(tmp_path / "a.json", json.dumps([[i, i + 1] for i in range(5000)]))
    ((line, reason),) = everything(read_rows(path))[2]
    assert (line, reason[:25], len(reason) < 100) == (1, "is not a JSON object: '[[", True)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_are_counted_and_passed_over_in_whole_blocks(tmp_path, monkeypatch, end):
    """Of which a compressed file may have millions."""
    decoded = []
    decode = formats._decoded
    monkeypatch.setattr(formats, "_decoded", lambda block, line: decoded.append(len(block)) or decode(block, line))
    path = tmp_path / "a.csv.gz"
    blank = (end * 500_000).encode()
    path.write_bytes(gzip.compress(blank + b"x,y\n" + blank + b"1,2\n" + blank, 1))
    columns, lines, bad = everything(read_rows(path))
    assert (columns, lines, bad) == ({"x": ["1"], "y": ["2"]}, [1_000_002], [])
    assert sum(decoded) < 4 * source.BLOCK


def test_standard_input_is_read_as_it_comes(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n1,2\n")))
    reader = read_rows("-")
    assert reader.live
    assert everything(reader)[0] == {"x": ["1"], "y": ["2"]}
    assert lines_to_pass("-", reader.position(2)) == 0


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


class Followed:
    """A followed file, whose rows have been read."""

    def __init__(self, path):
        self.path, self.reader = written(path, "x,y\n1,2\n3,4\n"), read_rows(path, follow=True)
        self._chunks = self.reader.chunks()
        assert self.rows(2) == ["1", "3"]

    def rows(self, n):
        """The next rows, of the first column, or what comes instead."""
        found = []
        for chunk in islice(self._chunks, 500):
            found += [*([chunk.news] if chunk.news else []), *chunk.columns.get("x", []), *chunk.bad]
            if len(found) >= n:
                break
        return found

    def add(self, text):
        with open(self.path, "a") as file:
            file.write(text)


@pytest.fixture
def followed(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "POLL", 0.01)
    one = Followed(tmp_path / "t.csv")
    yield one
    one.reader.close()


@pytest.mark.parametrize("header", ["x,y\n", ""])
def test_a_rotated_file_is_followed_into_the_new_one(tmp_path, followed, header):
    path = followed.path
    with open(path, "a") as old:
        path.rename(tmp_path / "t.csv.1")
        path.touch()
        old.write("5,6\n7,8")  # by whoever has it open still; the last line has no end
    assert followed.rows(1) == ["5"]
    written(path, header + "9,10\n")
    assert followed.rows(3) == [f"{path} was replaced; continuing at the first line of the new file", "7", "9"]
    followed.add("11,12\n")
    assert followed.rows(1) == ["11"]
    position = followed.reader.position(2)
    followed.add("13,14\n")
    rest = everything(read_rows(path, after=position, names=["x", "y"]))[0]["x"]
    assert rest == (["11", "13"] if header else ["13"])


def test_what_comes_to_the_old_file_while_it_is_replaced_is_read(tmp_path, followed, monkeypatch):
    with open(followed.path, "a", buffering=1) as old:
        followed.path.rename(tmp_path / "t.csv.1")
        written(followed.path, "x,y\n9,10\n")
        late = iter(["5,6\n"])
        monkeypatch.setattr(followed.reader.source.stop, "wait", lambda _: old.write(next(late, "")))
        assert followed.rows(1) == ["5"]
        assert followed.rows(2)[1] == "9"


def test_a_bad_row_of_the_new_file_is_named_by_its_line_there(tmp_path, followed):
    followed.path.rename(tmp_path / "t.csv.1")
    written(followed.path, "x,y\n1,2\n3\n")
    told, first, bad = followed.rows(3)
    assert (told[-8:], first, bad.line) == ("new file", "1", 3)


def test_a_followed_file_that_is_moved_away_is_waited_for(tmp_path, followed):
    followed.path.rename(tmp_path / "t.csv.1")
    assert followed.rows(1) == [f"{followed.path} was moved; waiting for a new file"]
    (tmp_path / "t.csv.1").rename(followed.path)  # and back
    followed.add("5,6\n")
    assert followed.rows(1) == ["5"]


def test_a_followed_file_that_is_deleted_or_shrinks_is_refused(tmp_path, followed):
    written(followed.path, "x,y\n")
    with pytest.raises(RowsError, match="had 12 bytes and now has 4: it shrank while being followed"):
        followed.rows(1)
    other = Followed(tmp_path / "u.csv")
    other.path.unlink()
    with pytest.raises(RowsError, match="u.csv was deleted while being followed; the rows before are kept. Resume wi"):
        other.rows(1)
    other.reader.close()


@pytest.mark.parametrize(
    "text",
    [
        '"x","y"\n"a",1,2\n"b",3,4\n',
        '"x" "y"\n"1" 1 2\n"2" 3 4\n',
        "x\ty\n1\t1\t2\n2\t3\t4\n3\t5\t6\n",
        "x y\nMazda 1 2\nHonda 3 4\n",
    ],
)
def test_tables_of_r_whose_header_has_one_name_fewer_are_read(tmp_path, text):
    (tmp_path / "r.csv").write_text(text)
    reader = read_rows(tmp_path / "r.csv")
    (found,) = reader.chunks()
    reader.close()
    assert reader.names == ["row name", "x", "y"]
    assert found.columns["x"][:2] == ("1", "3")
    assert not found.bad


@pytest.mark.parametrize("text", ["x,y\n1,5,2\n2,5,3\n3,5,4\n4,5,5\n", "x,y\na,1,\nb,2,\n"])
def test_rows_that_are_too_long_for_another_reason_stay_bad(tmp_path, text):
    (tmp_path / "long.csv").write_text(text.replace("3,5,4", "9,5,4"))
    reader = read_rows(tmp_path / "long.csv")
    (found,) = reader.chunks()
    reader.close()
    assert reader.names == ["x", "y"]
    assert not found.lines
    assert found.bad[0].reason.startswith("has 3 values, expected 2")

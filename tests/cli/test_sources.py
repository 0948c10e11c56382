"""Sources that end in the middle, are compressed, rotated, sparse, binary or far too wide."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import threading
import time
from pathlib import Path

import pytest

from streamgp.job import Job, Observer, Pipeline
from streamgp.tables import source
from streamgp.tables.formats import read_rows
from streamgp.tables.source import RowsError
from tests.cli.test_run import SMALL, predictions, streamgp, table

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def run(path, *arguments):
    return streamgp("run", path, "--target", "y", *arguments, *SMALL)


def kept(path, *arguments):
    """Exit code, message, and the rows in --out and in --save, which are the same."""
    out, saved = path.with_name("o.csv"), path.with_name("m.sgp")
    done = run(path, "--out", out, "--save", saved, *arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    rows = len(predictions(out))
    assert Pipeline.load(saved).rows == rows
    return done.exit_code, done.stderr.splitlines()[-1], rows


def objects(path, rows=100):
    lines = [json.dumps({"x": i % 7, "y": float(i % 5)}) for i in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


# What comes before a fault is kept.


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("rows", [80, pytest.param(6000, marks=pytest.mark.more)])
def test_a_compressed_file_that_is_cut_short_keeps_its_rows(tmp_path, ending, rows):
    path = tmp_path / f"a.csv.{ending}"
    text = "x,y\n" + "".join(f"{i * i * 7919 % 977},{i * i % 101}\n" for i in range(rows))
    # Two parts, of which the second is cut: some formats give nothing of a part that is not whole.
    cut = len(text) * 2 // 3
    whole, part = PACK[ending](text[:cut].encode()), PACK[ending](text[cut:].encode())
    path.write_bytes(whole + part[: len(part) * 3 // 4])
    code, message, n = kept(path)
    assert (code, n >= text[:cut].count("\n") - 1, n < rows) == (3, True, True)
    assert f"streamgp: line {n + 2}: {path} is truncated or damaged here (" in message
    assert "the rows before are kept" in message
    path.write_bytes(PACK[ending](text.encode()))  # a whole copy
    done = streamgp("run", path, "--load", tmp_path / "m.sgp", "--out", tmp_path / "o.csv")
    assert done.exit_code == 0, done.stderr
    assert f"after line {n + 1}" in done.stderr
    (tmp_path / "plain.csv").write_text(text)
    assert run(tmp_path / "plain.csv").stdout == (tmp_path / "o.csv").read_text()


@pytest.mark.parametrize("digits", [401, 5000])
def test_an_endless_integer_is_an_infinite_number(tmp_path, digits):
    path = objects(tmp_path / "a.ndjson")
    with open(path, "a") as file:
        file.write('{"x": 1%s, "y": 1}\n' % ("0" * (digits - 1)))
    code, message, n = kept(path)
    assert (code, n) == (3, 100)
    assert "line 101 has an infinite number in the column 'x'. The run stopped there; the 100 rows before" in message


@pytest.mark.parametrize("depth", [200, 990, 100_000])
def test_a_deeply_nested_line_is_a_bad_row(tmp_path, depth):
    path = objects(tmp_path / "a.ndjson")
    with open(path, "a") as file:
        file.write('{"x": %s, "y": 1}\n' % ("[" * depth + "]" * depth))
    code, message, n = kept(path)
    assert (code, n) == (3, 100)
    assert "line 101 has '[[" in message or "line 101 is nested too deeply for a row" in message
    code, _, n = kept(path, "--on-error", "skip")
    assert (code, n) == (0, 100)


def test_a_quote_that_stays_open_keeps_the_rows_before_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n2,3\n" * 40 + '3,"4\n' + "5,6\n" * 1500)
    code, message, n = kept(path)
    assert (code, n) == (3, 80)
    assert "a quote opened in line 82 is not closed within 1000 lines" in message
    assert kept(path, "--on-error", "skip") == (code, message, n)  # there is no row to skip


def test_a_damaged_parquet_file_keeps_the_rows_before_the_damage(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = {"x": [float(i * i % 977) for i in range(5000)], "y": [float(i % 5) for i in range(5000)]}
    parquet.write_table(pa.table(columns), path, row_group_size=2500, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data[start + 40 : start + 400] = b"\xff" * 360
    path.write_bytes(data)
    code, message, n = kept(path)
    assert (code, n) == (3, 2000)
    assert f"row 2001: {path} is damaged here (" in message


def test_a_line_without_end_is_refused_before_the_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "LONGEST_LINE", 1 << 18)
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n2,3\n" * 40 + "7" * (1 << 19))
    code, message, n = kept(path)
    assert (code, n) == (3, 80)
    assert "line 82: no end of the line within 0 MiB; expected one row a line" in message


# Compressed files, whatever their names


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("name", ["a.csv.{}", "a.csv", "a.ndjson.{}"])
def test_compressed_files_are_known_by_their_first_bytes(tmp_path, ending, name):
    plain, path = table(tmp_path / "plain.csv"), tmp_path / name.format(ending)
    text = plain.read_text()
    if "ndjson" in name:
        text = "".join(json.dumps(row) + "\n" for row in predictions(plain))
    path.write_bytes(PACK[ending](text.encode()))
    done = run(path)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == run(plain).stdout


def test_a_parquet_file_is_known_by_its_first_bytes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": [1.0, 2.0], "y": [1.0, 3.0]}), tmp_path / "a.csv")
    assert len(run(tmp_path / "a.csv").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"\x28\xb5\x2f\xfd\x24\x08A\0\0x,y\n",
            "is compressed with Zstandard; unpack it first: zstd -dc FILE | streamgp",
        ),
        (
            b"PK\x03\x04\x14\0\0\0\x08\0x,y\n",
            "is a zip archive or an Excel workbook; unpack it, or save the sheet as CSV",
        ),
        ("x,y\n1,2\n".encode("utf-16"), "is UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8"),
        ("x,y\n1,2\n".encode("utf-16-le"), "is UTF-16LE text"),
        ("x,y\n1,2\n".encode("utf-16-be"), "is UTF-16BE text"),
        ("x,y\n1,2\n".encode("utf-32"), "is UTF-32 text"),
        (
            "größe,y\n1,2\n".encode("latin-1"),
            "line 1 of {} is not UTF-8 text; if it is Latin-1, convert the file: iconv",
        ),
        ("ort,y\nMünchen,2\nUlm,3\n".encode("latin-1"), "line 2 is not UTF-8 text; if it is Latin-1"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is binary data, not text; give a CSV, NDJSON or Parquet file"),
        (bytes(range(256)) * 3, "is binary data, not text"),
        (bytes(5000), "is binary data, not text"),
    ],
)
def test_what_is_no_text_is_told_by_what_it_is(tmp_path, data, message):
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    done = run(path)
    assert done.exit_code == 3
    assert message.format(path) in done.stderr.splitlines()[-1]


def test_compressed_standard_input_is_told_by_what_it_is():
    done = streamgp("run", "-", "--target", "y", *SMALL, input=gzip.compress(b"x,y\n1,2\n"))
    assert done.exit_code == 3
    assert "standard input is compressed; unpack it first, such as: gzip -dc FILE | streamgp run -" in done.stderr


def test_utf8_that_is_cut_between_two_blocks_is_text(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK", 2)  # in the middle of the first letter but one
    path = tmp_path / "a.csv"
    path.write_text("xä,y\n1,2\n3,4\n")
    assert run(path).exit_code == 0


def test_a_named_pipe_is_read_as_standard_input_is(tmp_path):
    text, pipe = table(tmp_path / "a.csv").read_text(), tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_text, args=(text,))
    thread.start()
    done = run(pipe)
    thread.join()
    assert done.exit_code == 0, done.stderr
    assert done.stdout == run(tmp_path / "a.csv").stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "cannot be read: Is a directory; give a CSV, NDJSON or Parquet file"),
        ("a" * 300, "cannot be read: File name too long"),
        ("loop", "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_cannot_be_opened_is_a_sentence(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    done = run(name)
    assert done.exit_code == 3
    assert f"streamgp: {name} {message}" in done.stderr


# Sparse objects


def test_columns_of_json_come_from_the_first_thousand_objects(tmp_path):
    path = tmp_path / "a.ndjson"
    rows = [{"x": i % 7, "y": float(i % 5)} for i in range(1200)]
    rows[0], rows[1]["z"] = {"x": 1}, 2
    for i in range(50, 1200, 50):
        rows[i]["late"] = i % 3
    rows[1100]["too late"] = 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(path, "--save", tmp_path / "m.sgp")
    assert done.exit_code == 0, done.stderr
    assert "numbers: x, z, late" in done.stderr
    assert len(done.stdout.splitlines()) == 1201
    # The rows that follow have no "late" for a while; it is none of the columns that are gone.
    with open(path, "a") as file:
        file.writelines(json.dumps({"x": 1, "y": 2.0}) + "\n" for _ in range(10))
    assert streamgp("run", path, "--load", tmp_path / "m.sgp").exit_code == 0
    one = json.dumps({"x": 1, "y": 2.0}) + "\n"
    done = streamgp("run", "-", "--load", tmp_path / "m.sgp", input=one)
    assert done.exit_code == 0, done.stderr
    done = streamgp("run", "-", "--load", tmp_path / "m.sgp", input='{"u": 1}\n')
    assert done.exit_code == 3
    assert "the columns have changed: 'x', 'z', 'late', 'y' are missing" in done.stderr


# Files that are followed


@pytest.fixture
def following(tmp_path, monkeypatch):
    """A followed file; what was said, and a way to wait for rows and to end."""
    monkeypatch.setattr(source, "POLL", 0.01)
    path, said, problems = tmp_path / "t.csv", [], []

    class Heard(Observer):
        def note(self, sentence):
            said.append(sentence)

    stop = threading.Event()
    path.write_text("x,y\n" + "1,2\n2,3\n" * 20)
    settings = {"capacity": 8, "tune": False, "warmup": 30}
    job = Job(path, "y", model="KRLST", settings=settings, out=tmp_path / "o.csv", save=tmp_path / "m.sgp", follow=True,
              observers=[Heard()], stop=stop)  # fmt: skip

    def run():
        try:
            job.run()
        except RowsError as error:
            problems.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()

    class Following:
        def rows(self):
            with contextlib.suppress(FileNotFoundError):
                return (tmp_path / "o.csv").read_text().count("\n") - 1
            return 0

        def until(self, condition):
            end = time.monotonic() + 60
            while not condition():
                assert time.monotonic() < end, (said, problems)
                time.sleep(0.01)

        def end(self):
            stop.set()
            thread.join()

    following = Following()
    following.path, following.said, following.problems, following.thread = path, said, problems, thread
    following.until(lambda: following.rows() == 40)
    yield following
    following.end()


@pytest.mark.parametrize("header", ["x,y\n", ""])
def test_a_rotated_file_is_followed_into_the_new_one(tmp_path, following, header):
    path = following.path
    old = path.open("a")
    path.rename(tmp_path / "t.csv.1")
    path.touch()
    time.sleep(0.1)
    old.write("3,4\n5,6")  # by whoever has it open still; the last line has no end
    old.close()
    following.until(lambda: following.rows() >= 41)
    path.write_text(header + "4,5\n")
    following.until(lambda: following.rows() == 43)
    assert f"{path} was replaced; continuing at the first line of the new file" in following.said
    with path.open("a") as file:
        file.write("6,7\n")
    following.until(lambda: following.rows() == 44)
    following.end()
    assert following.problems == []
    position = Pipeline.load(tmp_path / "m.sgp").position
    assert position.lines == 2 + bool(header)
    with path.open("a") as file:
        file.write("7,8\n")
    done = streamgp("run", path, "--load", tmp_path / "m.sgp", "--out", tmp_path / "o.csv")
    assert done.exit_code == 0, done.stderr
    assert [row["observed"] for row in predictions(tmp_path / "o.csv")][40:] == ["4.0", "6.0", "5.0", "7.0", "8.0"]


def test_a_bad_row_of_the_new_file_is_named_by_its_line_there(tmp_path, following):
    following.path.rename(tmp_path / "t.csv.1")
    following.path.write_text("x,z\n4,5\n")
    following.until(lambda: following.problems)
    assert "line 1 has 'x' in the column 'x', which holds numbers" in following.problems[0]


def test_a_followed_file_that_is_moved_away_is_waited_for(tmp_path, following):
    following.path.rename(tmp_path / "t.csv.1")
    following.until(lambda: f"{following.path} was moved; waiting for a new file" in following.said)
    (tmp_path / "t.csv.1").rename(following.path)  # and back
    with following.path.open("a") as file:
        file.write("3,4\n")
    following.until(lambda: following.rows() == 41)


def test_a_followed_file_that_is_deleted_ends_the_run_with_a_sentence(tmp_path, following):
    following.path.unlink()
    following.until(lambda: following.problems)
    assert f"{following.path} was deleted while being followed; the rows before are kept" in following.problems[0]
    assert "Resume with `load` when there is a new file" in following.problems[0]
    following.end()
    assert Pipeline.load(tmp_path / "m.sgp").rows == 40


# Far too much


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        (20_000, [], "the table has 20000 columns; the limit is 5000. Keep those you need, for example: cut -d,"),
        (3000, [], "a row would have 2999 inputs (2999 of the columns, 0 lags); the limit is 1000. Select columns"),
        (
            2,
            ["--lags", 1_000_000],
            "a row would have 1000001 inputs (1 of the columns, 1000000 lags); the limit",
        ),
        (2, ["--horizon", 10**9], "horizon must be a whole number of at most 100000; got 1000000000"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_far_too_much_is_refused_before_a_model_is_built(tmp_path, columns, arguments, message, ending):
    path = tmp_path / f"a.{ending}"
    names = [f"c{i}" for i in range(columns - 1)] + ["y"]
    values = [[i * j % 7 for i in range(columns)] for j in range(3)]
    if ending == "csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in [names, *values]))
    else:
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in values))
    done = run(path, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr) < 2000


def test_messages_list_a_few_columns_only(tmp_path):
    path = tmp_path / "a.csv"
    names = [f"column{i}" for i in range(2000)]
    path.write_text(",".join(names) + "\n" + ",".join("12" * 1000) + "\n" + ",".join("21" * 1000) + "\n")
    done = run(path)
    assert done.exit_code == 3
    assert "there is no column 'y'. The columns are: column0, column1," in done.stderr
    assert "column19 and 1980 more" in done.stderr
    done = streamgp("run", path, "--target", "column0", "--inputs", "column1", *SMALL)
    assert done.exit_code == 0, done.stderr
    assert "ignored: 1978 more columns" in done.stderr
    assert len(done.stderr) < 3000


def test_too_little_memory_is_a_sentence(tmp_path, monkeypatch):
    def none(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Pipeline, "take", none)
    done = run(table(tmp_path / "a.csv"))
    assert done.exit_code == 2
    assert "not enough memory; use a smaller capacity, fewer features or fewer lags" in done.stderr


def test_the_reader_itself_refuses_too_many_columns(tmp_path):
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(5001)) + "\n")
    reader = read_rows(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="the table has 5001 columns; the limit is 5000"):
        list(reader.chunks())
    reader.close()

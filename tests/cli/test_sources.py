"""Sources as the command line meets them; what a reader makes of them is in tests/tables/test_formats.py."""

from __future__ import annotations

import gzip
import json

from streamgp.job import Pipeline
from tests.cli.test_run import SMALL, predictions, streamgp, table


def run(path, *arguments):
    return streamgp("run", path, "--target", "y", *arguments, *SMALL)


def test_a_compressed_file_that_is_cut_short_keeps_its_rows_and_a_whole_copy_goes_on(tmp_path):
    path, out, saved = tmp_path / "a.csv.gz", tmp_path / "o.csv", tmp_path / "m.sgp"
    text = "x,y\n" + "".join(f"{i * i * 7919 % 977},{i * i % 101}\n" for i in range(80))
    cut = len(text) * 2 // 3
    path.write_bytes(gzip.compress(text[:cut].encode()) + gzip.compress(text[cut:].encode())[:20])
    done = run(path, "--out", out, "--save", saved)
    n = len(predictions(out))
    assert (done.exit_code, Pipeline.load(saved).rows) == (3, n)
    assert n >= text[:cut].count("\n") - 1
    assert f"streamgp: line {n + 2}: {path} is truncated or damaged here (" in done.stderr.splitlines()[-1]
    assert "the rows before are kept" in done.stderr
    path.write_bytes(gzip.compress(text.encode()))
    done = streamgp("run", path, "--load", saved, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert f"after line {n + 1}" in done.stderr
    (tmp_path / "plain.csv").write_text(text)
    assert run(tmp_path / "plain.csv").stdout == out.read_text()


def test_compressed_standard_input_is_told_by_what_it_is():
    done = streamgp("run", "-", "--target", "y", *SMALL, input=gzip.compress(b"x,y\n1,2\n"))
    assert done.exit_code == 3
    assert "standard input is compressed; unpack it first, such as: gzip -dc FILE | streamgp run -" in done.stderr


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

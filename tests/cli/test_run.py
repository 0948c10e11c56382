"""The command ``streamgp run`` as users call it; the model is small, so that every test is fast."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import resource
import signal
import subprocess
import time
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

from streamgp.cli.app import app
from streamgp.process.prior import Prior
from tests.cli.forks import process

SMALL = ["--model", "KRLST", "--set", "capacity=8", "--set", "tune=off", "--set", "warmup=30"]


def streamgp(*arguments, **options):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **options)


def table(path, rows=80, start=0, header=True, seed=0):
    rng = np.random.default_rng(seed)
    x, e = rng.normal(size=(2, 1000))
    with open(path, "w") as file:
        if header:
            file.write("time,x,kind,y\n")
        for i in range(start, start + rows):
            kind = "ab"[i % 2]
            y = np.sin(x[i]) + (kind == "b") + 0.1 * e[i]
            file.write(f"2024-01-{1 + i // 24:02d}T{i % 24:02d}:00,{x[i]:.5f},{kind},{y:.5f}\n")
    return path


def predictions(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_one_prediction_a_row_goes_to_standard_output_and_words_to_standard_error(tmp_path):
    done = streamgp("run", table(tmp_path / "a.csv"), "--target", "y", *SMALL)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "row,time,mean,lower,upper,std,observed,log_density"
    assert len(lines) == 81
    row = lines[80].split(",")
    assert row[:2] == ["80", "2024-01-04T07:00"]
    assert float(row[3]) < float(row[2]) < float(row[4])
    for sentence in (
        "target: y",
        "numbers: x",
        "category: kind (a, b; other values count as none of these)",
        "time: time, used as time of day and day of week",
        "lags: none",
        "model after 30 rows: KRLST (as requested)",
        "rows: 80 in",
        "MAE, previous value",
        "coverage of 90% intervals",
    ):
        assert sentence in done.stderr


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_predictions_are_the_same_in_every_format(tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    source, out = table(tmp_path / "a.csv"), tmp_path / f"out.{ending}"
    expected = streamgp("run", source, "--target", "y", *SMALL).stdout.splitlines()[1:]
    done = streamgp("run", source, "--target", "y", "--out", out, *SMALL)
    assert (done.exit_code, done.stdout) == (0, "")
    if ending == "csv":
        rows = [list(row.values()) for row in predictions(out)]
    elif ending == "ndjson":
        rows = [list(json.loads(line).values()) for line in out.read_text().splitlines()]
    else:
        from pyarrow import parquet

        rows = [list(row.values()) for row in parquet.read_table(out).to_pylist()]
    for line, row in zip(expected, rows, strict=True):
        number, time_, *values = line.split(",")
        assert (number, time_) == (str(row[0]), row[1])
        assert [float(value or "nan") for value in values] == pytest.approx(
            [float("nan" if value in ("", None) else value) for value in row[2:]], rel=0, abs=0, nan_ok=True
        )


@pytest.mark.parametrize("ending", ["ndjson", "json", "parquet", "csv.gz"])
def test_every_format_of_input_gives_the_same_predictions(tmp_path, ending):
    source, other = table(tmp_path / "a.csv"), tmp_path / f"b.{ending}"
    rows = predictions(source)
    if "json" in ending:
        typed = [{k: float(v) if k in "xy" else v for k, v in row.items()} for row in rows]
        text = json.dumps(typed) if ending == "json" else "".join(json.dumps(row) + "\n" for row in typed)
        other.write_text(text)
    elif ending == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {k: [float(r[k]) if k in "xy" else r[k] for r in rows] for k in rows[0]}
        parquet.write_table(pa.table(columns), other)
    else:
        import gzip

        other.write_bytes(gzip.compress(source.read_bytes()))
    one, two = (streamgp("run", path, "--target", "y", *SMALL) for path in (source, other))
    assert two.exit_code == 0, two.stderr
    assert one.stdout == two.stdout


def test_standard_input_is_a_table_too(tmp_path):
    text = table(tmp_path / "a.csv").read_text()
    done = streamgp("run", "-", "--target", "y", *SMALL, input=text)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == streamgp("run", tmp_path / "a.csv", "--target", "y", *SMALL).stdout


def test_json_is_one_object_a_line_and_the_summary_comes_last(tmp_path):
    source = table(tmp_path / "a.csv")
    done = streamgp("run", source, "--target", "y", "--json", *SMALL)
    *rows, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert [row["row"] for row in rows] == list(range(1, 81))
    summary = last["summary"]
    assert (summary["rows"], summary["model"], summary["horizon"]) == (80, "KRLST", 0)
    assert summary["inputs"][:2] == ["x", "kind=b"]
    assert 0 < summary["scores"]["rmse"] < 1
    only = streamgp("--json", "run", source, "--target", "y", "--out", tmp_path / "o.csv", *SMALL).stdout
    assert set(json.loads(only)) == {"summary"}


def test_the_summary_tells_the_first_rows_from_the_others_on_any_screen(tmp_path, monkeypatch):
    source = table(tmp_path / "a.csv", 600)
    saved = tmp_path / "m.sgp"
    monkeypatch.setenv("COLUMNS", "80")
    done = streamgp("run", source, "--target", "y", "--out", tmp_path / "o.csv", "--save", saved, *SMALL)
    shown = done.stderr.splitlines()
    start = next(i for i, line in enumerate(shown) if line.endswith("rows 1-500   after row 500"))
    assert [line.rsplit("  ", 2)[0].split("  ")[0] for line in shown[start + 2 : start + 10]] == [
        "MAE, streamgp",
        "MAE, previous value",
        "MAE, least squares",
        "MAE, value 24 rows ago",
        "MAE, value 168 rows ago",
        "RMSE, streamgp",
        "coverage of 90% intervals",
        "mean width of 90% intervals",
    ]
    assert max(map(len, shown[start : start + 10])) <= 60
    assert "\x1b" not in done.stderr
    scores = json.loads(streamgp("run", source, "--target", "y", "--json", *SMALL).stdout.splitlines()[-1])["summary"][
        "scores"
    ]
    assert scores["rows"] == scores["start_up"]["rows"] + scores["steady"]["rows"] == 598  # two have no scale
    assert (scores["steady"]["from_row"], scores["steady"]["to_row"]) == (501, 600)
    assert shown[start + 7].split()[-2:] == [f"{scores[part]['rmse']:.4g}" for part in ("start_up", "steady")]
    inspected = streamgp("inspect", saved).stdout.splitlines()
    assert inspected[-10:] == shown[start : start + 10]
    assert json.loads(streamgp("inspect", saved, "--json").stdout)["scores"] == scores


@pytest.mark.more
def test_a_terminal_shows_what_the_run_is_doing(tmp_path):
    terminal, seen_by_run = os.openpty()
    running = process(
        "run", table(tmp_path / "a.csv", 300), "--target", "y", "--out", tmp_path / "o.csv", "--model", "KRLST",
        "--set", "warmup=250", stdout=subprocess.DEVNULL, stderr=seen_by_run, env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(seen_by_run)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 1 << 16):
            shown += part
    os.close(terminal)
    assert running.wait(timeout=60) == 0
    text = shown.decode()
    for sentence in ("reading the first rows", "tuning KRLST on 40 rows", "tuning KRLST on 200 rows", "RMSE, streamgp"):
        assert sentence in text


def test_a_horizon_says_what_was_predicted_of_each_row_and_then_of_rows_to_come(tmp_path):
    out = tmp_path / "o.csv"
    done = streamgp(
        "run", table(tmp_path / "a.csv"), "--target", "y", "--horizon", 3, "--lags", 2, "--out", out, *SMALL
    )
    assert done.exit_code == 0, done.stderr
    rows = predictions(out)
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 84)]
    assert [row["mean"] for row in rows[:3]] == [""] * 3
    assert all(row["mean"] and row["observed"] for row in rows[3:80])
    assert all(row["mean"] and not row["observed"] and not row["time"] for row in rows[80:])
    assert "horizon: 3 rows ahead" in done.stderr


# Saving, stopping and going on.


def test_a_run_in_two_parts_equals_one(tmp_path):
    whole, part = table(tmp_path / "whole.csv", 80), table(tmp_path / "part.csv", 50)
    streamgp("run", whole, "--target", "y", "--out", tmp_path / "one.csv", "--lags", 2, *SMALL)
    out, saved = tmp_path / "two.csv", tmp_path / "m.sgp"
    first = streamgp("run", part, "--target", "y", "--lags", 2, "--out", out, "--save", saved, *SMALL)
    assert "resume with --load" in first.stderr
    part.write_text(whole.read_text())  # the file has grown
    done = streamgp("run", part, "--load", saved, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert f"resuming after 50 rows, in {part} after line 51" in done.stderr
    assert out.read_text() == (tmp_path / "one.csv").read_text()


def test_a_run_goes_on_in_another_file(tmp_path):
    streamgp("run", table(tmp_path / "whole.csv", 80), "--target", "y", "--out", tmp_path / "one.csv", *SMALL)
    saved = tmp_path / "m.sgp"
    streamgp(
        "run", table(tmp_path / "a.csv", 50), "--target", "y", "--out", tmp_path / "two.csv", "--save", saved, *SMALL
    )
    other = ("run", table(tmp_path / "b.csv", 30, start=50), "--load", saved, "--out", tmp_path / "three.csv")
    refused = streamgp(*other)
    assert (refused.exit_code, (tmp_path / "three.csv").exists()) == (3, False)
    assert "b.csv is shorter than what was read before: it was cut, or it is another file" in refused.stderr
    assert "to learn this one from its first row, add --new-source" in refused.stderr
    done = streamgp(*other, "--new-source")
    assert f"resuming after 50 rows, in {tmp_path / 'b.csv'} at its first row" in done.stderr
    together = predictions(tmp_path / "two.csv") + predictions(tmp_path / "three.csv")
    assert together == predictions(tmp_path / "one.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("a line", "does not begin as the file that was read before: early lines or line ends were changed"),
        ("cut", "has 180 lines, but 201 of it were read before: it was cut short. Get the complete file"),
        ("pipe", "is not the source that was read before, which was a pipe"),
    ],
)
def test_a_source_that_was_changed_is_refused_and_nothing_is_learned_twice(tmp_path, change, message):
    source, out, saved = table(tmp_path / "a.csv", 200), tmp_path / "o.csv", tmp_path / "m.sgp"
    text = source.read_text()
    given = {"input": text} if change == "pipe" else {}
    streamgp("run", "-" if given else source, "--target", "y", "--out", out, "--save", saved, *SMALL, **given)
    before = out.read_bytes(), saved.read_bytes()
    lines = text.splitlines(keepends=True)
    changed = {"a line": [lines[0], lines[1].replace("a", "b"), *lines[2:]], "cut": lines[:180]}
    text = "".join(changed.get(change, lines))
    source.write_text(text)
    done = streamgp("run", source, "--load", saved, "--save", saved, "--out", out)
    assert done.exit_code == 3
    assert f"{source} {message}" in done.stderr
    assert (out.read_bytes(), saved.read_bytes()) == before
    again = streamgp("run", source, "--load", saved, "--new-source")
    if change == "cut":  # all of it was learned
        assert again.exit_code == 3
    else:
        assert (again.exit_code, len(again.stdout.splitlines())) == (0, text.count("\n"))


def test_a_new_source_that_is_not_new_goes_on_where_the_run_stopped(tmp_path):
    source, saved = table(tmp_path / "a.csv", 60), tmp_path / "m.sgp"
    streamgp("run", source, "--target", "y", "--save", saved, *SMALL)
    table(source, 70)
    done = streamgp("run", source, "--load", saved, "--new-source")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 11)
    assert "after line 61" in done.stderr


def test_skipped_rows_are_counted_by_kind(tmp_path):
    lines = table(tmp_path / "t.csv").read_text().splitlines()
    for i, word in {40: "----x", 41: "#REF!", 50: "#REF!", 51: "#REF!", 60: "broken"}.items():
        time, _, *rest = lines[i].split(",")
        lines[i] = ",".join([time, word, *rest])
    (tmp_path / "t.csv").write_text("\n".join(lines))
    done = streamgp("run", tmp_path / "t.csv", "--target", "y", *SMALL, "--on-error", "skip")
    assert "skipped: 5 rows; the first is line 41, which has '----x' in the column 'x'" in done.stderr
    assert "skipped most often: 3 x: has '#REF!' in the column 'x', which holds numbers; 1 x: has" in done.stderr


def test_inspect_says_of_new_levels_what_a_run_says(tmp_path):
    rows = "".join(f"{i % 7},{'ab'[i % 2]},{i % 5}\n" for i in range(1200))
    (tmp_path / "t.csv").write_text(f"x,kind,y\n{rows}")
    said = streamgp("inspect", tmp_path / "t.csv").stdout
    assert "category: kind (a, b; the first 3 new values join)" in said
    run = streamgp("run", tmp_path / "t.csv", "--target", "y", *SMALL)
    assert all(line in run.stderr for line in said.splitlines())


def test_what_can_be_typed_next_begins_with_what_was_typed(tmp_path):
    known, more, saved = table(tmp_path / "a.csv"), table(tmp_path / "b c.csv", start=80), tmp_path / "run.sgp"
    first = streamgp("run", known, "--target", "y", *SMALL, "--out", tmp_path / "o.csv")
    steps = first.stderr.partition("Next:")[2]
    assert f"streamgp run {known} --target y {' '.join(SMALL)} --out {tmp_path / 'o.csv'} --save model.sgp" in steps
    streamgp("run", known, "--target", "y", *SMALL, "--save", saved)
    done = streamgp("run", more, "--load", saved, "--new-source")
    steps = done.stderr.partition("Next:")[2].splitlines()
    again = f"streamgp run '{more}' --load {saved} --new-source"
    assert [step.partition(": ")[2] for step in steps if step] == [
        f"{again} --save model.sgp",
        f"{again} --report report.html",
    ]
    assert streamgp("run", more, "--load", saved, "--new-source", "--save", tmp_path / "model.sgp").exit_code == 0


def test_forecasts_of_rows_to_come_are_replaced_when_the_run_goes_on(tmp_path):
    whole, part, out = table(tmp_path / "w.csv", 80), table(tmp_path / "p.csv", 50), tmp_path / "two.csv"
    ahead = ["--target", "y", "--horizon", 2, *SMALL]
    streamgp("run", whole, "--out", tmp_path / "one.csv", *ahead)
    streamgp("run", part, "--out", out, "--save", tmp_path / "m.sgp", *ahead)
    assert len(predictions(out)) == 52
    part.write_text(whole.read_text())
    streamgp("run", part, "--load", tmp_path / "m.sgp", "--out", out)
    assert out.read_text() == (tmp_path / "one.csv").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_followed_run_that_is_stopped_saves_says_where_and_goes_on_exactly(tmp_path, number):
    whole, source, out = table(tmp_path / "whole.csv", 80), table(tmp_path / "a.csv", 50), tmp_path / "o.csv"
    one = tmp_path / "one.csv"  # followed too: a table that ends has no inputs for levels that are yet to come
    at_once = process("run", whole, "--target", "y", "--follow", "--out", one, *SMALL, cwd=tmp_path)
    running = process("run", source, "--target", "y", "--follow", "--out", out, *SMALL, cwd=tmp_path)
    rest = whole.read_text().splitlines(keepends=True)[51:]
    wait_for(lambda: out.exists() and out.read_text().count("\n") == 51, running)
    with open(source, "a") as file:
        file.writelines(rest[:10])
    wait_for(lambda: out.read_text().count("\n") == 61, running)
    running.send_signal(number)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "category: kind (a, b; the first 3 new values join)" in errors
    assert "stopped after row 60; resume with --load a.interrupted.sgp" in errors
    with open(source, "a") as file:
        file.writelines(rest[10:])
    done = streamgp("run", source, "--load", tmp_path / "a.interrupted.sgp", "--out", out)
    assert done.exit_code == 0, done.stderr
    wait_for(lambda: one.exists() and one.read_text().count("\n") == 81, at_once)
    at_once.send_signal(number)
    at_once.communicate(timeout=60)
    assert out.read_text() == one.read_text()


def wait_for(condition, running, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, running.stderr.read()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def test_a_pipe_is_predicted_row_by_row_as_it_comes(tmp_path):
    lines = table(tmp_path / "a.csv", 40).read_text().splitlines(keepends=True)
    running = process("run", "-", "--target", "y", *SMALL, stdin=subprocess.PIPE)
    running.stdin.writelines(lines[:31])
    running.stdin.flush()
    read = [running.stdout.readline() for _ in range(31)]
    assert read[-1].startswith("30,")
    running.stdin.write(lines[31])
    running.stdin.flush()
    assert running.stdout.readline().startswith("31,")
    rest, _ = running.communicate(timeout=60)
    assert (rest, running.returncode) == ("", 0)


# What goes wrong.


def test_a_bad_row_stops_the_run_with_its_line_or_is_skipped_and_counted(tmp_path):
    line, reason = "2024-01-02T10:00,one,a,1.0", "has 'one' in the column 'x', which holds numbers"
    source = table(tmp_path / "a.csv", 40)
    lines = source.read_text().splitlines(keepends=True)
    clean = streamgp("run", source, "--target", "y", *SMALL).stdout.splitlines()
    source.write_text("".join([*lines[:35], line + "\n", *lines[35:]]))
    stopped = streamgp("run", source, "--target", "y", "--save", tmp_path / "m.sgp", *SMALL)
    assert stopped.exit_code == 3
    assert f"line 36 {reason}" in stopped.stderr
    assert "The run stopped there; the 34 rows before it are predicted and kept" in stopped.stderr
    assert stopped.stdout.splitlines() == clean[:35]
    skipped = streamgp("run", source, "--target", "y", "--on-error", "skip", *SMALL)
    assert skipped.exit_code == 0
    assert skipped.stdout.splitlines() == clean
    assert "skipped: 1 row; the first is line 36, which " in skipped.stderr
    source.write_text("".join(lines))  # the row is taken out, and the run goes on
    done = streamgp("run", source, "--load", tmp_path / "m.sgp")
    assert done.stdout.splitlines()[1:] == clean[35:]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("x,y\n", [], "a.csv has a header but no rows; the columns are: x, y"),
        ("x,y\n1\n2\n", [], "line 2 has 1 value, expected 2 as in the first line: '1'; no row could be read"),
        ("y\n1\n2\n", ["--lags", "0"], "nothing to predict from"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, monkeypatch, text, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(text)
    done = streamgp("run", "a.csv", "--target", "y", *arguments)
    assert done.exit_code == 3
    assert done.stderr.splitlines()[-1].startswith("streamgp: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "y", "--model", "KRLSTT"], "there is no model 'KRLSTT'. Did you mean 'KRLST'?"),
        (["--target", "y", "--set", "capasity=200"], "Did you mean 'capacity'?"),
        (["--target", "y", "--set", "capacity"], "--set expects name=value, such as capacity=200; got 'capacity'"),
        (["--target", "y", "--on-error", "ignore"], "on_error must be one of 'stop', 'skip'; got 'ignore'"),
        ([], "--target is missing; the columns are: time, x, kind, y"),
    ],
)
def test_a_wrong_option_is_refused_by_name(tmp_path, arguments, message):
    done = streamgp("run", table(tmp_path / "a.csv", 20), *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_loaded_run_keeps_its_target_settings_and_columns(tmp_path):
    source, saved = table(tmp_path / "a.csv", 40), tmp_path / "m.sgp"
    streamgp("run", source, "--target", "y", "--save", saved, "--out", tmp_path / "o.csv", *SMALL)
    for arguments, message in (
        (["--target", "x"], "was made with --target y, not x"),
        (["--horizon", 2], "was made with --horizon 0, not 2"),
        (["--set", "capacity=9"], "has its own inputs, settings and schema; drop --inputs, --set and --schema"),
    ):
        done = streamgp("run", source, "--load", saved, *arguments)
        assert done.exit_code == 2
        assert message in done.stderr
    (tmp_path / "b.csv").write_text("time,x,sort,y\n2024-02-01T00:00,1,a,2\n")
    done = streamgp("run", tmp_path / "b.csv", "--load", saved, "--new-source")
    assert done.exit_code == 3
    assert "the columns have changed: 'kind' is missing" in done.stderr
    saved.write_bytes(saved.read_bytes()[:-5])
    done = streamgp("run", source, "--load", saved)
    assert done.exit_code == 3
    assert "not a streamgp snapshot, or it is cut short or damaged" in done.stderr


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    source, none = table(tmp_path / "a.csv", 20), tmp_path / "none"
    missing = "cannot be written: No such file or directory"
    for option, place, code, message in (
        ("--out", none / "o.csv", 4, f"o.csv {missing}; give --out another place"),
        ("--out", tmp_path / "o.txt", 3, "use a name that ends in .csv, .ndjson or .parquet"),
        ("--save", none / "m.sgp", 4, f"m.sgp {missing}; give --save another place"),  # before the first row
        ("--report", none / "r.html", 4, f"r.html {missing}"),
        *([("--plot", none / "p.png", 4, f"p.png {missing}")] if find_spec("matplotlib") else []),
    ):
        done = streamgp("run", source, "--target", "y", option, place, *SMALL)
        assert (done.exit_code, bool(done.stdout)) == (code, option in ("--report", "--plot"))
        assert message in done.stderr


def test_a_full_disk_leaves_whole_lines_and_the_last_saved_state(tmp_path):
    source = table(tmp_path / "a.csv", 600)
    expected = streamgp("run", source, "--target", "y", *SMALL).stdout

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))

    out = tmp_path / "o.csv"
    running = process("run", source, "--target", "y", "--out", out, *SMALL, preexec_fn=little_room)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 4
    assert "o.csv cannot be written: File too large; the 550 rows before are complete" in errors
    assert out.read_text() == "".join(expected.splitlines(keepends=True)[:551])


def test_output_that_nobody_reads_any_more_ends_the_run_quietly(tmp_path):
    source = table(tmp_path / "a.csv", 600)
    reading, writing = os.pipe()
    running = process("run", source, "--target", "y", *SMALL, stdout=writing)
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 0
    assert "Traceback" not in errors


def test_a_half_life_is_a_setting_of_the_model(tmp_path):
    source = tmp_path / "times.csv"
    lines = [f"2024-03-01 {t // 60:02}:{t % 60:02},{t % 7},{t % 5}" for t in range(0, 1200, 13)]
    source.write_text("at,x,y\n" + "\n".join(lines))
    asked = (source, "--target", "y", "--model", "KRLST", "--set", "tune=off")
    option = streamgp("run", *asked, "--half-life", "2h", "--out", tmp_path / "a.csv")
    setting = streamgp("run", *asked, "--set", "half_life=7200", "--out", tmp_path / "b.csv")
    rows = streamgp("run", *asked, "--out", tmp_path / "c.csv")
    assert option.exit_code == setting.exit_code == rows.exit_code == 0, option.output
    written = [(tmp_path / f"{name}.csv").read_text() for name in "abc"]
    assert written[0] == written[1] != written[2]


def test_a_run_begins_with_the_prior_of_a_fleet(tmp_path):
    source, file = tmp_path / "rows.csv", tmp_path / "prior.safetensors"
    source.write_text("x,y\n" + "\n".join(f"{t % 7},{t % 5}" for t in range(60)))
    Prior({"lengthscale": [[0.3]], "noise": [[0.5]]}, shares=[1.0], best=0).save(file)
    asked = (source, "--target", "y", "--model", "KRLST", "--set", "tune=off")
    option = streamgp("run", *asked, "--prior", file, "--out", tmp_path / "a.csv")
    without = streamgp("run", *asked, "--out", tmp_path / "b.csv")
    assert option.exit_code == without.exit_code == 0, option.output
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "b.csv").read_text()
    for given, expected in (
        (("--prior", tmp_path / "b.csv"), "is no prior that streamgp wrote"),
        (("--prior", tmp_path / "none"), "No such file"),
        (("--prior", file, "--save", file), "--prior and --save are the same file"),
        (("--prior", file, "--model", "SOGP"), "SOGP takes no --prior; KRLST and auto do"),
    ):
        refused = streamgp("run", *asked, *given, "--out", tmp_path / "c.csv")
        assert refused.exit_code
        assert expected in refused.output + refused.stderr

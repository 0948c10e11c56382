"""No file of the user is lost: not the source, not another run's predictions, not one that two runs write."""

from __future__ import annotations

import os

import pytest

from streamgp.job import Job, Observer
from streamgp.tables.writing import WriteError
from tests.cli.forks import process
from tests.cli.test_run import SMALL, predictions, streamgp, table, wait_for

SETTINGS = {"capacity": 8, "tune": False, "warmup": 30}


def run(source, *arguments):
    return streamgp("run", source, "--target", "y", *arguments, *SMALL)


@pytest.mark.parametrize("option", ["--out", "--save", "--report", "--plot"])
def test_the_source_is_never_overwritten(tmp_path, option):
    source = table(tmp_path / "a.csv")
    before = source.read_bytes()
    done = run(source, option, source)
    assert done.exit_code == 2
    assert (
        f"the source and {option} are the same file, {source}, which the run would overwrite; give {option} anoth"
        in done.stderr
    )
    assert (source.read_bytes(), done.stdout) == (before, "")


def test_a_file_is_the_same_whatever_it_is_called(tmp_path):
    source = table(tmp_path / "a.csv")
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    (tmp_path / "other").symlink_to(tmp_path)
    for place in ("link.csv", "hard.csv", "other/a.csv"):
        with pytest.raises(ValueError, match="`source` and `save` are the same file"):
            Job(source, "y", model="KRLST", save=tmp_path / place).run()


def test_a_table_is_no_schema_of_its_own(tmp_path):
    source = table(tmp_path / "a.csv")
    done = run(source, "--schema", source)
    assert done.exit_code == 2
    assert f"the source and --schema are the same file, {source}, which cannot be both" in done.stderr


def test_predictions_and_state_need_two_files(tmp_path):
    source, place = table(tmp_path / "a.csv"), tmp_path / "x.csv"
    (tmp_path / "link.sgp").symlink_to(place)  # to nothing yet
    for save in (place, tmp_path / "link.sgp"):
        done = run(source, "--out", place, "--save", save)
        assert done.exit_code == 2
        assert "--out and --save are the same file" in done.stderr
        assert not place.exists()
    run(source, "--save", tmp_path / "m.csv")
    done = streamgp("run", source, "--load", tmp_path / "m.csv", "--out", tmp_path / "m.csv")
    assert done.exit_code == 2
    assert "--load and --out are the same file" in done.stderr
    done = streamgp("run", source, "--load", tmp_path / "m.csv", "--save", tmp_path / "m.csv")
    assert done.exit_code == 0, done.stderr


@pytest.mark.more
def test_standard_input_and_output_are_files_too(tmp_path):
    source = table(tmp_path / "a.csv")
    before = source.read_bytes()
    with open(source) as read:
        running = process("run", "-", "--target", "y", "--out", source, *SMALL, stdin=read)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 2
    assert "the source and --out are the same file" in errors
    with open(source, "a") as write:
        running = process("run", source, "--target", "y", *SMALL, stdout=write)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 2
    assert "the source and --out are the same file" in errors
    assert source.read_bytes() == before


# Continuing in a file


@pytest.fixture
def half(tmp_path):
    """A run over the first rows, and the whole source."""
    source, out, saved = table(tmp_path / "a.csv", 50), tmp_path / "p.csv", tmp_path / "m.sgp"
    run(source, "--out", out, "--save", saved)
    run(table(tmp_path / "whole.csv", 80), "--out", tmp_path / "one.csv")
    source.write_text((tmp_path / "whole.csv").read_text())
    return source, out, saved


@pytest.mark.parametrize("change", ["line lost", "digit", "shorter", "another run", "other format"])
def test_a_file_that_the_loaded_run_did_not_write_is_left_as_it_is(tmp_path, half, change):
    source, out, saved = half
    lines = out.read_text().splitlines(keepends=True)
    if change == "line lost":
        out.write_text("".join(lines[:10] + lines[11:]))
    elif change == "digit":
        out.write_text("".join([*lines[:10], lines[10].replace("1", "2"), *lines[11:]]))
    elif change == "shorter":
        out.write_text("".join(lines[:-1]))
    elif change == "another run":
        run(table(tmp_path / "b.csv", 80, seed=1), "--out", out)
    else:
        out = out.rename(tmp_path / "p.ndjson")
    before = out.read_bytes()
    done = streamgp("run", source, "--load", saved, "--out", out)
    assert done.exit_code == 4
    assert (
        f"{out} is not what the loaded run wrote, and is left as it is; give --out the file of that run" in done.stderr
    )
    assert out.read_bytes() == before


def test_a_run_that_wrote_nothing_continues_in_a_new_file_only(tmp_path, half):
    source, out, saved = half
    run(source, "--save", saved)  # to standard output
    before = out.read_bytes()
    assert streamgp("run", source, "--load", saved, "--out", out).exit_code == 4
    assert out.read_bytes() == before
    assert streamgp("run", source, "--load", saved, "--out", tmp_path / "new.csv").exit_code == 0


def test_before_the_first_row_a_file_of_predictions_cannot_be_known_again(tmp_path, half):
    source, out, saved = half
    bad = tmp_path / "bad.csv"
    bad.write_text("time,x,kind,y\n2024-01-01T00:00,1,a,inf\n2024-01-01T01:00,1,b,2\n")
    assert run(bad, "--out", tmp_path / "q.csv", "--save", saved).exit_code == 3
    assert streamgp("run", source, "--load", saved, "--out", out).exit_code == 4
    assert len(predictions(out)) == 50
    assert streamgp("run", source, "--load", saved, "--out", tmp_path / "q.csv").exit_code == 0
    assert len(predictions(tmp_path / "q.csv")) == 80


def test_what_the_run_wrote_is_continued_also_under_another_name_or_with_rows_after_the_last_save(tmp_path, half):
    source, out, saved = half
    with open(out, "a") as file:
        file.write("51,2024-01-03T02:00,0.5")  # killed while it wrote
    moved = out.rename(tmp_path / "moved.csv")
    done = streamgp("run", source, "--load", saved, "--out", moved)
    assert done.exit_code == 0, done.stderr
    assert moved.read_text() == (tmp_path / "one.csv").read_text()


def test_a_parquet_file_is_not_continued(tmp_path):
    pytest.importorskip("pyarrow")
    source, out, saved = table(tmp_path / "a.csv"), tmp_path / "p.parquet", tmp_path / "m.sgp"
    run(source, "--out", out, "--save", saved)
    done = streamgp("run", source, "--load", saved, "--out", out)
    assert done.exit_code == 4
    assert "p.parquet exists, and Parquet files cannot be appended to; give --out another name" in done.stderr


# Two runs at a time


@pytest.mark.parametrize("option", ["--out", "--save"])
def test_a_second_run_on_the_same_files_is_refused_until_the_first_ends(tmp_path, option):
    source, place = table(tmp_path / "a.csv", 50), tmp_path / "p.csv"
    (tmp_path / "link.csv").symlink_to(place)
    running = process(
        "run", source, "--target", "y", "--follow", option, place, "--report", "r.html", *SMALL, cwd=tmp_path
    )
    wait_for((tmp_path / ".p.csv.lock").exists, running)
    for name in ("p.csv", "link.csv"):
        done = run(source, option, tmp_path / name)
        assert done.exit_code == 4
        assert (
            f"{name} is being written by another run; wait for it to end, or give {option} another name" in done.stderr
        )
    running.kill()  # leaves its lock file behind, but no lock
    running.communicate()
    assert run(source, option, place).exit_code == 0
    assert not list(tmp_path.glob(".*"))


def test_runs_of_one_process_are_told_apart(tmp_path):
    source, out = table(tmp_path / "a.csv"), tmp_path / "p.csv"

    class Again(Observer):
        def block(self, block):
            with pytest.raises(WriteError, match="p.csv is being written by another run"):
                Job(source, "y", model="KRLST", settings=SETTINGS, save=out).run()

    Job(source, "y", model="KRLST", settings=SETTINGS, out=out, observers=[Again()]).run()
    assert len(predictions(out)) == 80


def test_what_is_saved_of_the_output_is_on_disk(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def noted(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    out = tmp_path / "p.csv"
    run(table(tmp_path / "a.csv"), "--out", out, "--save", tmp_path / "m.sgp")
    assert synced[0] == str(out)

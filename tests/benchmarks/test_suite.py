"""The suite of benchmarks runs, goes on where it was stopped, and the pages show what it found."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import contestants
import cost_per_row
import fleet
import floor
import footprint
import must_show
import one_row
import other_libraries
import record
import render
import rows_seen
import start_up
import tables
import timing
import where_time_goes

BENCHMARKS = Path(record.__file__).parent


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Nothing is asserted about times."""
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 1e-5)
    monkeypatch.setattr(timing, "BUDGET_SECONDS", 1e-2)


# The pages


@pytest.mark.parametrize("page", render.pages(), ids=lambda path: path.name)
def test_committed_tables_of_the_pages_are_those_of_the_results(page):
    text = page.read_text()
    assert render.rendered(text) == text


def test_every_table_is_on_a_committed_page():
    shown = [name for page in render.pages() for name in render.MARKED.findall(page.read_text())]
    assert sorted(shown) == sorted(tables.TABLES)


def test_every_part_that_writes_results_is_run_by_make_and_has_committed_ones():
    parts = {
        path.stem
        for path in BENCHMARKS.glob("*.py")
        if any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Record" for node in ast.walk(tree(path)))
    }
    lists = re.findall(r"^(?:BENCHMARKS|ON_SPARK) := (.*)$", (record.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {part for listed in lists for part in listed.split()} == parts
    assert all((record.RESULTS / f"{part}.json").exists() for part in parts)


def tree(path):
    return ast.parse(path.read_text())


def test_committed_results_say_on_which_machine_and_with_which_versions():
    for path in record.RESULTS.glob("*.json"):
        results = json.loads(path.read_text())
        assert results["machine"]
        assert {"numpy", "numba", "streamgp"} <= set(results["versions"])


# The promises


def test_a_claim_is_met_up_to_its_target():
    claim = must_show.Claim("", "", "", 1.5, 1.5)
    assert claim.met
    assert not claim._replace(measured=1.51).met


def test_committed_results_have_a_claim_for_every_promise():
    claims = must_show.from_results()
    floors = {(c.model, c.at, c.target) for c in claims if "floor" in c.what}
    assert ("SOGP absorbing", "m = 400", 1.2) in floors
    assert ("KRLST growing and pruning", "m = 100", 3.0) in floors
    assert ("ISSGPR covariance", "m = 200", 1.2) in floors
    assert ("ISSGPR Cholesky", "m = 200", 2.0) in floors
    rest = {(c.what, c.target) for c in claims if "floor" not in c.what}
    assert ("predict_one + learn_one - row in track, us", 25.0) in rest
    assert ("bytes grown over 1000000 rows", 0) in rest


@pytest.mark.more
def test_the_quick_run_claims_the_same(monkeypatch):
    monkeypatch.setattr(must_show, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(must_show, "QUICK_BLOCKS", 1)
    monkeypatch.setattr(rows_seen, "BLOCK", 50)
    quick = [(c.model, c.at, c.target) for c in must_show.quick() if "floor" in c.what]
    assert quick == [(c.model, c.at, c.target) for c in must_show.from_results() if "floor" in c.what]


# The parts


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")  # of the other libraries
def test_the_cost_of_a_row_is_measured_for_everyone_and_against_everyone():
    cell = cost_per_row.measure(10, rounds=2)
    assert set(contestants.MODELS) | set(other_libraries.installed()) <= set(cell)
    for name in contestants.MODELS:
        assert cell[name]["median"] > 0
        expected = {"NumPy"} if name == "KLMS" else {"called", "compiled", "NumPy"}
        assert set(cell[name]["ratio"]) == expected


@pytest.mark.more
def test_the_other_parts_run():
    assert one_row.measure("KLMS", 2, 5)["learn_one"]["blocks"] == 5
    assert one_row.measure_auto("Auto", 30, 2)["calls"]["median"] > 0
    built = one_row.building(30)
    assert built["all"] > built["building and tuning"] > 0
    assert one_row.waiting(5, 0.0, True)["longest"] > 0
    assert set(where_time_goes.measure(10, 2)) == {
        f"{name}: {step}" for name in contestants.MODELS for step in ("predict_many", "track")
    }
    assert min(fleet.measure("KRLST growing and pruning", 5, 3, 2)["times the loop"].values()) > 0
    assert all(cell["snapshot"] > 0 and cell["memory"] > 0 for cell in footprint.measure(10).values())


def test_no_memory_grows_with_the_rows():
    def grown(names):
        cells = rows_seen.measure(names, blocks=3, block=100)
        assert all(len(cell["microseconds"]) == 3 for cell in cells.values())
        # What a row leaves behind is at least a number; free lists of Python and NumPy hold an object more or less.
        return [name for name, cell in cells.items() if cell["bytes grown"] >= 8 * cell["rows"]]

    # What other threads of this process allocate meanwhile counts, too; it does not come again, what rows leave does.
    first = grown(list(contestants.MODELS))
    assert not first or not grown(first)
    assert rows_seen.calls_grow("SOGP absorbing", 200)["bytes grown"] == 0


@pytest.mark.more
def test_start_up_times_every_step_in_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(
        start_up, "STEPS", start_up.STEPS.replace("{build}", "sg.Window(2)").partition("model.learn")[0]
    )
    monkeypatch.setattr(start_up, "STEPS", start_up.STEPS + "print(json.dumps(seconds))")
    taken = start_up.process("", str(tmp_path))
    assert list(taken) == ["import of what it needs", "import of streamgp itself", "first model"]
    assert all(seconds > 0 for seconds in taken.values())


@pytest.mark.parametrize("build", [floor.from_python, floor.from_compiled])
@pytest.mark.parametrize("products", [1, 2])
def test_both_floors_do_the_arithmetic_of_a_row_in_place(build, products, monkeypatch):
    arrays = floor.operands(6)
    lower_Q, lower_C, x, h = np.tril(arrays[0]), np.tril(arrays[1]), arrays[2], np.zeros(6)
    monkeypatch.setattr(floor, "operands", lambda _: arrays)
    monkeypatch.setattr(floor, "STEP", -0.1)
    build(6, products)(3)()
    for _ in range(3):
        g = (lower_C + np.tril(lower_C, -1).T) @ x
        lower_C = lower_C - 0.1 * np.tril(np.outer(g, g))
    if products == 2:
        h = (lower_Q + np.tril(lower_Q, -1).T) @ x
    np.testing.assert_allclose(np.tril(arrays[1]), lower_C, rtol=1e-10)
    np.testing.assert_allclose(arrays[3], g, rtol=1e-10)
    np.testing.assert_allclose(arrays[4], h, rtol=1e-10)


# Timing and records


def test_a_block_has_tens_of_rows_or_as_many_as_it_can(monkeypatch):
    now = [0.0]

    def work(seconds_per_row):
        def ready(rows):
            def run():
                now[0] += rows * seconds_per_row

            return run

        return ready

    monkeypatch.setattr(timing, "CLOCK", lambda: now[0])
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 5e-3)
    monkeypatch.setattr(timing, "BUDGET_SECONDS", 2.0)
    assert timing.rows_per_block(work(1e-5)) == 500
    assert timing.rows_per_block(work(4e-4)) == 10
    assert timing.rows_per_block(work(2e-3)) == 2
    assert timing.rows_per_block(work(1.0)) == 1
    times = timing.interleaved({"fast": work(1e-6), "slow": work(1.0)}, rounds=4)
    np.testing.assert_allclose(times["fast"], 1.0)
    assert times["slow"].tolist() == pytest.approx([1e6, 1e6])


def test_ratios_and_differences_are_medians_over_common_rounds():
    times, reference = np.array([2.0, 8.0, 6.0, 100.0]), np.array([1.0, 2.0, 2.0])
    assert timing.ratio(times, reference) == 3.0
    assert timing.difference(times[:3], reference) == 4.0
    assert timing.summary(np.full(5, 1.23456)) == {"median": 1.235, "p99": 1.235, "blocks": 5}


def test_a_stopped_suite_goes_on_and_a_finished_one_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    first = record.Record("part", m=3)
    assert first.cell("a", lambda value: value, 1) == 1
    again = record.Record("part", m=3)
    assert again.cell("a", pytest.fail) == 1
    assert again.cell("b", int) == 0
    again.finish()
    assert record.read("part")["cells"] == {"a": 1, "b": 0}
    assert record.read("part")["m"] == 3
    with monkeypatch.context() as other:
        other.setattr(record, "fingerprint", lambda: "other sources")
        assert record.Record("part").cell("a", int) == 0
    record.forget_unfinished()
    assert record.Record("part").cell("a", int, "2") == 2


def written_at():
    """When each file that the commands may write was last written."""
    places = (record.ROOT / "README.md", *(record.ROOT / "docs").rglob("*"), *BENCHMARKS.rglob("*"))
    return {path: path.stat().st_mtime_ns for path in places if "__pycache__" not in path.parts}


@pytest.mark.parametrize("name", ["auto", "fleet", "main_job", "must_show", "render", "rivals", "serve"])
def test_asking_a_command_for_help_changes_no_file(name, monkeypatch, capsys):
    command = importlib.import_module(name)
    before = written_at()
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        command.main()
    assert "usage" in capsys.readouterr().out
    assert written_at() == before


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (1234.5, "1,230"), (12.345, "12.3"), (0.012345, "0.0123"), (99.96, "100")]
)
def test_numbers_have_three_figures(value, shown):
    assert tables.number(value) == shown

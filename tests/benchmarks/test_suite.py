"""The suite of benchmarks runs, and goes on where it was stopped."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import contestants
import cost_per_row
import fleet
import footprint
import must_show
import one_row
import other_libraries
import record
import rows_seen
import start_up
import timing
import where_time_goes

pytestmark = pytest.mark.more

BENCHMARKS = Path(record.__file__).parent


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Nothing is asserted about times."""
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 1e-5)
    monkeypatch.setattr(timing, "BUDGET_SECONDS", 1e-2)


# The promises


def test_the_quick_run_claims_the_same(monkeypatch):
    monkeypatch.setattr(must_show, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(must_show, "QUICK_BLOCKS", 1)
    monkeypatch.setattr(rows_seen, "BLOCK", 50)
    quick = [(c.model, c.at, c.target) for c in must_show.quick() if "floor" in c.what]
    assert quick == [(c.model, c.at, c.target) for c in must_show.from_results() if "floor" in c.what]


# The parts


@pytest.mark.filterwarnings("ignore")  # of the other libraries
def test_the_cost_of_a_row_is_measured_for_everyone_and_against_everyone():
    cell = cost_per_row.measure(10, rounds=2)
    assert set(contestants.MODELS) | set(other_libraries.installed()) <= set(cell)
    for name in contestants.MODELS:
        assert cell[name]["median"] > 0
        expected = {"NumPy"} if name == "KLMS" else {"called", "compiled", "NumPy"}
        assert set(cell[name]["ratio"]) == expected


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
    assert 0 in (rows_seen.calls_grow("SOGP absorbing", 200)["bytes grown"] for _ in range(3))


def test_start_up_times_every_step_in_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(
        start_up, "STEPS", start_up.STEPS.replace("{build}", "sg.Window(2)").partition("model.learn")[0]
    )
    monkeypatch.setattr(start_up, "STEPS", start_up.STEPS + "print(json.dumps(seconds))")
    taken = start_up.process("", str(tmp_path))
    assert list(taken) == ["import of what it needs", "import of streamgp itself", "first model"]
    assert all(seconds > 0 for seconds in taken.values())


# Timing and records


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

"""Experiments are found, run as cells that are kept, and summarized beside the paper's numbers."""

from __future__ import annotations

import json

import pytest

from reproductions import framework
from reproductions.framework import catalogue
from reproductions.framework.experiment import Reference, Table, Value
from reproductions.framework.results import Results


def run_cells(workplace):
    log = workplace / "log.txt"
    return log.read_text().split("\n")[:-1] if log.exists() else []


def test_later_cells_may_depend_on_what_earlier_ones_found(workplace):
    outcome = framework.reproduce("paper-squares", out=workplace)
    assert run_cells(workplace) == ["first 0", "first 1", "first 2", "second 4"]
    assert outcome.table.values()["sum"].ours == 0 + 1 + 4 + 16
    assert [path.name for path in outcome.files] == ["squares.csv", "squares.json", "squares.md", "squares.png"]
    assert outcome.rows[3] | {"seconds": 0} == {
        "stage": "second", "number": 4, "square": 16, "path": [1.5, 4], "word": "a, b", "seconds": 0,
    }  # fmt: skip


def test_finished_cells_are_kept(workplace):
    framework.reproduce("paper-squares", out=workplace, runs=2)
    before = run_cells(workplace)
    progress: list[tuple[int, int]] = []
    framework.reproduce("paper-squares", out=workplace, progress=lambda *counts: progress.append(counts))
    assert run_cells(workplace)[len(before) :] == ["first 2", "second 4"]
    assert progress == [(2, 3), (3, 3), (3, 4), (4, 4)]
    recorded = json.loads((workplace / "paper" / "results" / "squares.json").read_text())["runs"]
    assert [run["cells"] for run in recorded] == [3, 2]
    assert recorded[0]["settings"] == {"runs": 2}


def test_cells_finished_before_a_failure_are_kept(workplace):
    script = catalogue.ROOT / "paper" / "squares.py"
    healthy = script.read_text()
    script.write_text(healthy.replace("None", "2"))
    with pytest.raises(RuntimeError, match="this cell fails"):
        framework.reproduce("paper-squares", out=workplace)
    kept = Results(workplace / "paper" / "results" / "squares.csv")
    assert len(kept.finished([{"stage": "first", "number": number} for number in range(3)])) == 2


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    results = Results(tmp_path / "a.csv")
    results.add({"cell": 1, "found": 0.5})
    results.add({"cell": 2, "found": 0.25})
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text[:-3])
    again = Results(tmp_path / "a.csv")
    assert again.missing([{"cell": 1}, {"cell": 2}]) == [{"cell": 2}]
    again.add({"cell": 2, "found": 0.25})
    assert (tmp_path / "a.csv").read_text() == text


@pytest.mark.parametrize(
    ("ours", "better", "worse"),
    [(0.10004, "lower", False), (0.1002, "lower", True), (0.05, "higher", True), (0.2, "higher", False)],
)
def test_worse_is_decided_on_the_printed_digits(ours, better, worse):
    assert Value("a", ours, None, Reference(0.1), better).worse is worse


def test_a_table_marks_and_explains_what_is_worse():
    worse = Value("a", 0.2, 0.01, Reference(0.1, note="because", source="read off a figure"))
    table = Table(["x", "y"], [["one", worse], ["two", Value("b", 1.0, None, Reference(1.5))]], ["A note."])
    assert table.markdown().splitlines() == [
        "| x | y |",
        "|---|---|",
        "| one | 0.2000 (0.0100) [~0.1000] ▲ |",
        "| two | 1.0000 [1.5000] |",
        "",
        "A note.",
        "",
        "▲ worse than the paper:",
        "",
        "- a: because",
    ]


def test_experiments_that_share_cells_run_them_once(workplace):
    script = (catalogue.ROOT / "paper" / "squares.py").read_text()
    again = script.replace(
        'EXPERIMENT = Experiment("squares"', 'EXPERIMENT = Experiment(shares="squares", title="again"'
    )
    again = again.replace(
        '{"runs": 3}, {"runs": 2}, cells, run, summarize, plot)',
        ('full={"runs": 3}, quick={"runs": 2}, cells=cells, run=run, summarize=summarize, plot=plot)'),
    )
    (catalogue.ROOT / "paper" / "again.py").write_text(again)
    framework.reproduce("paper-squares", out=workplace / "out")
    before = run_cells(workplace)
    outcome = framework.reproduce("paper-again", out=workplace / "out")
    assert run_cells(workplace) == before
    assert [path.name for path in outcome.files] == ["squares.csv", "squares.json", "again.md", "again.png"]

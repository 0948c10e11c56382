"""The command lists the experiments, runs one and renders pages."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from reproductions.__main__ import app
from reproductions.framework import catalogue


@pytest.fixture
def call(workplace, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(workplace)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_without_a_name_the_experiments_are_listed(call):
    answer = call()
    assert answer.exit_code == 0
    assert all(word in answer.output for word in ("paper-squares", "squares", "runs 3"))
    assert call("--names").output == "paper-squares\n"


def test_a_run_shows_its_table_and_says_what_it_wrote(call):
    answer = call("paper-squares", "--runs", "4", "--out", "here")
    assert answer.exit_code == 0
    assert "95.0000 [10.0000] ▲" in answer.output  # 0 + 1 + 4 + 9, and 9 squared
    assert "wrote here/paper/results/squares.csv" in answer.output


def test_a_wrong_name_or_setting_is_a_sentence(call):
    for arguments, sentence in (
        (("paper-squars",), "did you mean 'paper-squares'?"),
        (("paper-squares", "--steps", "5"), "has no setting 'steps'; it has runs"),
    ):
        answer = call(*arguments)
        assert answer.exit_code == 2
        assert sentence in answer.output


def test_a_run_that_is_stopped_keeps_its_cells_and_says_how_to_go_on(call, workplace):
    script = catalogue.ROOT / "paper" / "squares.py"
    healthy = script.read_text()
    script.write_text(healthy.replace("None", "2").replace("RuntimeError", "KeyboardInterrupt"))
    answer = call("paper-squares", "--out", "here")
    assert answer.exit_code == 130
    assert "finished cells are kept" in answer.output
    assert len((workplace / "here" / "paper" / "results" / "squares.csv").read_text().splitlines()) == 3

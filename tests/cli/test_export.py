"""``streamgp export``: a model as C, and what the C code learned back into a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import streamgp as sg
from streamgp.cli.app import app
from streamgp.export.c import state


def test_a_model_becomes_c_and_takes_over_its_state(tmp_path: Path) -> None:
    run = CliRunner().invoke
    model = sg.KRLST(capacity=5)
    model.learn_many([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    model.save(tmp_path / "arm.sgp")
    header = tmp_path / "my-arm.h"
    told = run(app, ["export", str(tmp_path / "arm.sgp"), "--c", str(header)])
    assert told.exit_code == 0, told.output
    assert "my-arm.h" in told.output
    assert "my_arm_predict(my_arm_model *m, const double *x)" in header.read_text()
    model.learn_one([3.0], 1.0)
    state(model).tofile(tmp_path / "numbers")
    options = ["--state", str(tmp_path / "numbers"), "--save", str(tmp_path / "learned.sgp")]
    told = run(app, ["export", str(tmp_path / "arm.sgp"), *options])
    assert told.exit_code == 0, told.output
    assert "rows seen: 4" in told.output
    learned = sg.load(tmp_path / "learned.sgp")
    np.testing.assert_array_equal(learned.predict_many([[1.5]]).mean, model.predict_many([[1.5]]).mean)


def test_what_makes_no_sense_is_told_in_a_sentence(tmp_path: Path) -> None:
    run = CliRunner().invoke
    sg.filters.KLMS().save(tmp_path / "filter.sgp")
    told = run(app, ["export", str(tmp_path / "filter.sgp")])
    assert told.exit_code == 2
    assert "give --c HEADER to write C" in told.output
    told = run(app, ["export", str(tmp_path / "filter.sgp"), "--c", str(tmp_path / "f.h")])
    assert told.exit_code == 2
    assert "only an OnlineGP can become C" in told.output
    assert not (tmp_path / "f.h").exists()
    before = (tmp_path / "filter.sgp").read_bytes()
    told = run(app, ["export", str(tmp_path / "filter.sgp"), "--c", str(tmp_path / "filter.sgp")])
    assert told.exit_code == 2
    assert "exists and is not a header that streamgp wrote" in told.output
    assert (tmp_path / "filter.sgp").read_bytes() == before


def test_only_a_header_that_was_written_here_is_overwritten(tmp_path: Path) -> None:
    model = sg.KRLST(capacity=5)
    model.learn_many([[0.0], [1.0]], [0.0, 1.0])
    model.save(tmp_path / "arm.sgp")
    header, other = tmp_path / "arm.h", tmp_path / "notes.txt"
    other.write_text("a year of work\n")
    for _ in range(2):
        assert CliRunner().invoke(app, ["export", str(tmp_path / "arm.sgp"), "--c", str(header)]).exit_code == 0
    told = CliRunner().invoke(app, ["export", str(tmp_path / "arm.sgp"), "--c", str(other)])
    assert told.exit_code == 2
    assert "exists and is not a header that streamgp wrote; give --c another name, or remove it" in told.output
    assert other.read_text() == "a year of work\n"

"""What a type checker tells users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="needs mypy, of the extra dev")

SOURCE = Path(__file__).parents[2] / "src"
CODE = """
import numpy as np
import streamgp as sg

model = sg.SOGP()
p = model.track(np.zeros((3, 1)), np.zeros(3))
low, high = p.interval()
first: float = p.mean[0] + (high - low).max()
one = model.predict_one([0.0])
print(one.mean + 1.0, one.std, first, p[0].mean)
"""


@pytest.mark.more
def test_predictions_are_arrays_of_many_rows_and_whatever_they_are_of_one(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(CODE)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--config-file", "", str(script)]
    ignore = ["--ignore-missing-imports", "--follow-imports", "silent"]
    done = subprocess.run(
        [*command, *ignore], env={"MYPYPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout

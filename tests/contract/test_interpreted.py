"""Compiled functions are Python too: without compilation they give what they give with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.contract.interpreted import predictions

ROOT = Path(__file__).parents[2]


@pytest.mark.interpreted
@pytest.mark.more
def test_interpreted_code_predicts_what_compiled_code_predicts(tmp_path):
    file = tmp_path / "interpreted.npz"
    subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.contract.interpreted", str(file)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
    expected = predictions()
    with np.load(file) as interpreted:
        assert set(interpreted) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(interpreted[name], values, rtol=1e-8, atol=1e-8, err_msg=name)

"""The doctor: what it says of this machine, and that it sees wrong arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

import streamgp as sg
from streamgp.cli import doctor
from tests.cli.test_run import streamgp


def test_the_doctor_tells_versions_processor_code_blas_gpu_and_a_passed_test():
    done = streamgp("doctor")
    assert done.exit_code == 0, done.stdout
    lines = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert lines == ["streamgp", "packages", "processor", "code", "BLAS", "GPU", "self-test"]
    assert f"streamgp:  {sg.__version__}" in done.stdout
    assert f"numba {version('numba')}" in done.stdout
    assert "self-test: passed: SOGP equals the exact Gaussian process to" in done.stdout


def test_machines_get_one_object():
    found = json.loads(streamgp("doctor", "--json").stdout)
    assert f"numpy {np.__version__}" in found["packages"]
    assert found["self-test"].startswith("passed")


@pytest.mark.parametrize("worst", [1e-7, float("nan")])
def test_wrong_arithmetic_is_seen(monkeypatch, worst):
    monkeypatch.setattr(doctor, "_largest_error", lambda: worst)
    done = streamgp("doctor")
    assert done.exit_code == 1
    assert f"self-test: FAILED: SOGP equals the exact Gaussian process to {worst:.1e}, expected 1e-08" in done.stdout
    assert "the self-test failed; please report" in done.stderr


def test_gpus_are_named_by_the_driver(monkeypatch):
    monkeypatch.setattr(doctor, "GPUS", ["echo", "Card 0, 580.1"])
    assert "GPU:       Card 0, 580.1\n" in streamgp("doctor").stdout
    monkeypatch.setattr(doctor, "GPUS", ["no-such-command"])
    assert "GPU:       none with NVIDIA's driver\n" in streamgp("doctor").stdout


@pytest.mark.more
def test_the_doctor_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['streamgp', 'doctor']; from streamgp.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr

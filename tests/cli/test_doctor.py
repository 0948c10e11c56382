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


def test_the_doctor_tells_versions_processor_cache_blas_gpu_and_a_passed_test():
    done = streamgp("doctor")
    assert done.exit_code == 0, done.stdout
    lines = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert lines == ["versions", "processor", "code", "BLAS", "GPU", "self-test", "self-test"]
    assert f"streamgp {sg.__version__}" in done.stdout
    assert f"numba {version('numba')}" in done.stdout
    assert "FAILED" not in done.stdout


def test_machines_get_one_object():
    found = json.loads(streamgp("doctor", "--json").stdout)
    assert found["versions"]["numpy"] == np.__version__
    assert [check["passed"] for check in found["self-test"].values()] == [True, True]


def test_wrong_arithmetic_is_seen(monkeypatch):
    right = doctor._exact
    monkeypatch.setattr(doctor, "_exact", lambda *given: tuple(value + 1e-7 for value in right(*given)))
    done = streamgp("doctor")
    assert done.exit_code == 1
    assert "self-test: FAILED: SOGP equals the exact Gaussian process (largest difference 1.0e-07" in done.stdout
    assert "the self-test failed; please report" in done.stderr


def test_a_missing_package_and_a_missing_driver_are_said(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("numpy", "no-such-package"))
    assert doctor._versions()["no-such-package"] == "MISSING"

    def absent(_):
        raise OSError

    monkeypatch.setattr(doctor.ctypes, "CDLL", absent)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    assert doctor._gpu() == "none (no NVIDIA driver)"
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    assert doctor._gpu() == "none that can be used"


@pytest.mark.parametrize(("devices", "said"), [(0, "none (the NVIDIA driver finds no device)"), (2, "Card 0, Card 1")])
def test_devices_are_named_by_the_driver(monkeypatch, devices, said):
    class Driver:
        def cuInit(self, _):
            return 0

        def cuDeviceGetCount(self, count):
            count._obj.value = devices
            return 0

        def cuDeviceGetName(self, name, _, number):
            name.value = f"Card {number}".encode()
            return 0

    monkeypatch.setattr(doctor.ctypes, "CDLL", lambda _: Driver())
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    assert doctor._gpu() == said


@pytest.mark.more
def test_the_doctor_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['streamgp', 'doctor']; from streamgp.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr

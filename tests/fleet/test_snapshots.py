"""One file holds a fleet, and it resumes bit for bit; other files are refused."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load as parse

import streamgp as sg
from streamgp.contract import snapshot
from tests.fleet.recipes import RECIPES, dense


@pytest.mark.parametrize("name", ["SOGP, adapting", "Calibrated Standardize", "KRLST", "RLSESN", "ISSGPR"])
@pytest.mark.parametrize("rows", [0, 7, 40])
def test_a_saved_fleet_resumes_bit_for_bit(name, rows, tmp_path):
    fleet = sg.Fleet(RECIPES[name](), size=3)
    X, Y = dense(np.random.default_rng(0), 60, 3)
    fleet.track(X[:rows], Y[:rows])
    fleet.save(tmp_path / "fleet.sgp")
    resumed = sg.load(tmp_path / "fleet.sgp")
    assert isinstance(resumed, sg.Fleet)
    assert resumed.to_bytes() == fleet.to_bytes()
    p, q = fleet.track(X[rows:], Y[rows:]), resumed.track(X[rows:], Y[rows:])
    np.testing.assert_array_equal(p.mean, q.mean)
    np.testing.assert_array_equal(p.variance, q.variance)
    assert resumed.to_bytes() == fleet.to_bytes()


def saved():
    fleet = sg.Fleet(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=3), warmup=5)), size=3)
    fleet.track(*dense(np.random.default_rng(0), 9, 3))
    return fleet.to_bytes()


def altered(change):
    """The bytes of a fleet after a change of header or tensors, with a digest that fits."""
    header, _ = snapshot.unpacked(saved())
    tensors = {name: array.copy() for name, array in parse(saved()).items()}
    change(header, tensors)
    return snapshot.packed({name: header[name] for name in ("model", "settings", "shape")}, tensors)


def test_damaged_bytes_are_refused():
    data = saved()
    for cut in (0, 8, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(sg.SnapshotError, match="not a streamgp snapshot, or it is cut short or damaged"):
            sg.from_bytes(data[:cut])
    flipped = bytearray(data)
    flipped[-20] ^= 1
    with pytest.raises(sg.SnapshotError, match="do not match its digest"):
        sg.from_bytes(bytes(flipped))


def set_item(name, where, value):
    def change(_, tensors):
        tensors[f"state.{name}"][where] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            set_item("inner.inner.counters.points", 1, 99),
            "points must be .* of at most 3; it has 99",
        ),
        (set_item("inner.inner.counters.rows_seen", 2, -5), "rows_seen must be"),
        (set_item("inner.inner.mu", (2, 0), np.nan), "mu must be finite"),
        (set_item("inner.kept", 0, 6), "kept must be .* of at most 5; it has 6"),
        (set_item("inner.input_scale", 2, 0.0), "input_scale must be"),
        (set_item("counters.rows", 2, -1), "rows must be"),
        (lambda header, tensors: header["settings"].update(size=4), "has shape"),
        (lambda header, tensors: header["settings"].update(size=10**15), "which its arrays cannot hold"),
        (lambda header, tensors: header["settings"].update(device="abacus"), "device must be one of"),
        (lambda header, tensors: tensors.pop("state.inner.kept"), "the snapshot's arrays are"),
    ],
)
def test_a_file_of_no_stream_is_refused(change, reason):
    with pytest.raises(sg.SnapshotError, match=reason):
        sg.from_bytes(altered(change))

"""What a file may hold: anything but a model's own numbers is refused, and what is not refused runs."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from safetensors.numpy import load as parse

import streamgp as sg
from streamgp import job
from streamgp.contract import snapshot
from streamgp.job.description import described
from streamgp.tables.source import RowsError
from tests.contract.models import EXAMPLES, D, parameters


def opened(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["streamgp"])
    header.pop("digest")
    return header, {name: array.copy() for name, array in parse(data).items()}


def learned(name, p=1, n=40):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, D))
    model = EXAMPLES[name]()
    model.learn_many(X, np.sin(X[:, :p]) + 0.1 * rng.normal(size=(n, p)))
    return model


def altered(data, name, value, at=0):
    header, tensors = opened(data)
    tensors[f"state.{name}"].reshape(-1)[at] = value
    return snapshot.packed(header, tensors)


# ---- numbers that no stream leads to ----


@pytest.mark.parametrize(
    ("example", "array", "value", "message"),
    [
        ("SOGP", "basis", np.nan, "basis must be finite numbers; it has nan"),
        ("SOGP", "mu", np.inf, "mu must be finite numbers; it has inf"),
        ("SOGP", "counters.rows_seen", -7, "rows_seen must be finite numbers of at least 0 .*; it has -7"),
        ("SOGP", "counters.points", 9, "points must be finite numbers of at least 0 and of at most 8; it has 9"),
        ("SOGP adapting", "counters.path_stride", 0, "path_stride must be .* it has 0"),
        ("QKLMS", "counters.oldest", 8, "oldest must be .*of at most 7; it has 8"),
        ("QKLMS", "counters.terms", 9, "terms must be .*of at most 8; it has 9"),
        ("LocalGP", "counters.experts", 4, "experts must be .*of at most 3; it has 4"),
        ("LocalGP", "counts", 99.0, "counts must be .*of at most 6; it has 99"),
        ("LWPR", "counts", 99.0, "counts must be .*of at most 20; it has 99"),
        ("LWPR", "directions", 99.0, "directions must be .* it has 99"),
        ("Standardize", "input_scale", 0.0, "input_scale must be finite numbers of at least .*; it has 0.0"),
        ("Standardize", "kept", 99, "kept must be .*of at most .*; it has 99"),
        ("Standardize warming up", "begins", 7, "begins must be .*of at most 1; it has 7"),
        ("Calibrated", "losses", np.inf, "losses must be finite numbers"),
        ("DriftAware on trial", "counters.noted", -1, "noted must be .*of at least 0; it has -1"),
        ("Committee", "errors", -1.0, "errors must be finite numbers of at least 0"),
        ("Committee", "member.1.noise", np.nan, "noise must be finite"),
        ("Encoded", "window", 1e9, "window must be"),
    ],
)
def test_impossible_numbers_are_refused_with_a_sentence(example, array, value, message):
    data = learned(example).to_bytes()
    with pytest.raises(sg.SnapshotError, match=message):
        sg.from_bytes(altered(data, array, value))


def test_an_event_without_a_direction_is_refused():
    data = learned("DriftAware on trial").to_bytes()
    with pytest.raises(sg.SnapshotError, match="the directions of events must be .*of at most 2; it has 3.0"):
        sg.from_bytes(altered(data, "events", 3.0, at=1))


@pytest.mark.parametrize(
    "shape",
    [[3, 0, True, True, 1], [3, 1.5, True, True, 1], [True, 1, True, True, 1], [3, 2, True, True, 1],
     [10**9, 1, True, True, 1], [3, 1, True, True, 0], [3, 1, True, True, 1.5], [3, 1], None],
)  # fmt: skip
def test_a_shape_that_the_arrays_contradict_is_refused(shape):
    header, tensors = opened(learned("SOGP").to_bytes())
    header["shape"] = shape
    with pytest.raises(sg.SnapshotError, match="the snapshot (says|does not describe)|the model needs"):
        sg.from_bytes(snapshot.packed(header, tensors))


def test_a_reservoir_that_the_arrays_cannot_hold_is_refused_before_it_is_built():
    header, tensors = opened(learned("OESGP").to_bytes())
    header["settings"]["units"] = 10**9  # to build it would take all memory
    with pytest.raises(sg.SnapshotError, match="which its arrays cannot hold"):
        sg.from_bytes(snapshot.packed(header, tensors))


def test_a_filter_that_has_diverged_can_be_saved_and_loaded():
    model = sg.filters.KLMS(step=50.0, capacity=5)
    with np.errstate(all="ignore"):
        model.learn_many(np.linspace(0, 1, 2000), np.ones(2000))
    assert not np.isfinite(model.predict_one(0.5).mean)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


# ---- whatever is not refused runs ----

FLOATS = (np.nan, np.inf, -np.inf, 1e300, -1e300, -1.0, 0.0, 0.5, 1e9)
WHOLES = (-1, 2**62, -(2**63), 0, 1, 7, 511, 10**6)
JUNK = (None, True, -1, 0, 1, 2, 7, 0.5, -0.5, 1e308, float("nan"), 10**400, "x", "kl", [], {}, {"part": "Window"})


MOST_ARRAYS = 40  # of one model: committees of several outputs have hundreds


def try_to_run(data):
    """Whether a snapshot is taken; if it is, the model predicts and learns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = sg.from_bytes(data)
    except sg.SnapshotError:
        return False
    X = np.random.default_rng(5).normal(size=(12, model._d or D))
    Y = np.ones((12, model._p or 1))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.predict_many(X)
            model.learn_many(X, Y[:, 0] if model._shape.scalar else Y)
            model.predict_one(X[0])
            repr((model.basis, model.size, model.hyperparameters, model.health, model.last_change))
        except (ValueError, ArithmeticError):
            pass  # numbers like 1e300 may overflow; the sentence is the model's own
    return True


@pytest.mark.parametrize("example", parameters(EXAMPLES))
def test_garbage_in_any_array_is_refused_or_runs(example):
    data = learned(example, p=2).to_bytes()
    header, tensors = opened(data)
    assert try_to_run(data)
    rng = np.random.default_rng(len(example))
    filled = sorted(name for name, array in tensors.items() if array.size)  # they are read in any order
    for name in rng.permutation(filled)[:MOST_ARRAYS]:
        array = tensors[name]
        garbage = FLOATS if array.dtype == np.float64 else WHOLES
        value = garbage[rng.integers(len(garbage))]
        changed = array.copy()
        changed.reshape(-1)[rng.integers(array.size) if rng.random() < 0.5 else slice(None)] = value
        try_to_run(snapshot.packed(header, tensors | {name: changed}))


def settings_of(described):
    """Every dictionary of settings in a header, parts of parts too."""
    yield described["settings"]
    for value in described["settings"].values():
        within = value.get("list", [value]) if isinstance(value, dict) else []
        for part in within:
            if isinstance(part, dict) and "settings" in part:
                yield from settings_of(part)


@pytest.mark.parametrize("example", parameters(EXAMPLES))
def test_garbage_in_any_setting_is_refused_or_runs(example):
    header, tensors = opened(learned(example, p=2).to_bytes())
    rng = np.random.default_rng(len(example))
    for k, settings in enumerate(settings_of(header)):
        values = [*JUNK, *settings.values()]
        for name in settings:
            swapped = copy.deepcopy(header)
            list(settings_of(swapped))[k][name] = values[rng.integers(len(values))]
            try_to_run(snapshot.packed(swapped, tensors))


# ---- files that are none ----


@pytest.mark.parametrize(
    "head", [b"", bytes(9), (2**31).to_bytes(8, "little") + b"{", (64).to_bytes(8, "little") + b"{}"],
    ids=["zeros", "no header", "a long header", "no snapshot's header"],
)  # fmt: skip
@pytest.mark.parametrize("load", [sg.load, job.Pipeline.load], ids=["model", "run"])
def test_two_gigabytes_of_junk_are_refused_by_their_first_bytes(tmp_path, head, load):
    path = tmp_path / "junk"
    path.write_bytes(head)
    os.truncate(path, 2**31)
    tracemalloc.start()
    try:
        with pytest.raises(sg.SnapshotError, match="not a streamgp snapshot"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_snapshot_with_gigabytes_behind_it_is_refused_before_they_are_read(tmp_path):
    path = tmp_path / "m.sgp"
    learned("SOGP").save(path)
    os.truncate(path, 2**33)
    with pytest.raises(sg.SnapshotError, match="cut short or damaged"):
        sg.load(path)


@pytest.mark.parametrize("load", [sg.load, job.Pipeline.load, described], ids=["model", "run", "inspect"])
def test_what_is_no_ordinary_file_is_refused_and_a_missing_one_is_told(tmp_path, load):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(sg.SnapshotError, match="is not an ordinary file; expected a file written by"):
            load(path)
    (tmp_path / "empty").touch()
    with pytest.raises(sg.SnapshotError, match="not a streamgp snapshot"):
        load(tmp_path / "empty")
    with pytest.raises((FileNotFoundError, RowsError), match="nowhere"):
        load(tmp_path / "nowhere")


# ---- names ----


@pytest.mark.more
def test_a_class_of_the_users_hides_none_of_ours():
    data = sg.SOGP(depth=3).to_bytes()
    code = """
import streamgp as sg, sys
class Window(sg.Window): pass
class SOGP(sg.SOGP): pass
class SquaredExponential(sg.settings.Part): pass
data = sys.stdin.buffer.read()
model = sg.from_bytes(data)
assert type(model) is sg.SOGP, type(model)
assert model.to_bytes() == data
own = SOGP(capacity=5)
own.learn_one(1.0, 2.0)
again = sg.from_bytes(own.to_bytes())
assert type(again) is SOGP
sys.stdout.buffer.write(own.to_bytes())
"""
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    with pytest.raises(sg.SnapshotError, match="holds a '__main__.SOGP', .*; import the module that defines it first"):
        sg.from_bytes(done.stdout)

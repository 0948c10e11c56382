from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialize

import streamgp as sg
from streamgp.contract import snapshot
from streamgp.contract.within import all_arrays

rng = np.random.default_rng(0)


def trained():
    model = sg.SOGP(sg.SquaredExponential([1.0, 2.0]), capacity=6, noise=0.05, depth=2)
    X = rng.normal(size=(30, 2))
    model.learn_many(X, np.sin(X[:, 0]))
    return model


MODEL = trained()
DATA = MODEL.to_bytes()


def header_and_tensors(data=DATA):
    length = int.from_bytes(data[:8], "little")
    return json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["streamgp"]), parse(data)


def repacked(header, tensors):
    """A snapshot with a valid digest: what a careless or hostile writer could make."""
    header.pop("digest")
    return snapshot.packed(header, tensors)


def test_the_file_is_safetensors_with_a_json_header():
    header, tensors = header_and_tensors()
    assert header["format"] == 4
    assert header["model"] == "SOGP"
    assert header["library"] == sg.__version__
    assert header["settings"]["capacity"] == 6
    assert len(header["digest"]) == 64
    assert tensors["state.basis"].shape == (7, 4)


@pytest.mark.parametrize(
    ("name", "is_upper"), [("state.factor", 1.0), ("state.covariance", 0.0)], ids=["the upper one", "the lower one"]
)
def test_of_triangular_matrices_only_the_triangle_is_written(name, is_upper):
    _, tensors = header_and_tensors()
    matrix = np.squeeze(all_arrays(MODEL)[name.removeprefix("state.")])
    n = len(matrix)
    for i in range(n):
        for j in range(i + 1):
            written = np.squeeze(tensors[name])[i * (i + 1) // 2 + j]
            assert written == (matrix[j, i] if is_upper else matrix[i, j])
            assert i == j or (matrix[i, j] if is_upper else matrix[j, i]) == 0.0
    assert tensors[name].shape[-1] == n * (n + 1) // 2 + 1
    assert np.squeeze(tensors[name])[-1] == is_upper


def test_bytes_are_a_pure_function_of_the_state():
    assert MODEL.to_bytes() == DATA
    assert MODEL.copy().to_bytes() == DATA
    assert sg.from_bytes(DATA).to_bytes() == DATA


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, len(DATA) // 2, len(DATA) - 1])
def test_truncated_files_are_refused(cut):
    with pytest.raises(sg.SnapshotError, match="not a streamgp snapshot, or it is cut short or damaged"):
        sg.from_bytes(DATA[:cut])


def test_a_flipped_bit_in_the_numbers_is_refused():
    data = bytearray(DATA)
    data[-9] ^= 1
    with pytest.raises(sg.SnapshotError, match="damaged: its contents do not match its digest"):
        sg.from_bytes(bytes(data))


def test_models_of_older_versions_are_refused_with_the_way_to_go():
    for number, library in ((2, "0.2.0"), (3, "0.3.0")):
        header, tensors = header_and_tensors()
        header |= {"format": number, "library": library}
        sentence = (
            f"has format {number}, this version of streamgp reads format 4; it was written by streamgp '{library}'. "
            "Formats are not converted: learn the stream again with this version, or load the file with the one that"
        )
        with pytest.raises(sg.SnapshotError, match=re.escape(sentence)):
            sg.from_bytes(repacked(header, tensors))


@pytest.mark.parametrize(
    "foreign",
    [b"", b"PK\x03\x04" + bytes(100), b"\x80\x04K\x01.", json.dumps({"a": 1}).encode(), serialize({"w": np.ones(3)})],
    ids=["empty", "zip", "pickle", "json", "safetensors"],
)
def test_foreign_files_are_refused(foreign, tmp_path):
    (tmp_path / "foreign").write_bytes(foreign)
    with pytest.raises(sg.SnapshotError, match="not a streamgp snapshot"):
        sg.load(tmp_path / "foreign")


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda h, t: h.update(model="Popen"), "holds a 'Popen', which this version of streamgp does not know"),
        (lambda h, t: h.update(model="Window"), "holds a 'Window', which is not a model"),
        (lambda h, t: h["settings"].update(capacity=-3), "capacity must be a whole number of at least 1"),
        (lambda h, t: h["settings"].update(shell="rm"), "SOGP has no setting 'shell'"),
        (lambda h, t: h["settings"]["kernel"].update(part="os.system"), "has a part 'os.system'"),
        (lambda h, t: h["settings"].update(capacity=7), r"the array \w+.* has shape .*, the model needs"),
        (lambda h, t: t.pop("state.basis"), "the snapshot's arrays are"),
        (lambda h, t: t.update({"state.extra": np.ones(2)}), "the snapshot's arrays are"),
        (lambda h, t: t.update({"state.noise": t["state.noise"].astype(np.float32)}), "noise has shape .*float32"),
        (lambda h, t: h.pop("shape"), "does not describe a model"),
        (lambda h, t: h.update(shape=[2, -1, True, True, 1]), "says rows of 2 inputs and -1 targets"),
    ],
)
def test_well_formed_files_that_hold_something_else_are_refused(alter, message):
    header, tensors = header_and_tensors()
    tensors = {name: array.copy() for name, array in tensors.items()}
    alter(header, tensors)
    with pytest.raises(sg.SnapshotError, match=message):
        sg.from_bytes(repacked(header, tensors))


def test_no_mutation_gives_a_wrong_model():
    """3 000 mutations: only our own error, never another model, never another exception."""
    mutations = np.random.default_rng(1)
    refused = 0
    for _ in range(3000):
        data = bytearray(DATA)
        kind = mutations.integers(5)
        at = int(mutations.integers(len(data)))
        if mutations.random() < 0.5:  # the header is where the structure is
            at = int(mutations.integers(8 + int.from_bytes(DATA[:8], "little")))
        if kind == 0:
            data[at] ^= 1 << int(mutations.integers(8))
        elif kind == 1:
            data[at] = int(mutations.integers(256))
        elif kind == 2:
            del data[at : at + int(mutations.integers(1, 64))]
        elif kind == 3:
            data[at:at] = mutations.bytes(int(mutations.integers(1, 64)))
        else:
            data = data[:at]
        try:
            model = sg.from_bytes(bytes(data))
        except sg.SnapshotError:
            refused += 1
        else:
            assert bytes(data) == DATA  # a byte replaced by itself
            assert model.to_bytes() == DATA
    assert refused > 2900


def test_no_module_uses_pickle_but_for_messages_to_processes_that_it_has_started():
    """A file may come from anybody; a pipe to a process of its own is as private as the memory of this one."""
    root = Path(sg.__path__[0])
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if "import pickle" in path.read_text()}
    assert found == {"fleet/each.py", "fleet/holder.py", "fleet/remote.py"}

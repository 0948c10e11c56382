"""Machine code as a wheel has it: the same numbers as Numba's, and arguments that do not fit are refused."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from streamgp.compiled import compile_now, compile_once, shipped
from streamgp.contract import checks, ladder, spacing
from streamgp.process import budget

ROOT = Path(__file__).parents[2]
ENTRIES = (checks.check, spacing.note, spacing.usual, budget.least_distinct, ladder.evaluate)
NAMES = [compile_once.name_of(one) for one in ENTRIES]
PROCESSOR = {"x86_64": "x86-64", "AMD64": "x86-64"}.get(platform.machine(), "generic")

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled with NUMBA_DISABLE_JIT"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler: apt-get install gcc"),
]


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Entries of a library that was built from these sources, by name."""
    folder = tmp_path_factory.mktemp("core")
    environment = os.environ | {
        "STREAMGP_JIT": "1",
        "NUMBA_CPU_NAME": PROCESSOR,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    command = [sys.executable, "machine/build_core.py", str(folder), PROCESSOR, *NAMES]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    library = shipped.Library(folder / f"{PROCESSOR}.so", [name for name in written(folder) if name in NAMES])
    assert library.reads_arrays()
    return {one.py_func.__name__: shipped.Entry(one.py_func, one.kinds, library) for one in ENTRIES}


def written(folder):
    return json.loads((folder / "entries.json").read_text())


def test_numbers_are_those_of_numba(called):
    compile_now(*ENTRIES)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 8))
    X[4, 3] = np.inf
    for rows in (X, X[:4], X[::2, 1:5], np.asfortranarray(X), X[:0], X[4:5, :3]):
        for shared in (True, False):
            assert called["check"](rows, rows[:, :1], shared, 1e150) == checks.check(rows, rows[:, :1], shared, 1e150)
    ours, theirs = np.zeros(200), np.zeros(200)
    for gap in rng.exponential(size=80):
        assert called["note"](ours, gap) is None
        spacing.note(theirs, gap)
        assert called["usual"](ours) == spacing.usual(theirs)
    np.testing.assert_array_equal(ours, theirs)
    for stays in (True, False):
        given = np.geomspace(1.0, 1e9, 7), np.ones(7), 7, 1e-6, False, stays
        assert called["least_distinct"](*given) == budget.least_distinct(*given)
    scores, errors = np.linspace(-3, 3, 9), np.sort(rng.normal(size=(2, 9)), axis=1)
    for what in range(4):
        values, one, other = np.array([0.1, 0.7]), np.zeros(2), np.zeros(2)
        for out, function in ((one, called["evaluate"]), (other, ladder.evaluate)):
            function(what, scores, errors, np.full((2, 4), 0.1), values, out)
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_arrays_that_may_only_be_read_are_read(called):
    X = np.ones((2, 3))
    X.flags.writeable = False
    assert called["check"](X, X[:, :1], True, 1e150) == (checks.FINE, -1)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("note", (np.zeros(200),), r"note\(\) takes 2 arguments, 1 were given"),
        ("note", ([0.0] * 200, 1.0), r"argument 1 of note\(\) is no array"),
        ("note", (np.zeros((200, 1)), 1.0), r"argument 1 of note\(\) has another number of axes"),
        ("note", (np.zeros(200, dtype=np.float32), 1.0), r"argument 1 of note\(\) has numbers of another type"),
        ("note", (np.zeros(200, dtype=">f8"), 1.0), r"argument 1 of note\(\) has numbers of another type"),
        ("note", (np.zeros(400)[::2], 1.0), r"argument 1 of note\(\) does not lie row by row"),
        ("note", (np.broadcast_to(0.0, 200), 1.0), r"argument 1 of note\(\) cannot be written to"),
        ("note", (np.zeros(200), "much"), "must be real number"),
        ("least_distinct", (np.ones(3), np.ones(3), 1.5, 1.0, False, False), "cannot be interpreted as an integer"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(called, name, given, said):
    with pytest.raises(TypeError, match=said):
        called[name](*given)


def test_other_kinds_of_the_same_numbers_are_taken(called):
    class Marked(np.ndarray):
        pass

    state = np.zeros(200).view(Marked)
    called["note"](state, np.float64(2))
    called["note"](state, 2)
    assert called["usual"](np.frombuffer(state.tobytes(), dtype="<f8").copy()) == 2.0


def test_threads_call_at_once(called):
    states = [np.zeros(200) for _ in range(4)]

    def work(state):
        for _ in range(2000):
            called["note"](state, 1.0)

    threads = [threading.Thread(target=work, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(state, states[0]) for state in states)


def test_a_library_of_other_sources_is_left_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    assert shipped.library() is None
    (tmp_path / shipped.TABLE).write_text('{"digest": "another", "processors": ["generic"], "entries": []}')
    assert shipped.library() is None


def test_where_the_processor_cannot_be_told_the_code_for_all_is_taken(monkeypatch):
    built = ["x86-64-v3", "x86-64"]
    monkeypatch.setattr(shipped, "_has_avx2", lambda: True)
    assert shipped.processors(built) == built
    monkeypatch.undo()

    def hidden(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(shipped.Path, "read_text", hidden)
    assert shipped.processors(built) == ["x86-64"]


def test_without_code_and_without_numba_the_first_model_says_what_to_install():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'numba' else find(name, *rest)\n"
        "import streamgp as sg; sg.SOGP().learn_one([0.0], 1.0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith(f"ImportError: {shipped.NO_CODE}")


def test_an_entry_that_makes_an_array_is_refused_by_the_build(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "machine")
    import build_core

    code = "declare ptr @NRT_Allocate(i64)\n  tail call void @NRT_MemInfo_call_dtor(ptr %x)\n"
    build_core.refuse_allocations("streamgp.process.stream:run_fixed", code)
    with pytest.raises(SystemExit, match=r"stream:run_fixed makes an array, by NRT_MemInfo_alloc_aligned; pass it one"):
        build_core.refuse_allocations(
            "streamgp.process.stream:run_fixed",
            f"{code}  %1 = call noalias ptr @NRT_MemInfo_alloc_aligned(i64 %n, i32 32)",
        )

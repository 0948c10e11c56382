"""What compiled.py takes from Numba that Numba does not promise, and that a cold start and a warm one agree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamgp
import streamgp as sg
from streamgp.compiled import INTERPRETED, compile_now, compile_once, is_filled
from streamgp.contract import checks
from streamgp.job import ahead
from streamgp.process import state, stream
from tests import architecture, processors

CODE = (
    "import numpy as np, streamgp as sg, hashlib; t = np.arange(300.0)\n"
    "p = sg.SWKRLS(sg.SquaredExponential(1.0), capacity=20).track(np.sin(t / 9), np.cos(t / 7))\n"
    "print(hashlib.sha256(p.mean.tobytes() + p.variance.tobytes()).hexdigest())"
)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_numba_has_the_private_parts_that_the_cache_needs():
    compile_now(stream.run_growing)
    cache = stream.run_growing._cache
    assert isinstance(cache._cache_file._source_stamp, str)
    key = cache._index_key(stream.run_growing.types, stream.run_growing.targetctx.codegen())
    assert cache._cache_file.load(key)
    assert key in cache._cache_file._load_index()
    assert stream.run_growing.types in stream.run_growing.overloads


@pytest.mark.more
def test_a_cold_start_says_that_it_compiles_and_gives_the_same_bits_as_a_warm_one(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    first, last = cold.stderr.splitlines()
    assert first == "streamgp: compiling, once after an installation ..."
    assert re.fullmatch(r"streamgp: compiled in \d+ s", last)
    assert warm.stderr == ""
    assert cold.stdout == warm.stdout


@pytest.mark.more
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_functions_of_different_layouts_have_different_names_whatever_process_compiles_them():
    code = (
        "import sys, importlib; from numba.core.funcdesc import default_mangler\n"
        "from streamgp.compiled.compile_once import prepare; prepare()\n"
        "layouts = {name: importlib.import_module(name).LAYOUT.type for name in sys.argv[1:]}\n"
        "print(*(default_mangler('look', [layouts[name]]) for name in sorted(layouts)))"
    )
    modules = ["streamgp.filters.rules", "streamgp.local.localgp"]
    names = [
        subprocess.run([sys.executable, "-c", code, *order], capture_output=True, text=True, check=True).stdout.split()
        for order in (modules, modules[::-1])
    ]
    assert names[0] == names[1]
    assert len(set(names[0])) == 2


@pytest.mark.more
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_what_an_entry_calls_is_its_own(tmp_path):
    """Processes number functions alike: ``learn``, number 35, of one entry would stand for that of another one."""
    code = (
        "from streamgp.compiled.compile_once import code, prepare; prepare()\n"
        "from streamgp.process.features import kernel_values\n"
        "entry = kernel_values.entry; entry.compile(entry.types)\n"
        "library = entry.overloads[entry.types].library\n"
        "for one in library._final_module.functions:\n"
        "    if not one.is_declaration: print('kernel_values' in one.name, one.linkage.name)"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    found = set(done.stdout.splitlines())
    assert "False internal" in found
    assert not {"False external", "False linkonce_odr", "False weak"} & found


def test_the_suite_is_compiled_for_the_processors_that_this_one_can_stand_in_for():
    haswell, skylake = processors.NEEDS["haswell"], processors.NEEDS["skylake-avx512"]
    assert processors.runnable(dict.fromkeys(haswell, True)) == (
        ["generic", "haswell"],
        {"skylake-avx512": list(skylake)},
    )
    assert processors.runnable({})[0] == ["generic"]
    assert processors.runnable({})[1]["skylake-avx512"] == [*haswell, *skylake]


# What is compiled ahead of time.


def names(entries):
    return [compile_once.name_of(function.entry) for function in entries]


needs_compiler = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")


@needs_compiler
def test_everything_that_is_marked_is_compiled_ahead_and_commands_come_first():
    root = Path(streamgp.__file__).parent
    marked = {
        f"{'.'.join(path.relative_to(root.parent).with_suffix('').parts)}:{name}"
        for path in root.rglob("*.py")
        for node in ast.walk(architecture.tree(path))
        if (name := entry_in(node)) is not None
    }
    every = names(ahead.every())
    assert set(every) == marked
    assert len(every) == len(marked)
    first = list(dict.fromkeys(names(ahead.of_commands())))
    assert every[: len(first)] == first


def entry_in(node):
    """The name of the entry that a node of a module declares, by a decorator or as a loop of a kind of models."""
    if isinstance(node, ast.FunctionDef):
        marks = [ast.unparse(mark.func) for mark in node.decorator_list if isinstance(mark, ast.Call)]
        return node.name if {"entry", "apart"} & {*marks} else None
    made = isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func)
    return ast.unparse(node.targets[0]) if made == "loop.of" else None


@needs_compiler
def test_a_plan_has_a_place_for_what_loops_call_by_its_address_and_models_fill_in_what_they_call():
    apart = {function.entry.py_func.__name__ for function in ahead.every() if function.entry is not function}
    sogp, line = sg.SOGP(), sg.OnlineGP(sg.Linear(), noise=0.1)
    timed = sg.OnlineGP(sg.Basis(sg.Matern(1.5)), noise=0.1, time=sg.Matern(0.5))
    assert apart <= set(state.PLAN.names)
    assert set(sogp._places) == {"kernel_values"}
    assert not line._places
    assert set(timed._places) == {"kernel_values", "arrive", "pass_time", "report_components"}
    sogp.learn_one([0.0], 1.0)
    places = {name: int(sogp._numbers.plan[name][0]) for name in apart}
    assert {name for name, place in places.items() if place} == {"kernel_values"}


@needs_compiler
@pytest.mark.more
def test_commands_compile_nothing_once_their_list_is_compiled(tmp_path):
    code = """
import sys
from pathlib import Path
from numba.core import event
from streamgp.job import Job, ahead
from streamgp.job.demonstration import write_demo
from streamgp.job.forecast import forecast_table
from streamgp.serve.learner import Learner
from streamgp.serve.ops import Op
from streamgp.serve.messages import StreamSettings

ahead.compile_for_commands()
compiled = []

class Listener(event.Listener):
    def on_start(self, found):
        compiled.append(found.data["dispatcher"].py_func.__qualname__)

    def on_end(self, found):
        pass

event.register("numba:compile", Listener())
table = Path(sys.argv[1]) / "table.csv"
write_demo(table, rows=220)
Job(table, "power", settings={"alarms": "1e-3"}).run()
Job(table, "power", horizon=3).run()
Job(table, "power", model="SOGP", lags=3).run()
forecast_table(str(table), "power", "6h", out=table.with_name("ahead.csv"))
learner = Learner(StreamSettings("y"), "")
learner.apply(Op("rows", rows=[{"x": float(i % 7), "y": float(i % 5)} for i in range(120)]))
allowed = {id(function.entry) for function in ahead.of_commands()}
entries = [function.entry for function in ahead.every()]
loaded = [entry.py_func.__qualname__ for entry in entries if entry.overloads and id(entry) not in allowed]
print(compiled, loaded)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] []"


def test_two_processes_compile_every_second_entry_each_and_say_so(monkeypatch, capfd):
    parts = []

    def started(part):
        parts.append(part)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(compile_once, "_started", started)
    entries = [function.entry for function in ahead.FORECAST]
    compile_once.fill(entries)
    compile_once.fill(entries[:1])
    named = [compile_once.name_of(entry) for entry in entries]
    assert parts == [named[::2], named[1::2], named[:1]]
    assert len(re.findall(r"compiled in \d+ s", capfd.readouterr().err)) == 2


def test_what_no_process_can_compile_is_left_to_the_caller(monkeypatch, capfd):
    monkeypatch.setattr(sys, "executable", str(Path(sys.executable).with_name("no-such-python")))
    compile_once.fill([checks.check])
    assert re.fullmatch(r"streamgp: compiling, .* \.\.\.\nstreamgp: compiled in 0 s\n", capfd.readouterr().err)


@needs_compiler
def test_what_is_loaded_is_compiled():
    compile_now(checks.check)
    assert is_filled(checks.check)


@needs_compiler
def test_what_is_loaded_is_found_without_a_lock_that_an_interrupted_call_may_have_left_held(monkeypatch):
    from streamgp.compiled import jit

    sg.KRLST()
    monkeypatch.setattr(jit, "global_compiler_lock", None)
    sg.KRLST()

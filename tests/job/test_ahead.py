"""What a run needs is compiled before it starts: nothing that takes long is met later, and nothing in vain."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streamgp.auto.needed import FIRST, PROCESSES
from streamgp.compiled import INTERPRETED
from streamgp.job import Pipeline
from streamgp.job.ahead import of_model
from streamgp.job.yardsticks import follow
from streamgp.tables.columns import Column, Schema

pytest.importorskip("numba", reason="nothing is compiled without Numba")
from streamgp.compiled import compile_once

ELSEWHERE = {  # what these models compile for themselves
    "KLMS": {"filters.rules.run"},
    "LWPR": {"local.lwpr.run"},
}
MODELS = ("auto", "KRLST", "ISSGPR", "KLMS", "LWPR")
# Every model runs in a fork of a process that has imported everything and compiled nothing.
RUNS = """
import os
import sys
import numpy as np
import streamgp.api
from streamgp.job import Pipeline
from streamgp.tables.columns import Column, Schema
from streamgp.tables.encoding import EncodedRows

def run(model):
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    pipeline = Pipeline(schema, model=model, lags=1, settings={"warmup": 200})
    names = [vars(module) for name, module in sorted(sys.modules.items()) if name.startswith("streamgp.")]
    things = [getattr(thing, "entry", thing) for some in names for thing in some.values()]
    functions = {id(thing): thing for thing in things if hasattr(thing, "overloads")}
    for function in functions.values():
        if function.overloads:
            print(model, "ahead", function.py_func.__module__, function.py_func.__qualname__)
    x = np.linspace(0, 40, 400)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).normal(size=400)
    pipeline.take(EncodedRows(x[:, None], y, None, list(range(400)), []))
    for function in functions.values():
        for _ in function.overloads:
            print(model, "called", function.py_func.__module__, function.py_func.__qualname__)
        for _ in function.stats.cache_misses:
            print(model, "compiled", function.py_func.__module__, function.py_func.__qualname__)

for model in sys.argv[1:]:
    if not os.fork():
        run(model)
        sys.exit()
    if os.wait()[1]:
        sys.exit(1)
"""


def run(models):
    """By model, what its run says."""
    command = [sys.executable, "-W", "ignore", "-c", RUNS, *models]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {model: [line.split()[1:] for line in lines if line.startswith(f"{model} ")] for model in models}


@pytest.fixture(scope="module")
def said():
    found = run(MODELS)
    cold = [model for model in MODELS if any(kind == "compiled" for kind, *_ in found[model])]
    return found | (run(cold) if cold else {})  # what was not in the cache is there now


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.more
def test_a_run_calls_what_was_compiled_ahead_and_for_those_types(model, said):
    ahead, called = ([tuple(name) for kind, *name in said[model] if kind == wanted] for wanted in ("ahead", "called"))
    expected, at_once = (
        {(function.entry.py_func.__module__, function.entry.py_func.__qualname__) for function in some}
        for some in (of_model(model), FIRST if model == "auto" else of_model(model))
    )
    assert set(ahead) >= at_once
    assert len(set(called)) == len(called), "compiled for other types of arguments, too"
    assert {name for _, name in set(called) - expected} <= ELSEWHERE.get(model, set())


def test_a_wrong_request_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr(compile_once, "is_cached", lambda function: pytest.fail("compiles"))
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    for asked, said in (
        ({"model": "KRLST", "settings": {"capasity": 3}}, "capasity"),
        ({"model": "KRLSTT"}, "there is no model 'KRLSTT'. Did you mean 'KRLST'"),
        ({"lags": 2000}, "a row would have 2001 inputs"),
    ):
        with pytest.raises(ValueError, match=said):
            Pipeline(schema, **asked)


BUILT = """
from streamgp.compiled import compile_once
import streamgp as sg
from streamgp.job import Pipeline
from streamgp.tables.columns import Column, Schema

def fill(entries):
    print(*map(compile_once.name_of, entries))
    raise SystemExit

compile_once.fill = fill
{build}
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("build", "beside"),
    [
        ("Pipeline(Schema((Column('x', 'number'), Column('y', 'number')), 'y', ('x',)))", [follow]),
        pytest.param("sg.Auto()", [], marks=pytest.mark.more),
    ],
)
def test_what_auto_needs_is_compiled_together_before_its_first_row(build, beside, tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # which holds nothing
    done = subprocess.run(
        [sys.executable, "-c", BUILT.format(build=build)], env=environment, capture_output=True, text=True
    )
    expected = [*FIRST, *PROCESSES, *beside]
    assert done.stdout.split() == [compile_once.name_of(function.entry) for function in expected]

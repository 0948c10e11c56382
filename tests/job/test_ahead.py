"""What a run needs is compiled before it starts: nothing that takes long is met later, and nothing in vain."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streamgp import compiled
from streamgp.job import Pipeline
from streamgp.job.ahead import needed, of_commands
from streamgp.tables.columns import Column, Schema

ELSEWHERE = {  # what these models compile for themselves
    "KLMS": {"run", "predict"},
    "LWPR": {"run", "predict"},
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
    functions = {id(thing): thing for some in names for thing in some.values() if hasattr(thing, "overloads")}
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


@pytest.mark.skipif(compiled.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.more
def test_a_run_calls_what_was_compiled_ahead_and_for_those_types(model, said):
    ahead, called = ([tuple(name) for kind, *name in said[model] if kind == wanted] for wanted in ("ahead", "called"))
    expected = {(function.py_func.__module__, function.py_func.__qualname__) for function in needed(model)}
    assert set(ahead) >= expected
    assert len(set(called)) == len(called), "compiled for other types of arguments, too"
    assert {name for _, name in set(called) - expected} <= ELSEWHERE.get(model, set())


def test_a_wrong_request_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "_is_cached", lambda function: pytest.fail("compiles"))
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    with pytest.raises(ValueError, match="capasity"):
        Pipeline(schema, model="KRLST", settings={"capasity": 3})


FIRST = """
from streamgp import compile_once
from streamgp.job import Pipeline
from streamgp.tables.columns import Column, Schema

def fill(names):
    print(*names)
    raise SystemExit

compile_once.fill = fill
Pipeline(Schema((Column("x", "number"), Column("y", "number")), "y", ("x",)))
"""


def test_a_first_run_compiles_all_that_commands_need_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # which holds nothing
    done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True)
    assert set(done.stdout.split()) == {f"{f.py_func.__module__}:{f.py_func.__name__}" for f in of_commands()}

"""What compiled.py takes from Numba that Numba does not promise, and that a cold start and a warm one agree."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import pytest

from streamgp.compiled import compile_now
from streamgp.process import stream
from tests import processors

CODE = (
    "import numpy as np, streamgp as sg, hashlib; t = np.arange(300.0)\n"
    "p = sg.SWKRLS(sg.SquaredExponential(1.0), capacity=20).track(np.sin(t / 9), np.cos(t / 7))\n"
    "print(hashlib.sha256(p.mean.tobytes() + p.variance.tobytes()).hexdigest())"
)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_numba_has_the_private_parts_that_the_cache_needs():
    compile_now(stream.run_growing)
    cache = stream.run_growing._cache
    assert isinstance(cache._cache_file._source_stamp, str)
    assert cache._cache_file.load(cache._index_key(stream.run_growing.types, stream.run_growing.targetctx.codegen()))
    assert stream.run_growing.types in stream.run_growing.overloads


@pytest.mark.more
def test_a_cold_start_says_that_it_compiles_and_gives_the_same_bits_as_a_warm_one(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert "streamgp: compiling" in cold.stderr
    assert warm.stderr == ""
    assert cold.stdout == warm.stdout


@pytest.mark.more
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_functions_of_different_layouts_have_different_names_whatever_process_compiles_them():
    code = (
        "import sys, importlib; from numba.core.funcdesc import default_mangler\n"
        "from streamgp.compile_once import compile_entries; compile_entries([])\n"
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


def test_the_suite_is_compiled_for_the_processors_that_this_one_can_stand_in_for():
    haswell, skylake = processors.NEEDS["haswell"], processors.NEEDS["skylake-avx512"]
    assert processors.runnable(dict.fromkeys(haswell, True)) == (
        ["generic", "haswell"],
        {"skylake-avx512": list(skylake)},
    )
    assert processors.runnable({})[0] == ["generic"]
    assert processors.runnable({})[1]["skylake-avx512"] == [*haswell, *skylake]


@pytest.mark.more
def test_what_compiles_ends_with_the_process_that_asked_for_it():
    code = (
        "import threading, time\n"
        "from streamgp.compile_once import _end_with_input\n"
        "threading.Thread(target=_end_with_input, daemon=True).start()\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    process.stdin.close()  # as it is when the other process ends, however it does
    assert process.wait(timeout=120) == 1

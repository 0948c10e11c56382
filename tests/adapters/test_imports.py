from __future__ import annotations

import subprocess
import sys

import pytest


def run_without(missing: str, code: str) -> subprocess.CompletedProcess[str]:
    hide = "; ".join(f"sys.modules[{name!r}] = None" for name in missing.split())
    return subprocess.run([sys.executable, "-c", f"import sys; {hide}; {code}"], capture_output=True, text=True)


def test_the_core_needs_neither_scikit_learn_nor_river():
    done = run_without("sklearn river pandas", "import streamgp as sg; print(sg.Standardize.__name__)")
    assert done.stdout == "Standardize\n", done.stderr


def test_importing_the_core_imports_no_adapter():
    code = "import sys, streamgp; print({'sklearn', 'river', 'streamgp.adapters'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("sklearn", "streamgp.adapters.sklearn needs scikit-learn: pip install 'streamgp[sklearn]'"),
        ("river", "streamgp.adapters.river needs River: pip install 'streamgp[river]'"),
    ],
)
def test_an_adapter_without_its_library_says_what_to_install(library, message):
    done = run_without(library, f"import streamgp.adapters.{library}")
    assert done.returncode == 1
    assert message in done.stderr

from __future__ import annotations

import subprocess
import sys

import pytest

import streamgp as sg

pytestmark = pytest.mark.more  # processes of their own


def run_without(missing: str, code: str) -> subprocess.CompletedProcess[str]:
    hide = "; ".join(f"sys.modules[{name!r}] = None" for name in missing.split())
    return subprocess.run([sys.executable, "-c", f"import sys; {hide}; {code}"], capture_output=True, text=True)


def test_the_core_needs_neither_scikit_learn_nor_river():
    done = run_without("sklearn river pandas", "import streamgp as sg; print(sg.Standardize.__name__)")
    assert done.stdout == "Standardize\n", done.stderr


def test_importing_the_core_imports_no_adapter():
    code = "import sys, streamgp; streamgp.KRLST; print({'sklearn', 'river', 'streamgp.adapters'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_nothing_is_imported_before_the_first_name_is_used_and_then_everything():
    code = (
        "import sys, streamgp as sg; assert 'numpy' not in sys.modules; names = dir(sg)\n"
        "assert set(sg.__all__) <= set(names) and sg.KRLST is vars(sg)['KRLST'] and sg.data.henon(3)\n"
        "from streamgp import *; print(Calibrated.__name__, hasattr(sg, 'nothing'), hasattr(sg, '_nothing'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "Calibrated False False\n", done.stderr


def test_a_snapshot_is_loaded_although_nothing_else_was_imported(tmp_path):
    model = sg.KRLST(capacity=3)
    model.learn_one(1.0, 2.0)
    model.save(tmp_path / "m.sgp")
    code = f"from streamgp.contract.loading import load; print(type(load({str(tmp_path / 'm.sgp')!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "KRLST\n", done.stderr


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("skpro", "streamgp.adapters.skpro needs skpro: pip install 'streamgp[skpro]'"),
        ("sklearn", "streamgp.adapters.sklearn needs scikit-learn: pip install 'streamgp[sklearn]'"),
        ("sktime", "streamgp.adapters.sktime needs sktime: pip install 'streamgp[sktime]'"),
        ("river", "streamgp.adapters.river needs River: pip install 'streamgp[river]'"),
    ],
)
def test_an_adapter_without_its_library_says_what_to_install(library, message):
    done = run_without(library, f"import streamgp.adapters.{library}")
    assert done.returncode == 1
    assert message in done.stderr

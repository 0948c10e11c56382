"""The examples of docstrings run in a folder of their own, where they may write files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore = [] if find_spec("numba_cuda") else ["streamgp/cuda/kernels.py", "streamgp/cuda/place.py"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

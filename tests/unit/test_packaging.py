"""The wheel has what users need and nothing else; what it depends on are versions that were tested."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    build = pytest.importorskip("hatchling.build", reason="needs hatchling, which builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return zipfile.ZipFile(folder / build.build_wheel(str(folder)))


def test_the_wheel_has_every_module_and_what_the_commands_read(wheel):
    names = set(wheel.namelist())
    for path in (ROOT / "src" / "streamgp").rglob("*"):
        if path.suffix in (".py", ".html", ".typed"):
            assert path.relative_to(ROOT / "src").as_posix() in names
    assert wheel.read("streamgp/references.bib") == (ROOT / "references.bib").read_bytes()


def test_the_wheel_has_nothing_else(wheel):
    for name in wheel.namelist():
        assert name.startswith(("streamgp/", "streamgp-")), name
        assert "reproduc" not in name
        assert "__pycache__" not in name
    assert sum(entry.compress_size for entry in wheel.infolist()) < 1_000_000


def test_who_installs_the_wheel_installs_no_compiler():
    extras = PROJECT["optional-dependencies"]
    for extra in ("cli", "serve", "tables", "plots", "trees"):
        assert not any(line.startswith(("numba", "streamgp[jit]")) for line in extras[extra])
    assert not any(line.startswith(("numba", "llvmlite")) for line in PROJECT["dependencies"])


def test_numba_is_bounded_on_both_sides():
    (numba,) = PROJECT["optional-dependencies"]["jit"]
    assert ">=" in numba
    assert ",<" in numba

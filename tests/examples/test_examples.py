"""The examples: those of the tutorials are their pages' code, which tests/docs runs; the others are run here."""

from __future__ import annotations

import importlib.util
import os
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def tutorials():
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs" / "_site" / "tutorials.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scripts_of_tutorials_are_the_code_of_their_pages(tutorials):
    for name in tutorials.PAGES:
        path = ROOT / "examples" / f"{name}.py"
        assert path.read_text() == tutorials.script(name), f"python docs/_site/tutorials.py {name}"


def test_every_tutorial_ends_with_a_picture_that_its_script_draws(tutorials):
    for name, page in tutorials.PAGES.items():
        text = (ROOT / "docs" / page).read_text()
        picture = f"{name.replace('_', '-')}.png"
        assert f'savefig("{picture}"' in text
        assert f"images/tutorials/{picture})" in text
        assert (tutorials.PICTURES / picture).stat().st_size < 200_000


@pytest.mark.more
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, tutorials, tmp_path, monkeypatch, capsys):
    if path.stem in tutorials.PAGES:
        pytest.skip("its code runs as that of its page")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out

"""A run of tests that writes into the checkout fails and names the files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import files

FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "conftest.py": "from tests.checkout import pytest_sessionfinish, pytest_sessionstart, pytest_terminal_summary\n",
    ".gitignore": "out/\n*.py[cod]\n",
    "page.md": "as before",
    "old.txt": "",
    "test_writing.py": """
from pathlib import Path

def test_writing(tmp_path):
    for path in (tmp_path / "mine.txt", Path("page.md"), Path("new.txt"), Path(".coverage"), Path("out", "a.txt")):
        path.write_text("as before")
    Path("old.txt").unlink()
""",
}


@pytest.mark.more
def test_files_that_tests_write_into_the_checkout_fail_the_run_by_name(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "out").mkdir()
    os.utime(tmp_path / "page.md", (0, 0))
    command = [sys.executable, "-m", "pytest", "-n", "1"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    _, _, told = done.stdout.partition("the checkout has changed while tests ran")
    assert told.splitlines()[1:4] == ["new.txt", "old.txt", "page.md"]


def test_what_is_hidden_or_ignored_is_not_watched(tmp_path):
    for name in (".git/index", "out/a.txt", "src/__pycache__/a.pyc", "src/a.py", "b.pyc", ".coverage", "src/out.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert set(files(tmp_path)) == {"out/a.txt", "src/a.py", "b.pyc", "src/out.txt"}
    (tmp_path / ".gitignore").write_text("out/\n*.py[cod]\n")
    assert set(files(tmp_path)) == {"src/a.py", "src/out.txt"}

"""The checkout stays as it is: files that appear, change or vanish while tests run fail the run, by name.

Needs no Git: an unpacked archive is watched, too. Hidden files and what .gitignore lists belong to tools.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

BEFORE = pytest.StashKey[dict[str, tuple[int, int]]]()
CHANGED = pytest.StashKey[list[str]]()


def files(root: Path) -> dict[str, tuple[int, int]]:
    """By path below the root: when a file was written last, and its size."""
    listed = root / ".gitignore"
    ignored = [".*", "__pycache__/", *(listed.read_text().split() if listed.exists() else [])]
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not any(fnmatch(name, rule.rstrip("/")) for rule in ignored)]
        for name in names:
            if not any(fnmatch(name, rule) for rule in ignored):
                path = Path(folder, name)
                status = path.lstat()
                found[path.relative_to(root).as_posix()] = (status.st_mtime_ns, status.st_size)
    return found


def pytest_sessionstart(session):
    if not hasattr(session.config, "workerinput"):  # the process that starts the others watches
        session.config.stash[BEFORE] = files(session.config.rootpath)


def pytest_sessionfinish(session):
    before = session.config.stash.get(BEFORE, None)
    if before is not None:
        after = files(session.config.rootpath)
        changed = sorted(path for path in before.keys() | after if before.get(path) != after.get(path))
        session.config.stash[CHANGED] = changed
        if changed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if changed := config.stash.get(CHANGED, []):
        terminalreporter.section("the checkout has changed while tests ran: tests write to tmp_path", red=True)
        for path in changed:
            terminalreporter.line(path)

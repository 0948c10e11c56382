"""Which sources define compiled functions, and a digest of them: machine code of other sources is not used."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from functools import cache
from pathlib import Path

ENTRIES = (b"@entry", b"@apart", b"= loop.of(")  # what Python loads
MARKS = (b"@compiled", *ENTRIES)


IMPORT = re.compile(rb"^ *from (streamgp[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _sources() -> dict[str, bytes]:
    root = Path(__file__).parents[1]
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path.read_bytes()
        for path in sorted(root.rglob("*.py"))
    }


def sources_with(*marks: bytes) -> dict[str, bytes]:
    """The sources that define functions with these decorators, by the name of the module."""
    return {name: source for name, source in _sources().items() if any(mark in source for mark in marks)}


@cache
def digest(module: str | None = None) -> str:
    """Of all sources that define compiled functions, or of those that a module consists of or imports, however far."""
    used, found = _reached(module) if module in _sources() else None, hashlib.sha256()
    for name, source in sources_with(*MARKS).items():
        if used is None or name in used:
            found.update(source)
    return found.hexdigest()


def _reached(module: str | None) -> set[str]:
    """A module and all that it imports, near or far."""
    reached, left = set[str](), [str(module)]
    while left:
        if (name := left.pop()) in _sources() and name not in reached:
            reached.add(name)
            for package, names in IMPORT.findall(_sources()[name]):
                imported = (f"{package.decode()}.{one}" for one in re.findall(r"\w+", names.decode()))
                left += [package.decode(), *imported]
    return reached


def environment() -> dict[str, str]:
    """For a process of the same Python, which finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

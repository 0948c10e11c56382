"""Which sources define compiled functions, and a digest of them: machine code of other sources is not used."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

ENTRIES = (b"@entry", b"@apart", b"@as_written", b"= loop.of(")  # what Python loads
MARKS = (b"@compiled", b"@inlined", *ENTRIES)


def sources_with(*marks: bytes) -> dict[str, bytes]:
    """The sources that define functions with these decorators, by the name of the module."""
    root = Path(__file__).parents[1]
    read = {path: path.read_bytes() for path in sorted(root.rglob("*.py"))}
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): source
        for path, source in read.items()
        if any(mark in source for mark in marks)
    }


@cache
def digest() -> str:
    """Of all sources that define compiled functions."""
    found = hashlib.sha256()
    for source in sources_with(*MARKS).values():
        found.update(source)
    return found.hexdigest()


def environment() -> dict[str, str]:
    """For a process of the same Python, which finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

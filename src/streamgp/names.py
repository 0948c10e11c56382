"""Which module each public name comes from, read from :mod:`streamgp.api`, the one list of them."""

from __future__ import annotations

import ast
from pathlib import Path

MODULES = {
    alias.name: node.module
    for node in ast.parse((Path(__file__).parent / "api.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module is not None
    for alias in node.names
}

# Names that have moved into a module of their own; the old ones are still found, with a warning.
MOVED = {
    "BetaKLMS": "streamgp.filters",
    "KLMS": "streamgp.filters",
    "KNLMS": "streamgp.filters",
    "NORMA": "streamgp.filters",
    "QKLMS": "streamgp.filters",
    "SGDESN": "streamgp.filters",
    "SSGPR": "streamgp.batch",
}
EVERYWHERE = MODULES | MOVED  # whatever a snapshot or a run may name

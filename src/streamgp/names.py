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

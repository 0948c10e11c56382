"""The imports of the library, read from its sources."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "streamgp"


def modules():
    """Every module by its dotted name below streamgp."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports():
    """module -> modules it imports, anywhere in its text, also for the sake of types alone."""
    known = modules()
    return {name: _imported(path, known) - {name} for name, path in known.items() if name}


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(path, known):
    found = set()
    for node in ast.walk(tree(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        found |= {name.removeprefix("streamgp.") for name in names if name.startswith("streamgp.")} & known.keys()
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)}


def folders():
    """folder, or module at the top -> the others that it imports."""
    found = {}
    for name, targets in imports().items():
        home = name.partition(".")[0]
        found.setdefault(home, set()).update(target.partition(".")[0] for target in targets)
    return {home: targets - {home} for home, targets in found.items()}


def circle(graph):
    """One circle of the graph, or None."""
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return error.args[1]
    return None

"""The imports of the library, read from its sources, and their picture.

python tests/architecture.py docs/images/architecture.png
"""

from __future__ import annotations

import ast
import sys
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
def _tree(path):
    return ast.parse(path.read_text())


def _imported(path, known):
    found = set()
    for node in ast.walk(_tree(path)):
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


def floors(graph):
    """How high each stands: above all that it imports."""
    height = {}
    for name in TopologicalSorter(graph).static_order():
        height[name] = 1 + max((height[below] for below in graph[name]), default=-1)
    return height


def draw(path):
    from matplotlib.figure import Figure

    graph = folders()
    height = floors(graph)
    rows = {}
    for name in sorted(graph):
        rows.setdefault(height[name], []).append(name)
    at = {name: ((i + 0.5) / len(names), level) for level, names in rows.items() for i, name in enumerate(names)}
    figure = Figure(figsize=(9, 9))
    axes = figure.subplots()
    for name, targets in graph.items():
        for target in targets:
            axes.annotate(
                "",
                xy=at[target],
                xytext=at[name],
                arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.7, "shrinkA": 12, "shrinkB": 12},
            )
    counts = {home: sum(name.partition(".")[0] == home for name in modules()) for home in graph}
    for name, (x, y) in at.items():
        label = name if counts[name] == 1 else f"{name}/"
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.3"}
        axes.text(x, y, label, ha="center", va="center", fontsize=10, bbox=box)
    axes.set(xlim=(0, 1), ylim=(-0.7, max(rows) + 0.7))
    axes.axis("off")
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    draw(sys.argv[1])

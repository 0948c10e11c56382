"""Which module each public name comes from: what the import statements of :mod:`streamgp.api` say."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any


def _modules() -> dict[str, str]:
    """The module of each name that api imports; its code runs here, but nothing is imported."""
    found: dict[str, str] = {}

    def noted(module: str, _globals: Any, _locals: Any, names: tuple[str, ...], _level: int) -> SimpleNamespace:
        found.update(dict.fromkeys(names, module))
        return SimpleNamespace(**dict.fromkeys(names))

    spec: Any = find_spec("streamgp.api")
    exec(spec.loader.get_code(spec.name), {"__builtins__": {"__import__": noted}})
    return found


MODULES = _modules()

# Names that have moved into a module of their own; the old ones are still found, with a warning.
FILTERS = ("BetaKLMS", "KLMS", "KNLMS", "NORMA", "QKLMS", "SGDESN")
MOVED = dict.fromkeys(FILTERS, "streamgp.filters") | {"SSGPR": "streamgp.batch"}
EVERYWHERE = MODULES | MOVED  # whatever a snapshot or a run may name

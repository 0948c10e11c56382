"""A model and those within it: who they are, and what they hold together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgp.contract import frames
from streamgp.contract.snapshot import require


def family(model: Any) -> Iterator[Any]:
    """This model and all within it."""
    yield model
    for child in model._children().values():
        yield from family(child)


def by_place(model: Any) -> Iterator[tuple[str, Any]]:
    """The same, each with what stands before its names in a snapshot, such as "inner."."""
    yield "", model
    for name, child in model._children().items():
        for place, one in by_place(child):
            yield f"{name}.{place}", one


def all_arrays(model: Any) -> dict[str, np.ndarray]:
    """The state by name, as arrays that can be written to."""
    return {f"{place}{name}": array for place, one in by_place(model) for name, array in one._arrays().items()}


def structure_of(model: Any) -> dict[str, Any]:
    """What a snapshot says beside settings and arrays, by name, as settings are."""
    found: dict[str, Any] = {}
    for place, one in by_place(model):
        names = {} if one._names is None else {"frame": [list(part) for part in one._names]}
        found |= {f"{place}{name}": value for name, value in (names | one._structure()).items()}
    return found


def rebuild(model: Any, structure: dict[str, Any]) -> None:
    """Take over what structure_of() returned, before arrays are restored."""
    if "frame" in structure:
        model._names = frames.Names(*map(tuple, structure["frame"]))
    model._rebuild(structure)
    for name, child in model._children().items():
        head = f"{name}."
        rebuild(child, {key.removeprefix(head): v for key, v in structure.items() if key.startswith(head)})


def check_restored(model: Any) -> None:
    """Refuse a restored state that no stream leads to, and so all that compiled code could not run safely."""
    for one in family(model):
        if one._stacks:
            check_numbers(one)
        one._check_restored()


def check_numbers(model: Any, start: int = 0, stop: int | None = None) -> None:
    """Refuse numbers outside their limits, of models start to stop of those that one stands for."""
    limits = model._numbers.limits
    for name, array in model._numbers.stacked().items():
        own = name.removeprefix("counters.")
        least, most = limits.get(own, (-np.inf, np.inf))
        require(own, array[start:stop], at_least=least, at_most=most, finite=own not in model._may_overflow)

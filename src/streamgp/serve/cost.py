"""Cost: what a stream takes of memory and time, known before anything is allocated, and refused where it is too much.

A model reports the size of its arrays just before it allocates them (``arrays.inspector``). So the cost is that of
the model as it was built, whichever of its settings or parts made it large; models within a model count with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from streamgp.arrays import inspector
from streamgp.auto.candidates import CANDIDATES, candidate, sizes_of
from streamgp.auto.tuned import Tuned
from streamgp.contract.model import StreamModel
from streamgp.encoded.model import Encoded
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import AUTO, Request
from streamgp.serve.messages import RefusedError
from streamgp.wrappers.columns import Columns
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.wrapper import Composite

MEMORY = 1 << 30  # bytes of a stream
FLEET = 4 << 30  # of a fleet
ROW = 2e8  # multiplications of a row: some tenths of a second
UNITS = 1000  # of a reservoir: its eigenvalues take a second or two, eight times as long for twice as many units
MOVED = 2000  # basis points or weights of a model that adapts: a move takes about a second, and grows likewise
KERNEL = 20_000  # terms of a kernel times inputs: beyond that, finding hyperparameters takes minutes
# Auto has every candidate for up to four choices of inputs, and some of the generation before.
AUTO_SETS = 6
SMALLER = "use a smaller capacity, fewer features, a shorter memory of the past, or fewer inputs"


class Cost(NamedTuple):
    """What models take."""

    bytes: int = 0  # of their arrays
    row: int = 0  # multiplications to predict and learn a row
    units: int = 0  # of the largest reservoir
    moved: int = 0  # most coordinates of a model whose hyperparameters adapt
    kernel: int = 0  # terms of the largest kernel, times the inputs that it sees

    def times(self, copies: int) -> Cost:
        """The cost of several copies."""
        return self._replace(bytes=copies * self.bytes, row=copies * self.row)

    def too_much(self) -> tuple[str, str] | None:
        """What is too much, and what to do; None: nothing is."""
        limits: tuple[tuple[float, float, Callable[[Any], str], str, str], ...] = (
            (self.units, UNITS, str, "its reservoir has {} units", "use fewer units"),
            (self.bytes, MEMORY, _gib, "it takes {} of memory", SMALLER),
            (self.row, ROW, "{:.0e}".format, "a row takes about {} multiplications", SMALLER),
            (self.moved, MOVED, str, "adapt works on {} basis points or weights", f"{SMALLER}, or adapt=none"),
            (self.kernel, KERNEL, str, "the terms of its kernel, times the inputs that it sees, are {}", SMALLER),
        )
        for size, most, shown, told, hint in limits:
            if size > most:
                return f"{told.format(shown(size))}; a server allows {shown(most)}", hint
        return None


class _MeasuredError(Exception):
    """The cost of a model is known."""


def total(costs: Iterable[Cost]) -> Cost:
    """The cost of several models beside each other."""
    whole = Cost()
    for one in costs:
        whole = Cost(whole.bytes + one.bytes, whole.row + one.row, *map(max, whole[2:], one[2:]))
    return whole


def _cost_of(sizes: Mapping[str, int], size: int) -> Cost:
    """The cost of a model whose arrays have these sizes."""
    width, steps = sizes.get("width", 0), sizes.get("steps", 0)
    points = max(sizes.get("points", 0), sizes.get("experts", 0) * sizes.get("room", 0))
    moved = sizes.get("weights", 0) if sizes.get("theta", 0) else 0
    # A row passes all numbers of a model once or twice, and the inputs of every point for every term of the kernel.
    return Cost(size, size // 8 + steps * points * width, sizes.get("units", 0), moved, steps * width)


def measured(model: StreamModel, d: int) -> Cost:
    """What a model that has learned nothing takes for rows of d inputs; nothing is allocated."""
    if isinstance(model, Composite):
        own, seen = 0, d
        if isinstance(model, Columns):
            seen = len(model._columns)
        elif isinstance(model, Encoded):
            seen, own = model._encoder.width, model._encoder.depth * (d + model._encoder.width**2)
        within = total(measured(one, seen) for one in model._models)
        return total([within.times(2 if isinstance(model, DriftAware) else 1), Cost(8 * own, own)])
    found: list[Cost] = []

    def inspect(sizes: Mapping[str, int], size: int) -> None:
        found.append(_cost_of(sizes, size))
        raise _MeasuredError

    # A model that does not fit such rows raises when they come.
    with _inspected(inspect), contextlib.suppress(_MeasuredError, ValueError):
        model.clone()._start(d, 1)
    return total(found)


def refuse(request: Request, d: int, pending: int) -> None:
    """Refuse a stream of d inputs that would take too much; ``pending`` rows can wait for their targets."""
    if request.model == AUTO:
        sizes = sizes_of(request.run.budget)
        models = total(measured(candidate(name, d, request.own, sizes), d) for name in CANDIDATES).times(AUTO_SETS)
    else:
        models = measured(Tuned(request.build(d), warmup=request.run.warmup, drift=request.run.drift)._within, d)
    # Rows that are kept, each with its prediction; refuse_pending() knows more of those that wait.
    rows = request.run.warmup + 2 * request.horizon + pending
    if found := total([models, Cost(8 * rows * (d + 10))]).too_much():
        inputs = f"{d} inputs" if d > 1 else "one input"
        raise RefusedError("too_large", f"{request.model} with {inputs} is too large: {found[0]}", found[1])


def refuse_fleet(size: int, each: int) -> None:
    """Refuse a fleet that would take too much: its sensors, and bytes of each."""
    _refuse_memory(f"{size} sensors", size * each, FLEET, "use a smaller size or capacity, or several fleets")


def refuse_pending(pipeline: Pipeline, pending: int) -> None:
    """Refuse a run of which this many rows that wait for their targets would take too much."""
    rows, size = f"{pending} rows that wait for their targets", 8 * pipeline.line_width * pending
    _refuse_memory(rows, size, MEMORY, "use a smaller pending, or fewer inputs")


def _refuse_memory(what: str, size: int, most: int, hint: str) -> None:
    if size > most:
        raise RefusedError("too_large", f"{what} take {_gib(size)} of memory; a server allows {_gib(most)}", hint)


def refusing() -> AbstractContextManager[None]:
    """Refuse any model that is too large before it is allocated."""

    def inspect(sizes: Mapping[str, int], size: int) -> None:
        if found := _cost_of(sizes, size).too_much():
            raise ValueError("; ".join(found))

    return _inspected(inspect)


@contextlib.contextmanager
def _inspected(inspect: Callable[[Mapping[str, int], int], None]) -> Iterator[None]:
    token = inspector.set(inspect)
    try:
        yield
    finally:
        inspector.reset(token)


def _gib(size: float) -> str:
    return f"{size / 2**30:,.3g} GiB"

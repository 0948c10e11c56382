"""Cost: what a stream takes of memory and time, known before anything is allocated, and refused where it is too much.

A model reports the size of its arrays just before it allocates them (``arrays.inspector``). So the cost is that of
the model as it was built, whichever of its settings or parts made it large; models within a model count with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

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
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Composite

MEMORY = 1 << 30  # bytes of a stream
ROW = 2e8  # multiplications of a row: some tenths of a second
UNITS = 1000  # of a reservoir: its eigenvalues take a second or two, eight times as long for twice as many units
MOVED = 2000  # basis points or weights of a model that adapts: a move takes about a second, and grows likewise
KERNEL = 20_000  # terms of a kernel times inputs: beyond that, finding hyperparameters takes minutes
# Auto has every candidate for up to four choices of inputs, and some of the generation before.
AUTO_SETS = 6


class Cost(NamedTuple):
    """What models take.

    Args:
        bytes: of their arrays.
        row: multiplications to predict and learn a row.
        units: of the largest reservoir.
        moved: most coordinates of a model whose hyperparameters adapt.
        kernel: terms of the largest kernel, times the inputs that it sees.
    """

    bytes: int = 0
    row: int = 0
    units: int = 0
    moved: int = 0
    kernel: int = 0

    def times(self, copies: int) -> Cost:
        """The cost of several copies."""
        return self._replace(bytes=copies * self.bytes, row=copies * self.row)


class _MeasuredError(Exception):
    """The cost of a model is known."""


def total(costs: Iterable[Cost]) -> Cost:
    """The cost of several models beside each other."""
    whole = Cost()
    for one in costs:
        largest = map(max, whole[2:], one[2:])
        whole = Cost(whole.bytes + one.bytes, whole.row + one.row, *largest)
    return whole


def _cost_of(sizes: Mapping[str, int], size: int) -> Cost:
    """The cost of a model whose arrays have these sizes."""
    width, steps = sizes.get("width", 0), sizes.get("steps", 0)
    points = max(sizes.get("points", 0), sizes.get("experts", 0) * sizes.get("room", 0))
    moved = sizes.get("weights", 0) if sizes.get("theta", 0) else 0
    # A row passes all numbers of a model once or twice, and the inputs of every point for every term of the kernel.
    return Cost(size, size // 8 + steps * points * width, sizes.get("units", 0), moved, steps * width)


def measured(model: StreamModel, d: int) -> Cost:
    """What a model takes; nothing is allocated.

    Args:
        model: that has learned nothing.
        d: inputs of a row.
    """
    if isinstance(model, Composite):
        own, seen = 0, d
        if isinstance(model, Columns):
            seen = len(model._columns)
        elif isinstance(model, Standardize):
            own = model._warmup * (d + 1)
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
    """Refuse a stream that would take too much.

    Args:
        request: which model, and how.
        d: inputs of a row.
        pending: rows that can wait for their targets.
    """
    if request.model == AUTO:
        sizes = sizes_of(request.run.budget)
        models = total(measured(candidate(name, d, request.own, sizes), d) for name in CANDIDATES).times(AUTO_SETS)
    else:
        models = measured(Tuned(request.build(d), warmup=request.run.warmup, drift=request.run.drift)._model, d)
    # Rows that are kept, each with its prediction; refuse_waiting() knows more of those that wait.
    rows = request.run.warmup + 2 * request.horizon + pending
    if found := _too_much(total([models, Cost(8 * rows * (d + 10))])):
        inputs = f"{d} inputs" if d > 1 else "one input"
        raise RefusedError(422, "too_large", f"{request.model} with {inputs} is too large: {found[0]}", found[1])


def refuse_waiting(pipeline: Pipeline, pending: int) -> None:
    """Refuse a run of which this many rows that wait for their targets would take too much."""
    numbers = pipeline.line_width
    if 8 * numbers * pending > MEMORY:
        raise RefusedError(
            422,
            "too_large",
            f"{pending} rows that wait for their targets take {_gib(8 * numbers * pending)} of memory; a server allows "
            f"{_gib(MEMORY)}",
            "use a smaller pending, or fewer inputs",
        )


def refusing() -> AbstractContextManager[None]:
    """Refuse any model that is too large before it is allocated."""

    def inspect(sizes: Mapping[str, int], size: int) -> None:
        if found := _too_much(_cost_of(sizes, size)):
            raise ValueError("; ".join(found))

    return _inspected(inspect)


@contextlib.contextmanager
def _inspected(inspect: Callable[[Mapping[str, int], int], None]) -> Iterator[None]:
    token = inspector.set(inspect)
    try:
        yield
    finally:
        inspector.reset(token)


def _too_much(cost: Cost) -> tuple[str, str] | None:
    """What is too much, and what to do; None: nothing is."""
    smaller = "use a smaller capacity, fewer features, a shorter memory of the past, or fewer inputs"
    if cost.units > UNITS:
        return f"its reservoir has {cost.units} units; a server allows {UNITS}", "use fewer units"
    if cost.bytes > MEMORY:
        return f"it takes {_gib(cost.bytes)} of memory; a server allows {_gib(MEMORY)}", smaller
    if cost.row > ROW:
        return f"a row takes about {cost.row:.0e} multiplications; a server allows {ROW:.0e}", smaller
    if cost.moved > MOVED:
        return (
            f"adapt works on {cost.moved} basis points or weights; a server allows {MOVED}",
            "use a smaller capacity, fewer features, or adapt=none",
        )
    if cost.kernel > KERNEL:
        return (
            f"the terms of its kernel, times the inputs that it sees, are {cost.kernel}; a server allows {KERNEL}",
            "use a kernel of fewer terms, a shorter memory of the past, or fewer inputs",
        )
    return None


def _gib(size: int) -> str:
    return f"{size / 2**30:,.3g} GiB"

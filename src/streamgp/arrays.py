"""Named numbers: how a model holds its state, and how compiled code reads it.

A model is one record and one buffer of floats. The record has the plan (what is fixed when the first row arrives), the
counters (what changes row by row) and, for every array, where it lies in the buffer. A model lists its arrays once,
each with its shape in symbols; offsets, sizes, views and snapshots follow from that list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Self

import numba
import numpy as np
from numba import config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamgp.compiled import compiled

Array = NDArray
Fields = Mapping[str, str]
Record = Any  # a NumPy record whose fields compiled code reads by name

# Gets the sizes and the bytes of the numbers of each model before they are allocated, and may raise to refuse them.
inspector: ContextVar[Callable[[Mapping[str, int], int], None] | None] = ContextVar("inspector", default=None)

SPAN = np.dtype([("start", np.int64), ("blocks", np.int64), ("rows", np.int64), ("columns", np.int64)])


class Layout:
    """Which numbers a kind of model has.

    Args:
        plan: a record type: settings and sizes.
        counters: a record type of whole numbers.
        state: name -> shape in symbols, such as {"basis": "points width"}; one to three dimensions.
        work: the same for arrays of which nothing outlives a row.
    """

    def __init__(self, plan: np.dtype[Any], counters: np.dtype[Any], state: Fields, work: Fields) -> None:
        self.state, self.work = dict(state), dict(work)
        spans = np.dtype([(name, SPAN) for name in (*state, *work)])
        self.record = np.dtype([("plan", plan), ("counters", counters), ("at", spans)])
        self.one = numba.from_dtype(self.record)
        self.type = self.one[::1]


class Numbers:
    """The numbers of one model: ``plan``, ``counters`` and arrays by name.

    ``records`` and ``buffers`` have a leading axis for models; of many (contract/lanes.py), what is read by name is the
    first model's.

    Args:
        layout: which numbers there are.
        sizes: what the symbols in the arrays' shapes stand for.
        plan: the fields of the plan by name.
    """

    def __init__(self, layout: Layout, sizes: Mapping[str, int], plan: Mapping[str, Any]) -> None:
        shapes = {name: _shape(text, sizes) for name, text in (layout.state | layout.work).items()}
        ends = list(accumulate(math.prod(shape) for shape in shapes.values()))
        if (inspect := inspector.get()) is not None:
            inspect(sizes, 8 * ends[-1])
        self.records = np.zeros(1, layout.record)
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            self.records = self.records.view(np.recarray)
        self.counted: tuple[str, ...] = layout.record["counters"].names or ()
        for name, value in plan.items():
            self.records["plan"][name] = value
        self.buffers = np.zeros((1, ends[-1]))
        self._spans = {name: (start, shape) for (name, shape), start in zip(shapes.items(), [0, *ends], strict=False)}
        for name, (start, shape) in self._spans.items():
            self.records["at"][name] = (start, *(1,) * (3 - len(shape)), *shape)
        self._layout = layout
        self._look()

    def _look(self) -> None:
        """Name what the first record and the first buffer hold."""
        self.plan, self.counters, self.buffer = self.records["plan"], self.records["counters"], self.buffers[0]
        views = {
            name: self.buffer[start : start + math.prod(shape)].reshape(shape)
            for name, (start, shape) in self._spans.items()
        }
        self.state = SimpleNamespace(**{name: views[name] for name in self._layout.state})
        self.work = SimpleNamespace(**{name: views[name] for name in self._layout.work})

    def at(self, records: np.ndarray, buffers: np.ndarray) -> Self:
        """The same kind of numbers in other places, (models, ...) each."""
        twin = copy(self)
        twin.records, twin.buffers = records, buffers
        twin._look()
        return twin

    def arrays(self) -> dict[str, np.ndarray]:
        """The counters and the state by name, as arrays that can be written to."""
        return {f"counters.{name}": self.counters[name] for name in self.counted} | vars(self.state)

    def stacked(self) -> dict[str, np.ndarray]:
        """The same of all models, each with a leading axis for them."""
        named = {f"counters.{name}": self.records["counters"][name] for name in self.counted}
        for name, array in vars(self.state).items():
            start, _ = self._spans[name]
            named[name] = self.buffers[:, start : start + array.size].reshape(len(self.buffers), *array.shape)
        return named

    def count(self, name: str) -> int:
        return int(self.counters[name][0])


def _shape(text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(word) if word.isdigit() else int(sizes[word]) for word in text.split())


@compiled
def vector(buffer: Array, at: Record) -> Array:
    """The numbers of an array, one after the other."""
    return buffer[at.start : at.start + at.blocks * at.rows * at.columns]


def _placed(_: Any, buffer: Any, start: Any, rows: Any, columns: Any) -> Any:
    result = types.Array(buffer.dtype, 2, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = context.make_array(signature.args[0])(context, builder, args[0])
        view, width = context.make_array(result)(context, builder), context.get_constant(types.intp, 8)
        context.populate_array(
            view,
            data=builder.gep(source.data, [args[1]]),
            shape=[args[2], args[3]],
            strides=[builder.mul(args[3], width), width],
            itemsize=width,
            meminfo=None,
            parent=None,
        )
        return view._getvalue()

    return result(buffer, start, rows, columns), codegen


def _reshaped(buffer: Array, start: int, rows: int, columns: int) -> Array:
    return buffer[start : start + rows * columns].reshape(rows, columns)


# A matrix in the buffer, without an owner: reshape() of compiled code costs 70 ns.
placed: Any = _reshaped if config.DISABLE_JIT else intrinsic(_placed)  # type: ignore[attr-defined]


@compiled
def matrix(buffer: Array, at: Record) -> Array:
    return placed(buffer, at.start, at.blocks * at.rows, at.columns)  # type: ignore[no-any-return]


@compiled
def block(buffer: Array, at: Record, j: int) -> Array:
    """Matrix j of an array of three dimensions."""
    return placed(buffer, at.start + j * at.rows * at.columns, at.rows, at.columns)  # type: ignore[no-any-return]


@compiled
def integers(buffer: Array, at: Record) -> Array:
    """A matrix of whole numbers that share the buffer with the floats."""
    return placed(buffer.view(np.int64), at.start, at.rows, at.columns)  # type: ignore[no-any-return]

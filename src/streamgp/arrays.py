"""Named numbers: how a model holds its state, and how compiled code reads it.

A model is one record and one buffer of floats. The record has the plan (what is fixed when the first row arrives), the
counters (what changes row by row) and, for every array, where it lies in the buffer. A model lists its arrays once,
each with its shape in symbols; offsets, sizes, views and snapshots follow from that list.

In compiled code a model is one value, ``m = opened(records, buffers, i)``, and its numbers are typed attributes:
``m.plan.capacity``, ``m.counters.points``, ``m.mu``, ``m.covariance[j]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from copy import copy
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from streamgp import compiled
from streamgp.compiled.kinds import INTEGERS, Kind

Fields = Mapping[str, str]
Model = Any  # what opened() returns

# Gets the sizes and the bytes of the numbers of each model before they are allocated, and may raise to refuse them.
inspector: ContextVar[Callable[[Mapping[str, int], int], None] | None] = ContextVar("inspector", default=None)

MOST = 2**53  # rows or repairs that are counted


def fields(whole: str, real: str = "") -> np.dtype[Any]:
    """A record of whole numbers, then of others, by their names."""
    return np.dtype([(name, np.int64) for name in whole.split()] + [(name, np.float64) for name in real.split()])


class Layout:
    """Which numbers a kind of model has.

    Args:
        plan: a record type: settings and sizes.
        counters: a record type of whole numbers.
        state: name -> shape in symbols, such as {"basis": "points width"} or {"operations": "steps 5 integers"}.
        work: the same for arrays of which nothing outlives a row.
        indices: of counters and arrays by which compiled code finds its way, the least and the most that they may be: a
            number, or a size by its symbol.
        triangles: arrays of square matrices with one empty triangle, the same in all; files have the other one.
    """

    def __init__(
        self,
        plan: np.dtype[Any],
        counters: np.dtype[Any],
        state: Fields,
        work: Fields,
        indices: Mapping[str, tuple[int, int | str]] | None = None,
        triangles: Collection[str] = (),
    ) -> None:
        self.state, self.work, self.indices = dict(state), dict(work), dict(indices or {})
        self.triangles = frozenset(triangles)
        spans = np.dtype([(name, _span(text)) for name, text in (self.state | self.work).items()])
        self.record = np.dtype([("plan", plan), ("counters", counters), ("at", spans)])
        self.type, self.model = Kind("record", 1, record=self.record), Kind("model", record=self.record)


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
        if compiled.INTERPRETED:
            self.records = self.records.view(np.recarray)
        self.counted: tuple[str, ...] = layout.record["counters"].names or ()
        for name, value in plan.items():
            self.records["plan"][name] = value
        self.buffers = np.zeros((1, ends[-1]))
        self._starts = dict(zip(shapes, [0, *ends], strict=False))
        for name, start in self._starts.items():
            self.records["at"][name] = (start, *shapes[name])
        self._layout = layout
        counted = dict.fromkeys(self.counted, (0, MOST)) | layout.indices
        self.limits = {
            name: (least, sizes[most] if isinstance(most, str) else most) for name, (least, most) in counted.items()
        }
        self._look()

    def _look(self) -> None:
        """Name what the first record and the first buffer hold."""
        self.plan, self.counters, self.buffer = self.records["plan"], self.records["counters"], self.buffers[0]
        self.state = self.work = _Placed(self.records[0], self.buffer)

    def at(self, records: np.ndarray, buffers: np.ndarray) -> Self:
        """The same kind of numbers in other places, (models, ...) each; the records say the shapes of the arrays."""
        twin = copy(self)
        twin.records, twin.buffers = records, buffers
        twin._look()
        return twin

    def one(self, i: int) -> Self:
        """The numbers of model i of many."""
        return self.at(self.records[i : i + 1], self.buffers[i : i + 1])

    def arrays(self) -> dict[str, np.ndarray]:
        """The counters and the state by name, as arrays that can be written to."""
        named = {f"counters.{name}": self.counters[name] for name in self.counted}
        named |= {name: getattr(self.state, name) for name in self._layout.state}
        return named | {name: named[name].view(Triangles) for name in self._layout.triangles}

    def stacked(self) -> dict[str, np.ndarray]:
        """The same of all models, each with a leading axis for them."""
        counters = self.records["counters"]
        named = {f"counters.{name}": counters[name] for name in self.counted}
        return named | {name: self.stacked_array(name) for name in self._layout.state}

    def stacked_array(self, name: str) -> np.ndarray:
        """An array of the state of all models."""
        array, start = getattr(self.state, name), self._starts[name]
        return self.buffers[:, start : start + array.size].reshape(len(self.buffers), *array.shape)

    def count(self, name: str) -> int:
        return int(self.counters[name][0])

    @property
    def stack(self) -> list[np.ndarray]:
        """All numbers of all models, work space included, (models, ...) each."""
        return [self.records, self.buffers]

    @stack.setter
    def stack(self, arrays: list[np.ndarray]) -> None:
        self.records, self.buffers = arrays


class Stacked(dict[str, np.ndarray]):
    """Arrays of many models by name, (models, ...) each, where no compiled code reads them by name; see Numbers."""

    limits: Mapping[str, tuple[float, float]] = {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Those of the first model."""
        return {name: array[0] for name, array in self.items()}

    def stacked(self) -> dict[str, np.ndarray]:
        return self

    @property
    def stack(self) -> list[np.ndarray]:
        return list(self.values())

    @stack.setter
    def stack(self, arrays: list[np.ndarray]) -> None:
        self.update(zip(self, arrays, strict=True))


class Triangles(np.ndarray):
    """Square matrices with one empty triangle, the same in all."""

    def packed(self) -> np.ndarray:
        """The other triangles with their diagonals, (..., n (n + 1) / 2 + 1); the last number: they are the upper."""
        matrices = np.asarray(self)
        rows, columns = np.tril_indices(matrices.shape[-1])
        lower, upper = matrices[..., rows, columns], matrices[..., columns, rows]
        is_upper = bool(upper[..., rows != columns].any())
        return np.concatenate([upper if is_upper else lower, np.full((*lower.shape[:-1], 1), float(is_upper))], axis=-1)

    def whole(self, saved: np.ndarray) -> np.ndarray:
        """Matrices of this shape from what packed() returned; anything else as it is."""
        *leading, n, _ = self.shape
        if saved.shape != (*leading, n * (n + 1) // 2 + 1):
            return saved
        matrices, (rows, columns) = np.zeros(self.shape), np.tril_indices(n)
        if saved[..., -1].any():
            rows, columns = columns, rows
        matrices[..., rows, columns] = saved[..., :-1]
        return matrices


def _shape(text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    words = text.removesuffix(INTEGERS).split()
    return tuple(int(word) if word.isdigit() else int(sizes[word]) for word in words)


def _span(text: str) -> np.dtype[Any]:
    """Where an array lies: its first number in the buffer, and its shape. The name of the first tells its type."""
    axes = len(text.removesuffix(INTEGERS).split())
    start = INTEGERS if text.endswith(INTEGERS) else "start"
    return np.dtype([(name, np.int64) for name in (start, "first_axis", "second_axis", "third_axis")[: 1 + axes]])


class _Placed(SimpleNamespace):
    """The plan, the counters and the arrays of a model by name, each array placed when it is first asked for."""

    def __init__(self, record: Any, buffer: np.ndarray) -> None:
        super().__init__(plan=record["plan"], counters=record["counters"], buffer=buffer)
        self._record = record

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name not in self._record["at"].dtype.names:
            raise AttributeError(name)
        at = self._record["at"][name]
        start, *shape = at.item()
        part = self.buffer[start : start + math.prod(shape)].reshape(shape)
        array: np.ndarray = part.view(np.int64) if INTEGERS in at.dtype.names else part
        setattr(self, name, array)
        return array


def _opened_in_python(records: Any, buffers: np.ndarray, i: int) -> _Placed:
    return _Placed(records[i], buffers[i])


# Model i of those whose records (n,) and buffers (n, k) these are.
opened: Any = compiled.way.opened or _opened_in_python

"""Rows of a call: what users hand over for many models, grouped by model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import inputs
from streamgp.settings import FloatArray

Indices = np.ndarray
Predicted = FloatArray | Sequence[FloatArray]  # columns, (n, p) each
FLOATS = np.dtype(np.float64), np.dtype(np.float32)


class Rows(NamedTuple):
    """Rows, those of one model together and in the order in which they came."""

    models: Indices  # (k,) different ids
    starts: Indices  # (k + 1,): the rows of models[j] are starts[j] to starts[j + 1]
    X: FloatArray  # (n, d)
    Y: FloatArray | None = None  # (n, p) with NaN where missing; None: no targets
    conditions: FloatArray | None = None  # of the rows (contract/conditions.py); None: there are none
    step: int = 0  # or how far the rows of a model are apart where they lie as they came, row after row of all models

    def cut(self, parts: int) -> list[Rows]:
        """The same in parts, at most this many, with about equally many rows."""
        wanted = np.linspace(0, self.starts[-1], parts + 1)
        edges = np.unique(np.searchsorted(self.starts, wanted))
        return [self.between(first, last) for first, last in itertools.pairwise(edges.tolist())]

    def between(self, first: int, last: int) -> Rows:
        """The rows of models[first:last]."""
        begin, end = self.starts[first], self.starts[last]
        return Rows(self.models[first:last], self.starts[first : last + 1] - begin, *self._at(slice(begin, end)))

    def _at(self, where: slice | Indices) -> tuple[FloatArray, FloatArray | None, FloatArray | None]:
        """Inputs, targets and conditions of some rows."""
        Y = None if self.Y is None else self.Y[where]
        return self.X[where], Y, None if self.conditions is None else self.conditions[where]

    def of(self, chosen: Indices) -> tuple[Rows, Indices]:
        """The rows of some of the models, by position, and where they are among all."""
        counts = np.diff(self.starts)
        where = np.flatnonzero(np.repeat(np.isin(np.arange(len(counts)), chosen), counts))
        starts = np.concatenate([[0], np.cumsum(counts[chosen])])
        return Rows(self.models[chosen], starts, *self._at(where)), where

    def turns(self) -> Iterator[tuple[Rows, Indices]]:
        """The first row of every model, then the second of those that have one, ..., and where they are among all."""
        counts = np.diff(self.starts)
        for turn in range(int(counts.max())):
            some = np.flatnonzero(counts > turn)
            where = self.starts[some] + turn
            yield Rows(self.models[some], np.arange(len(some) + 1), *self._at(where)), where

    def grouped(self) -> Rows:
        """The same with step 0."""
        if not self.step:
            return self
        return Rows(self.models, self.starts, *self._at(np.arange(len(self.X)).reshape(-1, self.step).T.ravel()))

    def each(self, values: np.ndarray) -> np.ndarray:
        """What belongs to the model of each row, from an array with a row for every model of the fleet."""
        of_models: np.ndarray = values[self.models]
        if len(self.X) == len(self.models):
            return of_models
        if self.step:
            return np.concatenate([of_models] * (len(self.X) // self.step))
        return np.repeat(of_models, np.diff(self.starts), axis=0)


def joined(parts: Sequence[Predicted], places: Sequence[Indices] = ()) -> Predicted:
    """The columns of rows that follow each other, or of those at these places."""
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not places:
        return columns
    order = np.argsort(np.concatenate(places))
    return [column[order] for column in columns]


class Arrival(NamedTuple):
    """How rows came, to be grouped and to give back predictions in the same arrangement."""

    models: Indices  # as in Rows
    starts: Indices
    order: Indices | None  # where each grouped row is among those that came, their axes flattened; None: as is
    shape: tuple[int, ...]  # the leading axes of what came: (rows, size), (size,) or (n,)
    step: int = 0  # as in Rows

    def rows(self, X: np.ndarray, Y: np.ndarray | None = None) -> Rows:
        """Inputs as they came, and targets() of them."""
        return Rows(self.models, self.starts, self.grouped(X), Y, step=self.step)

    def grouped(self, values: np.ndarray) -> np.ndarray:
        """Rows that came, (*shape, columns), as (n, columns) grouped by model."""
        flat = values.reshape(int(np.prod(self.shape)), values.shape[-1])
        return flat if self.order is None else flat[self.order]

    @property
    def back(self) -> Indices:
        """The position of every row that came among the grouped ones."""
        n = int(np.prod(self.shape))
        places = np.arange(n)
        if self.order is not None:
            places[self.order] = np.arange(n)
        return places.reshape(self.shape)


def arrival(ids: Any, X: FloatArray, size: int, as_came: bool = False) -> Arrival:
    """How X came: (rows, size, d) or (size, d) without ids, (n, d) with; rows of all models need not be grouped."""
    if ids is not None:
        return _sparse(checked_ids(ids, size), X)
    if X.ndim not in (2, 3) or X.shape[-2] != size:
        raise ValueError(
            f"X must have shape (rows, {size}, d), or ({size}, d) for one row of each of the {size} models; got "
            f"{X.shape}. For rows of some models only use ids=, one for each row, with X of shape (n, d)."
        )
    rows = X.shape[0] if X.ndim == 3 else 1
    if rows == 1 or as_came:
        return Arrival(*_everybody(size, rows), None, X.shape[:-1], 0 if rows == 1 else size)
    return Arrival(*_everybody(size, rows), np.arange(rows * size).reshape(rows, size).T.ravel(), X.shape[:-1])


@lru_cache(maxsize=2)
def _everybody(size: int, rows: int) -> tuple[Indices, Indices]:
    """Models and starts where all models have equally many rows."""
    models = np.arange(size if rows else 0)
    return models, rows * np.arange(len(models) + 1)


def _sparse(ids: Indices, X: FloatArray) -> Arrival:
    if X.ndim != 2 or len(X) != len(ids):
        raise ValueError(
            f"X must have one row for each of the {len(ids)} ids: shape ({len(ids)}, d); got an array of shape "
            f"{X.shape}"
        )
    ascending = len(ids) < 2 or bool(np.all(ids[1:] >= ids[:-1]))
    order = None if ascending else np.argsort(ids, kind="stable")
    ordered = ids if order is None else ids[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Arrival(ordered[firsts], np.append(firsts, len(ids)), order, (len(ids),))


def checked_ids(ids: Any, size: int) -> Indices:
    """Ids of models of the fleet, (n,)."""
    found = np.asarray(ids)
    if found.size == 0 and found.ndim == 1:
        return np.zeros(0, dtype=np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(
            f"ids must be whole numbers, one for each row: an array of shape (n,); got {found.dtype} of shape "
            f"{found.shape}"
        )
    wrong = (found < 0) | (found >= size)
    if wrong.any():
        raise IndexError(
            f"the fleet has the models 0 to {size - 1}; got the id {found[wrong][0]}"
            if size
            else f"the fleet has no models; got the id {found[0]}: add some with fleet.add(n)"
        )
    return found.astype(np.int64)


def targets(Y: Any, came: Arrival, p: int | None, single: bool = False) -> tuple[FloatArray, bool]:
    """Targets as (n, p), grouped, and whether they were numbers, not lists of numbers."""
    values = plain(Y, "Y", single)
    scalar = values.shape == came.shape
    if not scalar and (values.shape[:-1] != came.shape or values.shape[-1] == 0):
        wanted = ", ".join(map(str, came.shape))
        raise ValueError(
            f"Y must have one target for each row of X: shape ({wanted}{',' * (len(came.shape) == 1)}) or "
            f"({wanted}, p); got {values.shape}"
        )
    found = came.grouped(values[..., None] if scalar else values)
    if p is not None and found.shape[1] != p:
        raise ValueError(f"Y must have {p} targets in each row, as the first rows had; got {found.shape[1]}")
    return found, scalar


def plain(value: Any, name: str, single: bool = False) -> FloatArray:
    """Numbers as they are where they can be taken so: rows of a million models are not copied for nothing."""
    if type(value) is np.ndarray and value.dtype in FLOATS[: 2 if single else 1] and value.flags.c_contiguous:
        return value
    return inputs.numbers(value, name)


def noises(noise: Any, came: Arrival, p: int) -> FloatArray:
    """The noises of rows, grouped, (n, 1) or (n, p); one stands for all."""
    values = inputs.numbers(noise, "noise")
    if values.shape == ():
        values = np.full(came.shape, values)
    if values.shape not in (came.shape, (*came.shape, p)):
        raise ValueError(f"noise must be one variance, or one for each target: shape {came.shape}; got {values.shape}")
    return came.grouped(values[..., None] if values.shape == came.shape else values)


def times(time: Any, came: Arrival) -> FloatArray:
    """The times of rows, grouped, (n,); one for each row of all models stands for that of each."""
    values = np.asarray(time)
    if values.shape == came.shape[:-1]:  # of all models at once
        values = np.broadcast_to(values[..., None], came.shape)
    if values.shape != came.shape:
        raise ValueError(f"time must be one time for each row: shape {came.shape}; got {values.shape}")
    return inputs.times(came.grouped(values[..., None])[:, 0], int(np.prod(came.shape)), many=True)

"""Columns: the models of a kind in the memory of a GPU, where their loop runs as on the cores."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.settings import FloatArray

if TYPE_CHECKING:
    from streamgp.cuda.place import Gpu


class Columns:
    """Models of one kind: a column has the counters of a model, then its buffer.

    ``records`` and ``buffers`` stand for the arrays that the models would have on the cores: what is read from them is
    a copy, and what is written goes there.
    """

    def __init__(self, numbers: Numbers, place: Gpu, loop: Any) -> None:
        self.blank, self.place, self._loop, self._lock = numbers, place, loop, Lock()
        self.mirrors: dict[int, Any] = {}  # where arrays of wrappers are there, by their identity here
        self.largest: float | None = None  # number that is taken; None: rows were checked before
        self.size = 0
        self.array = place.zeros(len(numbers.counted) + numbers.buffers.shape[1], 0)
        self.records, self.buffers = Records(self), Buffers(self)

    def __call__(self, records: Any, buffers: Any, *given: Any) -> tuple[int, int, int]:
        """As the loop; threads that share out the models take turns."""
        return self._done(given[:8])

    def take(self, records: Any, buffers: Any, *given: Any) -> tuple[int, int, int]:
        """As wrappers/single.py around the loop, with what is mirrored there: checked rows of which none waits."""
        *rows, _ = given[:8]
        mirrored = (self.mirrors.get(id(one)) for one in given[8:16])
        around = [
            self.place.sent(one) if there is None else there for one, there in zip(given[8:16], mirrored, strict=True)
        ]
        return self._done((*rows, given[17]), tuple(around))

    def _done(self, given: tuple[Any, ...], around: tuple[Any, ...] = ()) -> tuple[int, int, int]:
        models, starts, ops, *rows = given
        starts = starts if starts.size else np.array([0, len(ops)])
        with self._lock:
            given = models, starts, ops, *rows
            status = self.place.run(self._loop, self.blank, self.array, given, around, self.largest)
        for k in np.flatnonzero(status)[:1]:
            return int(status[k]), int(k), int(starts[k])
        return 0, -1, -1

    def room(self, shape: tuple[int, ...]) -> FloatArray:
        """For predictions: what is not asked for may be any number where nothing is."""
        return self.place.block(shape)

    # Models.

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""
        before = self.size
        self._move(np.arange(before), before + count)
        blank = np.concatenate([self.of_counters(self.blank.records[0]["counters"]), self.blank.buffers[0]])
        self.place.write_columns(self.array, np.arange(before, self.size), 0, blank)

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        self._move(which, len(which))

    def _move(self, which: np.ndarray, size: int) -> None:
        array = self.place.zeros(self.array.shape[0], size)
        self.place.move(self.array, which, array)
        self.array, self.size = array, size

    # What stands for their arrays.

    @property
    def arrays(self) -> list[Any]:
        return [self.records, self.buffers]

    @property
    def counted(self) -> int:
        return len(self.blank.counted)

    def of_counters(self, counters: np.ndarray) -> FloatArray:
        """The numbers of counters, (counters, ...): floats of the same bits."""
        found: FloatArray = np.stack([np.asarray(counters[name]) for name in self.blank.counted]).view(np.float64)
        return found

    def as_counters(self, numbers: FloatArray) -> np.ndarray:
        """Counters, (n,), of which these are the numbers, (counters, n)."""
        counters = np.empty(numbers.shape[1], self.blank.records.dtype["counters"])
        for name, row in zip(self.blank.counted, np.ascontiguousarray(numbers).view(np.int64), strict=True):
            counters[name] = row
        return counters

    def read(self, rows: slice) -> FloatArray:
        return self.place.read(self.array, rows)

    def write(self, rows: slice, values: FloatArray) -> None:
        self.place.write(self.array, rows, values)

    def read_column(self, i: int) -> FloatArray:
        return self.place.read_column(self.array, i)

    def write_columns(self, which: np.ndarray, first: int, values: FloatArray) -> None:
        """Replace some numbers of some models, the same in all. Other threads may change other models meanwhile."""
        self.place.write_columns(self.array, which, first, values)


class Records:
    """Stands for the records of models, of which the counters alone are their own."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.size

    @property
    def _rows(self) -> slice:
        return slice(0, self._columns.counted)

    def __getitem__(self, which: Any) -> Any:
        columns = self._columns
        if which == "counters":
            return columns.as_counters(columns.read(self._rows))
        record = columns.blank.records[0].copy()
        record["counters"] = columns.as_counters(columns.read_column(which)[self._rows, None])[0]
        return record

    def __setitem__(self, which: Any, values: Any) -> None:
        numbers = self._columns.of_counters(values["counters"])
        if which is Ellipsis:
            self._columns.write(self._rows, numbers)
        else:
            self._columns.write_columns(np.atleast_1d(which), 0, numbers)


class Buffers:
    """Stands for the buffers of models."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.size

    @property
    def _begin(self) -> int:
        return self._columns.counted

    def __getitem__(self, which: Any) -> FloatArray:
        if isinstance(which, tuple):  # some numbers of all models
            first, last, _ = which[1].indices(self._columns.blank.buffers.shape[1])
            return np.ascontiguousarray(self._columns.read(slice(self._begin + first, self._begin + last)).T)
        return self._columns.read_column(which)[self._begin :]

    def __setitem__(self, which: Any, values: Any) -> None:
        if which is Ellipsis:
            self._columns.write(slice(self._begin, None), np.ascontiguousarray(values.T))
        else:
            self._columns.write_columns(np.atleast_1d(which), self._begin, values)

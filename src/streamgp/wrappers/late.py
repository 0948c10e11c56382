"""Late: a stream model whose rows wait for their targets; Delayed and Ahead say when these come."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.contract.conditions import TIME
from streamgp.contract.model import Health, Shape
from streamgp.contract.prediction import Prediction, packed, unpacked
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.contract.waiting import Waiting
from streamgp.settings import FloatArray
from streamgp.wrappers.issuing import issued, learn_issued, timed
from streamgp.wrappers.wrapper import Wrapper

# Rows so far, which is the next ticket; rows that expired; the last row's ticket if it waits, or -1; whether nothing
# has changed since it was issued; rows learned later than their own time.
COUNTERS = np.dtype([(name, np.int64) for name in ("rows", "expired", "newest", "fresh", "late")])

LAYOUT = Layout(np.dtype([]), COUNTERS, {"last_x": "inputs", "last_y": "outputs", "learned": "times"}, {})


class Late(Wrapper):
    """A stream model whose rows wait for their targets: the inputs, what was issued, and the memory of that moment."""

    _places: int  # rows that can wait
    _waiting: Waiting
    _numbers: Numbers
    _like: Prediction  # of no rows, of the kind that is kept
    _parts: int  # numbers of one of its outputs

    # The state.

    def _begin(self, X: FloatArray, Y: FloatArray | None, scalar: bool, certain: bool, *, many: bool) -> None:
        probe = self._within.clone()  # it may know how many outputs there are before the first target
        probe._begin(X, Y, scalar, certain, many=many)
        self._prepare(probe._shape)

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        self._within._prepare(shape)

    def _start(self, d: int, p: int) -> None:
        before = None if self._d is None else (self._numbers, self._waiting, self._widths(d, 1))
        super()._start(d, p)
        self._like = self._within._empty()
        self._parts = packed(self._like._each(lambda _: np.empty((0, 1))), 1).shape[1]
        self._numbers = Numbers(LAYOUT, {"inputs": d, "outputs": p, "times": 1}, {})
        self._numbers.counters["newest"], self._numbers.state.learned[:] = -1, np.nan
        widths = self._widths(d, p)
        self._waiting = Waiting(self._places, sum(widths))
        if before is not None:  # rows wait, but no target has come: what one output says stands for all
            numbers, waited, old_widths = before
            self._numbers.counters[:] = numbers.counters
            self._numbers.state.last_x[:] = numbers.state.last_x
            parts = np.split(waited.rows, np.cumsum(old_widths)[:-1], axis=1)
            wide = [_widened(part, width) for part, width in zip(parts, widths, strict=True)]
            self._waiting.rows[:], self._waiting.tickets[:] = np.hstack(wide), waited.tickets

    def _widths(self, d: int, p: int) -> list[int]:
        """How many numbers a waiting row has: its inputs, what was issued, the memory, what was predicted, its time."""
        memory = [array.size for array in self._within._memory_arrays()]
        return [d, self._within._issued_width(p), *memory, self._parts * p, 1]

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays() | self._waiting.arrays()

    def _check_restored(self) -> None:
        rows, expired, newest = (self._numbers.count(name) for name in ("rows", "expired", "newest"))
        self._waiting.check_restored(rows)
        if not (0 <= expired <= rows and -1 <= newest < rows):
            raise SnapshotError(f"the snapshot cannot have {rows} rows, of which {expired} expired, the last {newest}")
        if newest >= 0 and newest not in self._waiting:
            raise SnapshotError(f"the snapshot says that row {newest}, its last one, waits, but has no such row")
        require("waiting rows", self._waiting.rows[:, : self._d])
        require("last_x", self._numbers.state.last_x)
        require("learned", self._numbers.state.learned[~np.isnan(self._numbers.state.learned)])
        super()._check_restored()

    # Rows that wait.

    def _put(self, X: FloatArray, at: float = np.nan, ahead: float = 0.0) -> Prediction:
        """Predict one row, and let it wait for its target under the next ticket.

        Args:
            X: (1, d).
            at: its time, where there is a kernel over time.
            ahead: how much later its target comes.
        """
        counters, ticket = self._numbers.counters, self._numbers.count("rows")
        prediction, row = issued(self._within, X, timed(None, at + ahead))
        if not np.isnan(at):
            self._within._note_time(at)
        row = np.concatenate([row, packed(prediction, self._numbers.state.last_y.size)[0], [at]])
        counters["expired"] += self._waiting.issue(np.array([ticket]), row[None])[1]
        counters["rows"], counters["newest"], counters["fresh"] = ticket + 1, ticket, 1
        self._numbers.state.last_x[:] = X[0]
        return prediction

    def _own_time(self, conditions: FloatArray | None) -> float:
        """The time of a row that comes now, where the model sees times; else NaN."""
        moment = self._within._moment()
        if moment is None:
            return float(conditions[0, TIME]) if conditions is not None and self._within._sees_time else np.nan
        given = conditions is not None and not np.isnan(conditions[0, TIME])
        return float(conditions[0, TIME]) if conditions is not None and given else moment.one_later

    def _unpacked(self, rows: FloatArray) -> Prediction:
        """What was predicted of waiting rows, (n, p) in all its parts."""
        p = self._numbers.state.last_y.size
        return unpacked(rows[:, -1 - self._parts * p : -1], self._like, p)

    def _take_out(self, ticket: int, Y: FloatArray, conditions: FloatArray | None) -> bool:
        """Learn the target of a row that waits; whether at once. The last row over time stays the last."""
        counters, last = self._numbers.counters, ticket == self._numbers.count("newest")
        unchanged, moment = self._is_unchanged(ticket), self._within._moment()
        at_once = learn_issued(self._within, self._waiting[ticket], Y, conditions, last=last, unchanged=unchanged)
        if moment is not None:
            self._within._note_time(moment.seen)
        self._waiting.resolve(self._waiting.place(ticket))
        counters["fresh"] = 0
        if last:
            self._close(Y)
        return at_once

    def _is_unchanged(self, ticket: int) -> bool:
        """Whether a row is the last one that was issued, and nothing has changed since."""
        return ticket == self._numbers.count("newest") and bool(self._numbers.count("fresh"))

    def _close(self, Y: FloatArray | None) -> None:
        """The last row is done: its target, or that of one of the last rows, is the last one known."""
        self._numbers.counters["newest"], self._numbers.counters["fresh"] = -1, 0
        if Y is not None:
            self._note_last(Y)

    def _note_last(self, Y: FloatArray) -> None:
        """Of each output, the last of these targets that is known is the last one."""
        for j, column in enumerate(Y.T):
            known = column[~np.isnan(column)]
            if known.size:
                self._numbers.state.last_y[j] = known[-1]

    def reset_memory(self) -> None:
        if self._d is not None:  # a row of the last sequence leaves nothing to the next one
            self._numbers.counters["newest"] = -1
        super().reset_memory()

    def forget(self, factor: float) -> None:
        super().forget(factor)
        if self._d is not None:
            self._numbers.counters["fresh"] = 0

    # What can be read.

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._d is None else len(self._waiting)

    @property
    def health(self) -> Health:
        health = super().health
        return health if self._d is None else health._replace(late_rows=self._numbers.count("late"))

    @property
    def expired(self) -> int:
        """Rows whose targets had not come when newer ones took their places; their targets are refused."""
        return 0 if self._d is None else self._numbers.count("expired")

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows")


def _widened(values: FloatArray, width: int) -> FloatArray:
    """Numbers of one output as those of several; a memory of lags, which no target has filled yet, is empty."""
    times, rest = divmod(width, max(values.shape[1], 1))
    return np.zeros((len(values), width)) if rest else np.repeat(values, times, axis=1)

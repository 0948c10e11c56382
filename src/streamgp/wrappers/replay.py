"""Replay: the last learned rows, and states from before them, so that a late target is learned in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray

# The last learned rows, in order, each with its order in the last two columns; the order of the row before the first.
LAYOUT = Layout(np.dtype([]), np.dtype([("logged", np.int64)]), {"log": "places width", "log_start": "2"}, {})


class Order(NamedTuple):
    """What rows are learned in the order of: their times, if they have any, then their numbers."""

    time: float
    number: float


class Log(NamedTuple):
    """The last learned rows, at least ``depth`` and fewer than twice as many, and two states from before them.

    The first state is the one before the first row, the second the one before row ``depth``, once that many are there.
    A state is kept every ``depth`` rows: to keep one costs a copy of the model, to go back to it one more.
    """

    depth: int
    numbers: Numbers
    states: tuple[StreamModel, StreamModel]

    @classmethod
    def blank(cls, depth: int, width: int, model: StreamModel) -> Log:
        """A log of a model that has learned nothing yet, for rows of this many numbers."""
        numbers = Numbers(LAYOUT, {"places": 2 * depth, "width": width}, {})
        numbers.state.log_start[:] = -np.inf
        return cls(depth, numbers, (model.copy(), model.copy()))

    @property
    def rows(self) -> FloatArray:
        """The logged rows, (n, width)."""
        return self.numbers.state.log[: self.numbers.count("logged")]  # type: ignore[no-any-return]

    @property
    def is_blank(self) -> bool:
        """Whether no target has come yet."""
        return not len(self.rows) and self.start.number == -np.inf

    @property
    def start(self) -> Order:
        """The order of the last row before the log: what comes before it can no longer be learned in order."""
        return Order(*self.numbers.state.log_start.tolist())

    @property
    def last(self) -> Order:
        """The order of the row learned last."""
        return Order(*self.rows[-1, -2:].tolist()) if len(self.rows) else self.start

    def skipped(self, rows: int) -> int:
        """How many of the next rows will have left the log after this many; the rest fills it."""
        return max(rows // self.depth - 2, 0) * self.depth

    def appended(self, row: FloatArray, model: StreamModel) -> Log:
        """With the row, (width,), that the model has learned last."""
        n, log = len(self.rows) + 1, self.numbers.state.log
        log[n - 1], self.numbers.counters["logged"] = row, n
        if n % self.depth:
            return self
        if n == self.depth:
            return self._replace(states=(self.states[0], model.copy()))
        self.numbers.state.log_start[:] = log[self.depth - 1, -2:]
        log[: self.depth], log[self.depth :] = log[self.depth :].copy(), 0.0
        self.numbers.counters["logged"] = self.depth
        return self._replace(states=(self.states[1], model.copy()))

    def passed(self, order: Order) -> None:
        """Rows up to this order were learned that are not logged, because as many as there is room for follow."""
        (self.rows[-1, -2:] if len(self.rows) else self.numbers.state.log_start)[:] = order

    def inserted(self, row: FloatArray, learn: Callable[[StreamModel, FloatArray], None]) -> tuple[Log, StreamModel]:
        """With a row in its order, after the first one; and a model that has learned all of them.

        Args:
            row: (width,).
            learn: lets a model learn a logged row.
        """
        order, orders = Order(*row[-2:].tolist()), [Order(*own) for own in self.rows[:, -2:].tolist()]
        rows = np.insert(self.rows, sum(own <= order for own in orders), row, axis=0)
        first, second = self.states
        reaches_back = len(self.rows) < self.depth or order < orders[self.depth - 1]
        model = (first if reaches_back else second).copy()
        for k in range(0 if reaches_back else self.depth, len(rows)):
            if k == self.depth and reaches_back:
                second = model.copy()
            learn(model, rows[k])
        self.numbers.state.log[: len(rows) - 1] = rows[:-1]
        return self._replace(states=(first, second)).appended(rows[-1], model), model

    def cut(self, model: StreamModel) -> Log:
        """Without rows: the model has changed in a way that cannot be repeated."""
        self.numbers.state.log_start[:] = self.last
        self.numbers.state.log[:], self.numbers.counters["logged"] = 0.0, 0
        return self._replace(states=(model.copy(), model.copy()))

    def check_restored(self, inputs: int) -> None:
        """Refuse what no rows of this many inputs lead to."""
        if not 0 <= (n := self.numbers.count("logged")) < 2 * self.depth:
            raise SnapshotError(f"the snapshot has {n} rows to learn again; there is room for {2 * self.depth - 1}")
        require("rows to learn again", self.rows[:, :inputs])
        for state in self.states:
            state._check_restored()

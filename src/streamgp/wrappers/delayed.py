"""Delayed: a stream model whose targets come late, in any order, or never."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.conditions import TIME
from streamgp.contract.lanes import ADVANCE, LEARN, ONE, TELL
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.contract.waiting import Waiting
from streamgp.settings import FloatArray, Maybe, whole
from streamgp.wrappers.late import Late


class Delayed(Late):
    """A stream model whose targets come late, in any order, or never.

    ``issue(x)`` predicts a row and advances the memory; ``resolve(ticket, y)`` learns its target when it comes, at the
    inputs as they were, the window or the reservoir of that moment included. A ``Calibrated`` model learns from the
    interval that was issued. To the model within the rows come in the order in which they are resolved; resolved at
    once, they leave it as ``learn_one`` does, to the last bit.

    A model with a kernel over time, or with a half-life, cannot go back: a target that comes after those of later rows
    is learned as of the last of these, and ``health.late_rows`` counts it.

    Args:
        model: the stream model within, which has learned nothing.
        pending: rows that can wait; one more, and the oldest expires.

    Example:
        >>> import streamgp as sg
        >>> model = sg.Delayed(sg.KRLST(), pending=100)
        >>> monday, tuesday = model.issue(1.0), model.issue(2.0)
        >>> issued = model.resolve(tuesday.ticket, 20.0)  # what was predicted of it
        >>> model.pending, model.rows_seen, round(model.predict_one(2.0).mean, 1)
        (1, 2, 19.8)
    """

    _waiting: Waiting

    def __init__(self, model: StreamModel, *, pending: int = 1000) -> None:
        self._wrap(model)
        self._places = whole("pending", pending)

    # The state.

    def _start(self, d: int, p: int) -> None:
        before = None if self._d is None else self._waiting
        super()._start(d, p)
        self._waiting = Waiting(self._places, self._line_width)
        if before is not None:  # rows wait, but no target has come
            order = np.argsort(before.tickets)[len(before.tickets) - len(before) :]
            self._waiting.tickets[:] = before.tickets
            for place, line in zip(order, self._widened(before.rows[order], d, p), strict=True):
                self._waiting.rows[place] = line

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays() | self._waiting.arrays()

    def _check_restored(self) -> None:
        rows, expired, newest = (self._numbers.count(name) for name in ("rows", "expired", "newest"))
        self._waiting.check_restored(rows)
        if not (0 <= expired <= rows and -1 <= newest < rows):
            raise SnapshotError(f"the snapshot cannot have {rows} rows, of which {expired} expired, the last {newest}")
        if newest >= 0 and newest not in self._waiting:
            raise SnapshotError(f"the snapshot says that row {newest}, its last one, waits, but has no such row")
        require("waiting rows", self._waiting.rows[:, : 1 + (self._d or 0)])
        require("last_x", self._numbers.state.last_x)
        require("learned", self._numbers.state.learned[~np.isnan(self._numbers.state.learned)])

    def reset_memory(self) -> None:
        if self._d is not None:  # a row of the last sequence leaves nothing to the next one
            self._numbers.counters["newest"] = -1
        super().reset_memory()

    # Rows.

    def issue(self, x: Any, *, time: Any = None) -> Prediction:
        """Predict a row whose target comes later, and advance the memory by it.

        Args:
            x: d numbers.
            time: of the row, for a model with a kernel over time or a half-life, which learns its target as of then.
                None: with a kernel over time a usual spacing after the last row, with a half-life alone when the target
                comes.

        Returns:
            A Prediction with a ``ticket``, the row's number from 0.
        """
        X = inputs.row(x, self._shape.d)
        conditions = None if time is None else passing.conditions_at(self, time, 1, many=False)
        known = self._shape.covers(certain=False)
        with passing.whole(self, known):
            if not known:
                passing.begin(self, X, None, self._shape.scalar, False, many=False)
            passing.refuse_unfit(self, X)
            ticket, counters, moment = self.rows_seen, self._numbers.counters, self._within._moment
            at = np.nan if conditions is None else float(conditions[0, TIME])
            if moment is not None:
                at = moment.one_later if np.isnan(at) else at
            elif not (self._needs_time or self._within._sees_time):
                at = np.nan
            line, columns = self._issue(X, ticket, at, 0.0, self._within)
            counters["expired"] += self._waiting.issue(np.array([ticket]), line[None])[1]
            counters["rows"], counters["newest"] = ticket + 1, ticket
            self._numbers.state.last_x[:] = X[0]
            return passing.shaped(self, columns, many=False)._with(ticket=ticket)

    def resolve(self, ticket: int, y: Any, *, noise: Any = None, time: Any = None) -> Prediction:
        """Learn the target of a row that was issued, at the inputs as they were.

        Args:
            ticket: of the prediction.
            y: a number, or p numbers; None, NaN, NA or masked: nothing is learned, and the ticket is closed.
            noise: variance of this observation's noise.
            time: when the target came, for a model with a half-life that learns it as of then. None: the time of
                ``issue``, which is the only one that a model with a kernel over time takes.

        Returns:
            The Prediction that was issued of the row, by which to score it.
        """
        if whole("ticket", ticket, at_least=0) >= self.rows_seen:
            raise KeyError(f"ticket {ticket} has not been issued; the next one will be {self.rows_seen}")
        moment, learned, waited = self._within._moment, self._learned(), self._waiting[ticket]
        Y, scalar, given = inputs.target(y, self._shape.outputs, self._shape.scalar)
        if time is not None and moment is not None:
            raise ValueError("with a kernel over time a row has the time at which it was issued: issue(x, time=t)")
        late = time is None and waited[-1] < learned  # the posterior cannot go back
        if time is None and not np.isnan(waited[-1]):
            time = np.fmax(waited[-1], learned)
        conditions = passing.conditions_of(self, 1, Y if given else None, noise=noise, time=time, many=False)
        known, X = self._shape.covers(given), waited[None, 1 : 1 + (self._d or 0)]
        with passing.whole(self, known):
            if not known:
                passing.begin(self, X, Y, scalar, given, many=False)
            passing.refuse_unfit(self, X, Y)
            x, kept, columns, _ = self._parts(self._waiting[ticket][None])
            self._last_targets = Y = self._screened(Y)
            self._within._pass(ONE[LEARN], np.ascontiguousarray(x), Y, conditions, kept)
            self._waiting.resolve(self._waiting.place(ticket))
            self._numbers.counters["late"] += late and not np.isnan(Y).all()
            if ticket == self._numbers.count("newest"):
                self._numbers.counters["newest"] = -1
                self._note_last(Y)
            self._note_learned(Y, conditions)
        return passing.shaped(self, columns, many=False)._with(ticket=ticket)

    def _learned(self) -> float:
        """The time of the last row learned, where the model learns as of times; NaN: there was none."""
        moment = self._within._moment
        return float(self._numbers.state.learned[0]) if moment is None else moment.learned

    def _note_learned(self, Y: FloatArray, conditions: Maybe) -> None:
        """Rows were learned as of their times, by which the model within forgets."""
        if self._needs_time and conditions is not None:
            times = conditions[~np.isnan(Y).all(axis=1), TIME]
            self._numbers.state.learned[:] = np.fmax.reduce(times, initial=self._numbers.state.learned[0])

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        columns = self._within._pass(ops, X, Y, conditions, kept)
        rows, kinds = ops.T
        advanced, told = rows[kinds & ADVANCE != 0], kinds & (LEARN | TELL) != 0
        if len(advanced):
            self._numbers.counters["rows"] += len(advanced)
            self._numbers.counters["newest"] = -1
            self._numbers.state.last_x[:] = X[advanced[-1]]
        if Y is not None and told.any():
            self._note_last(Y[rows[told]])
            learned = kinds & LEARN != 0
            self._note_learned(Y[rows[learned]], None if conditions is None else conditions[learned])
        return columns

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        if self._numbers.count("newest") >= 0:
            raise ValueError(
                "forecast goes on from the last row and its target, which has not come: resolve it first, or use "
                "simulate(U, ...)"
            )
        return super()._last_row()

    # What can be read.

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._d is None else len(self._waiting)

    @property
    def expired(self) -> int:
        """Rows whose targets had not come when newer ones took their places; their targets are refused."""
        return 0 if self._d is None else self._numbers.count("expired")

    @property
    def health(self) -> Health:
        health = super().health
        return health if self._d is None else health._replace(late_rows=self._numbers.count("late"))

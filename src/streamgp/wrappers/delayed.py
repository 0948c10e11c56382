"""Delayed: a stream model whose targets come late, in any order, or never."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.contract import inputs
from streamgp.contract.atomic import undone_on_error, uninterrupted
from streamgp.contract.delay import Delay
from streamgp.contract.freerun import Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.calibrated import ISSUED, Calibrated
from streamgp.wrappers.wrapper import Wrapper

# Rows so far, which is the next ticket; rows that expired; the last row's ticket if it waits, or -1; whether nothing
# has changed since it was issued.
COUNTERS = np.dtype([(name, np.int64) for name in ("rows", "expired", "newest", "fresh")])

LAYOUT = Layout(np.dtype([]), COUNTERS, {"last_x": "inputs", "last_y": "outputs"}, {})


class Delayed(Wrapper):
    """A stream model whose targets come late, in any order, or never.

    ``issue(x)`` predicts a row and advances the memory; ``resolve(ticket, y)`` learns its target when it comes, at the
    inputs as they were, the window or the reservoir of that moment included. A ``Calibrated`` model learns from the
    interval that was issued. To the model within the rows come in the order in which they are resolved; resolved at
    once, they leave it as ``learn_one`` does, to the last bit.

    Args:
        model: the stream model within, which has learnt nothing.
        pending: rows that can wait; one more, and the oldest expires.

    Example:
        >>> import streamgp as sg
        >>> model = sg.Delayed(sg.KRLST(), pending=100)
        >>> monday, tuesday = model.issue(1.0), model.issue(2.0)
        >>> model.resolve(tuesday.ticket, 20.0)
        >>> model.pending, model.rows_seen, round(model.predict_one(2.0).mean, 1)
        (1, 2, 19.8)
    """

    _delay: Delay
    _numbers: Numbers

    def __init__(self, model: StreamModel, *, pending: int = 1000) -> None:
        self._wrap(model)
        self._places = whole("pending", pending)

    # The state.

    def _begin(self, X: FloatArray, Y: FloatArray | None, scalar: bool, certain: bool, *, many: bool) -> None:
        probe = self._within.clone()  # it may know how many outputs there are before the first target
        probe._begin(X, Y, scalar, certain, many=many)
        self._prepare(probe._shape)

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        self._within._prepare(shape)

    def _start(self, d: int, p: int) -> None:
        before = None if self._d is None else (self._numbers, self._delay.arrays(), self._widths(d, 1))
        super()._start(d, p)
        self._numbers = Numbers(LAYOUT, {"inputs": d, "outputs": p}, {})
        self._numbers.counters["newest"] = -1
        widths = self._widths(d, p)
        self._delay = Delay(self._places, sum(widths))
        if before is not None:  # rows wait, but no target has come: what one output says stands for all
            numbers, waited, old_widths = before
            self._numbers.counters[:] = numbers.counters
            self._numbers.state.last_x[:] = numbers.state.last_x
            parts = np.split(waited["waiting"], np.cumsum(old_widths)[:-1], axis=1)
            held = self._delay.arrays()
            held["waiting"][:] = np.hstack(
                [
                    np.repeat(part, width // max(part.shape[1], 1), axis=1)
                    for part, width in zip(parts, widths, strict=True)
                ]
            )
            held["tickets"][:] = waited["tickets"]

    def _widths(self, d: int, p: int) -> list[int]:
        """How many numbers a waiting row has: its inputs, what was issued, and each array of the memory before it."""
        issued = ISSUED * p if isinstance(self._within, Calibrated) else 0
        return [d, issued, *(array.size for array in self._within._memory_arrays())]

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays() | self._delay.arrays()

    def _check_restored(self) -> None:
        self._delay.check_restored()
        held = self._delay.arrays()
        rows, expired, newest = (self._numbers.count(name) for name in ("rows", "expired", "newest"))
        if not (held["tickets"].max() < rows and 0 <= expired <= rows and -1 <= newest < rows):
            raise SnapshotError(
                f"the snapshot says {rows} rows, of which {expired} expired, and the tickets {held['tickets']}"
            )
        require("waiting rows", held["waiting"][:, : self._d])
        require("last_x", self._numbers.state.last_x)
        super()._check_restored()

    # Rows.

    def issue(self, x: Any) -> Prediction:
        """Predict a row whose target comes later, and advance the memory by it.

        Args:
            x: d numbers.

        Returns:
            A Prediction with a ``ticket``, the row's number from 0.
        """
        X = inputs.row(x, self._shape.d)
        known = self._shape.covers(certain=False)
        with uninterrupted() if known else undone_on_error(self):
            if not known:
                self._begin(X, None, self._shape.scalar, False, many=False)
            return self._issue(X)

    def _issue(self, X: FloatArray) -> Prediction:
        self._refuse_unfit(X)
        within, counters, ticket = self._within, self._numbers.counters, self.rows_seen
        prediction = within._predict(X)
        issued = within._issued(prediction, self._p or 1) if isinstance(within, Calibrated) else np.empty(0)
        row = np.concatenate([X[0], issued.ravel(), self._memory()])
        within._remember(X)
        counters["expired"] += self._delay.put(ticket, row) >= 0
        counters["rows"], counters["newest"], counters["fresh"] = ticket + 1, ticket, 1
        self._numbers.state.last_x[:] = X[0]
        return replace(self._shaped(prediction, many=False), ticket=ticket)

    def resolve(self, ticket: int, y: Any, *, noise: Any = None, time: Any = None) -> None:
        """Learn the target of a row that was issued, at the inputs as they were.

        Args:
            ticket: of the prediction.
            y: a number, or p numbers; None, NaN, NA or masked: nothing is learnt, and the ticket is closed.
            noise: variance of this observation's noise.
            time: when the target came; models that forget by time live in the order of the targets.
        """
        if whole("ticket", ticket, at_least=0) >= self.rows_seen:
            raise KeyError(f"ticket {ticket} has not been issued; the next one will be {self.rows_seen}")
        if ticket not in self._delay:
            raise KeyError(
                f"no row waits under ticket {ticket}: it is resolved, or expired when {self._places} newer ones waited"
            )
        Y, scalar, given = inputs.target(y, self._shape.outputs, self._shape.scalar)
        targets = Y if given else None
        conditions = self._conditions(1, targets, noise=noise, time=time, many=False)
        known = self._shape.covers(given)
        with uninterrupted() if known else undone_on_error(self):
            if not known:
                self._begin(self._delay[ticket][None, : self._d], Y, scalar, given, many=False)
            self._resolve(ticket, targets, conditions)

    def _resolve(self, ticket: int, Y: FloatArray | None, conditions: FloatArray | None) -> None:
        within, counters, d = self._within, self._numbers.counters, self._d
        assert d is not None
        row, issued = self._delay[ticket], ISSUED * (self._p or 1) if isinstance(within, Calibrated) else 0
        X, said, past = row[None, :d], row[d : d + issued], row[d + issued :]
        self._refuse_unfit(X, Y)
        Y = None if Y is None else self._screened(X, Y)
        present, last = self._memory(), ticket == self._numbers.count("newest")
        self._put_memory(past)
        try:
            # Where nothing has changed since, the model would issue the same now.
            if Y is not None and isinstance(within, Calibrated) and not (last and counters["fresh"][0]):
                within._learn_issued(X, Y, said.reshape(ISSUED, -1), conditions)
            else:
                within._advance(X, Y, False, conditions)
        except BaseException:
            self._put_memory(present)
            raise
        if not last:
            self._put_memory(present)
        self._delay.take(ticket)
        counters["fresh"] = 0
        if last:
            self._close(Y)

    def _memory(self) -> FloatArray:
        return np.concatenate([np.empty(0), *(array.ravel() for array in self._within._memory_arrays())])

    def _put_memory(self, values: FloatArray) -> None:
        start = 0
        for array in self._within._memory_arrays():
            array[...] = values[start : start + array.size].reshape(array.shape)
            start += array.size

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        prediction = self._within._advance(X, Y, report, conditions)
        self._numbers.counters["rows"] += len(X)
        self._numbers.state.last_x[:] = X[-1]
        self._close(Y)
        return prediction

    def _close(self, Y: FloatArray | None) -> None:
        """The last row is done: its target, or that of one of the last rows, is the last one known."""
        self._numbers.counters["newest"], self._numbers.counters["fresh"] = -1, 0
        for j, column in enumerate(() if Y is None else Y.T):
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

    # Predictions.

    def _predict(self, X: FloatArray) -> Prediction:
        return self._within._predict(X)

    def _shaped(self, prediction: Prediction, *, many: bool) -> Prediction:
        return self._within._shaped(prediction, many=many)

    def _empty(self) -> Prediction:
        return self._within._empty()

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return self._within._trajectories(count, steps)

    def _joint(self, X: FloatArray) -> JointPrediction:
        return self._within._joint(X)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        if self._numbers.count("newest") in self._delay:
            raise ValueError(
                "forecast goes on from the last row and its target, which has not come: resolve it first, or use "
                "simulate(U, ...)"
            )
        return self._numbers.state.last_x, self._numbers.state.last_y

    # What can be read.

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._d is None else len(self._delay)

    @property
    def expired(self) -> int:
        """Rows whose targets had not come when newer ones took their places; their targets are refused."""
        return 0 if self._d is None else self._numbers.count("expired")

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows")

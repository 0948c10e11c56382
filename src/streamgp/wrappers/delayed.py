"""Delayed: a stream model whose targets come late, in any order, or never."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.contract import inputs
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.freerun import Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Health, Shape, StreamModel
from streamgp.contract.prediction import Prediction, packed, unpacked
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.contract.waiting import Waiting
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.replay import Log, Order
from streamgp.wrappers.wrapper import Wrapper, joined

# Rows so far, which is the next ticket; rows that expired; the last row's ticket if it waits, or -1; whether nothing
# has changed since it was issued; rows learned later than their own time.
COUNTERS = np.dtype([(name, np.int64) for name in ("rows", "expired", "newest", "fresh", "late")])

LAYOUT = Layout(np.dtype([]), COUNTERS, {"last_x": "inputs", "last_y": "outputs"}, {})

REPLAY = 100  # rows, with a kernel over time


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
        self._numbers = Numbers(LAYOUT, {"inputs": d, "outputs": p}, {})
        self._numbers.counters["newest"] = -1
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
        require("waiting rows", self._waiting.rows[:, : self._d])
        require("last_x", self._numbers.state.last_x)
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
        prediction, row = issued(self._within, X, _timed(None, at + ahead))
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
        unchanged, moment = last and bool(counters["fresh"][0]), self._within._moment()
        at_once = learn_issued(self._within, self._waiting[ticket], Y, conditions, last=last, unchanged=unchanged)
        if moment is not None:
            self._within._note_time(moment.seen)
        self._waiting.resolve(self._waiting.place(ticket))
        counters["fresh"] = 0
        if last:
            self._close(Y)
        return at_once

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


def issued_width(model: StreamModel) -> int:
    """How many numbers issued() returns."""
    return (model._d or 0) + model._issued_width(model._p or 1) + _memory(model).size


def unresolved(
    model: StreamModel, X: FloatArray, conditions: FloatArray | None = None
) -> tuple[Prediction, FloatArray]:
    """Predict rows, (n, d), that would each come next and whose targets come later; the model does not change.

    Returns:
        The prediction, and what it takes to learn each row: its inputs, what was issued, and the memory before it.
    """
    prediction, issued = model._issue(X, conditions)
    return prediction, np.concatenate([X, issued, np.repeat(_memory(model)[None], len(X), axis=0)], axis=1)


def issued(model: StreamModel, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
    """Predict one row, (1, d), whose target comes later, and advance the memory by it.

    Returns:
        The prediction, and what it takes to learn the row, as of ``unresolved``.
    """
    prediction, rows = unresolved(model, X, conditions)
    model._remember(X)
    return prediction, rows[0]


def learn_issued(
    model: StreamModel, row: FloatArray, Y: FloatArray, conditions: FloatArray | None, *, last: bool, unchanged: bool
) -> bool:
    """Learn the target of a row, (1, p), at the inputs and with the memory of its moment.

    Args:
        model: that issued the row.
        row: what issued() or unresolved() returned; whatever follows it is not looked at.
        Y: the target, screened.
        conditions: of the row.
        last: whether no row came after it: the model then goes on from there.
        unchanged: whether the model has not changed since, so that it would issue the same now.

    Returns:
        Whether the row was learned as one whose target comes at once.
    """
    x, issued, past = _parts(model, row)
    present = _memory(model)
    at_once = unchanged and not any(isinstance(one, Ahead) for one in model._family())
    _put_memory(model, past)
    try:
        if at_once:
            model._advance(x, Y, False, conditions)
        else:
            model._resolve(x, Y, issued, conditions)
    except BaseException:
        _put_memory(model, present)
        raise
    if not last:
        _put_memory(model, present)
    return at_once


def _parts(model: StreamModel, row: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of an issued row the inputs and what was issued, (1, ...), and the memory."""
    d = model._d or 0
    width = model._issued_width(model._p or 1)
    return row[None, :d], row[None, d : d + width], row[d + width :]


def _unissued(model: StreamModel, x: FloatArray, memory: FloatArray) -> FloatArray:
    """A row, (1, d), as issued() returns it, of which nothing was issued."""
    return np.concatenate([x[0], np.zeros(model._issued_width(model._p or 1)), memory])


def _timed(conditions: FloatArray | None, at: float) -> FloatArray | None:
    """The conditions of one row, with its time where that is known."""
    if np.isnan(at):
        return conditions
    timed = np.full((1, NOISE + 1), np.nan) if conditions is None else conditions.copy()
    timed[0, TIME] = at
    return timed


def _memory(model: StreamModel) -> FloatArray:
    return np.concatenate([np.empty(0), *(array.ravel() for array in model._memory_arrays())])


def _put_memory(model: StreamModel, values: FloatArray) -> None:
    start = 0
    for array in model._memory_arrays():
        array[...] = values[start : start + array.size].reshape(array.shape)
        start += array.size


def _widened(values: FloatArray, width: int) -> FloatArray:
    """Numbers of one output as those of several; a memory of lags, which no target has filled yet, is empty."""
    times, rest = divmod(width, max(values.shape[1], 1))
    return np.zeros((len(values), width)) if rest else np.repeat(values, times, axis=1)


class Delayed(Late):
    """A stream model whose targets come late, in any order, or never.

    ``issue(x)`` predicts a row and advances the memory; ``resolve(ticket, y)`` learns its target when it comes, at the
    inputs as they were, the window or the reservoir of that moment included. A ``Calibrated`` model learns from the
    interval that was issued. To the model within the rows come in the order in which they are resolved; resolved at
    once, they leave it as ``learn_one`` does, to the last bit.

    With ``replay`` they come in the order of their times or, where they have none, of their tickets: when a target
    comes after those of later rows, the model goes back to a state from before its row, and learns it and the later
    ones again.

    Args:
        model: the stream model within, which has learned nothing.
        pending: rows that can wait; one more, and the oldest expires.
        replay: how many of the rows learned last a target may belong before, at least, and still be learned in order;
            targets of older rows are learned now, and ``health.late_rows`` counts them. 0: all targets are learned as
            they come. None: 100 if the model has a kernel over time, else 0.

    Example:
        >>> import streamgp as sg
        >>> model = sg.Delayed(sg.KRLST(), pending=100)
        >>> monday, tuesday = model.issue(1.0), model.issue(2.0)
        >>> issued = model.resolve(tuesday.ticket, 20.0)  # what was predicted of it
        >>> model.pending, model.rows_seen, round(model.predict_one(2.0).mean, 1)
        (1, 2, 19.8)
    """

    _log: Log | None = None  # None: targets are learned as they come

    def __init__(self, model: StreamModel, *, pending: int = 1000, replay: int | None = None) -> None:
        self._wrap(model)
        self._places = whole("pending", pending)
        looks_ahead = any(isinstance(one, Ahead) for one in model._family())
        if replay is None:
            replay = REPLAY if model._moment() is not None and not looks_ahead else 0
        self._replay = whole("replay", replay, at_least=0)
        if self._replay and looks_ahead:
            raise ValueError(
                f"replay={replay} learns rows again in order, but a row within Ahead is learned by the target of a "
                "later one; use replay=0"
            )

    def _fresh(self) -> list[StreamModel]:
        models = super()._fresh()
        models[0]._expect_late(0, self._places)
        return models

    # The state.

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        if self._replay:  # no target has come yet
            self._log = self._blank_log()

    def _blank_log(self) -> Log:
        return Log.blank(self._replay, sum(self._logged_widths()), self._within)

    def _logged_widths(self) -> list[int]:
        """How many numbers a logged row has: what was issued, its target, its conditions, if at once, its order."""
        p = self._p or 1
        return [issued_width(self._within), p, NOISE + (1 if self._shared else p), 1, 2]

    def _states(self) -> dict[str, StreamModel]:
        """Earlier states of the model within, by their names in a snapshot."""
        return {} if self._log is None else dict(zip(("earlier", "before"), self._log.states[::-1], strict=True))

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | ({} if self._log is None else self._log.numbers.arrays())

    def _all_arrays(self) -> dict[str, np.ndarray]:
        named = super()._all_arrays()
        for name, state in self._states().items():
            named |= {f"{name}.{inner}": array for inner, array in state._all_arrays().items()}
        return named

    def _structure(self) -> dict[str, Any]:
        named = super()._structure()
        for name, state in self._states().items():
            named |= {f"{name}.{inner}": value for inner, value in state._structure().items()}
        return named

    def _rebuild(self, structure: dict[str, Any]) -> None:
        super()._rebuild(structure)
        for name, state in self._states().items():
            head = f"{name}."
            state._rebuild({key.removeprefix(head): v for key, v in structure.items() if key.startswith(head)})

    def _check_restored(self) -> None:
        super()._check_restored()
        if self._log is not None:
            self._log.check_restored(self._d or 0)

    def forget(self, factor: float) -> None:
        super().forget(factor)
        if self._log is not None:
            self._log = self._log.cut(self._within)

    # Rows.

    def issue(self, x: Any, *, time: Any = None) -> Prediction:
        """Predict a row whose target comes later, and advance the memory by it.

        Args:
            x: d numbers.
            time: of the row, for a model with a kernel over time or a half-life, which learns its target as of then.
                None: with a kernel over time one after the last row, with a half-life alone when the target comes.

        Returns:
            A Prediction with a ``ticket``, the row's number from 0.
        """
        X = inputs.row(x, self._shape.d)
        conditions = None if time is None else self._conditions_at(time, 1, many=False)
        known = self._shape.covers(certain=False)
        with self._whole(known):
            if not known:
                self._begin(X, None, self._shape.scalar, False, many=False)
            self._refuse_unfit(X)
            ticket = self.rows_seen
            return replace(self._shaped(self._put(X, self._own_time(conditions)), many=False), ticket=ticket)

    def _own_time(self, conditions: FloatArray | None) -> float:
        if conditions is not None and self._needs_time:
            return float(conditions[0, TIME])
        return super()._own_time(conditions)

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
        waited = self._waiting[ticket]
        Y, scalar, given = inputs.target(y, self._shape.outputs, self._shape.scalar)
        own = np.nan if time is not None else float(waited[-1])
        if time is not None and self._within._moment() is not None:
            raise ValueError("with a kernel over time a row has the time at which it was issued: issue(x, time=t)")
        if not np.isnan(own):
            time = np.fmax(own, self._learned())  # all but the order of the row is checked
        conditions = self._conditions(1, Y if given else None, noise=noise, time=time, many=False)
        known = self._shape.covers(given)
        with self._whole(known):
            if not known:
                self._begin(waited[None, : self._d], Y, scalar, given, many=False)
            self._refuse_unfit(waited[None, : self._d], Y)
            prediction = self._unpacked(self._waiting[ticket][None])
            self._take_out(ticket, self._screened(Y), _timed(conditions, own))
        return replace(self._shaped(prediction, many=False), ticket=ticket)

    def _learned(self) -> float:
        """The time of the last row learned, as far as it is known; NaN: it is not."""
        if (moment := self._within._moment()) is not None:
            return moment.learned
        return np.nan if self._log is None else self._log.last.time

    def _take_out(self, ticket: int, Y: FloatArray, conditions: FloatArray | None) -> bool:
        given, learned, row = not np.isnan(Y).all(), self._learned(), self._waiting[ticket]
        log = self._log_for(given)
        late = behind = conditions is not None and bool(conditions[0, TIME] < learned)
        if log is not None:
            order = self._order(log, ticket, conditions, given)
            late = order < log.last
            if given and late and order > log.start:
                self._learn_again(log, ticket, self._logged(row, Y, conditions, False, order), Y)
                return False
        if behind:  # the posterior cannot go back
            conditions = _timed(conditions, learned)
        at_once = super()._take_out(ticket, Y, conditions)
        self._numbers.counters["late"] += given and late
        if log is not None:
            x, _, memory = _parts(self._within, row)
            made = _unissued(self._within, x, memory) if at_once else row
            self._note(log, made, Y, conditions, at_once, order)
        return at_once

    def _log_for(self, given: bool) -> Log | None:
        """Where the next row is logged; it begins with the first target."""
        if self._log is not None and self._log.is_blank:
            if not given:
                return None
            self._log = self._blank_log()
        return self._log

    def _order(self, log: Log, number: int, conditions: FloatArray | None, given: bool) -> Order:
        """What a row is ordered by; one that teaches nothing comes after the last one learned."""
        time = conditions[0, TIME] if conditions is not None and given and self._has_times else np.nan
        return Order(log.last.time if np.isnan(time) else float(time), number)

    @property
    def _has_times(self) -> bool:
        """Whether rows are learned as of their times."""
        return self._needs_time or self._within._moment() is not None

    def _note(
        self, log: Log, issued: FloatArray, Y: FloatArray, conditions: FloatArray | None, at_once: bool, order: Order
    ) -> None:
        """Log a row that the model within has learned last."""
        row = self._logged(issued, Y, conditions, at_once, max(order, log.last))
        self._log = log.appended(row, self._within)

    def _logged(
        self, issued: FloatArray, Y: FloatArray, conditions: FloatArray | None, at_once: bool, order: Order
    ) -> FloatArray:
        """A row as the log has it, (width,)."""
        head, _, conditioned, *_ = self._logged_widths()
        known = np.full(conditioned, np.nan)
        if conditions is not None:
            known[: conditions.shape[1]] = conditions[0]
        return np.concatenate([issued[:head], Y[0], known, [at_once], order])

    def _learn_again(self, log: Log, ticket: int, row: FloatArray, Y: FloatArray) -> None:
        """Learn a row that waits before later ones; what is remembered stays as it is."""
        present, moment = _memory(self._within), self._within._moment()
        self._log, model = log.inserted(row, self._learn_logged)
        _put_memory(model, present)
        if moment is not None:
            model._note_time(moment.seen)
        self._within = model
        self._waiting.resolve(self._waiting.place(ticket))
        self._numbers.counters["fresh"] = 0
        if ticket == self._numbers.count("newest"):
            self._close(Y)

    def _learn_logged(self, model: StreamModel, row: FloatArray) -> None:
        issued, Y, conditions, at_once, _ = np.split(row[None], np.cumsum(self._logged_widths())[:-1], axis=1)
        given = None if np.isnan(conditions).all() else conditions
        learn_issued(model, issued[0], Y, given, last=True, unchanged=bool(at_once))

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        if self._log is None:
            prediction = self._within._advance(X, Y, report, conditions)
        else:
            known = np.full((len(X), self._p or 1), np.nan) if Y is None else Y
            prediction = self._advance_logging(self._log, X, known, report, conditions)
        self._numbers.counters["rows"] += len(X)
        self._numbers.state.last_x[:] = X[-1]
        self._close(Y)
        return prediction

    def _advance_logging(
        self, log: Log, X: FloatArray, Y: FloatArray, report: bool, conditions: FloatArray | None
    ) -> Prediction | None:
        """Advance, and log the last rows, each with the memory before it."""
        conditions, given = self._with_times(conditions, len(X)), [not np.isnan(y).all() for y in Y]
        first = ([*given, True].index(True)) if log.is_blank else 0
        first += log.skipped(len(X) - first)
        predictions: list[Any] = []
        if first:
            predictions.append(self._within._advance(X[:first], Y[:first], report, part(conditions, 0, first)))
            for t in np.flatnonzero(given[:first])[-1:].tolist():
                log.passed(self._order(log, self.rows_seen + t, part(conditions, t, t + 1), True))
        for t in range(first, len(X)):
            x, y, own, memory = X[t : t + 1], Y[t : t + 1], part(conditions, t, t + 1), _memory(self._within)
            noted = self._log_for(given[t])
            predictions.append(self._within._advance(x, y, report, own))
            if noted is not None:
                order = self._order(noted, self.rows_seen + t, own, given[t])
                self._note(noted, _unissued(self._within, x, memory), y, own, True, order)
        return joined(predictions) if report else None

    def _with_times(self, conditions: FloatArray | None, n: int) -> FloatArray | None:
        """The conditions of rows that come now; with a kernel over time, all have their times."""
        moment = self._within._moment()
        if moment is None or (conditions is not None and not np.isnan(conditions[0, TIME])):
            return conditions
        timed = np.full((n, NOISE + 1), np.nan) if conditions is None else conditions.copy()
        timed[:, TIME] = moment.one_later + np.arange(n)
        return timed

    # Targets that come late by another way.

    def _issued_width(self, p: int) -> int:
        return self._within._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._within._issue(X, conditions)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        given = not np.isnan(Y).all()
        log, row = self._log_for(given), np.concatenate([X[0], issued[0], _memory(self._within)])
        self._within._resolve(X, Y, issued, conditions)
        if log is not None:
            order = self._order(log, self.rows_seen, conditions, given)
            self._note(log, row, Y, conditions, False, order)
        self._numbers.counters["rows"] += len(X)
        self._numbers.counters["fresh"] = 0

    # Predictions.

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._predict(X, conditions)

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._derived(X, conditions)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._uncertain(X, P, conditions)

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return self._within._trajectories(count, steps)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._within._joint(X, conditions)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        if self._numbers.count("newest") in self._waiting:
            raise ValueError(
                "forecast goes on from the last row and its target, which has not come: resolve it first, or use "
                "simulate(U, ...)"
            )
        return self._numbers.state.last_x, self._numbers.state.last_y


class Ahead(Late):
    """A stream model that predicts targets some rows ahead.

    The target of a row is predicted from the row ``horizon`` before it, with all that was known then, and from nothing
    that came in between: so ``predict_one`` and ``track`` return what was issued, and errors are those of real
    forecasts. ``upcoming()`` has the predictions of the rows to come. A row is learned when its target has come. Within
    ``Lagged`` the newest lag is the row's own target.

    Args:
        model: the stream model within, which has learned nothing; it sees a row and learns the target ``horizon`` rows
            later.
        horizon: rows ahead.
        pending: rows that can wait longer than that for targets that come even later; ``Delayed`` sets it.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> y = np.sin(0.3 * np.arange(400))
        >>> model = sg.Ahead(sg.Lagged(sg.KRLST(), lags=2), horizon=5)
        >>> p = model.track(np.empty((400, 0)), y)
        >>> bool(np.abs(p.mean - y)[-50:].max() < 0.1)
        True
        >>> model.upcoming().mean.shape
        (5,)
    """

    def __init__(self, model: StreamModel, *, horizon: int, pending: int = 0) -> None:
        self._wrap(model)
        self._horizon = whole("horizon", horizon)
        self._places = self._horizon + whole("pending", pending, at_least=0)

    def _fresh(self) -> list[StreamModel]:
        models = super()._fresh()
        models[0]._expect_late(self._horizon, 0)
        return models

    def _expect_late(self, rows: int, pending: int) -> None:
        self._settings["pending"], self._places = pending, self._horizon + pending

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        predictions: list[Any] = []
        for t in range(len(X)):
            given = part(conditions, t, t + 1)
            at = self._own_time(given)
            if report:
                predictions.append(self._predict(X[t : t + 1], given))
            y = np.full((1, self._p or 1), np.nan) if Y is None else Y[t : t + 1]
            self._arrive(self.rows_seen, y, _timed(given, at))
            moment = self._within._moment()
            self._put(X[t : t + 1], at, 0.0 if moment is None else self._horizon * (moment.spacing or 1.0))
        return joined(predictions) if report else None

    def _arrive(self, row: int, Y: FloatArray, conditions: FloatArray | None) -> None:
        """The target of a row has come: the row ``horizon`` before it is learned."""
        ticket = row - self._horizon
        known = ticket in self._waiting and (self._take_out(ticket, Y, conditions) or not np.isnan(Y).all())
        if not known:  # the model within has not seen it, or does not bridge it
            self._within._note_target(Y[0])
        known = ~np.isnan(Y[0])
        self._numbers.state.last_y[known] = Y[0, known]

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        self._refuse_unfit(X)
        ticket = self.rows_seen - self._horizon
        if ticket not in self._waiting:
            p = self._numbers.state.last_y.size
            return self._within._predict(X, conditions)._each(lambda part: np.broadcast_to(part, (len(X), p)).copy())
        return self._unpacked(np.repeat(self._waiting[ticket][None], len(X), axis=0))

    def upcoming(self) -> Prediction[FloatArray]:
        """Return the predictions of the rows to come, the next one first; as many as rows have been seen, at most."""
        if self._d is None:
            return self._empty()
        numbers = range(self.rows_seen - self._horizon, self.rows_seen)
        rows = [self._waiting[number] for number in numbers if number in self._waiting]
        return self._shaped(self._unpacked(np.array(rows)), many=True) if rows else self._empty()

    # Targets that come even later.

    def _issued_width(self, p: int) -> int:
        return p

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._predict(X, conditions), np.full((len(X), self._p or 1), float(self.rows_seen))

    def _remember(self, X: FloatArray) -> None:
        self._put(X, self._own_time(None))

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        self._arrive(int(issued[0, 0]), Y, conditions)

    def _recall(self, y: FloatArray) -> None:
        """The last row was issued without its own target: issue it once more."""
        newest = self.rows_seen - 1
        row = self._waiting[newest]
        x, _, past = _parts(self._within, row)
        self._waiting.resolve(self._waiting.place(newest))
        _put_memory(self._within, past)
        self._within._note_target(y)
        self._numbers.counters["rows"] = newest
        self._put(x, row[-1])

    def reset_memory(self) -> None:
        if self._d is not None:  # the rows of a new sequence are not those that the old one led to
            self._waiting.resolve(np.arange(self._places))
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._numbers.state.last_x, self._numbers.state.last_y

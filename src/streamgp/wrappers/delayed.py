"""Delayed: a stream model whose targets come late, in any order, or never."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.freerun import Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.issuing import (
    issued_width,
    learn_issued,
    looks_ahead,
    memory_of,
    parts_of,
    put_memory,
    timed,
    unissued,
)
from streamgp.wrappers.late import Late
from streamgp.wrappers.replay import Log, Order
from streamgp.wrappers.wrapper import joined

REPLAY = 100  # rows, with a kernel over time


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
        ahead = looks_ahead(model)
        if replay is None:
            replay = REPLAY if model._moment() is not None and not ahead else 0
        self._replay = whole("replay", replay, at_least=0)
        if self._replay and ahead:
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
                self._begin(X, None, self._shape.scalar, False, many=False)
            passing.refuse_unfit(self, X)
            ticket = self.rows_seen
            return passing.shaped(self, self._put(X, self._own_time(conditions)), many=False)._with(ticket=ticket)

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
        conditions = passing.conditions_of(self, 1, Y if given else None, noise=noise, time=time, many=False)
        known = self._shape.covers(given)
        with passing.whole(self, known):
            if not known:
                self._begin(waited[None, : self._d], Y, scalar, given, many=False)
            passing.refuse_unfit(self, waited[None, : self._d], Y)
            prediction = self._unpacked(self._waiting[ticket][None])
            self._last_targets = self._screened(Y)
            self._take_out(ticket, self._last_targets, timed(conditions, own))
        return passing.shaped(self, prediction, many=False)._with(ticket=ticket)

    def _learned(self) -> float:
        """The time of the last row learned, where the model learns as of times; NaN: there was none."""
        if (moment := self._within._moment()) is not None:
            return moment.learned
        return float(self._numbers.state.learned[0]) if self._log is None else self._log.last.time

    def _note_learned(self, Y: FloatArray | None, conditions: FloatArray | None) -> None:
        """Rows were learned as of their times, by which the model within forgets."""
        if self._needs_time and Y is not None and conditions is not None:
            times = conditions[~np.isnan(Y).all(axis=1), TIME]
            self._numbers.state.learned[:] = np.fmax.reduce(times, initial=self._numbers.state.learned[0])

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
            conditions = timed(conditions, learned)
        at_once = super()._take_out(ticket, Y, conditions)
        self._numbers.counters["late"] += given and late
        self._note_learned(Y, conditions)
        if log is not None:
            x, _, memory = parts_of(self._within, row)
            made = unissued(self._within, x, memory) if at_once else row
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
        present, moment = memory_of(self._within), self._within._moment()
        self._log, model = log.inserted(row, self._learn_logged)
        put_memory(model, present)
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
        self._note_learned(Y, conditions)
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
            x, y, own, memory = X[t : t + 1], Y[t : t + 1], part(conditions, t, t + 1), memory_of(self._within)
            noted = self._log_for(given[t])
            predictions.append(self._within._advance(x, y, report, own))
            if noted is not None:
                order = self._order(noted, self.rows_seen + t, own, given[t])
                self._note(noted, unissued(self._within, x, memory), y, own, True, order)
        return joined(predictions) if report else None

    def _with_times(self, conditions: FloatArray | None, n: int) -> FloatArray | None:
        """The conditions of rows that come now; with a kernel over time, all have their times."""
        moment = self._within._moment()
        if moment is None or (conditions is not None and not np.isnan(conditions[0, TIME])):
            return conditions
        timed = np.full((n, NOISE + 1), np.nan) if conditions is None else conditions.copy()
        timed[:, TIME] = moment.one_later + (moment.spacing or 1.0) * np.arange(n)
        return timed

    # Targets that come late by another way.

    def _issued_width(self, p: int) -> int:
        return self._within._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._within._issue(X, conditions)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        given = not np.isnan(Y).all()
        log, row = self._log_for(given), np.concatenate([X[0], issued[0], memory_of(self._within)])
        self._within._resolve(X, Y, issued, conditions)
        if log is not None:
            order = self._order(log, self.rows_seen, conditions, given)
            self._note(log, row, Y, conditions, False, order)
        self._note_learned(Y, conditions)
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

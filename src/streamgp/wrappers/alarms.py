"""Alarms: a stream model that tells abnormal rows and changes, no more often than it may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract import inputs, passing
from streamgp.contract.atomic import undo_of
from streamgp.contract.conditions import NOISE, TIME, WEIGHT, noise_of, part
from streamgp.contract.lanes import ADVANCE, LEARN, ONE, PREDICT, TAKE, any_of, predicted_too
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, bare, plain
from streamgp.contract.snapshot import require
from streamgp.contract.within import family
from streamgp.settings import FloatArray, Maybe, Setting, duration, number, switch, whole
from streamgp.wrappers import surprise
from streamgp.wrappers.drift import MOST_REFUTED
from streamgp.wrappers.wrapper import Wrapper

KINDS = ("", "spike", "level", "relation")
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000}
MOST_RATE = 0.1  # alarms for each row

# Rows that are learned before it is looked whether one of them is a spike; if so they are learned again up to it.
BLOCK = 128
LEAST_WEIGHT = 1e-12  # of a row that is learned
FARTHEST = 1e150  # standard deviations that can be compared
# Of errors that are not taken over earlier ones, all beyond this are alike: their scores are the largest that are
# counted, so that a model whose units are far from those of its targets is not surprised by every row.
COUNTED = math.sqrt(surprise.LARGEST)


class Alarm(NamedTuple):
    """An abnormal row, or a change.

    Args:
        row: number of the row, the first one 0.
        kind: "spike": this row alone is abnormal; "level": since some rows targets lie higher, or lower, than
            predicted; "relation": since some rows errors of both signs are larger.
        surprise: in nats, what is compared with the budget: of a spike -log of its p-value, of a change the log of its
            evidence.
        observed: the target.
        expected: the mean of the prediction.
        output: of several, which one.
        time: of the row, in seconds since 1970 where dates were given; NaN where none was.
        cause: of a spike that is discounted, the input with whose usual value the target would be least surprising; -1
            where none would help, or it is not known.
        id: of a fleet, the model that it is of; 0 of a single model.
    """

    row: int
    kind: str
    surprise: float
    observed: float
    expected: float
    output: int
    time: float
    cause: int = -1
    id: int = 0

    @property
    def p_value(self) -> float:
        """How probable a row at least as strange is; of a change, 1 over its evidence."""
        return math.exp(-self.surprise)


class Judged(NamedTuple):
    """The row that was learned last; of several outputs arrays, (p,).

    Args:
        row: its number, the first one 0.
        alarm: "spike", "level", "relation" or "".
        surprise: in nats: -log of the p-value; NaN where the target was missing.
        p_value: how probable a row at least as strange is; of a change, 1 over its evidence.
    """

    row: int
    alarm: Any
    surprise: Any
    p_value: Any


def rate_of(name: str, value: Any, most: float = MOST_RATE) -> tuple[float, float]:
    """Alarms for each row and for each second; one of them is 0."""
    if not isinstance(value, str):
        return number(name, value, above=0, at_most=most), 0.0
    count, _, unit = value.partition("/")
    unit = unit.strip().lower()
    try:
        often = float(count)
        seconds = float(UNITS[unit]) if unit in UNITS else duration(name, unit)
    except ValueError:
        often = seconds = math.nan
    if not (often > 0 and math.isfinite(often) and seconds > 0):
        raise ValueError(
            f"{name} must be alarms for each row, such as 1e-3, or for a length of time, such as '1/week', '3/day' or "
            f"'1/8h'; got {value!r}"
        )
    return 0.0, often / seconds


class Alarms(Wrapper):
    """A stream model that tells abnormal rows and changes, with a budget of false alarms.

    Every row is judged given its inputs, before it is learned: its p-value says how probable an error at least as large
    is, by the errors so far and a fitted tail beyond them. A **spike** is one abnormal row. A **level** change and a
    change of the **relation** between inputs and target are told when evidence has accumulated over rows; then errors
    are compared with those that come, as at the beginning. Spikes get 85% of the budget, changes 15%; several
    outputs share it.

    A spike is learned with a noise that is inflated by how far its surprise exceeds the budget. Models that cannot
    weigh a row by its noise learn it as a missing target.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (2000, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(2000)
        >>> X[1500], y[1500] = 1.5, -0.9  # usual values, but not together
        >>> y[1800:] += 0.5
        >>> alarms = sg.Alarms(sg.KRLST(forgetting=1.0), rate=1e-4)
        >>> p = alarms.track(X, y)
        >>> [alarm.kind for alarm in alarms.events if alarm.row == 1500]
        ['spike']
        >>> next(alarm.kind for alarm in alarms.events if alarm.row > 1800 and alarm.kind != "spike")
        'level'
        >>> str(p.alarm[1500]), bool(p.surprise[1500] > 9.2)
        ('spike', True)
    """

    _numbers: Numbers
    _state: SimpleNamespace  # the arrays of the numbers
    _came: Maybe = None  # the targets of the rows that are taken next, before any was refused

    def __init__(
        self,
        model: Annotated[StreamModel, Setting("the stream model within, which has learned nothing")],
        *,
        rate: Annotated[
            Any,
            Setting(
                "false alarms while nothing is abnormal: for each row, such as 1e-3, or for a length of time, such as "
                '"1/week", "3/day" or "1/8h", where every row has its time',
                check=rate_of,
            ),
        ] = 1e-3,
        discount_spikes: Annotated[
            bool,
            Setting("whether a spike is learned with a larger noise, so that it is not taken as truth", check=switch),
        ] = True,
        memory: Annotated[int, Setting("over which rows errors count", "rows", whole)] = 5000,
        warmup: Annotated[
            int, Setting("that are only counted, at the beginning and after a change", "rows", whole)
        ] = 100,
        history: Annotated[int, Setting("events that are listed; older ones are dropped", "events", whole)] = 100,
    ) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("judges the errors of numbers")
        if not self.has_variance:
            name = type(model).__name__
            raise ValueError(
                f"Alarms judges errors by the variance of predictions, and {name} has none; use "
                f"Alarms(Calibrated({name}(...)))"
            )
        if any(getattr(one, "_batch", 1) > 1 for one in family(self)):
            raise ValueError("Alarms looks at every row before it is learned: use batch=1")
        self._per_row, self._per_second = rate
        self._needs_time = self._needs_time or self._per_second > 0
        self._discounts = discount_spikes
        self._plan, self._history = {"stopping": discount_spikes, "memory": memory, "warmup": warmup}, history
        compile_now(surprise.judge, surprise.mean_gaps)

    # The state.

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        before = None if self._d is None else self._numbers  # rows have come, but no target
        self._numbers = Numbers(surprise.LAYOUT, {"outputs": p, "history": self._history, "inputs": d}, self._plan)
        self._state = self._numbers.state
        self._state.progress[:, surprise.UNFITTED] = -1.0
        if before is not None:
            self._numbers.counters[:] = before.counters

    def _check_restored(self) -> None:
        state = self._state
        for name in self._numbers.counted:
            require(name, self._numbers.counters[name], at_least=0)
        require("counts", state.counts, at_least=0)
        require("tails", state.tails)
        require("shares of the tails", state.tails[:, surprise.SHARE], at_least=0, at_most=1)
        fitted = state.progress[:, surprise.UNFITTED] >= 0
        require("scales of the tails", state.tails[fitted, surprise.SCALE], above=0)
        require("evidence", state.evidence, at_least=0)
        require("units", state.units)
        require("progress", state.progress, at_least=-surprise.MOST_PAID)
        require("refuted changes", state.progress[:, surprise.REFUTED], at_least=0, at_most=MOST_REFUTED)
        for name in ("clock", "usual"):
            require(name, getattr(state, name))
        for name, kinds in (("the last row", state.last[1]), ("events", state.events[:, 1])):
            require(f"the kind of {name}", kinds, at_least=0, at_most=len(KINDS) - 1)

    # Times.

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray | None, many: bool) -> None:
        timed = self._per_second and learned is not None and learned.any()
        if timed and (time is None or not np.all(np.isfinite(time[learned]))):
            raise ValueError(
                f"rate={self._settings['rate']!r} counts alarms by time, so that every learned row needs its own: "
                "learn_one(x, y, time=t), track(X, Y, time=times); nothing was learned. Without times give the rate "
                "for each row, such as rate=1e-3"
            )
        super()._refuse_times(time, learned, many)

    def _budgets(self, conditions: Maybe, n: int, clock: FloatArray) -> FloatArray:
        """Of each row its budget, (n,); a rate by time is spread over rows by the mean time between them so far."""
        if not self._per_second or conditions is None:
            return np.full(n, self._per_row)
        means = np.empty(n)
        surprise.mean_gaps(clock, np.ascontiguousarray(conditions[:n, TIME]), means)
        budgets: FloatArray = np.minimum(self._per_second * means, MOST_RATE)
        return budgets

    # Rows.

    def _screened(self, Y: FloatArray) -> FloatArray:
        self._came = Y
        return self._within._screened(Y)

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        names = self._within._columns
        return (*names[: bare(names)], "surprise", "alarm", *names[bare(names) :])

    def _told(self, columns: Sequence[Any]) -> Prediction:
        at = bare(self._within._columns)
        nats, kinds = columns[at : at + 2]
        prediction = self._within._told([*columns[:at], *columns[at + 2 :]])
        if np.isnan(kinds).all() and np.size(kinds):  # it was not tracked
            return prediction
        return prediction._with(surprise=nats, alarm=plain(words(np.asarray(kinds))))

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return 1 + self._said_width + super()._kept_width

    @property
    def _said_width(self) -> int:
        """How many numbers of a waiting row are what was predicted of it."""
        return bare(self._within._columns) * (self._p or 1)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        targets: Any = Y
        came, self._came = self._came, None  # those that the model within does not take are judged, too
        came = targets if came is None or Y is None or came.shape != Y.shape else came
        p, start, at = self._p or 1, 0, bare(self._within._columns)
        columns = np.full((len(self._columns) if not any_of(ops, ADVANCE | LEARN) else at + 2, len(X), p), np.nan)
        while start < len(ops):
            judged, kinds = np.empty((2, 0, p)), ops[start:, 1]
            if kinds.item(0) & TAKE == TAKE:
                some = ops[start : start + int(np.append(kinds[:BLOCK] & TAKE == TAKE, False).argmin())]
                said, judged = self._some(some, X, Y, came, part(conditions, start, start + len(some)))
                rows = some[: judged.shape[1], 0]
            elif kinds.item(0) & LEARN:
                some = ops[start : start + 1]
                said, judged = self._late(some, X, targets, came, part(conditions, start, start + 1), kept)
                rows = some[:, 0]
            else:
                some = ops[start : start + int(np.append(kinds & LEARN != 0, True).argmax())]
                said = self._unlearned(some, X, Y, part(conditions, start, start + len(some)), kept)
                rows = some[some[:, 1] & PREDICT != 0, 0]
            if said.shape[1]:
                columns[:at, rows], columns[at + 2 :, rows] = said[:at], said[at:]
            columns[at : at + 2, rows[: judged.shape[1]]] = judged
            start += judged.shape[1] or len(some)
        return columns

    def _unlearned(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Do operations without a target to learn; what is predicted of the rows, (columns, predicted, p)."""
        advances, asked, own = ops[:, 1] & ADVANCE != 0, ops[:, 1] & PREDICT != 0, 1 + self._said_width
        numbers, rows = self.rows_seen + np.cumsum(advances) - advances, ops[asked, 0]
        columns = self._within._pass(ops, X, Y, conditions, None if kept is None else kept[:, own:])[:, rows]
        if kept is not None:
            said = columns[: bare(self._within._columns)].transpose(1, 0, 2)
            kept[rows, 0], kept[rows, 1:own] = numbers[asked], said.reshape(len(rows), own - 1)
        return columns

    def _some(
        self, ops: np.ndarray, X: FloatArray, Y: Any, came: Any, conditions: Maybe
    ) -> tuple[FloatArray, FloatArray]:
        """Judge and learn rows as far as the first spike; their predictions, and surprises and kinds, (2, rows, p)."""
        # How a row is learned depends on its prediction: all are learned first, and again if there is a spike.
        within, rows, numbers = self._within, ops[:, 0], self.rows_seen + np.arange(len(ops))
        undo, cause = undo_of(within), -1
        said = within._pass(predicted_too(ops), X, Y, conditions, None)[: bare(within._columns), rows]
        prediction = within._told(list(said))
        found, limits = self._judge(prediction, X[rows], Y[rows], came[rows], conditions, numbers)
        last = found.shape[1] - 1
        y = Y[rows[[last]]]
        if self._discounts and np.any((found[1, -1] == surprise.SPIKE) & ~np.isnan(y)):
            undo()
            if last:
                within._pass(ops[:last], X, Y, part(conditions, 0, last), None)
            x, at = X[rows[[last]]], part(conditions, last, last + 1)
            cause = self._cause(x, y, at)
            y, at = discounted(within, y, at, found[:, -1:], limits[last])
            within._pass(ONE[TAKE], x, y, at, None)
        self._note(found, numbers, came[rows], prediction.mean, conditions, cause)
        return said[:, : last + 1], found

    def _judge(
        self,
        prediction: Prediction,
        X: FloatArray,
        Y: FloatArray,
        came: FloatArray,
        conditions: Maybe,
        numbers: np.ndarray,
    ) -> tuple[FloatArray, FloatArray]:
        """Surprises and kinds of rows as far as the first spike, (2, rows, p), and from which surprise on rows are
        spikes, (n,)."""
        state, budgets = self._state, self._budgets(conditions, len(X), self._state.clock.copy())
        found = np.empty((2, *Y.shape))
        Z, own = deviations(prediction, came, conditions), own_deviations(prediction, came, conditions)
        if not len(own):
            Z = np.clip(Z, -COUNTED, COUNTED)
        refused = (np.isnan(Y) & ~np.isnan(came)).astype(np.float64)
        rows = surprise.judge(self._numbers.records, self._numbers.buffers, X, Z, own, refused, budgets, *found)
        found = found[:, :rows]
        self._budgets(conditions, rows, state.clock)
        for t in np.flatnonzero(~np.isnan(found[0]).all(axis=1))[-1:]:
            state.last[:], self._numbers.counters["judged"] = found[:, t], numbers[t] + 1
        return found, -np.log(np.maximum(surprise.SPIKES * budgets / Y.shape[1], surprise.LEAST_P))

    def _note(
        self, found: FloatArray, numbers: np.ndarray, came: FloatArray, mean: Any, conditions: Maybe, cause: int
    ) -> None:
        """List the alarms among rows that were judged; the cause is that of the last row's."""
        for t, j in np.argwhere(found[1] != surprise.NONE):
            nats, kind = found[:, t, j]
            time = np.nan if conditions is None else conditions[t, TIME]
            event = numbers[t], kind, nats, came[t, j], mean[t, j], j, time, cause if t == found.shape[1] - 1 else -1
            self._state.events[self._numbers.count("noted") % self._history] = event
            self._numbers.counters["noted"] += 1
            self._numbers.counters[KINDS[int(kind)]] += 1

    def _cause(self, X: FloatArray, Y: FloatArray, conditions: Maybe) -> int:
        """The input with whose usual value the target of a row would be least surprising; -1: none would help."""
        relief = self._relief(X, Y, conditions)
        return int(relief.argmax()) if relief.size and relief.max() > 0 else -1

    def _relief(self, X: FloatArray, Y: FloatArray, conditions: Maybe) -> FloatArray:
        """By how many nats the target of a row, (1, p), would be less surprising for usual values of each input."""
        rows = np.repeat(X, X.shape[1] + 1, axis=0)
        np.fill_diagonal(rows[1:], self._state.usual[0])
        given = None if conditions is None else np.repeat(conditions, len(rows), axis=0)
        said = self._within._told(list(passing.predicted(self._within, rows, given)))
        p_values = said.p_value(np.repeat(Y, len(rows), axis=0))
        total = -np.nansum(np.log(np.maximum(p_values, surprise.LEAST_P)), axis=1)
        return np.asarray(total[0] - total[1:])

    def _late(
        self, ops: np.ndarray, X: FloatArray, Y: Any, came: Any, conditions: Maybe, kept: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Judge a row whose target comes late by what was predicted when it was issued, and learn it."""
        ((row, kind),), within, own = ops.tolist(), self._within, 1 + self._said_width
        line, x, y, given, cause = kept[row : row + 1], X[[row]], Y[[row]], conditions, -1
        said = line[0, 1:own].reshape(bare(within._columns), 1, -1)
        number, prediction = np.nan_to_num(line[0, :1]).astype(np.int64), within._told(list(said))
        found, limits = self._judge(prediction, x, y, came[[row]], conditions, number)
        if self._discounts and np.any((found[1] == surprise.SPIKE) & ~np.isnan(y)):
            cause = self._cause(x, y, None)
            y, given = discounted(within, y, conditions, found[:, -1:], limits[-1])
        self._note(found, number, came[[row]], prediction.mean, conditions, cause)
        columns = within._pass(ONE[kind], x, y, given, line[:, own:])
        return columns if kind & PREDICT else columns[:, :0], found

    # Predictions.

    def explain_one(self, x: Any, y: Any) -> FloatArray:
        """Return by how many nats the target of a row would be less surprising if one input had its usual value.

        Args:
            x: d numbers.
            y: the target, or p numbers.

        Returns:
            (d,), for each input alone, by the distributions that the model predicts; with several outputs of their sum.
        """
        X = inputs.row(x, self._shape.d)
        if self._d is None or not self._state.usual[1].any():
            raise ValueError("usual values are known once a row has been learned")
        Y, _, _ = inputs.target(y, self._p, self._shape.scalar)
        return self._relief(X, Y, None)

    # What can be read.

    @property
    def last(self) -> Judged | None:
        """What was found of the row that was learned last; None before the first."""
        if self._d is None or not self._numbers.count("judged"):
            return None
        nats, kinds = self._state.last
        names = words(kinds)
        p_values = np.exp(-nats)
        row = self._numbers.count("judged") - 1
        if self._shape.scalar:
            return Judged(row, str(names[0]), float(nats[0]), float(p_values[0]))
        return Judged(row, names, nats.copy(), p_values)

    @property
    def counts(self) -> dict[str, int]:
        """How many alarms there were of each kind."""
        return {kind: 0 if self._d is None else self._numbers.count(kind) for kind in KINDS[1:]}

    @property
    def events(self) -> list[Alarm]:
        """The last ``history`` alarms, oldest first."""
        if self._d is None:
            return []
        count = self._numbers.count("noted")
        rows = (self._state.events[i % self._history].tolist() for i in range(max(0, count - self._history), count))
        return [
            Alarm(int(row), KINDS[int(kind)], nats, observed, expected, int(output), time, int(cause))
            for row, kind, nats, observed, expected, output, time, cause in rows
        ]


def deviations(prediction: Prediction, Y: FloatArray, conditions: Maybe) -> FloatArray:
    """Errors in standard deviations of observations with the noise of their rows."""
    mean, own = np.asarray(prediction.mean), prediction.variance + prediction.noise
    noise = noise_of(conditions, prediction.noise)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.sqrt(np.broadcast_to(own, mean.shape) / (prediction.variance + noise))
        Z = np.asarray(prediction.deviations(mean + ratio * (Y - mean)))
        return np.ascontiguousarray(np.clip(np.where(np.isfinite(own), Z, np.nan), -FARTHEST, FARTHEST))


def own_deviations(prediction: Prediction, Y: FloatArray, conditions: Maybe) -> FloatArray:
    """Errors of a calibrated prediction in the standard deviations that the model itself claims; (0, p) of others."""
    if not isinstance(prediction, CalibratedPrediction) or not np.isfinite(prediction.raw.variance).any():
        return np.empty((0, Y.shape[1]))
    return deviations(prediction.raw, Y, conditions)


def discounted(
    model: StreamModel, Y: FloatArray, conditions: Maybe, found: FloatArray, limit: float
) -> tuple[FloatArray, Maybe]:
    """How rows with a spike are learned: with a larger noise, or, if the model cannot weigh rows, as missing targets.

    Args:
        model: that learns them, or one of the same recipe.
        Y: (n, p) targets of rows that have a spike each.
        conditions: of the rows; None: there are none.
        found: (2, n, p) surprises and kinds.
        limit: from which surprise on rows are spikes.
    """
    nats, kinds = found
    spikes = kinds == surprise.SPIKE
    if model._cannot("weigh"):
        return np.where(spikes.any(axis=1, keepdims=True) if model._shared else spikes, np.nan, Y), conditions
    width = NOISE + (1 if model._shared else Y.shape[1])
    given = np.full((len(Y), width), np.nan) if conditions is None else conditions.copy()
    for t, largest in enumerate(np.where(spikes, nats, -np.inf).max(axis=1)):
        weight = max(math.exp(min(limit - largest, 0.0)), LEAST_WEIGHT)
        given[t, NOISE:] /= weight
        given[t, WEIGHT] = weight if np.isnan(given[t, WEIGHT]) else weight * given[t, WEIGHT]
    return Y, given


def words(kinds: FloatArray) -> np.ndarray:
    """Kinds by name; "" also where they are NaN."""
    return np.array(KINDS)[np.nan_to_num(kinds).astype(np.int64)]

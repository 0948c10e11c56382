"""Alarms: a stream model that tells abnormal rows and changes, no more often than it may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.compiled import compile_now
from streamgp.contract import inputs, passing
from streamgp.contract.atomic import undo_of
from streamgp.contract.conditions import NOISE, TIME, WEIGHT, noise_of, part
from streamgp.contract.lanes import ADVANCE, LEARN, ONE, PREDICT, TAKE, any_of, predicted_too
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, bare, plain
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, Setting, duration, number, switch, whole
from streamgp.wrappers import surprise
from streamgp.wrappers.drift import MOST_REFUTED
from streamgp.wrappers.wrapper import Transparent

KINDS = ("", "spike", "level", "relation")
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000}
MOST_RATE = 0.1  # alarms for each row

# The row after the last that was judged, and how many events there were, in all and by kind.
COUNTERS = np.dtype([(name, np.int64) for name in ("judged", "noted", *KINDS[1:])])
FIELDS = 8  # of an event: those of Alarm but the id

STATE = {
    "counts": "outputs bins",
    "tails": f"outputs {surprise.FITTED}",
    "evidence": f"outputs {surprise.WATCHED}",
    "progress": f"outputs {surprise.PROGRESS}",
    "units": f"outputs {surprise.UNITS}",
    "last": "2 outputs",  # surprise and kind of the row that was judged last
    "clock": f"{surprise.CLOCK}",
    "usual": "2 inputs",  # mean of each input, and of how many rows
    "events": f"history {FIELDS}",  # a ring
}

LAYOUT = Layout(np.dtype([]), COUNTERS, STATE, {})

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


class Alarms(Transparent):
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
        if any(getattr(one, "_batch", 1) > 1 for one in self._family()):
            raise ValueError("Alarms looks at every row before it is learned: use batch=1")
        self._per_row, self._per_second = rate
        self._needs_time = self._needs_time or self._per_second > 0
        self._discounts = discount_spikes
        self._kept, self._warmup, self._history = float(memory), float(warmup), history
        compile_now(surprise.judge, surprise.mean_gaps)

    # The state.

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        sizes = {"outputs": p, "bins": 2 * surprise.SIDE, "history": self._history, "inputs": d}
        before = None if self._d is None else self._numbers  # rows have come, but no target
        self._numbers = Numbers(LAYOUT, sizes, {})
        self._state = self._numbers.state
        self._state.progress[:, surprise.UNFITTED] = -1.0
        if before is not None:
            self._numbers.counters[:] = before.counters

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays()

    def _check_restored(self) -> None:
        state = self._state
        for name in COUNTERS.names or ():
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
        super()._check_restored()

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

    def _as_they_came(self, Y: FloatArray) -> FloatArray:
        """Targets with those that the model within does not take: these are judged, too."""
        came, self._came = self._came, None
        return Y if came is None or came.shape != Y.shape else came

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
    def _kept_width(self) -> int:
        return 1 + self._said_width + super()._kept_width

    @property
    def _said_width(self) -> int:
        """How many numbers of a waiting row are what was predicted of it."""
        return bare(self._within._columns) * (self._p or 1)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        came = Y if Y is None else self._as_they_came(Y)
        p, start, at = self._p or 1, 0, bare(self._within._columns)
        columns = np.full((len(self._columns) if not any_of(ops, ADVANCE | LEARN) else at + 2, len(X), p), np.nan)
        while start < len(ops):
            judged, kinds = np.empty((2, 0, p)), ops[start:, 1]
            taken = kinds & TAKE == TAKE
            stop = start + (taken.argmin() if not taken.all() else len(kinds)) if taken[0] else start + 1
            stop = min(stop, start + BLOCK)
            some = ops[start:stop], X
            if taken[0]:
                said, judged = self._some(*some, Y, came, part(conditions, start, stop))
                stop = start + judged.shape[1]
            elif kinds[0] & LEARN:
                said, judged = self._late(*some, Y, came, part(conditions, start, stop), kept)
            else:
                said = self._unlearned(*some, Y, part(conditions, start, stop), kept)
            rows = ops[start:stop, 0]
            if said.shape[1]:
                columns[:at, rows], columns[at + 2 :, rows] = said[:at], said[at:]
            columns[at : at + 2, rows[: judged.shape[1]]] = judged
            start = stop
        return columns

    def _unlearned(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Do one operation without a target to learn; what is predicted of its row, (columns, 1, p)."""
        row, number, own = ops.item(0), self.rows_seen, 1 + self._said_width
        columns = self._within._pass(ops, X, Y, conditions, None if kept is None else kept[:, own:])[:, [row]]
        if kept is not None and ops.item(1) & PREDICT:
            kept[row, 0], kept[row, 1:own] = number, columns[: bare(self._within._columns), 0].ravel()
        return columns if ops.item(1) & PREDICT else columns[:, :0]

    def _some(
        self, ops: np.ndarray, X: FloatArray, Y: Any, came: Any, conditions: Maybe
    ) -> tuple[FloatArray, FloatArray]:
        """Judge and learn rows as far as the first spike; their predictions, and surprises and kinds, (2, rows, p)."""
        # How a row is learned depends on its prediction: of several all are learned first, and again if need be.
        within, rows = self._within, ops[:, 0]
        alone = len(ops) == 1 and not within._needs_time
        numbers, undo = self.rows_seen + np.arange(len(ops)), None if alone else undo_of(within)
        if alone:
            said = passing.predicted(within, X[rows])
        else:
            said = within._pass(predicted_too(ops), X, Y, conditions, None)[:, rows]
        said = said[: bare(within._columns)]
        prediction = within._told(list(said))
        found, limits = self._judge(prediction, X[rows], Y[rows], came[rows], conditions, numbers)
        done = found.shape[1]
        y, last = Y[rows[done - 1]][None], done - 1
        spike = self._discounts and bool(np.any((found[1, -1] == surprise.SPIKE) & ~np.isnan(y)))
        if undo is not None:
            if done == len(ops) and not spike:
                return said, found
            undo()
        before, at, x = part(conditions, 0, last), part(conditions, last, done), X[rows[last]][None]
        if last:
            within._pass(ops[:last], X, Y, before, None)
        if spike:
            self._explain_last(x, y, at)
            y, at = discounted(within, y, at, found[:, -1:], limits[last])
        within._pass(ONE[TAKE], x, y, at, None)
        return said[:, :done], found

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
        how = self._discounts, self._kept, self._warmup
        arrays = state.counts, state.tails, state.evidence, state.progress, state.units, state.usual
        Z, own = deviations(prediction, came, conditions), own_deviations(prediction, came, conditions)
        if not len(own):
            Z = np.clip(Z, -COUNTED, COUNTED)
        refused = (np.isnan(Y) & ~np.isnan(came)).astype(np.float64)
        room = np.empty(surprise.ROOM)
        rows = surprise.judge(X, Z, own, refused, budgets, *how, *arrays, found[0], found[1], room)
        found = found[:, :rows]
        self._budgets(conditions, rows, state.clock)
        for t in np.flatnonzero(~np.isnan(found[0]).all(axis=1))[-1:]:
            state.last[:], self._numbers.counters["judged"] = found[:, t], numbers[t] + 1
        for t, j in np.argwhere(found[1] != surprise.NONE):
            time = np.nan if conditions is None else conditions[t, TIME]
            what = found[1, t, j], found[0, t, j], came[t, j], prediction.mean[t, j]
            self._note(numbers[t], *what, j, time, -1)
        return found, -np.log(np.maximum(surprise.SPIKES * budgets / Y.shape[1], surprise.LEAST_P))

    def _note(self, *event: float) -> None:
        self._state.events[self._numbers.count("noted") % self._history] = event
        self._numbers.counters["noted"] += 1
        self._numbers.counters[KINDS[int(event[1])]] += 1

    def _explain_last(self, X: FloatArray, Y: FloatArray, conditions: Maybe) -> None:
        """Name the cause of the spikes of one row, which were noted last and are not learned yet."""
        relief = self._relief(X, Y, conditions)
        if relief.size and relief.max() > 0:
            events, noted = self._state.events, self._numbers.count("noted")
            recent = np.arange(max(0, noted - min(Y.shape[1], self._history)), noted) % self._history
            same = events[recent, 0] == events[(noted - 1) % self._history, 0]
            events[recent[same], -1] = relief.argmax()

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
        within, (row, kind) = self._within, ops[0].tolist()
        own = 1 + self._said_width
        line, x, y = kept[row], X[row : row + 1], Y[row : row + 1]
        said = line[1:own].reshape(bare(within._columns), 1, -1)
        numbers = np.array([0 if np.isnan(line[0]) else int(line[0])])
        found, limits = self._judge(within._told(list(said)), x, y, came[row : row + 1], conditions, numbers)
        if self._discounts and np.any((found[1] == surprise.SPIKE) & ~np.isnan(y)):
            self._explain_last(x, y, None)
            y, conditions = discounted(within, y, conditions, found[:, -1:], limits[-1])
        columns = within._pass(ONE[kind], x, y, conditions, line[None, own:])
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

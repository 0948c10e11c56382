"""DriftAware: a stream model that notices when its errors grow, and forgets then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.compiled import compile_now
from streamgp.contract.analysis import Analysis
from streamgp.contract.atomic import undo_of
from streamgp.contract.conditions import noise_of, part
from streamgp.contract.lanes import ADVANCE, LEARN, ONE, PREDICT, TAKE, any_of
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import bare
from streamgp.contract.snapshot import require
from streamgp.contract.within import family
from streamgp.settings import FloatArray, Maybe, number, whole
from streamgp.wrappers import drift
from streamgp.wrappers.drift import Detector
from streamgp.wrappers.standardize import rows_until_settled
from streamgp.wrappers.wrapper import Wrapper

WARMING, WATCHING, TRIAL = range(3)
DIRECTIONS = ("raised", "kept", "reverted")

# The phase, the rows that are left of it, how many events there were, and how many false alarms count against the next.
COUNTERS = np.dtype([(name, np.int64) for name in ("phase", "left", "noted", "refuted")])

STATE = {
    "counts": "bins",  # of ranked errors
    "evidence": "1",
    "relaxing": "1",  # exponent of the factor at the next row
    "errors": "2 2 outputs",  # for the verdict and of late; the model that forgot, the other
    "events": "history 3",  # a ring
}

LAYOUT = Layout(np.dtype([]), COUNTERS, STATE, {})

# Rows that are learned before it is looked whether one of them gave the alarm; if so they are learned again up to it.
BLOCK = 128
# Forgetting is over when its exponent has relaxed to this. Until then the model that forgets does not predict.
RELAXED = 0.05
# The first quarter of a trial does not count for the verdict: the model that forgot has yet to learn again.
UNCOUNTED = 4
# The running errors by which the model to predict with is chosen during a trial count for about 10 rows.
DISCOUNT = 0.9
# The model that forgot is ahead below this share of the errors: ties, also up to rounding, go to the other one.
AHEAD = 0.5 - 1e-9


class Event(NamedTuple):
    """An alarm, or the verdict on it.

    Args:
        row: number of the row after which it happened, the first one 0.
        direction: "raised": drift is suspected, and a copy of the model forgets; "kept": drift is confirmed, and that
            copy goes on; "reverted": a false alarm, and the model that did not forget goes on.
        statistic: the evidence at an alarm; at a verdict the share of the errors that the model that forgot made, from
            0 to 1. It stays if its share is below one half.
    """

    row: int
    direction: str
    statistic: float


class DriftAware(Wrapper):
    """A stream model that notices when its errors grow beyond what they were, and forgets what it had learned.

    Every row's error, in standard deviations of the prediction before it was learned, is ranked among the earlier ones.
    Evidence that they have grown accumulates (a conformal Shiryaev-Roberts test). At an alarm a copy of the model
    forgets, for a few rows. For the next ``trial`` rows both learn. The model that did not forget predicts until the
    other has erred less of late; whichever errs less after the first quarter of the trial stays. Every false alarm
    squares the evidence that the next alarm needs. Rows are compared with those since the last alarm; after a change,
    once ``warmup`` rows have gone by.

    Args:
        model: the stream model within, which has learned nothing; it must be able to forget.
        false_alarm_rate: alarms for each row, at most, while nothing changes and errors are independent.
        factor: what is kept of the posterior at an alarm, in (0, 1].
        relax: by which the logarithm of the factor shrinks every row after an alarm, in [0, 0.99]; all in all about
            factor ** (1 / (1 - relax)) is kept.
        trial: rows for which both models are compared.
        warmup: rows that are not ranked, at the beginning and after a change.
        history: events that are listed; older ones are dropped.

    Example:
        >>> import streamgp as sg
        >>> series = sg.data.channel_switch(1000, switch=500, seed=1)
        >>> model = sg.DriftAware(sg.KRLST(forgetting=1.0))
        >>> model.learn_many(series.X, series.Y)
        >>> [(event.row, event.direction) for event in model.events]
        [(505, 'raised'), (705, 'kept')]
    """

    _shadow: StreamModel  # during a trial the model as it would be without forgetting; else as good as any
    _numbers: Numbers
    _state: SimpleNamespace  # the arrays of the numbers

    def __init__(
        self,
        model: StreamModel,
        *,
        false_alarm_rate: float = 1e-4,
        factor: float = 0.1,
        relax: float = 0.5,
        trial: int = 200,
        warmup: int = 100,
        history: int = 100,
    ) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("ranks the errors of numbers")
        if why := self._cannot("forget"):
            raise ValueError(why)
        if any(getattr(one, "_batch", 1) > 1 for one in family(self)):
            raise ValueError("DriftAware looks at every row before it is learned: use batch=1")
        self._stop = 1.0 / number("false_alarm_rate", false_alarm_rate, above=0, at_most=0.5)
        self._factor = number("factor", factor, above=0, at_most=1)
        self._relax = number("relax", relax, at_least=0, at_most=0.99)
        self._trial, self._warmup = whole("trial", trial), whole("warmup", warmup)
        self._history = whole("history", history)
        compile_now(drift.watch)

    # The state.

    def _start(self, d: int, p: int) -> None:
        numbers = Numbers(LAYOUT, {"bins": drift.BINS, "outputs": p, "history": self._history}, {})
        if self._d is None:
            numbers.counters["left"] = self._warmup + rows_until_settled(self._pristine)
        else:  # rows have come, but no target
            numbers.counters[:] = self._numbers.counters
        super()._start(d, p)
        self._numbers, self._state = numbers, numbers.state
        self._shadow = self._pristine.clone()
        self._shadow._prepare(self._within._shape)

    def _children(self) -> dict[str, StreamModel]:
        return super()._children() | ({} if self._d is None else {"shadow": self._shadow})

    def _check_restored(self) -> None:
        phase, left = self._numbers.count("phase"), self._numbers.count("left")
        if phase not in (WARMING, WATCHING, TRIAL) or left < (phase == TRIAL):
            raise ValueError(f"the snapshot says phase {phase} with {left} rows left")
        require("noted", self._numbers.counters["noted"], at_least=0)
        self._detector.check()
        for name in ("relaxing", "errors"):
            require(name, getattr(self._state, name), at_least=0)
        require("events", self._state.events, at_least=0)
        require("the directions of events", self._state.events[:, 1], at_most=len(DIRECTIONS) - 1)

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        if not any_of(ops, ADVANCE | LEARN):
            return self._leader()._pass(ops, X, Y, conditions, kept)
        columns = np.full((bare(self._columns), len(X), self._p or 1), np.nan)
        start = 0
        while start < len(ops):
            done, said = self._some(ops[start:], X, Y, part(conditions, start, len(ops)), kept)
            some = ops[start : start + done]
            asked = some[:, 1] & PREDICT != 0
            columns[:, some[asked, 0]] = said[: len(columns), asked]
            start += done
        return columns

    def _screened(self, Y: FloatArray) -> FloatArray:
        # Both models of a trial have met the same targets.
        screened, *_ = [child._screened(Y) for child in self._children().values()]
        return screened

    def _some(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> tuple[int, FloatArray]:
        """Do as many of the operations as can be done together; what is predicted of the row of each."""
        phase, left = self._numbers.count("phase"), self._numbers.count("left")
        if phase == TRIAL:
            return 1, self._compare(ops[:1], X, Y, part(conditions, 0, 1), kept)
        if phase == WATCHING:
            return self._watch(ops, X, Y, conditions, kept)
        learned = np.cumsum(ops[:, 1] & LEARN != 0)
        done = len(ops) if learned[-1] < left else int(np.searchsorted(learned, left)) + 1
        columns = self._within._pass(ops[:done], X, Y, part(conditions, 0, done), kept)
        self._enter(WATCHING if learned[done - 1] == left else WARMING, left - learned[done - 1])
        return done, columns[:, ops[:done, 0]]

    def _watch(
        self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe
    ) -> tuple[int, FloatArray]:
        """Do a block of operations, as far as the first alarm."""
        ops = ops[: _apart(ops)]
        rows, learns = ops[:, 0], np.flatnonzero(ops[:, 1] & LEARN)
        asked = ops | np.array([0, PREDICT]) * (ops[:, 1:] & LEARN != 0)
        undo = undo_of(self._within) if len(ops) > 1 and len(learns) else None
        before = None if kept is None or undo is None else kept.copy()
        said = self._within._pass(asked, X, Y, part(conditions, 0, len(ops)), kept)[:, rows]
        if Y is None or not len(learns):
            return len(ops), said
        given = None if conditions is None else conditions[learns]
        at = self._rank(said[:, learns], Y[rows[learns]], given, armed=True)
        if at < 0:
            return len(ops), said
        done = int(learns[at]) + 1
        if undo is not None and done < len(ops):
            undo()
            if kept is not None and before is not None:
                kept[:] = before
            said = self._within._pass(asked[:done], X, Y, part(conditions, 0, done), kept)[:, rows[:done]]
        self._raise_forgetting()
        return done, said

    @property
    def _detector(self) -> Detector:
        state = self._state
        return Detector(self._stop, state.counts, state.evidence, self._numbers.counters["refuted"])

    def _rank(self, columns: FloatArray, Y: FloatArray, conditions: Maybe, *, armed: bool) -> int:
        """Rank the errors of predictions, (columns, n, p); return the row that gives the alarm, or -1.

        Of several outputs it is the mean of the squared errors in units of their variances, over those that are known.
        """
        mean, variance, noise = columns[:3]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            s = variance + noise_of(conditions, noise) if self.has_variance else np.ones_like(Y)
            squares = np.where((s > 0.0) & np.isfinite(s), (Y - mean) ** 2 / s, np.nan)
            known = ~np.isnan(squares)
            sizes = np.where(known, squares, 0.0).sum(axis=1) / known.sum(axis=1)
        return self._detector.watch(sizes, armed=armed)

    # The trial.

    def _raise_forgetting(self) -> None:
        state = self._state
        # Errors have grown, whether forgetting helps or not: what comes is compared with those of the trial.
        self._note("raised", self._detector.restart())
        self._shadow = self._within.copy()
        state.errors[:] = 0.0
        self._within.forget(self._factor)
        state.relaxing[0] = self._relax
        self._enter(TRIAL, self._trial)

    def _enter(self, phase: int, rows: int = 0) -> None:
        self._numbers.counters["phase"], self._numbers.counters["left"] = phase, rows

    def _compare(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Do one operation with both models; a row that waits keeps what the one that leads has seen of it."""
        ((row, kind),) = ops.tolist()
        x, op = X[row : row + 1], ONE[kind | PREDICT if kind & LEARN else kind]
        led, said = self._forgot_leads(), list[FloatArray]()
        for model, leads in ((self._within, led), (self._shadow, not led)):
            line = None if kept is None else kept[row : row + 1] if leads else kept[[row]]
            said.append(model._pass(op, x, None if Y is None else Y[[row]], conditions, line))
        forgot, other = said
        prediction = forgot if led else other
        if Y is None or not kind & LEARN or (missing := np.isnan(Y[row])).all():
            return prediction
        # What is far beyond any scale must not become infinite.
        errors = np.minimum([np.abs(Y[row] - forgot[0, 0]), np.abs(Y[row] - other[0, 0])], 1e150)
        errors[:, missing] = 0.0
        state = self._state
        if self._trial - self._numbers.count("left") >= self._trial // UNCOUNTED:
            state.errors[0] += errors
        state.errors[1] = DISCOUNT * state.errors[1] + errors
        if state.relaxing[0] > RELAXED:
            self._within.forget(self._factor ** float(state.relaxing[0]))
            state.relaxing[0] *= self._relax
        # Should it go on, its errors are among those to compare with.
        self._rank(other, Y[[row]], conditions, armed=False)
        self._numbers.counters["left"] -= 1
        if self._numbers.count("left") == 0:
            self._conclude()
        return prediction

    def _forgot_leads(self) -> bool:
        """Whether the model that forgot predicts: it has finished forgetting, and erred less of late."""
        return bool(self._state.relaxing[0] <= RELAXED) and self._share(1) < AHEAD

    def _share(self, span: int) -> float:
        """The share of the errors made by the model that forgot, averaged over outputs; for the verdict or of late."""
        new, old = self._state.errors[span]
        both = np.add(new, old)
        return float(np.mean(np.divide(new, both, out=np.full_like(both, 0.5), where=both > 0)))

    def _conclude(self) -> None:
        """Keep the model that erred less."""
        forgot = self._share(0)
        confirmed = forgot < AHEAD
        self._note("kept" if confirmed else "reverted", forgot)
        self._detector.conclude(confirmed=confirmed)
        if confirmed:
            self._detector.restart()
            self._enter(WARMING, self._warmup)
        else:
            self._within, self._shadow = self._shadow, self._within
            self._enter(WATCHING)
        self._state.errors[:] = self._state.relaxing[0] = 0.0

    def _note(self, direction: str, statistic: float) -> None:
        event = self.rows_seen - 1, DIRECTIONS.index(direction), statistic
        self._state.events[self._numbers.count("noted") % self._history] = event
        self._numbers.counters["noted"] += 1

    # Predictions.

    def _leader(self) -> StreamModel:
        """The model to predict with."""
        return self._shadow if self.on_trial and not self._forgot_leads() else self._within

    def _analysis(self) -> Analysis:
        return self._leader()._analysis()

    # What can be read.

    @property
    def health(self) -> Health:
        return self._within.health  # the other model of a trial has the same past

    @property
    def on_trial(self) -> bool:
        """Whether drift is suspected and the verdict is still open."""
        return self._d is not None and self._numbers.count("phase") == TRIAL

    @property
    def events(self) -> list[Event]:
        """The last ``history`` events, oldest first."""
        if self._d is None:
            return []
        count = self._numbers.count("noted")
        rows = (self._state.events[i % self._history] for i in range(max(0, count - self._history), count))
        return [Event(int(row), DIRECTIONS[int(which)], float(statistic)) for row, which, statistic in rows]


def _apart(ops: np.ndarray) -> int:
    """How many operations can be done before errors are looked at: no row is predicted twice among them."""
    advanced = set()
    for i, (row, kind) in enumerate(ops[:BLOCK].tolist()):
        if kind & TAKE == LEARN and row in advanced:
            return i
        if kind & ADVANCE:
            advanced.add(row)
    return BLOCK

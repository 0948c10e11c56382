"""Auto: the model for those who do not want to choose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.auto import clock, doubts, leaps, needed
from streamgp.auto.budget import DEFAULT, seconds
from streamgp.auto.candidates import CANDIDATES
from streamgp.auto.experts import Experts
from streamgp.auto.importance import importance
from streamgp.auto.past import FIRST, Layout, Past
from streamgp.auto.staged import Chosen
from streamgp.contract import passing
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import NOISE, TIME, Moment
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Change, Health, Relevance, Row, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.process.prior import Prior, checked
from streamgp.settings import FloatArray, nearest, number, switch, whole
from streamgp.wrappers import outliers
from streamgp.wrappers.issuing import memory_of
from streamgp.wrappers.lagged import bridged

DEFAULT_LAGS = 10  # where the target's own past is all there is to predict from
FEW_LAGS, DAY_OF_LAGS = 3, 48  # beside other inputs; a day of them where it has no more rows than this
LONGER_LAGS = 24  # of least squares, which needs few rows for many inputs
ONE_LATER = np.full(1, np.nan)  # the time of a row that comes without one


class Auto(StreamModel):
    """A stream model without settings: it scales, chooses, tunes, calibrates and notices change by itself.

    Naive predictions, least squares and Gaussian processes, with and without past targets as inputs, compete in one
    committee. It predicts from the second row on. Rows may be empty, ``()``, where the past is all there is. Several
    outputs each have a committee of their own.

    Members join after row 20, after a tenth and three tenths of the warm-up and at its end; the snapshot grows and
    shrinks there as they come and go. They are built and tuned in the background, from the first four fifths of these
    rows: a row waits only if it is one after which members join that are not ready yet.

    Args:
        level: how much of the observations the interval is to hold, above 0 and below 1.
        lags: past targets that experts may use as inputs; None: a day of them if ``seasons`` has one of at most 48
            rows, otherwise 10 without other inputs or ahead of time, or 3. Unless it is 0, least squares may use 24.
        seasons: rows of a day and of a week, or of any other season, where they are known.
        warmup: rows after which processes are chosen, at least 10.
        tune: whether hyperparameters are tuned.
        drift: whether to look for changes of the stream.
        screen: whether targets far beyond all others, such as fill values, count as missing (see Standardize), and
            single targets and inputs further out than the range of those before is wide, likewise; the third within a
            few rows is believed.
        budget: the processor time that a row may take once members are chosen, for each output: "200us", "1ms", a
            number in seconds or a timedelta; None: any. It decides on members and their sizes by a fixed table of
            costs, not by the machine, so that results are the same everywhere (docs/models/auto.md).
        ahead: rows between a row and its target; ``Ahead`` sets it.
        background: whether a thread builds and tunes members while rows are answered; the numbers are the same.
        candidates: settings of the candidates by name, such as {"capacity": 50}; None: their own.
        prior: that a fleet of models in standard units has learned (``Fleet(Standardize(KRLST()))``, ``fleet.tune``):
            KRLST joins after row 20 with its hyperparameters, and searches begin there. None: there is none.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = 50 + 10 * np.sin(X[:, 0]) + rng.normal(size=200)
        >>> model = sg.Auto(warmup=100)
        >>> p = model.track(X, y)
        >>> low, high = p.interval(0.9)
        >>> bool(np.mean((low < y) & (y < high)) > 0.8), bool(np.std((y - p.mean)[100:]) < 2)
        (True, True)
    """

    _shared = False
    _without_inputs = True
    _feeds_itself = True
    _bounded = True
    _sees_time = True
    _clock: FloatArray  # see clock.begin()

    def __init__(
        self,
        *,
        level: float = 0.9,
        lags: int | None = None,
        seasons: Sequence[int] = (),
        warmup: int = 1000,
        tune: bool = True,
        drift: bool = True,
        screen: bool = True,
        budget: Any = DEFAULT,
        ahead: int = 0,
        background: bool = True,
        candidates: dict[str, Any] | None = None,
        prior: Prior | None = None,
    ) -> None:
        if number("level", level, above=0) >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        self._lags = None if lags is None else whole("lags", lags, at_least=0)
        self._seasons = [whole("seasons", season) for season in seasons]
        self._ahead = whole("ahead", ahead, at_least=0)
        whole("warmup", warmup, at_least=10)
        given, known = candidates or {}, sorted({name for one in CANDIDATES.values() for name in one.settings})
        for name in given:
            if name.partition("__")[0] not in known:
                raise ValueError(f"no candidate of Auto has a setting {name!r}.{nearest(name, known)}")
        self._needs_time = given.get("half_life") is not None
        self._largest = np.inf if switch("screen", screen) else LARGEST
        self._common: dict[str, Any] = {
            "level": float(level),
            "warmup": warmup,
            "tune": switch("tune", tune),
            "drift": switch("drift", drift),
            "screen": screen,
            "budget": None if budget is None else seconds(budget),
            "background": switch("background", background),
            "candidates": given,
            "prior": checked("prior", prior),
        }
        needed.compile_first()  # together, before members ask for their parts
        self._outputs = [self._fresh(1)]

    def _fresh(self, d: int) -> Past:
        """What predicts one output from d columns, its own past and the time."""
        lags = self.lags_for(d)
        past = max(lags, LONGER_LAGS) if lags else 1
        layout = Layout(d, past, tuple(self._seasons))
        experts = Experts(layout, lags=lags, ahead=self._ahead, **self._common)
        looks = self._common["screen"] and not self._ahead
        return Past(experts, lags=past, ahead=self._ahead, seasons=self._seasons, screen=looks)

    def lags_for(self, d: int) -> int:
        """Return how many past targets experts may use beside this many columns."""
        return default_lags(d, self._seasons, self._ahead) if self._lags is None else self._lags

    # The state.

    def _start(self, d: int, p: int) -> None:
        prior: Prior | None = self._common["prior"]
        lengths = 1 if prior is None or "lengthscale" not in prior.start else prior.start["lengthscale"].size
        if lengths not in (1, d):
            raise ValueError(f"prior has lengthscales of {lengths} inputs, but rows have {d}; give one of such rows")
        if self._d is None:
            self._outputs, self._readings = [self._fresh(d) for _ in range(p)], np.zeros((d, outliers.NUMBERS))
            self._wild_readings, self._clock = doubts.begin(d), clock.begin()
        else:  # rows have come, but no target
            self._outputs = [*self._outputs, *(self._outputs[0].copy() for _ in range(p - 1))][:p]
        self._screen, self._doubts = np.zeros((2, p, outliers.NUMBERS))
        self._wild, self._leaps = doubts.begin(p), leaps.begin(p)
        for output in self._outputs:
            output._prepare(Shape(d + clock.TICK, 1, scalar=False, certain=True))

    def _children(self) -> dict[str, StreamModel]:
        return {f"output.{j}": output for j, output in enumerate(self._outputs)}

    def _arrays(self) -> dict[str, np.ndarray]:
        doubted = {"wild": self._wild, "wild_readings": self._wild_readings}
        return self._screens | doubted | {"clock": self._clock, "leaps": self._leaps}

    @property
    def _screens(self) -> dict[str, np.ndarray]:
        """What is known of broken readings."""
        return {"screen": self._screen, "doubts": self._doubts, "readings": self._readings}

    def _check_restored(self) -> None:
        for state in self._screens.values():
            outliers.check(state)
        wild = np.append(self._wild, self._wild_readings)
        require("wild", wild[~np.isnan(wild)])
        clock.check(self._clock)
        leaps.check(self._leaps)
        super()._check_restored()

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        if self._by_kernel:  # otherwise the clock says what the time is
            super()._refuse_past(time, many=many, follow=follow)

    def _moment(self) -> Moment | None:
        return super()._moment() if self._by_kernel else None

    def _note_time(self, time: float) -> None:
        missing = clock.correct(self._clock, time)
        if missing and self._ahead and not self._by_kernel:
            for output in self._outputs:
                output.note_missing(missing)
        if self._by_kernel:
            super()._note_time(time)

    def _expect_late(self, rows: int, pending: int) -> None:
        self._ahead = self._settings["ahead"] = rows
        self._outputs = [self._fresh(1)]

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        ticks = clock.advanced(self._clock, clock.times_of(conditions, len(X)))
        believed, conditions = self._believed(X), self._within_conditions(conditions)
        X, broken = np.hstack([believed, ticks]), (believed != X).any(axis=1)
        predictions = [
            output.advance_beside(broken, X, _column(Y, j), report, _of_output(conditions, j))
            for j, output in enumerate(self._outputs)
        ]
        known = [one for one in predictions if one is not None]
        return _side_by_side(known) if known else None

    def _quick(self) -> bool:
        return len(self._outputs) == 1 and self._outputs[0]._quick()

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        if Y is None:
            return self._outputs[0]._row(self._upcoming(X, None), None)
        believed = self._believed(X)
        rows = np.concatenate([believed, clock.advanced(self._clock, ONE_LATER)], axis=1)
        return self._outputs[0].row_of(rows, Y, learned=believed is X)

    def _told(self) -> Prediction:
        return self._outputs[0]._told()

    def _screened(self, Y: FloatArray) -> FloatArray:
        if not self._common["screen"]:
            return Y
        young = self._screen[:, outliers.ACCEPTED] < FIRST
        if len(Y) > 1 and young.any():  # one by one, so that what is found does not depend on the rows of a call
            return np.concatenate([self._screened(Y[t : t + 1]) for t in range(len(Y))])
        observed = np.where(np.abs(Y) > LARGEST, np.nan, Y)
        self._screen[:, outliers.REFUSED] += (np.isnan(observed) & ~np.isnan(Y)).sum(axis=0)
        screened = outliers.screened(self._screen, observed, False)
        if young.any():
            leaps.begin_again(self._leaps, self._screen, young)
        return leaps.doubted(self._leaps, screened, doubts.doubted(self._doubts, self._wild, screened))

    def _believed(self, X: FloatArray) -> FloatArray:
        """Rows in order; in place of an input that is more likely a broken reading the one before it stands."""
        return self._judged(X, self._readings, self._wild_readings)

    def _upcoming(self, X: FloatArray, conditions: FloatArray | None) -> FloatArray:
        """Rows that would each come next, with their times."""
        times = ONE_LATER if conditions is None and len(X) == 1 else clock.times_of(conditions, len(X))
        return np.concatenate([self._next(X), clock.next_of(self._clock, times)], axis=1)

    def _within_conditions(self, conditions: FloatArray | None) -> FloatArray | None:
        """Conditions as experts take them: the time is in a column, and nowhere else unless they forget by it."""
        if conditions is None or self._needs_time or self._by_kernel or not np.isnan(conditions[:, TIME + 1 :]).all():
            return conditions
        return None

    @property
    def _by_kernel(self) -> bool:
        """Whether candidates were given a kernel over time."""
        return "time" in self._common["candidates"]

    def _next(self, X: FloatArray) -> FloatArray:
        """Rows that would each come next, as they would be believed."""
        if len(X) == 1:
            if not self._common["screen"] or outliers.within(self._readings, X[0]):
                return X
            return self._judged(X, self._readings.copy(), self._wild_readings.copy())
        return np.concatenate([X[:0], *(self._next(X[t : t + 1]) for t in range(len(X)))])

    def _judged(self, X: FloatArray, readings: FloatArray, wild: FloatArray) -> FloatArray:
        if not (self._common["screen"] and X.shape[1]):
            return X
        last = readings[:, outliers.LAST].copy()
        left = doubts.doubted(readings, wild, X)
        return bridged(np.vstack([last, left]))[1:] if np.isnan(left).any() else X

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        X, conditions = self._upcoming(X, conditions), self._within_conditions(conditions)
        return _side_by_side([output._predict(X, conditions) for output in self._outputs])

    def _empty(self) -> Prediction:
        return passing.empty_like(self, self._outputs[0]._empty())

    def _issued_width(self, p: int) -> int:
        return p * (1 + self._outputs[0]._issued_width(1))

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        d = X.shape[1]
        X, conditions = self._upcoming(X, conditions), self._within_conditions(conditions)
        predictions, issued = zip(*(output._issue(X, conditions) for output in self._outputs), strict=True)
        # The row's time, then number by number, each for all outputs: what one output says then stands for several.
        each = [np.hstack([X[:, d : d + 1], one]) for one in issued]
        kept = each[0] if len(each) == 1 else np.stack(each, axis=2).reshape(len(X), -1)
        return _side_by_side(list(predictions)), kept

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        each, times = issued.reshape(len(X), -1, len(self._outputs)), clock.times_of(conditions, len(X))
        own, believed = each[:, 0, 0], self._believed(X)
        X, learned, known = believed, believed is X, not np.isnan(times).all()
        clock.advanced(self._clock, own if known else times)
        # With a horizon the conditions are those of the target, which may come at another time than was expected.
        arrived = times if self._ahead else np.full(len(X), np.nan)
        X, conditions = np.column_stack([X, arrived, own, np.zeros(len(X))]), self._within_conditions(conditions)
        for j, output in enumerate(self._outputs):
            target, kept = Y[:, j : j + 1], np.ascontiguousarray(each[:, 1:, j])
            output._resolve(X, target, kept, _of_output(conditions, j), learned=learned)
            if self._ahead and np.isnan(target).all() and not np.isnan(Y).all():  # Ahead tells where all are missing
                output._note_target(target[0])

    def _may_take_turns(self) -> bool:
        return not (self._by_kernel or self._needs_time)

    def _take_turns(self, rows: FloatArray, Y: FloatArray, times: FloatArray) -> Prediction | None:
        d, h, X = self._d or 0, len(rows) - len(Y), rows[len(rows) - len(Y) :, : self._d]
        ticks = clock.advanced(self._clock.copy(), times)
        believed = self._judged(X, self._readings.copy(), self._wild_readings.copy())
        broken = np.flatnonzero((believed != X).any(axis=1))
        n = int(min([*broken[:1], *(output.turns(ticks) for output in self._outputs)]))
        if not n:
            return None
        width = self._issued_width(len(self._outputs))
        learned, unlearned = self._as_believed(rows[:n], min(h, n), d + width)
        Z = np.hstack([X[:n], ticks[:n]])
        learned = np.hstack([learned, times[:n, None], np.zeros((n, clock.TICK - 1))])
        self._remember_many(X[:n], times[:n], rows[h : h + n, d + width :], max(n - h - 1, 0))
        each = rows[: h + n, d : d + width].reshape(h + n, -1, len(self._outputs))
        each[h:, 0] = ticks[:n, :1]
        predictions = []
        for j, output in enumerate(self._outputs):
            kept = each[:, 1:, j].copy()
            predictions.append(output.in_turn(learned, Y[:n, j : j + 1], Z, kept, unlearned))
            each[h:, 1:, j] = kept[h:]
        rows[h : h + n, d : d + width] = each[h:].reshape(n, -1)
        return _side_by_side(predictions)

    def _as_believed(self, rows: FloatArray, waited: int, memory: int) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The inputs of rows as they are learned, and of which the targets are not.

        Args:
            rows: what it takes to learn them.
            waited: of so many, the first ones, it is not known whether inputs are believed.
            memory: where in a row the memory begins.
        """
        X, unlearned = rows[:, : self._d].copy(), np.zeros(len(rows), dtype=bool)
        shape, between = self._readings.shape, memory + self._readings.size
        for t in range(waited if self._common["screen"] and X.shape[1] else 0):
            readings = rows[t, memory:between].reshape(shape)
            if not outliers.within(readings, X[t]):
                wild = rows[t, between : between + self._wild_readings.size].copy()
                row = X[t : t + 1]
                believed = self._judged(row, readings.copy(), wild)
                X[t], unlearned[t] = believed[0], believed is not row
        return X, unlearned

    def _remember_many(self, X: FloatArray, times: FloatArray, memory: FloatArray, first: int) -> None:
        """Advance the memory by rows that follow each other; that before each, from one of them on, into an array."""
        if first:
            self._believed(X[:first])
            clock.advanced(self._clock, times[:first])
        for t in range(first, len(X)):
            memory[t] = memory_of(self)
            self._remember(X[t : t + 1])
            if not np.isnan(times[t]):
                self._note_time(times[t])

    def _note_target(self, y: FloatArray) -> None:
        for j, output in enumerate(self._outputs):
            output._note_target(y[j : j + 1])

    def _recall(self, y: FloatArray) -> None:
        for j, output in enumerate(self._outputs):
            output._recall(y[j : j + 1])

    def _memory_arrays(self) -> list[FloatArray]:
        return [
            self._readings,
            self._wild_readings,
            self._clock,
            *self._outputs[0]._memory_arrays(),
        ]  # the same for all outputs

    def reset_memory(self) -> None:
        super().reset_memory()
        if self._d is not None:  # a new sequence may begin anywhere; its time goes on
            self._wild[:] = self._wild_readings[:] = np.nan
            leaps.begin_sequence(self._leaps)

    def _remember(self, X: FloatArray) -> None:
        super()._remember(np.hstack([self._believed(X), clock.advanced(self._clock, ONE_LATER)]))

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return _Outputs([output._trajectories(count, steps) for output in self._outputs], self._clock)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        rows = self._upcoming(X, conditions)
        return self._outputs[0]._joint(rows, self._within_conditions(conditions))

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        rows = [output._last_row() for output in self._outputs]
        return rows[0][0][: self._d], np.concatenate([y for _, y in rows])

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return self._outputs[0].rows_seen

    @property
    def health(self) -> Health:
        return super().health._replace(
            fill_values=0
            if self._d is None
            else sum(map(outliers.refused, self._screens.values()))
            + leaps.refused(self._leaps)
            + sum(int(output._struck[0]) for output in self._outputs)
        )

    @property
    def _shown(self) -> Experts:
        experts: Experts = self._outputs[0].experts
        return experts

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert counts at present, by name; of the first output."""
        return dict(zip(self._shown.names, self._shown.committee.weights.tolist(), strict=True))

    @property
    def errors(self) -> dict[str, float]:
        """The root mean squared error of each expert over about the last thousand rows; of the first output."""
        return dict(zip(self._shown.names, self._shown.committee.errors.tolist(), strict=True))

    def importance(self, groups: Sequence[Sequence[int]]) -> FloatArray:
        """Return how much groups of inputs count, and past targets together, as shares of 1; of the first output.

        They say how far predictions of the last rows move when columns are taken from other rows; see importance.py.
        It takes as long as a few thousand predictions. Without rows enough, or where nothing moves, there are none.

        Args:
            groups: numbers of inputs.
        """
        experts, d = self._shown, self._d or 0
        past = [*range(d, d + experts._past)]
        return importance(experts, [*groups, past]) if self._d is not None else np.zeros(0)

    @property
    def chosen(self) -> Chosen | None:
        """Which processes were chosen, and why; None before the end of the warm-up; of the first output."""
        return self._shown.chosen

    @property
    def changes(self) -> list[int]:
        """Rows, from 0, after which the stream changed; of the first output."""
        return list(self._shown.events)

    @property
    def size(self) -> int:
        return self._shown.size

    @property
    def basis(self) -> FloatArray:
        return self._shown.basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._shown.hyperparameters

    def relevance(self) -> Relevance:
        return self._shown.relevance()

    @property
    def last_change(self) -> Change:
        return self._shown.last_change


class _Outputs(Trajectories):
    """Trajectories of several outputs, each of its own, whose rows come one spacing after the other."""

    def __init__(self, outputs: list[Trajectories], state: FloatArray) -> None:
        self._outputs, self._clock = outputs, state.copy()

    def predict(self, X: FloatArray) -> Step:
        X = np.hstack([X, np.repeat(clock.advanced(self._clock, ONE_LATER), len(X), axis=0)])
        steps = [output.predict(X) for output in self._outputs]
        return Step(*(np.hstack(parts) for parts in zip(*steps, strict=True)))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for j, output in enumerate(self._outputs):
            output.record(values[:, j : j + 1], targets[:, j : j + 1])


def default_lags(d: int, seasons: Sequence[int], ahead: int) -> int:
    """How many past targets experts may use beside this many columns, unless it is said; see Auto."""
    few = DEFAULT_LAGS if not d or ahead else FEW_LAGS
    return next((rows for rows in seasons if rows <= DAY_OF_LAGS), few)


def _column(Y: FloatArray | None, j: int) -> FloatArray | None:
    return None if Y is None else np.ascontiguousarray(Y[:, j : j + 1])


def _of_output(conditions: FloatArray | None, j: int) -> FloatArray | None:
    if conditions is None:
        return None
    own = conditions[:, NOISE + j : NOISE + j + 1]
    return np.hstack([conditions[:, :NOISE], own])


def _side_by_side(predictions: list[Prediction]) -> Prediction:
    """Predictions of single outputs as one."""
    return (
        predictions[0]
        if len(predictions) == 1
        else predictions[0]._each(lambda *parts: np.hstack(parts), *predictions[1:])
    )

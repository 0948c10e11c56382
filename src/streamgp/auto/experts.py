"""Experts: naive predictions, least squares and Gaussian processes in one committee that changes as more is known.

Naive predictions exist at once, least squares from row 20. On the first hundred rows Gaussian processes are tuned, for
the level of the target and for its change, with and without its past as inputs. At the end of the warm-up the better
half is tuned again and stays; later those that have fallen behind leave. All of them are members of one committee,
which never starts anew: whoever is better earns weight. Members are built in the background from the first four fifths
of these rows, and join one view after the other, so that no row waits for long.

When errors grow beside those of the previous value, the stream may have changed. Then a new generation of processes
learns only from the rows after the alarm and joins the committee; it stays if it errs less than the old ones. A false
alarm costs time and makes no prediction worse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto.budget import Budget, cost
from streamgp.auto.building import FROM, LOGARITHM, Builder, named, views
from streamgp.auto.candidates import CANDIDATES, ROBUST
from streamgp.auto.first_targets import has_outliers, is_skewed
from streamgp.auto.past import Layout
from streamgp.auto.preceded import Preceded
from streamgp.auto.season_before import SeasonBefore
from streamgp.auto.staged import FEWEST, Chosen, Rows, Staged, Task, first_rows, innermost
from streamgp.compiled import compile_now
from streamgp.contract.laws import gaussian_reach
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.process.prior import Prior
from streamgp.recipes.naive import InputValue, RunningMean, SeasonalValue
from streamgp.settings import FloatArray
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.detector import Detector, share
from streamgp.wrappers.drift import BINS, watch_beside

LINES_FROM = 20  # rows from which least squares takes part
EARLY = 10  # Gaussian processes are first tuned on this fraction of the warm-up's rows
# After this many times the warm-up: how many Gaussian processes stay at most, and how often the budget they may take.
MOST_PROCESSES, MOST_TIME = {1: 8, 2: 6, 4: 4}, {1: 3.0, 2: 2.0, 4: 1.0}
# A new generation joins after as many rows as an early tuning needs, and is judged after three times as many.
JUDGED = 3
# Evidence of larger errors that makes an alarm. Without a change it takes this many rows on average, or about half as
# many where inputs explain most of the target: the unit of errors is low by chance then, for some rows.
ALARM = 1e4
FADING = 0.97  # discount per row of the errors of the previous value, the unit of ours
# A new generation stays for the time being if its error is at most 1.1 times that of the others; it is reported as a
# change of the stream if it is at most 0.9 times. As shares of the sum of both:
TOLERATED, REPORTED = share(1.1, 1.0), share(0.9, 1.0)
REACH = 3.0  # a prediction is at most this many of the largest steps from the last target, or near the range of all
RETUNED = 4  # members of a later generation that are tuned again if it is clearly better
MOST_EVENTS = 100  # changes that are listed
LINES: list[str] = []  # stands for least squares among the parts of a task


# What is built, part by part, and what is done with the committee.
Plan = Callable[[Committee, Rows], list[list[str]]]
Change = Callable[[Committee], None]


class Schedule(NamedTuple):
    """What is done when.

    Args:
        changes: after how many rows.
        starts: after how many rows what is built, and the row after which all of it is there.
        rows: all of these rows.
    """

    changes: dict[int, Change]
    starts: dict[int, tuple[Plan, int]]
    rows: set[int]


class Clock(NamedTuple):
    """At which row the generations began, all counted from the first row.

    Args:
        generation: the row after which the present new generation began; -1: there is none.
        settled: the row after which the last settled generation began.
        refuted: new generations in a row that were no better.
    """

    generation: int = 0
    settled: int = 0
    refuted: int = 0


GENERATION, REFUTED = (Clock._fields.index(name) for name in ("generation", "refuted"))


class Experts(Staged):
    """Committee of experts for one output that sees columns, past targets, the time and its seasons.

    Args:
        layout: what the columns are; of past targets there is at least one, and least squares uses all of them.
        lags: past targets that other experts may use.
        ahead: rows between a row and its target.
        level: of the intervals.
        warmup: rows after which processes are chosen.
        tune: whether hyperparameters are tuned.
        drift: whether to look for changes.
        screen: whether fill values among the first targets are struck out.
        budget: the time that a row may take; None: any.
        background: whether a thread builds members while rows are answered.
        candidates: settings of the candidates by name.
        prior: of a fleet, where their hyperparameters begin; None: there is none.
    """

    _clock: np.ndarray  # (3,) of Clock
    _ranks: FloatArray  # how large errors have been, in units of those of the previous value
    _evidence: FloatArray  # (1,) that they have grown
    _unit: FloatArray  # (2,) discounted sums of the squared errors of the previous value, and of 1
    _targets: np.ndarray  # (1,) targets so far

    def __init__(
        self,
        layout: Layout,
        *,
        lags: int,
        ahead: int,
        level: float,
        warmup: int,
        tune: bool,
        drift: bool,
        screen: bool,
        budget: Any,
        background: bool,
        candidates: dict[str, Any],
        prior: Prior | None,
    ) -> None:
        self._layout, self._own, self._past = layout, layout.own, layout.past
        self._ahead = ahead
        self._level, self._warmup, self._drift = level, warmup, drift
        self._budget, self._background = Budget.of(budget), background
        self._builder = Builder(layout, lags, ahead, tune, screen, self._budget.sizes, candidates, prior)
        self._needs_time = candidates.get("half_life") is not None
        self._early = max(FEWEST, warmup // EARLY)
        self._room = warmup
        self.names: tuple[str, ...] = ()
        self.events: tuple[int, ...] = ()  # rows at which the stream changed
        self._choice: Chosen | None = None  # what is to be chosen at the end of the warm-up
        # Recent squared errors and rows of the members when a generation joined.
        self._at_start: dict[str, list[float]] = {}
        # What is done after how many rows, and for which clock that is, before or after a choice.
        self._planned: tuple[tuple[Clock, bool] | None, Schedule] = (None, Schedule({}, {}, set()))
        self._model = self._first(layout.width)
        compile_now(watch_beside)

    def _first(self, d: int) -> Calibrated:
        """The committee of those who need no rows to learn from."""
        # Ahead of time the row's own target is the last one known, before any has been learned.
        previous = InputValue(self._own) if self._ahead else SeasonalValue(1)
        naive: dict[str, StreamModel] = {"previous value": previous, "mean": RunningMean()}
        for period, column in zip(self._layout.seasons, self._layout.values, strict=True):
            naive[f"value {period} rows ago"] = SeasonBefore(column, unless=self._own)
        self.names = tuple(naive)
        committee = Committee(list(naive.values()), rule="stacked", reach=REACH * max(self._ahead, 1))
        calibrated = Calibrated(committee, level=self._level)
        calibrated._expect_late(self._ahead, 0)
        return calibrated

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._clock, self._targets = np.zeros(3, dtype=np.int64), np.zeros(1, dtype=np.int64)
            self._ranks, self._evidence, self._unit = np.zeros(BINS), np.zeros(1), np.zeros(2)
        super()._start(d, p)

    def _as_shown(self, prediction: Prediction) -> Prediction:
        """Before any expert has something to say the prediction claims nothing: mean 0, an infinite variance.

        While no expert has erred, no scale is known but the size of the first target.
        """
        if not isinstance(prediction, CalibratedPrediction):
            return prediction
        raw, unknown = prediction.raw, np.isnan(prediction.mean)
        unscaled = np.isnan(raw.variance + raw.noise) & ~unknown & (prediction.mean != 0.0)
        if not (unknown | unscaled).any():
            return prediction
        mean, size = np.where(unknown, 0.0, prediction.mean), np.abs(prediction.mean)
        half = np.where(unknown, np.inf, gaussian_reach(prediction.level) * size)
        changed = unknown | unscaled
        lower, upper = (
            np.where(changed, mean - half, prediction.lower),
            np.where(changed, mean + half, prediction.upper),
        )
        (variance, noise), (own, own_noise) = (
            (np.where(unknown, np.inf, p.variance), np.where(changed, 0.0, p.noise)) for p in (prediction, raw)
        )
        variance = np.where(unscaled, size**2, variance)
        return CalibratedPrediction(
            mean, variance, noise, lower, upper, prediction.level, Prediction(mean, own, own_noise), prediction.shape
        )

    def _told(self) -> Prediction:
        told = self._model._told()
        known = math.isfinite(told.mean + told.raw.variance + told.raw.noise)
        return told if known else self._as_shown(told)._each(float)

    # When members change.

    @property
    def _now(self) -> Clock:
        return Clock(*self._clock.tolist())

    def _set(self, **changes: int) -> None:
        self._clock[:] = self._now._replace(**changes)
        self._next = -1

    def _changes_after(self, row: int) -> float:
        return min((at for at in (self._due, *self._schedule().rows) if at > row), default=np.inf)

    def _before_change(self, n: int) -> int:
        # An alarm within these rows is answered at a row that comes after them.
        soonest = first_rows(min(self._early, self._warmup))
        return min(super()._before_change(n), soonest - int(self._seen[0]) % soonest)

    def _may_fail(self) -> bool:
        return self._changes_next()  # members have learned their first rows before they join

    def _schedule(self) -> Schedule:
        clock = self._now
        if self._planned[0] != (clock, self.chosen is None):
            self._planned = (clock, self.chosen is None), self._scheduled(clock)
        return self._planned[1]

    def _scheduled(self, clock: Clock) -> Schedule:
        warmup, early, begin = self._warmup, self._early, clock.generation
        changes: dict[int, Change] = {}
        starts: dict[int, tuple[Plan, int]] = {}
        if begin >= 0:
            stages: dict[int, tuple[Change, Plan | None, int]]
            processes = self._note_start, self._plan_processes, FEWEST
            if begin == 0:
                stages = {LINES_FROM: (self._note_start, self._plan_lines, 1), early: processes}
                stages[JUDGED * early] = processes  # with better hyperparameters
            else:
                stages = {early: processes, JUDGED * early: (self._judge, None, 0)}
            stages = {row: stage for row, stage in stages.items() if row < warmup}
            before = 0
            for row, (change, plan, least) in (stages | {warmup: (self._choose, self._plan_choice, FEWEST)}).items():
                changes[begin + row] = change
                if plan is not None:
                    starts[begin + max(before, first_rows(row, least))] = plan, begin + row
                before = row
        if self.chosen is not None:
            for times in MOST_PROCESSES:
                if times > 1:
                    changes.setdefault(clock.settled + times * warmup, partial(self._drop_worst, times=times))
        return Schedule(changes, starts, {*changes, *starts})

    def _change(self) -> None:
        self._model._revise(self._change_members)

    def _change_members(self, committee: Committee) -> None:
        seen, begin, schedule = int(self._seen[0]), self._now.generation, self._schedule()
        self._let_join(committee, seen)
        plan, due = schedule.starts.get(seen, (None, -1))
        if seen in schedule.changes and due != seen:
            schedule.changes[seen](committee)
        if plan is not None and self._now.generation == begin:
            if parts := plan(committee, self._rows_since(begin, seen)):
                self._task, self._jobs = Task.until(due, seen, begin, parts), ()
                self._let_join(committee, seen)
            if due == seen:  # there are too few rows for any to wait
                schedule.changes[seen](committee)

    def _rows_since(self, begin: int, stop: int) -> Rows:
        """Rows of a generation."""
        rows = self._rows_between(begin, stop)
        if begin == 0:
            if len(rows.Y) == stop:
                self._fill_lags(rows)
            made_up = min(self._past, max(len(rows.Y) - FEWEST, 1))
            rows.Y[:made_up] = np.nan  # their lags are
        return rows

    def _fill_lags(self, rows: Rows) -> None:
        """Put a target in place of the zeros that rows before the first one have as lags, where no target is near zero.

        They count for the units of lags. While rows are few, long lags are nearly always the first target: the target
        that is farthest from it says how much they are going to vary.
        """
        lags, known = slice(self._own, self._own + self._past), rows.Y[~np.isnan(rows.Y)]
        if not self._past or not len(known) or np.min(np.abs(known)) <= np.ptp(known):
            return
        before = np.cumprod(np.all(rows.X[:, lags] == 0.0, axis=1)).astype(bool)
        farthest = known[np.argmax(np.abs(known - known[0]))]
        rows.X[before, lags] = farthest
        for season_before in self._layout.values:
            rows.X[before, season_before] = farthest

    # Changes of the stream.

    def _watch(self, X: FloatArray, y: FloatArray, mean: FloatArray) -> None:
        """Begin a new generation where errors have grown beside those of the previous value."""
        previous = X[:, self._own].copy()
        if not self._ahead and not self._targets[0]:  # up to the first target there is none
            known = np.flatnonzero(np.isfinite(y))
            previous[: known[0] + 1 if len(known) else len(y)] = np.nan
        self._targets[0] += np.count_nonzero(np.isfinite(y))
        if not self._drift:
            return
        start, seen, ranked = 0, int(self._seen[0]), self.chosen is not None
        mean, y, detector = np.ascontiguousarray(mean), np.ascontiguousarray(y), self._detector
        while True:  # errors after an alarm are ranked among themselves
            generation = int(self._clock[GENERATION])
            armed = generation < 0 or seen >= generation + JUDGED * self._early
            at = detector.watch_beside(mean, previous, y, start, FADING, self._unit, ranked=ranked, armed=armed)
            if at < 0:
                return
            start = at + 1
            self._end_generation()
            self._set(generation=seen + start)

    @property
    def _detector(self) -> Detector:
        return Detector(ALARM, self._ranks, self._evidence, self._clock[REFUTED:])

    def _end_generation(self) -> None:
        """There is no new generation any more; one that was not clearly better makes the next alarm harder."""
        generation = self._now.generation
        if generation > 0:
            self._detector.conclude(confirmed=generation in self.events)
        self._task, self._jobs, self._choice = None, (), None
        self._set(generation=-1)
        self._detector.restart()

    def _judge(self, committee: Committee) -> None:
        """Let the new generation go if all of it erred more of late than the others."""
        young = self._share(committee)
        if young > TOLERATED:
            for name in self._builder.processes(self._now.generation):
                self._retire(committee, name)
            self._end_generation()
        else:
            self._report_if_better(young)

    def _share(self, committee: Committee) -> float:
        """The lowest error of the new generation beside that of all others, on the rows since it joined."""
        squares, rows = committee._errors[0, :2]
        now = {name: (squares[k], rows[k]) for k, name in enumerate(self.names) if name in self._at_start}
        young = [name for name in now if name in self._builder.processes(self._now.generation)]
        if not young:
            return 1.0
        # What was there at the start has been discounted since, as can be seen from the rows of a newcomer.
        memory = 1.0 / (1.0 - committee._discount[0])
        left = (memory - now[young[0]][1]) / (memory - self._at_start[young[0]][1])
        since = {}
        for name, (total, count) in now.items():
            squares_before, rows_before = self._at_start[name]
            seen = count - left * rows_before
            since[name] = (total - left * squares_before) / seen if seen > 1 else np.inf  # asleep
        new, old = (min(since[name] for name in names) for names in (young, since.keys() - set(young)))
        # Where rounding leaves no error there is none that could be less.
        return share(np.sqrt(new), np.sqrt(old)) if 0 < new < np.inf and old > 0 else 1.0

    def _report_if_better(self, young: float) -> None:
        generation = self._now.generation
        if young < REPORTED and generation not in self.events:
            self.events = (*self.events, generation)[-MOST_EVENTS:]

    # Members.

    def _works(self, task: Task) -> list[Callable[[], Any]]:
        rows, committee = self._rows_since(task.begin, task.start), self.committee
        return [
            partial(self._builder.built, list(names), task.begin, self._like(committee, names, task.begin), rows)
            for names in task.parts
        ]

    def _like(self, committee: Committee, names: Sequence[str], begin: int) -> StreamModel | None:
        """A member with the same kernel that sees the same as these: a search goes on from what it has."""
        processes, given = self._builder.processes(begin), committee._settings["models"]
        for name, member in zip(self.names, given, strict=True):
            seen, kind = processes.get(name, (None, ""))
            family = CANDIDATES[kind].family if kind in CANDIDATES else ""
            if names and seen == processes[names[0]][0] and family == "kernel":
                return innermost(member)
        return None

    def _let_join(self, committee: Committee, seen: int) -> None:
        """Take over members that are due; each takes the place of the one of its name, if there is one."""
        while self._due == seen:
            built, since = self._taken()
            for name, member in built:
                if name in self.names:
                    at = self.names.index(name)
                    committee.replace(at, member)
                else:
                    at, self.names = len(self.names), (*self.names, name)
                    committee.add(member)
                if len(since.Y):
                    committee._models[at].learn_many(since.X, since.Y[:, 0], time=since.time)

    def _plan_lines(self, committee: Committee, rows: Rows) -> list[list[str]]:
        """Least squares, and with a fleet's prior, which needs no tuning, KRLST."""
        known = self._builder.processes(0) if self._builder.prior is not None else {}
        early = {view.label: [name] for name, (view, kind) in known.items() if kind == "KRLST"}
        return [LINES, *early.values()]

    def _plan_processes(self, committee: Committee, rows: Rows) -> list[list[str]]:
        """All Gaussian processes that may be worth a trial."""
        processes = self._builder.processes(self._now.generation)
        if not has_outliers(rows):
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if kind not in ROBUST}
        if not is_skewed(rows.Y[:, 0]):
            processes = {name: one for name, one in processes.items() if not one[0].label.startswith(LOGARITHM)}
        if self.chosen is not None:  # a new generation sees what the last one has found worth seeing
            stayed = {name.partition(FROM)[0] for name in self.chosen.names}
            worth = {
                view.label
                for view in views(self._own, self._builder.lags)
                for kind in CANDIDATES
                if named(kind, view) in stayed
            }
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if view.label in worth}
        return self._parts(list(processes), rows)

    def _parts(self, names: list[str], rows: Rows) -> list[list[str]]:
        """Names of processes, those of one view together; the first generation renews least squares, too."""
        begin = self._now.generation
        processes = self._builder.processes(begin)
        if names:
            what = f"{len(names)} Gaussian process{'' if len(names) == 1 else 'es'} on {len(rows.Y):,} rows"
            self.doing(f"{'tuning' if self._builder.tune else 'building'} {what}")
        parts: dict[str, list[str]] = {}
        for name in names:
            parts.setdefault(processes[name][0].label, []).append(name)
        return [*([LINES] if begin == 0 else []), *parts.values()]

    def _note_start(self, committee: Committee) -> None:
        """All members of a generation have joined."""
        if self.chosen is not None:
            present = self._builder.processes(self._now.generation)
            for name in self.names:
                if FROM in name and name not in self.chosen.names and name not in present:
                    self._retire(committee, name)  # of a generation that another change has overtaken
        self._at_start = dict(zip(self.names, committee._errors[0, :2].T.tolist(), strict=True))

    def _plan_choice(self, committee: Committee, rows: Rows) -> list[list[str]]:
        """Of all processes those with the lowest errors are to stay; of this generation they are tuned once more."""
        begin = self._now.generation
        processes = self._builder.processes(begin)
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        old = [] if self.chosen is None else self.chosen.names
        scores = {name: errors[name] for name in (*old, *processes) if name in errors}
        order = sorted(scores, key=lambda name: scores[name] if np.isfinite(scores[name]) else np.inf)
        robust = [name for name, (_, kind) in processes.items() if kind in ROBUST]
        if not order:  # there was no earlier row at which one joined
            unfit = {*robust, *([] if is_skewed(rows.Y[:, 0]) else self._builder.logarithmic())}
            order = [name for name in processes if name not in unfit]
        stay = self._staying(committee, order, errors, 1)
        if begin == 0 and has_outliers(rows):
            stay += [name for name in robust if name not in order]
        tuned = [name for name in stay if name in processes][: None if begin == 0 else self._retuned(committee)]
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in stay if name in scores)
        reason = f"lowest errors, RMSE of late: {listed}" if listed else "too few rows to compare"
        self._choice = Chosen(stay, "", reason, scores)
        return self._parts(tuned, rows)

    def _retuned(self, committee: Committee) -> int:
        """How many members of a later generation are worth another search: none where it is not clearly better."""
        better = self._now.generation in self.events or self._share(committee) < REPORTED
        return RETUNED if better else 0

    def _choose(self, committee: Committee) -> None:
        """Let all processes go but those that are to stay."""
        generation, choice = self._now.generation, self._choice
        if choice is None:
            raise SnapshotError("the snapshot does not have the choice that is due after its next rows")
        for name in (*([] if self.chosen is None else self.chosen.names), *self._builder.processes(generation)):
            if name not in choice.names:
                self._retire(committee, name)
        if generation > 0:
            self._report_if_better(self._share(committee))
        self.chosen = choice._replace(names=[name for name in choice.names if name in self.names])
        self._set(settled=generation)
        self._end_generation()

    def _drop_worst(self, committee: Committee, times: int) -> None:
        """Let the processes go that have erred most over about the last thousand rows."""
        if self.chosen is None:
            return
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        order = sorted((name for name in self.chosen.names if name in self.names), key=errors.__getitem__)
        stay = self._staying(committee, order, errors, times)
        for name in order:
            if name not in stay:
                self._retire(committee, name)
        self.chosen = self.chosen._replace(names=stay)

    def _staying(self, committee: Committee, order: list[str], errors: dict[str, float], times: int) -> list[str]:
        """Of processes, the best first, those that the budget pays for, and lines for logarithms that beat others."""
        logarithmic, rivals = self._builder.logarithmic(), self._builder.processes(0)
        others = [errors[name] for name in self.names if name.startswith("least squares") and name not in rivals]
        least = min((error for error in others if np.isfinite(error)), default=np.inf)
        stay = self._affordable(committee, [name for name in order if name not in logarithmic], times)
        return stay + [name for name in order if name in logarithmic and errors.get(name, np.inf) < least]

    def _affordable(self, committee: Committee, order: list[str], times: int) -> list[str]:
        """Of processes, the best first, at least one and what the budget pays for after this many times the warm-up."""
        members = dict(zip(self.names, committee._models, strict=True))
        left = MOST_TIME[times] * self._budget.left([model for name, model in members.items() if name not in order])
        stay: list[str] = []
        for name in order:
            price = cost(members[name]) if name in members else 0.0
            if not stay or (len(stay) < MOST_PROCESSES[times] and price <= left):
                stay.append(name)
                left -= price
        return stay

    def _retire(self, committee: Committee, name: str) -> None:
        if name in self.names:
            committee.retire(self.names.index(name))
            self.names = tuple(one for one in self.names if one != name)

    def note_broken(self) -> None:
        """The last row had a broken reading: who would see it again in the next one, sleeps there."""
        for member in self.committee._models:
            if isinstance(member, Preceded):
                member.note_broken()

    # Experts remember no inputs, and no targets but those of rows, whoever they are at the moment.

    def _note_target(self, y: FloatArray) -> None:
        """Nothing to remember."""

    def _memory_arrays(self) -> list[FloatArray]:
        return []

    def _remember(self, X: FloatArray) -> None:
        """Nothing to advance."""

    # The state.

    def _arrays(self) -> dict[str, np.ndarray]:
        watched = {"ranks": self._ranks, "evidence": self._evidence, "unit": self._unit}
        return super()._arrays() | watched | {"clock": self._clock, "targets": self._targets}

    def _structure(self) -> dict[str, Any]:
        started = [[name, *pair] for name, pair in self._at_start.items()]
        own = {"names": list(self.names), "events": list(self.events), "at_start": started}
        own["choice"] = None if self._choice is None else self._choice.written()
        return own | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        super()._rebuild(structure)
        self.names = tuple(str(name) for name in structure["names"])
        self.events = tuple(int(row) for row in structure["events"])
        self._choice = Chosen.read(structure["choice"])
        self._at_start = {str(name): [float(squares), float(rows)] for name, squares, rows in structure["at_start"]}
        if len(self.committee._models) != len(self.names):
            raise SnapshotError("the snapshot does not name all members of its committee")
        task = self._task
        if task is not None and not {*itertools.chain(*task.parts)} <= self._builder.processes(task.begin).keys():
            raise SnapshotError(f"the snapshot builds members that Auto does not have: {task.parts}")

    def _check_restored(self) -> None:
        require("unit", self._unit, at_least=0)
        require("clock", self._clock, at_least=-1)
        self._detector.check()
        super()._check_restored()

    # What can be read.

    @property
    def committee(self) -> Committee:
        """The committee within."""
        committee = self._model._within
        if not isinstance(committee, Committee):
            raise SnapshotError(f"the snapshot's model must be calibrated around a committee; it is {committee!r}")
        return committee

"""Experts: naive predictions, least squares and Gaussian processes in one committee that changes as more is known.

Naive predictions exist at once, least squares from row 20. On the first hundred rows Gaussian processes are tuned, for
the level of the target and for its change, with and without its past as inputs. At the end of the warm-up the better
half is tuned again and stays; later those that have fallen behind leave. All of them are members of one committee,
which never starts anew: whoever is better earns weight.

When errors grow beside those of the previous value, the stream may have changed. Then a new generation of processes
learns only from the rows after the alarm and joins the committee; it stays if it errs less than the old ones. A false
alarm costs time and makes no prediction worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import search
from streamgp.auto.budget import Budget, cost
from streamgp.auto.candidates import CANDIDATES, LEAST_SQUARES, ROBUST, candidate, least_squares
from streamgp.auto.preceded import Preceded
from streamgp.auto.staged import FEWEST, Chosen, Rows, Staged
from streamgp.batch import FullGP
from streamgp.compiled import compile_now
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, gaussian_reach
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.recipes.naive import InputValue, RunningMean, SeasonalValue
from streamgp.settings import FloatArray
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.columns import Columns, Differenced
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.detector import Detector, share
from streamgp.wrappers.drift import BINS, watch_beside
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper

LINES_FROM = 20  # rows from which least squares takes part
EARLY = 10  # Gaussian processes are first tuned on this fraction of the warm-up's rows
# After so many times the warm-up: how many Gaussian processes stay at most, and how often the budget they may take.
MOST_PROCESSES, MOST_TIME = {1: 8, 2: 6, 4: 4}, {1: 3.0, 2: 2.0, 4: 1.0}
# A new generation joins after as many rows as an early tuning needs, and is judged after three times as many.
JUDGED = 3
ALARM = 1e4  # evidence of larger errors: without a change it takes this many rows on average
FADING = 0.97  # discount per row of the errors of the previous value, the unit of ours
# A new generation stays for the time being if its error is at most 1.1 times that of the others; it is reported as a
# change of the stream if it is at most 0.9 times. As shares of the sum of both:
TOLERATED, REPORTED = share(1.1, 1.0), share(0.9, 1.0)
REACH = 3.0  # a prediction is at most so many of the largest steps from the last target, or near the range of all
RETUNED = 4  # members of a later generation that are tuned again
# An outlier is this many times as far from the median as most values; there are outliers if this share of rows is one.
FAR_OUT, FEW = 10.0, 0.02
MOST_EVENTS = 100  # changes that are listed
FROM = ", from row "  # in the names of later generations

# What is done with the committee.
Stage = Callable[[Committee, Rows], None]


class View(NamedTuple):
    """What an expert sees: some columns, and the target or its change.

    Args:
        label: for people.
        columns: None: all.
        change: whether the target is its change since the newest lag.
    """

    label: str
    columns: list[int] | None
    change: bool


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


REFUTED = Clock._fields.index("refuted")


class Experts(Staged):
    """Committee of experts for one output that sees columns and past targets.

    Args:
        own: inputs that are columns; they come first.
        lags: past targets that experts may use; at least one column of them follows, the newest first.
        ahead: rows between a row and its target.
        seasons: rows of a day and of a week, where they are known.
        level: of the intervals.
        warmup: rows after which processes are chosen.
        tune: whether hyperparameters are tuned.
        drift: whether to look for changes.
        screen: whether fill values among the first targets are struck out.
        budget: the time that a row may take; None: any.
        candidates: settings of the candidates by name.
    """

    _clock: np.ndarray  # (3,) of Clock
    _ranks: FloatArray  # how large errors have been, in units of those of the previous value
    _evidence: FloatArray  # (1,) that they have grown
    _unit: FloatArray  # (2,) discounted sums of the squared errors of the previous value, and of 1
    _targets: np.ndarray  # (1,) targets so far

    def __init__(
        self,
        *,
        own: int,
        lags: int,
        ahead: int,
        seasons: Sequence[int],
        level: float,
        warmup: int,
        tune: bool,
        drift: bool,
        screen: bool,
        budget: Any,
        candidates: dict[str, Any],
    ) -> None:
        self._own, self._lags, self._ahead, self._seasons = own, lags, ahead, seasons
        self._level, self._warmup, self._tune, self._drift, self._screens = level, warmup, tune, drift, screen
        self._candidates, self._budget = candidates, Budget.of(budget)
        self._needs_time = candidates.get("half_life") is not None
        self._early = max(FEWEST, warmup // EARLY)
        self._room = warmup
        self.names: tuple[str, ...] = ()
        self.events: tuple[int, ...] = ()  # rows at which the stream changed
        # Recent squared errors and rows of the members when a generation joined.
        self._at_start: dict[str, list[float]] = {}
        # What is done after how many rows, and for which clock that is, before or after a choice.
        self._planned: tuple[tuple[Clock, bool] | None, dict[int, Stage]] = (None, {})
        self._model = self._first(own + max(lags, 1))
        compile_now(watch_beside)

    def _first(self, d: int) -> Calibrated:
        """The committee of those who need no rows to learn from."""
        # Ahead of time the row's own target is the last one known, before any has been learned.
        previous = InputValue(self._own) if self._ahead else SeasonalValue(1)
        naive: dict[str, StreamModel] = {"previous value": previous, "mean": RunningMean()}
        naive |= {
            f"value {period} rows ago": SeasonalValue(period, ahead=max(self._ahead, 1)) for period in self._seasons
        }
        self.names = tuple(naive)
        committee = Committee(list(naive.values()), rule="stacked", reach=REACH * max(self._ahead, 1))
        return Calibrated(committee, level=self._level)

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._clock, self._targets = np.zeros(3, dtype=np.int64), np.zeros(1, dtype=np.int64)
            self._ranks, self._evidence, self._unit = np.zeros(BINS), np.zeros(1), np.zeros(2)
        super()._start(d, p)

    def _said(self, prediction: Prediction) -> Prediction:
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
        return told if known else self._said(told)._each(float)

    # When members change.

    @property
    def _now(self) -> Clock:
        return Clock(*self._clock.tolist())

    def _set(self, **changes: int) -> None:
        self._clock[:] = self._now._replace(**changes)

    def _before_change(self, n: int) -> int:
        seen = int(self._seen[0])
        if n == 0:
            return 0 if seen in self._stages() else 1
        # An alarm within these rows is answered at a row that comes after them.
        watched = self._early - seen % self._early
        return min([n, watched, *(stage - seen for stage in self._stages() if stage > seen)])

    def _may_fail(self) -> bool:
        return self._before_change(2) == 1  # members have learned their first rows before they join

    def _stages(self) -> dict[int, Stage]:
        """What is done after how many rows."""
        clock = self._now
        if self._planned[0] != (clock, self.chosen is None):
            self._planned = (clock, self.chosen is None), self._stages_of(clock)
        return self._planned[1]

    def _stages_of(self, clock: Clock) -> dict[int, Stage]:
        warmup, early = self._warmup, self._early
        stages: dict[int, Stage] = {}
        if (begin := clock.generation) >= 0:
            if begin == 0:
                stages = {LINES_FROM: self._add_lines, early: self._add_processes}
                stages[JUDGED * early] = self._add_processes  # with better hyperparameters
            else:
                stages = {begin + early: self._add_processes, begin + JUDGED * early: self._judge}
            stages = {row: stage for row, stage in stages.items() if row < begin + warmup}
            stages[begin + warmup] = self._choose
        if self.chosen is not None:
            for times in MOST_PROCESSES:
                if times > 1:
                    stages.setdefault(clock.settled + times * warmup, partial(self._drop_worst, times=times))
        return stages

    def _change(self) -> None:
        generation = self._now.generation
        seen = int(self._seen[0])
        rows = self._last_rows(seen - max(generation, 0))
        if generation == 0:
            made_up = min(max(self._lags, 1), max(len(rows.Y) - FEWEST, 1))
            rows.Y[:made_up] = np.nan  # their lags are
        stage = self._stages()[seen]
        self._model._revise(lambda committee: stage(committee, rows))

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
        mean, y = np.ascontiguousarray(mean), np.ascontiguousarray(y)
        while True:  # errors after an alarm are ranked among themselves
            clock = self._now
            armed = clock.generation < 0 or seen >= clock.generation + JUDGED * self._early
            rows = mean, previous, y, start
            at = self._detector.watch_beside(*rows, FADING, self._unit, ranked=ranked, armed=armed)
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
        self._set(generation=-1)
        self._detector.restart()

    def _judge(self, committee: Committee, rows: Rows) -> None:
        """Let the new generation go if all of it erred more of late than the others."""
        young = self._share(committee)
        if young > TOLERATED:
            for name in self._processes():
                self._retire(committee, name)
            self._end_generation()
        else:
            self._report_if_better(young)

    def _share(self, committee: Committee) -> float:
        """The lowest error of the new generation beside that of all others, on the rows since it joined."""
        squares, rows = committee._errors[0, :2]
        now = {name: (squares[k], rows[k]) for k, name in enumerate(self.names) if name in self._at_start}
        young = [name for name in now if name in self._processes()]
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

    def _processes(self) -> dict[str, tuple[View, str]]:
        """Those that the present generation may have, by name."""
        begin = self._now.generation
        since = f"{FROM}{begin + 1}" if begin else ""
        return {
            _named(kind, view) + since: (view, kind) for view in views(self._own, self._lags) for kind in CANDIDATES
        }

    def _lines(self, rows: int) -> Iterator[tuple[str, StreamModel]]:
        """Least squares; with the past among the inputs a line for the change is one for the level."""
        for view in views(self._own, self._lags):
            if not (view.change and view.columns is None):
                for forgetting in LEAST_SQUARES:
                    name = _named(f"least squares {forgetting:g}", view)
                    yield name, self._seeing(view, least_squares(forgetting), rows)
        if self._own and self._lags and not self._ahead:
            for forgetting in LEAST_SQUARES:
                line = Standardize(least_squares(forgetting), warmup=max(rows, 2), screen=self._screens)
                yield f"least squares {forgetting:g} (lags, row before)", Preceded(line, columns=self._own)

    def _seeing(self, view: View, model: StreamModel, rows: int) -> StreamModel:
        seen: StreamModel = Standardize(model, warmup=max(rows, 2), screen=self._screens)
        if view.columns is not None:
            seen = Columns(seen, columns=view.columns)
        return Differenced(seen, column=self._own) if view.change else seen

    def _tuned(self, committee: Committee, names: list[str], rows: Rows) -> Iterator[tuple[str, StreamModel]]:
        """Gaussian processes of this generation, with the hyperparameters of their families on these rows."""
        found: dict[tuple[str, bool], FullGP | None] = {}
        processes, X, y = self._processes(), rows.X, rows.Y[:, 0]
        what = "tuning" if self._tune else "building"
        self.doing(f"{what} {len(names)} Gaussian process{'' if len(names) == 1 else 'es'} on {len(y):,} rows")
        for name in names:
            view, kind = processes[name]
            columns = list(range(X.shape[1])) if view.columns is None else view.columns
            model = self._candidate(kind, len(columns))
            if self._tune and np.count_nonzero(~np.isnan(y)) >= FEWEST:
                key = view.label, kind in ROBUST
                if key not in found:
                    target = y - X[:, self._own] if view.change else y
                    if kind in ROBUST:  # the search itself is not robust
                        target = np.where(_outliers(rows), np.nan, target)
                    start = self._candidate(kind if kind in ROBUST else "KRLST", len(columns))
                    known = self._like(committee, view)
                    found[key] = search.exact(start, known, np.ascontiguousarray(X[:, columns]), target)
                batch = found[key]
                model = model if batch is None else search.tuned(model, batch)
            yield name, self._seeing(view, model, len(y))

    def _candidate(self, kind: str, d: int) -> StreamModel:
        return candidate(kind, d, self._candidates, self._budget.sizes)

    def _like(self, committee: Committee, view: View) -> StreamModel | None:
        """A member of this generation with the same kernel that sees the same: a search goes on from what it has."""
        processes, given = self._processes(), committee._settings["models"]
        for name, member in zip(self.names, given, strict=True):
            seen, kind = processes.get(name, (None, ""))
            if seen == view and CANDIDATES[kind].family == "kernel":
                while isinstance(member, Wrapper):
                    member = member._pristine
                return member  # type: ignore[no-any-return]
        return None

    def _renew(self, committee: Committee, members: Iterator[tuple[str, StreamModel]], rows: Rows) -> None:
        """Let members learn the rows so far; each takes the place of the one of its name, if there is one."""
        for name, member in members:
            member.learn_many(rows.X, rows.Y[:, 0], time=rows.time)
            if name in self.names:
                committee.replace(self.names.index(name), member)
            else:
                committee.add(member)
                self.names = (*self.names, name)

    def _add_lines(self, committee: Committee, rows: Rows) -> None:
        """Add least squares, or renew it in new units."""
        self._renew(committee, self._lines(len(rows.Y)), rows)

    def _add_processes(self, committee: Committee, rows: Rows) -> None:
        """Add Gaussian processes."""
        if self._now.generation == 0:
            self._add_lines(committee, rows)
        processes = self._processes()
        if not _has_outliers(rows):
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if kind not in ROBUST}
        if self.chosen is not None:  # a new generation sees what the last one has found worth seeing
            for name in [name for name in self.names if FROM in name and name not in self.chosen.names]:
                self._retire(committee, name)  # of a generation that another change has overtaken
            stayed = {name.partition(FROM)[0] for name in self.chosen.names}
            worth = {
                view.label
                for view in views(self._own, self._lags)
                for kind in CANDIDATES
                if _named(kind, view) in stayed
            }
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if view.label in worth}
        self._renew(committee, self._tuned(committee, list(processes), rows), rows)
        self._at_start = dict(zip(self.names, committee._errors[0, :2].T.tolist(), strict=True))

    def _choose(self, committee: Committee, rows: Rows) -> None:
        """Of all processes keep those with the lowest errors; tune those of this generation on all of its rows."""
        processes = self._processes()
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        old = [] if self.chosen is None else self.chosen.names
        scores = {name: errors[name] for name in (*old, *processes) if name in errors}
        order = sorted(scores, key=lambda name: scores[name] if np.isfinite(scores[name]) else np.inf)
        robust = [name for name, (_, kind) in processes.items() if kind in ROBUST]
        order = order or [name for name in processes if name not in robust]  # no earlier row at which one joined
        stay = self._affordable(committee, order, 1)
        gone = [name for name in order if name not in stay]
        if self._now.generation == 0 and _has_outliers(rows):
            stay += [name for name in robust if name not in order]
        for name in gone:
            self._retire(committee, name)
        tuned = [name for name in stay if name in processes]
        if self._now.generation == 0:
            self._add_lines(committee, rows)
        else:
            tuned = tuned[:RETUNED]
            self._report_if_better(self._share(committee))
        self._renew(committee, self._tuned(committee, tuned, rows), rows)
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in stay if name in scores)
        reason = f"lowest errors, RMSE of late: {listed}" if listed else "too few rows to compare"
        self.chosen = Chosen(stay, "", reason, scores)
        self._set(settled=self._now.generation)
        self._end_generation()

    def _drop_worst(self, committee: Committee, rows: Rows, times: int) -> None:
        """Let the processes go that have erred most over about the last thousand rows."""
        if self.chosen is None:
            return
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        order = sorted((name for name in self.chosen.names if name in self.names), key=errors.__getitem__)
        stay = self._affordable(committee, order, times)
        for name in order:
            if name not in stay:
                self._retire(committee, name)
        self.chosen = self.chosen._replace(names=stay)

    def _affordable(self, committee: Committee, order: list[str], times: int) -> list[str]:
        """Of processes, the best first, at least one and what the budget pays for after so many times the warm-up."""
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
        return own | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        super()._rebuild(structure)
        self.names = tuple(str(name) for name in structure["names"])
        self.events = tuple(int(row) for row in structure["events"])
        self._at_start = {str(name): [float(squares), float(rows)] for name, squares, rows in structure["at_start"]}
        if len(self.committee._models) != len(self.names):
            raise SnapshotError("the snapshot does not name all members of its committee")

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


def views(own: int, lags: int) -> list[View]:
    """What experts see of so many columns and past targets."""
    columns = list(range(own))
    level = [View("", columns, False), View("change", columns, True)] if columns else []
    past = [View("lags", None, False), View("change, lags", None, True)] if lags else []
    return level + past


def _outliers(rows: Rows) -> np.ndarray:
    """Which targets lie far outside the others and were missed by far."""
    return np.asarray(_far_out(rows.Y[:, 0]) & _far_out(rows.missed[:, 0], 0.0))


def _has_outliers(rows: Rows) -> bool:
    """Whether more than a few of the later half are: before it everything was missed by far."""
    half = len(rows.Y) // 2
    return bool(np.mean(_outliers(rows._replace(Y=rows.Y[half:], missed=rows.missed[half:]))) >= FEW)


def _far_out(values: FloatArray, middle: float | None = None) -> np.ndarray:
    """Which values are more than FAR_OUT median deviations from the middle, by default their median."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.zeros(len(values), bool)
    middle = np.median(known) if middle is None else middle
    return np.asarray(np.abs(values - middle) > FAR_OUT * np.median(np.abs(known - middle)))


def _named(name: str, view: View) -> str:
    return f"{name} ({view.label})" if view.label else name

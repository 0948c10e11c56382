"""Auto: experts that predict from the second row on, Gaussian processes that join them, and one prediction of all.

Naive predictions exist at once, least squares from row 20. On the first hundred rows Gaussian processes are tuned, for
the level of the target and for its change, with and without its past as inputs; at the end of the warm-up the better
half is tuned again and stays, and later those that have fallen behind leave. All of them are members of one committee,
which never starts anew: whoever is better earns weight, and nobody has to be chosen.

When errors grow beside those of the previous value, the stream may have changed. Then a new generation of processes
learns only from what comes after, and joins the committee; it stays if it errs less than the old one. A false alarm
costs time and changes no prediction for the worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter

from streamgp.batch import SSGPR, FullGP
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError
from streamgp.job.candidates import CANDIDATES, LEAST_SQUARES, ROBUST, least_squares
from streamgp.job.request import Request
from streamgp.job.selection import FEWEST, Chosen, hyperparameters, kept_rows
from streamgp.recipes.naive import InputValue, RunningMean, SeasonalValue
from streamgp.settings import FloatArray, whole
from streamgp.tuning.tune import with_hyperparameters
from streamgp.wrappers import drift
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.columns import Columns, Differenced
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.standardize import Standardize

LINES_FROM = 20  # rows from which least squares takes part
EARLY = 10  # Gaussian processes are first tuned on this fraction of the warm-up's rows
# How many Gaussian processes stay after so many times the warm-up.
STAY = {1: 8, 2: 6, 4: 4}
# A new generation is born when it has an early tuning's rows, and heard when it has so many times as many.
HEARD = 3
ALARM = 1e4  # evidence of larger errors: without a change it takes so many rows on average
FADING = 0.97  # by which the errors of the previous value, the unit of ours, are discounted
MOST_REFUTED = 6  # each false alarm squares the evidence that makes the next; so often at most
# A generation stays for the time being if it errs at most so many times as much as the others, and is told of if at
# most so many times.
CLOSE, CLEAR = 1.1, 0.9
RETUNED = 4  # of a later generation, so many at most are tuned again
# What lies so many times as far out as most is an outlier; there are some where this fraction of rows is one.
GROSS, FEW = 10.0, 0.02
MOST_EVENTS = 100  # that are listed
FROM = ", from row "  # in the names of later generations


class Rows(NamedTuple):
    """Of the generation under way.

    Args:
        X: (n, d) inputs.
        y: (n,) targets.
        time: (n,) times, if models forget by it.
        missed: (n,) errors of what was predicted of them, NaN where unknown.
    """

    X: FloatArray
    y: FloatArray
    time: FloatArray | None
    missed: FloatArray

    @property
    def outliers(self) -> np.ndarray:
        """Which targets lie far outside the others and were missed by far."""
        return np.asarray(_far(self.y) & _far(self.missed, 0.0))

    @property
    def has_outliers(self) -> bool:
        """Whether more than a few of the later half are: before it everything was missed by far."""
        half = len(self.y) // 2
        return bool(np.mean(self._replace(y=self.y[half:], missed=self.missed[half:]).outliers) >= FEW)


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
    """Which row it is, and of what rows; all counted from the first one on.

    Args:
        seen: rows so far.
        generation: the row after which the generation under way began; -1: none is.
        settled: the row after which the last one that is not under way any more began.
        refuted: generations that were no better, one after the other.
    """

    seen: int = 0
    generation: int = 0
    settled: int = 0
    refuted: int = 0


class Auto:
    """Keeps the last rows, and changes the members of the committee as more is known, or when the stream has changed.

    Args:
        request: what was asked for.
        own: inputs that are columns of the table; they come first.
        lags: past targets that experts may use; at least one column of them follows, the newest first.
        seasons: rows of a day and of a week, where they are known.
    """

    def __init__(self, request: Request, own: int, lags: int, seasons: tuple[int, ...] = ()) -> None:
        self.request, self._own, self._past, self._seasons = request, own, lags, seasons
        self.chosen: Chosen | None = None
        self.names: list[str] = []
        self.events: list[int] = []  # rows at which the stream changed
        self.doing: Callable[[str], None] = lambda _: None
        self._inputs = own + max(lags, 1)
        self._early = max(FEWEST, request.warmup // EARLY)
        self._clock = Clock()
        self._at_birth: dict[str, list[float]] = {}  # recent squared errors and rows of the members when one was born
        self._kept = np.empty((0, self._inputs + 2))  # inputs, time and target of the last rows
        self._missed = np.empty(0)  # errors of what was predicted of them
        self._ranks = np.zeros(drift.BINS)  # how large errors have been, in units of those of the previous value
        self._evidence = np.zeros(1)  # that they have grown
        self._unit = np.zeros(2)  # discounted sums of the squared errors of the previous value, and of 1

    def first(self) -> Calibrated:
        """The committee of those who need no rows to learn from."""
        ahead = max(self.request.horizon, 1)
        # Ahead of time the row's own target is the last one known, before any has been learnt.
        previous = InputValue(self._own) if self.request.horizon else SeasonalValue(1)
        naive: dict[str, StreamModel] = {"previous value": previous, "mean": RunningMean()}
        naive |= {f"value {period} rows ago": SeasonalValue(period, ahead=ahead) for period in self._seasons}
        self.names = list(naive)
        return Calibrated(Committee(list(naive.values()), rule="stacked"), level=self.request.level)

    def before_next(self, n: int) -> int:
        """How many of the next n rows come before members change."""
        seen = self._clock.seen
        # An alarm within these rows is answered at a row that comes after them.
        watched = self._early - seen % self._early
        return min([n, watched, *(stage - seen for stage in self._stages() if stage > seen)])

    def _stages(self) -> dict[int, Stage]:
        """What is done after so many rows."""
        clock, warmup, late = self._clock, self.request.warmup, self.request.horizon
        stages: dict[int, Stage] = {}
        if clock.generation >= 0:
            begin = clock.generation + late
            if clock.generation == 0:
                stages = {begin + LINES_FROM: self._draw_lines, begin + self._early: self._bear}
                stages[begin + HEARD * self._early] = self._bear  # with better hyperparameters
            else:
                stages = {begin + self._early: self._bear, begin + HEARD * self._early: self._hear}
            stages = {row: stage for row, stage in stages.items() if row < begin + warmup}
            stages[begin + warmup] = self._settle
        if self.chosen is not None:
            for times, stay in STAY.items():
                if times > 1:
                    stages.setdefault(clock.settled + times * warmup + late, partial(self._cut, stay=stay))
        return stages

    def keep(self, X: FloatArray, y: FloatArray, time: FloatArray | None, model: Calibrated) -> Calibrated:
        """Keep rows that were predicted; change the members of the model where that is due.

        Args:
            X: (n, d) inputs, no more than ``before_next`` allows.
            y: (n,) targets as they came with these rows, NaN where missing.
            time: (n,) times at which they came, if models forget by it.
            model: that predicted them.
        """
        horizon = self.request.horizon
        self._kept = np.concatenate([self._kept, kept_rows(X, y, time)])[-self.request.warmup - horizon :]
        self._missed = self._missed[-len(self._kept) :]
        self._clock = self._clock._replace(seen=self._clock.seen + len(y))
        clock = self._clock
        if clock.seen in (stages := self._stages()):
            kept = self._kept[-(clock.seen - max(clock.generation, 0)) :]
            times = None if time is None else kept[horizon:, -2]
            missed = self._missed[len(self._missed) - len(kept) + horizon :]
            rows = Rows(kept[: len(kept) - horizon, :-2], kept[horizon:, -1].copy(), times, missed)
            if clock.generation == 0:
                made_up = min(max(self._past, 1), max(len(rows.y) - FEWEST, 1))
                rows.y[:made_up] = np.nan  # their lags are
            model._revise(lambda committee: stages[clock.seen](committee, rows))
        return model

    # Changes of the stream.

    def watch(self, y: FloatArray, mean: FloatArray, previous: FloatArray) -> None:
        """Begin a new generation where errors have grown beside those of the previous value.

        Args:
            y: (n,) targets of rows that are kept next.
            mean: (n,) what was predicted of them.
            previous: (n,) the previous value as a prediction of them.
        """
        known = np.isfinite(y) & np.isfinite(mean) & np.isfinite(previous)
        rows = np.flatnonzero(known)
        self._missed = np.concatenate([self._missed, y - mean])
        if not (self.request.run["drift"] and len(rows)):
            return
        squares = np.stack([(y - previous)[known] ** 2, np.ones(len(rows))])
        sums, _ = lfilter([1.0], [1.0, -FADING], squares, zi=FADING * self._unit[:, None])
        self._unit[:] = sums[:, -1]
        if self.chosen is None:
            return
        unit, start = sums[0] / sums[1], 0
        said, unit, none, seen = (c[:, None] for c in (mean[known], unit, np.zeros_like(unit), y[known]))
        while start < len(rows):  # those after an alarm are ranked among themselves
            clock, unheard = self._clock, HEARD * self._early + self.request.horizon
            heard = clock.generation < 0 or clock.seen >= clock.generation + unheard
            enough = ALARM**2.0**clock.refuted if heard else np.inf
            left = slice(start, None)
            at = drift.watch(said[left], unit[left], none[left], seen[left], False, enough, self._ranks, self._evidence)
            if not heard:
                self._evidence[:] = 0.0
            if at < 0:
                break
            start += at + 1
            self._conclude()
            self._clock = self._clock._replace(generation=clock.seen + int(rows[start - 1]) + 1)

    def _conclude(self) -> None:
        """No generation is under way any more; one that was not clearly better makes the next alarm harder."""
        if self._clock.generation >= 0:
            clear = self._clock.generation in (0, *self.events)
            refuted = 0 if clear else min(self._clock.refuted + 1, MOST_REFUTED)
            self._clock = self._clock._replace(generation=-1, refuted=refuted)
        self._ranks[:], self._evidence[:] = 0.0, 0.0

    def _hear(self, committee: Committee, rows: Rows) -> None:
        """Let the new generation go if all of it erred more of late than the others."""
        ratio = self._young_to_old(committee)
        if ratio > CLOSE:
            for name in self._processes():
                self._retire(committee, name)
            self._conclude()
        else:
            self._tell_if_clear(ratio)

    def _young_to_old(self, committee: Committee) -> float:
        """The lowest error of the generation under way over that of all others, on the rows since it was born."""
        squares, rows = committee._errors[0, :2]
        now = {name: (squares[k], rows[k]) for k, name in enumerate(self.names) if name in self._at_birth}
        young = [name for name in now if name in self._processes()]
        # What was there at birth has been discounted since, as can be seen from the rows of a newcomer.
        memory = 1.0 / (1.0 - committee._discount[0])
        left = (memory - now[young[0]][1]) / (memory - self._at_birth[young[0]][1])
        since = {}
        for name, (total, count) in now.items():
            squares_before, rows_before = self._at_birth[name]
            seen = count - left * rows_before
            since[name] = (total - left * squares_before) / seen if seen > 1 else np.inf  # asleep
        new, old = (min(since[name] for name in names) for names in (young, since.keys() - set(young)))
        # Where rounding leaves no error there is none that could be less.
        return float(np.sqrt(new / old)) if new > 0 and old > 0 else np.inf

    def _tell_if_clear(self, ratio: float) -> None:
        if ratio < CLEAR and self._clock.generation not in self.events:
            self.events = [*self.events, self._clock.generation][-MOST_EVENTS:]

    # Members.

    def _views(self) -> list[View]:
        columns = list(range(self._own))
        own = [View("", columns, False), View("change", columns, True)] if columns else []
        past = [View("lags", None, False), View("change, lags", None, True)] if self._past else []
        return own + past

    def _processes(self) -> dict[str, tuple[View, str]]:
        """Those that the generation under way may have, by name."""
        begin = self._clock.generation
        since = f"{FROM}{begin + 1}" if begin else ""
        return {_named(kind, view) + since: (view, kind) for view in self._views() for kind in CANDIDATES}

    def _lines(self, rows: int) -> Iterator[tuple[str, StreamModel]]:
        """Least squares; with the past among the inputs a line for the change is one for the level."""
        for view in self._views():
            if not (view.change and view.columns is None):
                for forgetting in LEAST_SQUARES:
                    name = _named(f"least squares {forgetting:g}", view)
                    yield name, self._seeing(view, least_squares(forgetting), rows)

    def _seeing(self, view: View, model: StreamModel, rows: int) -> StreamModel:
        seen: StreamModel = Standardize(model, warmup=max(rows, 2), screen=False)
        if view.columns is not None:
            seen = Columns(seen, columns=view.columns)
        return Differenced(seen, column=self._own) if view.change else seen

    def _tuned(self, names: list[str], rows: Rows) -> Iterator[tuple[str, StreamModel]]:
        """Gaussian processes of this generation, with the hyperparameters of their families on these rows."""
        found: dict[tuple[str, str], FullGP | SSGPR | None] = {}
        processes, (X, y, *_) = self._processes(), rows
        what = "tuning" if self.request.run["tune"] else "building"
        self.doing(f"{what} {len(names)} Gaussian process{'' if len(names) == 1 else 'es'} on {len(y):,} rows")
        for name in names:
            view, kind = processes[name]
            columns = list(range(self._inputs)) if view.columns is None else view.columns
            model = self.request.build(kind, len(columns))
            if self.request.run["tune"] and np.count_nonzero(~np.isnan(y)) >= FEWEST:
                key = view.label, CANDIDATES[kind].family
                if key not in found:
                    target = y - X[:, self._own] if view.change else y
                    if kind in ROBUST:  # the search itself is not robust
                        target = np.where(rows.outliers, np.nan, target)
                    found[key] = hyperparameters(model, np.ascontiguousarray(X[:, columns]), target)
                batch = found[key]
                model = model if batch is None else with_hyperparameters(model, batch)
            yield name, self._seeing(view, model, len(y))

    def _renew(self, committee: Committee, members: Iterator[tuple[str, StreamModel]], rows: Rows) -> None:
        """Let members learn the rows so far; each takes the place of the one of its name, if there is one."""
        for name, member in members:
            member.learn_many(rows.X, rows.y, time=rows.time)
            if name in self.names:
                committee.replace(self.names.index(name), member)
            else:
                committee.add(member)
                self.names.append(name)

    def _draw_lines(self, committee: Committee, rows: Rows) -> None:
        """Add least squares, or renew it in new units."""
        self._renew(committee, self._lines(len(rows.y)), rows)

    def _bear(self, committee: Committee, rows: Rows) -> None:
        """Add Gaussian processes."""
        if self._clock.generation == 0:
            self._draw_lines(committee, rows)
        processes = self._processes()
        if not rows.has_outliers:
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if kind not in ROBUST}
        if self.chosen is not None:  # a new generation sees what the last one has found worth seeing
            for name in [name for name in self.names if FROM in name and name not in self.chosen.names]:
                self._retire(committee, name)  # of a generation that another change has overtaken
            stayed = {name.partition(FROM)[0] for name in self.chosen.names}
            worth = {view.label for view in self._views() for kind in CANDIDATES if _named(kind, view) in stayed}
            processes = {name: (view, kind) for name, (view, kind) in processes.items() if view.label in worth}
        self._renew(committee, self._tuned(list(processes), rows), rows)
        self._at_birth = dict(zip(self.names, committee._errors[0, :2].T.tolist(), strict=True))

    def _settle(self, committee: Committee, rows: Rows) -> None:
        """Of all processes keep those with the lowest errors; of this generation tuned on all of its rows."""
        processes = self._processes()
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        old = [] if self.chosen is None else self.chosen.names
        scores = {name: errors[name] for name in (*old, *processes) if name in errors}
        order = sorted(scores, key=lambda name: scores[name] if np.isfinite(scores[name]) else np.inf)
        robust = [name for name, (_, kind) in processes.items() if kind in ROBUST]
        order = order or [name for name in processes if name not in robust]  # no row before at which one was born
        stay = order[: STAY[1]]
        if self._clock.generation == 0 and rows.has_outliers:
            stay += [name for name in robust if name not in order]
        for name in order[STAY[1] :]:
            self._retire(committee, name)
        tuned = [name for name in stay if name in processes]
        if self._clock.generation == 0:
            self._draw_lines(committee, rows)
        else:
            tuned = tuned[:RETUNED]
            self._tell_if_clear(self._young_to_old(committee))
        self._renew(committee, self._tuned(tuned, rows), rows)
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in stay if name in scores)
        reason = f"lowest errors, RMSE of late: {listed}" if listed else "too few rows to compare"
        self.chosen = Chosen(stay, "", reason, scores)
        self._clock = self._clock._replace(settled=self._clock.generation)
        self._conclude()

    def _cut(self, committee: Committee, rows: Rows, stay: int) -> None:
        """Let the processes go that have erred most over about the last thousand rows."""
        assert self.chosen is not None
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        order = sorted((name for name in self.chosen.names if name in self.names), key=errors.__getitem__)
        for name in order[stay:]:
            self._retire(committee, name)
        self.chosen = self.chosen._replace(names=order[:stay])

    def _retire(self, committee: Committee, name: str) -> None:
        if name in self.names:
            committee.retire(self.names.index(name))
            self.names.remove(name)

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {
            "kept": self._kept,
            "missed": self._missed,
            "ranks": self._ranks,
            "evidence": self._evidence,
            "unit": self._unit,
        }

    def header(self) -> dict[str, Any]:
        """The rest of it."""
        choice = None if self.chosen is None else self.chosen._asdict()
        counts = {"clock": list(self._clock), "changes": self.events, "at_birth": self._at_birth}
        return {"choice": choice, "experts": self.names} | counts

    def restore(self, tensors: dict[str, np.ndarray], saved: dict[str, Any]) -> None:
        """Go on from saved rows, and from what was chosen."""
        kept, chosen = tensors["kept"], saved["choice"]
        if kept.ndim != 2 or kept.shape[1] != self._kept.shape[1] or kept.dtype != self._kept.dtype:
            raise SnapshotError(f"the array kept has shape {kept.shape}, the run needs {self._kept.shape}")
        for name in ("ranks", "evidence", "unit"):
            array, tensor = getattr(self, f"_{name}"), tensors[name]
            if tensor.shape != array.shape or tensor.dtype != array.dtype or not np.all(tensor >= 0):
                raise SnapshotError(f"the array {name} must hold {array.size} numbers from 0 on; it is {tensor}")
            array[:] = tensor
        self._kept, self._missed = kept.copy(), tensors["missed"].copy()
        if self._missed.shape != (len(kept),) or self._missed.dtype != float:
            raise SnapshotError(f"the array missed has shape {self._missed.shape}, the run needs {(len(kept),)}")
        self._clock = Clock(*(whole("clock", value, at_least=-1) for value in saved["clock"]))
        if len(kept) != min(self._clock.seen, self.request.warmup + self.request.horizon):
            raise SnapshotError(f"the snapshot holds {len(kept)} rows of {self._clock.seen}")
        self.chosen = None if chosen is None else Chosen(**chosen)
        self.names = [str(name) for name in saved["experts"]]
        self.events = [whole("changes", row, at_least=0) for row in saved["changes"]]
        self._at_birth = {str(name): [float(value) for value in pair] for name, pair in saved["at_birth"].items()}


def _far(values: FloatArray, middle: float | None = None) -> np.ndarray:
    """Which values are further from the middle, if not given their median, than many times half of them are."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.zeros(len(values), bool)
    middle = np.median(known) if middle is None else middle
    return np.asarray(np.abs(values - middle) > GROSS * np.median(np.abs(known - middle)))


def _named(name: str, view: View) -> str:
    return f"{name} ({view.label})" if view.label else name

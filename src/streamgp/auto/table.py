"""Table: what predicts one output. A row becomes features, all lines say something, and one prediction is made of it.

Lines are built in the background from the rows so far, and join after a fixed row (auto/choosing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import choosing, step
from streamgp.auto.bank import Bank, Line
from streamgp.auto.choosing import Chosen, Task
from streamgp.auto.clock import TICK
from streamgp.auto.features import BLOCK, Layout, Past
from streamgp.auto.forest import WINDOW, Forest
from streamgp.auto.lines import Builder, Rows
from streamgp.compiled import compile_now
from streamgp.contract.conditions import TIME, WEIGHT
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.laws import gaussian_reach
from streamgp.contract.model import Health, Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.recipes.naive import RunningMean
from streamgp.settings import FloatArray
from streamgp.wrappers import conformal, outliers
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.drift import watch_beside

MEMORY = 100  # rows over which errors count as recent
REACH = 3.0  # a prediction is at most this many of the largest steps from the last target, or near the range of all
# Fill values among the first targets cannot be told when they come. They are looked for whenever the rows have doubled:
# in the end a target may lie 33 widths beyond the range of the others, and never less than 20 (wrappers/outliers.py).
LOOKS = tuple(outliers.FEWEST << k for k in range(6))
# A doubted target was real if the lines had said at least this share of what lies beyond the range.
EXPLAINED = 0.5
NO_CONDITIONS = np.empty((0, WEIGHT + 2))
# Of a row that waits, before its features: how many targets were known, the time between rows, and missing rows.
KNOWN, EVERY, MISSING = range(3)
WAITING = MISSING + 1


class Plan(NamedTuple):
    """What a table is to be.

    Args:
        layout: of the features.
        builder: of lines.
        level: of the intervals.
        warmup: rows after which processes are chosen.
        drift: whether to look for changes.
        screen: whether targets are doubted.
        background: whether a thread builds lines while rows are answered.
        trees: whether a forest sits at the table.
    """

    layout: Layout
    builder: Builder
    level: float
    warmup: int
    drift: bool
    screen: bool
    background: bool
    trees: bool


class Table(StreamModel):
    """What predicts one output from the columns of a row, its time, its own past and seasons.

    Rows come with three more columns: their time, the time between rows, and how many rows are missing before them.
    """

    has_variance = True
    _without_inputs = True
    _feeds_itself = True
    doing: Callable[[str], None] = staticmethod(lambda _: None)  # told what takes seconds

    def __init__(self, plan: Plan) -> None:
        self.layout, self.builder, self.level, self.warmup, self.drift, self.screen, self.background, self.trees = plan
        layout, screen, builder, warmup, trees = plan.layout, plan.screen, plan.builder, plan.warmup, plan.trees
        self._needs_time = builder.candidates.get("half_life") is not None
        self._looks = LOOKS if screen and not layout.ahead else ()
        self._room = max(warmup, LOOKS[-1], WINDOW if trees else 0)
        compile_now(watch_beside, outliers.doubt)
        self._fresh()

    def _fresh(self) -> None:
        """The state before the first row."""
        layout = self.layout
        self.past = Past(layout, self._room)
        self.bank = Bank(layout.clock, MEMORY, REACH * max(layout.ahead, 1)).placed(self.builder.naive())
        calibrated = Calibrated(RunningMean(), level=self.level)
        calibrated._ahead = max(layout.ahead, 1)
        calibrated._prepare(Shape(0, 1))
        self._intervals = calibrated
        self.kept = np.zeros((self._room, layout.own + 5))  # inputs, time, spacing, missing rows, known targets, target
        self.doubts, self.struck = np.zeros((1, outliers.NUMBERS)), np.zeros(1, dtype=np.int64)
        self.clock, self.ranks = choosing.begin()
        self.events: tuple[int, ...] = ()  # rows at which the stream changed
        self.chosen: Chosen | None = None
        self.tasks: tuple[Task, ...] = ()
        self.jobs: dict[Task, Any] = {}
        self._next = -1.0
        self._said = np.empty((1, self._said_width))

    @property
    def _said_width(self) -> int:
        return step.INTERVAL + self._intervals._kept

    # Rows.

    @property
    def _kept_width(self) -> int:
        return WAITING + self.layout.width + self._said_width

    @property
    def _columns(self) -> tuple[str, ...]:
        shape = ("shape",) * (self._intervals._parts - 4)
        return "mean", "variance", "noise", "lower", "upper", *shape, "raw.mean", "raw.variance", "raw.noise"

    def _pass(
        self, ops: np.ndarray, X: FloatArray, Y: FloatArray | None, conditions: FloatArray | None, kept: FloatArray | None
    ) -> FloatArray | None:
        out, late = np.full((len(self._columns), len(X), 1), np.nan), None
        if kept is not None:
            parts = np.split(kept, [WAITING, WAITING + self.layout.width], axis=1)
            late = tuple(np.ascontiguousarray(part) for part in parts)
        start = 0
        while start < len(ops):
            stop, doubted = self._until(ops, X, Y, start)
            given = None if conditions is None else conditions[start:stop]
            self._take(ops[start:stop], X, Y, given, late, doubted, out)
            start = stop
            if kept is None and int(self.clock[choosing.SEEN]) in self._looks and ops[stop - 1, 1] & LEARN:
                self._look_back()
        if late is not None:
            kept[:] = np.hstack(late)
        return out

    def _until(self, ops: np.ndarray, X: FloatArray, Y: FloatArray | None, start: int) -> tuple[int, bool]:
        """Up to which operation rows go together, and whether it is a single one whose target is doubted."""
        stop = min(len(ops), start + BLOCK)
        rows, kinds = ops[start:stop].T
        learns = np.flatnonzero(kinds & LEARN)
        gaps = np.flatnonzero((kinds & ADVANCE != 0) & (X[rows, -1] > 0)) if self.layout.ahead else ()
        stop -= len(kinds) - int(next((at for at in gaps if at > 0), len(kinds)))
        if not len(learns) or Y is None:
            return stop, False
        y = Y[rows[learns], 0]
        learns = learns[learns < stop - start]
        left = int(self._next_change() - self.clock[choosing.SEEN])
        if len(learns) >= left:
            learns = learns[:left]
            stop = start + int(learns[-1]) + 1
        missing = np.flatnonzero(np.isnan(y[: len(learns)]))
        if len(missing):  # the next rows see what was predicted of it
            learns = learns[: missing[0] + 1]
            stop = start + int(learns[-1]) + 1
        y = y[: len(learns)]
        if self.screen and len(y) and not (len(y) == 1 and outliers.within(self.doubts, y)):
            states = self.doubts.copy()
            left_over = outliers.doubted(states, y[:, None])[:, 0]
            bad = np.flatnonzero(np.isnan(left_over) & ~np.isnan(y))
            if len(bad):
                at = start + int(learns[bad[0]])
                if at > start:
                    return at, False
                return start + 1, True
        return stop, False

    def _take(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        late: tuple[FloatArray, ...] | None,
        doubted: bool,
        out: FloatArray,
    ) -> None:
        """Let rows pass that go together."""
        rows, kinds = ops.T
        n, d = len(ops), self.layout.own
        learns, advances = kinds & LEARN != 0, kinds & ADVANCE != 0
        y = np.full(n, np.nan)
        if Y is not None:
            y[learns] = Y[rows[learns], 0]
        F, at, said, waiting = self._seen(rows, kinds, X, y, late, doubted)
        given = self._given(conditions)
        if doubted:
            y = self._doubt(kinds, at, F, y, given, said, out, rows)
            kinds = kinds & ~PREDICT
        else:
            known = y[learns]
            if self.screen and not np.isnan(known).all():
                outliers.doubt(self.doubts, known[:, None].copy())
        never = learns & ~advances & np.isnan(waiting[:, KNOWN]) if late is not None else None
        learned = y if never is None else np.where(never, np.nan, y)
        mixed = self._say(kinds, at, F, learned, given, said, out, rows)
        if advances.any():
            self.past.x[:] = X[rows[advances][-1], :d]
        if not learns.any():
            return
        means = said[at, step.INTERVAL] if late is not None or doubted else mixed[0]
        if doubted or np.isnan(y[learns][-1]):
            target = y[learns][-1]
            value = next((v for v in (target, means[learns][-1], self.past.last) if np.isfinite(v)), np.nan)
            self.past.tell(np.array([value] if np.isfinite(value) else []))
        self._keep(F[at[learns]], waiting[learns], y[learns], means[learns])

    def _seen(
        self,
        rows: np.ndarray,
        kinds: np.ndarray,
        X: FloatArray,
        y: FloatArray,
        late: tuple[FloatArray, ...] | None,
        doubted: bool,
    ) -> tuple[FloatArray, np.ndarray, FloatArray, FloatArray]:
        """Features, in which rows of them operations are, what is said of rows, and what rows keep besides.

        Targets become known on the way, but for the last one if it is missing or doubted.
        """
        d, past, n = self.layout.own, self.past, len(rows)
        learns, advances = kinds & LEARN != 0, kinds & ADVANCE != 0
        now = kinds & (PREDICT | ADVANCE) != 0
        ticks = X[rows, d:]
        gaps = np.where(now, ticks[:, 2], 0.0).astype(np.int64)
        if self.layout.ahead and advances[0] and gaps[0]:
            past.bridge(int(gaps[0]))
            gaps[0] = 0
        committed = np.where(advances, gaps, 0)
        told = np.cumsum(learns) - learns + np.cumsum(committed)
        known = past.known[0] + (told if past.known[0] else np.maximum(told - np.cumsum(committed), 0))
        before = np.concatenate([past.x, X[rows[advances], :d]])[np.cumsum(advances) - advances]
        targets = y[learns]
        if len(targets) and (doubted or np.isnan(targets[-1])):
            targets = targets[:-1]
        self._tell(targets, committed, learns)
        waiting = np.column_stack([known, ticks[:, 1], gaps]).astype(float)
        hypothetical = np.where(advances, 0, gaps)
        if late is None:
            F = past.see(np.ascontiguousarray(X[rows, :d]), np.ascontiguousarray(ticks), known, hypothetical, before)
            return F, np.arange(n), self._said, waiting
        own, F, said = late
        if now.any():
            F[rows[now]] = past.see(
                np.ascontiguousarray(X[rows[now], :d]), np.ascontiguousarray(ticks[now]),
                *(known[now], hypothetical[now], before[now]),
            )
            own[rows[now]] = waiting[now]
        return F, rows, said, own[rows]

    def _tell(self, targets: FloatArray, gaps: np.ndarray, learns: np.ndarray) -> None:
        """Targets become known, with what stands for those of rows that are missing before them."""
        past = self.past
        if gaps.any() and past.known[0]:
            at = gaps[learns][: len(targets)]
            before = np.concatenate([[past.last], targets[:-1]]) if len(targets) else np.empty(0)
            counts = np.stack([at, np.ones_like(at)], axis=1).ravel()
            values = np.repeat(np.stack([before, targets], axis=1).ravel(), counts)
            rest = int(gaps.sum() - at.sum())
            last = targets[-1] if len(targets) else past.last
            past.tell(np.concatenate([values, np.full(rest, last)]))
        else:
            past.tell(targets)

    def _given(self, conditions: FloatArray | None) -> FloatArray:
        if conditions is None or np.isnan(conditions[:, TIME + 1 :]).all():
            return NO_CONDITIONS
        return np.ascontiguousarray(conditions)

    def _doubt(
        self,
        kinds: np.ndarray,
        at: np.ndarray,
        F: FloatArray,
        y: FloatArray,
        given: FloatArray,
        said: FloatArray,
        out: FloatArray,
        rows: np.ndarray,
    ) -> FloatArray:
        """The target of one row, if the lines explain it or others like it have come; otherwise NaN."""
        if kinds[0] & PREDICT:
            self._say(np.array([PREDICT]), at, F, np.full(1, np.nan), given, said, out, rows)
        mean, state = said[at[0], step.INTERVAL], self.doubts[0]
        low, high = state[outliers.LOWEST + 1], state[outliers.HIGHEST + 1]
        beyond = max(low - y[0], y[0] - high)
        if abs(y[0] - mean) <= (1.0 - EXPLAINED) * beyond:
            state[outliers.EVIDENCE] = outliers.THIRD
        return outliers.doubted(self.doubts, y[:, None])[:, 0]

    def _say(
        self,
        kinds: np.ndarray,
        at: np.ndarray,
        F: FloatArray,
        y: FloatArray,
        given: FloatArray,
        said: FloatArray,
        out: FloatArray,
        rows: np.ndarray,
    ) -> FloatArray:
        """Let all lines predict and learn; what is made of what they say goes into out."""
        n, intervals = len(kinds), self._intervals
        predicted = self.bank.run(kinds, at, F, y, given)
        mixed, bounds = np.empty((3, n)), np.empty((intervals._parts, n))
        where = at if said is not self._said else np.zeros(n, dtype=np.int64)
        numbers, ahead = intervals._numbers, max(self.layout.ahead, 1)
        wider = np.ones(1)
        if ahead > 1:
            wider = intervals._wider(numbers.state.kind_rows[0, conformal.ABSOLUTE] + np.arange(n + 1))
        step.conclude(
            *(kinds, where, y, predicted, said, *self.bank.standing()),
            *(numbers.records, numbers.buffers, wider, ahead, mixed, bounds),
        )
        told = kinds & PREDICT != 0
        if told.any():
            lower, upper, variance, noise = bounds[:4]
            columns = np.vstack([mixed[:1], variance, noise, lower, upper, bounds[4:], mixed])
            out[:, rows[told], 0] = self._shown(columns)[:, told]
        return mixed

    def _shown(self, columns: FloatArray) -> FloatArray:
        """Before any line has something to say the prediction claims nothing: mean 0, an infinite variance.

        While no line has erred, no scale is known but the size of the first target.
        """
        if np.isfinite(columns[[0, -2, -1]].sum()):
            return columns
        mean, raw = columns[0], columns[-3:]
        unknown = np.isnan(mean)
        unscaled = np.isnan(raw[1] + raw[2]) & ~unknown & (mean != 0.0)
        half = np.where(unknown, np.inf, gaussian_reach(self.level) * np.abs(mean))
        changed = unknown | unscaled
        columns[0, unknown] = raw[0, unknown] = 0.0
        columns[3:5, changed] = np.stack([columns[0] - half, columns[0] + half])[:, changed]
        columns[1, unscaled] = columns[0, unscaled] ** 2
        for variances in (columns[1:3], raw[1:]):
            variances[0, unknown] = np.inf
            variances[1, unknown] = 0.0
        columns[2, unscaled] = raw[2, unscaled] = 0.0
        return columns

    def ahead(self, X: FloatArray, ticks: FloatArray, pasts: Sequence[Past]) -> FloatArray:
        """Mean, variance and noise, (3, n), of rows of which each follows a past of its own."""
        d, F, none = self.layout.own, np.empty((len(X), self.layout.width)), np.zeros(1, dtype=np.int64)
        for t, past in enumerate(pasts):
            F[t] = past.see(np.ascontiguousarray(X[t : t + 1, :d]), ticks, past.known, none)[0]
        return self._asked(F)[:3]

    def means(self, F: FloatArray) -> FloatArray:
        """What would be predicted of rows with these features, (n,)."""
        return self._asked(F)[0]

    def _asked(self, F: FloatArray) -> FloatArray:
        n = len(F)
        out, rows = np.empty((len(self._columns), n, 1)), np.arange(n)
        self._say(np.full(n, PREDICT), rows, F, np.full(n, np.nan), NO_CONDITIONS, self._said, out, rows)
        return out[..., 0]

    def _told(self, columns: Sequence[Any]) -> Prediction:
        mean, variance, noise, lower, upper, *shape = columns[:-3]
        return CalibratedPrediction(mean, variance, noise, lower, upper, self.level, Prediction(*columns[-3:]), shape)

    def _keep(self, F: FloatArray, waiting: FloatArray, y: FloatArray, mean: FloatArray) -> None:
        """Keep rows that are over; change what is due after them."""
        layout, n = self.layout, len(F)
        last = int(self.clock[choosing.SEEN]) + n
        where = np.arange(last - n, last) % self._room
        d = layout.own
        self.kept[where, :d], self.kept[where, d] = F[:, :d], F[:, layout.clock]
        self.kept[where, d + 1 : d + 4] = waiting[:, [EVERY, MISSING, KNOWN]]
        self.kept[where, d + 4] = y
        if self.drift:
            choosing.watch(self, F[:, layout.newest], y, mean)
        self.clock[choosing.SEEN] = last
        if last == self._next_change():
            choosing.change(self)
            self._next = -1.0
        if self.background:
            choosing.begin_work(self)

    def _next_change(self) -> float:
        """The next row after which something changes."""
        if self._next < 0:
            self._next = choosing.next_change(self)
        return self._next

    def _may_fail(self) -> bool:
        return int(self.clock[choosing.SEEN]) + 1 in (self._next_change(), *self._looks)

    def rows_between(self, start: int, stop: int) -> Rows:
        """The features and targets of rows that came after this many, as far as they are kept, oldest first."""
        d, layout, start = self.layout.own, self.layout, max(start, int(self.clock[choosing.SEEN]) - self._room)
        kept = self.kept[np.arange(start, stop) % self._room]
        known = kept[:, d + 3].astype(np.int64)
        reached = known > self.past.known[0] - len(self.past.told) + max([layout.past, *layout.backs])
        kept, known = kept[reached], known[reached]
        X = np.ascontiguousarray(kept[:, :d])
        ticks = np.column_stack([kept[:, d] - layout.ahead * kept[:, d + 1], kept[:, d + 1]])
        before = np.concatenate([X[:1], X[:-1]])
        F = self.past.see(X, ticks, known, np.zeros(len(X), dtype=np.int64), before)
        return Rows(F, kept[:, d + 4].copy())

    # The first rows are learned anew where fill values are found among their targets.

    def _look_back(self) -> None:
        seen, d = int(self.clock[choosing.SEEN]), self.layout.own
        rows = self.kept[:seen].copy()
        left = outliers.without_fill_values(rows[:, d + 4 :].copy(), False)
        struck = np.count_nonzero(np.isnan(left) & ~np.isnan(rows[:, d + 4 :]))
        if not struck:
            return
        struck += int(self.struck[0])
        self._fresh()
        X = np.ascontiguousarray(np.column_stack([rows[:, : d + 1], rows[:, d + 1 : d + 3]]))
        looks, self._looks = self._looks, ()
        self._pass(np.column_stack([np.arange(seen), np.full(seen, ADVANCE | LEARN)]), X, left, None, None)
        self._looks, self.struck[0] = looks, struck

    # The state.

    def _start(self, d: int, p: int) -> None:
        if d != self.layout.own + TICK or p != 1:
            raise ValueError(f"a table of {self.layout.own} inputs takes {self.layout.own + TICK} columns; got {d}")

    def _children(self) -> dict[str, Any]:
        return {f"line.{k}": line.process for k, line in enumerate(self.bank.lines) if line.process is not None}

    def _arrays(self) -> dict[str, np.ndarray]:
        named = {"kept": self.kept, "doubts": self.doubts, "struck": self.struck, "clock": self.clock}
        named |= {"ranks": self.ranks} | {f"past.{name}": array for name, array in self.past.arrays().items()}
        named |= {f"interval.{name}": array for name, array in self._intervals._numbers.arrays().items()}
        named |= {f"bank.{name}": array for name, array in self.bank.arrays().items()}
        for k, line in enumerate(self.bank.lines):
            named |= {f"line.{k}.units": line.units, f"line.{k}.target_units": line.target_units}
            if line.forest is not None:
                named |= {f"line.{k}.{name}": array for name, array in line.forest._asdict().items()}
        return named

    def _changing(self) -> Iterable[Any]:
        yield from vars(self).values()
        yield from self.past.arrays().values()
        yield from self.bank.changing()
        yield self._intervals._numbers

    def _structure(self) -> dict[str, Any]:
        lines = [
            [line.name, line.kind, list(line.columns), line.origin, line.timed, line.varies,
             None if line.process is None else line.process.clone()]
            for line in self.bank.lines
        ]
        chosen = None if self.chosen is None else list(self.chosen)
        return {
            "lines": lines, "events": list(self.events), "chosen": chosen, "tasks": [list(task) for task in self.tasks]
        } | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        lines = []
        for name, kind, columns, origin, timed, varies, process in structure["lines"]:
            if process is not None:
                process._prepare(Shape(len(columns), 1, scalar=False, certain=True))
            lines.append(
                Line(
                    str(name), int(kind), tuple(columns), int(origin), process,
                    np.zeros((2, len(columns) if process is not None else 0)), np.zeros(2), bool(timed), bool(varies),
                    Forest.empty() if kind == step.FOREST else None,
                )
            )
        width = self.layout.width
        if any(not 0 <= column < width for line in lines for column in (*line.columns, max(line.origin, 0))):
            raise SnapshotError(f"the snapshot has lines that see other columns than the {width} there are")
        self.bank = self.bank.placed(()).placed(lines)
        self.events = tuple(int(row) for row in structure["events"])
        self.chosen = Chosen.read(structure["chosen"])
        self.tasks = tuple(Task.read(task) for task in structure["tasks"])
        self._next = -1.0
        super()._rebuild(structure)

    def _restore(self, saved: dict[str, np.ndarray]) -> None:
        super()._restore(saved)
        self.bank = self.bank.placed(self.bank.lines)  # units are in the table of the bank, too

    def _check_restored(self) -> None:
        self.past.check()
        outliers.check(self.doubts)
        require("fill values", self.struck, at_least=0)
        require("clock", self.clock, at_least=-1)
        require("ranks", self.ranks, at_least=0)
        for line in self.bank.lines:
            if line.forest is not None:
                Forest.from_arrays(line.forest._asdict(), self.layout.width)
        super()._check_restored()

    def reset_memory(self) -> None:
        self.past.begin_again()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self.past.x[0], np.array([self.past.last])

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return int(self.clock[choosing.SEEN])

    @property
    def weights(self) -> FloatArray:
        """How much each line counts at present."""
        return self.bank.weights()

    @property
    def health(self) -> Health:
        doubted = outliers.refused(self.doubts) + int(self.struck[0])
        return super().health._replace(fill_values=doubted)

    @property
    def leader(self) -> Any:
        """The process with the most weight; None where there is none yet."""
        weights = [(weight, -k) for k, weight in enumerate(self.weights) if self.bank.lines[k].process is not None]
        return self.bank.lines[-max(weights)[1]].process if weights else None

    @property
    def size(self) -> int:
        return 0 if self.leader is None else self.leader.size

    @property
    def basis(self) -> FloatArray:
        return np.empty((0, 0)) if self.leader is None else self.leader.basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return {} if self.leader is None else self.leader.hyperparameters



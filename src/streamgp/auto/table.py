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
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT, TAKE, TELL, listed, predicted_too
from streamgp.contract.laws import gaussian_reach
from streamgp.contract.model import Health, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.recipes.naive import RunningMean
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers
from streamgp.wrappers.aggregation import COUNT, HIGHEST, ISSUED, LOWEST, MARGIN
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.drift import watch_beside

MEMORY = 100  # rows over which errors count as recent
REACH = 1.0  # a prediction is at most so many of the largest steps from the last target, or near the range of all
# Fill values among the first targets cannot be told when they come. They are looked for whenever the rows have doubled:
# in the end a target may lie 33 widths beyond the range of the others, and never less than 20 (wrappers/outliers.py).
LOOKS = tuple(outliers.FEWEST << k for k in range(6))
# A doubted target was real if the lines had said at least this share of what lies beyond the range.
EXPLAINED = 0.5
BOUNDED = 500  # targets from which intervals end where their range does
NO_CONDITIONS = np.empty((0, WEIGHT + 2))
# Of a row that waits, before its features: how many targets were known, the time between rows, and missing rows.
KNOWN, EVERY, MISSING = range(3)
WAITING = MISSING + 1


class Lines(NamedTuple):
    """What rows that wait for their targets keep, (n, ...) each: one line for each row.

    Args:
        waiting: how many targets were known, the time between rows, and missing rows.
        features: of the row.
        lines: what was said of it (aggregation.combine).
        interval: its interval (conformal.calibrate).
    """

    waiting: FloatArray
    features: FloatArray
    lines: FloatArray
    interval: FloatArray

    @classmethod
    def of(cls, kept: FloatArray, width: int) -> Lines:
        """Those in one array, copied."""
        ends = WAITING, WAITING + width, WAITING + width + ISSUED
        return cls(*(np.ascontiguousarray(part) for part in np.split(kept, ends, axis=1)))

    @classmethod
    def none(cls, n: int, width: int, table: Table) -> Lines:
        """Empty ones."""
        return cls.of(np.empty((n, table._kept_width)), width)


def _bound(ops: np.ndarray, y: FloatArray, seen: FloatArray, told: FloatArray) -> None:
    """Let intervals end where the range of the targets so far does, widened by a tenth of it.

    Args:
        ops: operations that are done.
        y: (n,) targets.
        seen: what was known of targets before them, see aggregation.limits().
        told: (columns, n, 1) predictions.
    """
    rows, kinds = ops.T
    targets = np.where(kinds & LEARN != 0, y[rows], np.nan)
    lowest = np.fmin.accumulate(np.append(seen[LOWEST], targets))[:-1]
    highest = np.fmax.accumulate(np.append(seen[HIGHEST], targets))[:-1]
    count = seen[COUNT] + np.cumsum(np.append(0, np.isfinite(targets)))[:-1]
    some = (kinds & PREDICT != 0) & (count >= BOUNDED)
    margin, mean = MARGIN * (highest - lowest)[some], told[0, rows[some], 0]
    lower, upper = told[3:5, rows[some], 0]
    told[3, rows[some], 0] = np.maximum(lower, np.minimum(mean, lowest[some] - margin))
    told[4, rows[some], 0] = np.minimum(upper, np.maximum(mean, highest[some] + margin))


def listed_kinds(kinds: np.ndarray) -> np.ndarray:
    """Operations of these kinds on rows in order."""
    return np.stack([np.arange(len(kinds)), kinds], axis=1)


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
        self._intervals = Calibrated(RunningMean(), level=self.level)
        self._intervals._prepare(Shape(0, 1, scalar=False, certain=True, ahead=max(layout.ahead, 1)))
        self.kept = np.zeros((self._room, layout.own + 5))  # inputs, time, spacing, missing rows, known targets, target
        self.doubts, self.struck = np.zeros((1, outliers.NUMBERS)), np.zeros(1, dtype=np.int64)
        self.clock, self.ranks = choosing.begin()
        self.events: tuple[int, ...] = ()  # rows at which the stream changed
        self.chosen: Chosen | None = None
        self.tasks: tuple[Task, ...] = ()
        self.jobs: dict[Task, Any] = {}
        self._next = -1.0

    # Rows.

    @property
    def _kept_width(self) -> int:
        return WAITING + self.layout.width + ISSUED + self._intervals._own_width

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._intervals._columns

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._intervals._told(columns)

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        ops = predicted_too(ops)
        out, start = np.full((len(self._columns), len(X), 1), np.nan), 0
        y = np.full(len(X), np.nan) if Y is None else Y[:, 0]
        late = None if kept is None else Lines.of(kept, self.layout.width)
        told = ops[:, 1] & (LEARN | TELL) == TELL  # a target without a row that learns it; a missing one is none
        if told.any():
            ops = ops[~(told & np.isnan(y[ops[:, 0]]))]
        while start < len(ops):
            stop, doubted = self._until(ops, X, y, start)
            given = None if conditions is None else conditions[start:stop]
            self._take(ops[start:stop], X, y, given, late, doubted, out)
            if late is None and int(self.clock[choosing.SEEN]) in self._looks and ops[stop - 1, 1] & LEARN:
                self._look_back()
            start = stop
        if kept is not None and late is not None:
            kept[:] = np.hstack(late)
        return out

    def _until(self, ops: np.ndarray, X: FloatArray, y: FloatArray, start: int) -> tuple[int, bool]:
        """Up to which operation rows go together, and whether it is a single one whose target is doubted."""
        stop = min(len(ops), start + BLOCK)
        rows, kinds = ops[start:stop].T
        missing = np.where(kinds[1:] & ADVANCE, np.minimum(X[rows[1:], -1], self.layout.longest), 0.0)
        if missing.any():
            too_many = np.flatnonzero(np.cumsum(missing) > (0 if self.layout.ahead else BLOCK))
            stop = start + 1 + int(too_many[0]) if len(too_many) else stop
        learns = np.flatnonzero(kinds[: stop - start] & LEARN)
        if not len(learns):
            return stop, False
        targets = y[rows[learns]]
        left = int(self._next_change() - self.clock[choosing.SEEN])
        unknown = np.flatnonzero(np.isnan(targets))  # the next rows see what was predicted of it
        most = min([left, *(unknown[:1] + 1)])
        if len(learns) >= most:
            learns, targets = learns[:most], targets[:most]
            stop = start + int(learns[-1]) + 1
        if self.screen and not (len(targets) == 1 and outliers.within(self.doubts, targets)):
            believed = outliers.doubted(self.doubts.copy(), targets[:, None])[:, 0]
            doubts = np.flatnonzero(np.isnan(believed) & ~np.isnan(targets))
            if len(doubts):
                first = start + int(learns[doubts[0]])
                return (first, False) if first > start else (start + 1, True)
        return stop, False

    def _take(
        self,
        ops: np.ndarray,
        X: FloatArray,
        y: FloatArray,
        conditions: FloatArray | None,
        late: Lines | None,
        doubted: bool,
        out: FloatArray,
    ) -> None:
        """Do operations that go together."""
        (rows, kinds), came = ops.T, y
        learns, advances = kinds & LEARN != 0, kinds & ADVANCE != 0
        targets = y[rows[kinds & (LEARN | TELL) != 0]]
        # What follows sees the targets that came before it; what stands for the last one may depend on the prediction.
        open_ = bool(learns.any()) and (doubted or bool(np.isnan(targets[-1])))
        seen, waiting = self._seen(ops, X, targets[:-1] if open_ else targets, late)
        if late is None:
            ops, y, own = listed_kinds(kinds), y[rows], Lines.none(1 if doubted else 0, self.layout.width, self)
            own.features[:1], told = seen[: len(own.features)], np.empty((len(self._columns), len(rows), 1))
        else:
            own, told = late, out
        given = NO_CONDITIONS
        if conditions is not None and not np.isnan(conditions[:, TIME + 1 :]).all():
            given = np.ascontiguousarray(conditions)
        if doubted:
            ops, y = self._doubted(ops, seen, y, given, own, told)
            came[rows[0]] = y[ops[0, 0]]
        elif learns.any() and self.screen:
            outliers.doubt(self.doubts, y[ops[learns, 0]][:, None].copy())
        if late is not None and np.isnan(late.waiting[rows[learns], KNOWN]).any():
            y = np.where(np.isnan(late.waiting[:, KNOWN]), np.nan, y)  # never seen: nothing is learned
        self._say(ops, seen, y, given, own, told)
        if late is None:
            out[:, rows] = told
        if advances.any():
            self.past.x[:] = X[rows[advances][-1], : self.layout.own]
        if learns.any():
            at = ops[learns, 0]
            means = own.interval[at, 0] if late is not None or doubted else told[0, at, 0]
            if open_:
                value = next((v for v in (y[at[-1]], means[-1], self.past.last) if np.isfinite(v)), np.nan)
                self.past.tell(np.array([value] if np.isfinite(value) else []))
            kept = waiting[learns] if late is None else late.waiting[at]
            self._keep(seen[at], kept, y[at], means)

    def _seen(
        self, ops: np.ndarray, X: FloatArray, targets: FloatArray, late: Lines | None
    ) -> tuple[FloatArray, FloatArray]:
        """Features of rows, and what they keep besides; targets become known on the way."""
        (rows, kinds), d, past = ops.T, self.layout.own, self.past
        learns, advances = kinds & (LEARN | TELL) != 0, kinds & ADVANCE != 0
        now = kinds & (PREDICT | ADVANCE) != 0
        ticks = X[rows, d:]
        gaps = np.where(now, ticks[:, 2], 0.0).astype(np.int64)
        if self.layout.ahead and advances[0] and gaps[0]:
            past.bridge(int(gaps[0]))
            gaps[0] = 0
        gaps = np.minimum(gaps, self.layout.longest)
        filled = np.where(advances & (past.known[0] > 0), gaps, 0)
        known = past.known[0] + np.cumsum(learns) - learns + np.cumsum(filled)
        before = np.concatenate([past.x, X[rows[advances], :d]])[np.cumsum(advances) - advances]
        before = np.where(np.isnan(before), X[rows, :d], before)  # the first row comes after one like it
        past.tell_after(targets, filled, learns)
        waiting = np.column_stack([known, ticks[:, 1], gaps]).astype(float)
        F = past.see(
            *(np.ascontiguousarray(X[rows[now], :d]), np.ascontiguousarray(ticks[now]), known[now]),
            *(np.where(advances, 0, gaps)[now], before[now]),
        )
        if late is None:
            return F, waiting
        late.features[rows[now]], late.waiting[rows[now]] = F, waiting[now]
        return late.features, waiting

    def _doubted(
        self, ops: np.ndarray, F: FloatArray, y: FloatArray, given: FloatArray, kept: Lines, told: FloatArray
    ) -> tuple[np.ndarray, FloatArray]:
        """Predict a row whose target is doubted; what is left to do, and the target, NaN unless it was real.

        It was if the lines explain it, or if others like it have come.
        """
        row, kind = ops[0].tolist()
        if kind & PREDICT:
            self._say(np.array([[row, PREDICT]]), F, y, given, kept, told)
        state, target, mean = self.doubts[0], y[row], self.bank.best_says(F[row])
        beyond = max(state[outliers.LOWEST + 1] - target, target - state[outliers.HIGHEST + 1])
        if abs(target - mean) <= (1.0 - EXPLAINED) * beyond:
            state[outliers.EVIDENCE] = outliers.THIRD
        y = y.copy()
        y[row] = outliers.doubted(self.doubts, np.array([[target]]))[0, 0]
        return np.array([[row, LEARN]]), y

    def _say(
        self, ops: np.ndarray, F: FloatArray, y: FloatArray, given: FloatArray, kept: Lines, told: FloatArray
    ) -> None:
        """Let all lines predict and learn; what is made of what they say goes into told, (columns, n, 1)."""
        intervals, rows = self._intervals, ops[ops[:, 1] & PREDICT != 0, 0]
        mixed, seen = told[-3:].reshape(3, -1), self.bank.seen.copy()
        self.bank.say(ops, F, y, given, kept.lines, mixed)
        intervals._calibrate(ops, y[:, None], kept.interval, told)
        if self.bank.seen[COUNT] >= BOUNDED:
            _bound(ops, y, seen, told)
        if len(rows) and not np.isfinite(told[1:3, rows].sum()):
            told[:, rows, 0] = self._unknown(told[:, rows, 0])

    def _unknown(self, columns: FloatArray) -> FloatArray:
        """Before any line has something to say the prediction claims nothing: mean 0, an infinite variance.

        While no line has erred, no scale is known but the size of the first target.
        """
        mean, raw = columns[0], columns[-3:]
        unknown = np.isnan(mean)
        unscaled = ~np.isfinite(columns[1] + columns[2]) & ~unknown & (mean != 0.0)
        half = np.where(unknown, np.inf, gaussian_reach(self.level) * np.abs(mean))
        changed = unknown | unscaled
        columns[0, unknown] = raw[0, unknown] = 0.0
        columns[3:5, changed] = np.stack([columns[0] - half, columns[0] + half])[:, changed]
        columns[1, unscaled] = columns[0, unscaled] ** 2
        for variances in (columns[1:3], raw[1:]):
            variances[0, unknown] = np.inf
            variances[1, unknown] = 0.0
        columns[2, unscaled] = 0.0
        return columns

    def ahead(self, X: FloatArray, ticks: FloatArray, pasts: Sequence[Past]) -> FloatArray:
        """Mean, variance and noise, (3, n), of rows of which each follows a past of its own."""
        d, F, none = self.layout.own, np.empty((len(X), self.layout.width)), np.zeros(1, dtype=np.int64)
        for t, past in enumerate(pasts):
            F[t] = past.see(np.ascontiguousarray(X[t : t + 1, :d]), ticks, past.known, none)[0]
        return np.asarray(self._asked(F)[:3])

    def means(self, F: FloatArray) -> FloatArray:
        """What would be predicted of rows with these features, (n,)."""
        return np.asarray(self._asked(F)[0])

    def _asked(self, F: FloatArray) -> FloatArray:
        told = np.empty((len(self._columns), len(F), 1))
        none = Lines.none(0, self.layout.width, self)
        self._say(listed(len(F), PREDICT), F, np.full(len(F), np.nan), NO_CONDITIONS, none, told)
        return told[..., 0]

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
            self._next = min([choosing.next_change(self), *self._looks_left])
        return self._next

    @property
    def _looks_left(self) -> list[int]:
        """After how many rows the first ones are looked at again."""
        return [look for look in self._looks if look > self.clock[choosing.SEEN]]

    @property
    def next_build(self) -> int:
        """The number of rows after which lines are built or join next, or the first rows are looked at again."""
        return min([choosing.next_build(self), *self._looks_left])

    def _may_fail(self) -> bool:
        return int(self.clock[choosing.SEEN]) + 1 == self._next_change()

    def rows_between(self, start: int, stop: int) -> Rows:
        """The features and targets of rows that came after this many, as far as they are kept, oldest first."""
        d, layout, start = self.layout.own, self.layout, max(start, int(self.clock[choosing.SEEN]) - self._room)
        kept = self.kept[np.arange(start, stop) % self._room]
        first = self.kept[(start - 1) % self._room] if start > int(self.clock[choosing.SEEN]) - self._room else kept[0]
        before = np.concatenate([first[None, :d] if start else kept[:1, :d], kept[:-1, :d]])
        known = kept[:, d + 3].astype(np.int64)
        reached = known > self.past.known[0] - len(self.past.told) + layout.longest
        kept, known, before = kept[reached], known[reached], before[reached]
        ticks = np.column_stack([kept[:, d] - layout.ahead * kept[:, d + 1], kept[:, d + 1]])
        F = self.past.see(np.ascontiguousarray(kept[:, :d]), ticks, known, np.zeros(len(kept), dtype=np.int64), before)
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
        self._pass(listed(seen, TAKE), X, left, None, None)
        self._looks, self.struck[0], self._next = looks, struck, -1.0

    # The state.

    def _start(self, d: int, p: int) -> None:
        if d != self.layout.own + TICK or p != 1:
            raise ValueError(f"a table of {self.layout.own} inputs takes {self.layout.own + TICK} columns; got {d}")

    def _children(self) -> dict[str, Any]:
        return {f"process.{k}": line.process for k, line in enumerate(self.bank.lines) if line.process is not None}

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
            [
                line.name,
                line.kind,
                list(line.columns),
                line.origin,
                line.timed,
                line.varies,
                None if line.process is None else line.process.clone(),
            ]
            for line in self.bank.lines
        ]
        chosen = None if self.chosen is None else self.chosen.written()
        return {
            "lines": lines,
            "events": list(self.events),
            "chosen": chosen,
            "tasks": [list(task) for task in self.tasks],
        } | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        lines = []
        for name, kind, columns, origin, timed, varies, process in structure["lines"]:
            if process is not None:
                process._prepare(Shape(len(columns), 1, scalar=False, certain=True))
            lines.append(
                Line(
                    str(name),
                    int(kind),
                    tuple(columns),
                    int(origin),
                    process,
                    np.zeros((2, len(columns) if process is not None else 0)),
                    np.zeros(2),
                    bool(timed),
                    bool(varies),
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

    def _check_restored(self) -> None:
        self.past.check()
        outliers.check(self.doubts)
        require("fill values", self.struck, at_least=0)
        require("clock", self.clock, at_least=-1)
        require("ranks", self.ranks, at_least=0)
        for line in self.bank.lines:
            if line.forest is not None:
                line.forest.check(self.layout.width)
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

"""Table: what predicts one output. A row becomes features, all lines say something, and one prediction is made of it.

Lines are built in the background from the rows so far, and join after a fixed row (auto/choosing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import choosing, step
from streamgp.auto.bank import NONE_GIVEN, Bank, Line
from streamgp.auto.choosing import Chosen, Task
from streamgp.auto.features import BLOCK, Past
from streamgp.auto.forest import WINDOW, Forest
from streamgp.auto.lines import Builder, Rows
from streamgp.contract.conditions import TIME
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT, TAKE, TELL, listed, predicted_too
from streamgp.contract.laws import gaussian_reach
from streamgp.contract.model import Relevance, Shape, StreamModel
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.naive import RunningMean
from streamgp.settings import FloatArray, Maybe
from streamgp.wrappers import outliers
from streamgp.wrappers.aggregation import COUNT, HIGHEST, ISSUED, LOWEST, MARGIN
from streamgp.wrappers.calibrated import Calibrated

# Fill values among the first targets cannot be told when they come. They are looked for whenever the rows have doubled:
# in the end a target may lie 33 widths beyond the range of the others, and never less than 20 (wrappers/outliers.py).
LOOKS = tuple(outliers.FEWEST << k for k in range(6))
# A doubted target was real if the lines had said at least this share of what lies beyond the range.
EXPLAINED = 0.5
BOUNDED = 500  # targets from which intervals end where their range does
NOUGHT = np.zeros(1, dtype=np.int64)
# Of a row that waits, before its features: how many targets were known, the time between rows, and missing rows.
WHEN = KNOWN, EVERY, MISSING = range(3)


class Waiting(NamedTuple):
    """What rows keep until they are learned, (n, ...) each.

    Args:
        when: how many targets were known, the time between rows, and missing rows.
        features: of the row.
        said: of it by the lines (aggregation.combine).
        interval: its interval (conformal.calibrate).
    """

    when: FloatArray
    features: FloatArray
    said: FloatArray
    interval: FloatArray


def _bound(ops: np.ndarray, y: FloatArray, seen: FloatArray, told: FloatArray) -> None:
    """Let intervals end where the range of the targets so far does, those in seen and then y, widened by a tenth."""
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


class Table(StreamModel):
    """What predicts one output from the columns of a row, its time, its own past and seasons.

    Rows come with three more columns: their time, the time between rows, and how many rows are missing before them.
    """

    doing: Callable[[str], None] = staticmethod(lambda _: None)  # told what takes seconds

    builder: Builder
    level: float  # of the intervals
    warmup: int  # rows after which processes are chosen
    drift: bool  # whether to look for changes
    screen: bool  # whether targets are doubted
    background: bool  # whether a thread builds lines while rows are answered
    trees: bool  # whether a forest sits at the table

    def __init__(self, plan: dict[str, Any]) -> None:
        vars(self).update(plan)
        self.layout = self.builder.layout
        self._needs_time = self.builder.candidates.get("half_life") is not None
        self.looks = LOOKS if self.screen and not self.layout.ahead else ()
        self._room = max(self.warmup, LOOKS[-1], WINDOW if self.trees else 0)
        self._fresh()

    def _fresh(self) -> None:
        """The state before the first row."""
        layout = self.layout
        self.past = Past(layout, self._room)
        self.bank = Bank(layout.clock, float(max(layout.ahead, 1))).placed(self.builder.naive())
        self.intervals = Calibrated(RunningMean(), level=self.level)
        self.intervals._prepare(Shape(0, 1, scalar=False, certain=True, ahead=max(layout.ahead, 1)))
        self._count = len(self.intervals._columns)
        self._widths = len(WHEN), layout.width, ISSUED, self.intervals._own_width  # of the parts of Waiting
        self.kept = np.zeros((self._room, layout.own + 1 + len(WHEN) + 1))  # inputs, time, Waiting.when, target
        self.doubts = np.zeros((1, outliers.NUMBERS))
        self.clock, self.ranks = np.array(choosing.BEGIN, dtype=np.int64), np.zeros(choosing.RANKS)
        self.events: tuple[int, ...] = ()  # rows at which the stream changed
        self.chosen: Chosen | None = None
        self.tasks: tuple[Task, ...] = ()
        self.jobs: dict[Task, Any] = {}
        self._next = -1.0

    # Rows.

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return sum(self._widths)

    def _waiting(self, kept: FloatArray) -> Waiting:
        """Of rows whose numbers these are, copied."""
        parts = np.split(kept, np.cumsum(self._widths[:-1]), axis=1)
        return Waiting(*(np.ascontiguousarray(part) for part in parts))

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        ops = predicted_too(ops)
        out, start = np.full((self._count, len(X), 1), np.nan), 0
        y = np.full(len(X), np.nan) if Y is None else Y[:, 0]
        told = ops[:, 1] & (LEARN | TELL) == TELL  # a target without a row that learns it; a missing one is none
        if told.any():
            ops = ops[~(told & np.isnan(y[ops[:, 0]]))]
        while start < len(ops):
            stop, doubted = self._until(ops, X, y, start)
            given = None if conditions is None else conditions[start:stop]
            self._take(ops[start:stop], X, y, given, kept, doubted, out)
            if kept is None and int(self.clock[choosing.SEEN]) in self.looks and ops[stop - 1, 1] & LEARN:
                self._look_back()
            start = stop
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
        conditions: Maybe,
        kept: Maybe,
        doubted: bool,
        out: FloatArray,
    ) -> None:
        """Do operations that go together."""
        kinds = ops[:, 1]
        some, at = np.unique(ops[:, 0], return_inverse=True) if len(ops) > 1 else (ops[:, 0], NOUGHT)
        ops, X, targets = np.stack([at, kinds], axis=1), X[some], y[some]
        waiting = self._waiting(np.zeros((len(some), self._kept_width)) if kept is None else kept[some])
        learns, advances, learned = kinds & LEARN != 0, kinds & ADVANCE != 0, at[kinds & LEARN != 0]
        known = targets[at[kinds & (LEARN | TELL) != 0]]
        # What follows sees the targets that came before it; what stands for the last one may depend on the prediction.
        open_ = len(learned) > 0 and (doubted or bool(np.isnan(known[-1])))
        self._see(ops, X, known[:-1] if open_ else known, waiting)
        given, todo, told = NONE_GIVEN, ops, np.full((self._count, len(some), 1), np.nan)
        if conditions is not None and not np.isnan(conditions[:, TIME + 1 :]).all():
            given = np.ascontiguousarray(conditions)
        if doubted:
            self._judge(ops, waiting, targets, given, told)
            todo, y[some] = ops & np.array([-1, LEARN]), targets
        elif len(learned) and self.screen:
            outliers.doubt(self.doubts, targets[learned][:, None])
        targets[np.isnan(waiting.when[:, KNOWN])] = np.nan  # never seen: nothing is learned
        self._say(todo, waiting, targets, given, told)
        asked = at[kinds & PREDICT != 0]
        out[:, some[asked]] = told[:, asked]
        if advances.any():
            self.past.x[:] = X[at[advances][-1], : self.layout.own]
        if len(learned):
            means = np.where(advances[learns], told[0, learned, 0], waiting.interval[learned, 0])
            if open_:
                value = next((v for v in (targets[learned[-1]], means[-1], self.past.last) if np.isfinite(v)), np.nan)
                self.past.tell(np.array([value] if np.isfinite(value) else []))
            self._keep(waiting.features[learned], waiting.when[learned], targets[learned], means)
        if kept is not None:
            kept[some] = np.hstack(waiting)

    def _see(self, ops: np.ndarray, X: FloatArray, targets: FloatArray, waiting: Waiting) -> None:
        """Let rows wait with their features, and targets become known on the way."""
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
        waiting.when[rows[now]] = np.column_stack([known, ticks[:, 1], gaps])[now]
        left = np.where(advances, 0, gaps)[now]  # missing rows that no target stands for
        waiting.features[rows[now]] = past.see(X[rows[now], :d], ticks[now], known[now], left, before[now])

    def _judge(
        self, ops: np.ndarray, waiting: Waiting, targets: FloatArray, given: FloatArray, told: FloatArray
    ) -> None:
        """Predict a row whose target is doubted, and let it be missing unless it was real.

        It was if the lines explain it, or if others like it have come.
        """
        if ops[0, 1] & PREDICT:
            self._say(ops & np.array([-1, PREDICT]), waiting, targets, given, told)
        state, target, mean = self.doubts[0], targets[0], self.bank.best_says(waiting.features[0])
        beyond = max(state[outliers.LOWEST + 1] - target, target - state[outliers.HIGHEST + 1])
        if abs(target - mean) <= (1.0 - EXPLAINED) * beyond:
            state[outliers.EVIDENCE] = outliers.THIRD
        outliers.doubt(self.doubts, targets[:, None])

    def _say(self, ops: np.ndarray, waiting: Waiting, y: FloatArray, given: FloatArray, told: FloatArray) -> None:
        """Let all lines predict and learn; what is made of what they say goes into told, (columns, n, 1)."""
        rows = ops[ops[:, 1] & PREDICT != 0, 0]
        mixed, seen = told[-3:].reshape(3, -1), self.bank.seen.copy()
        self.bank.say(ops, waiting.features, y, given, waiting.said, mixed)
        self.intervals._calibrate(ops, y[:, None], waiting.interval, told)
        if self.bank.seen[COUNT] >= BOUNDED:
            _bound(ops, y, seen, told)
        if len(rows) and not np.isfinite(told[1:3, rows].sum()):
            told[:, rows, 0] = self._unknown(told[:, rows, 0])

    def _unknown(self, columns: FloatArray) -> FloatArray:
        """Before any line has something to say the prediction claims nothing: mean 0, an infinite variance.

        While no line has erred, no scale is known but the size of the first target.
        """
        unknown, some = np.isnan(columns[0]), ~np.isfinite(columns[1] + columns[2]) & (columns[0] != 0.0)
        mean = np.nan_to_num(columns[0, some])
        variance = np.where(np.isnan(columns[0, some]), np.inf, mean**2)
        half = gaussian_reach(self.level) * np.sqrt(variance)
        columns[:5, some] = mean, variance, np.zeros_like(mean), mean - half, mean + half
        columns[-3:, unknown] = columns[:3, unknown]
        return columns

    def said(self, F: FloatArray) -> FloatArray:
        """The columns of the predictions of rows with these features, (columns, n)."""
        told = np.empty((self._count, len(F), 1))
        waiting = self._waiting(np.zeros((len(F), self._kept_width)))._replace(features=F)
        self._say(listed(len(F), PREDICT), waiting, np.full(len(F), np.nan), NONE_GIVEN, told)
        return told[..., 0]

    def _keep(self, F: FloatArray, when: FloatArray, y: FloatArray, mean: FloatArray) -> None:
        """Keep rows that are over; change what is due after them."""
        layout, last = self.layout, int(self.clock[choosing.SEEN]) + len(F)
        where = np.arange(last - len(F), last) % self._room
        self.kept[where] = np.column_stack([F[:, : layout.own], F[:, layout.clock], when, y])
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

    @property
    def _may_fail(self) -> bool:  # type: ignore[override]
        return int(self.clock[choosing.SEEN]) + 1 == self._next_change()

    def rows_between(self, start: int, stop: int) -> Rows:
        """The features and targets of rows that came after this many, as far as they are kept, oldest first."""
        d, layout, oldest = self.layout.own, self.layout, int(self.clock[choosing.SEEN]) - self._room
        start = max(start, oldest)
        kept = self.kept[np.arange(start, stop) % self._room]
        first = self.kept[(start - (start > max(oldest, 0))) % self._room, :d]  # after one like it, if none is known
        before = np.concatenate([first[None], kept[:-1, :d]])[: len(kept)]
        known, every = kept[:, d + 1 + KNOWN].astype(np.int64), kept[:, d + 1 + EVERY]
        ticks = np.column_stack([kept[:, d] - layout.ahead * every, every])
        reached = known > self.past.known[0] - len(self.past.told) + layout.longest
        kept, known, none = kept[reached], known[reached], np.zeros(int(reached.sum()), dtype=np.int64)
        return Rows(self.past.see(kept[:, :d], ticks[reached], known, none, before[reached]), kept[:, -1].copy())

    # The first rows are learned anew where fill values are found among their targets.

    def _look_back(self) -> None:
        seen, d = int(self.clock[choosing.SEEN]), self.layout.own
        rows = self.kept[:seen].copy()
        left = outliers.without_fill_values(rows[:, -1:].copy(), False)
        struck = int(self.clock[choosing.STRUCK]) + np.count_nonzero(np.isnan(left) & ~np.isnan(rows[:, -1:]))
        if struck > self.clock[choosing.STRUCK]:
            self._fresh()
            looks, self.looks = self.looks, ()
            X = rows[:, [*range(d + 1), d + 1 + EVERY, d + 1 + MISSING]]
            self._pass(listed(seen, TAKE), np.ascontiguousarray(X), left, None, None)
            self.looks, self.clock[choosing.STRUCK], self._next = looks, struck, -1.0

    # The state.

    def _start(self, d: int, p: int) -> None:
        """All is there from the beginning."""

    def _children(self) -> dict[str, Any]:
        return {f"process.{k}": line.process for k, line in enumerate(self.bank.lines) if line.process is not None}

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {"kept": self.kept, "doubts": self.doubts, "clock": self.clock, "ranks": self.ranks}
        parts: dict[str, Any] = {"past": self.past, "bank": self.bank, "interval": self.intervals._numbers}
        return own | {f"{part}.{name}": array for part, one in parts.items() for name, array in one.arrays().items()}

    def _structure(self) -> dict[str, Any]:
        lines = [
            [line.name, line.kind, list(line.columns), line.origin, line.varies, line.process and line.process.clone()]
            for line in self.bank.lines
        ]
        chosen = self.chosen and [*self.chosen[:3], *map(list, (self.chosen.scores, self.chosen.scores.values()))]
        own = {"lines": lines, "events": list(self.events), "tasks": [list(task) for task in self.tasks]}
        return own | {"chosen": chosen}

    def _rebuild(self, structure: dict[str, Any]) -> None:
        lines = []
        for name, kind, columns, origin, varies, process in structure["lines"]:
            if process is not None:
                process._prepare(Shape(len(columns), 1, scalar=False, certain=True))
            forest = Forest.empty() if kind == step.FOREST else None
            units = np.zeros((2, len(columns)))
            lines.append(Line(name, kind, tuple(columns), origin, process, units, varies=varies, forest=forest))
        width = self.layout.width
        if any(not 0 <= column < width for line in lines for column in (*line.columns, max(line.origin, 0))):
            raise SnapshotError(f"the snapshot has lines that see other columns than the {width} there are")
        self.bank = self.bank.placed(()).placed(lines)
        self.events = tuple(structure["events"])
        if structure["chosen"] is not None:
            names, model, reason, *scores = structure["chosen"]
            self.chosen = Chosen(names, model, reason, dict(zip(*scores, strict=True)))
        self.tasks = tuple(Task(*task) for task in structure["tasks"])
        self._next = -1.0

    def _check_restored(self) -> None:
        self.past.check()
        outliers.check(self.doubts)
        require("clock", self.clock, at_least=-1)
        seen, generation = choosing.SEEN, choosing.GENERATION  # alarms come after processes were chosen
        require("generation", self.clock[[generation]], at_most=-1 if self.chosen is None else self.clock[seen])
        require("ranks", self.ranks, at_least=0)
        for line in self.bank.lines:
            if line.forest is not None:
                line.forest.check(self.layout.width)

    def reset_memory(self) -> None:
        self.past.begin_again()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self.past.x[0], np.array([self.past.last])

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return int(self.clock[choosing.SEEN])

    @property
    def leader(self) -> OnlineGP | None:
        """The process with the most weight; None where there is none yet."""
        lines = zip(self.bank.weights(), self.bank.lines, strict=True)
        processes = [(weight, line.process) for weight, line in lines if line.process is not None]
        return max(processes, key=lambda pair: pair[0])[1] if processes else None

    # Without a process there is nothing to be read.

    @property
    def size(self) -> int:
        return 0

    @property
    def basis(self) -> FloatArray:
        return np.empty((0, 0))

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return {}

    def relevance(self) -> Relevance:
        raise ValueError("Auto has no Gaussian process yet, so it cannot say how relevant its inputs are")

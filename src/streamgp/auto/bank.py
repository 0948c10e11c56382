"""Bank: the table of lines, and what is known of how they do.

A line is an expert as data: what it is, which columns of the features it sees, from which column its target counts, its
units. The numbers of all processes lie side by side, so that one compiled call takes rows through all lines; a second
one makes one prediction of theirs, with a calibrated interval (auto/step.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import step
from streamgp.auto.forest import Forest
from streamgp.compiled import address_of, compile_now
from streamgp.contract import inputs
from streamgp.contract.checks import DUE_AFTER
from streamgp.contract.lanes import ONE, PREDICT
from streamgp.process import rare
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.state import LAYOUT
from streamgp.settings import FloatArray
from streamgp.wrappers import aggregation
from streamgp.wrappers.aggregation import LIMITED, PRIOR, RANGE, ROOM, SPOKEN, VOICES

# A new line has as many rows on which it was tried before it joined; fewer than these count as so many on which its
# squared errors were BEHIND times those of the best: one lucky row is no evidence.
NEWCOMER, BEHIND = 10.0, 2.0
NO_FOREST = Forest.empty()
NONE_GIVEN = np.empty((0, 3))  # conditions


class Line(NamedTuple):
    """An expert.

    Args:
        name: for people.
        kind: VALUE, MEAN, PROCESS or FOREST of auto/step.py.
        columns: of the features that it sees; the one that a VALUE is.
        origin: the column from whose value its target counts; -1: from 0.
        process: in standard units; None: it is none.
        units: (2, columns) what is subtracted from each column, and what the difference is divided by.
        target_units: (2,) the same of the target.
        timed: whether the process sees the time.
        forest: of a FOREST.
    """

    name: str
    kind: int
    columns: tuple[int, ...] = ()
    origin: int = -1
    process: OnlineGP | None = None
    units: FloatArray = np.zeros((2, 0))
    target_units: FloatArray = np.array([0.0, 1.0])
    timed: bool = False
    varies: bool = True
    forest: Forest | None = None


class Bank:
    """Lines side by side, of one output.

    Args:
        clock: the column of the time.
        memory: rows over which errors count as recent.
        reach: see aggregation.limits().
    """

    def __init__(self, clock: int, memory: int, reach: float) -> None:
        self._clock, self._reach = clock, reach
        self._discount = np.array([1.0 - 1.0 / memory])
        self.lines: tuple[Line, ...] = ()
        self.given = np.zeros(1, dtype=np.int64)  # numbers that were given to lines
        self.sums, self.numbers = np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
        self.seen, self.scale = np.zeros(RANGE), np.zeros(6)
        self.regrets, self.errors = np.zeros((3, 3, VOICES)), np.zeros((6, 0))
        self.covariances, self.slopes = np.zeros((3, 0, 0)), np.zeros((3, 0))
        compile_now(step.see, step.run_lines, step.weigh, aggregation.combine)

    @property
    def names(self) -> list[str]:
        return [line.name for line in self.lines]

    def arrays(self) -> dict[str, np.ndarray]:
        """What is known of the lines, by name."""
        names = ("given", "sums", "numbers", "seen", "scale", "regrets", "errors", "covariances", "slopes")
        return {name: getattr(self, name) for name in names}

    # Lines come and go.

    def placed(self, lines: Sequence[Line]) -> Bank:
        """The bank with these lines; one that has the name of an old one has what that one had earned."""
        twin, old = copy(self), {name: k for k, name in enumerate(self.names)}
        kept = [old.get(line.name, -1) for line in lines]
        # Old ones first and in order, so that numbers ascend.
        order = sorted(range(len(lines)), key=lambda i: (kept[i] < 0, kept[i], i))[:ROOM]
        twin.lines = tuple(lines[i] for i in order)
        twin._resize([kept[i] for i in order])
        twin._lay_out()
        return twin

    def _resize(self, kept: list[int]) -> None:
        K, new = len(kept), [i for i, k in enumerate(kept) if k >= 0]
        old = [kept[i] for i in new]
        before = {name: array.copy() for name, array in self.arrays().items()}
        self.sums, self.errors, self.slopes = np.zeros((K, 2)), np.zeros((6, K)), np.zeros((3, K))
        self.regrets = np.zeros((3, 3, max(K, VOICES)))
        self.covariances = np.broadcast_to(PRIOR**2 * np.eye(K), (3, K, K)).copy()
        self.numbers = np.empty(K, dtype=np.int64)
        self.numbers[new] = before["numbers"][old]
        newcomers = K - len(new)
        self.numbers[len(new) :] = before["given"][0] + np.arange(newcomers)
        self.given = before["given"] + newcomers
        self.seen, self.scale = before["seen"], before["scale"]
        self.sums[new], self.errors[:, new] = before["sums"][old], before["errors"][:, old]
        self.slopes[:, new] = before["slopes"][:, old]
        self.regrets[:2][..., new] = before["regrets"][:2][..., old]
        self.regrets[2, :, :VOICES] = before["regrets"][2, :, :VOICES]
        self.covariances[np.ix_(range(3), new, new)] = before["covariances"][np.ix_(range(3), old, old)]

    def _lay_out(self) -> None:
        """Lay the numbers of all processes side by side, and the table over them."""
        processes = [line.process for line in self.lines if line.process is not None]
        sizes = [process._numbers.buffers.shape[1] for process in processes]
        starts = np.cumsum([0, *sizes])
        self._buffer = np.empty(starts[-1])
        like = processes[0]._numbers.records if processes else np.zeros(0, LAYOUT.record)
        self._records = np.empty_like(like, shape=len(processes))
        for i, process in enumerate(processes):
            own = self._buffer[starts[i] : starts[i + 1]]
            own[:], self._records[i] = process._numbers.buffers[0], process._numbers.records[0]
            process._place_at(self._records[i : i + 1], own[None])
        self._table = np.zeros((len(self.lines), step.FIELDS), dtype=np.int64)
        columns: list[int] = []
        at = 0
        for row, line in zip(self._table, self.lines, strict=True):
            row[step.KIND], row[step.ORIGIN], row[step.TIMED], row[step.VARIES] = (
                *(line.kind, line.origin, line.timed, line.varies),
            )
            row[step.FIRST_COLUMN], row[step.COLUMNS] = len(columns), len(line.columns)
            columns += line.columns
            if line.process is not None:
                row[step.LOOP], row[step.RECORD] = address_of(line.process._run), at
                row[step.FIRST_NUMBER], row[step.NUMBERS] = starts[at], sizes[at]
                at += 1
        self._columns = np.array(columns, dtype=np.int64)
        units = [line.units if line.process is not None else np.zeros((2, len(line.columns))) for line in self.lines]
        self._units = np.ascontiguousarray(np.hstack([np.zeros((2, 0)), *units]))
        self._target_units = np.array([line.target_units for line in self.lines]).reshape(-1, 2).T.copy()
        ends = self._table[:, step.FIRST_COLUMN] + self._table[:, step.COLUMNS]
        self.lines = tuple(
            line._replace(
                units=self._units[:, row[step.FIRST_COLUMN] : end] if line.process is not None else line.units,
                target_units=self._target_units[:, k],
            )
            for k, (line, row, end) in enumerate(zip(self.lines, self._table, ends, strict=True))
        )
        self._forest = next((line.forest for line in self.lines if line.forest is not None), NO_FOREST)

    def start_behind(self, tried: dict[str, FloatArray]) -> None:
        """Let new lines have the errors that they made when they were tried, (n,) each, oldest first."""
        with np.errstate(invalid="ignore", divide="ignore"):
            old = [k for k, name in enumerate(self.names) if name not in tried]
            best = [
                np.nanmin(np.append(one[0, old] / one[1, old], np.inf)) for one in (self.errors[:2], self.errors[2:4])
            ]
        for k, name in enumerate(self.names):
            if name not in tried:
                continue
            squares = tried[name][np.isfinite(tried[name])] ** 2
            for pair, factor in ((0, float(self._discount[0])), (2, 0.999)):
                weights = factor ** np.arange(len(squares))[::-1]
                missing = max(NEWCOMER - len(squares), 0.0)
                behind = BEHIND * best[pair // 2] if np.isfinite(best[pair // 2]) else 0.0
                self.errors[pair, k] = float(weights @ squares) + missing * behind
                self.errors[pair + 1, k] = weights.sum() + (missing if np.isfinite(best[pair // 2]) else 0.0)

    def joined(self, lines: Sequence[Line], tried: dict[str, FloatArray]) -> Bank:
        """The bank with lines that take the places of those of their names, or join behind the others."""
        new = {line.name: line for line in lines}
        old = [new.pop(line.name, line) for line in self.lines]
        fresh = {name: errors for name, errors in tried.items() if name in new}
        bank = self.placed([*old, *new.values()])
        bank.start_behind(fresh | {name: np.empty(0) for name in new if name not in fresh})
        return bank

    def weights(self) -> FloatArray:
        """How much each line would count now; they sum to 1."""
        K, said = len(self.lines), np.zeros((3, len(self.lines)))
        weights, scratch = np.zeros((2, K)), np.empty((2, SPOKEN))
        room = aggregation.work_room(K)
        step.weigh(said, self.regrets, self.errors, self.slopes, self.scale, scratch[0], weights[0], room)
        return np.asarray(weights[0])

    def best_says(self, f: FloatArray) -> float:
        """What the line with the lowest error of late says of a row, whatever the limits; NaN: nothing."""
        predicted, errors = self._run(ONE[PREDICT], f[None], np.full(1, np.nan), NONE_GIVEN)[0, 0], self.recent_errors()
        errors[np.isnan(predicted)] = np.nan
        return np.nan if np.isnan(errors).all() else float(predicted[np.nanargmin(errors)])

    @property
    def limited(self) -> int:
        """Rows in which a line was beyond the limits."""
        return int(self.seen[LIMITED])

    def recent_errors(self) -> FloatArray:
        """The root mean squared error of each line of late; NaN where it has none."""
        return self._root(self.errors[0], self.errors[1])

    def long_errors(self) -> FloatArray:
        """The same over about the last thousand rows."""
        return self._root(self.errors[2], self.errors[3])

    def _root(self, squares: FloatArray, rows: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            result: FloatArray = np.sqrt(squares / rows)
        return result

    # Rows.

    def say(
        self, ops: np.ndarray, F: FloatArray, y: FloatArray, given: FloatArray, kept: FloatArray, mixed: FloatArray
    ) -> None:
        """Let all lines predict and learn, and make one prediction of what they say.

        Args:
            ops: the operations, see contract/lanes.py.
            F: (n, width) features.
            y: (n,) targets.
            given: (k, 3) conditions of the operations; (0, 3): there are none.
            kept: a line for each row that waits for its target, see aggregation.combine(); (0, ...): none does.
            mixed: (3, n) receives mean, variance and noise.
        """
        n, K = len(F), len(self.lines)
        predicted = self._run(ops, F, y, given)
        room = np.empty((3, n, K))
        aggregation.combine(
            *(aggregation.STACKED, self._discount, self._reach, ops, y, self.numbers, predicted, kept, self.seen),
            *(self.regrets, self.errors, self.covariances, self.slopes, self.scale),
            *(room[0], np.empty((n, SPOKEN)), room[1], room[2], mixed, aggregation.work_room(K)),
        )

    def _run(self, ops: np.ndarray, F: FloatArray, y: FloatArray, given: FloatArray) -> FloatArray:
        """Let all lines predict and learn; their means, variances and noises, (3, n, lines)."""
        predicted = np.empty((3, len(F), len(self.lines)))
        table = ops, F, y, given, self._clock, self._table, self._columns, self._units, self._target_units, self.sums
        line, stopped, k = 0, -1, len(ops)
        room, what = np.empty(k * step.numbers_of_operation(self._table)), np.empty((k, 2), np.int64)
        while True:
            numbers = *self._forest, self._records, self._buffer
            status, line, stopped = step.run_lines(*table, *numbers, predicted, room, what, line, stopped + 1)
            if status != DUE_AFTER:
                break
            process: Any = self.lines[line].process
            rare.settle(process._numbers.one(0))
        if status:
            inputs.refuse(status, stopped, many=len(ops) > 1)
        return predicted

    def changing(self) -> Iterator[np.ndarray]:
        """All arrays that rows change."""
        yield from self.arrays().values()
        yield from (self._buffer, self._records.view(np.uint8))

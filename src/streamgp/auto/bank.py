"""Bank: the table of lines, and what is known of how they do.

A line is an expert as data: what it is, which columns of the features it sees, from which column its target counts, its
units. The numbers of all processes lie side by side, so that one compiled call takes rows through all lines; a second
one makes one prediction of theirs, with a calibrated interval (auto/step.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import step
from streamgp.auto.forest import Forest
from streamgp.compiled import address_of
from streamgp.contract import inputs
from streamgp.contract.checks import DUE_AFTER
from streamgp.contract.lanes import ONE, PREDICT
from streamgp.process import rare
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.state import LAYOUT
from streamgp.settings import FloatArray
from streamgp.wrappers import aggregation
from streamgp.wrappers.aggregation import PRIOR, RANGE, ROOM, SPOKEN, VOICES

# A new line has as many rows on which it was tried before it joined; fewer than these count as so many on which its
# squared errors were BEHIND times those of the best: one lucky row is no evidence.
NEWCOMER, BEHIND = 10.0, 2.0
DISCOUNT = np.array([0.99])  # of recent errors: about the last hundred rows
NO_FOREST = Forest.empty()
NONE_GIVEN = np.empty((0, 3))  # conditions
NONE_TRIED = np.empty(0)


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
        varies: whether the variance of the process counts.
        forest: of a FOREST.
    """

    name: str
    kind: int
    columns: tuple[int, ...] = ()
    origin: int = -1
    process: OnlineGP | None = None
    units: FloatArray = np.zeros((2, 0))
    target_units: FloatArray = np.array([0.0, 1.0])
    varies: bool = True
    forest: Forest | None = None

    @property
    def timed(self) -> bool:
        """Whether the process sees the time."""
        return self.process is not None and (self.process._needs_time or self.process._moment is not None)


class Bank:
    """Lines side by side, of one output.

    Args:
        clock: the column of the time.
        reach: of how many of the largest steps from the last target a prediction may be, if it is not near the range of
            all; 0: any (aggregation.limits).
    """

    def __init__(self, clock: int, reach: float = 0.0) -> None:
        self._clock, self._reach = clock, reach
        self.lines: tuple[Line, ...] = ()
        self.given = np.zeros(1, dtype=np.int64)  # numbers that were given to lines
        self.sums, self.numbers = np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
        self.seen, self.scale = np.zeros(RANGE), np.zeros(6)
        self.regrets, self.errors = np.zeros((3, 3, VOICES)), np.zeros((6, 0))
        self.covariances, self.slopes = np.zeros((3, 0, 0)), np.zeros((3, 0))

    @property
    def names(self) -> list[str]:
        return [line.name for line in self.lines]

    def arrays(self) -> dict[str, np.ndarray]:
        """What is known of the lines, by name."""
        names = "given", "sums", "numbers", "seen", "scale", "regrets", "errors", "covariances", "slopes"
        units = {"units": self._units, "target_units": self._target_units}
        trained = any(line.forest is not None for line in self.lines)
        forest = {f"forest.{name}": array for name, array in self._forest._asdict().items() if trained}
        return {name: getattr(self, name) for name in names} | units | forest

    # Lines come and go.

    def placed(self, lines: Sequence[Line]) -> Bank:
        """The bank with these lines; one that has the name of an old one has what that one had earned."""
        twin, old = copy(self), {name: k for k, name in enumerate(self.names)}
        # Old ones first and in order, so that numbers ascend.
        lines = sorted(lines, key=lambda line: old.get(line.name, len(old)))[:ROOM]
        twin._resize([old[line.name] for line in lines if line.name in old], len(lines))
        twin._lay_out(lines)
        return twin

    def _resize(self, old: list[int], K: int) -> None:
        """Let the first of K lines have what these old ones had earned."""
        n, earned = len(old), np.array(old, dtype=np.int64)
        self.numbers = np.append(self.numbers[earned], self.given[0] + np.arange(K - n))
        self.given = self.given + K - n
        self.seen, self.scale = self.seen.copy(), self.scale.copy()
        self.sums = np.pad(self.sums[earned], ((0, K - n), (0, 0)))
        self.errors, self.slopes = (
            np.pad(one.take(earned, 1), ((0, 0), (0, K - n))) for one in (self.errors, self.slopes)
        )
        regrets, covariances = self.regrets, self.covariances
        self.regrets, self.covariances = np.zeros((3, 3, max(K, VOICES))), np.tile(PRIOR**2 * np.eye(K), (3, 1, 1))
        self.regrets[:2, :, :n], self.regrets[2, :, :VOICES] = regrets[:2][..., earned], regrets[2, :, :VOICES]
        self.covariances[:, :n, :n] = covariances[:, earned[:, None], earned]

    def _lay_out(self, lines: Sequence[Line]) -> None:
        """Lay the numbers of all processes side by side, and the table over them."""
        processes = [line.process for line in lines if line.process is not None]
        sizes = [process._numbers.buffers.shape[1] for process in processes]
        starts = np.cumsum([0, *sizes])
        self._buffer = np.empty(starts[-1])
        like = processes[0]._numbers.records if processes else np.zeros(0, LAYOUT.record)
        self._records = np.empty_like(like, shape=len(processes))
        for i, process in enumerate(processes):
            own = self._buffer[starts[i] : starts[i + 1]]
            own[:], self._records[i] = process._numbers.buffers[0], process._numbers.records[0]
            process._place_at(self._records[i : i + 1], own[None])
        ends = np.cumsum([0, *(len(line.columns) for line in lines)])
        self._columns = np.array([column for line in lines for column in line.columns], dtype=np.int64)
        self._units, self._target_units = np.zeros((2, ends[-1])), np.zeros((2, len(lines)))
        self._table, self.lines, at = np.zeros((len(lines), step.FIELDS), dtype=np.int64), (), 0
        for k, line in enumerate(lines):
            row, units, target_units = self._table[k], self._units[:, ends[k] : ends[k + 1]], self._target_units[:, k]
            row[[step.KIND, step.ORIGIN, step.TIMED, step.VARIES]] = line.kind, line.origin, line.timed, line.varies
            row[[step.FIRST_COLUMN, step.COLUMNS]] = ends[k], len(line.columns)
            target_units[:] = line.target_units
            if line.process is not None:
                units[:] = line.units
                row[[step.LOOP, step.RECORD]] = address_of(line.process._run), at
                row[[step.FIRST_NUMBER, step.NUMBERS]] = starts[at], sizes[at]
                at += 1
            self.lines = (*self.lines, line._replace(units=units, target_units=target_units))
        self._forest = next((line.forest for line in self.lines if line.forest is not None), NO_FOREST)

    def joined(self, lines: Sequence[Line], tried: dict[str, FloatArray]) -> Bank:
        """The bank with lines that take the places of those of their names, or join behind the others.

        Args:
            lines: that are new.
            tried: the errors that they made when they were tried, (n,) each, oldest first, by name.
        """
        new = {line.name: line for line in lines}
        bank = self.placed([*(new.pop(line.name, line) for line in self.lines), *new.values()])
        old = len(self.lines)
        for pair, factor in ((0, DISCOUNT[0]), (2, aggregation.LONG)):
            best = np.fmin.reduce(mean_of(*bank.errors[pair : pair + 2, :old]), initial=np.inf)
            for k, name in enumerate(bank.names[old:], old):
                errors = tried.get(name, NONE_TRIED)
                squares = errors[np.isfinite(errors)] ** 2
                weights = factor ** np.arange(len(squares))[::-1]
                missing = max(NEWCOMER - len(squares), 0.0) if np.isfinite(best) else 0.0
                bank.errors[pair, k] = weights @ squares + (missing * BEHIND * best if missing else 0.0)
                bank.errors[pair + 1, k] = weights.sum() + missing
        return bank

    def by_name(self, values: FloatArray) -> dict[str, float]:
        """One number of each line, by the names of the lines."""
        return dict(zip(self.names, values.tolist(), strict=True))

    def weights(self) -> FloatArray:
        """How much each line would count now; they sum to 1."""
        K = len(self.lines)
        weights, known = np.zeros(K), (self.regrets, self.errors, self.slopes, self.scale)
        step.weigh(np.zeros((3, K)), *known, np.empty(SPOKEN), weights, aggregation.work_room(K))
        return weights

    def best_says(self, f: FloatArray) -> float:
        """What the line with the lowest error of late says of a row, whatever the limits; NaN: nothing."""
        predicted, errors = self.run(ONE[PREDICT], f[None], np.full(1, np.nan))[0, 0], self.recent_errors()
        errors[np.isnan(predicted)] = np.nan
        return np.nan if np.isnan(errors).all() else float(predicted[np.nanargmin(errors)])

    def recent_errors(self) -> FloatArray:
        """The root mean squared error of each line of late; NaN where it has none."""
        return np.sqrt(mean_of(*self.errors[:2]))

    def long_errors(self) -> FloatArray:
        """The same over about the last thousand rows."""
        return np.sqrt(mean_of(*self.errors[2:4]))

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
        predicted = self.run(ops, F, y, given)
        room = np.empty((3, n, K))
        aggregation.combine(
            *(aggregation.STACKED, DISCOUNT, self._reach, ops, y, self.numbers, predicted, kept, self.seen),
            *(self.regrets, self.errors, self.covariances, self.slopes, self.scale),
            *(room[0], np.empty((n, SPOKEN)), room[1], room[2], mixed, aggregation.work_room(K)),
        )

    def run(self, ops: np.ndarray, F: FloatArray, y: FloatArray, given: FloatArray = NONE_GIVEN) -> FloatArray:
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
            rare.settle(process._numbers)
        if status:
            inputs.refuse(status, stopped, many=len(ops) > 1)
        return predicted

    @property
    def stack(self) -> list[np.ndarray]:
        """All arrays that rows change."""
        return [*self.arrays().values(), self._buffer, self._records]


def mean_of(sums: FloatArray, rows: FloatArray) -> FloatArray:
    """Sums over so many rows as means; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / rows)

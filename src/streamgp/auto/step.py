"""The compiled steps of Auto: what a row sees, and what every line of the table says of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import opened
from streamgp.auto.forest import predict_forest
from streamgp.compiled import CUBE, INDICES, MATRIX, VECTOR, WHOLE, WHOLES, borrowed, compiled, entry
from streamgp.contract.checks import FINE
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.process.row import LEARNED
from streamgp.process.stream import ARGUMENTS, run_at
from streamgp.wrappers import aggregation
from streamgp.wrappers.scaling import standard

Array = NDArray

# A line of the table: what it is; the address of its loop; where its columns begin, and how many there are; the column
# from whose value its target counts, or -1; its record; where its numbers begin in the buffer, and how many there are;
# whether it sees the time; whether its variance counts.
KIND, LOOP, FIRST_COLUMN, COLUMNS, ORIGIN, RECORD, FIRST_NUMBER, NUMBERS, TIMED, VARIES = range(10)
FIELDS = VARIES + 1
VALUE, MEAN, PROCESS, FOREST = range(4)  # a column as it is; the mean of all targets; a loop; trees
HARMONICS = 3  # of each season
GIVEN = NOISE + 1  # conditions of an operation


@entry(VECTOR, MATRIX, MATRIX, MATRIX, INDICES, INDICES, INDICES, INDICES, WHOLE, WHOLE, MATRIX)
def see(
    told: Array,
    X: Array,
    before: Array,
    ticks: Array,
    known: Array,
    gaps: Array,
    seasons: Array,
    backs: Array,
    lags: int,
    ahead: int,
    out: Array,
) -> None:
    """The features of rows: inputs, past targets, time, seasons, the inputs of the row before.

    Args:
        told: a ring of targets in the order in which they became known.
        X: (n, d) inputs.
        before: (n, d) inputs of the row before; (n, 0): they are no features.
        ticks: (n, 2 or more) the time of each row, and the time between rows.
        known: (n,) how many targets were known when the row came.
        gaps: (n,) rows that are missing before the row and stand in no ring: the last target stands for theirs.
        seasons: rows of each.
        backs: how many rows before its target the value of a season ago is.
        lags: past targets, newest first; before the first the first stands for them.
        ahead: rows between a row and its target.
        out: (n, width).
    """
    d, room, newest = X.shape[1], told.size, max(ahead, 1)
    for t in range(X.shape[0]):
        row, last = out[t], known[t] - 1
        for j in range(d):
            row[j] = X[t, j]
        for j in range(lags):
            row[d + j] = told[max(last - max(j - gaps[t], 0), 0) % room] if last >= 0 else np.nan
        at, every = ticks[t, 0] + ahead * ticks[t, 1], ticks[t, 1]
        place = d + lags
        row[place] = at
        place += 1
        for s in range(seasons.size):
            ago = last - max(backs[s] - newest - gaps[t], 0)
            row[place] = row[d] if ago < 0 else told[ago % room]
            place += 1
        for s in range(seasons.size):
            turns = at / (seasons[s] * every)
            turns -= np.floor(turns)
            for k in range(HARMONICS):
                row[place] = np.sin(2.0 * np.pi * (k + 1) * turns)
                row[place + 1] = np.cos(2.0 * np.pi * (k + 1) * turns)
                place += 2
        for j in range(before.shape[1]):
            row[place + j] = before[t, j]


def numbers_of_operation(table: Array) -> int:
    """How much work space an operation takes: its conditions, its inputs, its target, and what is said of it."""
    return GIVEN + int(table[:, COLUMNS].max(initial=0)) + 4


@entry(
    *(WHOLES, MATRIX, VECTOR, MATRIX, WHOLE, WHOLES, INDICES, MATRIX, MATRIX, MATRIX),
    *(WHOLES, MATRIX, ARGUMENTS[0], VECTOR, CUBE, VECTOR, WHOLES, WHOLE, WHOLE),
)
def run_lines(
    ops: Array,
    F: Array,
    y: Array,
    conditions: Array,
    clock: int,
    table: Array,
    columns: Array,
    units: Array,
    target_units: Array,
    sums: Array,
    splits: Array,
    numbers_of_trees: Array,
    records: Array,
    buffer: Array,
    predicted: Array,
    room: Array,
    what: Array,
    line: int,
    at: int,
) -> tuple[int, int, int]:
    """Let every line predict and learn rows.

    Args:
        ops: (k, 2) the operations, see contract/lanes.py.
        F: (n, width) features.
        y: (n,) targets.
        conditions: (k, 3) weights and noises of rows; (0, 3): there are none.
        clock: the column of the time.
        table: (lines, FIELDS).
        columns: which columns lines see, one line after the other.
        units: (2, all columns) shifts and scales.
        target_units: (2, lines).
        sums: (lines, 2) of a mean of all targets: their number and their sum.
        splits: of the forest.
        numbers_of_trees: of the forest.
        records: of the processes.
        buffer: their numbers.
        predicted: (3, n, lines) receives means, variances and noises; NaN: none.
        room: work space, numbers_of_operation() for each operation.
        what: (k, 2) the same for operations of one process.
        line: at which to begin, later than the first where a loop had stopped.
        at: operation, in the same way.

    Returns:
        A status, and the line and the operation at which it arose.
    """
    records, buffer, room = borrowed(records), borrowed(buffer), borrowed(room)
    k = ops.shape[0]
    for i in range(line, table.shape[0]):
        own, shift, scale, origin = table[i], target_units[0, i], target_units[1, i], table[i, ORIGIN]
        if own[KIND] == VALUE or own[KIND] == MEAN:
            for op in range(k):
                t, kind = ops[op, 0], ops[op, 1]
                if kind & PREDICT:
                    predicted[1, t, i] = predicted[2, t, i] = np.nan
                    if own[KIND] == VALUE:
                        predicted[0, t, i] = F[t, columns[own[FIRST_COLUMN]]]
                    else:
                        predicted[0, t, i] = sums[i, 1] / sums[i, 0] if sums[i, 0] > 0.0 else np.nan
                if own[KIND] == MEAN and kind & LEARN and not np.isnan(y[t]):
                    sums[i, 0] += 1.0
                    sums[i, 1] += y[t]
        elif own[KIND] == FOREST:
            for op in range(k):
                t = ops[op, 0]
                if ops[op, 1] & PREDICT:
                    predicted[0, t, i] = predict_forest(splits, numbers_of_trees, F[t]) + F[t, origin]
                    predicted[1, t, i] = predicted[2, t, i] = np.nan
        else:
            d, first, size, start = own[COLUMNS], own[FIRST_COLUMN], own[NUMBERS], own[FIRST_NUMBER]
            process, numbers = records[own[RECORD] : own[RECORD] + 1], buffer[start : start + size].reshape(1, size)
            some = k if own[TIMED] or conditions.shape[0] > 0 else 0
            given, X = room[: GIVEN * some].reshape(some, GIVEN), room[GIVEN * k : (GIVEN + d) * k].reshape(k, d)
            Y, told = room[room.size - k :].reshape(k, 1), room[room.size - 4 * k : room.size - k].reshape(3, k, 1)
            m = opened(process, numbers, 0)
            latest = m.clock[LEARNED, 0] if own[TIMED] else np.nan
            for op in range(k):  # every operation has a row of its own
                t, kind = ops[op, 0], ops[op, 1]
                f = F[t]
                what[op, 0], what[op, 1] = op, of_process(kind)
                for j in range(d):
                    x = f[columns[first + j]]
                    X[op, j] = 0.0 if np.isnan(x) else standard(x, units[0, first + j], units[1, first + j])
                base = f[origin] if origin >= 0 else 0.0
                Y[op, 0] = standard(y[t] - base, shift, scale) if kind & LEARN else np.nan
                if given.shape[0] > 0:
                    given[op, TIME] = given[op, WEIGHT] = given[op, NOISE] = np.nan
                    if conditions.shape[0] > 0:
                        given[op, WEIGHT] = conditions[op, WEIGHT]
                        given[op, NOISE] = conditions[op, NOISE] / (scale * scale)
                    if own[TIMED]:
                        given[op, TIME] = f[clock]
                        if f[clock] < latest:  # too late for a filter
                            given[op, TIME], Y[op, 0] = latest, np.nan
                        elif kind & LEARN:
                            latest = f[clock]
            begun = at if i == line else 0
            status, _, stopped = run_at(
                *(own[LOOP], process, numbers, ALONE, NO_STARTS, what, X, Y, given, NO_LINES, told, 0, begun),
            )
            for op in range(begun, k if status == FINE else stopped + 1):
                t = ops[op, 0]
                if ops[op, 1] & PREDICT:
                    base = F[t, origin] if origin >= 0 else 0.0
                    predicted[0, t, i] = (shift + scale * told[0, op, 0]) + base
                    predicted[1, t, i] = scale * scale * told[1, op, 0] if own[VARIES] else np.nan
                    predicted[2, t, i] = scale * scale * told[2, op, 0] if own[VARIES] else np.nan
            if status != FINE:
                return status, i, stopped
    return FINE, -1, -1


# One process owns all operations of a call, and has no memory of which rows that wait would keep anything.
ALONE, NO_STARTS, NO_LINES = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros((0, 0))


@compiled
def of_process(kind: int) -> int:
    """What a process, which has no memory, does: a row that will be learned later is only predicted."""
    if kind & LEARN:
        return (kind & PREDICT) + ADVANCE + LEARN
    return PREDICT if kind & (PREDICT | ADVANCE) else 0


@entry(MATRIX, CUBE, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, MATRIX)
def weigh(
    said: Array, regrets: Array, errors: Array, slopes: Array, scale: Array, spoken: Array, weights: Array, room: Array
) -> None:
    """With which weights lines would speak, (lines,), if all of them said 0; see aggregation.say()."""
    aggregation.say(aggregation.STACKED, said, regrets, errors, slopes, scale, spoken, weights, room)

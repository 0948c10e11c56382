"""The compiled steps of Auto: what a row sees, what every line of the table says of it, and what all say together.

A call is a list of operations on rows (contract/lanes.py). A row in turn is predicted and learned; a row whose target
comes late is predicted, and learned by what was seen and said of it then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import opened
from streamgp.auto.forest import predict_forest
from streamgp.compiled import CUBE, INDICES, MATRIX, NUMBER, VECTOR, WHOLE, WHOLES, borrowed, compiled, entry
from streamgp.contract.checks import FINE
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.process.row import LEARNED
from streamgp.process.stream import ARGUMENTS, run_at
from streamgp.wrappers import aggregation, conformal
from streamgp.wrappers.aggregation import DEVIATIONS, FIRST, JUDGED, MEANS, PREDICTION, ROOM, SPOKEN, UNIT
from streamgp.wrappers.scaling import standard

Array = NDArray

# A line of the table: what it is; the address of its loop; where its columns begin, and how many there are; the column
# from whose value its target counts, or -1; its record; where its numbers begin in the buffer, and how many there are;
# whether it sees the time; whether its variance counts.
KIND, LOOP, FIRST_COLUMN, COLUMNS, ORIGIN, RECORD, FIRST_NUMBER, NUMBERS, TIMED, VARIES = range(10)
FIELDS = VARIES + 1
VALUE, MEAN, PROCESS, FOREST = range(4)  # a column as it is; the mean of all targets; a loop; trees
HARMONICS = 3  # of each season

# What a row that waits for its target keeps of what was said of it: the numbers of the lines, negative for one that had
# no say, the means by which they are judged, the voices, and the interval with what its trackers said.
SAID = 2 * ROOM
INTERVAL = SAID + SPOKEN


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


@entry(
    *(INDICES, INDICES, MATRIX, VECTOR, MATRIX, WHOLE, WHOLES, INDICES, MATRIX, MATRIX, MATRIX),
    *(WHOLES, MATRIX, ARGUMENTS[0], VECTOR, CUBE, WHOLE, WHOLE),
)
def run_lines(
    kinds: Array,
    rows: Array,
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
    line: int,
    at: int,
) -> tuple[int, int, int]:
    """Let every line predict and learn rows.

    Args:
        kinds: (k,) of the operations.
        rows: (k,) on which rows of F.
        F: (n, width) features.
        y: (k,) the targets of operations that learn.
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
        predicted: (3, k, lines) receives means, variances and noises; NaN: none.
        line: at which to begin, later than the first where a loop had stopped.
        at: operation, in the same way.

    Returns:
        A status, and the line and the operation at which it arose.
    """
    records, buffer = borrowed(records), borrowed(buffer)
    k = kinds.size
    for i in range(line, table.shape[0]):
        own, shift, scale, origin = table[i], target_units[0, i], target_units[1, i], table[i, ORIGIN]
        if own[KIND] == VALUE or own[KIND] == MEAN:
            for t in range(k):
                predicted[1, t, i] = predicted[2, t, i] = np.nan
                if own[KIND] == VALUE:
                    predicted[0, t, i] = F[rows[t], columns[own[FIRST_COLUMN]]]
                else:
                    predicted[0, t, i] = sums[i, 1] / sums[i, 0] if sums[i, 0] > 0.0 else np.nan
                    if kinds[t] & LEARN and not np.isnan(y[t]):
                        sums[i, 0] += 1.0
                        sums[i, 1] += y[t]
        elif own[KIND] == FOREST:
            for t in range(k):
                predicted[1, t, i] = predicted[2, t, i] = np.nan
                if kinds[t] & PREDICT:
                    f = F[rows[t]]
                    predicted[0, t, i] = predict_forest(splits, numbers_of_trees, f) + f[origin]
        else:
            d, first, size, start = own[COLUMNS], own[FIRST_COLUMN], own[NUMBERS], own[FIRST_NUMBER]
            process, numbers = records[own[RECORD] : own[RECORD] + 1], buffer[start : start + size].reshape(1, size)
            X, Y, told = np.empty((k, d)), np.empty((k, 1)), np.empty((3, k))
            given = np.empty((k if own[TIMED] or conditions.shape[0] > 0 else 0, NOISE + 1))
            what, m = np.empty(k, np.int64), opened(process, numbers, 0)
            latest = m.clock[LEARNED, 0] if own[TIMED] else np.nan
            for t in range(k):
                f, what[t] = F[rows[t]], of_process(kinds[t])
                for j in range(d):
                    x = f[columns[first + j]]
                    X[t, j] = 0.0 if np.isnan(x) else standard(x, units[0, first + j], units[1, first + j])
                base = f[origin] if origin >= 0 else 0.0
                Y[t, 0] = standard(y[t] - base, shift, scale) if kinds[t] & LEARN else np.nan
                if given.shape[0] > 0:
                    given[t, TIME] = given[t, WEIGHT] = given[t, NOISE] = np.nan
                    if conditions.shape[0] > 0:
                        given[t, WEIGHT] = conditions[t, WEIGHT]
                        given[t, NOISE] = conditions[t, NOISE] / (scale * scale)
                    if own[TIMED]:
                        given[t, TIME] = f[clock]
                        if f[clock] < latest:  # too late for a filter
                            given[t, TIME], Y[t, 0] = latest, np.nan
                        elif kinds[t] & LEARN:
                            latest = f[clock]
            from_row = at if i == line else 0
            status, _, stopped = run_at(
                *(own[LOOP], process, numbers, ALONE, NO_STARTS, what, X, Y, given, told, 0, from_row),
            )
            for t in range(from_row, k if status == FINE else stopped + 1):
                if kinds[t] & PREDICT:
                    base = F[rows[t], origin] if origin >= 0 else 0.0
                    predicted[0, t, i] = (shift + scale * told[0, t]) + base
                    predicted[1, t, i] = scale * scale * told[1, t] if own[VARIES] else np.nan
                    predicted[2, t, i] = scale * scale * told[2, t] if own[VARIES] else np.nan
            if status != FINE:
                return status, i, stopped
    return FINE, -1, -1


# One process owns all rows of a call.
ALONE, NO_STARTS = np.zeros(1, np.int64), np.zeros(0, np.int64)


@compiled
def of_process(kind: int) -> int:
    """What a process, which has no memory, does: a row that will be learned later is only predicted."""
    if kind & LEARN:
        return (kind & PREDICT) + ADVANCE + LEARN
    return PREDICT


@entry(
    *(INDICES, INDICES, VECTOR, CUBE, MATRIX, VECTOR, NUMBER, INDICES),
    *(VECTOR, CUBE, MATRIX, CUBE, MATRIX, VECTOR),
    *(conformal.LAYOUT.type, MATRIX, VECTOR, WHOLE, MATRIX, MATRIX),
)
def conclude(
    kinds: Array,
    rows: Array,
    y: Array,
    predicted: Array,
    said: Array,
    discount: Array,
    reach: float,
    numbers: Array,
    seen: Array,
    regrets: Array,
    errors: Array,
    covariances: Array,
    slopes: Array,
    scale: Array,
    records: Array,
    buffers: Array,
    wider: Array,
    ahead: int,
    mixed: Array,
    out: Array,
) -> None:
    """Make one prediction of those of all lines, with its interval, and learn from targets what each was worth.

    Args:
        kinds: (k,) of the operations.
        rows: (k,) on which rows of said.
        y: (k,) targets.
        predicted: (3, k, lines) as in ``run_lines``.
        said: (n, INTERVAL + ...) of each row what its target will be compared with; written where it is predicted.
        discount: (1,) as in aggregation.combine, and so the next ones.
        reach: see there.
        numbers: (lines,) by which lines are known among rows that wait, ascending.
        seen: see there, and so the next ones.
        regrets: .
        errors: .
        covariances: .
        slopes: .
        scale: .
        records: of the calibration.
        buffers: of the calibration.
        wider: (k + 1,) by how much bounds are wider after so many more errors; where rows wait.
        ahead: rows between a row and its target; errors of more than 1 overlap.
        mixed: (3, k) receives mean, variance and noise of the mixture.
        out: (parts, k) receives the interval and the shape, as in conformal.calibrate.
    """
    m, K = opened(borrowed(records), borrowed(buffers), 0), numbers.size
    room, weights = aggregation.work_room(K), np.empty((2, K))
    trackers, losses, counted = m.trackers[0], m.losses[0], m.kind_rows[0]
    first, overlap = counted[conformal.ABSOLUTE], ahead > 1
    told, as_said = np.empty(out.shape[0]), np.empty(trackers.size)
    for t in range(kinds.size):
        row = said[rows[t]]
        spoken, kept = row[SAID:INTERVAL], row[INTERVAL:]
        if kinds[t] & PREDICT:
            low, high = aggregation.limits(reach, np.nan, seen)
            beyond = aggregation.restrain(predicted[0, t], low, high, room[JUDGED])
            if beyond and kinds[t] & ADVANCE:
                seen[aggregation.LIMITED] += 1.0
            aggregation.say(
                aggregation.STACKED, predicted[:, t], regrets, errors, slopes, scale, spoken, weights[0], room
            )
            aggregation.conclude(low, high, predicted[:, t], spoken, weights[0], weights[1], mixed[:, t])
            for k in range(min(K, ROOM)):
                row[k] = (-1.0 if np.isnan(predicted[0, t, k]) else 1.0) * (1.0 + numbers[k])
                row[ROOM + k] = room[JUDGED, k]
            for k in range(K, ROOM):
                row[k] = 0.0
            told[0] = told[1] = 0.0
            conformal.take(m, 0, mixed[0, t], mixed[1, t], mixed[2, t], np.nan, False, told)
            if overlap:
                factor = wider[int(counted[conformal.ABSOLUTE] - first)]
                for i in range(2):
                    told[i] = mixed[0, t] + factor * (told[i] - mixed[0, t])
                    told[2 + i] *= factor * factor
                for i in range(trackers.size):
                    kept[conformal.KEPT + i] = trackers.flat[i]
            kept[0], kept[1], kept[2], kept[3], kept[4] = mixed[0, t], mixed[1, t], mixed[2, t], told[0], told[1]
            out[:, t] = told
        if kinds[t] & LEARN and not np.isnan(y[t]):
            recall(numbers, row, room)
            aggregation.judge(
                *(aggregation.STACKED, discount, y[t], room[JUDGED], spoken, room),
                *(regrets, errors, covariances, slopes, scale),
            )
            aggregation.limits(reach, y[t], seen)
            if not kept[4] > kept[3] and not kinds[t] & PREDICT:
                continue  # a row from before anything was known has no bounds to judge
            told[0], told[1] = kept[3], kept[4]
            if overlap:  # trackers are judged by what they said when the row was issued, and learn from where they are
                as_said[:] = losses.ravel()
                judge_trackers(m, kept, y[t], told)
                for i in range(losses.size):
                    as_said[i], losses.flat[i] = losses.flat[i], as_said[i]
                conformal.take(m, 0, kept[0], kept[1], kept[2], y[t], True, told)
                for i in range(losses.size):
                    losses.flat[i] = as_said[i]
            else:
                conformal.take(m, 0, kept[0], kept[1], kept[2], y[t], True, told)


@entry(MATRIX, CUBE, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR)
def weigh(
    said: Array, regrets: Array, errors: Array, slopes: Array, scale: Array, spoken: Array, weights: Array
) -> None:
    """With which weights lines would speak, (lines,), if all of them said 0; see aggregation.say()."""
    room = aggregation.work_room(said.shape[1])
    aggregation.say(aggregation.STACKED, said, regrets, errors, slopes, scale, spoken, weights, room)


@compiled
def judge_trackers(m: Array, kept: Array, y: float, told: Array) -> None:
    """Let the losses of trackers be those of what they said when a row was issued; nothing else changes."""
    before, rows, trackers, losses = m.buffer.copy(), m.counters.rows, m.trackers[0], m.losses[0]
    for i in range(trackers.size):
        trackers.flat[i] = kept[conformal.KEPT + i]
    conformal.take(m, 0, kept[0], kept[1], kept[2], y, True, told)
    after = losses.copy()
    m.buffer[:] = before
    m.counters.rows = rows
    losses[:] = after


@compiled
def recall(numbers: Array, row: Array, room: Array) -> None:
    """What lines said when a row was predicted, and by how much they deviated; those who joined since said nothing."""
    means, judged, spoken, i = room[MEANS], room[JUDGED], row[SAID:INTERVAL], 0
    for k in range(numbers.size):
        means[k] = judged[k] = np.nan
        while i < ROOM and row[i] != 0.0 and abs(row[i]) < 1.0 + numbers[k]:
            i += 1
        if i < ROOM and abs(row[i]) == 1.0 + numbers[k]:
            judged[k] = row[ROOM + i]
            means[k] = judged[k] if row[i] > 0.0 else np.nan
    aggregation.deviate(means, spoken[FIRST], spoken[UNIT], room[DEVIATIONS])


__all__ = ["PREDICTION", "conclude", "run_lines", "see"]

"""The loop over models and their rows: see a row, predict it, learn it. One text for all kinds of processes.

The loop either advances by its rows or only predicts them, each as if it came next. The way to a prediction is the same
machine code in both cases, so that a row which is predicted and then learned has to be predicted once only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model, opened
from streamgp.compiled import BOOLEAN, MATRIX, NUMBER, WHOLE, WHOLE_TRIPLE, borrowed, caller, compiled, entry, inlined
from streamgp.contract.checks import FINE, LARGEST, MOVE_IS_DUE, check
from streamgp.contract.lanes import LANES, end_of, first_of
from streamgp.linalg.vector import copy
from streamgp.process import features, fixed, growing, kept, memory, time
from streamgp.process.adapt import sngd
from streamgp.process.row import AT, go_back, inject, meet
from streamgp.process.state import LAYOUT, NOTHING

Array = NDArray

# The records and the buffers of all models; which rows are whose (contract/lanes.py); X, with the features of a
# LinearMean behind the inputs; Y (no rows: no targets; half as many as of X: every other row, from the second one on,
# has none and is only predicted, as if it came next), conditions (no rows: none), out (no columns: no predictions);
# the lane and the row at which to begin, later than the first after a move; whether to advance.
ARGUMENTS = (LAYOUT.type, MATRIX, *LANES, MATRIX, MATRIX, MATRIX, MATRIX, WHOLE, WHOLE, BOOLEAN)
# The loops are large, and compiled once: what takes a row through more than the loop calls them where they are.
run_at = caller(WHOLE_TRIPLE, ARGUMENTS)


@inlined
def arrive(m: Model, X: Array, Y: Array, t: int, at: int, advance: bool) -> bool:
    """Row t is seen and, when advancing, enters the memory; whether it has a target to learn, that of row ``at``."""
    seen, y, d = m.seen, m.y, m.window.shape[1]
    memory.look(m, X[t, :d], seen)
    learned = False
    if advance:
        memory.keep(m, X[t, :d], seen)
        m.counters.rows_seen += 1
        for j in range(y.size):
            y[j] = Y[at, j] if Y.shape[0] > 0 else np.nan
            learned = learned or not np.isnan(y[j])
    return learned


@inlined
def is_predicted(m: Model) -> bool:
    """Whether the row seen was the last to be predicted, and nothing has been learned since."""
    seen, predicted = m.seen, m.predicted
    last = m.last_prediction
    same = bool(last[0] == 1.0) and (m.plan.temporal == 0 or bool(last[3] == m.now[AT]))
    for j in range(seen.size):
        same = same and seen[j] == predicted[j]
    return same


@inlined
def note_predicted(m: Model, kappa: float, gamma2: float) -> None:
    """Nothing but the work space remembers a prediction: the model is as it was."""
    seen, last = m.seen, m.last_prediction
    copy(seen, seen.size, m.predicted)
    last[0], last[1], last[2] = 1.0, kappa, gamma2
    if m.plan.temporal > 0:
        last[3] = m.now[AT]


@inlined
def report(m: Model, t: int, out: Array) -> None:
    """Write a prediction into column t: means, variances, noises. An estimated signal power scales the last two."""
    p, q = m.plan.outputs, m.plan.covariances
    mean, variance, noise = m.mean_now, m.variance_now, m.noise
    power = m.power
    for j in range(p):
        out[j, t] = mean[j]
    for j in range(q):
        scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
        out[p + j, t] = scale * variance[j]
        out[p + q + j, t] = scale * noise[j]


@compiled
def weights_in_use(m: Model) -> int:
    return m.counters.points if m.plan.features == features.DICTIONARY else m.plan.weights  # type: ignore[no-any-return]


@inlined
def remember_target(m: Model) -> None:
    """The memory may be fed with the last target, or the mean where it is missing."""
    y, mean, last_target = m.y, m.mean_now, m.last_target
    for j in range(y.size):
        if not np.isnan(y[j]):
            last_target[j] = y[j]
        elif m.plan.feedback:
            last_target[j] = mean[j]


@inlined
def rest(m: Model) -> None:
    """Nothing was learned at this row."""
    m.counters.change = NOTHING
    m.counters.evictions = 0


@inlined
def run(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    lane: int,
    row: int,
    advance: bool,
    predict: Callable[[Model], tuple[float, float]],
    learn: Callable[[Model, float, float], None],
) -> tuple[int, int, int]:
    """Predict every row if there is room for predictions; when advancing, learn it if it has a target.

    The last two arguments are compiled functions of the kind of process.

    Returns:
        A status, and the lane and the row at which it arose: rows that are refused, before anything has changed, or
        hyperparameters that are to move before the next row.
    """
    records, buffers, X, Y = borrowed(records), borrowed(buffers), borrowed(X), borrowed(Y)
    conditions, out = borrowed(conditions), borrowed(out)
    if row == 0 and models.size > 0:
        status, at = check(X, Y, records[models[0]].plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, -1, at
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    in_turn = 0 < Y.shape[0] < X.shape[0]
    for k in range(lane, models.size):
        m = opened(records, buffers, models[k])
        first, last = first_of(starts, k), end_of(starts, k, X.shape[0])
        made = m.last_prediction
        for t in range(max(first, row), last):
            taken = advance and not (in_turn and t % 2 == 1)
            learned = arrive(m, X, Y, t, t // 2 if in_turn else t, taken)
            if m.plan.temporal > 0:
                time.arrive(m, X[t], conditions, t, taken)
            if learned or tracking or m.plan.feedback:
                if t == first and taken and is_predicted(m):
                    kappa, gamma2 = made[1], made[2]
                else:
                    kappa, gamma2 = predict(m)
            if tracking:
                report(m, t, out)
                if out.shape[0] > m.plan.outputs + 2 * m.plan.covariances:
                    time.report_components(m, weights_in_use(m), gamma2, t, out)
            if not taken:
                note_predicted(m, kappa, gamma2)
                continue
            made[0] = 0.0
            remember_target(m)
            if learned and m.plan.batch == 1:
                meet(m, conditions, t)
                if m.plan.theta > 0:
                    sngd.before_learning(m)
                learn(m, kappa, gamma2)
                if m.plan.theta > 0 and sngd.after_learning(m):
                    return MOVE_IS_DUE, k, t
                continue
            rest(m)
            place = (t - first) % m.plan.batch  # in a batch, which is learned when it is complete
            if m.plan.batch > 1 and Y.shape[0] > 0 and (place + 1 == m.plan.batch or t + 1 == last):
                fixed.learn_batch(m, X[t - place : t + 1], Y[t - place : t + 1], conditions[t - place : t + 1])
    return FINE, -1, -1


@entry(*ARGUMENTS)
def run_growing(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    lane: int,
    row: int,
    advance: bool,
) -> tuple[int, int, int]:
    return run(
        records, buffers, models, starts, X, Y, conditions, out, lane, row, advance, growing.predict, growing.learn
    )


@entry(*ARGUMENTS)
def run_fixed(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    lane: int,
    row: int,
    advance: bool,
) -> tuple[int, int, int]:
    return run(records, buffers, models, starts, X, Y, conditions, out, lane, row, advance, fixed.predict, fixed.learn)


@entry(*ARGUMENTS)
def run_kept(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    lane: int,
    row: int,
    advance: bool,
) -> tuple[int, int, int]:
    return run(records, buffers, models, starts, X, Y, conditions, out, lane, row, advance, kept.predict, kept.learn)


@entry(LAYOUT.type, MATRIX, NUMBER)
def forget(records: Array, buffers: Array, factor: float) -> None:
    """Let what was learned fade once, as forgetting by this factor does at a row."""
    m = opened(records, buffers, 0)
    n = weights_in_use(m)
    for j in range(m.plan.covariances):
        if m.plan.injects or m.plan.factored:
            inject(m, j, 1.0 / factor, n)
        else:
            go_back(m, j, factor, n)
    m.last_prediction[0] = 0.0  # what was predicted holds no longer

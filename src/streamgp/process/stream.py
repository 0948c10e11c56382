"""The loops over rows: see a row, predict it, learn it. One for each kind of process; Python picks one per model.

A loop either advances by its rows or only predicts them, each as if it came next. The way to a prediction is the same
machine code in both cases, so that a row which is predicted and then learned has to be predicted once only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Record, matrix, vector
from streamgp.compiled import BOOLEAN, MATRIX, NUMBER, VECTOR, WHOLE, borrowed, entry, inlined
from streamgp.contract.checks import FINE, LARGEST, MOVE_IS_DUE, check
from streamgp.linalg.vector import copy
from streamgp.process import features, fixed, growing, kept, memory
from streamgp.process.adapt import sngd
from streamgp.process.row import go_back, inject, meet
from streamgp.process.state import LAYOUT, NOTHING

Array = NDArray

# The record and the buffer of a model; X, Y (no rows: no targets), conditions (no rows: none), out (no columns: no
# predictions); the row at which to begin, later than the first after a move; whether to advance.
ARGUMENTS = (LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX, WHOLE, BOOLEAN)


@inlined
def arrive(m: Record, f: Array, X: Array, Y: Array, t: int, advance: bool) -> bool:
    """Row t is seen and, when advancing, enters the memory; whether it has a target to learn."""
    seen, y = vector(f, m.at.seen), vector(f, m.at.y)
    memory.look(m, f, X[t], seen)
    learned = False
    if advance:
        memory.keep(m, f, X[t], seen)
        m.counters.rows_seen += 1
        for j in range(y.size):
            y[j] = Y[t, j] if Y.shape[0] > 0 else np.nan
            learned = learned or not np.isnan(y[j])
    return learned


@inlined
def is_predicted(m: Record, f: Array) -> bool:
    """Whether the row seen was the last to be predicted, and nothing has been learned since."""
    seen, predicted = vector(f, m.at.seen), vector(f, m.at.predicted)
    same = bool(vector(f, m.at.last_prediction)[0] == 1.0)
    for j in range(seen.size):
        same = same and seen[j] == predicted[j]
    return same


@inlined
def note_predicted(m: Record, f: Array, kappa: float, gamma2: float) -> None:
    """Nothing but the work space remembers a prediction: the model is as it was."""
    seen, last = vector(f, m.at.seen), vector(f, m.at.last_prediction)
    copy(seen, seen.size, vector(f, m.at.predicted))
    last[0], last[1], last[2] = 1.0, kappa, gamma2


@inlined
def report(m: Record, f: Array, t: int, out: Array) -> None:
    """Write a prediction into column t: means, variances, noises. An estimated signal power scales the last two."""
    p, q = m.plan.outputs, m.plan.covariances
    mean, variance, noise = vector(f, m.at.mean_now), vector(f, m.at.variance_now), vector(f, m.at.noise)
    power = matrix(f, m.at.power)
    for j in range(p):
        out[j, t] = mean[j]
    for j in range(q):
        scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
        out[p + j, t] = scale * variance[j]
        out[p + q + j, t] = scale * noise[j]


@inlined
def remember_target(m: Record, f: Array) -> None:
    """The memory may be fed with the last target, or the mean where it is missing."""
    y, mean, last_target = vector(f, m.at.y), vector(f, m.at.mean_now), vector(f, m.at.last_target)
    for j in range(y.size):
        if not np.isnan(y[j]):
            last_target[j] = y[j]
        elif m.plan.feedback:
            last_target[j] = mean[j]


@inlined
def rest(m: Record) -> None:
    """Nothing was learned at this row."""
    m.counters.change = NOTHING
    m.counters.evictions = 0


@entry(*ARGUMENTS)
def run_growing(
    record: Array, f: Array, X: Array, Y: Array, conditions: Array, out: Array, start: int, advance: bool
) -> tuple[int, int]:
    """Predict every row if there is room for predictions; when advancing, learn it if it has a target."""
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    conditions = borrowed(conditions)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2, last = out.shape[1] > 0, 0.0, 0.0, vector(f, m.at.last_prediction)
    for t in range(start, X.shape[0]):
        learned = arrive(m, f, X, Y, t, advance)
        if learned or tracking or m.plan.feedback:
            if t == 0 and advance and is_predicted(m, f):
                kappa, gamma2 = last[1], last[2]
            else:
                kappa, gamma2 = growing.predict(m, f)
        if tracking:
            report(m, f, t, out)
        if not advance:
            note_predicted(m, f, kappa, gamma2)
            continue
        last[0] = 0.0
        remember_target(m, f)
        if learned:
            meet(m, f, conditions, t)
            growing.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(*ARGUMENTS)
def run_growing_adapting(
    record: Array, f: Array, X: Array, Y: Array, conditions: Array, out: Array, start: int, advance: bool
) -> tuple[int, int]:
    """The same; stops after a row at which hyperparameters are to move."""
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    conditions = borrowed(conditions)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2, last = out.shape[1] > 0, 0.0, 0.0, vector(f, m.at.last_prediction)
    for t in range(start, X.shape[0]):
        learned = arrive(m, f, X, Y, t, advance)
        if learned or tracking or m.plan.feedback:
            if t == 0 and advance and is_predicted(m, f):
                kappa, gamma2 = last[1], last[2]
            else:
                kappa, gamma2 = growing.predict(m, f)
        if tracking:
            report(m, f, t, out)
        if not advance:
            note_predicted(m, f, kappa, gamma2)
            continue
        last[0] = 0.0
        remember_target(m, f)
        if learned:
            meet(m, f, conditions, t)
            sngd.before(m, f)
            growing.learn(m, f, kappa, gamma2)
            if sngd.after(m, f):
                return MOVE_IS_DUE, t
        else:
            rest(m)
    return FINE, -1


@entry(*ARGUMENTS)
def run_fixed(
    record: Array, f: Array, X: Array, Y: Array, conditions: Array, out: Array, start: int, advance: bool
) -> tuple[int, int]:
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    conditions = borrowed(conditions)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2, last = out.shape[1] > 0, 0.0, 0.0, vector(f, m.at.last_prediction)
    for t in range(start, X.shape[0]):
        learned = arrive(m, f, X, Y, t, advance)
        if learned or tracking or m.plan.feedback:
            if t == 0 and advance and is_predicted(m, f):
                kappa, gamma2 = last[1], last[2]
            else:
                kappa, gamma2 = fixed.predict(m, f)
        if tracking:
            report(m, f, t, out)
        if not advance:
            note_predicted(m, f, kappa, gamma2)
            continue
        last[0] = 0.0
        remember_target(m, f)
        if m.plan.batch > 1:
            rest(m)
            if Y.shape[0] > 0 and ((t + 1) % m.plan.batch == 0 or t + 1 == X.shape[0]):
                begin = t - t % m.plan.batch
                fixed.learn_batch(m, f, X[begin : t + 1], Y[begin : t + 1], conditions[begin : t + 1])
        elif learned:
            meet(m, f, conditions, t)
            fixed.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(*ARGUMENTS)
def run_fixed_adapting(
    record: Array, f: Array, X: Array, Y: Array, conditions: Array, out: Array, start: int, advance: bool
) -> tuple[int, int]:
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    conditions = borrowed(conditions)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2, last = out.shape[1] > 0, 0.0, 0.0, vector(f, m.at.last_prediction)
    for t in range(start, X.shape[0]):
        learned = arrive(m, f, X, Y, t, advance)
        if learned or tracking or m.plan.feedback:
            if t == 0 and advance and is_predicted(m, f):
                kappa, gamma2 = last[1], last[2]
            else:
                kappa, gamma2 = fixed.predict(m, f)
        if tracking:
            report(m, f, t, out)
        if not advance:
            note_predicted(m, f, kappa, gamma2)
            continue
        last[0] = 0.0
        remember_target(m, f)
        if learned:
            meet(m, f, conditions, t)
            sngd.before(m, f)
            fixed.learn(m, f, kappa, gamma2)
            if sngd.after(m, f):
                return MOVE_IS_DUE, t
        else:
            rest(m)
    return FINE, -1


@entry(*ARGUMENTS)
def run_kept(
    record: Array, f: Array, X: Array, Y: Array, conditions: Array, out: Array, start: int, advance: bool
) -> tuple[int, int]:
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    conditions = borrowed(conditions)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2, last = out.shape[1] > 0, 0.0, 0.0, vector(f, m.at.last_prediction)
    for t in range(start, X.shape[0]):
        learned = arrive(m, f, X, Y, t, advance)
        if learned or tracking or m.plan.feedback:
            if t == 0 and advance and is_predicted(m, f):
                kappa, gamma2 = last[1], last[2]
            else:
                kappa, gamma2 = kept.predict(m, f)
        if tracking:
            report(m, f, t, out)
        if not advance:
            note_predicted(m, f, kappa, gamma2)
            continue
        last[0] = 0.0
        remember_target(m, f)
        if learned:
            meet(m, f, conditions, t)
            kept.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, NUMBER)
def forget(record: Array, f: Array, factor: float) -> None:
    """Let what was learned fade once, as forgetting by this factor does at a row."""
    m, f = borrowed(record)[0], borrowed(f)
    n = m.counters.points if m.plan.features == features.DICTIONARY else m.plan.weights
    for j in range(m.plan.covariances):
        if m.plan.injects or m.plan.factored:
            inject(m, f, j, 1.0 / factor, n)
        else:
            go_back(m, f, j, factor, n)
    vector(f, m.at.last_prediction)[0] = 0.0  # what was predicted holds no longer

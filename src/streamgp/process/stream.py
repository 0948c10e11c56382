"""The loops over rows: see a row, predict it, learn it. One for each kind of process; Python picks one per model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Record, matrix, vector
from streamgp.compiled import MATRIX, VECTOR, WHOLE, borrowed, entry, inlined
from streamgp.contract.checks import FINE, LARGEST, MOVE_IS_DUE, check
from streamgp.process import fixed, growing, kept, memory
from streamgp.process.adapt import sngd
from streamgp.process.state import LAYOUT, NOTHING

Array = NDArray


@inlined
def arrive(m: Record, f: Array, X: Array, Y: Array, t: int) -> bool:
    """Row t enters the memory; whether it has a target."""
    seen, y = vector(f, m.at.seen), vector(f, m.at.y)
    memory.look(m, f, X[t], seen)
    memory.keep(m, f, X[t], seen)
    m.counters.rows_seen += 1
    learnt = False
    for j in range(y.size):
        y[j] = Y[t, j] if Y.shape[0] > 0 else np.nan
        learnt = learnt or not np.isnan(y[j])
    return learnt


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
    """Nothing was learnt at this row."""
    m.counters.change = NOTHING
    m.counters.evictions = 0


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX)
def run_growing(record: Array, f: Array, X: Array, Y: Array, out: Array) -> tuple[int, int]:
    """Advance by every row: predict it if there is room for predictions, then learn it if it has a target."""
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    for t in range(X.shape[0]):
        learnt = arrive(m, f, X, Y, t)
        if learnt or tracking or m.plan.feedback:
            kappa, gamma2 = growing.predict(m, f)
        if tracking:
            report(m, f, t, out)
        remember_target(m, f)
        if learnt:
            growing.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX, WHOLE)
def run_growing_adapting(record: Array, f: Array, X: Array, Y: Array, out: Array, start: int) -> tuple[int, int]:
    """Go on from row start; stop after a row at which hyperparameters are to move."""
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    for t in range(start, X.shape[0]):
        learnt = arrive(m, f, X, Y, t)
        if learnt or tracking or m.plan.feedback:
            kappa, gamma2 = growing.predict(m, f)
        if tracking:
            report(m, f, t, out)
        remember_target(m, f)
        if learnt:
            sngd.before(m, f)
            growing.learn(m, f, kappa, gamma2)
            if sngd.after(m, f):
                return MOVE_IS_DUE, t
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX)
def predict_growing(record: Array, f: Array, X: Array, out: Array) -> tuple[int, int]:
    """Predict rows that would each come next; nothing of the model changes."""
    m, f, X, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(out)
    status, row = check(X, X[:0], m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    for t in range(X.shape[0]):
        memory.look(m, f, X[t], vector(f, m.at.seen))
        growing.predict(m, f)
        report(m, f, t, out)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX)
def run_fixed(record: Array, f: Array, X: Array, Y: Array, out: Array) -> tuple[int, int]:
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    batch = m.plan.batch
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    for t in range(X.shape[0]):
        learnt = arrive(m, f, X, Y, t)
        if learnt or tracking or m.plan.feedback:
            kappa, gamma2 = fixed.predict(m, f)
        if tracking:
            report(m, f, t, out)
        remember_target(m, f)
        if batch > 1:
            rest(m)
            if Y.shape[0] > 0 and ((t + 1) % batch == 0 or t + 1 == X.shape[0]):
                start = t - t % batch
                fixed.learn_batch(m, f, X[start : t + 1], Y[start : t + 1])
        elif learnt:
            fixed.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX, WHOLE)
def run_fixed_adapting(record: Array, f: Array, X: Array, Y: Array, out: Array, start: int) -> tuple[int, int]:
    """Go on from row start; stop after a row at which hyperparameters are to move."""
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    if start == 0:
        status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
        if status != FINE:
            return status, row
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    for t in range(start, X.shape[0]):
        learnt = arrive(m, f, X, Y, t)
        if learnt or tracking or m.plan.feedback:
            kappa, gamma2 = fixed.predict(m, f)
        if tracking:
            report(m, f, t, out)
        remember_target(m, f)
        if learnt:
            sngd.before(m, f)
            fixed.learn(m, f, kappa, gamma2)
            if sngd.after(m, f):
                return MOVE_IS_DUE, t
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX)
def predict_fixed(record: Array, f: Array, X: Array, out: Array) -> tuple[int, int]:
    m, f, X, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(out)
    status, row = check(X, X[:0], m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    for t in range(X.shape[0]):
        memory.look(m, f, X[t], vector(f, m.at.seen))
        fixed.predict(m, f)
        report(m, f, t, out)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX)
def run_kept(record: Array, f: Array, X: Array, Y: Array, out: Array) -> tuple[int, int]:
    m, f, X, Y, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(Y), borrowed(out)
    status, row = check(X, Y, m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    tracking, kappa, gamma2 = out.shape[1] > 0, 0.0, 0.0
    for t in range(X.shape[0]):
        learnt = arrive(m, f, X, Y, t)
        if learnt or tracking or m.plan.feedback:
            kappa, gamma2 = kept.predict(m, f)
        if tracking:
            report(m, f, t, out)
        remember_target(m, f)
        if learnt:
            kept.learn(m, f, kappa, gamma2)
        else:
            rest(m)
    return FINE, -1


@entry(LAYOUT.type, VECTOR, MATRIX, MATRIX)
def predict_kept(record: Array, f: Array, X: Array, out: Array) -> tuple[int, int]:
    m, f, X, out = borrowed(record)[0], borrowed(f), borrowed(X), borrowed(out)
    status, row = check(X, X[:0], m.plan.covariances == 1, LARGEST)
    if status != FINE:
        return status, row
    for t in range(X.shape[0]):
        memory.look(m, f, X[t], vector(f, m.at.seen))
        kept.predict(m, f)
        report(m, f, t, out)
    return FINE, -1

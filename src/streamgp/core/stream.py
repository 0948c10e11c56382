"""Rows, in order: check them all, then predict and learn each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp import memory
from streamgp.adapt.sngd import adapt_after, adapt_row
from streamgp.compiled import borrowed, compiled, inlined
from streamgp.core.dictionary import (
    learn_dictionary,
    learn_least_squares,
    predict_dictionary,
    predict_least_squares,
)
from streamgp.core.kept import learn_kept, predict_kept
from streamgp.core.layout import (
    BATCH,
    CHANGE,
    COVARIANCES,
    DICTIONARY,
    ENGINE,
    EVICTED,
    FEEDBACK,
    KEPT,
    NOTHING,
    OUTPUTS,
    POWER,
    RETENTION,
    ROWS_SEEN,
    SIZE,
    THETA,
    WEIGHTED,
    Scratch,
    State,
    parts_of,
)
from streamgp.core.weights import learn_batch, learn_weights, predict_weights

Array = NDArray

# What check(), predict() and run() answer.
FINE, BAD_INPUT, BAD_TARGET, PARTLY_MISSING = range(4)


@compiled
def check(X: Array, Y: Array, shared: bool) -> tuple[int, int]:
    """Whether all rows can be taken, and the first that cannot: before anything has changed."""
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            if not np.isfinite(X[t, j]):
                return BAD_INPUT, t
    for t in range(Y.shape[0]):
        missing = 0
        for j in range(Y.shape[1]):
            if np.isinf(Y[t, j]):
                return BAD_TARGET, t
            missing += 1 if np.isnan(Y[t, j]) else 0
        if shared and 0 < missing < Y.shape[1]:
            return PARTLY_MISSING, t
    return FINE, -1


@inlined
def predict_seen(plan: Array, size: int, state: State, learn: bool, w: Scratch) -> float:
    """Mean and latent variance of the input seen into w.mean and w.variance; returns kappa = k(x, x).

    learn: whether learn_seen() will follow.
    """
    engine = plan[ENGINE]
    if engine == WEIGHTED:
        return predict_weights(plan, state, w)
    if engine == DICTIONARY:
        return predict_dictionary(plan, size, state, learn, w)
    if engine == KEPT:
        return predict_kept(plan, size, state, w)
    return predict_least_squares(plan, size, state, w)


@inlined
def learn_seen(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Learn w.y at the input that predict_seen() has just predicted."""
    engine = plan[ENGINE]
    if engine == WEIGHTED:
        learn_weights(plan, counters, state, kappa, w)
    elif engine == DICTIONARY:
        learn_dictionary(plan, counters, state, kappa, w)
    elif engine == KEPT:
        learn_kept(plan, counters, state, w)
    else:
        learn_least_squares(plan, counters, state, kappa, w)


@inlined
def report(plan: Array, state: State, w: Scratch, t: int, out: Array) -> None:
    """Write a prediction into column t: means, variances, noises. An estimated signal power scales the last two."""
    p, q = plan[OUTPUTS], plan[COVARIANCES]
    for j in range(p):
        out[j, t] = w.mean[j]
    for j in range(q):
        power = state.power[0, j] / state.power[1, j] if plan[POWER] and state.power[1, j] > 0.0 else 1.0
        out[p + j, t] = power * w.variance[j]
        out[p + q + j, t] = power * state.noise[j]


@compiled
def predict(integers: Array, floats: Array, X: Array, out: Array) -> tuple[int, int]:
    """Predict rows that would each come next; nothing of the model changes."""
    X, out = borrowed(X), borrowed(out)
    status, row = check(X, X[:0], False)
    if status != FINE:
        return status, row
    plan, counters, state, w = parts_of(borrowed(integers), borrowed(floats))
    for t in range(X.shape[0]):
        memory.look(state.memory, state.scalars[RETENTION], X[t], w.seen)
        predict_seen(plan, counters[SIZE], state, False, w)
        report(plan, state, w, t, out)
    return FINE, -1


@compiled
def run(integers: Array, floats: Array, X: Array, Y: Array, out: Array) -> tuple[int, int]:
    """Advance by every row: predict it if there is room for predictions, then learn it if there are targets."""
    X, Y, out = borrowed(X), borrowed(Y), borrowed(out)
    plan, counters, state, w = parts_of(borrowed(integers), borrowed(floats))
    status, row = check(X, Y, plan[COVARIANCES] == 1)
    if status != FINE:
        return status, row
    tracking, targets = out.shape[1] > 0, Y.shape[0] > 0
    batch = plan[BATCH]
    for t in range(X.shape[0]):
        memory.look(state.memory, state.scalars[RETENTION], X[t], w.seen)
        memory.keep(state.memory, X[t], w.seen)
        counters[ROWS_SEEN] += 1
        learn = False
        for j in range(plan[OUTPUTS]):
            w.y[j] = Y[t, j] if targets else np.nan
            learn = learn or not np.isnan(w.y[j])
        kappa = 0.0
        if tracking or plan[FEEDBACK] or (learn and batch == 1):
            kappa = predict_seen(plan, counters[SIZE], state, learn and batch == 1, w)
        if tracking:
            report(plan, state, w, t, out)
        for j in range(plan[OUTPUTS]):
            if not np.isnan(w.y[j]):
                state.memory.last_target[j] = w.y[j]
            elif plan[FEEDBACK]:
                state.memory.last_target[j] = w.mean[j]
        if batch > 1:
            counters[CHANGE] = NOTHING
            if targets and ((t + 1) % batch == 0 or t + 1 == X.shape[0]):
                start = t - t % batch
                learn_batch(plan, counters, state, X[start : t + 1], Y[start : t + 1], w)
        elif learn:
            if plan[THETA] > 0:
                adapt_row(plan, counters, state, w)
            learn_seen(plan, counters, state, kappa, w)
            if plan[THETA] > 0:
                adapt_after(plan, counters, state, w)
        else:
            counters[CHANGE] = NOTHING
            counters[EVICTED] = -1
    return FINE, -1

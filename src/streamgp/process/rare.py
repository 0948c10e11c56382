"""What happens once in many rows, in NumPy: hyperparameters move, uncertainty is capped, a batch is learned.

The compiled loops (stream.py) stop where something of this is due, and then go on where they were.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract import inputs
from streamgp.contract.checks import DUE_AFTER, DUE_BEFORE, LARGEST, check
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import ALONE, LEARN, ONE, PREDICT, Lanes
from streamgp.kernels.program import Program
from streamgp.linalg.dense import factorize, inverse, product, solve, solve_transposed, subtract_gram, symmetric
from streamgp.process import features
from streamgp.process.adapt import move
from streamgp.process.posterior import COVARIANCE_NOISE
from streamgp.process.row import HALVINGS, LEARNED, MOST_HALVINGS
from streamgp.process.state import ABSORBED, outputs_of
from streamgp.settings import FloatArray

EPS = np.finfo(np.float64).eps


def go_on(
    run: Any, numbers: Numbers, lanes: Lanes, given: tuple[Any, ...], status: int, lane: int, at: int
) -> tuple[int, int]:
    """Do what is due where a loop has stopped, and let it go on until all is done; a status, and the row at fault."""
    ops, X, Y, conditions, kept, out = given[-6:]
    told: dict[int, FloatArray] = {}
    while status in (DUE_BEFORE, DUE_AFTER):
        model, row = lanes.models[lane], ops[at, 0]
        one = numbers if lanes is ALONE else numbers.one(model)
        if status == DUE_BEFORE:
            if ops[at, 1] & PREDICT:  # a row is predicted before anything is forgotten
                told[row] = np.empty((len(out), 1, out.shape[2]))
                alone = lanes.models[lane:][:1], ALONE.starts, ONE[PREDICT], X[row : row + 1], Y[:0]
                run(numbers.records, numbers.buffers, *alone, conditions[at : at + 1], kept[:0], told[row], 0, 0)
            inject_overdue(one, Y[row], conditions[at, TIME])
        else:
            settle(one)
        status, lane, at = run(*given, lane, at + (status == DUE_AFTER))
    for row, column in told.items():
        out[:, row] = column[:, 0]
    return status, at


def pass_batches(run: Any, numbers: Numbers, lanes: Lanes, *given: Any) -> None:
    """Do all operations of a model that learns so many rows together, as far as they come one after the other."""
    ops, X, Y, conditions, kept, out = given
    ends, size = lanes.starts if lanes.starts.size else np.array([0, len(ops)]), int(numbers.plan["batch"][0])
    status, at = check(X, Y, bool(numbers.plan["shared"][0]), LARGEST)
    if status:
        inputs.refuse(status, at, many=len(X) > 1)
    for k, model in enumerate(lanes.models):
        one, start = numbers if lanes is ALONE else numbers.one(model), ends[k]
        while start < ends[k + 1]:
            kind = ops[start, 1]
            others = np.flatnonzero(ops[start : min(start + size, ends[k + 1]), 1] != kind)
            stop = start + others[0] if len(others) else min(start + size, ends[k + 1])
            some, own = ops[start:stop].copy(), conditions[start:stop]
            some[:, 1] &= ~LEARN
            if some[0, 1]:
                run(one.records, one.buffers, *ALONE, some, X, Y[:0], own, kept, out, 0, 0)
            if kind & LEARN:
                rows = some[:, 0]
                learn_batch(one, X[rows], Y[rows], own)
            start = stop


@np.errstate(all="ignore")
def settle(numbers: Numbers) -> None:
    """Do what is due after a row that has been learned."""
    counters, plan = numbers.counters[0], numbers.plan[0]
    if 0 < plan["check_every"] <= counters["rows_since_check"]:
        counters["rows_since_check"] = 0
        for j in range(plan["covariances"]):
            inflate(numbers, j, 1.0)
    if plan["theta"] > 0:
        move.go_on(numbers)


@np.errstate(all="ignore")
def inject_overdue(numbers: Numbers, y: FloatArray, time: float) -> None:
    """Before a row is learned: uncertainty that may have doubled since it was last capped is injected and capped now.

    Between two rows it may grow by any factor. The row itself then injects nothing.
    """
    clock, half_life = numbers.state.clock, numbers.plan["half_life"][0]
    for j in range(clock.shape[1]):
        halvings = (time - clock[LEARNED, j]) / half_life
        if not np.isnan(y[j]) and clock[HALVINGS, j] + halvings > 1.0:
            clock[LEARNED, j], clock[HALVINGS, j] = time, 0.0
            inject(numbers, j, 2.0 ** min(halvings, MOST_HALVINGS))


@np.errstate(all="ignore")
def forget(numbers: Numbers, factor: float) -> None:
    """Let what was learned fade once, as forgetting by this factor does at a row."""
    plan = numbers.plan[0]
    for j in range(plan["covariances"]):
        if plan["injects"] or plan["factored"]:
            inject(numbers, j, 1.0 / factor)
        else:
            go_back(numbers, j, factor)


def weights_in_use(numbers: Numbers) -> int:
    grows = numbers.plan["features"][0] == features.DICTIONARY
    return numbers.count("points") if grows else int(numbers.plan["weights"][0])


def inject(numbers: Numbers, j: int, scale: float) -> None:
    """S <- scale S for covariance j, capped at the prior, with all that is carried along."""
    state = numbers.state
    inflate(numbers, j, scale)
    for variances in state.weight_variance[j : j + 1]:
        np.minimum(scale * variances, state.inverse_diagonal, out=variances)
    fade(numbers, j, 1.0 / scale)


def go_back(numbers: Numbers, j: int, factor: float) -> None:
    """S <- factor S + (1 - factor) I and mu <- sqrt(factor) mu for covariance j, as row.go_back() does at a row."""
    state, q = numbers.state, numbers.plan["temporal"][0]
    weights = slice(q, q + weights_in_use(numbers))
    S = state.covariance[j]
    mix_with_prior(S[weights, weights], 1.0 - factor)
    S[weights, :q] *= np.sqrt(factor)
    state.mu[weights, outputs_of(j, len(state.covariance))] *= np.sqrt(factor)
    for variances in state.weight_variance[j : j + 1]:
        variances[:] = factor * variances + (1.0 - factor) * state.inverse_diagonal
    fade(numbers, j, factor)


def fade(numbers: Numbers, j: int, factor: float) -> None:
    """Keep a part of the sums over the rows learned for covariance j; what was predicted holds no longer."""
    numbers.state.power[:, j] *= factor
    numbers.state.residual[:, j] *= factor
    numbers.work.last_prediction[0] = 0.0


def inflate(numbers: Numbers, j: int, scale: float) -> None:
    """S <- scale S for covariance j, with eigenvalues capped at 1, the prior's; health counts how many stood above."""
    state, n = numbers.state, weights_in_use(numbers)
    S, factored = state.covariance[j, :n, :n], numbers.plan["factored"][0]
    if factored:
        noise, R = state.noise[j], np.triu(S)
        root = inverse(R)
        full = noise * root @ root.T
    else:
        full = symmetric(S)
    if n == 0 or not np.isfinite(full).all():
        return
    values, vectors = np.linalg.eigh(full)
    values = scale * np.maximum(values, EPS)  # below is rounding, of either sign
    above = values > 1.0
    numbers.counters["capped_directions"] += np.count_nonzero(above)
    if scale == 1.0 and not above.any():
        return
    if not factored:  # built anew: subtracted from a large multiple of S, what stands above would take all digits
        S[:] = np.tril(vectors * np.minimum(values, 1.0) @ vectors.T)
        return
    # S = noise (R'R)^-1: a direction is brought down to the prior by a row that the weights R^-1 z explain wholly.
    rows = np.sqrt(noise * (1.0 - 1.0 / values[above]))[:, None] * vectors[:, above].T
    own = outputs_of(j, len(state.covariance))
    weights = solve(R, state.mu[:, own])
    R = np.linalg.qr(np.vstack([R / np.sqrt(scale), rows]), mode="r")
    R *= np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None]
    S[:], state.mu[:, own] = R, R @ weights


@np.errstate(all="ignore")
def learn_batch(numbers: Numbers, X: FloatArray, Y: FloatArray, conditions: FloatArray) -> None:
    """Learn rows together: their residuals are correlated as the prior says [huber2013]."""
    state, counters, jitter = numbers.state, numbers.counters[0], numbers.plan["jitter"][0]
    kernel = Program(numbers.work.operations, state.parameters)
    residual, K = kernel.between(X, X), kernel.between(state.basis, X)
    diagonal = np.diag_indices_from(residual)
    # A row that falls on a basis point observes that very function value, its jitter included.
    K += jitter * residual[diagonal] * (state.basis[:, None] == X).all(axis=2)
    residual[diagonal] *= 1.0 + jitter
    kappa = residual[diagonal]
    # [huber2013] Eq. (13) in coordinates in which the prior of the basis values is the identity.
    Phi = solve_transposed(state.factor, K)
    residual -= Phi.T @ Phi
    for j, S in enumerate(state.covariance):
        own = outputs_of(j, len(state.covariance))
        rows = np.flatnonzero(~np.isnan(Y[:, own][:, 0]))
        if not len(rows):
            continue
        noise, phi = noises(state.noise[j], conditions, j, len(X))[rows], Phi[:, rows]
        H = product(S, phi)
        V = residual[np.ix_(rows, rows)] + phi.T @ H + np.diag(noise)
        # [huber2013] Eqs. (14)-(16): the gain by a factor of the innovations' covariance.
        R, failed = factorize(V)
        if failed:
            counters["skipped_rows"] += len(rows)
            continue
        H = solve_transposed(R, H.T)
        state.mu[:, own] += H.T @ solve_transposed(R, Y[rows, own] - phi.T @ state.mu[:, own])
        subtract_gram(S, H)
        unresolved = np.count_nonzero(residual[rows, rows] + noise < COVARIANCE_NOISE * kappa[rows])
        if unresolved:
            counters["unresolved_rows"] += unresolved
            mix_with_prior(S, 2.0 * max(-np.diagonal(S).min(), 0.0))
        counters["change"] = ABSORBED


def noises(own: float, conditions: FloatArray, j: int, n: int) -> FloatArray:
    """The noise of n rows for covariance j, as row.noise_of() has it."""
    if len(conditions) == 0:
        return np.full(n, own)
    given, weight = conditions[:, NOISE:][:, j if conditions.shape[1] > NOISE + 1 else 0], conditions[:, WEIGHT]
    return np.where(np.isnan(given), np.where(np.isnan(weight), own, own / weight), given)


def mix_with_prior(S: FloatArray, part: float) -> None:
    """S = (1 - part) S + part I, of the lower triangle."""
    S *= 1.0 - min(part, 1.0)
    S[np.diag_indices_from(S)] += min(part, 1.0)

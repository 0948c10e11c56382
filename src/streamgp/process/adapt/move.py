"""The move of hyperparameters at the end of an interval: one natural step, and the posterior with it.

What was learned from the data stays, the prior under it is exchanged. When K = R'R becomes K' = R''R' and the noise of
what was learned is multiplied by r, then with P = R R'^-1, S = L'L, W = L P and B = W W' + (I - L L') / r = C'C

    S' = V'V      mu' = V' C^-T L^-T mu / r      V = C^-T W

positive by construction, without an inverse of S or K. Equal to the batch GP under the new hyperparameters. Fourier
features under another variance are the case P = I / c. The other way, ``rebuilt``, is the paper's: learn the basis
points' own targets again.

Points that the others explain under the new kernel leave first. Were the prior variance any number of times the noise,
that would feed on itself: few points need more variance, and more variance leaves fewer points distinct.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Numbers
from streamgp.kernels.program import Program
from streamgp.linalg.dense import factorize, inverse, outer, solve, solve_transposed, symmetric
from streamgp.process import budget, features
from streamgp.process.state import GATHERING, RESTING, STOPPED, outputs_of
from streamgp.settings import FloatArray

# Of the prior variance to the noise. Here a point leaves (budget.py) when the others know it to 1e-6 of its variance,
# which is the noise; at ten times the ratio it would be a hundred times the noise.
LARGEST_RATIO = 1e6

# Nats a row that the points which leave at one move may take with them.
MOST_LOST = 0.01

TRIES = 6  # of a step, each half as long as the one before


class Known(NamedTuple):
    """A posterior, and the factor of the prior of its basis points."""

    R: FloatArray  # (n, n), upper triangle; of Fourier features (0, 0)
    mu: FloatArray  # (coordinates, outputs)
    S: FloatArray  # (covariances, coordinates, coordinates), of which the lower triangle counts


Moved = tuple[FloatArray, FloatArray]  # a posterior after a move: mu, and V with S = V'V for each covariance


def go_on(numbers: Numbers) -> None:
    """Where a phase has ended, move or begin to gather."""
    state, counters, plan = numbers.state, numbers.counters[0], numbers.plan[0]
    if counters["phase_rows"] >= 0:
        return
    counters["phase_rows"], gathering = 0, counters["phase"] == GATHERING
    if gathering:
        move(numbers)
    if gathering or counters["moves"] == 0:
        record(numbers)
    if gathering and plan["features"] == features.DICTIONARY:  # others have nothing to rest for
        counters["phase"] = max(counters["phase"], RESTING)
    elif counters["phase"] != STOPPED:
        unit = units(numbers)
        counters["phase"], numbers.work.prepared[:], state.gradient[:] = GATHERING, 0.0, 0.0
        state.fisher[:] = np.diag(plan["damping"] / np.where(unit > 0.0, unit, 1.0) ** 2)


def record(numbers: Numbers) -> None:
    """One more point of the path; a full one is thinned to every other point, and so is what comes."""
    state, counters = numbers.state, numbers.counters[0]
    if counters["moves"] % counters["path_stride"]:
        return
    points = counters["path_points"]
    if points == len(state.path):
        points //= 2
        state.path[:points], state.path[points:] = state.path[::2].copy(), 0.0
        counters["path_stride"] *= 2
    state.path[points] = [counters["rows_seen"], state.density[0], *state.parameters, *state.noise]
    counters["path_points"] = points + 1


def move(numbers: Numbers) -> None:
    """One natural step of theta and the posterior with it; halved where it cannot be solved well or loses too much."""
    state, counters, plan = numbers.state, numbers.counters[0], numbers.plan[0]
    counters["moves"] += 1
    moves, longest = int(counters["moves"]), plan["longest"]
    # [soh2014] Eq. (52): the gradient by the inverse of the Fisher matrix
    root, failed = factorize(state.fisher)
    if failed:  # possible where numbers overflow: its diagonal
        root = np.diag(np.sqrt(np.diagonal(state.fisher)))
    step = (
        solve(root, solve_transposed(root, state.gradient)) * plan["rate"] / moves ** plan["decay"] / plan["interval"]
    )
    if plan["features"] == features.DICTIONARY:
        step = held(numbers, root, step)
    unit = units(numbers)
    scale = np.where(unit > 0.0, unit, 1.0)
    relative = np.clip(step / scale, -longest, longest)
    step, here = scale * relative, theta(numbers, unit)
    counters["calm"] = counters["calm"] + 1 if relative @ relative < plan["tolerance"] else 0
    if plan["tolerance"] > 0.0 and counters["calm"] >= plan["patience"]:
        step = state.average - here  # Polyak's average of the path is where it ends
        counters["phase"] = STOPPED
    for _ in range(TRIES):
        if move_to(numbers, unit, here + step):
            break
        counters["reduced_steps"] += 1
        step *= 0.5
    weight = 4.0 / (moves + 3.0) if moves > 1 else 1.0  # recent steps count more
    state.average += weight * (theta(numbers, unit) - state.average)


def units(numbers: Numbers) -> FloatArray:
    """The unit of each coordinate of theta that is a loading; 0 where it is a logarithm."""
    unit = np.zeros(numbers.state.gradient.size)
    unit[: numbers.state.parameters.size] = program_of(numbers).loading_units(numbers.work.seen.size)
    return unit


def theta(numbers: Numbers, unit: FloatArray) -> FloatArray:
    """The present coordinates: log hyperparameters of the kernel, or loadings as they are, then log noise."""
    values = np.concatenate([numbers.state.parameters, numbers.state.noise])
    return np.where(unit > 0.0, values, np.log(np.where(unit > 0.0, 1.0, values)))


def held(numbers: Numbers, root: FloatArray, step: FloatArray) -> FloatArray:
    """Where a step would take the prior variance too far above a noise, the best one that does not.

    That is, by the Fisher matrix F = root'root, step - F^-1 n (n'step - room) / n'F^-1 n, where n'step is what the
    logarithm of the ratio grows by.
    """
    state, points = numbers.state, numbers.count("points")
    kappa = state.prior[:points].mean() if points else 0.0
    for j in range(state.noise.size if kappa > 0.0 else 0):
        n = np.concatenate([numbers.work.growth, np.zeros(state.noise.size)])
        n[state.parameters.size + j] = -1.0
        excess = n @ step - max(np.log(LARGEST_RATIO * state.noise[j] / kappa), 0.0)
        if excess > 0.0:
            n = solve_transposed(root, n)
            step = step - excess / (n @ n) * solve(root, n)
    return step


def move_to(numbers: Numbers, unit: FloatArray, there: FloatArray) -> bool:
    """Take the posterior to other coordinates of theta; False, and nothing changed, where it fails."""
    state, plan = numbers.state, numbers.plan[0]
    values = np.where(unit > 0.0, there, np.exp(np.where(unit > 0.0, 0.0, there)))
    parameters, noise = np.split(values, [state.parameters.size])
    if plan["features"] != features.FOURIER:
        moved = move_basis(numbers, parameters, noise)
    elif plan["factored"]:
        moved = scale_information(numbers, parameters[0], noise)
    else:
        moved = rescale(numbers, parameters[0], noise)
    if moved:
        state.parameters[:], state.noise[:] = parameters, noise
    return moved


def rescale(numbers: Numbers, variance: float, noise: FloatArray) -> bool:
    """Fourier features under another variance and noise."""
    state = numbers.state
    P = np.ones(len(state.mu))
    P[numbers.plan[0]["temporal"] :] = np.sqrt(state.parameters[0] / variance)
    after = rebased(numbers, known(numbers, 0), np.diag(P), 1.0, noise)
    if after is None:
        return False
    place(numbers, after)
    return True


def move_basis(numbers: Numbers, parameters: FloatArray, noise: FloatArray) -> bool:
    """Basis points under another kernel and noise."""
    state, plan = numbers.state, numbers.plan[0]
    K, t, before = prior(numbers, parameters), int(plan["temporal"]), known(numbers, numbers.count("points"))
    grows, left = plan["features"] == features.DICTIONARY, np.arange(len(K))
    leaving: list[int] = []
    if grows:
        np.maximum(noise, np.trace(K) / (LARGEST_RATIO * max(len(K), 1)), out=noise)
        left, leaving, R, root = distinct(K, noise.min(), bool(plan["evict"] == budget.NEVER))
        if leaving:
            if lost_density(K, R, left, before.R.T @ before.mu[t:], noise) > MOST_LOST:
                return False
            before = without_others(before, left, t, marginal=plan["removal"] == budget.MARGINAL)
    else:
        R, failed = factorize(K)
        if failed:
            return False
    diagonal = np.diagonal(K)[left]
    if plan["rebuild"]:
        after: Moved | None = rebuilt(numbers, R, left, noise)
    else:
        P = np.eye(t + len(left))  # the prior over time stays
        P[t:, t:] = solve_transposed(R, before.R.T).T
        growth = diagonal.sum() / state.prior[left].sum() if len(left) else 1.0
        after = rebased(numbers, before, P, growth, noise)
    if after is None:
        return False
    n = len(left)
    if leaving:
        keep_points(numbers, left, leaving)
    place(numbers, after)
    state.prior[:n], state.factor[:n, :n] = diagonal, R
    if grows:
        state.inverse_diagonal[:n] = np.sum(root**2, axis=1)
        for variances, V in zip(state.weight_variance, after[1], strict=False):  # the diagonal of R^-1 S R^-T
            variances[:n] = np.sum((V[:, t:] @ root.T) ** 2, axis=0)
    return True


def program_of(numbers: Numbers) -> Program:
    return Program(numbers.work.operations, numbers.state.parameters)


def prior(numbers: Numbers, parameters: FloatArray) -> FloatArray:
    """K under other hyperparameters."""
    basis = numbers.state.basis[: numbers.count("points")]
    K = program_of(numbers)._replace(parameters=parameters).between(basis, basis)
    K[np.diag_indices_from(K)] *= 1.0 + numbers.plan[0]["jitter"]
    return K


def known(numbers: Numbers, n: int) -> Known:
    """What a model knows, with n basis points."""
    state, plan = numbers.state, numbers.plan[0]
    m = len(state.mu) if plan["features"] == features.FOURIER else plan["temporal"] + n
    return Known(state.factor[:n, :n], state.mu[:m], state.covariance[:, :m, :m])


def place(numbers: Numbers, after: Moved) -> None:
    """Write what is known after a move into a model."""
    (mu, V), state = after, numbers.state
    m = len(mu)
    state.mu[:m] = mu
    for S, one in zip(state.covariance, V, strict=True):
        S[:m, :m] = outer(one.T).T


def distinct(K: FloatArray, noise: float, stays: bool) -> tuple[np.ndarray, list[int], FloatArray, FloatArray]:
    """Which points are distinct under K, which others leave, each counted at its own moment, the factor R, and R^-1."""
    left = np.arange(len(K))
    leaving: list[int] = []
    while True:
        part = K[np.ix_(left, left)]
        R, r = factorize(part)
        if not r:
            root = inverse(R)
            Q = np.sum(root**2, axis=1)  # the diagonal of K^-1
            r = 1 + budget.least_distinct(Q, np.diagonal(part).copy(), len(left), noise, True, stays)
            if not r:
                return left, leaving, R, root
        leaving.append(r - 1)
        left = np.delete(left, r - 1)


def lost_density(K: FloatArray, R: FloatArray, left: np.ndarray, means: FloatArray, noise: FloatArray) -> float:
    """Log density a row that is lost where points leave: their means against those of the new kernel on the others.

    K is the new prior of all points, R the factor of those left, and each point stands for as many rows.
    """
    leave = np.delete(np.arange(len(K)), left)
    Phi = solve_transposed(R, K[np.ix_(left, leave)])
    gamma2 = np.maximum(np.diagonal(K)[leave] - np.sum(Phi**2, axis=0), 0.0)
    e = means[leave] - Phi.T @ solve_transposed(R, means[left])
    return float(np.sum(0.5 * e**2 / (noise + gamma2[:, None])) / len(K))


def without_others(before: Known, left: np.ndarray, t: int, *, marginal: bool) -> Known:
    """Evict all points but some, as growing.evict() does one by one: in coordinates of which the last are theirs alone.

    The first t coordinates are not of points. What leaves is marginalized out, or conditioned on being 0.
    """
    n, rest = len(left), len(before.R) - len(left)
    Q, R = np.linalg.qr(before.R[:, left], mode="complete")
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    U = np.eye(t + len(Q))
    U[t:, t:] = Q * np.concatenate([signs, np.ones(rest)])
    mu, S = U.T @ before.mu, U.T @ symmetric(before.S) @ U
    stay, gone = slice(t + n), slice(t + n, None)
    for j in range(0 if marginal else len(S)):
        own, (root, failed) = outputs_of(j, len(S)), factorize(S[j, gone, gone])
        if failed:  # then rebased() cannot solve it either, and the step is refused
            S[j] = np.nan
            continue
        gain = solve(root, solve_transposed(root, S[j, gone, stay])).T
        mu[stay, own] -= gain @ mu[gone, own]
        S[j, stay, stay] -= gain @ S[j, gone, stay]
    return Known(signs[:, None] * R[:n], mu[stay], S[:, stay, stay])


def rebased(numbers: Numbers, before: Known, P: FloatArray, growth: float, noise: FloatArray) -> Moved | None:
    """Exchange the prior under all outputs; None where one of them cannot be solved."""
    sums, present = numbers.state.residual, numbers.state.noise
    # g: what the residuals of the learned rows add to their noise, on (harmonic) average. It grows with the prior.
    g = np.maximum(sums[1] / np.where(sums[0] > 0.0, sums[0], np.inf) - present, 0.0)
    ratio, mu, V = (noise + growth * g) / (present + g), np.empty(before.mu.shape), np.empty(before.S.shape)
    for j, (S, r) in enumerate(zip(before.S, ratio, strict=True)):
        L, failed = factorize(S.T)
        W = L @ P
        C, failed_too = factorize(outer(W) + (np.eye(len(L)) - outer(L)) / r)
        if failed or failed_too:
            return None
        own, V[j] = outputs_of(j, len(V)), solve_transposed(C, W)
        mu[:, own] = V[j].T @ solve_transposed(C, solve_transposed(L, before.mu[:, own])) / r
    if not (np.isfinite(mu).all() and np.isfinite(V).all()):
        return None
    sums[0] = sums[1] / (noise + growth * g)
    return mu, V


def rebuilt(numbers: Numbers, R: FloatArray, left: np.ndarray, noise: FloatArray) -> Moved:
    """The paper's way: forget all, and learn the basis points' own targets under the new prior."""
    targets, sums = numbers.state.targets[left], numbers.state.residual
    mu, V = np.empty(targets.shape), np.empty((noise.size, *R.shape))
    for j in range(noise.size):
        own = outputs_of(j, len(V))
        given = ~np.isnan(targets[:, own][:, 0])
        Phi = R[:, given]
        C, _ = factorize(np.eye(len(R)) + Phi @ Phi.T / noise[j])
        V[j] = inverse(C).T
        mu[:, own] = V[j].T @ (V[j] @ (Phi @ targets[given, own])) / noise[j]
    sums[0] = sums[1] / noise  # no residual any more
    return mu, V


def keep_points(numbers: Numbers, left: np.ndarray, leaving: list[int]) -> None:
    """Let points go; the place of what belongs to the others is that of the first ones, and the rest is 0."""
    state, counters, n = numbers.state, numbers.counters[0], len(left)
    m, first = numbers.plan[0]["temporal"] + n, counters["evictions"]
    state.evicted[first : first + len(leaving)] = leaving
    counters["points"] = n
    counters["evictions"] += len(leaving)
    counters["indistinct_points"] += len(leaving)
    for array in (state.basis, state.targets):
        if len(array):
            array[:n] = array[left]
        array[n:] = 0.0
    for array in (state.prior, state.inverse_diagonal, state.factor, state.factor.T, state.weight_variance.T):
        array[n:] = 0.0
    state.mu[m:] = state.covariance[:, m:] = 0.0


def scale_information(numbers: Numbers, variance: float, noise: FloatArray) -> bool:
    """Fourier features in the information form: noise I + sum phi phi', whose sums scale with c^2 and c."""
    state = numbers.state
    c2 = variance / state.parameters[0]
    R, z = np.triu(state.covariance), np.empty(state.mu.shape)
    moved = np.empty(R.shape)
    for j in range(noise.size):
        A = c2 * (R[j].T @ R[j])
        A[np.diag_indices_from(A)] += noise[j] - c2 * state.noise[j]
        moved[j], failed = factorize(A)
        if failed:
            return False
        own = outputs_of(j, noise.size)
        z[:, own] = solve_transposed(moved[j], np.sqrt(c2) * R[j].T @ state.mu[:, own])
    state.covariance[:], state.mu[:] = moved, z
    return True

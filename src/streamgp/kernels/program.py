"""Kernels as data: an expression becomes a short program that one compiled function runs for a whole dictionary.

A program is a table of operations in postfix order, one row each (operation, first parameter, number of lengthscales,
depth of the window, number of factors), and the vector of its hyperparameters. A leaf pushes the vector k(B, x) on a
stack; a sum or a product folds the two topmost vectors into one. So there is one loop for all kernels, kernel algebra
stays in Python and compiled code caches well. Every formula stands here once, its derivative beside it: with respect to
the logarithms of the positive hyperparameters, and to the loadings of factors themselves, which have any sign.

The hyperparameters of a leaf are its lengthscales, what else it has, its variance and the loadings (d, factors).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import BOOLEAN, MATRIX, VECTOR, WHOLES, compile_now, compiled, entry, uncompiled
from streamgp.linalg.vector import dot

Array = NDArray

SUM, PRODUCT, CONSTANT, LINEAR, SE, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, RECURSIVE_SE = range(11)
OPERATION, FIRST, SCALES, DEPTH, FACTORS = range(5)


class Program(NamedTuple):
    """A kernel bound to the width and depth of its inputs."""

    operations: Array  # (steps, 5) int64
    parameters: Array  # (hyperparameters,) float64

    def stack(self) -> int:
        """How many vectors the program holds at once."""
        joins = self.operations[:, OPERATION] <= PRODUCT
        return int(np.where(joins, -1, 1).cumsum().max(initial=0))

    def scratch(self, points: int, width: int, gradients: bool = False) -> int:
        """Length of the work array for a dictionary of this many points."""
        needed = (self.stack() + 1) * points + width
        if gradients:
            needed += int(self.operations[0, DEPTH]) * points + len(self.operations) + 1
        return needed

    def between(self, X: Array, Z: Array) -> Array:
        """The matrix k(X, Z)."""
        compile_now(matrix)
        K = np.empty((len(X), len(Z)))
        matrix(self.operations, self.parameters, Z, X, K, np.empty(self.scratch(len(Z), X.shape[1])))
        return K

    def diagonal(self, X: Array) -> tuple[Array, Array]:
        """k(x, x) of n rows, and its derivatives (hyperparameters, n) by their logarithms: only variances have some."""
        G = np.zeros((self.parameters.size, len(X)))
        kept: list[tuple[Array, int]] = []  # a stack of values, and where the hyperparameters of each begin
        for operation, first, scales, *_ in self.operations:
            if operation in (SUM, PRODUCT):
                (a, start), (b, middle) = kept.pop(-2), kept.pop()
                if operation == PRODUCT:
                    G[start:middle] *= b
                    G[middle:first] *= a
                kept.append((a + b if operation == SUM else a * b, start))
            else:
                last = first + uncompiled(before_loadings)(operation, scales) - 1
                G[last] = self.parameters[last] * (np.einsum("ij,ij->i", X, X) if operation == LINEAR else 1.0)
                kept.append((G[last].copy(), first))
        return kept[0][0], G

    def loading_units(self, width: int) -> Array:
        """What each loading is measured in when it moves; 0 for a hyperparameter that moves by its logarithm.

        It is the square root of its input's entry on the diagonal of M = Lambda Lambda' + diag(lengthscale)^-2.
        """
        units, theta = np.zeros(self.parameters.size), self.parameters
        for operation, first, scales, depth, factors in self.operations[self.operations[:, FACTORS] > 0]:
            start, d = first + uncompiled(before_loadings)(operation, scales), width // depth
            loadings2 = theta[start : start + d * factors].reshape(d, factors) ** 2
            m = np.resize(theta[first : first + scales], d) ** -2.0 + loadings2.sum(axis=1)
            units[start : start + d * factors] = np.repeat(np.sqrt(m), factors)
        return units

    def weighted_gradient(self, W: Array, X: Array, Z: Array, triangle: bool) -> Array:
        """sum_ij W[i, j] d k(X[i], Z[j]) / d log theta, by a loading itself; of a triangle (X = Z) j <= i counts."""
        compile_now(weighted_gradient)
        total, work = np.zeros(self.parameters.size), np.empty(self.scratch(len(Z), X.shape[1], gradients=True))
        value, G = np.empty(len(Z)), np.empty((total.size, len(Z)))
        weighted_gradient(self.operations, self.parameters, Z, X, W, triangle, work, value, G, total)
        return total

    def input_gradient(self, B: Array, x: Array) -> Array:
        """d k(B, x) / d x, (width, n)."""
        compile_now(input_gradient)
        n, leaves = len(B), (len(self.operations) + 1) // 2
        G, work = np.empty((leaves * x.size, n)), np.empty(self.scratch(n, x.size, gradients=True))
        input_gradient(self.operations, self.parameters, B, x, np.empty(n), G, work)
        return G.reshape(leaves, x.size, n).sum(axis=0)  # type: ignore[no-any-return]


@compiled
def before_loadings(operation: int, scales: int) -> int:
    """How many hyperparameters of a leaf come before its loadings; its variance is the last of them."""
    own = operation == RATIONAL_QUADRATIC or operation == RECURSIVE_SE or operation == PERIODIC
    return scales + (2 if own else 1)


@compiled
def lags_of(step: Array) -> int:
    """In how many parts a leaf takes the distance: a recursive kernel lag by lag, others all at once."""
    return step[DEPTH] if step[OPERATION] == RECURSIVE_SE else 1


@compiled
def inverse_squares(theta: Array, scales: int, width: int, weights: Array) -> None:
    """weights[j] = 1 / lengthscale[j]^2; one lengthscale serves all inputs, d of them repeat over the lags."""
    for j in range(width):
        lengthscale = theta[j % scales]
        weights[j] = 1.0 / (lengthscale * lengthscale)


@compiled
def projection(a: Array, b: Array, first: int, d: int, loadings: Array, factors: int, f: int) -> float:
    """Of the difference of the inputs at one lag, which begin at first, on the loadings of factor f."""
    u = 0.0
    for j in range(d):
        u += loadings[j * factors + f] * (a[first + j] - b[first + j])
    return u


@compiled
def squared_distances(
    step: Array, theta: Array, B: Array, n: int, x: Array, first: int, end: int, weights: Array, out: Array
) -> None:
    """Those of B to x by the numbers from first to end, of whole lags.

    With a period, the sine of half an angle is in place of a difference.
    """
    if step[OPERATION] == PERIODIC:
        for i in range(n):
            out[i] = 0.0
            for j in range(first, end):
                u = np.sin(np.pi * (B[i, j] - x[j]) / theta[step[SCALES]])
                out[i] += weights[j] * u * u
        return
    at, by = x[first:], weights[first:end]
    for i in range(n):  # nothing else in this loop: it is most of the time of a filter
        row, r2 = B[i, first:], 0.0
        for j in range(by.size):
            difference = row[j] - at[j]
            r2 += by[j] * difference * difference
        out[i] = r2
    # [soh2014] IV, below (40): M = Lambda Lambda' + diag(l)^-2, the factor analysis distance.
    loadings, factors, d = theta[before_loadings(step[OPERATION], step[SCALES]) :], step[FACTORS], x.size // step[DEPTH]
    for i in range(n if factors > 0 else 0):
        for lag in range(first, end, d):
            for f in range(factors):
                u = projection(B[i], x, lag, d, loadings, factors, f)
                out[i] += u * u


@compiled
def radial(operation: int, shape: float, r2: float) -> tuple[float, float, float]:
    """f(r2), df/dr2 and df/dlog(shape) of the stationary kernels; where f has a kink, the mean of both sides."""
    if operation == SE:
        f = np.exp(-0.5 * r2)
        return f, -0.5 * f, 0.0
    if operation == PERIODIC:
        f = np.exp(-2.0 * r2)
        return f, -2.0 * f, 0.0
    if operation == RATIONAL_QUADRATIC:
        base = 1.0 + r2 / (2.0 * shape)
        f = base ** (-shape)
        return f, -0.5 * f / base, f * (-shape * np.log(base) + 0.5 * r2 / base)
    r = np.sqrt(r2)
    if operation == MATERN12:
        f = np.exp(-r)
        return f, (-0.5 * f / r if r > 0.0 else 0.0), 0.0
    if operation == MATERN32:
        a = np.sqrt(3.0) * r
        e = np.exp(-a)
        return (1.0 + a) * e, -1.5 * e, 0.0
    a = np.sqrt(5.0) * r
    e = np.exp(-a)
    return (1.0 + a + a * a / 3.0) * e, -(5.0 / 6.0) * (1.0 + a) * e, 0.0


@compiled
def recursive_step(kappa: float, r2: float, temporal2: float) -> float:
    # [soh2014] Eq. (40); (35) prints kappa_t on the right-hand side where kappa_{t-1} is meant.
    return np.exp(-0.5 * r2 + (kappa - 1.0) / temporal2)  # type: ignore[no-any-return]


@compiled
def leaf(step: Array, theta: Array, B: Array, n: int, x: Array, out: Array, work: Array) -> None:
    """out = k(B, x) for one leaf of the program; theta begins with the leaf's own hyperparameters.

    Work space: x.size + n numbers.
    """
    operation, scales, width = step[OPERATION], step[SCALES], x.size
    if operation == CONSTANT:
        for i in range(n):
            out[i] = theta[0]
        return
    if operation == LINEAR:
        for i in range(n):
            total = 0.0
            for j in range(width):
                total += B[i, j] * x[j]
            out[i] = theta[0] * total
        return
    weights, r2 = work[:width], work[width : width + n]
    own, variance = theta[scales], theta[before_loadings(operation, scales) - 1]
    inverse_squares(theta, scales, width, weights)
    lags = lags_of(step)
    d = width // lags
    for i in range(n):
        out[i] = 1.0
    for lag in range(lags):  # the oldest input comes first; points inside, since each waits for itself
        squared_distances(step, theta, B, n, x, lag * d, lag * d + d, weights, r2)
        if operation == RECURSIVE_SE:
            for i in range(n):
                out[i] = recursive_step(out[i], r2[i], own * own)
    if operation == RECURSIVE_SE:
        for i in range(n):
            # [soh2014] Eq. (41): the signal variance multiplies once, so that k(x, x) = variance.
            out[i] *= variance
    elif operation == SE:  # the loop that matters most, without the branches of radial()
        for i in range(n):
            out[i] = variance * np.exp(-0.5 * r2[i])
    else:
        for i in range(n):
            out[i] = variance * radial(operation, own, r2[i])[0]


@compiled
def fold(operation: int, a: Array, b: Array) -> None:
    """a <- a + b, or a b."""
    for i in range(a.size):
        a[i] = a[i] + b[i] if operation == SUM else a[i] * b[i]


@compiled
def cross(operations: Array, theta: Array, B: Array, n: int, x: Array, out: Array, work: Array) -> None:
    """out[i] = k(B[i], x) for the first n rows of B."""
    of_leaf, stack = work[: x.size + n], work[x.size + n :]
    if operations.shape[0] == 1:
        leaf(operations[0], theta, B, n, x, out, of_leaf)
        return
    top = 0
    for s in range(operations.shape[0]):
        step = operations[s]
        operation = step[OPERATION]
        if operation == SUM or operation == PRODUCT:
            a, b = stack[(top - 2) * n : (top - 1) * n], stack[(top - 1) * n : top * n]
            fold(operation, a, b)
            top -= 1
        else:
            leaf(step, theta[step[FIRST] :], B, n, x, stack[top * n : (top + 1) * n], of_leaf)
            top += 1
    for i in range(n):
        out[i] = stack[i]


@compiled
def diagonal(operations: Array, theta: Array, x: Array, work: Array) -> float:
    """k(x, x): at a distance of 0 a stationary kernel is its variance."""
    top = 0
    for s in range(operations.shape[0]):
        step = operations[s]
        operation = step[OPERATION]
        if operation == SUM or operation == PRODUCT:
            top -= 1
            a, b = work[top - 1], work[top]
            work[top - 1] = a + b if operation == SUM else a * b
        else:
            work[top] = theta[step[FIRST] + before_loadings(operation, step[SCALES]) - 1]
            if operation == LINEAR:
                work[top] *= dot(x, x, x.size)
            top += 1
    return work[0]  # type: ignore[no-any-return]


@compiled
def by_distance(step: Array, theta: Array, B: Array, n: int, x: Array, weights: Array, out: Array, by: Array) -> None:
    """out = k(B, x) of a leaf over distances; by[lag] = d k / d r2 of a lag, of all where they add up to one distance.

    The last of by is d k / d log of the shape, or of the temporal lengthscale.
    """
    operation, scales, lags = step[OPERATION], step[SCALES], lags_of(step)
    own, variance, d = theta[scales], theta[before_loadings(operation, scales) - 1], x.size // lags
    last_row, temporal2 = by[step[DEPTH]], own * own
    for lag in range(lags):
        squared_distances(step, theta, B, n, x, lag * d, lag * d + d, weights, by[lag])
    if operation != RECURSIVE_SE:
        for i in range(n):
            f, by_r2, by_own = radial(operation, own, by[0, i])
            out[i], by[0, i], last_row[i] = variance * f, variance * by_r2, variance * by_own
        return
    for i in range(n):
        kappa, by_own = 1.0, 0.0
        for lag in range(lags):
            last = kappa
            kappa = recursive_step(last, by[lag, i], temporal2)
            by[lag, i] = kappa
            # [soh2014] Eqs. (42), (43), times the hyperparameter: derivatives by its logarithm.
            by_own = (by_own - 2.0 * (last - 1.0)) * kappa / temporal2
        out[i], last_row[i], weight = variance * kappa, variance * by_own, variance
        for lag in range(lags - 1, -1, -1):  # an older input acts through the later kappas
            weight *= by[lag, i]
            by[lag, i] = -0.5 * weight
            weight /= temporal2


@compiled
def leaf_gradient(
    step: Array,
    theta: Array,
    B: Array,
    n: int,
    x: Array,
    by_inputs: bool,
    out: Array,
    grad: Array,
    weights: Array,
    by: Array,
) -> None:
    """out = k(B, x) for one leaf, grad[h, i] = d out[i] / d log theta[h], by a loading itself; or d out[i] / d x[h].

    Work space: weights (width,) and by (depth + 1, n).
    """
    operation, scales, width, factors = step[OPERATION], step[SCALES], x.size, step[FACTORS]
    before, d = before_loadings(operation, scales), width // step[DEPTH]
    if operation == CONSTANT or operation == LINEAR:
        leaf(step, theta, B, n, x, out, weights)  # these two need no work space
        for i in range(n):
            if not by_inputs:
                grad[0, i] = out[i]
            elif operation == LINEAR:
                for j in range(width):
                    grad[j, i] = theta[0] * B[i, j]
        return
    own, loadings = theta[scales], theta[before:]
    inverse_squares(theta, scales, width, weights)
    by_distance(step, theta, B, n, x, weights, out, by)
    for j in range(width):
        w, slopes = 2.0 * weights[j], by[j // d if operation == RECURSIVE_SE else 0]
        row = grad[j if by_inputs else j % scales]
        if operation == PERIODIC:
            for i in range(n):
                angle = np.pi * (B[i, j] - x[j]) / own
                u = np.sin(angle)
                pull = w * slopes[i] * u * np.cos(angle)
                if by_inputs:
                    row[i] -= pull * np.pi / own
                else:
                    row[i] -= w * slopes[i] * u * u
                    grad[scales, i] -= pull * angle
        elif by_inputs:
            for i in range(n):
                row[i] -= w * slopes[i] * (B[i, j] - x[j])
        else:
            for i in range(n):
                difference = B[i, j] - x[j]
                row[i] -= w * slopes[i] * difference * difference
    for first in range(0, width if factors > 0 else 0, d):
        slopes = by[first // d if operation == RECURSIVE_SE else 0]
        for f in range(factors):
            for i in range(n):
                pull = 2.0 * slopes[i] * projection(B[i], x, first, d, loadings, factors, f)
                for j in range(d):
                    if by_inputs:
                        grad[first + j, i] -= pull * loadings[j * factors + f]
                    else:
                        grad[before + j * factors + f, i] += pull * (B[i, first + j] - x[first + j])
    if not by_inputs:
        for i in range(n):
            if operation == RATIONAL_QUADRATIC or operation == RECURSIVE_SE:
                grad[scales, i] = by[step[DEPTH], i]
            grad[before - 1, i] = out[i]


@compiled
def cross_gradient(
    operations: Array, theta: Array, B: Array, n: int, x: Array, by_inputs: bool, out: Array, grad: Array, work: Array
) -> None:
    """out[i] = k(B[i], x) and grad[h, i] = d out[i] / d log theta[h], by a loading itself.

    Or, by inputs, what leaf after leaf adds to d out[i] / d x: grad has a row for each of the leaves' inputs.
    """
    weights, end, lags = work[: x.size], x.size + operations.shape[0] + 1, operations[0, DEPTH] + 1
    starts = work[x.size : end]  # where the rows of each operand begin
    by, stack = work[end : end + lags * n].reshape(lags, n), work[end + lags * n :]
    for h in range(grad.shape[0]):
        for i in range(n):
            grad[h, i] = 0.0
    top = 0
    seen = 0
    for s in range(operations.shape[0]):
        step = operations[s]
        operation = step[OPERATION]
        if operation == SUM or operation == PRODUCT:
            a, b = stack[(top - 2) * n : (top - 1) * n], stack[(top - 1) * n : top * n]
            if operation == PRODUCT:
                for h in range(int(starts[top - 2]), int(starts[top - 1])):
                    for i in range(n):
                        grad[h, i] *= b[i]
                for h in range(int(starts[top - 1]), seen):
                    for i in range(n):
                        grad[h, i] *= a[i]
            fold(operation, a, b)
            top -= 1
        else:
            first = step[FIRST]
            last = operations[s + 1, FIRST] if s + 1 < operations.shape[0] else theta.size
            begin = seen
            starts[top] = seen
            seen += x.size if by_inputs else last - first
            value = stack[top * n : (top + 1) * n]
            leaf_gradient(step, theta[first:], B, n, x, by_inputs, value, grad[begin:seen], weights, by)
            top += 1
    for i in range(n):
        out[i] = stack[i]


@entry(WHOLES, VECTOR, MATRIX, VECTOR, VECTOR, MATRIX, VECTOR)
def input_gradient(operations: Array, theta: Array, B: Array, x: Array, out: Array, grad: Array, work: Array) -> None:
    """The gradient of k(B, x) by x, leaf after leaf."""
    cross_gradient(operations, theta, B, B.shape[0], x, True, out, grad, work)


@entry(WHOLES, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR)
def matrix(operations: Array, theta: Array, X: Array, Z: Array, K: Array, work: Array) -> None:
    """K[i, j] = k(Z[i], X[j]) laid out with one row for each row of Z."""
    for i in range(Z.shape[0]):
        cross(operations, theta, X, X.shape[0], Z[i], K[i], work)


@entry(WHOLES, VECTOR, MATRIX, MATRIX, MATRIX, BOOLEAN, VECTOR, VECTOR, MATRIX, VECTOR)
def weighted_gradient(
    operations: Array,
    theta: Array,
    X: Array,
    Z: Array,
    W: Array,
    triangle: bool,
    work: Array,
    value: Array,
    G: Array,
    total: Array,
) -> None:
    """total[h] = sum_ij W[i, j] d k(Z[i], X[j]) / d log theta[h]; of a triangle (X = Z) only j <= i is visited.

    Work space: ``work``, value (n,) and G (hyperparameters, n) for n rows X.
    """
    by_inputs = theta.size < 0  # not a literal False, for which Numba would compile it again
    for i in range(Z.shape[0]):
        n = i + 1 if triangle else X.shape[0]
        cross_gradient(operations, theta, X, n, Z[i], by_inputs, value, G, work)
        for h in range(theta.size):
            total[h] += dot(W[i], G[h], n)

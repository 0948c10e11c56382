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

from streamgp.compiled import BOOLEAN, CUBE, MATRIX, VECTOR, WHOLE, WHOLES, compiled, entry

Array = NDArray

SUM, PRODUCT, CONSTANT, LINEAR, SE, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, RECURSIVE_SE = range(11)
OPERATION, FIRST, SCALES, DEPTH, FACTORS = range(5)


class Program(NamedTuple):
    """A kernel bound to the width and depth of its inputs."""

    operations: Array  # (steps, 5) int64
    parameters: Array  # (hyperparameters,) float64

    def stack(self) -> int:
        """How many vectors the program holds at once."""
        height = most = 0
        for operation in self.operations[:, OPERATION]:
            height += -1 if operation in (SUM, PRODUCT) else 1
            most = max(most, height)
        return most

    def scratch(self, points: int, width: int) -> int:
        """Length of the work array for a dictionary of this many points."""
        return self.stack() * points + 2 * width

    def between(self, X: Array, Z: Array) -> Array:
        """The matrix k(X, Z)."""
        K = np.empty((len(X), len(Z)))
        matrix(self.operations, self.parameters, Z, X, K, np.empty(self.scratch(len(Z), X.shape[1])))
        return K


@compiled
def inverse_squares(theta: Array, scales: int, width: int, weights: Array) -> None:
    """weights[j] = 1 / lengthscale[j]^2; one lengthscale serves all inputs, d of them repeat over the lags."""
    for j in range(width):
        lengthscale = theta[j % scales]
        weights[j] = 1.0 / (lengthscale * lengthscale)


@compiled
def squared_distance(a: Array, b: Array, weights: Array) -> float:
    r2 = 0.0
    for j in range(weights.size):
        difference = a[j] - b[j]
        r2 += weights[j] * difference * difference
    return r2


@compiled
def projection(a: Array, b: Array, first: int, d: int, loadings: Array, factors: int, f: int) -> float:
    """Of the difference of the inputs at one lag, which begin at first, on the loadings of factor f."""
    u = 0.0
    for j in range(d):
        u += loadings[j * factors + f] * (a[first + j] - b[first + j])
    return u


@compiled
def factor_distance(a: Array, b: Array, end: int, count: int, d: int, loadings: Array, factors: int) -> float:
    """(a - b)' Lambda Lambda' (a - b), summed over the lags in this many numbers: what factors add to a distance."""
    r2 = 0.0
    for first in range(end - count, end, d):
        for f in range(factors):
            u = projection(a, b, first, d, loadings, factors, f)
            r2 += u * u
    return r2


@compiled
def before_loadings(operation: int, scales: int) -> int:
    """How many hyperparameters of a leaf come before its loadings."""
    return scales + (2 if operation == RATIONAL_QUADRATIC or operation == RECURSIVE_SE else 1)


@entry(WHOLES, VECTOR, WHOLE, VECTOR)
def loading_units(operations: Array, theta: Array, width: int, out: Array) -> None:
    """out[h]: for a loading the square root of its input's entry of M = Lambda Lambda' + diag(l)^-2, otherwise 0."""
    for h in range(theta.size):
        out[h] = 0.0
    for s in range(operations.shape[0]):
        step = operations[s]
        factors = step[FACTORS]
        if factors > 0:
            start = step[FIRST] + before_loadings(step[OPERATION], step[SCALES])
            for j in range(width // step[DEPTH]):
                lengthscale = theta[step[FIRST] + j % step[SCALES]]
                first, m = start + j * factors, 1.0 / (lengthscale * lengthscale)
                for h in range(first, first + factors):
                    m += theta[h] * theta[h]
                for h in range(first, first + factors):
                    out[h] = np.sqrt(m)


@compiled
def radial(operation: int, shape: float, r2: float) -> tuple[float, float, float]:
    """f(r^2), r^2 f'(r^2) / r^2 in the form df/d(r^2), and df/d(log shape) of the stationary kernels."""
    if operation == SE:
        f = np.exp(-0.5 * r2)
        return f, -0.5 * f, 0.0
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
    """out = k(B, x) for one leaf of the program; theta begins with the leaf's own hyperparameters."""
    operation, scales, width, factors = step[OPERATION], step[SCALES], x.size, step[FACTORS]
    loadings = theta[before_loadings(operation, scales) :]
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
    if operation == PERIODIC:
        # exp(-2 sin^2(pi d / period) / lengthscale^2), multiplied over the inputs.
        variance = theta[scales + 1]
        for i in range(n):
            total = 0.0
            for j in range(width):
                u = np.sin(np.pi * (B[i, j] - x[j]) / theta[scales]) / theta[j % scales]
                total += u * u
            out[i] = variance * np.exp(-2.0 * total)
        return
    if operation == RECURSIVE_SE:
        depth = step[DEPTH]
        d = width // depth
        weights = work[:d]
        inverse_squares(theta, scales, d, weights)
        temporal2 = theta[scales] * theta[scales]
        variance = theta[scales + 1]
        for i in range(n):
            out[i] = 1.0
        for lag in range(depth):  # the oldest input comes first; the points inside, since each has to wait for itself
            for i in range(n):
                r2 = 0.0
                for j in range(d):
                    difference = B[i, lag * d + j] - x[lag * d + j]
                    r2 += weights[j] * difference * difference
                if factors > 0:
                    # [soh2014] IV, below (40): M = Lambda Lambda' + diag(l)^-2, the factor analysis distance.
                    r2 += factor_distance(B[i], x, lag * d + d, d, d, loadings, factors)
                out[i] = recursive_step(out[i], r2, temporal2)
        for i in range(n):
            # [soh2014] Eq. (41): the signal variance multiplies once, so that k(x, x) = variance.
            out[i] *= variance
        return
    weights = work[:width]
    inverse_squares(theta, scales, width, weights)
    last = scales + (1 if operation == RATIONAL_QUADRATIC else 0)
    shape, variance = theta[scales], theta[last]
    for i in range(n):
        out[i] = squared_distance(B[i], x, weights)
    if factors > 0:
        for i in range(n):
            out[i] += factor_distance(B[i], x, width, width, width // step[DEPTH], loadings, factors)
    if operation == SE:  # the loop that matters most, without the branches of radial()
        for i in range(n):
            out[i] = variance * np.exp(-0.5 * out[i])
    else:
        for i in range(n):
            out[i] = variance * radial(operation, shape, out[i])[0]


@compiled
def cross(operations: Array, theta: Array, B: Array, n: int, x: Array, out: Array, work: Array) -> None:
    """out[i] = k(B[i], x) for the first n rows of B."""
    weights = work[: 2 * x.size]
    stack = work[2 * x.size :]
    if operations.shape[0] == 1:
        leaf(operations[0], theta, B, n, x, out, weights)
        return
    top = 0
    for s in range(operations.shape[0]):
        step = operations[s]
        operation = step[OPERATION]
        if operation == SUM or operation == PRODUCT:
            a, b = stack[(top - 2) * n : (top - 1) * n], stack[(top - 1) * n : top * n]
            for i in range(n):
                a[i] = a[i] + b[i] if operation == SUM else a[i] * b[i]
            top -= 1
        else:
            leaf(step, theta[step[FIRST] :], B, n, x, stack[top * n : (top + 1) * n], weights)
            top += 1
    for i in range(n):
        out[i] = stack[i]


@entry(WHOLES, VECTOR, VECTOR, VECTOR, VECTOR)
def diagonal(operations: Array, theta: Array, x: Array, out: Array, work: Array) -> float:
    """k(x, x)."""
    alone = x.reshape(1, x.size)
    cross(operations, theta, alone, alone.shape[0], x, out, work)  # for a literal 1 Numba would compile it again
    return out[0]  # type: ignore[no-any-return]


@compiled
def leaf_gradient(step: Array, theta: Array, B: Array, n: int, x: Array, grad: Array, work: Array) -> None:
    """grad[h, i] = d k(B[i], x) / d log theta[h] for one leaf; by a loading itself."""
    operation, scales, width, factors = step[OPERATION], step[SCALES], x.size, step[FACTORS]
    before = before_loadings(operation, scales)
    loadings = theta[before:]
    if operation == CONSTANT or operation == LINEAR:
        leaf(step, theta, B, n, x, grad[0], work)
        return
    if operation == PERIODIC:
        period = theta[scales]
        leaf(step, theta, B, n, x, grad[scales + 1], work)
        for i in range(n):
            k = grad[scales + 1, i]
            for j in range(width):
                angle = np.pi * (B[i, j] - x[j]) / period
                u = np.sin(angle) / theta[j % scales]
                grad[j % scales, i] += 4.0 * k * u * u
                grad[scales, i] += 4.0 * k * u * np.cos(angle) * angle / theta[j % scales]
        return
    if operation == RECURSIVE_SE:
        depth = step[DEPTH]
        d = width // depth
        weights = work[:d]
        inverse_squares(theta, scales, d, weights)
        temporal2 = theta[scales] * theta[scales]
        variance = theta[scales + 1]
        kappa = grad[scales + 1]
        for i in range(n):
            kappa[i] = 1.0
        for lag in range(depth):
            for i in range(n):
                r2 = 0.0
                for h in range(scales):
                    grad[h, i] /= temporal2
                for j in range(d):
                    difference = B[i, lag * d + j] - x[lag * d + j]
                    r2 += weights[j] * difference * difference
                    grad[j % scales, i] += weights[j] * difference * difference
                for f in range(factors):
                    u = projection(B[i], x, lag * d, d, loadings, factors, f)
                    r2 += u * u
                    for j in range(d):
                        h = before + j * factors + f
                        grad[h, i] = grad[h, i] / temporal2 - u * (B[i, lag * d + j] - x[lag * d + j])
                # [soh2014] Eqs. (42), (43), times the hyperparameter: derivatives by its logarithm.
                grad[scales, i] = (grad[scales, i] - 2.0 * (kappa[i] - 1.0)) / temporal2
                kappa[i] = recursive_step(kappa[i], r2, temporal2)
                for h in range(scales + 1):
                    grad[h, i] *= kappa[i]
                for h in range(before, before + d * factors):
                    grad[h, i] *= kappa[i]
        for i in range(n):
            for h in range(before + d * factors):
                grad[h, i] *= variance
        return
    weights = work[:width]
    inverse_squares(theta, scales, width, weights)
    last = scales + (1 if operation == RATIONAL_QUADRATIC else 0)
    shape, variance = theta[scales], theta[last]
    d = width // step[DEPTH]
    for i in range(n):
        r2 = squared_distance(B[i], x, weights) + factor_distance(B[i], x, width, width, d, loadings, factors)
        value, by_r2, by_shape = radial(operation, shape, r2)
        for j in range(width):
            difference = B[i, j] - x[j]
            grad[j % scales, i] -= 2.0 * variance * by_r2 * weights[j] * difference * difference
        for first in range(0, width, d):
            for f in range(factors):
                u = projection(B[i], x, first, d, loadings, factors, f)
                for j in range(d):
                    difference = B[i, first + j] - x[first + j]
                    grad[before + j * factors + f, i] += 2.0 * variance * by_r2 * u * difference
        if last > scales:
            grad[scales, i] = variance * by_shape
        grad[last, i] = variance * value


@compiled
def cross_gradient(
    operations: Array, theta: Array, B: Array, n: int, x: Array, out: Array, grad: Array, work: Array
) -> None:
    """out[i] = k(B[i], x) and grad[h, i] = d out[i] / d log theta[h], by a loading itself."""
    weights = work[: 2 * x.size]
    stack = work[2 * x.size :]
    for h in range(theta.size):
        for i in range(n):
            grad[h, i] = 0.0
    starts = np.zeros(operations.shape[0] + 1, np.int64)  # where the hyperparameters of each operand begin
    top = 0
    seen = 0
    for s in range(operations.shape[0]):
        step = operations[s]
        operation = step[OPERATION]
        if operation == SUM or operation == PRODUCT:
            a, b = stack[(top - 2) * n : (top - 1) * n], stack[(top - 1) * n : top * n]
            if operation == PRODUCT:
                for h in range(starts[top - 2], starts[top - 1]):
                    for i in range(n):
                        grad[h, i] *= b[i]
                for h in range(starts[top - 1], seen):
                    for i in range(n):
                        grad[h, i] *= a[i]
            for i in range(n):
                a[i] = a[i] + b[i] if operation == SUM else a[i] * b[i]
            top -= 1
        else:
            first = step[FIRST]
            end = operations[s + 1, FIRST] if s + 1 < operations.shape[0] else theta.size
            leaf(step, theta[first:], B, n, x, stack[top * n : (top + 1) * n], weights)
            leaf_gradient(step, theta[first:], B, n, x, grad[first:end], weights)
            starts[top] = first
            seen = end
            top += 1
    for i in range(n):
        out[i] = stack[i]


@entry(WHOLES, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR)
def matrix(operations: Array, theta: Array, X: Array, Z: Array, K: Array, work: Array) -> None:
    """K[i, j] = k(Z[i], X[j]) laid out with one row for each row of Z."""
    for i in range(Z.shape[0]):
        cross(operations, theta, X, X.shape[0], Z[i], K[i], work)


@entry(WHOLES, VECTOR, MATRIX, MATRIX, CUBE, VECTOR)
def matrix_gradient(operations: Array, theta: Array, X: Array, Z: Array, G: Array, work: Array) -> None:
    """G[i, h, j] = d k(Z[i], X[j]) / d log theta[h]."""
    value = np.empty(X.shape[0])
    for i in range(Z.shape[0]):
        cross_gradient(operations, theta, X, X.shape[0], Z[i], value, G[i], work)


@entry(WHOLES, VECTOR, MATRIX, MATRIX, MATRIX, BOOLEAN, MATRIX, VECTOR, VECTOR)
def weighted_gradient(
    operations: Array, theta: Array, X: Array, Z: Array, W: Array, triangle: bool, G: Array, work: Array, total: Array
) -> None:
    """total[h] = sum_ij W[i, j] d k(Z[i], X[j]) / d log theta[h]; of a triangle (X = Z) only j <= i is visited."""
    value = np.empty(X.shape[0])
    for i in range(Z.shape[0]):
        n = i + 1 if triangle else X.shape[0]
        cross_gradient(operations, theta, X, n, Z[i], value, G, work)
        for h in range(total.size):
            for j in range(n):
                total[h] += W[i, j] * G[h, j]


@entry(WHOLES, VECTOR, MATRIX, VECTOR, MATRIX, VECTOR, VECTOR)
def weighted_diagonal_gradient(
    operations: Array, theta: Array, X: Array, w: Array, G: Array, work: Array, total: Array
) -> None:
    """total[h] = sum_i w[i] d k(X[i], X[i]) / d log theta[h]."""
    value = np.empty(1)
    for i in range(X.shape[0]):
        cross_gradient(operations, theta, X[i : i + 1], value.size, X[i], value, G, work)
        for h in range(total.size):
            total[h] += w[i] * G[h, 0]


@compiled
def leaf_input_gradient(step: Array, theta: Array, B: Array, x: Array, W: Array, out: Array, work: Array) -> None:
    """out[r] += sum_i W[r, i] d k(B[i], x) / d x for one leaf; where it has a kink, the mean of both sides."""
    operation, scales, width, n = step[OPERATION], step[SCALES], x.size, B.shape[0]
    factors, loadings, d = step[FACTORS], theta[before_loadings(operation, scales) :], width // step[DEPTH]
    weights, slope, value = work[:width], work[width : 2 * width], work[2 * width : 2 * width + 1]
    if operation == CONSTANT:
        return
    if operation != LINEAR:
        inverse_squares(theta, scales, d if operation == RECURSIVE_SE else width, weights)
    for i in range(n):
        if operation == LINEAR:
            for j in range(width):
                slope[j] = theta[0] * B[i, j]
        elif operation == PERIODIC:
            period = theta[scales]
            leaf(step, theta, B[i : i + 1], value.size, x, value, work)
            for j in range(width):
                angle = np.pi * (x[j] - B[i, j]) / period
                u = np.sin(angle) / theta[j % scales]
                slope[j] = -4.0 * value[0] * u * np.cos(angle) * np.pi / (period * theta[j % scales])
        elif operation == RECURSIVE_SE:
            temporal2, kappa = theta[scales] * theta[scales], 1.0
            for lag in range(step[DEPTH]):
                r2 = 0.0
                for j in range(d):
                    difference = x[lag * d + j] - B[i, lag * d + j]
                    r2 += weights[j] * difference * difference
                    slope[lag * d + j] = -weights[j] * difference
                for f in range(factors):
                    u = projection(x, B[i], lag * d, d, loadings, factors, f)
                    r2 += u * u
                    for j in range(d):
                        slope[lag * d + j] -= u * loadings[j * factors + f]
                kappa = recursive_step(kappa, r2, temporal2)
                for j in range(lag * d):  # an older input acts through the kappa before
                    slope[j] *= kappa / temporal2
                for j in range(lag * d, lag * d + d):
                    slope[j] *= kappa
            for j in range(width):
                slope[j] *= theta[scales + 1]
        else:
            variance = theta[scales + (1 if operation == RATIONAL_QUADRATIC else 0)]
            r2 = squared_distance(B[i], x, weights) + factor_distance(B[i], x, width, width, d, loadings, factors)
            by_r2 = 2.0 * variance * radial(operation, theta[scales], r2)[1]
            for j in range(width):
                slope[j] = by_r2 * weights[j] * (x[j] - B[i, j])
            for first in range(0, width if factors > 0 else 0, d):
                for f in range(factors):
                    u = projection(x, B[i], first, d, loadings, factors, f)
                    for j in range(d):
                        slope[first + j] += by_r2 * u * loadings[j * factors + f]
        for r in range(W.shape[0]):
            w = W[r, i]
            for j in range(width):
                out[r, j] += w * slope[j]


@compiled
def weighted_input_gradient(step: Array, theta: Array, X: Array, Z: Array, W: Array, out: Array, work: Array) -> None:
    """out[i] += sum_j W[i, j] d k(Z[i], X[j]) / d Z[i] for one leaf."""
    for i in range(Z.shape[0]):
        leaf_input_gradient(step, theta, X, Z[i], W[i : i + 1], out[i : i + 1], work)


@entry(WHOLES, VECTOR, MATRIX, VECTOR, MATRIX, MATRIX)
def input_gradient(operations: Array, theta: Array, B: Array, x: Array, W: Array, out: Array) -> None:
    """out[r] = sum_i W[r, i] d k(B[i], x) / d x."""
    steps, n, rows, work = operations.shape[0], B.shape[0], W.shape[0], np.empty(2 * x.size + 1)
    for r in range(rows):
        for j in range(x.size):
            out[r, j] = 0.0
    if steps == 1:
        leaf_input_gradient(operations[0], theta, B, x, W, out, work)
        return
    values, weights = np.empty((steps, n)), np.empty((steps, rows, n))
    left, stack, top = np.zeros(steps, np.int64), np.zeros(steps, np.int64), 0
    for s in range(steps):
        step = operations[s]
        if step[OPERATION] == SUM or step[OPERATION] == PRODUCT:  # of what two steps left; the right one is the last
            left[s] = stack[top - 2]
            for i in range(n):
                a, b = values[left[s], i], values[s - 1, i]
                values[s, i] = a + b if step[OPERATION] == SUM else a * b
            top -= 1
        else:
            leaf(step, theta[step[FIRST] :], B, n, x, values[s], work)
            top += 1
        stack[top - 1] = s
    weights[steps - 1] = W
    for s in range(steps - 1, -1, -1):
        step = operations[s]
        if step[OPERATION] == SUM or step[OPERATION] == PRODUCT:
            product = step[OPERATION] == PRODUCT
            for r in range(rows):
                for i in range(n):
                    w = weights[s, r, i]
                    weights[left[s], r, i] = w * (values[s - 1, i] if product else 1.0)
                    weights[s - 1, r, i] = w * (values[left[s], i] if product else 1.0)
        else:
            leaf_input_gradient(step, theta[step[FIRST] :], B, x, weights[s], out, work)

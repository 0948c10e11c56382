"""The quad-precision reference against batch formulas in 50 digits; nothing recursive on this side."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from tests.precision import quad
from tests.precision.quad import ABSORBED, ADMITTED, Reference

SUM, PRODUCT, CONSTANT, LINEAR, SE, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC, PERIODIC, RECURSIVE = range(11)
CLOSE = mpf(10) ** -26  # quad has 34 digits; these bases cost a few


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def exact(pair):
    return mpf(float(pair[0])) + mpf(float(pair[1]))


def r2(x, z, scales):
    return sum(((mpf(a) - mpf(b)) / mpf(s)) ** 2 for a, b, s in zip(x, z, scales, strict=True))


def recursive(x, z, lengthscale, temporal, variance):
    kappa = mpf(1)
    for a, b in zip(x, z, strict=True):  # windows of three inputs of one number
        kappa = mp.exp(-r2([a], [b], [lengthscale]) / 2 + (kappa - 1) / mpf(temporal) ** 2)
    return variance * kappa


def sine_distance(x, z, period, lengthscale):
    return sum(mp.sin(mp.pi * (mpf(a) - mpf(b)) / period) ** 2 / lengthscale**2 for a, b in zip(x, z, strict=True))


def linear(x, z):
    return sum(mpf(a) * mpf(b) for a, b in zip(x, z, strict=True))


def matern(order, x, z, scales):
    # Rasmussen and Williams 2006, Eq. (4.14), with the Bessel function.
    r, nu = mp.sqrt(r2(x, z, scales)), mpf(order)
    if r == 0:
        return mpf(1)
    a = mp.sqrt(2 * nu) * r
    return 2 ** (1 - nu) / mp.gamma(nu) * a**nu * mp.besselk(nu, a)


L1, L2, L3, P, V, W = 0.75, 1.3, 2.1, 4.3, 1.7, 0.4  # lengthscales, period, variances
KERNELS = {
    "ard": ([(SE, 0, 3, 1)], [L1, L2, L3, V], lambda x, z: mpf(V) * mp.exp(-r2(x, z, [L1, L2, L3]) / 2)),
    "matern 1/2": ([(MATERN12, 0, 1, 1)], [L2, V], lambda x, z: mpf(V) * matern(0.5, x, z, [L2] * 3)),
    "matern 3/2": ([(MATERN32, 0, 1, 1)], [L2, V], lambda x, z: mpf(V) * matern(1.5, x, z, [L2] * 3)),
    "matern 5/2": ([(MATERN52, 0, 1, 1)], [L2, V], lambda x, z: mpf(V) * matern(2.5, x, z, [L2] * 3)),
    "rational quadratic": (
        [(RATIONAL_QUADRATIC, 0, 1, 1)],
        [L2, W, V],
        lambda x, z: mpf(V) * (1 + r2(x, z, [L2] * 3) / (2 * mpf(W))) ** -mpf(W),
    ),
    "periodic": (
        [(PERIODIC, 0, 1, 1)],
        [L1, P, V],
        lambda x, z: mpf(V) * mp.exp(-2 * sine_distance(x, z, mpf(P), mpf(L1))),
    ),
    "recursive": (
        [(RECURSIVE, 0, 1, 3)],
        [L1, 1.2, V],
        lambda x, z: recursive(x, z, L1, 1.2, mpf(V)),
    ),
    "(se + linear) * constant": (
        [(SE, 0, 1, 1), (LINEAR, 2, 0, 1), (SUM, 0, 0, 1), (CONSTANT, 3, 0, 1), (PRODUCT, 0, 0, 1)],
        [L2, V, W, 3.0],
        lambda x, z: 3 * (mpf(V) * mp.exp(-r2(x, z, [L2] * 3) / 2) + mpf(W) * linear(x, z)),
    ),
}
NOISE, JITTER = 0.03, 1e-3


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * 1.5
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def gram(k, X, Z=None, jitter=0.0):
    K = mp.matrix(len(X), len(X if Z is None else Z))
    for i, x in enumerate(X):
        for j, z in enumerate(X if Z is None else Z):
            K[i, j] = k(x, z) * (1 + mpf(jitter) if Z is None and i == j else 1)
    return K


def column(values):
    return mp.matrix([mpf(float(v)) for v in values])


def value(A):
    return A[0, 0]


def batch_gp(k, X, y, noise, x, jitter=0.0):
    """Mean and latent variance at x of the GP with these observations."""
    if len(X) == 0:
        return mpf(0), (1 + mpf(jitter)) * k(x, x)
    A = gram(k, X, jitter=jitter) + mpf(noise) * mp.eye(len(X))
    kx = gram(k, X, [x])
    a = mp.lu_solve(A, kx)
    return value(a.T * column(y)), (1 + mpf(jitter)) * k(x, x) - value(a.T * kx)


def through_basis(k, B, m, Sigma, x, jitter=0.0):
    """Mean and latent variance at x when the values at the points B are N(m, Sigma)."""
    psi, gamma2 = projection(k, B, x, jitter)
    return value(psi.T * m), value(psi.T * Sigma * psi) + gamma2


def assert_predicts(reference, x, expected):
    mean, variance, _ = reference.step(x)
    assert abs(exact(mean) - expected[0]) < CLOSE
    assert abs(exact(variance) - expected[1]) < CLOSE


def inverse(A):
    return A**-1


def projection(k, B, x, jitter=0.0):
    """psi and gamma2: the value at x is psi' times those at B plus an independent part of variance gamma2."""
    kx = gram(k, B, [x])
    psi = mp.lu_solve(gram(k, B, jitter=jitter), kx)
    return psi, (1 + mpf(jitter)) * k(x, x) - value(psi.T * kx)


def unit(n, i):
    return mp.matrix([mpf(j == i) for j in range(n)])


def given_rows(K, projections, noises, y):
    """Mean and covariance of the values at a basis: Sigma^-1 = K^-1 + sum psi psi' / noise."""
    precision, shift = inverse(K), mp.zeros(K.rows, 1)
    for psi, noise, target in zip(projections, noises, y, strict=True):
        precision += psi * psi.T / noise
        shift += psi * mpf(float(target)) / noise
    Sigma = inverse(precision)
    return Sigma * shift, Sigma


@pytest.mark.parametrize("name", KERNELS)
def test_with_room_for_every_row_it_is_the_batch_gp(name):
    operations, parameters, k = KERNELS[name]
    X, y = rows(8)
    reference = Reference(operations, parameters, NOISE, jitter=JITTER)
    for t in range(len(X)):
        mean, variance, prior = reference.step(X[t], y[t], ADMITTED)
        expected = batch_gp(k, X[:t], y[:t], NOISE, X[t], JITTER)
        assert abs(exact(mean) - expected[0]) < CLOSE
        assert abs(exact(variance) - expected[1]) < CLOSE
        assert abs(exact(prior) - (1 + mpf(JITTER)) * k(X[t], X[t])) < CLOSE
    assert reference.size == len(X)


@pytest.mark.parametrize("absorb", ["fitc", "dtc"])
def test_absorbing_on_a_fixed_basis_is_the_batch_formula(absorb):
    operations, parameters, k = KERNELS["ard"]
    X, y = rows(14)
    B = list(X[:5])
    reference = Reference(operations, parameters, NOISE, absorb=absorb, jitter=JITTER)
    for t in range(len(X)):
        reference.step(X[t], y[t], ADMITTED if t < 5 else ABSORBED)
    # Quinonero-Candela and Rasmussen 2005: the residual variance counts as noise in FITC (sec. 6), not in DTC (sec. 5).
    projections, noises = [unit(5, i) for i in range(5)], [mpf(NOISE)] * 5
    for x in X[5:]:
        psi, gamma2 = projection(k, B, x, JITTER)
        projections.append(psi)
        noises.append(mpf(NOISE) + (gamma2 if absorb == "fitc" else 0))
    m, Sigma = given_rows(gram(k, B, jitter=JITTER), projections, noises, y)
    mean, covariance = reference.state()
    for i in range(5):
        assert abs(exact(mean[i]) - m[i]) < CLOSE
        for j in range(5):
            assert abs(exact(covariance[i, j]) - Sigma[i, j]) < CLOSE
    assert_predicts(reference, np.array([0.1, 0.2, 0.3]), through_basis(k, B, m, Sigma, [0.1, 0.2, 0.3], JITTER))


def test_marginal_removal_keeps_the_batch_posterior_of_the_others():
    operations, parameters, k = KERNELS["ard"]
    X, y = rows(7)
    reference = Reference(operations, parameters, NOISE)
    for t in range(7):
        reference.step(X[t], y[t], ADMITTED, (2, 4) if t == 6 else ())
    left = [X[i] for i in (0, 1, 3, 4, 6)]  # 2 leaves, then the fifth of those that are left is 5
    K = gram(k, X)
    cross = gram(k, left, X)
    A = inverse(K + mpf(NOISE) * mp.eye(7))
    m, Sigma = cross * A * column(y), gram(k, left) - cross * A * cross.T
    assert_predicts(reference, np.array([0.1, 0.2, 0.3]), through_basis(k, left, m, Sigma, [0.1, 0.2, 0.3]))


def test_kl_removal_conditions_on_the_weight_being_zero():
    operations, parameters, k = KERNELS["ard"]
    X, y = rows(6)
    reference = Reference(operations, parameters, NOISE, removal="kl")
    for t in range(6):
        reference.step(X[t], y[t], ADMITTED, (3,) if t == 5 else ())
    # Weights alpha with f = K alpha have the prior precision K; a weight of zero is struck out of the precision.
    keep = [0, 1, 2, 4, 5]
    K = gram(k, X)
    precision, shift = K + K * K / mpf(NOISE), K * column(y) / mpf(NOISE)
    C = inverse(mp.matrix([[precision[i, j] for j in keep] for i in keep]))
    alpha = C * mp.matrix([shift[i] for i in keep])
    left = [X[i] for i in keep]
    K = gram(k, left)
    assert_predicts(reference, np.array([0.1, 0.2, 0.3]), through_basis(k, left, K * alpha, K * C * K, [0.1, 0.2, 0.3]))


def test_back_to_prior_is_a_gp_over_inputs_and_time():
    operations, parameters, k = KERNELS["matern 3/2"]
    X, y = rows(8)
    forgetting = 0.9
    reference = Reference(operations, parameters, NOISE, forgetting=forgetting)
    stamped = [(x, t) for t, x in enumerate(X)]

    def fading(a, b):  # f_t = sqrt(l) f_{t-1} + sqrt(1 - l) fresh: covariance k l^(|s - t| / 2)
        return k(a[0], b[0]) * mpf(forgetting) ** (mpf(abs(a[1] - b[1])) / 2)

    for t in range(len(X)):
        mean, variance, _ = reference.step(X[t], y[t], ADMITTED)
        # Predicted before the row is forgotten: the function as it was at the row before.
        expected = batch_gp(fading, stamped[:t], y[:t], NOISE, (X[t], t - 1))
        assert abs(exact(mean) - expected[0]) < CLOSE
        assert abs(exact(variance) - expected[1]) < CLOSE


@pytest.mark.parametrize("absorb", ["fitc", "dtc"])
def test_a_move_is_the_batch_gp_under_the_new_hyperparameters(absorb):
    operations, parameters, _ = KERNELS["ard"]
    X, y = rows(9)
    reference = Reference(operations, parameters, NOISE, jitter=JITTER, absorb=absorb)
    for t in range(9):
        reference.step(X[t], y[t], ADMITTED)
    assert not reference.move(parameters, NOISE)
    assert reference.move([0.9, 1.1, 2.5, 0.6], 0.011)

    def k(x, z):
        return mpf(0.6) * mp.exp(-r2(x, z, [0.9, 1.1, 2.5]) / 2)

    x = np.array([0.1, 0.2, 0.3])
    assert_predicts(reference, x, batch_gp(k, X, y, 0.011, x, JITTER))
    y = np.append(y, 0.7)
    reference.step(x, 0.7, ADMITTED)
    assert_predicts(reference, -x, batch_gp(k, [*X, x], y, 0.011, -x, JITTER))


def test_what_cannot_be_followed_is_refused():
    operations, parameters, _ = KERNELS["ard"]
    reference = Reference(operations, parameters, NOISE)
    reference.step(np.zeros(3), 1.0, ADMITTED)
    with pytest.raises(quad.PrecisionError, match="no basis point"):
        reference.step(np.ones(3), 1.0, ADMITTED, (5,))
    with pytest.raises(quad.PrecisionError, match="not positive definite"):
        reference.step(np.zeros(3), 1.0, ADMITTED)
    with pytest.raises(ValueError, match="absorb must be"):
        Reference(operations, parameters, NOISE, absorb="fitcc")


@pytest.mark.parametrize("absorb", ["fitc", "dtc"])
def test_rows_have_their_own_noise_in_the_batch_formula(absorb):
    operations, parameters, k = KERNELS["ard"]
    X, y = rows(10)
    B, own = list(X[:4]), np.geomspace(1e-9, 1.0, 10)
    reference = Reference(operations, parameters, NOISE, absorb=absorb)
    for t in range(len(X)):
        reference.step(X[t], y[t], ADMITTED if t < 4 else ABSORBED, noise=np.nan if t == 2 else own[t])
    projections, noises = [unit(4, i) for i in range(4)], [mpf(v) for v in own]
    noises[2] = mpf(NOISE)
    for t in range(4, 10):
        psi, gamma2 = projection(k, B, X[t])
        projections.append(psi)
        noises[t] += gamma2 if absorb == "fitc" else 0
    m, Sigma = given_rows(gram(k, B), projections, noises, y)
    assert_predicts(reference, np.array([0.1, 0.2, 0.3]), through_basis(k, B, m, Sigma, [0.1, 0.2, 0.3]))


def stationary(parameters):
    *scales, variance = parameters
    return lambda x, z: mpf(variance) * mp.exp(-r2(x, z, scales) / 2)


def test_moves_of_absorbed_rows_scale_noise_and_residuals_apart():
    operations, parameters, k = KERNELS["ard"]
    X, y = rows(12)
    B = list(X[:4])
    moves = {7: ([0.9, 1.1, 2.5, 0.6], 0.011), 11: ([1.0, 1.0, 2.0, 1.2], 0.05)}
    reference = Reference(operations, parameters, NOISE)
    noise, variance, mean_precision = mpf(NOISE), mpf(V), mpf(0)
    projections, noises = [], []
    for t in range(12):
        psi, gamma2 = (unit(4, t), mpf(0)) if t < 4 else projection(k, B, X[t])
        projections.append(psi)
        noises.append(gamma2 + noise)
        mean_precision = (mean_precision * t + 1 / (gamma2 + noise)) / (t + 1)
        reference.step(X[t], y[t], ADMITTED if t < 4 else ABSORBED)
        if t in moves:
            new, new_noise = moves[t]
            reference.move(new, new_noise)
            g, c = 1 / mean_precision - noise, mpf(new[-1]) / variance
            # The rows keep what they say about the values at the basis; their noises are multiplied.
            noises = [n * (mpf(new_noise) + c * g) / (noise + g) for n in noises]
            mean_precision = 1 / (mpf(new_noise) + c * g)
            noise, variance, k = mpf(new_noise), mpf(new[-1]), stationary(new)
    m, Sigma = given_rows(gram(k, B), projections, noises, y)
    assert_predicts(reference, np.array([0.1, 0.2, 0.3]), through_basis(k, B, m, Sigma, [0.1, 0.2, 0.3]))

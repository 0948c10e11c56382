"""Inputs and time in one posterior, y = f(x) + g(t) + noise, against batch and dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

import streamgp as sg
from tests import inside, oracles
from tests.precision.streams import STREAMS
from tests.unit.test_timegp import KERNELS, SPACINGS, added, matern, multiplied, periodic

NOISE = 0.05
ROWS = 60
SMOOTH = sg.Matern(1.5, lengthscale=2.0, variance=3.0)
SEASON = sg.Matern(0.5, lengthscale=30.0) * sg.Periodic(3.0)


def stream(times, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (len(times), d))
    y = np.sin(X[:, 0]) * X[:, -1] / 3 + np.sin(times % 50) + 0.2 * rng.standard_normal(len(times))
    return X, y, rng.uniform(-3, 3, (5, d)), times[-1] + np.array([0.0, 0.1, 1.0, 7.0, 100.0])


def batch(k, c, X, times, y, Z, later, noise=NOISE, residual=0.0):
    """Mean and covariance at rows Z and later times of the batch process with kernels k over inputs and c over time."""
    C = k(X, X) + c(times, times) + np.diag(np.broadcast_to(noise + residual, len(y)))
    cross = k(X, Z) + c(times, later)
    return cross.T @ np.linalg.solve(C, y), k(Z, Z) + c(later, later) - cross.T @ np.linalg.solve(C, cross)


def usual(times):
    """The median of the last twenty gaps, the upper one."""
    return np.sort(np.diff(times)[-20:])[10]


def irregular(n=ROWS, seed=1):
    return np.cumsum(np.random.default_rng(seed).exponential(0.3, n))


@pytest.mark.parametrize("spacing", [s for s in SPACINGS if s != "a very long gap"])
@pytest.mark.parametrize("name", KERNELS)
def test_inputs_and_time_are_one_batch_process(name, spacing):
    times = SPACINGS[spacing][-ROWS:]
    kernel, c = KERNELS[name][0], KERNELS[name][1](times[0])
    X, y, Z, later = stream(times)
    model = sg.SOGP(sg.SquaredExponential(1.5), capacity=ROWS, novelty=0.0, noise=NOISE, time=kernel)
    model.learn_many(X, y, time=times)
    assert model.size == ROWS
    mean, covariance = batch(oracles.squared_exponential(1.5), c, X, times, y, Z, later)
    scale = 1.0 if "trend" not in name and name != "sum" else 100.0  # what a wide prior lets the batch form lose
    joint = model.predict_joint(Z, time=later)
    np.testing.assert_allclose(joint.mean, mean, atol=1e-8 * scale)
    np.testing.assert_allclose(joint.covariance, covariance, rtol=1e-8, atol=1e-8 * scale)
    p = model.predict_many(Z, time=later)
    np.testing.assert_allclose(p.mean, joint.mean, atol=1e-10 * scale)
    np.testing.assert_allclose(p.variance, np.diag(joint.covariance), rtol=1e-9, atol=1e-9 * scale)
    np.testing.assert_allclose(sum(part.mean for part in p.components.values()), p.mean, atol=1e-9 * scale)


def test_components_are_those_of_the_batch_process():
    times = irregular()
    X, y, Z, later = stream(times)
    model = sg.KRLST(lengthscale=1.5, forgetting=1.0, capacity=ROWS, jitter=0.0, noise=NOISE, time=SMOOTH + SEASON)
    model.learn_many(X, y, time=times)
    k, level, season = oracles.squared_exponential(1.5), matern(1.5, 2.0, 3.0), multiplied(matern(0.5, 30), periodic(3))
    C = k(X, X) + level(times, times) + season(times, times) + NOISE * np.eye(ROWS)
    p = model.predict_many(Z, time=later)
    assert list(p.components) == ["inputs", "level", "3"]
    parts = {
        "inputs": (k(X, Z), np.ones(5)),
        "level": (level(times, later), np.diag(level(later, later))),
        "3": (season(times, later), np.diag(season(later, later))),
    }
    for name, (cross, prior) in parts.items():
        np.testing.assert_allclose(p.components[name].mean, cross.T @ np.linalg.solve(C, y), atol=1e-9)
        variance = prior - np.sum(cross * np.linalg.solve(C, cross), axis=0)
        np.testing.assert_allclose(p.components[name].variance, variance, atol=1e-9)
    one = model.predict_one(Z[2], time=later[2])
    assert one.components["level"].mean == p.components["level"].mean[2]


@pytest.mark.parametrize("build", [
    lambda points: sg.RecursiveGP(points, lengthscale=2.0, noise=NOISE, time=SMOOTH),
    lambda points: sg.OnlineGP(sg.Basis(sg.SquaredExponential(2.0), points=points), noise=NOISE, time=SMOOTH),
])  # fmt: skip
def test_given_points_absorb_rows_with_their_residuals(build):
    times = irregular()
    X, y, Z, later = stream(times, d=1)
    points = np.linspace(-3, 3, 7)[:, None]
    model = build(points)
    model.learn_many(X, y, time=times)
    se = oracles.squared_exponential(2.0)
    K = se(points, points)
    low_rank = lambda A, B: se(A, points) @ np.linalg.solve(K, se(points, B))  # noqa: E731
    residual = 1.0 - np.diag(low_rank(X, X))
    mean, covariance = batch(low_rank, matern(1.5, 2.0, 3.0), X, times, y, Z, later, residual=residual)
    p = model.predict_many(Z, time=later)
    np.testing.assert_allclose(p.mean, mean, atol=1e-9)
    np.testing.assert_allclose(p.variance, np.diag(covariance) + 1.0 - np.diag(low_rank(Z, Z)), atol=1e-9)


def test_fourier_and_linear_features_are_kernels_of_their_own():
    times = irregular()
    X, y, Z, later = stream(times)
    frequencies = np.random.default_rng(2).normal(size=(9, 3))

    def fourier(A, B):
        angle = lambda C: C @ frequencies.T  # noqa: E731
        return np.cos(angle(A)[:, None] - angle(B)[None]).sum(-1) / 9

    models = {
        sg.ISSGPR(frequencies=frequencies, noise=NOISE, time=SMOOTH): fourier,
        sg.OnlineGP(sg.Linear(2.0), noise=NOISE, time=SMOOTH): lambda A, B: (A @ B.T + 1.0) / 2.0,
    }
    for model, k in models.items():
        model.learn_many(X, y, time=times)
        mean, covariance = batch(k, matern(1.5, 2.0, 3.0), X, times, y, Z, later)
        joint = model.predict_joint(Z, time=later)
        np.testing.assert_allclose(joint.mean, mean, atol=1e-9)
        np.testing.assert_allclose(joint.covariance, covariance, atol=1e-9)


def test_what_is_forgotten_by_time_is_a_matern_kernel_of_order_one_half():
    times, half_life = irregular(), 2.0
    X, y, Z, _ = stream(times)
    model = sg.KRLST(lengthscale=1.5, half_life=half_life, capacity=ROWS, jitter=0.0, noise=NOISE, time=SEASON)
    model.learn_many(X, y, time=times)
    # The function of the inputs decays by 0.5^(dt / 2 half_life): that is Matern 1/2 with this lengthscale.
    fading = matern(0.5, 2.0 * half_life / np.log(2.0))
    se, season = oracles.squared_exponential(1.5), multiplied(matern(0.5, 30.0), periodic(3.0))
    C = se(X, X) * fading(times, times) + season(times, times) + NOISE * np.eye(ROWS)
    now = times[-1:].repeat(5)
    cross = se(X, Z) * fading(times, now) + season(times, now)
    p = model.predict_many(Z, time=now)
    np.testing.assert_allclose(p.mean, cross.T @ np.linalg.solve(C, y), atol=1e-9)
    prior = 1.0 + np.diag(season(now, now))
    np.testing.assert_allclose(p.variance, prior - np.sum(cross * np.linalg.solve(C, cross), axis=0), atol=1e-9)


# A growing basis against a dense filter in the units of the function: no whitening, no rotations.


class Dense:
    """The joint posterior of [level, slope] of a Matern 3/2 and of the function at the basis points."""

    def __init__(self, lengthscale, variance, k, noise):
        self.rate, self.k, self.noise = np.sqrt(3.0) / lengthscale, k, noise
        self.F = np.array([[0.0, 1.0], [-(self.rate**2), -2.0 * self.rate]])
        self.P = variance * np.diag([1.0, self.rate**2])
        self.m, self.C, self.B, self.at = np.zeros(2), self.P.copy(), np.empty((0, 2)), None

    def move(self, t):
        A = np.eye(len(self.m))
        A[:2, :2] = expm(self.F * (0.0 if self.at is None else t - self.at))
        self.m, self.C, self.at = A @ self.m, A @ self.C @ A.T, t
        self.C[:2, :2] += self.P - A[:2, :2] @ self.P @ A[:2, :2].T

    def row(self, x):
        weights = np.linalg.solve(self.k(self.B, self.B), self.k(self.B, x[None])[:, 0]) if len(self.B) else np.zeros(0)
        return weights, self.k(x[None], x[None])[0, 0] - weights @ self.k(self.B, x[None])[:, 0]

    def forget(self, keep):
        A = np.diag(np.r_[1.0, 1.0, np.full(len(self.B), np.sqrt(keep))])
        self.m, self.C = A @ self.m, A @ self.C @ A
        self.C[2:, 2:] += (1.0 - keep) * self.k(self.B, self.B)

    def learn(self, x, y, admitted, left, removal):
        weights, gamma2 = self.row(x)
        h = np.r_[1.0, 0.0, weights]
        if admitted:
            n = len(self.m)
            T = np.vstack([np.eye(n), np.r_[0.0, 0.0, weights]])
            self.m, self.C, self.B = T @ self.m, T @ self.C @ T.T, np.vstack([self.B, x])
            self.C[n, n] += gamma2
            h, gamma2 = np.r_[1.0, np.zeros(n - 1), 1.0], 0.0
        s = h @ self.C @ h + gamma2 + self.noise
        gain = self.C @ h / s
        self.m, self.C = self.m + gain * (y - h @ self.m), self.C - np.outer(gain, gain) * s
        for r in left:
            stay = np.delete(np.arange(len(self.m)), 2 + r)
            if removal == "kl":  # the kernel function's weight is 0
                a = np.r_[0.0, 0.0, np.linalg.inv(self.k(self.B, self.B))[r]]
                Ca = self.C @ a
                self.m, self.C = self.m - Ca * (a @ self.m) / (a @ Ca), self.C - np.outer(Ca, Ca) / (a @ Ca)
            self.m, self.C, self.B = self.m[stay], self.C[np.ix_(stay, stay)], np.delete(self.B, r, axis=0)


GROWING = {
    "KRLST": (lambda time: sg.KRLST(lengthscale=1.5, capacity=9, forgetting=0.97, jitter=0.0, noise=NOISE, time=time),
              0.97, "marginal"),
    "SOGP": (lambda time: sg.SOGP(lengthscale=1.5, capacity=9, novelty=0.05, noise=NOISE, time=time), 1.0, "marginal"),
    "SOGP by divergence": (
        lambda time: sg.SOGP(lengthscale=1.5, capacity=9, noise=NOISE, evict="kl", removal="kl", time=time), 1.0, "kl"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_eviction_and_forgetting_carry_the_covariance_with_time_along(name):
    build, keep, removal = GROWING[name]
    model, times = build(SMOOTH), irregular(50)
    X, y, _, _ = stream(times, d=2)
    dense = Dense(2.0, 3.0, oracles.squared_exponential(1.5), NOISE)
    for x, target, t in zip(X, y, times, strict=True):
        model.learn_one(x, target, time=t)
        dense.move(t)
        dense.forget(keep)
        change = model.last_change
        dense.learn(x, target, change.admitted, change.evictions, removal)
        np.testing.assert_allclose(model.basis, dense.B)
        weights, gamma2 = dense.row(X[0])
        h = np.r_[1.0, 0.0, weights]
        p = model.predict_one(X[0], time=t)
        np.testing.assert_allclose([p.mean, p.variance], [h @ dense.m, h @ dense.C @ h + gamma2], atol=1e-9)
    if "SOGP" in name:  # the scores that are carried from row to row
        q = 2
        S = np.tril(model._state.covariance[0, : q + 9, : q + 9])
        S += np.tril(S, -1).T
        root = np.linalg.inv(inside.factor(model))
        np.testing.assert_allclose(model._state.weight_variance[0, :9], np.diag(root @ S[q:, q:] @ root.T), rtol=1e-6)


def test_forget_lets_the_inputs_fade_and_leaves_time_to_its_kernel():
    times = irregular()
    X, y, Z, _ = stream(times)
    model = sg.KRLST(lengthscale=1.5, capacity=20, noise=NOISE, time=SMOOTH)
    model.learn_many(X, y, time=times)
    before = model.predict_many(Z, time=times[-1:].repeat(5))
    model.forget(0.25)
    after = model.predict_many(Z, time=times[-1:].repeat(5))
    inputs, level = (after.components[name].mean / before.components[name].mean for name in ("inputs", "level"))
    np.testing.assert_allclose(inputs, 0.5, rtol=1e-9)
    np.testing.assert_allclose(level, 1.0, rtol=1e-12)


# What moves.


MOVING = {
    "SOGP": lambda: sg.SOGP(sg.SquaredExponential(1.2) + sg.Matern(2.5), capacity=12, noise=0.05, adapt=sg.SNGD(),
                            time=SMOOTH + SEASON),
    "ISSGPR": lambda: sg.ISSGPR(features=6, noise=0.05, adapt=sg.SNGD(), time=SMOOTH),
    "RecursiveGP": lambda: sg.RecursiveGP(sg.grid([-3, -3], [3, 3], [3, 3]), noise=0.05, adapt=sg.SNGD(), time=SMOOTH),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
def test_the_gradient_is_that_of_the_move(name):
    times = irregular(40)
    X, y, _, _ = stream(times, d=2)
    model = MOVING[name]()
    model.learn_many(X[:-1], y[:-1], time=times[:-1])
    x, target, t = X[-1], y[-1], times[-1]
    gradient = inside.gradient_at(model, x, target, time=t)

    def density(step, i):
        twin, theta = model.copy(), inside.hyperparameters(model)
        theta[i] *= np.exp(step)
        inside.move_to(twin, theta)
        return twin.predict_one(x, time=t).log_density(target)

    by_differences = [(density(1e-5, i) - density(-1e-5, i)) / 2e-5 for i in range(len(gradient))]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-6, atol=1e-7)


def test_a_move_is_the_batch_process_under_the_new_hyperparameters():
    X, y, Z, _ = stream(np.zeros(30))
    times, later = np.zeros(30), np.array([0.0, 0.5, 1.0, 2.0, 9.0])  # nothing new between rows: a move is exact
    model = sg.SOGP(lengthscale=1.5, capacity=30, novelty=0.0, noise=0.1, adapt=sg.SNGD(), time=SMOOTH)
    model.learn_many(X, y, time=times)
    assert model.size == 30
    inside.move_to(model, np.array([1.2, 2.0, 0.07]))
    mean, covariance = batch(
        oracles.squared_exponential(1.2, 2.0), matern(1.5, 2.0, 3.0), X, times, y, Z, later, noise=0.07
    )
    p = model.predict_many(Z, time=later)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-8)


# The contract.


def test_missing_targets_cost_nothing():
    times = irregular()
    X, y, Z, later = stream(times)
    known = np.arange(ROWS) % 3 > 0
    one, other = (sg.SOGP(capacity=9, time=SMOOTH) for _ in range(2))
    one.learn_many(X, np.where(known, y, np.nan), time=times)
    other.learn_many(X[known], y[known], time=times[known])
    np.testing.assert_array_equal(one.predict_many(Z, time=later).mean, other.predict_many(Z, time=later).mean)


@pytest.mark.parametrize("build", [
    lambda time: sg.ISSGPR(frequencies=np.random.default_rng(2).normal(size=(9, 2)), noise=0.01, time=time),
    lambda time: sg.KRLST(lengthscale=1.5, capacity=20, forgetting=1.0, noise=0.01, time=time),
    lambda time: sg.SOGP(lengthscale=1.5, capacity=20, noise=0.01, time=time),
])  # fmt: skip
def test_a_gap_of_a_lifetime_is_one_of_33_spans_to_a_trend_beside_inputs(build):
    X, y, _, _ = stream(np.arange(100.0), d=2)
    long, short = (60.0 * np.arange(100) + np.where(np.arange(100) < 50, 0.0, gap) for gap in (20_000 * 86400.0, 2e4))
    model, same = build(sg.Trend("10min")), build(sg.Trend("10min"))
    p, q = model.track(X, 20 + y, time=long), same.track(X, 20 + y, time=short)
    np.testing.assert_allclose(p.mean, q.mean, rtol=1e-12)  # 2e4 seconds are 33.3 spans of 10 minutes
    np.testing.assert_allclose(p.variance, q.variance, rtol=1e-9)
    assert model.health.capped_directions == same.health.capped_directions == 1
    assert model.health.repairs == 0
    sg.from_bytes(model.to_bytes())


# Forecasts.


def test_a_forecast_is_in_closed_form_where_nothing_is_fed_back():
    times = np.arange(50) * 0.5
    X, y, _, _ = stream(times)
    model = sg.KRLST(capacity=20, time=SMOOTH + sg.Periodic(3.0))
    model.learn_many(X, y, time=times)
    ahead = times[-1] + 0.5 * np.arange(1, 5)
    known = np.random.default_rng(6).normal(size=(4, 3))
    direct = model.predict_many(known, time=ahead)
    np.testing.assert_array_equal(model.forecast(ahead, known).mean, direct.mean)
    p = model.forecast(4, known)
    np.testing.assert_array_equal(p.mean, direct.mean)
    assert list(p.components) == ["inputs", "level", "3"]
    last = np.repeat(X[-1:], 4, axis=0)
    np.testing.assert_array_equal(model.forecast(ahead).mean, model.predict_many(last, time=ahead).mean)


# Late labels.


def test_late_labels_are_learned_at_the_times_of_their_rows():
    times = irregular(30)
    X, y, Z, later = stream(times)
    late = sg.Delayed(sg.KRLST(capacity=8, time=SMOOTH + SEASON), pending=5)
    tickets = []
    for t in range(30):
        tickets.append(late.issue(X[t], time=times[t]).ticket)
        if t >= 4:
            late.resolve(tickets[t - 4], y[t - 4])
    for t in range(26, 30):
        late.resolve(tickets[t], y[t])
    punctual = sg.KRLST(capacity=8, time=SMOOTH + SEASON)
    punctual.learn_many(X, y, time=times)
    p, q = late.predict_many(Z, time=later), punctual.predict_many(Z, time=later)
    np.testing.assert_array_equal([p.mean, p.variance], [q.mean, q.variance])
    assert late.health.late_rows == 0
    assert sg.from_bytes(late.to_bytes()).predict_one(Z[0], time=later[0]).mean == p.mean[0]


def test_a_label_that_comes_after_later_ones_is_learned_now_and_counted():
    X, y, Z, _ = stream(np.arange(10.0))
    late, now = sg.Delayed(sg.KRLST(capacity=8, time=SMOOTH)), sg.KRLST(capacity=8, time=SMOOTH)
    first, second = late.issue(X[0], time=1.0), late.issue(X[1], time=4.0)
    late.resolve(second.ticket, y[1])
    late.resolve(first.ticket, y[0])
    now.learn_many(X[[1, 0]], y[[1, 0]], time=[4.0, 4.0])
    assert late.health.late_rows == 1
    assert late.predict_one(Z[0], time=5.0).mean == now.predict_one(Z[0], time=5.0).mean
    with pytest.raises(ValueError, match="the time at which it was issued"):
        late.resolve(late.issue(X[2], time=5.0).ticket, y[2], time=6.0)


def test_rows_ahead_are_predicted_at_the_times_of_their_targets():
    times = np.arange(60) * 0.5
    y = np.sin(2 * np.pi * times / 6.0)
    X = np.zeros((60, 1))
    model = sg.Ahead(sg.KRLST(capacity=5, forgetting=1.0, time=sg.Periodic(6.0)), horizon=4)
    p = model.track(X, y, time=times)
    assert np.abs(p.mean - y)[40:].max() < 0.05
    np.testing.assert_allclose(model.upcoming().mean, np.sin(2 * np.pi * (times[-4:] + 2.0) / 6.0), atol=0.05)


def test_a_fleet_keeps_no_times_of_rows_that_wait():
    fleet = sg.Fleet(sg.KRLST(time=SMOOTH), size=2, pending=3)
    with pytest.raises(ValueError, match="wait without their time"):
        fleet.issue(np.zeros((2, 1)))


# What is refused.


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sg.KRLST(time=sg.SquaredExponential()), "no finite state.*nearest that can is Matern"),
        (lambda: sg.KRLST(time=3.0), "time must be, for example, Matern"),
        (lambda: sg.KRLST(mode="injection", time=SMOOTH), "injection is capped"),
        (lambda: sg.tune(sg.SOGP(time=SMOOTH), [[0.0], [1.0]], [0.0, 1.0]), "without a kernel over time beside them"),
        (lambda: sg.RecursiveGP([[0.0]], batch=3, time=SMOOTH), "batch learns rows together"),
        (lambda: sg.SOGP(adapt=sg.SNGD(on_move="rebuild"), time=SMOOTH), "rebuild.*features alone"),
        (lambda: sg.OnlineGP(sg.Linear(), form="cholesky", time=SMOOTH), "factor of the features alone"),
        (lambda: sg.OnlineGP(sg.Basis(), budget=sg.Budget(9, novelty=0, evict="oldest", removal="discard"),
                             time=SMOOTH), "keeps rows and no posterior"),
        (lambda: sg.OnlineGP(sg.Basis(), budget=sg.Budget(9, absorb="dtc", evict="never"), noise=0, time=SMOOTH),
         "least squares"),
    ],
)  # fmt: skip
def test_what_cannot_have_a_kernel_over_time_is_refused(call, reason):
    with pytest.raises((ValueError, TypeError), match=reason):
        call()


def test_times_that_go_backwards_are_refused_and_change_nothing():
    model = sg.KRLST(capacity=5, time=SMOOTH)
    model.learn_many([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], time=[1.0, 2.0, 5.0])
    before = model.to_bytes()
    for call, reason in (
        (lambda: model.learn_one(1.0, 1.0, time=4.0), "time goes backwards: 4 after 5"),
        (lambda: model.learn_many([1.0, 2.0], [1.0, 2.0], time=[7.0, 6.0]), "time goes backwards in row 1: 6 after 7"),
        (lambda: model.predict_one(1.0, time=4.5), "time goes backwards: 4.5 after 5"),
        (lambda: model.predict_many([1.0, 2.0], time=[6.0, 4.0]), "time goes backwards in row 1: 4 after 5"),
        (lambda: model.predict_joint([1.0, 2.0], time=[6.0, 4.0]), "time goes backwards in row 1"),
        (lambda: model.learn_one(1.0, 1.0, time=float("nan")), "time is missing"),
        (lambda: model.forecast(0), "steps must be"),
    ):
        with pytest.raises(ValueError, match=reason):
            call()
    assert model.to_bytes() == before


@pytest.mark.parametrize("stream_name", ["sine", "duplicates", "jumps"])
def test_hostile_streams_with_time_added_stay_with_the_batch_formula(stream_name):
    n = 300
    X, y = STREAMS[stream_name](n, 0)
    times = np.cumsum(10.0 ** np.random.default_rng(3).uniform(-6, 1, n))
    y = y + np.sin(times)
    points = X[:: n // 6] + 0.3 * np.random.default_rng(4).normal(size=X[:: n // 6].shape)
    model = sg.RecursiveGP(points, lengthscale=1.0, noise=0.01, time=SMOOTH + SEASON)
    model.learn_many(X, y, time=times)
    assert model.health.repairs == 0
    se = oracles.squared_exponential(1.0)
    K = se(points, points)
    low_rank = lambda A, B: se(A, points) @ np.linalg.solve(K, se(points, B))  # noqa: E731
    c = added(matern(1.5, 2.0, 3.0), multiplied(matern(0.5, 30.0), periodic(3.0)))
    residual = np.maximum(1.0 - np.diag(low_rank(X, X)), 0.0)
    later = times[-1] + np.arange(5.0)
    mean, covariance = batch(low_rank, c, X, times, y, X[:5], later, 0.01, residual)
    p = model.predict_many(X[:5], time=later)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance) + residual[:5], atol=1e-8)


def test_adaptation_goes_on_with_time():
    n = 1500
    rng = np.random.default_rng(5)
    X, times = rng.uniform(-3, 3, (n, 1)), np.arange(n) / 10.0
    y = np.sin(2 * X[:, 0]) + 2 * np.sin(times / 5) + 0.1 * rng.standard_normal(n)
    model = sg.SOGP(lengthscale=3.0, capacity=30, noise=0.3, adapt=sg.SNGD(), time=sg.Matern(1.5, lengthscale=10.0))
    p = model.track(X, y, time=times)
    assert 0.005 < model.hyperparameters["noise"] < 0.03
    assert np.sqrt(np.mean((p.mean - y)[-300:] ** 2)) < 0.15
    assert model.hyperparameters["time.lengthscale"] == 10.0


def test_a_row_predicted_at_one_time_may_come_at_another():
    X, y, _, _ = stream(irregular(20))
    one, other = (sg.KRLST(capacity=8, time=SMOOTH) for _ in range(2))
    for t in range(20):
        one.predict_one(X[t], time=t + 0.5)
        one.learn_one(X[t], y[t], time=t)
        other.learn_one(X[t], y[t], time=t)
    assert one.to_bytes() == other.to_bytes()


def test_time_passes_also_before_the_first_target():
    X, y, Z, _ = stream(np.arange(30.0))
    Y = np.column_stack([y, -y])
    one, other = (sg.KRLST(capacity=8, time=SMOOTH + SEASON) for _ in range(2))
    for x in X[:5]:
        one.observe_one(x)
    one.learn_many(X[5:], Y[5:])
    other.learn_many(X[5:], Y[5:], time=np.arange(5.0, 30.0))
    np.testing.assert_array_equal(one.predict_one(Z[0]).mean, other.predict_one(Z[0], time=30.0).mean)


def test_separate_outputs_are_models_of_their_own():
    times = irregular()
    X, y, Z, later = stream(times)
    Y = np.column_stack([y, np.where(np.arange(ROWS) % 4 == 1, np.nan, np.cos(times))])
    points = sg.grid([-3] * 3, [3] * 3, [2] * 3)
    both = sg.RecursiveGP(points, noise=[0.05, 0.2], outputs="separate", time=SMOOTH + SEASON)
    both.learn_many(X, Y, time=times)
    p = both.predict_many(Z, time=later)
    for j, noise in enumerate((0.05, 0.2)):
        one = sg.RecursiveGP(points, noise=noise, time=SMOOTH + SEASON)
        one.learn_many(X, Y[:, j], time=times)
        q = one.predict_many(Z, time=later)
        np.testing.assert_allclose(p.mean[:, j], q.mean, atol=1e-12)
        np.testing.assert_allclose(p.variance[:, j], q.variance, atol=1e-12)
        np.testing.assert_allclose(p.components["level"].mean[:, j], q.components["level"].mean, atol=1e-12)


def test_sampled_paths_have_the_joint_distribution():
    times = irregular(40)
    X, y, Z, later = stream(times)
    model = sg.KRLST(capacity=20, time=SMOOTH)
    model.learn_many(X, y, time=times)
    joint = model.predict_joint(Z, time=later)
    draws = joint.sample(20_000, seed=1)
    np.testing.assert_allclose(draws.mean(0), joint.mean, atol=0.05)
    total = joint.covariance + np.diag(joint.noise)
    np.testing.assert_allclose(np.cov(draws.T), total, atol=0.12)


def test_components_come_through_wrappers_in_the_units_of_the_target():
    times = irregular()
    X, y, Z, later = stream(times)
    model = sg.Standardize(sg.KRLST(capacity=10, time=SMOOTH), warmup=20)
    model.learn_many(X, 100.0 + 10.0 * y, time=times)
    p = model.predict_many(Z, time=later)
    total = p.components["inputs"].mean + p.components["level"].mean
    assert np.ptp(p.mean - total) < 1e-9  # what is left is the mean of the targets

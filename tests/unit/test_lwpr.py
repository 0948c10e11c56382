"""LWPR against a slow twin that keeps all rows, and against the rules of its papers."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.local import LWPR
from streamgp.local import receptive_field as rf
from tests.inside import called_with_model

# The slow twin: every statistic of a field is a sum over the rows it has seen, each discounted by the forgetting
# factors of all later rows, and is summed up anew whenever it is asked for.


class Sum:
    """sum_i value_i prod_{k > i} factor_k."""

    def __init__(self, start):
        self.values, self.factors = [np.asarray(start, dtype=float)], [1.0]

    def add(self, factor, value):
        self.factors.append(factor)
        self.values.append(np.asarray(value, dtype=float))

    @property
    def now(self):
        later = np.append(np.cumprod(self.factors[:0:-1])[::-1], 1.0)
        return np.tensordot(later, np.array(self.values), axes=1)


class Direction:
    def __init__(self, axis, d, model, count):
        self.xy, self.xs, self.s2, self.sy = Sum(1e-12 * np.eye(d)[axis]), Sum(np.zeros(d)), Sum(0.0), Sum(0.0)
        self.weight, self.e_cv2, self.H, self.R, self.count = Sum(1e-10), Sum(0.0), Sum(0.0), Sum(0.0), Sum(count)
        self.lam, self.init = model.init_lambda, model.init_S2

    @property
    def u(self):
        return self.xy.now / np.linalg.norm(self.xy.now)

    @property
    def ss(self):
        return self.init + self.s2.now


class SlowField:
    def __init__(self, model, x, y, like=None):
        d = model.d
        self.model, self.c, self.d = model, x, d
        self.M = np.sqrt(model.init_D) * np.eye(d) if like is None else like.M.copy()
        self.alpha = np.full((d, d), model.init_alpha) if like is None else like.alpha.copy()
        self.b, self.h = np.log(self.alpha), np.zeros((d, d))
        n = min(2, d) if like is None else len(like.directions)
        self.directions = [Direction(i, d, model, 1e-10) for i in range(n)]
        self.x_mean, self.y_mean = Sum(np.zeros(d)), Sum(1e-10 * y)
        self.e2, self.p = Sum(0.0), Sum(0.0)
        self.trusted = False

    def activation(self, x):
        return float(np.exp(-0.5 * (x - self.c) @ self.M.T @ self.M @ (x - self.c)))

    def projections(self, x, n):
        s, residuals = [], []
        for direction in self.directions[:n]:
            residuals.append(x)
            s.append(float(direction.u @ x))
            x = x - direction.xs.now / direction.ss * s[-1]
        return np.array(s), residuals

    def slopes(self, n):
        return np.array([float(direction.sy.now) / direction.ss for direction in self.directions[:n]])

    @property
    def grown(self):
        return len(self.directions) - int(self.directions[-1].count.now <= 2 * self.d)

    def centre_of_data(self):
        return self.x_mean.now / self.directions[0].weight.now, self.y_mean.now / self.directions[0].weight.now

    def learn(self, x, y, w):
        first, last = self.directions[0], self.directions[-1]
        self.trusted |= bool(first.count.now > 2 * self.d)
        for direction in self.directions:
            direction.weight.add(direction.lam, w)
        self.x_mean.add(first.lam, w * x)
        self.y_mean.add(first.lam, w * y)
        x_mean, y_mean = self.centre_of_data()
        x0, y0 = x - x_mean, float(y - y_mean)
        s, residuals = self.projections(x0, len(self.directions))
        errors = y0 - np.cumsum(self.slopes(len(s)) * s)
        targets = np.append(y0, errors[:-1])
        for direction, s_i, residual, target in zip(self.directions, s, residuals, targets, strict=True):
            direction.xy.add(0.9 + 0.1 * direction.lam, w * target * residual)
            direction.xs.add(direction.lam, w * s_i * residual)
            direction.s2.add(direction.lam, w * s_i**2)
            direction.sy.add(direction.lam, w * target * s_i)
        self.p.add(last.lam, sum((w * s_i) ** 2 / dn.ss for dn, s_i in zip(self.directions, s, strict=True)))
        s, _ = self.projections(x0, len(self.directions))
        grown = self.grown
        e = y0 - self.slopes(grown) @ s[:grown]
        e_cv = errors[grown - 1] if grown else y0
        if first.count.now * (1 - first.lam) > 0.1:
            self.e2.add(last.lam, w * e**2)
            for direction, error in zip(self.directions, errors, strict=True):
                direction.e_cv2.add(direction.lam, w * error**2)
            if self.model.update_D:
                self.descend(x - self.c, w, s, e, e_cv)
        if len(self.directions) < self.d and len(self.directions) > 1:
            before = self.directions[-2]
            mse = [dn.e_cv2.now / dn.weight.now + 1e-10 for dn in (before, last)]
            seen = last.count.now
            if mse[1] < 0.5 * mse[0] and seen > 0.99 * first.count.now and seen * (1 - last.lam) > 0.5:
                self.directions.append(Direction(len(self.directions), self.d, self.model, 0.0))
                self.p = Sum(0.0)
        for direction in self.directions:
            direction.count.add(direction.lam, 1.0)
            direction.lam = (
                self.model.tau_lambda * direction.lam + (1 - self.model.tau_lambda) * self.model.final_lambda
            )

    def descend(self, dx, w, s, e, e_cv):
        W = self.directions[0].weight.now
        E = self.directions[max(self.grown, 1) - 1].e_cv2.now
        T = min(1.0, (self.e2.now / (E + 1e-10)) ** 4)
        lam = self.directions[0].lam
        known = [i for i, dn in enumerate(self.directions) if dn.count.now * (1 - lam) > 0.1]
        Ps = {i: s[i] / self.directions[i].ss for i in known}
        leverage = sum(s[i] * Ps[i] for i in known)
        PsH = sum(Ps[i] * self.directions[i].H.now for i in known)
        slope = -E / W**2 + (e_cv**2 - 2 * e * PsH - sum(2 * Ps[i] ** 2 * self.directions[i].R.now for i in known)) / W
        bend = -2 * e_cv**2 / W**2 + E / W**3 + 2 * e**2 * leverage / W + 4 * e * PsH * (1 / W**2 + leverage / W)
        penalty, D = self.model.penalty / self.d, self.M.T @ self.M
        largest = np.abs(self.M).max()
        moved = self.M.copy()
        for i in range(self.d):
            for j in range(i, self.d):
                if self.model.diag_only and i != j:
                    continue
                unit = np.zeros((self.d, self.d))
                unit[i, j] = 1.0
                dD, ddD = unit.T @ self.M + self.M.T @ unit, 2 * unit.T @ unit
                dq, ddq = dx @ dD @ dx, dx @ ddD @ dx
                dw, ddw = -0.5 * w * dq, 0.25 * w * dq**2 - 0.5 * w * ddq
                G = slope * dw + w / W * penalty * 2 * np.sum(D * dD)
                GG = slope * ddw + bend * dw**2 + w / W * penalty * 2 * np.sum(dD * dD + D * ddD)
                if self.model.meta:
                    self.b[i, j] -= np.clip(self.model.meta_rate * T * G * self.h[i, j], -0.1, 0.1)
                    self.b[i, j] = np.clip(self.b[i, j], -10, 10)
                    a = self.alpha[i, j] = np.exp(self.b[i, j])
                    self.h[i, j] = self.h[i, j] * max(1 - T * a * GG, 0) - T * a * G
                if T * self.alpha[i, j] * G <= 0.1 * largest:
                    moved[i, j] -= T * self.alpha[i, j] * G
                else:
                    self.alpha[i, j] /= 2
        self.M = moved
        for i in known:
            direction = self.directions[i]
            part = T * w / (1 - w * leverage)
            direction.H.add(direction.lam, part * e_cv * s[i])
            direction.R.add(direction.lam, part * w * e_cv**2 * s[i] ** 2)

    def predict(self, x, w):
        x_mean, y_mean = self.centre_of_data()
        s, _ = self.projections(x - x_mean, self.grown)
        ss = np.array([direction.ss for direction in self.directions[: self.grown]])
        newest = self.directions[self.grown - 1]
        sigma2 = newest.e_cv2.now / (newest.weight.now - self.p.now) * (1 + w * np.sum(s**2 / ss))
        return y_mean + self.slopes(self.grown) @ s, sigma2


class SlowLWPR:
    """LWPR with room for all fields, that prunes none."""

    def __init__(self, d, **settings):
        self.d, self.fields = d, []
        self.init_D, self.init_alpha, self.w_gen, self.penalty, self.init_S2 = 25.0, 50.0, 0.1, 1e-6, 1e-10
        self.init_lambda, self.tau_lambda, self.final_lambda = 0.999, 0.9999, 0.99999
        self.meta, self.meta_rate, self.diag_only, self.update_D = False, 250.0, True, True
        self.__dict__.update(settings)

    def learn(self, x, y):
        activations = [field.activation(x) for field in self.fields]
        for field, w in zip(self.fields, activations, strict=True):
            if w > 0.001:
                field.learn(x, y, w)
        most = max(activations, default=0.0)
        if most <= self.w_gen:
            nearest = self.fields[int(np.argmax(activations))] if self.fields else None
            use = nearest is not None and most > 0.1 * self.w_gen and nearest.trusted
            self.fields.append(SlowField(self, x, y, nearest if use else None))

    def predict(self, x):
        active = [(field, field.activation(x)) for field in self.fields if field.trusted]
        active = [(field, w) for field, w in active if w > 0.001]
        if not active:
            return 0.0, np.inf
        weights = np.array([w for _, w in active])
        means, variances = np.array([field.predict(x, w) for field, w in active]).T
        mean = weights @ means / weights.sum()
        return mean, (weights @ (variances + (means - mean) ** 2)) / weights.sum() ** 2


def cross(X):
    a, b = X[:, 0] ** 2, X[:, 1] ** 2
    return np.maximum.reduce([np.exp(-10 * a), np.exp(-50 * b), 1.25 * np.exp(-5 * (a + b))])


def rows(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + (X[:, -1] ** 2 if d > 1 else 0) + 0.1 * rng.standard_normal(n)


ANNEALED = {"init_lambda": 0.95, "tau_lambda": 0.99, "final_lambda": 0.995}


@pytest.mark.parametrize(("d", "directions"), [(1, 1), (2, 2), (4, 3)])
def test_one_field_equals_weighted_pls_from_sums_over_all_rows(d, directions):
    rng = np.random.default_rng(d)
    settings = {"init_D": 0.5, "w_gen": 1e-3, "update_D": False, **ANNEALED}
    X = rng.uniform(-1.0, 1.0, (200, d)) * np.linspace(1.0, 0.2, d)
    Y = 1.0 + X @ np.arange(1.0, d + 1.0) + 0.01 * rng.standard_normal(200)
    model, slow = LWPR(**settings, cutoff=1e-3), SlowLWPR(d, **settings)
    for x, y in zip(X, Y, strict=True):
        model.learn_one(x, y)
        slow.learn(x, y)
    assert model.size == len(slow.fields) == 1
    assert len(slow.fields[0].directions) == directions  # a field begins with at most two
    p = model.predict_many(X[:20])
    expected = np.array([slow.predict(x) for x in X[:20]])
    np.testing.assert_allclose(p.mean, expected[:, 0], atol=1e-8)
    np.testing.assert_allclose(p.variance, expected[:, 1], rtol=1e-8)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"init_alpha": 250.0}, marks=pytest.mark.more),
        pytest.param({"init_alpha": 100.0, "diag_only": False}, marks=pytest.mark.more),
        pytest.param({"init_alpha": 20.0, "meta": True}, marks=pytest.mark.more),
        {"init_alpha": 20.0, "meta": True, "diag_only": False, "penalty": 1e-3},
    ],
    ids=["diagonal", "full", "meta diagonal", "meta full"],
)
def test_the_whole_algorithm_equals_its_slow_twin(settings):
    settings = {"init_D": 8.0, "w_gen": 0.2, **ANNEALED, **settings}
    X, Y = rows(200)
    model, slow = LWPR(**settings), SlowLWPR(2, **settings)
    model.learn_many(X, Y)
    for x, y in zip(X, Y, strict=True):
        slow.learn(x, y)
    assert model.size == len(slow.fields) > 5
    np.testing.assert_allclose(model.basis, [field.c for field in slow.fields], atol=1e-12)
    np.testing.assert_allclose(model.metrics, [field.M.T @ field.M for field in slow.fields], rtol=1e-6, atol=1e-8)
    assert np.ptp(model.metrics[:, 0, 0]) > 0.1  # the metrics have moved
    counted = [field for field in slow.fields if field.trusted]
    x = counted[0].c + 0.01
    mean, variance = slow.predict(x)
    np.testing.assert_allclose(model.predict_one(x).mean, mean, atol=1e-7)
    np.testing.assert_allclose(model.predict_one(x).variance, variance, rtol=1e-5)


def test_one_field_recovers_a_linear_function_of_redundant_inputs():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((4000, 2))
    X = np.column_stack([Z, Z[:, 0] + Z[:, 1], np.full(len(Z), 3.0)])
    model = LWPR(init_D=1e-3, update_D=False)
    model.learn_many(X, 2.0 * Z[:, 0] - Z[:, 1] + 5.0)
    assert model.size == 1
    np.testing.assert_allclose(model.predict_many(X[:50]).mean, 2.0 * Z[:50, 0] - Z[:50, 1] + 5.0, atol=0.01)


def one_field(entries, d):
    """The numbers of a model with room for one field of one direction, which has this metric."""
    model = LWPR(diag_only=entries.size == d, capacity=1, max_projections=1)
    model._start(d, 1)
    model._state.metrics[0] = entries
    return model._numbers


def batch_field(X, Y, w, u, entries):
    """A field of one direction u whose statistics are those of the rows, as plain sums."""
    numbers, s = one_field(entries, X.shape[1]), X @ u
    state = numbers.state
    P = 1.0 / np.sum(w * s**2)
    e = Y - s * P * np.sum(w * s * Y)
    h = w * s**2 * P
    e_cv = e / (1 - h)
    state.ss2[:] = 1.0 / P
    state.H[:] = np.sum(w * e_cv * s / (1 - h))
    state.R[:] = np.sum(w**2 * e_cv**2 * s**2 / (1 - h))
    state.n_data[:], state.forget[:], state.directions[:] = 1e6, 0.999, 1
    return numbers, s, e, e_cv, np.sum(w * e_cv**2)


def activation(entries, dx):
    """w and z = M dx of a metric given by the diagonal or the upper triangle of M."""
    d = dx.shape[-1]
    M = np.zeros((d, d))
    M[np.diag_indices(d) if entries.size == d else np.triu_indices(d)] = entries
    z = dx @ M.T
    return np.exp(-0.5 * np.sum(z**2, axis=-1)), z, M


@pytest.mark.parametrize("entries", [[1.1, 0.7, 0.9], [1.1, 0.3, -0.2, 0.7, 0.4, 0.9]], ids=["diagonal", "full"])
def test_the_rows_gradients_add_up_to_that_of_the_leave_one_out_cost(entries):
    # The published gradient holds the weight of a row in its own leverage fixed; so does the cost differenced here.
    rng = np.random.default_rng(3)
    entries, penalty, n, d = np.array(entries), 1e-2, 12, 3
    X, Y, u = rng.standard_normal((n, d)), rng.standard_normal(n), np.array([0.6, 0.0, 0.8])
    frozen = activation(entries, X)[0]

    def cost(values):
        w, _, M = activation(values, X)
        s = X @ u
        P = 1.0 / np.sum(w * s**2)
        e = Y - s * P * np.sum(w * s * Y)
        J1 = np.sum(w * e**2 / (1 - frozen * s**2 * P) ** 2) / np.sum(w)
        return J1 + penalty * np.sum((M.T @ M) ** 2)

    w, z, _ = activation(entries, X)
    numbers, s, e, e_cv, E = batch_field(X, Y, w, u, entries)
    work, total = numbers.work, np.zeros(entries.size)
    for t in range(n):
        work.s[:], work.dx[:], work.z[:] = s[t], X[t], z[t]
        slope, bend, h = called_with_model(rf.cost_slope)(
            numbers.records, numbers.buffers, 0, w[t], e[t], e_cv[t], E, w.sum()
        )
        np.testing.assert_allclose(h, w[t] * s[t] ** 2 / numbers.state.ss2[0, 0], rtol=1e-12)
        called_with_model(rf.metric_derivatives)(
            numbers.records, numbers.buffers, 0, w[t], slope, bend, w[t] / w.sum(), penalty
        )
        total += work.gradient
    step = 1e-6 * np.eye(entries.size)
    differences = [(cost(entries + i) - cost(entries - i)) / 2e-6 for i in step]
    np.testing.assert_allclose(total, differences, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("entries", [[1.1, 0.7], [1.1, 0.3, 0.7]], ids=["diagonal", "full"])
def test_curvature_is_the_second_derivative_by_each_entry(entries):
    entries, dx, slope, bend, share, penalty = np.array(entries), np.array([0.4, -0.9]), -0.7, 0.5, 0.2, 0.03
    w0 = activation(entries, dx)[0]
    numbers = one_field(entries, 2)
    work = numbers.work

    def cost(values):
        w, _, M = activation(values, dx)
        return slope * w + 0.5 * bend * (w - w0) ** 2 + share * penalty * np.sum((M.T @ M) ** 2)

    work.dx[:], work.z[:] = dx, activation(entries, dx)[1]
    called_with_model(rf.metric_derivatives)(numbers.records, numbers.buffers, 0, w0, slope, bend, share, penalty)
    for i, unit in enumerate(np.eye(entries.size)):
        up, here, down = (cost(entries + k * 1e-4 * unit) for k in (1, 0, -1))
        assert work.gradient[i] == pytest.approx((up - down) / 2e-4, abs=1e-7)
        assert work.curvature[i] == pytest.approx((up - 2 * here + down) / 1e-8, abs=1e-6)


def test_erratum_the_second_derivative_used_in_meta_learning_is_not_that_of_the_cost():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1))
    s = X[:, 0]
    Y, w = s + 0.5 * rng.standard_normal(200) + 0.3 * s**2, rng.uniform(0.2, 1.0, 200)
    numbers, _, e, e_cv, E = batch_field(X, Y, w, np.ones(1), np.zeros(1))
    W, t = w.sum(), int(np.argmax(e**2 * s**2))  # where the terms in question are largest

    def cost(weight):
        v = w.copy()
        v[t] = weight
        P = 1.0 / np.sum(v * s**2)
        return np.sum(v * (Y - s * P * np.sum(v * s * Y)) ** 2 / (1 - w * s**2 * P) ** 2) / v.sum()

    numbers.work.s[:] = s[t]
    _, bend, _ = called_with_model(rf.cost_slope)(numbers.records, numbers.buffers, 0, w[t], e[t], e_cv[t], E, W)
    derived = bend + E / W**3 - 4.0 * e[t] ** 2 * s[t] ** 2 / numbers.state.ss2[0, 0] / W
    difference = (cost(w[t] + 1e-3) - 2 * cost(w[t]) + cost(w[t] - 1e-3)) / 1e-6
    assert derived == pytest.approx(difference, rel=0.1)  # neglected: how R and 1 - h change
    assert bend > 0 > difference


def test_a_field_is_created_exactly_where_no_activation_exceeds_w_gen():
    X, Y = rows(120)
    model = LWPR(init_D=[20.0, 5.0], w_gen=0.3, update_D=False)
    for x, y in zip(X, Y, strict=True):
        dx = x - model.basis if model.size else np.empty((0, 2))
        most = np.exp(-0.5 * (20.0 * dx[:, 0] ** 2 + 5.0 * dx[:, 1] ** 2)).max(initial=0.0)
        before = model.size
        model.learn_one(x, y)
        assert model.size - before == int(most <= 0.3)
        assert model.last_change.admitted == (most <= 0.3)
        assert model.last_change.absorbed == (most > 0.001)
        if most <= 0.3:
            np.testing.assert_array_equal(model.basis[-1], x)


def learn_one_field(model):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, 300)
    model.learn_one(0.0, 0.0)
    model.learn_many(X, np.sin(X) + 0.1 * rng.standard_normal(300))
    assert model.size == 1


def test_a_new_field_takes_the_metric_of_a_trusted_neighbor_that_is_nearly_active():
    model = LWPR(init_D=1.0, w_gen=0.1, **ANNEALED)
    learn_one_field(model)
    moved = model.metrics[0]
    assert moved[0, 0] != 1.0
    near = np.sqrt(-2 * np.log(0.05) / moved[0, 0])  # activation 0.05, between w_gen / 10 and w_gen
    model.learn_one(near, 0.0)
    nearby = model.metrics[-1]
    model.learn_one(near + 100.0, 0.0)
    # The neighbor learned the row too before its metric was taken over.
    np.testing.assert_array_equal(nearby, model.metrics[0])
    np.testing.assert_allclose(model.metrics[-1], [[1.0]], rtol=1e-12)


@pytest.mark.parametrize("wide", [0, 1])
def test_of_two_fields_that_overlap_too_much_the_wider_leaves(wide):
    model = LWPR(init_D=1.0, w_gen=0.5, w_prune=0.7, update_D=False)
    model.learn_many([0.0, 1.3], [0.0, 0.0])  # exp(-1.3^2 / 2) = 0.43
    assert model.size == 2
    model._state.metrics[wide, 0] = 0.99
    model.learn_one(0.65, 0.0)  # exp(-0.65^2 / 2) = 0.81 of both
    assert model.size == 1
    assert model.basis[0, 0] == [1.3, 0.0][wide]
    assert model.last_change.evicted == wide
    assert not any(getattr(model._state, name)[1:].any() for name in rf.STATE)


def test_with_the_default_w_prune_no_field_leaves():
    model = LWPR(init_D=1.0, w_gen=0.5, update_D=False)
    model.learn_many([0.0, 1.3, 0.65, 0.65], np.zeros(4))
    assert model.size == 2


def test_a_full_model_replaces_the_field_that_was_inactive_for_longest():
    model = LWPR(init_D=1.0, capacity=2, update_D=False)
    model.learn_many([0.0, 10.0, 0.1], np.zeros(3))
    length = len(model.to_bytes())
    model.learn_one(20.0, 0.0)
    assert sorted(model.basis[:, 0]) == [0.0, 20.0]
    assert model.last_change.evicted == 1
    model.learn_many(np.arange(30.0, 300.0, 10.0), np.zeros(27))
    assert model.size == 2
    assert len(model.to_bytes()) == length


def test_a_full_model_keeps_the_neighbor_whose_metric_is_taken_over():
    model = LWPR(init_D=1.0, capacity=2, w_gen=0.1, **ANNEALED)
    learn_one_field(model)
    model.learn_one(50.0, 0.0)
    near = np.sqrt(-2 * np.log(0.05) / model.metrics[0, 0, 0])
    model.learn_one(near, 0.0)
    assert sorted(model.basis[:, 0]) == [0.0, near]
    np.testing.assert_array_equal(model.metrics[0], model.metrics[1])


def test_the_variance_is_the_squared_confidence_of_a_mixture():
    X, Y = rows(600, d=1)
    model = LWPR(init_D=4.0, w_gen=0.3, **ANNEALED)
    model.learn_many(X, Y)
    x = 0.1
    weights = np.exp(-0.5 * model.metrics[:, 0, 0] * (x - model.basis[:, 0]) ** 2)
    active = np.flatnonzero(weights > 0.001)
    assert len(active) > 1
    means, variances = [], []
    for k in active:  # each field alone: conf^2 = sigma^2 / w
        alone = model.copy()
        alone._state.centers[[i for i in range(len(weights)) if i != k]] = 1e6
        p = alone.predict_one(x)
        means.append(p.mean)
        variances.append(p.variance * weights[k])
    w, means = weights[active], np.array(means)
    mean = w @ means / w.sum()
    p = model.predict_one(x)
    assert p.mean == pytest.approx(mean, abs=1e-12)
    assert p.variance == pytest.approx((w @ (variances + means**2) - w.sum() * mean**2) / w.sum() ** 2, rel=1e-9)
    assert p.noise == 0.0


def test_the_variance_is_infinite_where_no_field_can_speak():
    model = LWPR(init_D=1.0)
    assert model.predict_one(0.0).mean == 0.0
    assert model.predict_one(0.0).variance == np.inf
    rng = np.random.default_rng(0)
    trusted = []
    for _ in range(12):
        model.learn_one(0.1 * rng.standard_normal(), rng.standard_normal())
        trusted.append(np.isfinite(model.predict_one(0.0).variance))
    # One row creates the field; the row that makes it speak must find more than 2 d = 2 rows, discounted, so three.
    assert trusted == [False] * 4 + [True] * 8
    assert model.predict_one(100.0).variance == np.inf
    assert model.predict_one(0.0).variance > 0.0


def test_before_errors_are_counted_the_variance_is_the_spread_of_the_targets():
    model = LWPR(init_D=1e-6, update_D=False)
    Y = np.random.default_rng(0).standard_normal(60)
    model.learn_one(0.0, 0.0)
    model.learn_many(np.zeros(60), Y)
    means = [np.average(Y[: n + 1], weights=discounts(n + 1)) for n in range(60)]
    spread = np.average((Y - means) ** 2, weights=discounts(60))
    assert model.predict_one(0.0).variance == pytest.approx(spread, rel=1e-6)


def discounts(n):
    """Weights of n rows under the default annealed forgetting."""
    lam = 0.99999 - (0.99999 - 0.999) * 0.9999 ** np.arange(n)
    return np.append(np.cumprod(lam[:0:-1])[::-1], 1.0)


def test_missing_targets_leave_everything_but_the_memory_unchanged():
    X, Y = rows(80)
    model, other = LWPR(init_D=5.0), LWPR(init_D=5.0)
    holes = Y.copy()
    holes[::3] = np.nan
    model.learn_many(X, holes)
    other.learn_many(X[~np.isnan(holes)], Y[~np.isnan(holes)])
    assert model.rows_seen == 80
    for name, array in model._arrays().items():
        if name not in ("counters.rows_seen", "window"):
            np.testing.assert_array_equal(array, other._arrays()[name])
    before = model.predict_many(X).mean
    model.observe_one(X[0])
    assert model.last_change == (False, False, ())
    np.testing.assert_array_equal(model.predict_many(X).mean, before)


def test_outputs_are_learned_apart_and_any_target_may_be_missing():
    X, Y = rows(200)
    both = np.column_stack([Y, np.cos(X[:, 0])])
    both[::4, 0] = np.nan
    both[1::5, 1] = np.nan
    model = LWPR(init_D=10.0, w_gen=0.2)
    model.learn_many(X, both)
    p = model.predict_many(X[:30])
    fields = 0
    for j in range(2):
        single = LWPR(init_D=10.0, w_gen=0.2)
        single.learn_many(X, both[:, j])
        q = single.predict_many(X[:30])
        np.testing.assert_array_equal(p.mean[:, j], q.mean)
        np.testing.assert_array_equal(p.variance[:, j], q.variance)
        fields += single.size
    assert model.size == fields == len(model.basis) == len(model.metrics)


def test_normalisation_is_a_change_of_units():
    X, Y = rows(300)
    plain = LWPR(init_D=10.0)
    scaled = LWPR(init_D=10.0, norm_in=[4.0, 0.5], norm_out=[8.0])
    plain.learn_many(X, Y)
    scaled.learn_many(X * [4.0, 0.5], Y * 8.0)
    p, q = plain.predict_many(X), scaled.predict_many(X * [4.0, 0.5])
    np.testing.assert_array_equal(8.0 * p.mean, q.mean)
    np.testing.assert_array_equal(64.0 * p.variance, q.variance)
    np.testing.assert_array_equal(plain.basis * [4.0, 0.5], scaled.basis)


def test_a_window_is_the_same_as_inputs_side_by_side():
    X, Y = rows(150, d=1)
    windows = np.column_stack([np.vstack([np.zeros((1, 1)), X[:-1]]), X])
    model, wide = LWPR(init_D=5.0, depth=2, norm_in=0.5), LWPR(init_D=5.0, norm_in=[0.5, 0.5])
    p, q = model.track(X, Y), wide.track(windows, Y)
    np.testing.assert_array_equal(p.mean, q.mean)
    assert model.basis.shape == (model.size, 2)
    model.reset_memory()
    np.testing.assert_array_equal(model.predict_one(0.3).mean, wide.predict_one([0.0, 0.3]).mean)


def test_predictions_stay_finite_on_constant_duplicate_and_huge_rows():
    model = LWPR(init_D=1.0, init_alpha=250.0, meta=True, diag_only=False, init_lambda=0.9, final_lambda=0.9)
    rng = np.random.default_rng(0)
    for X in (np.zeros((500, 3)), np.ones((500, 3)), np.repeat(rng.standard_normal((5, 3)), 100, axis=0)):
        for scale in (0.0, 1.0, 1e6):
            model.learn_many(X, scale * rng.standard_normal(500))
            p = model.predict_many(X)
            assert np.all(np.isfinite(p.mean))
            assert not np.any(np.isnan(p.variance))


def test_max_projections_limits_the_directions():
    X, _ = rows(400, d=3)
    for most in (1, 2):
        model = LWPR(init_D=1.0, max_projections=most, **ANNEALED)
        model.learn_many(X, X @ [1.0, 2.0, 3.0])
        assert model._state.ss2.shape[1] == most
        assert np.all(np.isfinite(model.predict_many(X).mean))


def test_it_learns_cross_2d():
    # [gijsberts2013] 4.1: 500 rows, noise sd 0.1, a noiseless 41 x 41 grid, with the settings of the library's own
    # example. Measured over seeds 0..4: nMSE 0.070 to 0.092 after one pass, 0.025 to 0.054 after twenty.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    Y = cross(X) + 0.1 * rng.standard_normal(500)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41)), axis=-1).reshape(-1, 2)
    model = LWPR(init_D=50.0, init_alpha=250.0, w_gen=0.2)
    scores = []
    for _ in range(20):
        order = rng.permutation(500)
        model.learn_many(X[order], Y[order])
        scores.append(np.mean((model.predict_many(grid).mean - cross(grid)) ** 2) / np.var(cross(grid)))
    assert scores[0] < 0.1
    assert scores[-1] < 0.06


def test_reading_before_the_first_row():
    model = LWPR()
    assert (model.size, model.rows_seen) == (0, 0)
    assert model.basis.shape == (0, 0)
    assert model.metrics.shape == (0, 0, 0)
    assert model.last_change == (False, False, ())
    assert model.hyperparameters == {"init_D": 25.0, "init_alpha": 50.0, "penalty": 1e-6}
    model.reset_memory()
    assert repr(LWPR(init_D=50.0)) == "LWPR(init_D=50.0)"


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"init_D": -1.0}, ValueError, "init_D must be a positive number"),
        ({"init_D": [[1.0, 2.0]]}, ValueError, r"init_D must be a symmetric \(d, d\) matrix"),
        ({"init_alpha": [1.0, 2.0]}, ValueError, "init_alpha must be a positive number or a"),
        ({"init_alpha": [[1.0, -1.0], [-1.0, 1.0]]}, ValueError, "init_alpha must be a positive number or a"),
        ({"w_gen": 0.0}, ValueError, "w_gen must be a finite number above 0 and at most 1"),
        ({"w_gen": 0.5, "w_prune": 0.4}, ValueError, "w_prune must be a finite number above 0.5"),
        ({"penalty": -1.0}, ValueError, "penalty must be a finite number at least 0"),
        ({"capacity": 0}, ValueError, "capacity must be a whole number of at least 1"),
        ({"init_lambda": 1.5}, ValueError, "init_lambda must be a finite number above 0 and at most 1"),
        ({"max_projections": 0}, ValueError, "max_projections must be a whole number"),
        ({"norm_in": [1.0, 0.0]}, ValueError, "norm_in must be a positive number"),
        ({"init_d": 1.0}, TypeError, "Did you mean 'init_D'"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings, error, message):
    with pytest.raises(error, match=message):
        LWPR(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init_D": [1.0, 1.0, 1.0]}, r"init_D has shape \(3,\), but the inputs have 2 columns"),
        ({"init_D": [[2.0, 1.0], [1.0, 2.0]]}, "use diag_only=False"),
        ({"init_D": [[1.0, 2.0], [2.0, 1.0]], "diag_only": False}, "init_D must be positive definite"),
        ({"init_alpha": np.ones((3, 3))}, r"init_alpha has shape \(3, 3\)"),
        ({"norm_in": [1.0, 1.0, 1.0]}, "norm_in has 3 values, but there are 2 inputs"),
        ({"norm_out": [1.0, 1.0]}, "norm_out has 2 values, but there are 1 outputs"),
    ],
)
def test_settings_that_do_not_fit_the_first_row_are_refused(settings, message):
    model = LWPR(**settings)
    with pytest.raises(ValueError, match=message):
        model.learn_one([0.0, 0.0], 1.0)
    assert model.rows_seen == 0

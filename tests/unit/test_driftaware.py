from __future__ import annotations

import math

import numpy as np
import pytest

import streamgp as sg
from streamgp.wrappers import drift
from tests import oracles
from tests.inside import called

N = 1500


def switching(n=N, seed=0):
    """A function that changes its sign at one third, and a burst of wild values at two thirds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    y = np.where(np.arange(n) < n // 3, 1.0, -1.0) * np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    burst = slice(2 * n // 3, 2 * n // 3 + 15)
    y[burst] += rng.normal(size=15)[: n - burst.start]
    return X, y


def weighted(**settings):
    return sg.OnlineGP(sg.Fourier(20, lengthscale=1.0), noise=0.01, **settings)


# Forgetting once.


@pytest.mark.parametrize(
    "build",
    [
        lambda f: sg.KRLST(capacity=15, forgetting=f),
        lambda f: sg.KRLST(capacity=15, forgetting=f, estimate_power=True, outputs="separate"),
        lambda f: weighted(forgetting=sg.BackToPrior(f)),
        lambda f: sg.OnlineGP(sg.Basis(points=[[-2.0], [0.0], [2.0]]), forgetting=sg.BackToPrior(f)),
    ],
    ids=["basis", "power", "features", "points"],
)
def test_forgetting_before_every_row_is_the_models_own_forgetting(build):
    X, y = switching(60)
    own, told = build(0.9), build(1.0)
    for x, target in zip(X, y, strict=True):
        own.learn_one(x, target)
        told.forget(0.9)
        told.learn_one(x, target)
    a, b = own.predict_many(X), told.predict_many(X)
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(b.variance, a.variance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(b.noise, a.noise, rtol=1e-8)


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_injecting_once_divides_the_covariance_and_keeps_it_below_the_prior(form):
    X, y = switching(40)
    model = weighted(forgetting=sg.Injection(1.0), form=form)
    model.learn_many(X, y)
    features = oracles.fourier(sg.Fourier(20, lengthscale=1.0).frequencies(1, 1))
    Phi, grid = features(X), np.linspace(-4, 4, 50)[:, None]
    S = np.linalg.inv(np.eye(40) + Phi.T @ Phi / 0.01)
    weights = S @ Phi.T @ y / 0.01
    model.forget(0.05)
    values, vectors = np.linalg.eigh(S / 0.05)
    faded = vectors @ np.diag(np.minimum(values, 1.0)) @ vectors.T
    p = model.predict_many(grid)
    np.testing.assert_allclose(p.mean, features(grid) @ weights, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.einsum("ij,jk,ik->i", features(grid), faded, features(grid)), atol=1e-8)


def test_injecting_once_into_a_basis_keeps_the_variance_below_the_prior():
    X, y = switching(30)
    model = sg.KRLST(sg.SquaredExponential(1.0), capacity=30, mode="injection", forgetting=1 - 1e-12, jitter=1e-6)
    model.learn_many(X, y)
    kernel, B, grid = oracles.squared_exponential(1.0), model.basis, np.linspace(-4, 4, 50)[:, None]
    K, k = kernel(B, B) + 1e-6 * np.eye(len(B)), kernel(grid, B)
    noise = model.hyperparameters["noise"]
    S = np.linalg.inv(np.linalg.inv(K) + np.eye(len(B)) / noise)  # of the values at the basis points
    before = model.predict_many(grid)
    model.forget(0.02)
    R = np.linalg.cholesky(K)
    values, vectors = np.linalg.eigh(np.linalg.solve(R, np.linalg.solve(R, S / 0.02).T))
    faded = R @ vectors @ np.diag(np.minimum(values, 1.0)) @ vectors.T @ R.T
    A = np.linalg.solve(K, k.T).T
    expected = 1.0 + 1e-6 - np.einsum("ij,ij->i", A, k) + np.einsum("ij,jk,ik->i", A, faded, A)
    after = model.predict_many(grid)
    np.testing.assert_allclose(after.variance, expected, atol=1e-6)
    np.testing.assert_array_equal(after.mean, before.mean)
    assert np.all(after.variance <= 1.0 + 1e-5)


def test_forgetting_nothing_changes_nothing_and_forgetting_all_is_the_prior():
    X, y = switching(50)
    for build in (sg.SOGP, sg.ISSGPR, lambda: sg.KRLST(mode="injection", forgetting=0.99), lambda: sg.RLSESN(units=5)):
        model = build()
        model.forget(0.5)  # nothing to forget yet
        model.learn_many(X, y)
        p = model.predict_many(X)
        model.forget(1.0)
        np.testing.assert_allclose(model.predict_many(X).variance, p.variance, rtol=1e-7, atol=1e-9)
        model.forget(1e-8)
        prior = build()
        prior.learn_many(X, y * np.nan)
        np.testing.assert_allclose(model.predict_many(X).variance, prior.predict_many(X).variance, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [sg.filters.KLMS(), sg.LWPR(), sg.LocalGP(), sg.SWKRLS(), sg.KRLS(noise=0.0), sg.Standardize(sg.filters.NORMA())],
)
def test_models_that_cannot_forget_say_which_can(model):
    for call in (lambda: model.forget(0.5), lambda: sg.DriftAware(model)):
        with pytest.raises(ValueError, match="has no posterior that could fade; models that can are built on OnlineGP"):
            call()


@pytest.mark.parametrize("factor", [0.0, 1.5, -1.0, math.nan])
def test_the_factor_is_checked(factor):
    with pytest.raises(ValueError, match="factor must be a finite number above 0 and at most 1"):
        sg.SOGP().forget(factor)


# The alarm.


def plain_wager(p):
    return min(3.0, (3.0 - math.sqrt(6.0)) / math.sqrt(p))


def plain_evidence(errors):
    """Ranks by counting; errors in the same bin of their logarithm count as equal."""
    bins = [min(max(math.floor((math.log(e) + 20) * 1024 / 40), 0), 1023) for e in errors]
    evidence, path = 0.0, []
    for t, b in enumerate(bins):
        p = (1 + sum(earlier >= b for earlier in bins[:t])) / (t + 1)
        evidence = (1 + evidence) * plain_wager(p)
        path.append(evidence)
    return path


def watch(errors, stop, counts=None):
    return drift.watch(errors**2, stop, np.zeros(drift.BINS) if counts is None else counts, np.zeros(1))


def test_the_evidence_is_that_of_ranks_counted_one_by_one():
    errors = np.abs(np.random.default_rng(0).normal(size=300))
    errors[250:] *= 2.0
    path = plain_evidence(errors)
    for stop in (10.0, 100.0, 1000.0):
        expected = next((t for t, evidence in enumerate(path) if evidence >= stop), -1)
        assert watch(errors, stop) == expected
    assert max(path[250:]) > 1000.0


@pytest.mark.parametrize("fading", [0.97, 1.0])
def test_errors_beside_another_prediction_are_in_units_of_its_errors_so_far(fading):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=200)
    y = mean + 0.5 * rng.normal(size=200)
    other = np.r_[np.nan, y[:-1]]
    y[7], mean[110], other[120] = np.nan, np.inf, np.nan
    unit, sizes = np.zeros(2), np.empty(200)
    for part in (slice(0, 60), slice(60, 200)):
        drift.sizes_beside(mean[part], other[part], y[part], fading, unit, sizes[part])
    known = np.flatnonzero(np.isfinite(mean + other + y))
    for i, t in enumerate(known):
        weights = fading ** np.arange(i + 1)[::-1]
        square = np.average((y - other)[known[: i + 1]] ** 2, weights=weights)
        assert sizes[t] == pytest.approx((y[t] - mean[t]) ** 2 / square, rel=1e-10)
    assert np.isnan(np.delete(sizes, known)).all()
    drift.sizes_beside(mean, y, y, fading, np.zeros(2), sizes)  # the other one never errs
    assert np.isnan(sizes).all()


def test_the_wager_is_bounded_and_fair():
    p = (np.arange(10**5) + 0.5) / 10**5
    wagers = np.array([called(drift.wager)(value) for value in p])
    assert wagers.max() == 3.0
    assert wagers.mean() == pytest.approx(1.0, abs=1e-4)


def test_three_outliers_in_a_row_raise_no_alarm():
    errors = np.abs(np.random.default_rng(0).normal(size=10_000))
    errors[9000:9003] = 1e6
    assert watch(errors, 1e4) == -1


def test_every_false_alarm_squares_the_evidence_that_the_next_one_needs():
    model = sg.DriftAware(sg.KRLST(), false_alarm_rate=1e-2)
    model.learn_one(0.0, 0.0)
    for refuted, enough in enumerate((1e2, 1e4, 1e8, 1e16, 1e32)):
        model._numbers.counters["refuted"] = refuted
        assert model._detector.enough == pytest.approx(enough, rel=1e-10)
    rare = sg.DriftAware(sg.KRLST(), false_alarm_rate=1e-300)
    rare.learn_one(0.0, 0.0)
    rare._numbers.counters["refuted"] = 4
    assert math.isfinite(rare._detector.enough)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "exponential"])
def test_false_alarms_are_no_more_than_stated_whatever_the_errors(draw):
    rng = np.random.default_rng(0)
    stop, runs, longest = 50.0, 2000, 1500
    lengths = np.array([watch(np.abs(getattr(rng, draw)(size=longest)), stop) for _ in range(runs)])
    lengths = np.where(lengths < 0, longest, lengths + 1)  # those that were cut short count too little
    error = lengths.std() / math.sqrt(runs)
    assert lengths.mean() > stop - 3 * error
    assert lengths.mean() < 6 * stop  # and the statement is not idle


def test_errors_twice_as_large_are_noticed_within_a_few_dozen_rows():
    rng = np.random.default_rng(1)
    delays = []
    for _ in range(200):
        errors = np.abs(rng.normal(size=1500))
        errors[500:] *= 2.0
        at = watch(errors, 1e4)
        assert at >= 0
        delays.append(at - 500)
    assert np.mean(np.array(delays) < 0) < 0.05
    assert np.median(delays) < 60


# The model.


def moments(model, x):
    p = model.predict_one(x)
    return p.mean, p.variance + p.noise


def plain_drift_aware(model, X, y, rate, factor, relax, trial, warmup):
    means, variances, events = [], [], []
    other, errors, exponent, wait, evidence = None, [], 0.0, warmup, 0.0
    totals, late, left, refuted = [0.0, 0.0], [0.0, 0.0], 0, 0
    for t in range(len(y)):
        (mean, s), target = moments(model, X[t]), y[t]
        if other is not None:
            calm_mean, calm_s = moments(other, X[t])
            leads = exponent <= 0.05 and late[0] < late[1]
            means.append(mean if leads else calm_mean)
            variances.append(s if leads else calm_s)
        else:
            means.append(mean)
            variances.append(s)
        model.learn_one(X[t], target)
        if other is not None:
            other.learn_one(X[t], target)
            for i, m in enumerate((mean, calm_mean)):
                if trial - left >= trial // 4:
                    totals[i] += abs(target - m)
                late[i] = 0.9 * late[i] + abs(target - m)
            errors.append(abs(target - calm_mean) / math.sqrt(calm_s))
            if exponent > 0.05:
                model.forget(factor**exponent)
                exponent *= relax
            left -= 1
            if left == 0:
                better = totals[0] < totals[1]
                events.append((t, "kept" if better else "reverted", totals[0] / sum(totals)))
                refuted = refuted // 2 if better else min(refuted + 1, 4)
                if better:
                    errors, wait = [], warmup
                else:
                    model = other
                other = None
        elif wait > 0:
            wait -= 1
        else:
            errors.append(abs(target - mean) / math.sqrt(s))
            bins = [math.floor((math.log(e) + 20) * 1024 / 40) for e in errors]
            p = sum(b >= bins[-1] for b in bins) / len(bins)
            evidence = (1 + evidence) * plain_wager(p)
            if evidence >= (1 / rate) ** 2**refuted:
                events.append((t, "raised", evidence))
                other, errors, evidence, exponent, left = model.copy(), [], 0.0, relax, trial
                totals, late = [0.0, 0.0], [0.0, 0.0]
                model.forget(factor)
    return np.array(means), np.array(variances), events


def test_it_equals_the_plain_loop():
    X, y = switching()
    settings = {"factor": 0.1, "relax": 0.5, "trial": 60, "warmup": 40}
    mean, s, events = plain_drift_aware(weighted(), X, y, 1e-3, **settings)
    model = sg.DriftAware(weighted(), false_alarm_rate=1e-3, **settings)
    p = model.track(X, y)
    assert [event[:2] for event in model.events] == [event[:2] for event in events]
    assert {direction for _, direction, _ in events} == {"raised", "kept", "reverted"}
    np.testing.assert_allclose([event.statistic for event in model.events], [event[2] for event in events], rtol=1e-8)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance + p.noise, s, atol=1e-8)


# After an alarm.


def bursting(n, seed=0, every=300):
    """A function far from zero that never changes, with a burst of wild noise now and then."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    wild = np.zeros(n, dtype=bool)
    for start in np.flatnonzero(rng.random(n) < 1.0 / every):
        wild[start : start + 10] = True
    return X, 2.0 + np.sin(X[:, 0]) + np.where(wild, 1.0, 0.1) * rng.normal(size=n)


def false_alarm(n=900, at=600):
    """A stream with one false alarm: the targets are off for 20 rows."""
    X, y = bursting(n, every=math.inf)
    y[at : at + 20] += np.random.default_rng(1).normal(size=20) * 2.0
    return X, y


def test_the_row_after_an_alarm_is_predicted_by_the_model_that_did_not_forget():
    X, y = false_alarm()
    model, alone = sg.DriftAware(weighted()), weighted()
    p, calm = model.track(X, y), alone.track(X, y)
    row = model.events[0].row + 1
    assert 600 < row < 625
    assert p.mean[row] == pytest.approx(calm.mean[row], abs=1e-10)
    assert p.variance[row] == pytest.approx(calm.variance[row], abs=1e-10)


def test_a_false_alarm_adds_next_to_nothing_to_the_squared_error():
    X, y = false_alarm()
    model, alone = sg.DriftAware(weighted()), weighted()
    squared, calm = ((m.track(X, y).mean - y) ** 2 for m in (model, alone))
    row = model.events[0].row + 1
    assert [event.direction for event in model.events] == ["raised", "reverted"]
    assert squared[row] == pytest.approx(calm[row], abs=1e-10)
    assert squared[row:].sum() < 1.05 * calm[row:].sum()


@pytest.mark.parametrize("real", [True, False])
def test_the_rows_right_after_forgetting_do_not_sway_the_verdict(real):
    # The ten rows after the alarm speak, loudly, for the model that should lose.
    X, y = false_alarm(700)
    if real:
        y[600:] = 4.0 - y[600:]
    model = sg.DriftAware(weighted(), trial=60)
    model.learn_many(X[:600], y[:600])
    row = 600
    while not model.on_trial:
        model.learn_one(X[row], y[row])
        row += 1
    old = 2.0 + np.sin(X[row : row + 10, 0])
    model.learn_many(X[row : row + 10], old if real else 0.1 * old)
    model.learn_many(X[row + 10 :], y[row + 10 :])
    assert [event.direction for event in model.events][:2] == ["raised", "kept" if real else "reverted"]


def test_bursts_of_noise_raise_few_alarms():
    X, y = bursting(10_000)
    model = sg.DriftAware(weighted())
    model.learn_many(X, y)
    assert sum(event.direction == "raised" for event in model.events) <= 5
    assert not any(event.direction == "kept" for event in model.events)


# Around any model.


@pytest.mark.parametrize(
    "build",
    [
        lambda: sg.KRLST(forgetting=1.0),
        sg.ISSGPR,
        lambda: sg.KRLST(mode="injection", forgetting=0.9999),
        lambda: sg.Standardize(sg.SOGP()),
    ],
    ids=["KRLST", "ISSGPR", "injection", "Standardize"],
)
def test_after_a_switch_it_errs_less_than_the_model_alone(build):
    X, y = switching()
    errors = [np.abs(model.track(X, y).mean - y)[520:900].mean() for model in (sg.DriftAware(build()), build())]
    assert errors[0] < 0.5 * errors[1]


def test_an_alarm_within_a_block_leaves_what_row_by_row_would():
    X, y = switching(700)
    for build in (
        lambda: sg.SOGP(capacity=15, adapt=sg.SNGD(interval=15, rest=5)),
        lambda: sg.Standardize(sg.OESGP(units=5, capacity=10, feedback=0.3), warmup=30),
    ):
        together, alone = (sg.DriftAware(build(), false_alarm_rate=1e-2, trial=20, warmup=20) for _ in range(2))
        p = together.track(X, y)
        means = []
        for x, target in zip(X, y, strict=True):
            means.append(alone.predict_one(x).mean)
            alone.learn_one(x, target)
        assert together.events
        assert together.to_bytes() == alone.to_bytes()
        np.testing.assert_array_equal(p.mean, means)


def test_rows_without_a_target_neither_raise_nor_end_a_trial():
    X, y = switching(560)
    model = sg.DriftAware(sg.KRLST(), trial=100)
    model.learn_many(X[:240], y[:240])
    model.learn_many(X[240:260], -y[240:260])
    assert model.on_trial
    before = model.predict_many(X[:20])
    model.learn_many(X, y * np.nan)
    model.track(X)
    assert model.on_trial
    np.testing.assert_array_equal(model.predict_many(X[:20]).mean, before.mean)
    assert [event.direction for event in model.events] == ["raised"]


def test_only_the_last_events_are_kept():
    X, y = switching(900)
    y = np.where(np.arange(900) // 100 % 2, -y, y)
    few, many = (sg.DriftAware(sg.KRLST(), false_alarm_rate=1e-2, trial=10, warmup=10, history=h) for h in (3, 100))
    few.learn_many(X, y)
    many.learn_many(X, y)
    assert len(many.events) > 3
    assert few.events == many.events[-3:]
    assert [event.row for event in many.events] == sorted(event.row for event in many.events)
    assert few.predict_one(X[0]).mean == many.predict_one(X[0]).mean


def test_during_the_warm_up_of_standardize_nothing_is_watched():
    X, y = switching(400)
    y[:200] = np.where(np.arange(200) % 40 < 20, y[:200], 10 * y[:200])
    model = sg.DriftAware(sg.Standardize(sg.KRLST(), warmup=200), false_alarm_rate=0.1, warmup=50)
    model.learn_many(X, y)
    assert all(event.row >= 250 for event in model.events)


def test_an_interrupted_call_leaves_the_model_as_it_was(monkeypatch):
    X, y = switching(900)
    model = sg.DriftAware(sg.KRLST(capacity=20), trial=50)
    model.learn_many(X[:290], y[:290])
    before = model.to_bytes()
    taken = []

    def interrupted(*args):
        if len(taken) == 40:
            raise KeyboardInterrupt
        taken.append(args)
        return sg.DriftAware._some(model, *args)

    monkeypatch.setattr(model, "_some", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(X[290:], y[290:])
    monkeypatch.undo()
    assert model.to_bytes() == before
    whole = sg.DriftAware(sg.KRLST(capacity=20), trial=50)
    whole.learn_many(X, y)
    model.learn_many(X[290:], y[290:])
    assert model.to_bytes() == whole.to_bytes()
    assert whole.events


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_alarm_rate": 0.0}, "false_alarm_rate must be a finite number above 0 and at most 0.5"),
        ({"factor": 0.0}, "factor must be a finite number above 0 and at most 1"),
        ({"relax": 1.0}, "relax must be a finite number at least 0 and at most 0.99"),
        ({"trial": 0}, "trial must be a whole number of at least 1"),
        ({"warmup": 0}, "warmup must be a whole number of at least 1"),
        ({"history": 0}, "history must be a whole number of at least 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        sg.DriftAware(sg.KRLST(), **settings)


def test_batches_are_refused():
    with pytest.raises(ValueError, match="looks at every row before it is learned: use batch=1"):
        sg.DriftAware(sg.Standardize(sg.RecursiveGP([[0.0], [1.0]], batch=4)))


def test_a_snapshot_with_an_impossible_phase_is_refused():
    model = sg.DriftAware(sg.KRLST(capacity=5))
    model.learn_one(1.0, 2.0)
    model._numbers.counters["phase"] = 7
    with pytest.raises(sg.SnapshotError, match="the snapshot says phase 7"):
        sg.from_bytes(model.to_bytes())
    model._numbers.counters["phase"], model._numbers.counters["refuted"] = 0, 9
    with pytest.raises(
        sg.SnapshotError, match="refuted must be finite numbers of at least 0 and of at most 4; it has 9"
    ):
        sg.from_bytes(model.to_bytes())

"""Late targets learned in the order of their rows, against the model that got them in that order."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract import snapshot

TREND = sg.Matern(1.5, lengthscale=2.0, variance=3.0)
SEASON = sg.Matern(0.5, lengthscale=30.0) * sg.Periodic(3.0)
N = 60

# Capacities are small, so that points are evicted; the time of the row decides what is learned from it.
MODELS = {
    "KRLST": lambda: sg.KRLST(capacity=8, time=TREND + SEASON),
    "KRLST with a half-life, too": lambda: sg.KRLST(capacity=8, half_life=20.0, time=TREND),
    "KRLST with a half-life": lambda: sg.KRLST(capacity=8, half_life=5.0),
    "SOGP": lambda: sg.SOGP(capacity=8, time=SEASON),
    "ISSGPR": lambda: sg.ISSGPR(features=10, time=TREND),
    "RecursiveGP": lambda: sg.RecursiveGP(np.linspace(-3, 3, 5)[:, None] * np.ones(2), time=TREND),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8, time=TREND), warmup=10),
    "without time": lambda: sg.KRLST(capacity=8, forgetting=0.9),
}


def stream(seed=0, n=N):
    rng = np.random.default_rng(seed)
    times, X = np.cumsum(rng.exponential(0.3, n)), rng.uniform(-3, 3, (n, 2))
    return X, np.sin(X[:, 0]) + np.cos(times) + 0.1 * rng.standard_normal(n), times


def lately(model, X, y, times, delay, first=0):
    """Issue all rows from the first on, and resolve each so many rows later."""
    due = {}
    for t in range(first, len(X)):
        due.setdefault(t + int(delay[t]), []).append((model.issue(X[t], time=times[t]).ticket, y[t]))
        for ticket, target in due.pop(t, []):
            model.resolve(ticket, target)
    for t in sorted(due):
        for ticket, target in due[t]:
            model.resolve(ticket, target)


def assert_same(model, punctual, times, tolerance=1e-10):
    Z = np.random.default_rng(9).uniform(-3, 3, (5, 2))
    later = times[-1] + np.array([0.0, 0.1, 1.0, 7.0, 100.0])
    p, q = model.predict_many(Z, time=later), punctual.predict_many(Z, time=later)
    np.testing.assert_allclose([p.mean, p.variance], [q.mean, q.variance], rtol=tolerance, atol=tolerance)
    assert model.inner.rows_seen == punctual.rows_seen


@pytest.mark.parametrize("name", MODELS)
def test_late_targets_are_learned_in_the_order_of_their_rows(name):
    X, y, times = stream()
    late, punctual = sg.Delayed(MODELS[name](), replay=12), MODELS[name]()
    lately(late, X, y, times, np.random.default_rng(1).integers(0, 7, N))
    punctual.learn_many(X, y, time=times)
    assert_same(late, punctual, times)
    assert late.health == punctual.health
    assert late.pending == 0


def test_a_process_over_time_alone_learns_late_targets_in_order():
    _, y, times = stream()
    late, punctual = sg.Delayed(sg.TimeGP(TREND + SEASON)), sg.TimeGP(TREND + SEASON)
    lately(late, np.empty((N, 0)), y, times, np.random.default_rng(1).integers(0, 30, N))
    punctual.learn_many(np.empty((N, 0)), y, time=times)
    p, q = late.forecast([30.0, 40.0]), punctual.forecast([30.0, 40.0])
    np.testing.assert_allclose([p.mean, p.variance], [q.mean, q.variance], rtol=1e-10)
    assert late.health.late_rows == 0


def test_a_kernel_over_time_replays_by_default_and_other_models_do_not():
    X, y, times = stream()
    late, punctual = sg.Delayed(MODELS["SOGP"]()), MODELS["SOGP"]()
    tickets = [late.issue(x, time=t).ticket for x, t in zip(X, times, strict=True)]
    for t in np.random.default_rng(2).permutation(N):
        late.resolve(tickets[t], y[t])
    punctual.learn_many(X, y, time=times)
    assert_same(late, punctual, times)
    for model in (sg.KRLST(), sg.KRLST(half_life=3.0), sg.Ahead(sg.KRLST(time=TREND), horizon=2)):
        late = sg.Delayed(model)
        late.learn_one([0.0], 0.0, time=0.0)
        assert not any("log" in name for name in late._all_arrays())


def test_a_target_that_is_too_late_is_learned_now_and_counted():
    X, y, times = stream()
    late, punctual = sg.Delayed(MODELS["KRLST"](), replay=5), MODELS["KRLST"]()
    ticket = late.issue(X[0], time=times[0]).ticket
    late.learn_many(X[1:30], y[1:30], time=times[1:30])
    late.resolve(ticket, y[0])
    punctual.learn_many(np.vstack([X[1:30], X[:1]]), np.append(y[1:30], y[0]), time=np.append(times[1:30], times[29]))
    assert_same(late, punctual, times)
    assert late.health.late_rows == 1
    late.learn_many(X[30:], y[30:], time=times[30:])
    punctual.learn_many(X[30:], y[30:], time=times[30:])
    assert_same(late, punctual, times)


@pytest.mark.parametrize("behind", range(1, 12))
def test_a_target_is_in_order_however_many_rows_it_belongs_before(behind):
    X, y, times = stream()
    late, punctual = sg.Delayed(MODELS["KRLST"](), replay=6), MODELS["KRLST"]()
    first = 31 - behind
    late.learn_many(X[:first], y[:first], time=times[:first])
    ticket = late.issue(X[first], time=times[first]).ticket
    for t in range(first + 1, first + 1 + behind):
        late.learn_one(X[t], y[t], time=times[t])
    late.resolve(ticket, y[first])
    if late.health.late_rows:
        assert behind > 6
        return
    punctual.learn_many(X[: first + 1 + behind], y[: first + 1 + behind], time=times[: first + 1 + behind])
    assert_same(late, punctual, times)


def test_missing_targets_noises_and_several_outputs_are_learned_again_as_they_were():
    X, y, times = stream()
    Y = np.column_stack([y, -(y**2)])
    Y[::7] = np.nan
    Y[3, 1] = Y[20, 0] = np.nan
    noise = np.random.default_rng(3).uniform(0.01, 0.5, Y.shape)

    def build():
        return sg.SOGP(capacity=8, outputs="separate", time=TREND)

    late, punctual = sg.Delayed(build(), replay=10), build()
    late.learn_many(X[:20], Y[:20], time=times[:20], noise=noise[:20])
    for t in range(20, N, 4):
        tickets = {k: late.issue(X[k], time=times[k]).ticket for k in range(t, t + 4)}
        for k in (t + 2, t, t + 3, t + 1):
            late.resolve(tickets[k], Y[k], noise=noise[k])
    punctual.learn_many(X, Y, time=times, noise=noise)
    assert_same(late, punctual, times)


def test_windows_stay_those_of_the_rows_as_they_were_issued():
    X, y, times = stream()
    late, punctual = (make(sg.KRLST(capacity=8, depth=3, time=TREND)) for make in (sg.Delayed, sg.Delayed))
    lately(late, X, y, times, np.random.default_rng(1).integers(0, 7, N))
    lately(punctual, X, y, times, np.zeros(N))
    assert_same(late, punctual.inner, times)


def test_calibration_counts_every_row_once():
    X, y, times = stream()
    late = sg.Delayed(sg.Calibrated(sg.KRLST(capacity=8, time=TREND), warmup=5), replay=20)
    punctual = sg.Delayed(sg.Calibrated(sg.KRLST(capacity=8, time=TREND), warmup=5), replay=0)
    lately(late, X, y, times, np.where(np.arange(N) % 5 == 0, 3, 0))
    lately(punctual, X, y, times, np.zeros(N))
    assert late.inner.rows_seen == punctual.inner.rows_seen == N
    np.testing.assert_allclose(late.predict_one(X[0]).mean, punctual.predict_one(X[0]).mean, rtol=1e-10)


def test_a_stopped_model_replays_as_one_that_went_on(tmp_path):
    X, y, times = stream()
    delay = np.random.default_rng(1).integers(0, 7, N)
    model = sg.Delayed(MODELS["KRLST"](), replay=12)
    lately(model, X[:40], y, times, delay)
    size = len(model.to_bytes())
    model.save(tmp_path / "late.sgp")
    resumed, twin = sg.load(tmp_path / "late.sgp"), model.copy()
    for one in (model, resumed, twin):
        lately(one, X, y, times, delay, first=40)
    assert model.to_bytes() == resumed.to_bytes() == twin.to_bytes()
    assert len(model.to_bytes()) == size


@pytest.mark.parametrize("missing", [0, 7])
def test_many_rows_at_once_leave_the_log_of_the_loop(missing):
    X, y, times = stream()
    y[:missing] = y[30] = y[43] = np.nan
    one, many = sg.Delayed(MODELS["KRLST"](), replay=4), sg.Delayed(MODELS["KRLST"](), replay=4)
    for t in range(N):
        one.learn_one(X[t], y[t], time=times[t])
    many.learn_many(X[:3], y[:3], time=times[:3])
    many.learn_many(X[3:], y[3:], time=times[3:])
    assert one.to_bytes() == many.to_bytes()


def test_forgetting_by_hand_is_not_undone_by_a_late_target():
    X, y, times = stream()
    late, punctual = sg.Delayed(MODELS["KRLST"]()), MODELS["KRLST"]()
    ticket = late.issue(X[0], time=times[0]).ticket
    late.learn_many(X[1:9], y[1:9], time=times[1:9])
    punctual.learn_many(X[1:9], y[1:9], time=times[1:9])
    late.forget(0.5)
    punctual.forget(0.5)
    late.resolve(ticket, y[0])
    punctual.learn_one(X[0], y[0], time=times[8])
    assert_same(late, punctual, times)
    assert late.health.late_rows == 1


def test_a_bad_late_target_changes_nothing():
    X, y, times = stream()
    late = sg.Delayed(MODELS["KRLST"]())
    ticket = late.issue(X[0], time=times[0]).ticket
    late.learn_many(X[1:9], y[1:9], time=times[1:9])
    before = late.to_bytes()
    for target, noise, reason in [
        (np.inf, None, "inf"),
        ([1.0, 2.0], None, "y must be a number"),
        (0.0, -1.0, "noise must be finite and above 0"),
    ]:
        with pytest.raises(ValueError, match=reason):
            late.resolve(ticket, target, noise=noise)
    with pytest.raises(ValueError, match="NaN or inf in row 2"):
        late.learn_many([[0.0, 0.0], [1.0, 1.0], [np.nan, 0.0]], [0.0, 0.0, 0.0])
    assert late.to_bytes() == before


def test_a_model_that_forgets_by_time_may_learn_as_of_the_row_or_as_of_now():
    X, y, _ = stream()

    def after(*rows, **settings):
        model = sg.Delayed(sg.KRLST(capacity=8, half_life=3.0), **settings)
        first, second = model.issue(X[0], time=1.0).ticket, model.issue(X[1], time=4.0).ticket
        model.resolve(second, y[1])
        model.resolve(first, y[0], **dict(rows))
        return model.predict_one(X[2]).mean

    def in_order(order, times):
        model = sg.KRLST(capacity=8, half_life=3.0)
        model.learn_many(X[order], y[order], time=times)
        return model.predict_one(X[2]).mean

    assert after(replay=5) == in_order([0, 1], [1.0, 4.0])
    assert after(("time", 6.0)) == after(("time", 6.0), replay=5) == in_order([1, 0], [4.0, 6.0])
    assert after() == in_order([1, 0], [4.0, 4.0])


def test_a_damaged_log_is_refused():
    X, y, times = stream()
    model = sg.Delayed(MODELS["KRLST"](), replay=3)
    model.learn_many(X[:4], y[:4], time=times[:4])
    header, tensors = snapshot.unpacked(model.to_bytes())
    for name, value, reason in [
        ("counters.logged", np.array([6]), "has 6 rows to learn again; there is room for 5"),
        ("log", tensors["state.log"] * np.nan, "rows to learn again must be finite"),
    ]:
        with pytest.raises(sg.SnapshotError, match=reason):
            sg.from_bytes(snapshot.packed(header, tensors | {f"state.{name}": value}))


def test_replay_is_refused_where_rows_are_learned_by_later_ones():
    with pytest.raises(ValueError, match="replay must be a whole number of at least 0; got -1"):
        sg.Delayed(sg.KRLST(), replay=-1)
    with pytest.raises(ValueError, match="learned by the target of a later one; use replay=0"):
        sg.Delayed(sg.Ahead(sg.KRLST(), horizon=2), replay=3)

"""Forgetting by the time between rows."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import streamgp as sg
from tests import inside

rng = np.random.default_rng(4)
N = 30
X = rng.uniform(-3, 3, (N, 2))
Y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 5
T = np.cumsum(rng.integers(0, 4, N)).astype(float)  # whole steps, some of them 0
Z = rng.uniform(-3, 3, (7, 2))
HALF_LIFE = 20.0
STEP = 0.5 ** (1 / HALF_LIFE)
FREQUENCIES = rng.normal(size=(12, 2))


def online(features, kind, **settings):
    """Forgetting of a kind, or none where it gets no half-life."""
    return lambda half_life=None: sg.OnlineGP(
        features, forgetting=None if half_life is None else kind(half_life=half_life), noise=0.1, **settings
    )


MODELS = {
    "KRLST": lambda half_life=None: sg.KRLST(capacity=12, forgetting=0.9995 if half_life else 1.0, half_life=half_life),
    "KRLST separate": lambda half_life=None: sg.KRLST(
        capacity=12, forgetting=0.9995 if half_life else 1.0, half_life=half_life, outputs="separate"
    ),
    "KRLST estimating power": lambda half_life=None: sg.KRLST(
        capacity=12, forgetting=0.9995 if half_life else 1.0, half_life=half_life, estimate_power=True
    ),
    "scored basis": online(sg.Basis(), sg.BackToPrior, budget=sg.Budget(12)),
    "given points": online(sg.Basis(points=sg.grid([-3, -3], [3, 3], [3, 3])), sg.BackToPrior),
    "Fourier": online(sg.Fourier(12, frequencies=FREQUENCIES), sg.BackToPrior),
}
INJECTING = {
    "KRLST": lambda half_life=None: sg.KRLST(
        capacity=40, mode="injection", forgetting=0.9995 if half_life else 1.0, half_life=half_life
    ),
    "Fourier": online(sg.Fourier(12, frequencies=FREQUENCIES), sg.Injection),
    "information form": online(sg.Fourier(12, frequencies=FREQUENCIES), sg.Injection, form="cholesky"),
    "RLSESN": lambda half_life=None: sg.RLSESN(units=6, half_life=half_life),
}


def assert_same_predictions(a, b, tolerance=1e-12):
    p, q = a.predict_many(Z), b.predict_many(Z)
    np.testing.assert_allclose(p.mean, q.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(p.variance, q.variance, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_three_units_of_time_are_three_single_steps(build):
    timed, stepwise = build(HALF_LIFE), build()
    before = T[0]
    for x, y, t in zip(X, Y, T, strict=True):
        timed.learn_one(x, y, time=t)
        for _ in range(int(t - before)):
            stepwise.forget(STEP)
        stepwise.learn_one(x, y)
        before = t
        assert_same_predictions(timed, stepwise)


@pytest.mark.parametrize("features", [sg.Basis(sg.SquaredExponential(2.0)), sg.Linear()], ids=["Basis", "Linear"])
def test_three_units_of_time_inject_as_much_as_three_single_steps(features):
    timed, stepwise = (
        sg.OnlineGP(features, budget=sg.Budget(4, novelty=0.0, evict="never"), forgetting=forgetting)
        for forgetting in (sg.Injection(half_life=1000.0), sg.Injection(1.0))
    )
    timed.learn_many(X, Y, time=np.zeros(N))
    stepwise.learn_many(X, Y)
    timed.learn_one(X[0], 2.0, time=3.0)
    for _ in range(3):
        stepwise.forget(0.5 ** (1 / 1000))
    stepwise.learn_one(X[0], 2.0)
    assert np.linalg.eigvalsh(inside.covariance(stepwise)).max() < 0.9  # no single step was capped
    assert_same_predictions(timed, stepwise)


def test_after_one_half_life_half_of_the_information_is_left():
    model = sg.KRLST(half_life="1h", noise=0.25, jitter=0.0)
    model.learn_one([0.0], 1.0, time=0.0)
    mean, S = 1 / 1.25, 1 - 1 / 1.25
    assert model.predict_one([0.0]).variance == pytest.approx(S)
    model.learn_one([0.0], 1.0, time=3600.0)
    mean, S = np.sqrt(0.5) * mean, 0.5 * S + 0.5
    gain = S / (S + 0.25)
    assert model.predict_one([0.0]).mean == pytest.approx(mean + gain * (1.0 - mean), rel=1e-12)
    assert model.predict_one([0.0]).variance == pytest.approx(S - gain * S, rel=1e-12)


@pytest.mark.parametrize("gap", [0.3, 0.9, 2.5, 30.0, 1e6])
@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_injection_over_any_gap_is_capped_at_the_prior(form, gap):
    """Against dense matrices: S times 2^gap, eigenvalues at most 1 where it may have doubled, then the row."""
    model = online(sg.Fourier(12, frequencies=FREQUENCIES), sg.Injection, form=form)(1.0)
    model.learn_many(X, Y, time=np.zeros(N))
    twin = online(sg.Fourier(12, frequencies=FREQUENCIES), sg.Injection)()
    twin.learn_many(X, Y)
    mu, S = twin._state.mu[:, 0].copy(), inside.covariance(twin)
    values, vectors = np.linalg.eigh(S)
    values = values * 2.0 ** min(gap, 500.0)
    S = (vectors * (values if gap <= 1 else np.minimum(values, 1.0))) @ vectors.T
    features = lambda A: np.sqrt(1 / 12) * np.hstack([np.cos(A @ FREQUENCIES.T), np.sin(A @ FREQUENCIES.T)])  # noqa: E731
    phi, Phi = features(Z[:1])[0], features(Z)
    gain = S @ phi / (phi @ S @ phi + 0.1)
    mu, S = mu + gain * (2.0 - phi @ mu), S - np.outer(gain, phi @ S)
    model.learn_one(Z[0], 2.0, time=gap)
    p = model.predict_many(Z)
    np.testing.assert_allclose(p.mean, Phi @ mu, atol=1e-9)
    np.testing.assert_allclose(p.variance, np.minimum(np.einsum("ij,jk,ik->i", Phi, S, Phi), 1.0), atol=1e-9)
    assert (model.health.capped_directions > 0) == (gap > 1)


@pytest.mark.parametrize("build", [*INJECTING.values(), *MODELS.values()])
def test_after_a_very_long_time_the_certainty_is_the_priors(build):
    model, fresh = build(1.0), build(1.0)
    model.learn_many(X, Y, time=np.linspace(0, 3, N))
    model.learn_one(X[0], 1.0, time=1e9)
    fresh.learn_one(X[0], 1.0, time=0.0)
    p, q = model.predict_many(Z), fresh.predict_many(Z)
    assert np.isfinite(p.mean).all()
    if not model._memory.units:  # a reservoir is in another state
        np.testing.assert_allclose(p.variance / p.noise, q.variance / q.noise, rtol=1e-6)


def test_a_row_without_a_target_takes_no_time():
    whole, gaps = MODELS["KRLST"](HALF_LIFE), MODELS["KRLST"](HALF_LIFE)
    whole.learn_many(X[:2], Y[:2], time=[0.0, 9.0])
    gaps.learn_one(X[0], Y[0], time=0.0)
    gaps.learn_one(Z[0], None, time=5.0)
    gaps.learn_one(Z[0], np.nan)  # needs no time
    gaps.observe_one(Z[1])
    gaps.track(Z)
    gaps.learn_one(X[1], Y[1], time=9.0)
    assert_same_predictions(whole, gaps)


WRAPPED = {
    "KRLST": lambda: sg.KRLST(capacity=8, half_life="1h"),
    "RLSESN": lambda: sg.RLSESN(units=6, half_life=3600),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8, half_life="1h"), warmup=12),
    "Standardize warming up": lambda: sg.Standardize(sg.KRLST(capacity=8, half_life="1h"), warmup=60),
    "Calibrated": lambda: sg.Calibrated(sg.KRLST(capacity=8, half_life="1h")),
    "DriftAware": lambda: sg.DriftAware(sg.KRLST(capacity=8, half_life="1h"), warmup=3, false_alarm_rate=0.4, trial=5),
    "Committee": lambda: sg.Committee([sg.SOGP(capacity=8), sg.KRLST(capacity=8, half_life="1h"), sg.SeasonalValue()]),
    "Columns": lambda: sg.Columns(sg.KRLST(capacity=8, half_life="1h"), columns=[0]),
    "Differenced": lambda: sg.Differenced(sg.KRLST(capacity=8, half_life="1h")),
    "Encoded": lambda: sg.Encoded(
        sg.TrainedEncoder("gru", inputs=2, depth=3, units=4, weights=np.ones(12 * 8)),
        model=sg.KRLST(capacity=8, half_life="1h"),
    ),
}
TIMES = np.cumsum(rng.exponential(600.0, N))


@pytest.mark.parametrize("build", WRAPPED.values(), ids=WRAPPED)
def test_a_model_with_a_half_life_needs_the_time_of_every_learned_row(build):
    model = build()
    with pytest.raises(ValueError, match=r"has a half_life, so it forgets by the time.*learn_one\(x, y, time=t\)"):
        model.learn_one(X[0], Y[0])
    with pytest.raises(ValueError, match="To forget by rows use forgetting="):
        model.track(X, Y)
    assert model.rows_seen == 0
    model.learn_many(X[:5], Y[:5], time=TIMES[:5])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="time is missing or not finite in row 2, but this model forgets by it"):
        model.learn_many(X[:3], Y[:3], time=[TIMES[6], TIMES[7], np.nan])
    with pytest.raises(ValueError, match=r"time goes backwards: 1 after \d+.*Sort the rows by time"):
        model.learn_one(X[0], Y[0], time=1.0)
    with pytest.raises(ValueError, match="time goes backwards in row 2: 1e\\+06 after 2e\\+06|1000000 after 2000000"):
        model.learn_many(X[:3], Y[:3], time=[1e6, 2e6, 1e6])
    assert model.to_bytes() == before
    model.learn_one(X[0], Y[0], time=TIMES[4])  # at the same time: nothing is forgotten


def test_times_may_be_numbers_or_dates():
    pandas = pytest.importorskip("pandas")
    start = dt.datetime(2024, 3, 1)
    seconds = np.round(TIMES)
    dates = [start + dt.timedelta(seconds=s) for s in seconds]
    zone = dt.timezone(dt.timedelta(hours=2))
    states = set()
    for times in (
        seconds + (np.datetime64(start) - np.datetime64(0, "s")) / np.timedelta64(1, "s"),
        dates,
        [date.replace(tzinfo=dt.UTC).astimezone(zone) for date in dates],
        np.array(dates, dtype="datetime64[s]"),
        np.array(dates, dtype="datetime64[ns]"),
        pandas.Series(dates),
        pandas.DatetimeIndex(dates, tz="UTC"),
    ):
        many, one = (sg.KRLST(capacity=8, half_life="1h") for _ in range(2))
        many.learn_many(X, Y, time=times)
        for x, y, t in zip(X, Y, times, strict=True):
            one.learn_one(x, y, time=t)
        states |= {many.to_bytes(), one.to_bytes()}
    assert len(states) == 1


def test_a_missing_date_is_a_missing_time():
    pandas = pytest.importorskip("pandas")
    for missing in (np.datetime64("NaT"), pandas.NaT, None, float("nan")):
        with pytest.raises(ValueError, match="time is missing or not finite, but"):
            sg.KRLST(half_life=1.0).learn_one(X[0], 1.0, time=missing if missing is not None else [None])


def test_times_of_other_kinds_and_shapes_are_refused():
    model = sg.KRLST(half_life=1.0)
    for time in ("2024-03-01", dt.date(2024, 3, 1), True, np.timedelta64(1, "s"), [object()]):
        with pytest.raises(TypeError, match="time must be numbers, datetimes or datetime64; got"):
            model.learn_one(X[0], 1.0, time=time)
    with pytest.raises(
        ValueError, match=r"time must be one time for each of the 30 rows, shape \(30,\); got shape \(2,"
    ):
        model.learn_many(X, Y, time=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"time must be one time; got shape \(2,\)"):
        sg.SOGP().learn_one(X[0], 1.0, time=[1.0, 2.0])
    assert model.rows_seen == 0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("90s", 90.0),
        ("1500ms", 1.5),
        ("15min", 900.0),
        ("2h", 7200.0),
        ("0.5 d", 43200.0),
        ("1W", 604800.0),
        ("60", 60.0),
        (dt.timedelta(hours=2), 7200.0),
        (np.timedelta64(2, "h"), 7200.0),
        (7200, 7200.0),
    ],
)
def test_a_half_life_is_a_number_a_text_or_a_timedelta(given, seconds):
    model, same = sg.KRLST(capacity=8, half_life=given), sg.KRLST(capacity=8, half_life=seconds)
    assert model._forgetting.half_life == seconds
    for one in (model, same):
        one.learn_many(X, Y, time=TIMES)
    np.testing.assert_array_equal(model.predict_many(Z).mean, same.predict_many(Z).mean)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    assert model.clone().get_params() == model.get_params()


def test_settings_that_cannot_be_are_refused():
    for value in ("2 hours", "h", "", "1.2.3s"):
        with pytest.raises(ValueError, match="half_life must be a length of time such as 3600, '90s'"):
            sg.KRLST(half_life=value)
    for value in (0, -1.0, float("inf"), "0s"):
        with pytest.raises(ValueError, match="half_life must be a finite number above 0"):
            sg.RLSESN(half_life=value)
    with pytest.raises(TypeError, match="half_life must be a finite number above 0"):
        sg.BackToPrior(half_life=[1.0])
    for build in (
        lambda: sg.KRLST(forgetting=0.99, half_life="2h"),
        lambda: sg.RLSESN(forgetting=0.99, half_life="2h"),
        lambda: sg.Injection(0.99, half_life="2h"),
        lambda: sg.BackToPrior(0.99, half_life=7200),
    ):
        with pytest.raises(ValueError, match="by rows, a factor of 0.99, or by time, a half_life of 7200; give one"):
            build()
    with pytest.raises(ValueError, match='form="cholesky" cannot go back to the prior'):
        sg.OnlineGP(sg.Linear(), forgetting=sg.BackToPrior(half_life=1.0), form="cholesky")
    with pytest.raises(ValueError, match="noise=0 is least squares"):
        sg.OnlineGP(
            sg.Basis(),
            noise=0.0,
            budget=sg.Budget(absorb="dtc", evict="never"),
            forgetting=sg.BackToPrior(half_life=1.0),
        )


@pytest.mark.parametrize("build", [
    lambda: sg.KRLST(capacity=40, half_life=HALF_LIFE),
    lambda: MODELS["Fourier"](HALF_LIFE),
    lambda: MODELS["given points"](HALF_LIFE),
])  # fmt: skip
def test_what_a_row_that_cannot_be_learned_would_have_forgotten_the_next_one_forgets(build):
    model = build()
    model.learn_many(X, Y, time=T)
    S, before = model._state.covariance.copy(), model.predict_many(Z)
    model._state.covariance[:] = -1000.0 * S  # worse than rounding ever leaves it
    model.learn_one(X[0], 1.0, time=T[-1] + HALF_LIFE)
    assert model.health.skipped_rows == 1
    model._state.covariance[:] = S
    model.learn_one(X[0], 0.0, time=T[-1] + 2 * HALF_LIFE, noise=1e30)  # which says nothing
    np.testing.assert_allclose(model.predict_many(Z).mean, 0.5 * before.mean, atol=1e-8)


def test_rows_one_unit_apart_forget_as_by_rows():
    timed, by_rows = sg.KRLST(capacity=12, half_life=HALF_LIFE), sg.KRLST(capacity=12, forgetting=STEP)
    p, q = timed.track(X, Y, time=np.arange(N)), by_rows.track(X, Y)
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-12)
    np.testing.assert_allclose(p.variance, q.variance, atol=1e-12)


def test_separate_outputs_forget_by_their_own_targets():
    both = sg.KRLST(capacity=40, half_life=HALF_LIFE, outputs="separate", jitter=0.0)
    both.learn_many(X[:4], [[1.0, 1.0], [2.0, np.nan], [np.nan, 3.0], [4.0, 4.0]], time=[0.0, 5.0, 7.0, 11.0])
    for j, (rows, targets) in enumerate((([0, 1, 3], [1.0, 2.0, 4.0]), ([0, 2, 3], [1.0, 3.0, 4.0]))):
        alone = sg.KRLST(capacity=40, half_life=HALF_LIFE, jitter=0.0)
        alone.learn_many(X[rows], targets, time=np.array([0.0, 5.0, 7.0, 11.0])[rows])
        p, q = both.predict_many(Z), alone.predict_many(Z)
        np.testing.assert_allclose(p.mean[:, j], q.mean, atol=1e-10)
        np.testing.assert_allclose(p.variance[:, j], q.variance, atol=1e-10)

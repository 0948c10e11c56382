from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import streamgp as sg
from streamgp.contract.laws import ladder_levels
from streamgp.contract.prediction import joined
from streamgp.contract.shown import BESIDE


def test_arrays_of_rows_and_outputs():
    mean, variance = np.arange(6.0).reshape(3, 2), np.full((3, 2), 0.3)
    p = sg.Prediction(mean, variance, np.full((3, 2), 0.2))
    assert p.std.shape == (3, 2)
    assert p.log_density(mean).shape == (3, 2)
    assert len(p) == 3
    assert p[1].mean.tolist() == [2.0, 3.0]
    assert p[:, 0].std.shape == (3,)
    assert p[1, 1].mean == 3.0


def test_a_prediction_is_the_gaussian_of_scipy():
    mean, variance, noise = np.array([1.0, -20.0, 0.0]), np.array([0.3, 4.0, 1e-6]), np.array([0.2, 0.0, 1e-4])
    p, normal = sg.Prediction(mean, variance, noise), stats.norm(mean, np.sqrt(variance + noise))
    for z in (-37.0, -5.0, -1.0, 0.0, 0.3, 8.0, 37.0):
        y = mean + z * normal.std()
        np.testing.assert_allclose(p.cdf(y), normal.cdf(y), rtol=1e-12)
        np.testing.assert_allclose(p.pit(y), normal.cdf(y), rtol=1e-12)
        np.testing.assert_allclose(p.p_value(y, "lower"), normal.cdf(y), rtol=1e-12)
        np.testing.assert_allclose(p.p_value(y, "upper"), normal.sf(y), rtol=1e-12)
        np.testing.assert_allclose(p.p_value(y), 2 * np.minimum(normal.cdf(y), normal.sf(y)), rtol=1e-12)
        np.testing.assert_allclose(p.log_density(y), normal.logpdf(y), rtol=1e-12)
    for q in (1e-300, 0.05, 0.5, 0.95, 1 - 1e-12):
        np.testing.assert_allclose(p.quantile(q), normal.ppf(q), rtol=1e-12)
    np.testing.assert_allclose([p.quantile(0.05), p.quantile(0.95)], p.interval(0.9), rtol=1e-12)
    np.testing.assert_allclose(p.quantile([0.1, 0.5]), [normal.ppf(0.1), normal.ppf(0.5)], rtol=1e-12)
    assert 0 < p[0].p_value(1.0 + 37.0 * p[0].std) < 1e-290
    for part in (p[0].cdf(1.0), p[0].quantile(0.3), p[0].pit(1.0), p[0].p_value(2.0), p[0].crps(2.0)):
        assert isinstance(part, float)
    assert p[0].cdf([0.0, 1.0]).shape == p[0].quantile([0.1, 0.2]).shape == p[0].crps([0.0, 1.0]).shape == (2,)


def crps_by_quadrature(p, y, low, high):
    """The definition: the integral of the squared distance between the cdf and the step at y."""
    kinks = [*np.unique(np.clip([y, *p.interval(), p.mean], low, high))]
    below = quad(lambda x: p.cdf(x) ** 2, low, y, points=kinks, limit=500, epsabs=1e-13)[0]
    return below + quad(lambda x: (1 - p.cdf(x)) ** 2, y, high, points=kinks, limit=500, epsabs=1e-13)[0]


def test_crps_is_the_integral_of_its_definition():
    p = sg.Prediction(1.0, 0.3, 0.2)
    for y in (-3.0, 0.9, 1.0, 4.0):
        assert p.crps(y) == pytest.approx(crps_by_quadrature(p, y, -12.0, 14.0), abs=1e-10)
    assert sg.Prediction(1.0, 0.0, 0.0).crps(3.5) == 2.5


def test_what_is_not_known_gives_nan_and_what_claims_nothing_no_surprise():
    unknown, wide = sg.Prediction(1.0, math.nan, math.nan), sg.Prediction(0.0, math.inf, 0.0)
    for name in ("cdf", "pit", "p_value", "crps", "log_density"):
        assert math.isnan(getattr(unknown, name)(1.0))
        assert math.isnan(getattr(sg.Prediction(0.0, 1.0, 1.0), name)(math.nan))
    assert math.isnan(unknown.quantile(0.3))
    assert (wide.p_value(1e9), wide.cdf(1e9), wide.quantile(0.9)) == (1.0, 0.5, math.inf)
    assert sg.Prediction(1.0, 0.0, 0.0).p_value([0.0, 1.0]).tolist() == [0.0, 1.0]


def test_samples_have_the_stated_moments_and_are_repeatable():
    p = sg.Prediction(2.0, 0.3, 0.2)
    draws = p.sample(200_000, seed=1)
    assert draws.mean() == pytest.approx(2.0, abs=0.01)
    assert draws.var() == pytest.approx(0.5, abs=0.01)
    np.testing.assert_array_equal(draws, p.sample(200_000, seed=1))
    assert sg.Prediction(np.zeros(3), np.ones(3), np.ones(3)).sample(4).shape == (4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.interval(1.0), "level must be above 0 and below 1; got 1.0"),
        (lambda p: p.interval(0), "level must be a finite number above 0; got 0"),
        (lambda p: p.sample(0), "n must be a whole number of at least 1; got 0"),
        (lambda p: p.quantile(1.0), "q must be above 0 and below 1; got 1.0"),
        (lambda p: p.quantile([0.5, math.nan]), r"q must be above 0 and below 1; got \[0.5, nan\]"),
        (lambda p: p.p_value(1.0, side="both"), "side must be one of 'two-sided', 'lower', 'upper'; got 'both'"),
        (lambda p: len(p), "one scalar target and has no length"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(sg.Prediction(0.0, 1.0, 1.0))


@pytest.mark.parametrize("shape", [(), (5,), (1,), (5, 2)])
def test_quantiles_and_intervals_of_several_probabilities_come_one_after_the_other(shape):
    for p in laws(shape):
        q = [0.9, 0.05, 0.5]
        found = p.quantile(q)
        assert found.shape == (3, *shape)
        np.testing.assert_allclose(found, [p.quantile(one) for one in q], rtol=1e-12)
        own = np.linspace(0.1, 0.9, 2 * max(found[0].size, 1)).reshape(2, *shape) if shape else np.array([0.1, 0.9])
        each = p.quantile(own)
        if shape:
            last = (-1,) * len(shape)
            assert each[(1, *last)] == pytest.approx(p[last].quantile(own[(1, *last)]), rel=1e-9)
        lower, upper = p.interval([0.5, 0.9])
        np.testing.assert_array_equal([lower, upper], np.stack([p.interval(0.5), p.interval(0.9)], axis=1))


def test_probabilities_of_another_shape_than_the_mean_are_refused():
    p = sg.SOGP().track(np.linspace(0.0, 1.0, 5)[:, None], np.zeros(5))
    assert p.quantile(0.9).shape == p.quantile(np.full((1, 5), 0.9))[0].shape == (5,)
    assert p.quantile([0.1, 0.9]).shape == (2, 5)
    with pytest.raises(ValueError, match=r"k for each number of the mean, of shape \(5,\); got \(2, 3\)"):
        p.quantile(np.full((2, 3), 0.5))


def laws(shape):
    """A prediction of each law."""
    rng = np.random.default_rng(0)
    mean, variance, noise = (values if shape else float(values) for values in rng.random((3, *shape)))
    plain, steps = sg.Prediction(mean, variance, noise), len(ladder_levels(0.9))
    ladder = (*(z + 0.0 * mean for z in np.linspace(-1.5, 1.5, steps)), *(0.3 + 0.0 * mean for _ in range(4)))
    return [
        plain,
        sg.CalibratedPrediction(mean, variance, noise, mean - 1.0, mean + 2.0, 0.9, plain),
        sg.CalibratedPrediction(mean, variance, noise, mean - 1.0, mean + 2.0, 0.9, plain, ladder),
        sg.StudentTPrediction(mean, variance, np.sqrt(noise), 4.0),
        sg.ClassPrediction.of(mean, variance),
        sg.CountPrediction.of(mean, variance),
    ]


def predictions_of_every_kind(shape):
    """One of each class, with everything beside it that can be."""
    rng = np.random.default_rng(0)
    mean, variance, noise = rng.normal(size=shape), rng.random(shape), rng.random(shape)
    plain = sg.Prediction(mean, variance, noise)
    beside = {
        "ticket": np.arange(shape[0]),
        "surprise": rng.random(shape),
        "alarm": rng.choice(["", "spike", "level"], shape),
        "mean_gradient": rng.normal(size=(*shape, 3)),
        "variance_gradient": rng.normal(size=(*shape, 3)),
    }
    for kind in (
        plain,
        sg.CalibratedPrediction(mean, variance, noise, mean - 1.0, mean + 2.0, 0.9, plain),
        sg.TimePrediction(mean, variance, noise, {"level": plain}),
        sg.StudentTPrediction(mean, variance, np.sqrt(noise), 4.0),
        sg.ClassPrediction.of(mean, variance),
        sg.CountPrediction.of(mean, variance),
    ):
        yield kind._with(**beside)


@pytest.mark.parametrize("shape", [(6,), (6, 2)])
def test_indexing_and_joining_lose_nothing_that_stands_beside_a_prediction(shape):
    every = np.array([True, False, True, True, False, False])
    rows = [2, -1, slice(1, 4), [4, 0], every, list(every), np.r_[:2, 4:6], ..., (..., 1)]
    for p in predictions_of_every_kind(shape):
        names = [name for name in ("mean", *BESIDE) if name != "ticket"]
        for index in rows:
            some = p[index]
            assert type(some) is type(p)
            # Gradients have an axis of their own, which an ellipsis does not reach.
            at = (slice(None),) * (len(shape) - 1) + (1,) if isinstance(index, tuple) else index
            for name in names:
                np.testing.assert_array_equal(getattr(some, name), getattr(p, name)[at], strict=False)
            which = at[0] if isinstance(at, tuple) else at
            np.testing.assert_array_equal(some.ticket, p.ticket[which])
        one = p[3] if len(shape) == 1 else p[3, 1]
        assert (type(one.alarm), type(one.surprise), type(one.ticket)) == (str, float, int)
        assert one.mean_gradient.shape == (3,)
        whole = joined([p[:2], p[2:5], p[5:]])
        for name in ("mean", *BESIDE):
            np.testing.assert_array_equal(getattr(whole, name), getattr(p, name))
        if len(shape) == 2:
            chosen = p.mean > 0.0
            np.testing.assert_array_equal(p[chosen].alarm, p.alarm[chosen])
            np.testing.assert_array_equal(p[chosen].ticket, np.nonzero(chosen)[0])
        frame, part = p.to_frame(), p[2:4].to_frame()
        for name in frame.columns:
            assert part[name].tolist() == frame[name].tolist()[2:4]


def test_units_and_wrappers_lose_nothing():
    for p in predictions_of_every_kind((6, 2)):
        moved = p._moved(np.array([1.0, -2.0]), np.array([3.0, 0.5]))
        assert vars(moved).keys() == vars(p).keys()
        assert moved.law == p.law
        for name in ("ticket", "surprise", "alarm"):
            np.testing.assert_array_equal(getattr(moved, name), getattr(p, name))
        if not p.law.discrete:
            np.testing.assert_allclose(moved.quantile(0.8), [1.0, -2.0] + p.quantile(0.8) * [3.0, 0.5], rtol=1e-12)
            np.testing.assert_array_equal(moved.variance_gradient[:, 1], 0.25 * p.variance_gradient[:, 1])
    X, y = np.arange(80.0)[:, None], np.sin(np.arange(80.0))
    inside = sg.Standardize(sg.Alarms(sg.KRLST(capacity=5), rate=0.1)).track(X, y)
    assert inside.surprise.shape == inside.alarm.shape == inside.mean.shape


def test_predictions_of_different_laws_together_are_gaussian():
    plain, *others = (p._with(ticket=None) for p in predictions_of_every_kind((6, 2)))
    for other in others:
        for both in (joined([plain, other]), joined([other, plain])):
            assert type(both) is sg.Prediction
            assert set(vars(both)) == {"mean", "variance", "noise", *BESIDE} - {"ticket"}
    a, b = (sg.StudentTPrediction(np.zeros(2), np.ones(2), np.ones(2), dof) for dof in (4.0, 5.0))
    np.testing.assert_array_equal(joined([a, b]).noise, [2.0, 2.0, 5.0 / 3.0, 5.0 / 3.0])


def test_a_prediction_is_copied_whole_and_cannot_be_changed():
    for p in predictions_of_every_kind((6,)):
        for q in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p)):
            assert (type(q), q.law, vars(q).keys()) == (type(p), p.law, vars(p).keys())
            np.testing.assert_array_equal(q.quantile(0.3), p.quantile(0.3))
        with pytest.raises(AttributeError, match="a prediction cannot be changed; mean is what was predicted"):
            p.mean = 0.0
    with pytest.raises(TypeError, match="Prediction has no column 'suprise'. Did you mean 'surprise'?"):
        sg.Prediction(0.0, 1.0, 1.0, suprise=3.0)


def test_frames_have_whatever_columns_there_are():
    for p in predictions_of_every_kind((6,)):
        columns = list(p.to_frame().columns)
        assert columns[:4] == ["mean", "lower", "upper", "std"]
        assert {"ticket", "surprise", "alarm", "mean_gradient_1", "variance_gradient_3"} <= set(columns)

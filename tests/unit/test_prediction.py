from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import streamgp as sg


def test_std_interval_and_density_are_those_of_the_observation():
    p = sg.Prediction(mean=1.0, variance=0.3, noise=0.2)
    normal = stats.norm(1.0, np.sqrt(0.5))
    assert p.std == pytest.approx(np.sqrt(0.5))
    np.testing.assert_allclose(p.interval(0.9), normal.interval(0.9))
    assert p.log_density(0.4) == pytest.approx(normal.logpdf(0.4))
    assert isinstance(p.log_density(0.4), float)


def test_arrays_of_rows_and_outputs():
    mean, variance = np.arange(6.0).reshape(3, 2), np.full((3, 2), 0.3)
    p = sg.Prediction(mean, variance, np.full((3, 2), 0.2))
    assert p.std.shape == (3, 2)
    assert p.log_density(mean).shape == (3, 2)
    assert len(p) == 3
    assert p[1].mean.tolist() == [2.0, 3.0]
    assert p[:, 0].std.shape == (3,)
    assert p[1, 1].mean == 3.0


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
        (lambda p: len(p), "one scalar target and has no length"),
    ],
)
def test_bad_requests_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(sg.Prediction(0.0, 1.0, 1.0))

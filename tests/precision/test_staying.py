"""Bases whose points stay, beside the quad-precision reference: a full one is asked far from its points."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.precision.quad import follow
from tests.precision.streams import STREAMS
from tests.precision.sweep import LIMIT, first

T = np.arange(400)
MODELS = {
    "KRLS": sg.KRLS,
    "KRLS fitc": lambda kernel, **settings: sg.KRLS(kernel, absorb="fitc", **settings),
    "SOGP never": lambda kernel, **settings: sg.SOGP(kernel, evict="never", **settings),
    "SOGP never dtc": lambda kernel, **settings: sg.SOGP(kernel, evict="never", absorb="dtc", **settings),
}


def path():
    X = 3 * np.column_stack([np.sin(T / 29), np.sin(T / 43)])
    return X, np.sin(X[:, 0]) + 0.5 * np.cos(0.7 * X[:, 1]) + 0.1 * np.random.default_rng(0).normal(size=len(X))


def error(followed, y):
    assert not followed.failure
    return np.abs(followed.mean - followed.reference_mean) / np.abs(y).max()


def assert_counted_before_it_is_wrong(followed, y):
    wrong, counted = first(error(followed, y) > LIMIT), first(followed.repairs > 0)
    assert wrong is None or (counted is not None and counted <= wrong)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lengthscale", [0.3, 1.0])
def test_a_full_basis_that_stays_is_right_at_ordinary_noise(name, lengthscale):
    X, y = path()
    model = MODELS[name](sg.SquaredExponential(lengthscale), novelty=1e-6, noise=0.01, capacity=60)
    followed = follow(model, X, y)
    assert error(followed, y).max() < LIMIT
    assert model.health.repairs == 0
    assert model.health.indistinct_points == followed.evictions > 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("least", [1e-8, 1e-14, 1e-22])
def test_rows_far_more_exact_than_the_model_are_counted_before_they_show(name, least):
    X, y = path()
    noise = np.exp(np.random.default_rng(3).uniform(np.log(least), np.log(0.01), len(X)))
    model = MODELS[name](sg.SquaredExponential(1.0), novelty=1e-6, noise=0.01, capacity=60)
    followed = follow(model, X, y, noise=noise)
    assert_counted_before_it_is_wrong(followed, y)
    assert model.health.unresolved_rows > 0


def test_rows_of_a_tenth_of_the_noise_are_not_counted():
    X, y = path()
    model = sg.KRLS(sg.SquaredExponential(1.0), novelty=1e-6, noise=0.01, capacity=60)
    followed = follow(model, X, y, noise=np.full(len(X), 0.001))
    assert error(followed, y).max() < LIMIT
    assert model.health.repairs == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", ["KRLS", "SOGP never"])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("noise", [0.01, 1e-6, 1e-8])
def test_every_basis_that_stays_is_within_the_promise(name, stream, noise):
    """Or within three times what is lost in quad precision, too, if the kernel's values are rounded."""
    X, y = STREAMS[stream](700, 0)
    for lengthscale in (0.3, 1.0, 3.0):
        for novelty in (1e-3, 1e-6, 0.0):
            model = MODELS[name](sg.SquaredExponential(lengthscale), novelty=novelty, noise=noise, capacity=60)
            followed = follow(model, X, y, inherent=True)
            inherent = np.abs(followed.inherent - followed.reference_mean).max() / np.abs(y).max()
            assert error(followed, y).max() < max(LIMIT, 3 * inherent)
            assert model.health.repairs == 0

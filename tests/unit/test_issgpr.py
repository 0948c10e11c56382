from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import oracles


@pytest.mark.parametrize("form", ["cholesky", "covariance"])
def test_issgpr_equals_batch_ssgpr_after_5000_rows(form):
    data, grid = sg.data.cross(5000, seed=2), sg.data.cross_grid()
    features = sg.Fourier(50, lengthscale=0.4, seed=1)
    model = sg.ISSGPR(50, lengthscale=0.4, noise=0.01, seed=1, form=form)
    model.learn_many(data.X, data.Y)
    phi = oracles.fourier(features.frequencies(2, 1))
    mean, variance = oracles.ssgpr(phi, data.X, data.Y, grid.X, 0.01)
    p = model.predict_many(grid.X)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)
    batch = sg.batch.SSGPR(50, lengthscale=0.4, noise=0.01, seed=1).fit(data.X, data.Y).predict(grid.X)
    np.testing.assert_allclose(p.mean, batch.mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, batch.variance, atol=1e-8)


def test_tuned_settings_go_online_by_from_batch():
    data = sg.data.cross(300, seed=1)
    batch = sg.batch.SSGPR(25, lengthscale=[0.5, 0.5], noise=0.01, tune_frequencies=True)
    batch.fit(data.X, data.Y, sg.Evidence(restarts=0, iterations=30))
    stream = sg.ISSGPR.from_batch(batch, form="covariance")
    stream.learn_many(data.X, data.Y)
    grid = sg.data.cross_grid()
    np.testing.assert_allclose(stream.predict_many(grid.X).mean, batch.predict(grid.X).mean, atol=1e-8)
    assert stream.get_params()["form"] == "covariance"

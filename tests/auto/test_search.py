"""The search for hyperparameters, one for all processes that see the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import streamgp as sg
from streamgp.auto import search
from streamgp.auto.candidates import candidate


def test_fourier_features_take_the_variance_and_the_noise_of_the_highest_evidence():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    features = sg.Fourier(8, lengthscale=[1.0, 2.0])
    distances = np.einsum("ijk,dk->ijd", X[:, None] - X, features.frequencies(2, 1))
    K = np.cos(distances).mean(axis=2)
    density = {
        (variance, noise): multivariate_normal(cov=variance * K + noise * np.eye(30)).logpdf(Y[:, 0])
        for variance in search.VARIANCES
        for noise in search.NOISES
    }
    *best, evidence = search._scales(features, X, Y)
    assert best == pytest.approx(max(density, key=density.__getitem__))
    assert evidence == pytest.approx(max(density.values()) + 15 * np.log(2 * np.pi))


def test_fourier_features_go_on_from_the_lengthscales_of_the_exact_process():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    found = search.exact(candidate("KRLST", 2, {}), X, np.sin(3 * X[:, 0]))
    y = np.sin(3 * X[:, 0])
    lengths = search.tuned(candidate("ISSGPR", 2, {}), found, 1.0, X, y).get_params()["lengthscale"]
    assert lengths[1] > 3 * lengths[0]
    given = candidate("ISSGPR", 2, {"frequencies": np.ones((5, 2))})
    assert search.tuned(given, found, 1.0, X, y) is given


def test_the_evidence_says_nothing_of_a_model_without_a_kernel():
    X = np.random.default_rng(0).normal(size=(60, 2))
    assert search.exact(sg.LWPR(), X, np.sin(3 * X[:, 0])) is None

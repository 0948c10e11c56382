"""The precision of straight lines, beside the likelihood with the covariance of all targets."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.auto.lines import PRECISIONS, ridge


def density(X, y, precision):
    """The log likelihood of targets, but for a constant, under weights and a constant of this precision."""
    Phi = np.hstack([X, np.ones((len(X), 1))])
    K = np.eye(len(y)) + Phi @ Phi.T / precision
    noise = (y @ np.linalg.solve(K, y) + 1e-12) / len(y)
    return -0.5 * (len(y) * np.log(noise) + np.linalg.slogdet(K)[1])


@pytest.mark.parametrize(("n", "d", "noise"), [(40, 3, 0.5), (40, 3, 3.0), (12, 20, 0.3), (30, 0, 1.0), (200, 5, 1e-2)])
def test_the_precision_is_the_one_of_the_highest_evidence(n, d, noise):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    well = PRECISIONS[PRECISIONS >= 1e-6]  # below it the covariance of all targets is too ill to be asked
    expected = {precision: density(X, y, precision) for precision in well}
    precision, evidence = ridge(X, y)
    assert precision == max(expected, key=expected.__getitem__)
    assert evidence == pytest.approx(expected[precision], rel=1e-8)


def test_without_targets_there_is_no_evidence():
    assert ridge(np.empty((0, 3)), np.empty(0)) == (1.0, -np.inf)

"""A million rows of growth and eviction against a reference that cannot drift. Run with ``make soak``; figures are kept
in results/soaks.jsonl and shown in docs/numerics.md."""

from __future__ import annotations

import time

import numpy as np
import pytest

import streamgp as sg
from tests import inside, oracles
from tests.soak import reference

ROWS, CAPACITY, NOISE = 1_000_000, 100, 0.01


def random_walk(rng):
    """Smooth, reflected into a box: every row is a near-duplicate of the one before."""
    X = np.cumsum(0.02 * rng.normal(size=(ROWS, 3)), axis=0)
    return 3.0 * (np.abs(X % 4.0 - 2.0) - 1.0)


def near_duplicates(rng):
    """Independent inputs, half of which repeat an earlier one to within 1e-7."""
    X = rng.uniform(-3, 3, (ROWS, 3))
    again = np.flatnonzero(rng.random(ROWS) < 0.5)[1:]
    X[again] = X[rng.integers(0, again)] + 1e-7 * rng.normal(size=(len(again), 3))
    return X


MODELS = {
    "SOGP": (
        lambda: sg.SOGP(sg.SquaredExponential(1.0), capacity=CAPACITY, novelty=1e-3, noise=NOISE),
        {"jitter": 0.0, "novelty": 1e-3, "by_error": False},
    ),
    "KRLST": (
        lambda: sg.KRLST(sg.SquaredExponential(1.0), capacity=CAPACITY, forgetting=1.0, noise=NOISE),
        {"jitter": 1e-6, "novelty": 0.0, "by_error": True},
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize(("walk", "name"), [(random_walk, "SOGP"), (near_duplicates, "SOGP"), (random_walk, "KRLST")])
def test_a_million_rows_of_growth_and_eviction(walk, name):
    rng = np.random.default_rng(0)
    X = walk(rng)
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=ROWS)
    build, settings = MODELS[name]
    start = time.perf_counter()
    mean, variance, evicted, gap = reference.track(X, y, 1.0, NOISE, capacity=CAPACITY, **settings)
    middle = time.perf_counter()
    model = build()
    ours, ours_variance = np.empty(ROWS), np.empty(ROWS)
    chosen = np.empty(ROWS, dtype=int)
    for t in range(ROWS):
        p = model.track(X[t : t + 1], y[t : t + 1])
        ours[t], ours_variance[t] = p.mean[0], p.variance[0]
        chosen[t] = model.last_change.evicted
    end = time.perf_counter()

    differ = np.flatnonzero(chosen != evicted)
    same = int(differ[0]) if len(differ) else ROWS
    if same < ROWS:  # the two may only part where two basis points are equally dispensable
        assert gap[same] < 1e-6, f"row {same}: evicted {chosen[same]}, reference {evicted[same]}, gap {gap[same]}"
    n, K, R = model.size, inside.prior(model), inside.factor(model)
    Q = np.linalg.solve(R, np.linalg.solve(R.T, np.eye(n)))
    figures = {
        "rows until a tie parts them": same,
        "evictions": int((evicted >= 0).sum()),
        "largest difference of means": float(np.abs(ours - mean)[:same].max()),
        "largest difference of variances": float(np.abs(ours_variance - np.maximum(variance, 0))[:same].max()),
        "|QK - I|": float(np.abs(Q @ K - np.eye(n)).max()),
        "smallest eigenvalue of S": float(np.linalg.eigvalsh(inside.covariance(model)).min()),
        "repairs": model.health.repairs,
        "seconds, reference and ours": f"{middle - start:.0f}, {end - middle:.0f}",
    }
    print(f"\n{name} on {walk.__name__}: " + "; ".join(f"{key} {value}" for key, value in figures.items()))
    assert figures["largest difference of means"] < 1e-6
    assert figures["|QK - I|"] < 1e-6
    assert figures["smallest eigenvalue of S"] > 0
    assert np.all(ours_variance >= 0)


@pytest.mark.soak
@pytest.mark.parametrize("form", ["cholesky", "covariance"])
def test_issgpr_equals_batch_ssgpr_after_five_million_updates(form):
    """[gijsberts2013] 4.1, footnote 5: weights and variance on Cross 2D, D = 50, 5 million updates, below 1e-6."""
    updates, block = 5_000_000, 50_000
    # Hyperparameters as in the paper: maximum evidence of SSGPR on 500 rows.
    scales, variance, noise = [0.24875, 0.15983], 0.74104, 0.016839
    features = sg.Fourier(50, lengthscale=scales, variance=variance, seed=1)
    model = sg.OnlineGP(features, noise=noise, form=form)
    frequencies = features.frequencies(2, 1)
    # The batch solution, its sums of products in extended precision.
    A, b = noise * np.eye(100, dtype=np.longdouble), np.zeros(100, dtype=np.longdouble)
    for seed in range(updates // block):
        data = sg.data.cross(block, seed=seed)
        model.learn_many(data.X, data.Y)
        Phi = oracles.fourier(frequencies, variance)(data.X)
        A += Phi.T @ Phi
        b += Phi.T @ data.Y
    A, b = A.astype(float), b.astype(float)
    weights = np.linalg.solve(A, b)
    held = model._state.mu[:, 0]
    ours = np.linalg.solve(np.triu(model._state.covariance[0]), held) if form == "cholesky" else held
    grid = sg.data.cross_grid()
    Phi = oracles.fourier(frequencies, variance)(grid.X)
    latent = noise * np.einsum("ij,ji->i", Phi, np.linalg.solve(A, Phi.T))
    p = model.predict_many(grid.X)
    figures = {
        "|w - w_batch|": float(np.linalg.norm(ours - weights)),
        "largest difference of means": float(np.abs(p.mean - Phi @ weights).max()),
        "largest difference of variances": float(np.abs(p.variance - latent).max()),
        "repairs": model.health.repairs,
    }
    print(f"\nISSGPR {form}, {updates} updates: " + "; ".join(f"{key} {value}" for key, value in figures.items()))
    assert figures["|w - w_batch|"] < 1e-6
    assert figures["largest difference of variances"] < 1e-6

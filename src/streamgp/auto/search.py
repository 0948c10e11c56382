"""Search: hyperparameters of Gaussian processes on the first rows, one search for all that see the same.

The search is for the exact process under the kernel, on few rows while there are few. It starts from nothing that was
found before, so that it does not matter when the thread comes to it.
Fourier features go on from its lengthscales for a few steps; for their own variance and noise one eigendecomposition of
the covariance of the rows gives the evidence of every pair of them. Counts limit how long a search takes, never a
clock: the same rows give the same hyperparameters.
"""

from __future__ import annotations

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import WIDEST, Evidence
from streamgp.process.features import Fourier
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.tuning.tune import NoEvidenceError, fit_prefix, with_hyperparameters

# Of this many rows at most how many count, and the iterations.
EFFORT = ((150, 100, 15), (600, 150, 15), (np.inf, 350, 30))
# Fourier features, which have no linear part, go on with the search for lengthscales: how many, and iterations. With
# those of the exact process errors in rows 501 to 3,000 are 0.99 (tank), 1.01 (sarcos, laser) and 1.08 (barrett_wam).
FEATURES, ITERATIONS = 100, 12
# Where Fourier features look for their noise and their variance, in variances of the targets.
NOISES, VARIANCES = np.logspace(-6, 0, 25), np.logspace(-2, 2, 17)
ROUNDING = 1e-12  # of the largest eigenvalue, below which others are none


def exact(model: OnlineGP, X: FloatArray, y: FloatArray) -> FullGP | None:
    """The exact process of a model on rows, found from there; None where the evidence says nothing of it."""
    _, rows, iterations = next(effort for effort in EFFORT if len(y) <= effort[0])
    evidence = Evidence(restarts=0, iterations=iterations)
    try:
        found = fit_prefix(model, X, y, evidence, rows=rows)
    except NoEvidenceError:
        return None
    return found if isinstance(found, FullGP) else None


def tuned(model: OnlineGP, found: FullGP, scale: float, X: FloatArray, y: FloatArray) -> OnlineGP:
    """A model that has learned nothing, with the hyperparameters of an exact process of the same rows.

    The targets of that, which are the model's but for a column and their unit, have ``scale`` times their variance.
    """
    parts = model._features
    if not isinstance(parts, Fourier):
        return with_hyperparameters(model, found) if scale == 1.0 else _in_unit(model, found, scale)
    lengths = [np.ravel(value) for name, value in found.hyperparameters.items() if name.endswith("lengthscale")]
    if not lengths or lengths[0].size not in (1, X.shape[1]) or parts.given is not None:
        return model  # another kernel, or frequencies that were given
    known = np.flatnonzero(np.isfinite(y))
    some = np.sort(np.random.default_rng(0).choice(known, min(len(known), len(found._solution.X)), replace=False))
    X, Y = X[some], y[some, None]
    shared = np.clip(np.resize(lengths[0], X.shape[1]), *WIDEST)  # where an input is all but constant
    starts = [shared] if parts.lengthscale is None else [shared, np.resize(parts.lengthscale, X.shape[1])]
    few = [parts.replaced(features=min(parts.features, FEATURES), lengthscale=one) for one in starts]
    best, (variance, noise, _) = max(((one, _scales(one, X, Y)) for one in few), key=lambda pair: pair[1][2])
    start = SSGPR(best.features, lengthscale=best.lengthscale, variance=variance, noise=noise, seed=parts.seed)
    lengthscale = start.fit(X, Y, Evidence(restarts=0, iterations=ITERATIONS)).hyperparameters["lengthscale"]
    variance, noise, _ = _scales(parts.replaced(lengthscale=lengthscale), X, Y)
    return model.replaced(lengthscale=lengthscale, variance=variance, noise=noise)


def _in_unit(model: OnlineGP, found: FullGP, scale: float) -> OnlineGP:
    """A model with the hyperparameters of an exact process whose targets have so many times the variance."""
    tuned = with_hyperparameters(model, found)
    kernel = tuned.get_params()["kernel"]
    named = {name: value for name, value in found.hyperparameters.items() if name.endswith("variance")}
    scaled = kernel.replaced(**{name.replace(".", "__"): scale * float(value) for name, value in named.items()})
    return tuned.replaced(kernel=scaled, noise=scale * tuned.get_params()["noise"])


def _scales(features: Fourier, X: FloatArray, Y: FloatArray) -> tuple[float, float, float]:
    """The variance of features and the noise under which the targets are likeliest, and the evidence but a constant."""
    angles = X @ features.frequencies(X.shape[1], 1).T
    Phi = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(features.features)
    n, k = Phi.shape
    # Of rows or of features, whichever are fewer: the covariance has the same values above 0.
    values, vectors = np.linalg.eigh(Phi @ Phi.T if n <= k else Phi.T @ Phi)
    known = values > ROUNDING * values[-1]
    values = values[known]
    z2 = (vectors[:, known].T @ (Y if n <= k else Phi.T @ Y))[:, 0] ** 2
    z2 = z2 if n <= k else z2 / values
    rest = max(float(np.sum(Y * Y) - z2.sum()), 0.0)
    s = VARIANCES[:, None, None] * values + NOISES[:, None]
    evidence = -0.5 * (np.sum(z2 / s + np.log(s), axis=2) + rest / NOISES + (n - len(values)) * np.log(NOISES))
    best = np.unravel_index(np.argmax(evidence), evidence.shape)
    return float(VARIANCES[best[0]]), float(NOISES[best[1]]), float(evidence[best])

"""How a prior is learned: which hyperparameters the models of a fleet have, from all of them (empirical Bayes).

Candidates for the hyperparameters are scored by the log density of each model's rows, each before it is learned. The
shares of the candidates among all models are those that make the rows of all most likely, found by expectation
maximization; what a model has is then its own evidence under these shares, and a new model begins with the candidate
that is best for all: a mean of different kinds of models would be none of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from streamgp.contract import passing
from streamgp.contract.model import StreamModel
from streamgp.process.prior import NAMES, Prior
from streamgp.settings import FloatArray

ROUNDS = 500  # of expectation maximization
LEAST_SHARE = 1e-4  # of a candidate that models are still asked about

# Times what the recipe has, or of the variance for the noise: what is tried.
FACTORS = {
    "lengthscale": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "variance": (0.25, 1.0, 4.0),
    "noise": (0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
}


def candidates(model: StreamModel, d: int) -> dict[str, FloatArray]:
    """What is tried for models of this recipe with d inputs: multiples of its own hyperparameters."""
    begin = passing.started_for(model, np.zeros((1, d))).hyperparameters
    names = [name for name in NAMES if name in begin and name in model.setting_names()]
    grid = np.array(list(itertools.product(*(FACTORS[name] for name in names))))
    found = {name: grid[:, k : k + 1] * np.atleast_1d(begin[name]) for k, name in enumerate(names) if name != "noise"}
    if "noise" in names:
        found["noise"] = grid[:, names.index("noise")][:, None] * found.get("variance", 1.0)
    return found


def tuned(
    tried: dict[str, FloatArray],
    X: FloatArray,
    Y: FloatArray,
    models: int,
    score: Callable[[FloatArray, FloatArray, dict[str, FloatArray]], FloatArray],
) -> tuple[Prior, dict[str, FloatArray]]:
    """The prior of all models, learned from at most this many of them, and the hyperparameters of each model.

    The score of rows, (rows, size, d) and (rows, size), is their log densities under candidates, (models, candidates).
    """
    size = X.shape[1]
    some = np.unique(np.linspace(0, size - 1, min(size, models)).astype(int))
    found, shares = learned(tried, score(X[:, some], Y[:, some], tried))
    if len(some) < size:  # the others are asked about what is not rare only
        found = found.among(found.shares >= LEAST_SHARE)
        _, shares = learned(found.candidates, score(X, Y, found.candidates), found)
    return found, found.average(shares)


def learned(tried: dict[str, FloatArray], scores: FloatArray, before: Prior | None = None) -> tuple[Prior, FloatArray]:
    """The prior of all models and the share of each candidate in each, from log densities (models, candidates)."""
    shares = np.full(scores.shape[1], 1.0 / scores.shape[1]) if before is None else before.shares
    relative = scores - scores.max(axis=1, keepdims=True)
    for _ in range(ROUNDS if before is None else 1):
        own = np.exp(relative) * shares
        own /= own.sum(axis=1, keepdims=True)
        if before is None:
            previous, shares = shares, own.mean(axis=0)
            if np.abs(shares - previous).max() < 1e-10:
                break
    return before or Prior(tried, shares=shares, best=int(np.argmax(scores.sum(axis=0)))), own

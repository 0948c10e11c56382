"""Prior: which hyperparameters the models of a fleet have, learned from all of them (empirical Bayes).

Candidates for the hyperparameters are scored by the log density of each model's rows, each before it is learned. The
shares of the candidates among all models are those that make the rows of all most likely, found by expectation
maximization; what a model has is then its own evidence under these shares, and a new model begins with the candidate
that is best for all: a mean of different kinds of models would be none of them.
"""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from safetensors.numpy import load as parse
from safetensors.numpy import save as packed

from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import write
from streamgp.fleet.own import NAMES, with_own
from streamgp.settings import FloatArray, Part, Setting, whole

ROUNDS = 500  # of expectation maximization
LEAST_SHARE = 1e-4  # of a candidate that models are still asked about

# Times what the recipe has, or of the variance for the noise: what is tried.
FACTORS = {
    "lengthscale": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "variance": (0.25, 1.0, 4.0),
    "noise": (0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
}


class Prior(Part):
    """Shares of hyperparameters among models of one kind.

    ``fleet.tune`` makes it, ``Fleet(prior=)`` lets new models begin with it, and ``prior.applied(model)`` is a single
    model that does.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3.0, 3.0, (60, 4, 1))  # rows, models, inputs
        >>> Y = np.sin(X[..., 0]) + 0.1 * rng.standard_normal((60, 4))
        >>> fleet = sg.Fleet(sg.KRLST(capacity=20, noise=1.0), size=4)
        >>> prior = fleet.tune(X, Y)
        >>> bool(0.005 < prior.start["noise"][0] < 0.05)
        True
    """

    def __init__(
        self,
        candidates: Annotated[
            dict[str, FloatArray],
            Setting("by the name of the hyperparameter, (n, 1) values of it, or (n, d) lengthscales"),
        ],
        *,
        shares: Annotated[FloatArray, Setting("of the candidates among all models, (n,), with sum 1")],
        best: Annotated[int, Setting("the candidate that is best for all", check=partial(whole, at_least=0))],
    ) -> None:
        self.candidates = {
            name: np.asarray(values, dtype=float).reshape(len(values), -1) for name, values in candidates.items()
        }
        self.shares = np.asarray(shares, dtype=float)
        self.best, n = best, len(self.shares)
        fine = all(name in NAMES and len(values) == n for name, values in self.candidates.items())
        if not fine or not best < n or not np.isclose(self.shares.sum(), 1.0) or (self.shares < 0.0).any():
            raise ValueError("a prior has values of lengthscale, variance or noise, and shares of them with sum 1")
        if any(not (np.isfinite(values).all() and (values > 0.0).all()) for values in self.candidates.values()):
            raise ValueError("the candidates of a prior must be positive and finite")

    @property
    def start(self) -> dict[str, FloatArray]:
        """With which hyperparameters a new model begins."""
        return {name: values[self.best] for name, values in self.candidates.items()}

    def average(self, shares: FloatArray) -> dict[str, FloatArray]:
        """Geometric means of the candidates by name, (models, 1) or (models, d), with shares, (models, n)."""
        return {name: np.exp(shares @ np.log(values)) for name, values in self.candidates.items()}

    def among(self, some: np.ndarray) -> Prior:
        """The same among some candidates only, the best of which is kept."""
        some = np.union1d(np.flatnonzero(some), [self.best])
        tried = {name: values[some] for name, values in self.candidates.items()}
        best = int(np.flatnonzero(some == self.best)[0])
        return Prior(tried, shares=self.shares[some] / self.shares[some].sum(), best=best)

    def applied(self, model: StreamModel) -> StreamModel:
        """A model of the same recipe that begins as a new one of the fleet would."""
        return with_own(model, self.start)

    def save(self, path: str | Path) -> None:
        """Write a small file."""
        tensors = {f"candidates.{name}": values for name, values in self.candidates.items()}
        tensors |= {"shares": self.shares, "best": np.array([self.best])}
        write(path, packed(tensors))

    @classmethod
    def load(cls, path: str | Path) -> Prior:
        """Read what ``save`` wrote."""
        data = Path(path).read_bytes()
        try:
            found = parse(data)
            shares, best = found.pop("shares"), int(found.pop("best")[0])
            candidates = {name.removeprefix("candidates."): values for name, values in found.items()}
            return cls(candidates, shares=shares, best=best)
        except Exception as error:
            raise ValueError(f"{path} is no prior that streamgp wrote: {error}") from None

    def __repr__(self) -> str:
        start = ", ".join(f"{name}={np.round(value, 4)}" for name, value in self.start.items())
        return f"Prior({len(self.shares)} candidates, start {start})"


def candidates(model: StreamModel, d: int) -> dict[str, FloatArray]:
    """What is tried for models of this recipe with d inputs: multiples of its own hyperparameters."""
    begin = model._started_for(np.zeros((1, d))).hyperparameters
    names = [name for name in NAMES if name in begin and name in model.setting_names()]
    grid = np.array(list(itertools.product(*(FACTORS[name] for name in names))))
    found = {name: grid[:, k : k + 1] * np.atleast_1d(begin[name]) for k, name in enumerate(names) if name != "noise"}
    if "noise" in names:
        found["noise"] = grid[:, names.index("noise")][:, None] * found.get("variance", 1.0)
    return found


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

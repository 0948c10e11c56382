"""Prior: which hyperparameters models of one kind have, learned from many of them (fleet/prior.py)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import decoded, described, packed, read, unpacked, write
from streamgp.process.likelihood import DEFAULT_NOISE
from streamgp.settings import FloatArray, Part, Setting, instance, optional, whole

NAMES = "lengthscale", "variance", "noise"


class Prior(Part):
    """Shares of hyperparameters among models of one kind.

    ``fleet.tune`` makes it, ``Fleet(prior=)`` lets new models begin with it, and ``KRLST(prior=)`` and
    ``prior.applied(model)`` are single models that do.

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

    def begun(self, lengthscale: Any, variance: Any, noise: Any) -> tuple[Any, Any, Any]:
        """Lengthscale, variance and noise with which a single model begins; those that it is given stay."""
        start = {name: value.tolist() if value.size > 1 else float(value[0]) for name, value in self.start.items()}
        usual = np.ndim(noise) == 0 and noise == DEFAULT_NOISE
        return (
            start.get("lengthscale") if lengthscale is None else lengthscale,
            start.get("variance") if variance is None else variance,
            start.get("noise", noise) if usual else noise,
        )

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
        write(path, packed(*described(self)))

    @classmethod
    def load(cls, path: str | Path) -> Prior:
        """Read what ``save`` wrote."""
        try:
            header, tensors = unpacked(read(path))
            return cls(**decoded(header["settings"], tensors, {}))
        except Exception as error:
            raise ValueError(f"{path} is no prior that streamgp wrote: {error}") from None

    def __repr__(self) -> str:
        start = ", ".join(f"{name}={np.round(value, 4)}" for name, value in self.start.items())
        return f"Prior({len(self.shares)} candidates, start {start})"


checked = optional(instance(Prior, "Prior.load(path) or what fleet.tune(X, Y) returns"))
PriorSetting = Annotated[
    Prior | None,
    Setting(
        "that a fleet has learned: its lengthscale, variance and noise are those of the model where none is given; "
        "None: the defaults",
        check=checked,
    ),
]


def with_own(model: StreamModel, values: dict[str, Any]) -> StreamModel:
    """The recipe with other hyperparameters; NaN: its own."""
    plain = {name: np.ravel(value).tolist() for name, value in values.items() if not np.isnan(value).any()}
    return model.replaced(**{name: value[0] if len(value) == 1 else value for name, value in plain.items()})

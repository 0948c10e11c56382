"""JointPrediction: the function at several rows together, with the covariance between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray, whole


@dataclass(frozen=True, eq=False, repr=False)
class JointPrediction:
    """A Gaussian prediction of the function at n rows together; outputs are independent of each other.

    Args:
        mean: (n,) or (n, p).
        covariance: of the latent function, between the rows: (n, n), or (p, n, n), one matrix for each output.
        noise: variance of the observation noise of each row, like the mean.
        root: (q, n, r) with root root' the covariance, where features are exact; None: it is taken when needed.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> model = sg.SOGP(sg.SquaredExponential(1.0), noise=0.01)
        >>> model.learn_many([0.0, 1.0, 2.0], [0.0, 1.0, 0.5])
        >>> joint = model.predict_joint([2.5, 3.0, 3.5])
        >>> total = joint.mean.sum(), joint.covariance.sum() ** 0.5  # mean and standard deviation of f summed up
        >>> joint.covariance.shape, joint.sample(100).max(axis=1).shape  # the maximum over the rows, 100 draws
        ((3, 3), (100,))
    """

    mean: FloatArray
    covariance: FloatArray
    noise: FloatArray
    root: FloatArray | None = None

    @property
    def marginal(self) -> Prediction[FloatArray]:
        """The prediction of each row on its own."""
        return Prediction(self.mean, np.diagonal(self.covariance, axis1=-2, axis2=-1).T.copy(), self.noise)

    def sample(self, n: int = 1, seed: int = 0, noise: bool = False) -> FloatArray:
        """Return n draws of the function at all rows, (n, rows) or (n, rows, p).

        Args:
            n: draws; each follows one function through all rows.
            seed: of the draws.
            noise: add the observation noise, independent from row to row, for draws of the targets.
        """
        whole("n", n)
        rng = np.random.default_rng(whole("seed", seed, at_least=0))
        values = self._drawn(n, rng).reshape(n, *self.mean.shape)
        return values + np.sqrt(self.noise) * rng.standard_normal(values.shape) if noise else values

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.marginal!r} together)"

    def _drawn(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the function, (count, n, p)."""
        mean = self.mean[:, None] if self.mean.ndim == 1 else self.mean
        A = root_of(np.atleast_3d(self.covariance.T).T) if self.root is None else self.root
        e = rng.standard_normal((mean.shape[1], A.shape[2], count))
        return mean + (A @ e).transpose(2, 1, 0)

    def mapped(self, offset: Any, factor: Any, noise: FloatArray) -> Self:
        """The prediction of offset + factor f with another noise; all are (n, p), or broadcast to it."""
        mean = offset + factor * self.mean
        scale = np.broadcast_to(factor, mean.shape).T[..., None]  # (p, n, 1)
        return replace(
            self,
            mean=mean,
            covariance=self.covariance * (scale * scale.transpose(0, 2, 1)),  # symmetric to the last bit
            noise=noise,
            root=None if self.root is None else scale * self.root,
        )

    def shaped(self, scalar: bool) -> Self:
        """Arrays (n, p) and (1 or p, n, n) as users see them."""
        n, p = self.mean.shape
        covariance = np.broadcast_to(self.covariance, (p, n, n)).copy()
        noise = np.broadcast_to(self.noise, (n, p)).copy()
        if scalar:
            return replace(self, mean=self.mean[:, 0], covariance=covariance[0], noise=noise[:, 0])
        return replace(self, covariance=covariance, noise=noise)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class JointMixture(JointPrediction):
    """A mixture of joint predictions: one of them holds for all rows, and each draw follows one.

    Args:
        parts: the joint predictions, of arrays (n, p).
        weights: (parts, p) of each, for each output; they sum to 1.
    """

    parts: Sequence[JointPrediction]
    weights: FloatArray

    @classmethod
    def of(cls, parts: Sequence[JointPrediction], weights: FloatArray) -> Self:
        """The mixture of these parts; what has no weight may be anything."""
        p, n = weights.shape[1], len(parts[0])

        def weighed(values: FloatArray) -> FloatArray:  # (parts, p, ...)
            w = weights.reshape(*weights.shape, *(1,) * (values.ndim - 2))
            return np.asarray(np.sum(np.where(w > 0, w * values, 0.0), axis=0))

        means = np.stack([part.mean.T for part in parts])
        noises = np.stack([np.broadcast_to(part.noise, (n, p)).T for part in parts])
        mean = weighed(means)
        apart = (means - mean)[..., None]
        covariances = np.stack([np.broadcast_to(part.covariance, (p, n, n)) for part in parts])
        covariance = weighed(covariances + apart * apart.swapaxes(2, 3))
        return cls(mean.T, covariance, weighed(noises).T, parts=parts, weights=weights)

    def _drawn(self, count: int, rng: np.random.Generator) -> FloatArray:
        drawn = np.stack([part._drawn(count, rng) for part in self.parts])  # (parts, count, n, p)
        chosen = np.stack([rng.choice(len(self.parts), count, p=own) for own in self.weights.T], axis=1)  # (count, p)
        followed: FloatArray = np.take_along_axis(drawn, chosen[None, :, None, :], axis=0)[0]
        return followed

    def mapped(self, offset: Any, factor: Any, noise: FloatArray) -> Self:
        parts = [part.mapped(offset, factor, part.noise) for part in self.parts]
        return replace(super().mapped(offset, factor, noise), parts=parts)


def certain(mean: FloatArray) -> JointPrediction:
    """The joint prediction of a model without a variance: its mean, (n, p)."""
    n = len(mean)
    return JointPrediction(mean, np.zeros((1, n, n)), np.full_like(mean, np.nan), np.zeros((1, n, 0)))


def root_of(C: FloatArray) -> FloatArray:
    """A with A A' = C for symmetric matrices (q, n, n) that may be singular; rounding below 0 is taken as 0."""
    values, vectors = np.linalg.eigh(C)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return root

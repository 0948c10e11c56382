"""The exact Gaussian process."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from streamgp.batch.model import Hyperparameters, KernelModel
from streamgp.kernels import Kernel, KernelSetting, SquaredExponential
from streamgp.process.mean import FixedMeanSetting, values
from streamgp.recipes.soh2014 import SOGP
from streamgp.settings import FloatArray, whole
from streamgp.vocabulary import Jitter, OneNoise, ShortLengthscale, ShortVariance

WORTH_SAYING = 1e-6  # of the targets' standard deviation, and of the width of error bars
COMPARED = 500  # rows, evenly spread, at which and between which a stream model is compared with the exact one


class Exact(NamedTuple):
    """An exact posterior."""

    kernel: Kernel
    noise: float
    X: FloatArray
    L: FloatArray  # K + noise I = L L', jitter included
    z: FloatArray  # L^-1 Y
    value: float


def solve(kernel: Kernel, noise: float, jitter: float, X: FloatArray, Y: FloatArray) -> Exact:
    K = kernel(X)
    K[np.diag_indices_from(K)] *= 1.0 + jitter
    K[np.diag_indices_from(K)] += noise
    L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    z = solve_triangular(L, Y, lower=True, check_finite=False)
    n, p = Y.shape
    value = -0.5 * np.sum(z * z) - p * (np.sum(np.log(np.diag(L))) + 0.5 * n * np.log(2.0 * np.pi))
    return Exact(kernel, noise, X, L, z, float(value))


def gradient(solution: Exact, jitter: float) -> FloatArray:
    """By the logarithms of the kernel's hyperparameters and of the noise."""
    alpha = solve_triangular(solution.L, solution.z, lower=True, trans="T", check_finite=False)
    inverse, _ = lapack.dpotri(solution.L, lower=True)  # its lower triangle
    # d log p / d K_ij, from d log p = 1/2 tr((alpha alpha' - p K^-1) dK).
    W = 0.5 * (alpha @ alpha.T - alpha.shape[1] * inverse)
    by_noise = solution.noise * np.trace(W)
    W[np.diag_indices_from(W)] *= 1.0 + jitter
    return np.append(solution.kernel.weighted_gradient(W, solution.X), by_noise)


def project(solution: Exact, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean at X and V with prior - V'V the covariance there."""
    V = solve_triangular(solution.L, solution.kernel(solution.X, X), lower=True, check_finite=False)
    return V.T @ solution.z, V


class FullGP(KernelModel):
    """The exact Gaussian process: O(n^3) to learn n rows, O(n^2) for a variance.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.batch import FullGP
        >>> X = np.linspace(0.0, 6.0, 30)
        >>> model = FullGP(sg.SquaredExponential(1.0), noise=0.01).fit(X, np.sin(X))
        >>> round(float(model.predict([1.5]).mean[0]), 2)
        1.0
    """

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        noise: OneNoise = 0.01,
        jitter: Jitter = 0.0,
        mean: FixedMeanSetting = None,
    ) -> None:
        self._compose(kernel, lengthscale, variance, noise, jitter)
        self._mean = mean

    def _prior(self, X: FloatArray, p: int) -> FloatArray:
        """The prior mean of rows, (n, 1) or (n, p)."""
        return np.zeros((len(X), 1)) if self._mean is None else values(self._mean, X, p)

    def online(self, capacity: int | None = None) -> SOGP:
        """Return a stream model with the same prior and the same posterior, which keeps learning.

        Args:
            capacity: most basis points; None: room for every row of the fit, and none more. With less than that the
                scores of the basis points decide which stay, and a warning says what it costs.
        """
        solution = self._learned()
        X: FloatArray = solution.X
        if X.ndim == 3:
            raise ValueError(
                "a model fitted to windows has no rows to go on from: build a SOGP(depth=...) of its kernel"
            )
        Y = solution.L @ solution.z + self._prior(X, self._outputs)
        room = len(X) if capacity is None else whole("capacity", capacity)
        settings = {"noise": solution.noise, "jitter": self._jitter, "mean": self._mean}
        model = SOGP(solution.kernel, capacity=room, novelty=0.0, **settings)
        model.learn_many(X, Y[:, 0] if self._scalar else Y)
        self._say_loss(model, X, room)
        return model

    def _say_loss(self, model: SOGP, X: FloatArray, room: int) -> None:
        rows = X[np.unique(np.linspace(0, len(X) - 1, COMPARED).astype(int))]
        at = np.vstack([rows, 0.5 * (rows[1:] + rows[:-1])])
        exact, kept = self.predict(at), model.predict_many(at)
        unit = float(np.std(exact.mean[: len(rows)])) or 1.0
        off = float(np.abs(kept.mean - exact.mean).max()) / unit
        wider = float(np.max(kept.std / exact.std))
        if model.size < len(X) and max(off, wider - 1.0) > WORTH_SAYING:
            cure = "A larger capacity keeps more"
            if model.size < room:
                cure = (
                    f"There is room for more, but beside a noise of {self._learned().noise:.2g} arithmetic cannot tell "
                    "them from these: fit with a larger one, in scikit-learn a WhiteKernel or a larger alpha"
                )
            warnings.warn(
                f"{model.size} of {len(X)} rows stay as basis points: at the rows of the fit and between them the "
                f"means differ from the exact ones by up to {off:.2g} of their standard deviation, and the error bars "
                f"are up to {wider:.4g} times as wide. {cure}",
                stacklevel=3,
            )

    def prior_variance(self, kernel: Kernel | None = None) -> float:
        """Return the prior variance of the function, averaged over the rows that were fitted.

        Args:
            kernel: another kernel, on the same rows; None: the fitted one.
        """
        solution = self._learned()
        return float(np.mean((solution.kernel if kernel is None else kernel).diagonal(solution.X)))

    def _solve(self, named: Hyperparameters, X: FloatArray, Y: FloatArray) -> Exact:
        return solve(*self._bound(named, X), self._jitter, X, Y - self._prior(X, Y.shape[1]))

    def _gradient(self, solution: Exact, X: FloatArray, Y: FloatArray) -> FloatArray:
        return gradient(solution, self._jitter)

    def _predict(self, solution: Exact, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, V = project(solution, X)
        prior = (1.0 + self._jitter) * solution.kernel.diagonal(X)
        return mean + self._prior(X, self._outputs), np.clip(prior - np.sum(V * V, axis=0), 0.0, prior)

"""The exact Gaussian process, and a committee of them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from streamgp.batch.model import KernelModel
from streamgp.kernels import Kernel, KernelSetting, SquaredExponential
from streamgp.settings import FloatArray, Setting, whole
from streamgp.vocabulary import Jitter, OneNoise, Seed, ShortLengthscale, ShortVariance


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
    ) -> None:
        self._compose(kernel, lengthscale, variance, noise, jitter)

    def prior_variance(self, kernel: Kernel | None = None) -> float:
        """Return the prior variance of the function, averaged over the rows that were fitted.

        Args:
            kernel: another kernel, on the same rows; None: the fitted one.
        """
        solution = self._learnt()
        return float(np.mean((solution.kernel if kernel is None else kernel).diagonal(solution.X)))

    def _solve(self, values: FloatArray, free: FloatArray, X: FloatArray, Y: FloatArray) -> Exact:
        return solve(*self._bound(values, X), self._jitter, X, Y)

    def _gradient(self, solution: Exact, X: FloatArray, Y: FloatArray) -> FloatArray:
        return gradient(solution, self._jitter)

    def _predict(self, solution: Exact, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, V = project(solution, X)
        prior = (1.0 + self._jitter) * solution.kernel.diagonal(X)
        return mean, np.clip(prior - np.sum(V * V, axis=0), 0.0, prior)


class Experts(NamedTuple):
    """The posteriors of the experts."""

    kernel: Kernel
    experts: list[Exact]
    value: float


class BayesianCommitteeMachine(KernelModel):
    """Exact Gaussian processes on parts of the data, whose predictions are combined [Tresp 2000].

    An expert's prediction of a few rows together counts by its precision, and the prior, which every expert has used,
    is counted once. The log marginal likelihood is the sum of the experts': it takes the parts as independent.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.batch import BayesianCommitteeMachine
        >>> X = np.linspace(0.0, 6.0, 60)
        >>> model = BayesianCommitteeMachine(sg.SquaredExponential(1.0), noise=0.01, experts=3).fit(X, np.sin(X))
        >>> round(float(model.predict([1.5]).mean[0]), 1)
        1.0
    """

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        noise: OneNoise = 0.01,
        experts: Annotated[
            int, Setting("number of parts; rows are dealt out at random, in equal shares", "parts", whole)
        ] = 10,
        queries: Annotated[
            int,
            Setting(
                "rows of X predicted together; more make the experts agree better and cost queries^3", "rows", whole
            ),
        ] = 1,
        jitter: Annotated[
            Jitter,
            Setting(
                "independent variance of every function value, relative to its prior variance and part of the prior; "
                "queries > 1 may need some"
            ),
        ] = 0.0,
        seed: Annotated[Seed, Setting("of the random parts")] = 0,
    ) -> None:
        self._compose(kernel, lengthscale, variance, noise, jitter)
        self._experts, self._queries, self._seed = experts, queries, seed

    def _solve(self, values: FloatArray, free: FloatArray, X: FloatArray, Y: FloatArray) -> Experts:
        if len(X) < self._experts:
            raise ValueError(f"{self._experts} experts need as many rows at least; got {len(X)}. Use fewer experts.")
        kernel, noise = self._bound(values, X)
        order = np.random.default_rng(self._seed).permutation(len(X))
        experts = [
            solve(kernel, noise, self._jitter, X[part], Y[part]) for part in np.array_split(order, self._experts)
        ]
        return Experts(kernel, experts, sum(expert.value for expert in experts))

    def _gradient(self, solution: Experts, X: FloatArray, Y: FloatArray) -> FloatArray:
        total: FloatArray = np.sum([gradient(expert, self._jitter) for expert in solution.experts], axis=0)
        return total

    def _predict(self, solution: Experts, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        whole_blocks = len(X) - len(X) % self._queries
        parts = [
            self._combine(solution, part, size)
            for part, size in ((X[:whole_blocks], self._queries), (X[whole_blocks:], len(X) - whole_blocks))
            if len(part)
        ]
        means, variances = zip(*parts, strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def _combine(self, solution: Experts, X: FloatArray, b: int) -> tuple[FloatArray, FloatArray]:
        """Predict blocks of b rows together; arrays are (blocks, b, ...)."""
        kernel = solution.kernel
        prior = (
            kernel.diagonal(X)[:, None, None]
            if b == 1
            else np.stack([kernel(X[i : i + b]) for i in range(0, len(X), b)])
        )
        prior = prior * (1.0 + self._jitter * np.eye(b))
        # Tresp (2000): C^-1 = sum_i C_i^-1 - (M - 1) prior^-1, mean = C sum_i C_i^-1 mean_i
        precision = (1 - len(solution.experts)) * _inverse(prior)
        weighted = np.zeros((*prior.shape[:2], solution.experts[0].z.shape[1]))
        for expert in solution.experts:
            mean, V = project(expert, X)
            V = V.reshape(len(V), -1, b).transpose(1, 2, 0)
            inverse = _inverse(prior - V @ V.transpose(0, 2, 1))
            precision = precision + inverse
            weighted += inverse @ mean.reshape(weighted.shape)
        covariance = _inverse(precision)
        mean = (covariance @ weighted).reshape(len(X), -1)
        return mean, np.einsum("sii->si", covariance).ravel()


def _inverse(A: FloatArray) -> FloatArray:
    """Of a stack of positive matrices; LinAlgError where one is not positive."""
    inverse_of_factor: FloatArray = np.linalg.inv(np.linalg.cholesky(A))
    return inverse_of_factor.transpose(0, 2, 1) @ inverse_of_factor

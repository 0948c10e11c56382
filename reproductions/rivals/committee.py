"""A committee of exact Gaussian processes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from streamgp.batch.exact import Exact, gradient, project, solve
from streamgp.batch.model import Hyperparameters, KernelModel
from streamgp.kernels import Kernel, KernelSetting, SquaredExponential
from streamgp.settings import FloatArray, Setting, whole
from streamgp.vocabulary import Jitter, OneNoise, Seed, ShortLengthscale, ShortVariance


class Experts(NamedTuple):
    """The posteriors of the experts."""

    kernel: Kernel
    experts: list[Exact]
    value: float


class BayesianCommitteeMachine(KernelModel):
    """Exact Gaussian processes on parts of the data, whose predictions are combined [tresp2000].

    An expert's prediction of a few rows together counts by its precision, and the prior, which every expert has used,
    is counted once. The log marginal likelihood is the sum of the experts': it takes the parts as independent.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from reproductions.rivals import BayesianCommitteeMachine
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

    def _solve(self, named: Hyperparameters, X: FloatArray, Y: FloatArray) -> Experts:
        if len(X) < self._experts:
            raise ValueError(f"{self._experts} experts need as many rows at least; got {len(X)}. Use fewer experts.")
        kernel, noise = self._bound(named, X)
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

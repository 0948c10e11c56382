"""The sparse Gaussian process on inducing points."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from streamgp.batch import low_rank
from streamgp.batch.low_rank import LowRank
from streamgp.batch.model import Hyperparameters, KernelModel, extent
from streamgp.kernels import Kernel, KernelSetting, SquaredExponential
from streamgp.settings import FloatArray, Setting, real_matrix, whole
from streamgp.vocabulary import INPUTS, Jitter, OneNoise, Seed, ShortLengthscale, ShortVariance


class Inducing(NamedTuple):
    """A posterior through inducing points."""

    kernel: Kernel
    points: FloatArray  # in the shape of the inputs
    noise: float
    L: FloatArray  # K_uu = L L', jitter included
    weights: LowRank  # of the features L^-1 K_uf
    value: float


class FITC(KernelModel):
    """Fully independent training conditional, the sparse process with pseudo-inputs [Snelson and Ghahramani 2006].

    What the points cannot express counts as noise of its own for every row, so the prior variance is right everywhere.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.batch import FITC
        >>> X = np.linspace(0.0, 6.0, 200)
        >>> model = FITC(sg.SquaredExponential(1.0), noise=0.01, points=15).fit(X, np.sin(X))
        >>> round(float(model.predict([1.5]).mean[0]), 1)
        1.0
    """

    _residual_counts = True  # without it, this is the subset of regressors

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        noise: OneNoise = 0.01,
        points: Annotated[
            Any,
            Setting(
                "an (m, d) array ((m, depth * d) for windows), or the number m of rows drawn from the data", INPUTS
            ),
        ] = 100,
        jitter: Jitter = 1e-6,
        seed: Annotated[Seed, Setting("of the drawn points")] = 0,
    ) -> None:
        self._compose(kernel, lengthscale, variance, noise, jitter)
        self._given: FloatArray | None = None
        if isinstance(points, int | np.integer) and not isinstance(points, bool):
            self._m = whole("points", points)
        else:
            self._given = real_matrix("points", points, "(m, d), or be a number of rows to draw")
            self._m = len(self._given)
        self._seed = seed

    @property
    def points(self) -> FloatArray:
        """The inducing points (m, width); before fit those given, or none."""
        if self._solution is not None:
            return np.array(self._solution.points.reshape(self._m, -1))
        return np.empty((0, 0)) if self._given is None else self._given.copy()

    def _points(self, X: FloatArray) -> FloatArray:
        """The inducing points (m, width) to start from."""
        if self._given is None:
            return self._drawn(X, np.random.default_rng(self._seed))
        width, _ = extent(X)
        if self._given.shape[1] != width:
            raise ValueError(f"the points have {self._given.shape[1]} columns, but the inputs have {width} numbers")
        return self._given

    def _drawn(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        if self._m > len(X):
            raise ValueError(f"points={self._m} are to be drawn from the rows, but there are {len(X)}; ask for fewer")
        return X[rng.choice(len(X), self._m, replace=False)].reshape(self._m, -1)

    def _solve(self, named: Hyperparameters, X: FloatArray, Y: FloatArray) -> Inducing:
        kernel, noise = self._bound(named, X)
        U = np.reshape(named["points"] if "points" in named else self._points(X), (self._m, *X.shape[1:]))
        L = cholesky(kernel(U) * self._jittered(), lower=True, check_finite=False)
        Phi = _features(kernel, L, U, X)
        weights = low_rank.solve(Phi, noise + self._residual(kernel, X, Phi), Y)
        return Inducing(kernel, U, noise, L, weights, weights.value)

    def _jittered(self) -> FloatArray:
        """What the jitter multiplies the points' covariance with: its diagonal counts a little more."""
        return 1.0 + self._jitter * np.eye(self._m)

    def _residual(self, kernel: Kernel, X: FloatArray, Phi: FloatArray) -> FloatArray:
        """The variance of the function that the points cannot express, or none where it does not count."""
        if not self._residual_counts:
            return np.zeros(len(X))
        gamma2: FloatArray = np.maximum((1.0 + self._jitter) * kernel.diagonal(X) - np.sum(Phi * Phi, axis=1), 0.0)
        return gamma2

    def _gradient(self, solution: Inducing, X: FloatArray, Y: FloatArray) -> FloatArray:
        kernel = solution.kernel
        by_cross, by_points, w = self._by_covariances(solution, Y)
        by_kernel = 2.0 * kernel.weighted_gradient(by_cross, solution.points, X)
        by_kernel -= kernel.weighted_gradient(by_points, solution.points)
        if self._residual_counts:
            by_kernel += kernel.weighted_diagonal_gradient((1.0 + self._jitter) * w, X)
        return np.append(by_kernel, solution.noise * np.sum(w))

    def _by_covariances(self, solution: Inducing, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A, B, w of d log p = 2 tr(A' dK_uf) - tr(B dK_uu) + w' d diag(K_ff); w is also that of the noise."""
        L, Phi = solution.L, solution.weights.Phi
        WPhi, w = low_rank.derivative(solution.weights, Y)
        if self._residual_counts:
            WPhi -= w[:, None] * Phi  # the diagonal of S is the prior's whatever Phi is
        # d(Phi Phi') = dK_fu B + B' dK_uf - B' dK_uu B with B = K_uu^-1 K_uf
        by_cross = solve_triangular(L, WPhi.T, lower=True, trans="T", check_finite=False)
        by_points = solve_triangular(L, (by_cross @ Phi).T, lower=True, trans="T", check_finite=False)
        return by_cross, 0.5 * (by_points + by_points.T) * self._jittered(), w

    def _predict(self, solution: Inducing, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        Phi = _features(solution.kernel, solution.L, solution.points, X)
        mean, variance = low_rank.predict(solution.weights, Phi)
        return mean, variance + self._residual(solution.kernel, X, Phi)


def _features(kernel: Kernel, L: FloatArray, U: FloatArray, X: FloatArray) -> FloatArray:
    """Features whose products are what points U tell of the kernel at X, (n, m)."""
    V: FloatArray = solve_triangular(L, kernel(U, X), lower=True, check_finite=False)
    return V.T

"""The sparse process whose pseudo-inputs move with the hyperparameters."""

from __future__ import annotations

import numpy as np

from streamgp.batch import FITC
from streamgp.batch.inducing import Inducing
from streamgp.batch.model import Hyperparameters, extent
from streamgp.kernels import Kernel
from streamgp.settings import FloatArray


class PseudoInputs(FITC):
    """FITC with points that evidence maximization moves, as [snelson2006] has it; the settings are those of FITC.

    Its log marginal likelihood can rise above that of the exact process, which is overfitting and no better fit.

    Example:
        >>> import numpy as np
        >>> from reproductions.rivals import PseudoInputs
        >>> from streamgp.batch import Evidence
        >>> X = np.linspace(0.0, 6.0, 60)
        >>> model = PseudoInputs(noise=0.01, points=6).fit(X, np.sin(X), Evidence(restarts=0))
        >>> round(float(model.predict([1.5]).mean[0]), 1)
        1.0
    """

    also_tuned = "points"

    def _start(self, X: FloatArray) -> Hyperparameters:
        return super()._start(X) | {"points": self._points(X)}

    def _redrawn(self, count: int, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        points = self._m * extent(X)[0]
        return np.append(super()._redrawn(count - points, X, rng), self._drawn(X, rng))

    def _gradient(self, solution: Inducing, X: FloatArray, Y: FloatArray) -> FloatArray:
        kernel, U = solution.kernel, solution.points
        by_cross, by_points, _ = self._by_covariances(solution, Y)
        by_inputs = weighted_input_gradient(kernel, by_cross, U, X) - weighted_input_gradient(kernel, by_points, U, U)
        return np.append(super()._gradient(solution, X, Y), 2.0 * by_inputs)


def weighted_input_gradient(kernel: Kernel, W: FloatArray, X: FloatArray, Z: FloatArray) -> FloatArray:
    """sum_j W_ij d k(x_i, z_j) / d x_i, an array (n, width); width is depth * d for windows."""
    width, depth = extent(X)
    program, Z = kernel.program(width, depth), Z.reshape(len(Z), width)
    return np.array([program.input_gradient(Z, x) @ w for x, w in zip(X.reshape(len(X), width), W, strict=True)])

"""What can be read of an online Gaussian process."""

from __future__ import annotations

import numpy as np

from streamgp.contract.model import Change, Relevance
from streamgp.kernels.temporal import hyperparameters as temporal_hyperparameters
from streamgp.process import features as feature_kinds
from streamgp.process import observation
from streamgp.process.features import Fourier
from streamgp.process.joint import Function
from streamgp.process.mean import Weights
from streamgp.process.started import Started
from streamgp.process.state import ABSORBED, ADMITTED, REPLACED
from streamgp.settings import FloatArray


class Readable(Started):
    """A process as far as it is read and not changed."""

    @property
    def size(self) -> int:
        if self._d is None:
            return 0 if self._features.points is None else len(self._features.points)
        return self._weights_in_use()

    @property
    def basis(self) -> FloatArray:
        if self._d is None:
            return np.empty((0, 0)) if self._features.points is None else self._features.points.copy()
        basis: FloatArray = self._state.basis[: self._numbers.count("points")].copy()
        return basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        # Before the first row only those that do not depend on its width.
        noise = self._noise if self._d is None else self._state.noise
        named: dict[str, float | FloatArray] = {}
        parts = self._features
        if parts.kernel is not None and self._d is not None:
            width = self._memory.width(self._d)
            named |= parts.kernel.hyperparameters(self._state.parameters, width, self._memory.depth)
        elif isinstance(parts, Fourier):
            named["variance"] = parts.variance if self._d is None else float(self._state.parameters[0])
        named |= self._likelihood.hyperparameters
        if self._likelihood.kind == observation.GAUSSIAN:
            named["noise"] = _plain(noise)
        if isinstance(parts, Fourier) and parts.lengthscale is not None:
            named["lengthscale"] = _plain(parts.lengthscale)  # fixed: it is in the frequencies
        if self._terms:
            named |= {f"time.{name}": value for name, value in temporal_hyperparameters(self._settings["time"]).items()}
        return named

    @property
    def mean_weights(self) -> Weights:
        """What is known of the weights of ``mean=LinearMean(...)``: their names, means and covariance."""
        if self._linear is None:
            raise ValueError("this model has no weights in its mean: build it with mean=LinearMean(...)")
        if self._d is None:
            raise ValueError("the weights of the mean are known once the first row has come")
        linear, function, d = self._linear, Function(self), self._d
        last, scales = self._temporal_coordinates(), linear.scales(d)
        first = last - len(scales)
        mean = linear.start(d) + scales[:, None] * function.mu[first:last]
        covariance = function.power[:, None, None] * function.S[:, first:last, first:last] * np.outer(scales, scales)
        names = linear.labels(d)
        return Weights(
            names, mean[:, 0] if self._shape.scalar else mean, covariance if len(covariance) > 1 else covariance[0]
        )

    def relevance(self) -> Relevance:
        if self._features.kind == feature_kinds.LINEAR:
            return super().relevance()
        if self._d is None:
            raise ValueError("the relevance of inputs is known once the first row has come")
        memory, d = self._memory, self._d
        if isinstance(self._features, Fourier):
            # The spread of the frequencies of a column is 1 / lengthscale.
            weights = np.sqrt(np.mean(self._state.frequencies**2, axis=0))
            steps = float(memory.depth)
        else:
            assert self._features.kernel is not None
            weights, steps = self._features.kernel.relevance(self._state.parameters, memory.width(d), memory.depth)
        # The inputs' own columns, summed over the lags of a window; a reservoir's units are not inputs.
        own = weights[memory.units :] if memory.augment else np.ones(d)
        total = own.reshape(-1, d).sum(0)
        return Relevance(total / total.sum(), steps)

    @property
    def trace(self) -> dict[str, FloatArray]:
        """The path of every hyperparameter and of the running log density, thinned to a fixed length; by row."""
        if self._adapt is None:
            raise ValueError("this model does not adapt its hyperparameters: build it with adapt=SNGD()")
        if self._d is None:
            return {"row": np.empty(0), "log_density": np.empty(0)}
        path = self._state.path[: self._numbers.count("path_points")].copy()
        named = {"row": path[:, 0], "log_density": path[:, 1]}
        first = 2
        for name, value in self.hyperparameters.items():
            size = np.size(value)
            if first + size > path.shape[1]:
                break  # a lengthscale in fixed frequencies has no path
            named[name] = path[:, first] if size == 1 else path[:, first : first + size]
            first += size
        return named

    @property
    def last_change(self) -> Change:
        if self._d is None:
            return Change()
        change, left = self._numbers.count("change"), self._state.evicted[: self._numbers.count("evictions")]
        return Change(change == ABSORBED, change in (ADMITTED, REPLACED), tuple(int(r) for r in left))


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if values.size == 1 else values.copy()

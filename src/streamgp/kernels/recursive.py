"""The recursive kernel of infinite echo-state networks."""

from __future__ import annotations

import numpy as np

from streamgp.kernels import program as prog
from streamgp.kernels.algebra import LeafKernel
from streamgp.kernels.stationary import resolve_factors, resolve_lengthscale, scales_of
from streamgp.settings import FloatArray
from streamgp.vocabulary import Factors, Lengthscale, TemporalLengthscale, Variance


class RecursiveSquaredExponential(LeafKernel):
    """The recursive squared exponential with relevance determination, over windows of the last inputs [soh2014 IV].

    From the oldest input of the window to the newest, kappa <- exp(-r^2/2) exp((kappa - 1) / temporal_lengthscale^2);
    the variance multiplies once at the end. With a window of one input it is the ordinary squared exponential.

    Example:
        >>> import streamgp as sg
        >>> window = [[[0.0], [1.0], [2.0]]]  # one window of three inputs
        >>> float(sg.RecursiveSquaredExponential(variance=2.0)(window)[0, 0])
        2.0
    """

    operation = prog.RECURSIVE_SE

    def __init__(
        self,
        lengthscale: Lengthscale = None,
        *,
        temporal_lengthscale: TemporalLengthscale = 1.2,
        variance: Variance = 1.0,
        factors: Factors = None,
    ) -> None:
        self.lengthscale, self.variance, self.factors = scales_of(lengthscale), variance, factors
        self.temporal_lengthscale = temporal_lengthscale

    def memory_length(self, named: dict[str, FloatArray], depth: int) -> float:
        # Near kappa = 1 a step multiplies a past difference by 1 / sigma_rho^2: after 1 / (2 ln sigma_rho) steps it
        # has fallen by e. At sigma_rho <= 1 it does not fade, and the window is the limit.
        temporal = float(named["temporal_lengthscale"][0])
        fading = 0.5 / np.log(temporal) if temporal > 1.0 else np.inf
        return float(min(1.0 + fading, depth))

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        scales = resolve_lengthscale(self.lengthscale, width, depth, by_lag=False)
        return [
            ("lengthscale", scales),
            ("temporal_lengthscale", self.temporal_lengthscale),
            ("variance", self.variance),
            *resolve_factors(self.factors, scales, width // depth),
        ]

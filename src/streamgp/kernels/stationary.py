"""Kernels of one input vector: stationary ones and the linear one."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.kernels import program as prog
from streamgp.kernels.algebra import Constant, LeafKernel
from streamgp.settings import FloatArray, number, positive_vector

__all__ = ["Constant", "LinearKernel", "Matern", "Periodic", "RationalQuadratic", "SquaredExponential"]

Lengthscale = float | list[float] | FloatArray | None


def resolve_lengthscale(lengthscale: FloatArray | None, width: int, depth: int, *, by_lag: bool = True) -> FloatArray:
    """One lengthscale, one for each input (the same at every lag) or one for each input and lag."""
    d = width // depth
    if lengthscale is None:
        return np.array([np.sqrt(d)])  # the distance of two points of unit variance grows with sqrt(d)
    allowed = {1, d, width} if by_lag else {1, d}
    if lengthscale.size not in allowed:
        sizes = ", ".join(str(size) for size in sorted(allowed))
        raise ValueError(
            f"lengthscale has {lengthscale.size} values, but the inputs have {d} columns"
            + (f" at {depth} lags" if depth > 1 else "")
            + f"; give one of these numbers of values: {sizes}"
        )
    return lengthscale


class _Stationary(LeafKernel):
    lengthscale: FloatArray | None
    variance: float

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        return [("lengthscale", resolve_lengthscale(self.lengthscale, width, depth)), ("variance", self.variance)]


def _lengthscale(value: Any) -> FloatArray | None:
    return None if value is None else positive_vector("lengthscale", value)


class SquaredExponential(_Stationary):
    """k(x, z) = variance exp(-1/2 sum_j (x_j - z_j)^2 / lengthscale_j^2).

    Args:
        lengthscale: one, or one for each input (ARD), in the units of the inputs; None: sqrt(d).
        variance: prior variance of the function, in squared units of the target.

    Example:
        >>> import streamgp as sg
        >>> float(sg.SquaredExponential(2.0)([[0.0]], [[2.0]])[0, 0].round(4))
        0.6065
    """

    operation = prog.SE

    def __init__(self, lengthscale: Lengthscale = None, variance: float = 1.0) -> None:
        self.lengthscale = _lengthscale(lengthscale)
        self.variance = number("variance", variance, above=0)


class Matern(_Stationary):
    """The Matern kernel of order 1/2, 3/2 or 5/2, in the distance scaled by the lengthscales.

    Args:
        order: 0.5 (rough), 1.5 or 2.5 (twice differentiable).
        lengthscale: one, or one for each input (ARD), in the units of the inputs; None: sqrt(d).
        variance: prior variance of the function, in squared units of the target.
    """

    def __init__(self, order: float = 2.5, lengthscale: Lengthscale = None, variance: float = 1.0) -> None:
        operations = {0.5: prog.MATERN12, 1.5: prog.MATERN32, 2.5: prog.MATERN52}
        if order not in operations:
            raise ValueError(f"order must be 0.5, 1.5 or 2.5; got {order!r}")
        self.order = order
        self.operation = operations[order]
        self.lengthscale = _lengthscale(lengthscale)
        self.variance = number("variance", variance, above=0)


class RationalQuadratic(LeafKernel):
    """k = variance (1 + r^2 / (2 shape))^-shape: a scale mixture of squared exponentials.

    Args:
        shape: small: many scales at once; large: the squared exponential.
        lengthscale: one, or one for each input (ARD); None: sqrt(d).
        variance: prior variance of the function.
    """

    operation = prog.RATIONAL_QUADRATIC

    def __init__(self, shape: float = 1.0, lengthscale: Lengthscale = None, variance: float = 1.0) -> None:
        self.shape = number("shape", shape, above=0)
        self.lengthscale = _lengthscale(lengthscale)
        self.variance = number("variance", variance, above=0)

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        scales = resolve_lengthscale(self.lengthscale, width, depth)
        return [("lengthscale", scales), ("shape", self.shape), ("variance", self.variance)]


class Periodic(LeafKernel):
    """k = variance exp(-2 sum_j sin^2(pi (x_j - z_j) / period) / lengthscale_j^2).

    Args:
        period: in the units of the inputs.
        lengthscale: relative to one turn; one, or one for each input; None: sqrt(d).
        variance: prior variance of the function.
    """

    operation = prog.PERIODIC
    lengths = ("period",)

    def __init__(self, period: float = 1.0, lengthscale: Lengthscale = None, variance: float = 1.0) -> None:
        self.period = number("period", period, above=0)
        self.lengthscale = _lengthscale(lengthscale)
        self.variance = number("variance", variance, above=0)

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        scales = resolve_lengthscale(self.lengthscale, width, depth)
        return [("lengthscale", scales), ("period", self.period), ("variance", self.variance)]


class LinearKernel(LeafKernel):
    """k(x, z) = variance x'z: linear functions with independent weights of that variance.

    Args:
        variance: prior variance of each weight.
    """

    operation = prog.LINEAR

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = number("variance", variance, above=0)

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        return [("variance", self.variance)]

"""Kernels of one input vector: stationary ones and the linear one."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import numpy as np

from streamgp.kernels import program as prog
from streamgp.kernels.algebra import START, Constant, Kernel, LeafKernel
from streamgp.settings import FloatArray, Setting, duration, positive_vector
from streamgp.vocabulary import INPUTS, Factors, Lengthscale, Variance, positive

__all__ = ["Constant", "LinearKernel", "Matern", "Periodic", "RationalQuadratic", "SquaredExponential"]


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


def resolve_factors(factors: Any, lengthscale: FloatArray, d: int) -> list[tuple[str, float | FloatArray]]:
    """The loadings (d, k) by name, if there are any: given, or k of them."""
    if factors is None:
        return []
    rows, k = (d, factors) if isinstance(factors, int) else factors.shape
    if rows != d or k > d:
        raise ValueError(
            f"factors has loadings of shape ({rows}, {k}), but the inputs have {d} columns; "
            f"give loadings of shape ({d}, k) with k from 1 to {d}, or the number k"
        )
    if isinstance(factors, int):  # not 0, where the gradient vanishes
        factors = START * np.random.default_rng(0).standard_normal((d, k)) / np.resize(lengthscale, d)[:, None]
    return [("factors", factors)]


class _Stationary(LeafKernel):
    lengthscale: FloatArray | None
    factors: Any  # loadings (d, k), their number k, or None
    variance: float

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        scales = resolve_lengthscale(self.lengthscale, width, depth)
        loadings = resolve_factors(self.factors, scales, width // depth)
        return [("lengthscale", scales), *self._own(), ("variance", self.variance), *loadings]

    def _own(self) -> list[tuple[str, float | FloatArray]]:
        """What else the kernel has."""
        return []


def scales_of(value: Any) -> FloatArray | None:
    if isinstance(value, str | dt.timedelta | np.timedelta64):
        value = duration("lengthscale", value)
    return None if value is None else positive_vector("lengthscale", value)


class SquaredExponential(_Stationary):
    """k(x, z) = variance exp(-1/2 sum_j (x_j - z_j)^2 / lengthscale_j^2).

    With factors, directions across the inputs count too: each adds the square of its projection of x - z.

    Example:
        >>> import streamgp as sg
        >>> float(sg.SquaredExponential(2.0)([[0.0]], [[2.0]])[0, 0].round(4))
        0.6065
    """

    operation = prog.SE

    def __init__(self, lengthscale: Lengthscale = None, *, variance: Variance = 1.0, factors: Factors = None) -> None:
        self.lengthscale, self.variance, self.factors = scales_of(lengthscale), variance, factors


class Matern(_Stationary):
    """The Matern kernel of order 1/2, 3/2 or 5/2, in the distance scaled by the lengthscales."""

    def __init__(
        self,
        order: Annotated[float, Setting("0.5 (rough), 1.5 or 2.5 (twice differentiable)")] = 2.5,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        factors: Factors = None,
    ) -> None:
        operations = {0.5: prog.MATERN12, 1.5: prog.MATERN32, 2.5: prog.MATERN52}
        if order not in operations:
            raise ValueError(f"order must be 0.5, 1.5 or 2.5; got {order!r}")
        self.order = order
        self.operation = operations[order]
        self.lengthscale, self.variance, self.factors = scales_of(lengthscale), variance, factors


class RationalQuadratic(_Stationary):
    """k = variance (1 + r^2 / (2 shape))^-shape: a scale mixture of squared exponentials."""

    operation = prog.RATIONAL_QUADRATIC

    def __init__(
        self,
        shape: Annotated[
            float, Setting("small: many scales at once; large: the squared exponential", check=positive)
        ] = 1.0,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        factors: Factors = None,
    ) -> None:
        self.shape = shape
        self.lengthscale, self.variance, self.factors = scales_of(lengthscale), variance, factors

    def _own(self) -> list[tuple[str, float | FloatArray]]:
        return [("shape", self.shape)]


class Periodic(LeafKernel):
    """k = variance exp(-2 sum_j sin^2(pi (x_j - z_j) / period) / lengthscale_j^2)."""

    operation = prog.PERIODIC
    lengths = ("period",)

    def __init__(
        self,
        period: Annotated[float | str, Setting("length of one turn", INPUTS, duration)] = 1.0,
        *,
        lengthscale: Annotated[
            Lengthscale, Setting("relative to one turn; one, or one for each input; None: sqrt(d)", "turns")
        ] = None,
        variance: Variance = 1.0,
    ) -> None:
        self.period = float(period)
        self.lengthscale, self.variance = scales_of(lengthscale), variance

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        scales = resolve_lengthscale(self.lengthscale, width, depth)
        return [("lengthscale", scales), ("period", self.period), ("variance", self.variance)]


class LinearKernel(LeafKernel):
    """k(x, z) = variance x'z: linear functions with independent weights of that variance."""

    operation = prog.LINEAR

    def __init__(self, variance: Annotated[Variance, Setting("prior variance of each weight")] = 1.0) -> None:
        self.variance = variance

    def _hyperparameters(self, width: int, depth: int) -> list[tuple[str, float | FloatArray]]:
        return [("variance", self.variance)]


def described_kernel(kernel: Kernel, default: Kernel = SquaredExponential(), **short: Any) -> Kernel:
    """The kernel that is given, or the default with the hyperparameters given in short; both at once are refused."""
    given = {name: value for name, value in short.items() if value is not None}
    if given and kernel != default:
        raise ValueError(
            f"the kernel is given twice: as kernel={kernel!r} and in short, "
            f"{', '.join(f'{name}={value!r}' for name, value in given.items())}; "
            f"put {' and '.join(given)} into the kernel"
        )
    return default.replaced(**given) if given else kernel

"""The kernels that there are: stationary ones, one over windows, and the linear one."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import numpy as np

from streamgp.kernels import program as prog
from streamgp.kernels.algebra import START, Kernel, LeafKernel
from streamgp.settings import FloatArray, Setting, duration, positive_vector
from streamgp.vocabulary import INPUTS, Factors, Lengthscale, TemporalLengthscale, Variance, positive


class _Stationary(LeafKernel):
    lengthscale: FloatArray | None
    factors: Any = None  # loadings (d, k), their number k, or None
    by_lag = True  # whether a lengthscale of its own for each lag is possible

    def bound(self, width: int, depth: int) -> dict[str, FloatArray]:
        d = width // depth
        scales = self._scales(d, depth)
        return {"lengthscale": scales} | super().bound(width, depth) | self._loadings(scales, d)

    def _scales(self, d: int, depth: int) -> FloatArray:
        """One lengthscale, one for each input (the same at every lag) or one for each input and lag."""
        if self.lengthscale is None:
            return np.array([np.sqrt(d)])  # the distance of two points of unit variance grows with sqrt(d)
        allowed = {1, d, d * depth} if self.by_lag else {1, d}
        if self.lengthscale.size not in allowed:
            sizes = ", ".join(str(size) for size in sorted(allowed))
            raise ValueError(
                f"lengthscale has {self.lengthscale.size} values, but the inputs have {d} columns"
                + (f" at {depth} lags" if depth > 1 else "")
                + f"; give one of these numbers of values: {sizes}"
            )
        return self.lengthscale

    def _loadings(self, scales: FloatArray, d: int) -> dict[str, FloatArray]:
        """The loadings (d, k), if there are any: given, or k of them."""
        if self.factors is None:
            return {}
        rows, k = (d, self.factors) if isinstance(self.factors, int) else self.factors.shape
        if rows != d or k > d:
            raise ValueError(
                f"factors has loadings of shape ({rows}, {k}), but the inputs have {d} columns; "
                f"give loadings of shape ({d}, k) with k from 1 to {d}, or the number k"
            )
        if not isinstance(self.factors, int):
            return {"factors": self.factors}
        draws = np.random.default_rng(0).standard_normal((d, k))  # not 0, where the gradient vanishes
        return {"factors": START * draws / np.resize(scales, d)[:, None]}


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
    own = ("shape",)

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


class Periodic(_Stationary):
    """k = variance exp(-2 sum_j sin^2(pi (x_j - z_j) / period) / lengthscale_j^2)."""

    operation = prog.PERIODIC
    own = lengths = ("period",)

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


class RecursiveSquaredExponential(_Stationary):
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
    own = ("temporal_lengthscale",)
    by_lag = False

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


class LinearKernel(LeafKernel):
    """k(x, z) = variance x'z: linear functions with independent weights of that variance."""

    operation = prog.LINEAR

    def __init__(self, variance: Annotated[Variance, Setting("prior variance of each weight")] = 1.0) -> None:
        self.variance = variance


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

"""A fitted GaussianProcessRegressor of scikit-learn that keeps learning."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.batch.exact import FullGP
from streamgp.kernels import (
    Constant,
    Kernel,
    LinearKernel,
    Matern,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    scaled,
)
from streamgp.recipes.soh2014 import SOGP
from streamgp.settings import FloatArray

LARGEST_POWER = 8


def from_sklearn(regressor: Any, capacity: int | None = None) -> SOGP:
    """Return a stream model with the kernel and the posterior of a fitted ``GaussianProcessRegressor``.

    Args:
        regressor: the fitted regressor; it stays as it is.
        capacity: most basis points; None: room for every row of the fit, and none more. With less than that the scores
            of the basis points decide which stay, and a warning says what it costs.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from sklearn.gaussian_process import GaussianProcessRegressor
        >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> fitted = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.01), optimizer=None).fit(X, np.sin(X[:, 0]))
        >>> model = sg.from_sklearn(fitted)
        >>> bool(abs(model.predict_one([1.5]).mean - fitted.predict([[1.5]])[0]) < 1e-6)
        True
        >>> model.learn_one([6.2], np.sin(6.2))
    """
    if not hasattr(regressor, "alpha") or not hasattr(regressor, "normalize_y"):
        raise TypeError(f"from_sklearn takes a GaussianProcessRegressor; got {type(regressor).__name__}")
    if not hasattr(regressor, "X_train_"):
        raise ValueError("the GaussianProcessRegressor is not fitted: call its fit(X, y) first")
    X, Y = np.asarray(regressor.X_train_, dtype=np.float64), np.asarray(regressor.y_train_, dtype=np.float64)
    if np.ndim(regressor.alpha) > 0:
        raise ValueError(
            "alpha differs from row to row, which says nothing about rows to come: fit with one alpha, or build a "
            "SOGP and learn the rows with learn_many(X, y, noise=alpha)"
        )
    shift, unit = np.ravel(regressor._y_train_mean), np.ravel(regressor._y_train_std)
    if np.ptp(shift) > 0 or np.ptp(unit) > 0:
        raise ValueError("normalize_y scales each output otherwise, and outputs share one kernel here: fit each alone")
    found = _kernel(regressor.kernel_, X.shape[1])
    if found.kernel is None:
        raise ValueError(f"the kernel {regressor.kernel_} is noise alone: there is no function to learn")
    square, offset = float(unit[0]) ** 2, float(shift[0])
    noise = square * (found.noise + float(regressor.alpha))
    batch = FullGP(scaled(found.kernel, square), noise=noise, mean=offset or None)
    return batch.fit(X, Y * float(unit[0]) + offset).online(capacity)


class _Found(NamedTuple):
    """What a kernel of scikit-learn is: a kernel or None, and white noise."""

    kernel: Kernel | None
    noise: float = 0.0


def _kernel(source: Any, width: int) -> _Found:
    name = type(source).__name__
    if name == "Sum":
        left, right = _kernel(source.k1, width), _kernel(source.k2, width)
        noise = left.noise + right.noise
        if left.kernel is None or right.kernel is None:
            return _Found(left.kernel or right.kernel, noise)
        return _Found(left.kernel + right.kernel, noise)
    if name == "Product":
        return _product(source, _kernel(source.k1, width), _kernel(source.k2, width))
    if name == "Exponentiation":
        return _power(source, _kernel(source.kernel, width))
    if name == "WhiteKernel":
        return _Found(None, float(source.noise_level))
    if name not in _LEAVES:
        raise ValueError(f"{name} has no counterpart here; known are {', '.join(sorted([*_LEAVES, *_COMBINED]))}")
    if name == "ExpSineSquared" and width > 1:  # its sine is of the distance, ours of every input
        raise ValueError(f"ExpSineSquared of {width} inputs has no counterpart here: it is known for one input")
    return _Found(_LEAVES[name](source))


def _product(source: Any, left: _Found, right: _Found) -> _Found:
    for one, other in ((left, right), (right, left)):
        if isinstance(one.kernel, Constant) and not one.noise:
            factor = float(one.kernel.variance)
            return _Found(None if other.kernel is None else scaled(other.kernel, factor), factor * other.noise)
    if left.kernel is None or right.kernel is None or left.noise or right.noise:
        raise ValueError(f"{source} multiplies white noise with a kernel: only a constant may be its factor here")
    return _Found(left.kernel * right.kernel)


def _power(source: Any, base: _Found) -> _Found:
    exponent = float(source.exponent)
    if exponent not in range(1, LARGEST_POWER + 1) or base.noise or base.kernel is None:
        raise ValueError(
            f"{source} is a power that is no product of kernels: the exponent must be a whole number from 1 to "
            f"{LARGEST_POWER}, without white noise in the kernel"
        )
    kernel = base.kernel
    for _ in range(int(exponent) - 1):
        kernel = kernel * base.kernel
    return _Found(kernel)


def _lengthscale(source: Any) -> FloatArray:
    return np.atleast_1d(np.asarray(source.length_scale, dtype=np.float64))


def _matern(source: Any) -> Kernel:
    if source.nu == np.inf:
        return SquaredExponential(_lengthscale(source))
    if source.nu not in (0.5, 1.5, 2.5):
        raise ValueError(f"Matern of order nu={source.nu:g} has no counterpart here: orders are 0.5, 1.5, 2.5 and inf")
    return Matern(source.nu, lengthscale=_lengthscale(source))


def _periodic(source: Any) -> Kernel:
    return Periodic(float(source.periodicity), lengthscale=_lengthscale(source))


def _dot_product(source: Any) -> Kernel:
    linear = LinearKernel(1.0)
    return linear if source.sigma_0 == 0 else Constant(float(source.sigma_0) ** 2) + linear


_COMBINED = ("WhiteKernel", "Sum", "Product", "Exponentiation")
_LEAVES = {
    "RBF": lambda source: SquaredExponential(_lengthscale(source)),
    "Matern": _matern,
    "RationalQuadratic": lambda source: RationalQuadratic(float(source.alpha), lengthscale=_lengthscale(source)),
    "ExpSineSquared": _periodic,
    "DotProduct": _dot_product,
    "ConstantKernel": lambda source: Constant(float(source.constant_value)),
}

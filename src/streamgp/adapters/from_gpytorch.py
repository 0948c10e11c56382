"""A trained Gaussian process of GPyTorch that keeps learning."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

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
from streamgp.recipes.huber2013 import RecursiveGP
from streamgp.recipes.soh2014 import SOGP
from streamgp.settings import FloatArray


def from_gpytorch(model: Any, likelihood: Any = None, capacity: int | None = None) -> SOGP | RecursiveGP:
    """Return a stream model with the kernel and the posterior of a model of GPyTorch.

    An ``ExactGP`` becomes a SOGP that has learned its rows; an ``ApproximateGP`` becomes a RecursiveGP on its inducing
    points, whose posterior is q(u).

    Args:
        model: the trained model; it stays as it is.
        likelihood: its Gaussian likelihood; None: that of an ExactGP.
        capacity: most basis points of what was an ExactGP; None: room for every row, and none more. With less than that
            the scores of the basis points decide which stay, and a warning says what it costs.
    """
    likelihood = getattr(model, "likelihood", None) if likelihood is None else likelihood
    if not hasattr(likelihood, "noise") or type(likelihood).__name__ != "GaussianLikelihood":
        raise ValueError(f"a GaussianLikelihood is needed; got {type(likelihood).__name__}")
    noise = float(_array(likelihood.noise).item())
    kernel, mean = _module(model, "covar_module"), _module(model, "mean_module")
    prior = _mean(mean)
    if hasattr(model, "variational_strategy"):
        if capacity is not None:
            raise ValueError("the basis points of an ApproximateGP are its inducing points: leave capacity out")
        return _variational(model.variational_strategy, kernel, noise, prior)
    if getattr(model, "train_inputs", None) is None:
        raise TypeError(f"from_gpytorch takes an ExactGP with its rows or an ApproximateGP; got {type(model).__name__}")
    X, Y = _array(model.train_inputs[0]), _array(model.train_targets)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or Y.ndim != 1:
        raise ValueError(
            f"rows of shape {X.shape} and targets of shape {Y.shape}: batches and tasks have no counterpart"
        )
    return FullGP(_kernel(kernel, X.shape[1]), noise=noise, mean=prior or None).fit(X, Y).online(capacity)


def _variational(strategy: Any, kernel: Any, noise: float, prior: float) -> RecursiveGP:
    kind = type(strategy).__name__
    if kind not in ("VariationalStrategy", "UnwhitenedVariationalStrategy"):
        raise ValueError(f"{kind} has no counterpart here; known are VariationalStrategy and its unwhitened form")
    points, q = _array(strategy.inducing_points), strategy.variational_distribution
    if points.ndim != 2:
        raise ValueError(f"inducing points of shape {points.shape}: batches have no counterpart")
    own = _kernel(kernel, points.shape[1])
    variances = own.diagonal(points)
    if np.ptp(variances) > 1e-12 * variances.max():
        raise ValueError("the jitter of a variational model is the same everywhere: so must be its kernel's variance")
    jitter = float(strategy.jitter_val) / float(variances[0])
    mean, covariance = _array(q.mean), _array(q.covariance_matrix)
    if kind == "VariationalStrategy":  # q is of L^-1 (u - mean), K = L L'
        L = np.linalg.cholesky(own(points) + jitter * np.diag(variances))
        mean, covariance = L @ mean + prior, L @ covariance @ L.T
    model = RecursiveGP(points, kernel=own, noise=noise, jitter=jitter, mean=prior or None)
    model.start_from(mean, covariance)
    return model


def _array(tensor: Any) -> FloatArray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _module(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        raise ValueError(f"the model has no {name}: that is where its prior is looked for, as in GPyTorch's examples")
    return getattr(model, name)


def _mean(module: Any) -> float:
    name = type(module).__name__
    if name not in ("ZeroMean", "ConstantMean"):
        raise ValueError(f"{name} has no counterpart here; known are ZeroMean and ConstantMean")
    return float(_array(module.constant).item()) if name == "ConstantMean" else 0.0


def _kernel(source: Any, width: int) -> Kernel:
    name = type(source).__name__
    if getattr(source, "active_dims", None) is not None and source.active_dims.numel() != width:
        raise ValueError(f"{name} with active_dims sees some of the inputs only, which has no counterpart here")
    if len(source.batch_shape) > 0:
        raise ValueError(f"{name} of batch_shape {tuple(source.batch_shape)} has no counterpart here")
    if name == "ScaleKernel":
        return scaled(_kernel(source.base_kernel, width), float(_array(source.outputscale).item()))
    if name in ("AdditiveKernel", "ProductKernel"):
        combine = operator.add if name == "AdditiveKernel" else operator.mul
        return reduce(combine, (_kernel(one, width) for one in source.kernels))
    if name not in _LEAVES:
        raise ValueError(f"{name} has no counterpart here; known are {', '.join(sorted([*_LEAVES, *_COMBINED]))}")
    return _LEAVES[name](source)


def _lengthscale(source: Any) -> FloatArray:
    return _array(source.lengthscale).ravel()


def _matern(source: Any) -> Kernel:
    return Matern(source.nu, lengthscale=_lengthscale(source))


def _periodic(source: Any) -> Kernel:
    periods = _array(source.period_length).ravel()
    if np.ptp(periods) > 0:
        raise ValueError("PeriodicKernel has a period for each input, which has no counterpart here")
    return Periodic(float(periods[0]), lengthscale=np.sqrt(_lengthscale(source)))  # its lengthscale is a square


def _linear(source: Any) -> Kernel:
    variances = _array(source.variance).ravel()
    if np.ptp(variances) > 0:
        raise ValueError("LinearKernel has a variance for each input, which has no counterpart here")
    return LinearKernel(float(variances[0]))


_COMBINED = ("ScaleKernel", "AdditiveKernel", "ProductKernel")
_LEAVES = {
    "RBFKernel": lambda source: SquaredExponential(_lengthscale(source)),
    "MaternKernel": _matern,
    "RQKernel": lambda source: RationalQuadratic(float(_array(source.alpha).item()), lengthscale=_lengthscale(source)),
    "PeriodicKernel": _periodic,
    "LinearKernel": _linear,
    "ConstantKernel": lambda source: Constant(float(_array(source.constant).item())),
}

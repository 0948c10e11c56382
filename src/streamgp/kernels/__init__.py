"""Covariance functions: values that add and multiply, evaluated and differentiated by one compiled program."""

from streamgp.kernels.algebra import Kernel, Product, Sum
from streamgp.kernels.recursive import RecursiveSquaredExponential
from streamgp.kernels.stationary import (
    Constant,
    LinearKernel,
    Matern,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
)

__all__ = [
    "Constant",
    "Kernel",
    "LinearKernel",
    "Matern",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "RecursiveSquaredExponential",
    "SquaredExponential",
    "Sum",
]

"""Covariance functions: values that add and multiply, evaluated and differentiated by one compiled program."""

from streamgp.kernels.algebra import Constant, Kernel, KernelSetting, Product, Sum, scaled
from streamgp.kernels.stationary import (
    LinearKernel,
    Matern,
    Periodic,
    RationalQuadratic,
    RecursiveSquaredExponential,
    SquaredExponential,
    described_kernel,
)
from streamgp.kernels.temporal import Trend

__all__ = [
    "Constant",
    "Kernel",
    "KernelSetting",
    "LinearKernel",
    "Matern",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "RecursiveSquaredExponential",
    "SquaredExponential",
    "Sum",
    "Trend",
    "described_kernel",
    "scaled",
]

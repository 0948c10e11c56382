"""What every kernel can do, and how kernels combine."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from streamgp.kernels import program as prog
from streamgp.kernels.program import Program
from streamgp.settings import FloatArray, Part, Setting
from streamgp.vocabulary import Variance

# Size of the loadings that a search starts from, relative to 1 / lengthscale.
START = 0.3


class Kernel(Part, abc.ABC):
    """A covariance function k(x, z).

    Kernels add and multiply: ``a + b``, ``a * b``, ``2.0 * a``. Inputs are arrays (n, d), or windows (n, depth, d) with
    the oldest input first, as a :class:`streamgp.Window` keeps them.

    Example:
        >>> import streamgp as sg
        >>> k = sg.SquaredExponential(lengthscale=2.0) + 0.1 * sg.LinearKernel()
        >>> k([[0.0], [1.0]]).shape
        (2, 2)
    """

    operation: int

    @abc.abstractmethod
    def postfix(self, prefix: str = "") -> Iterator[tuple[str, Kernel]]:
        """The leaves, with the prefix of their hyperparameters' names, and what joins them, in postfix order."""

    def leaves(self) -> list[tuple[str, LeafKernel]]:
        """The leaves with the prefix of their hyperparameters' names."""
        return [(prefix, one) for prefix, one in self.postfix() if isinstance(one, LeafKernel)]

    def values(self, width: int, depth: int = 1) -> FloatArray:
        """The hyperparameters as a vector, bound to inputs of this many numbers, depth * d for windows."""
        return np.concatenate([np.ravel(v) for _, leaf in self.leaves() for v in leaf.bound(width, depth).values()])

    def program(self, width: int, depth: int = 1) -> Program:
        """Bind to inputs of this many numbers, depth * d for windows."""
        operations, first = [], 0
        for _, one in self.postfix():
            named = one.bound(width, depth) if isinstance(one, LeafKernel) else {}
            scales, factors = named.get("lengthscale", np.empty(0)), named.get("factors", np.empty((0, 0)))
            operations.append((one.operation, first, scales.size, depth, factors.shape[1]))
            first += sum(value.size for value in named.values())
        return Program(np.array(operations, dtype=np.int64), self.values(width, depth))

    def hyperparameters(self, values: FloatArray, width: int, depth: int = 1) -> dict[str, float | FloatArray]:
        """Name the entries of a program's hyperparameter vector."""
        return {
            prefix + name: float(part[0]) if part.shape == (1,) else part
            for prefix, _, named in self._by_leaf(values, width, depth)
            for name, part in named.items()
        }

    def _by_leaf(
        self, values: FloatArray, width: int, depth: int
    ) -> Iterator[tuple[str, LeafKernel, dict[str, FloatArray]]]:
        """The prefix of each leaf's names, the leaf, and its part of a program's hyperparameter vector by name."""
        first = 0
        for prefix, leaf in self.leaves():
            named = {}
            for name, own in leaf.bound(width, depth).items():
                named[name] = np.array(values[first : first + own.size]).reshape(own.shape)
                first += own.size
            yield prefix, leaf, named

    def input_lengths(self, X: Any) -> FloatArray:
        """How far the inputs spread, for each hyperparameter that is a length in their units; NaN for the others.

        A lengthscale for all of d columns belongs to distances in all of them: sqrt(d) for columns of unit variance.
        """
        X, depth = _points("X", X)
        width, spread2 = X.shape[1], np.var(X, axis=0)
        found: list[float] = []
        for _, leaf in self.leaves():
            for name, value in leaf.bound(width, depth).items():
                size = value.size
                columns = max(1.0, width / depth / size)
                own = [np.sqrt(columns * np.mean(spread2[j::size])) for j in range(size)]
                found += own if name in leaf.lengths else [np.nan] * size
        return np.array(found)

    def relevance(self, values: FloatArray, width: int, depth: int = 1) -> tuple[FloatArray, float]:
        """1 / lengthscale of each of the width numbers, summed over the leaves, and the memory length in steps.

        With factors, 1 / lengthscale is the square root of the diagonal of Lambda Lambda' + diag(lengthscale)^-2: by it
        the distance grows along the input.
        """
        weights, steps = np.zeros(width), 1.0
        for _, leaf, named in self._by_leaf(values, width, depth):
            if "lengthscale" in named:
                loadings2 = np.sum(named.get("factors", np.zeros((1, 1))) ** 2, axis=1)
                weights += np.sqrt(np.resize(named["lengthscale"] ** -2.0, width) + np.resize(loadings2, width))
                steps = max(steps, leaf.memory_length(named, depth))
        if not weights.any():
            raise ValueError("this kernel has no lengthscales, so it cannot say how relevant its inputs are")
        return weights, steps

    def with_values(self, values: FloatArray, width: int, depth: int = 1) -> Kernel:
        """Return the same kernel with the hyperparameters of such a vector."""
        named = self.hyperparameters(values, width, depth)
        return self.replaced(**{name.replace(".", "__"): value for name, value in named.items()})

    def __call__(self, X: Any, Z: Any = None) -> FloatArray:
        """Return the matrix k(X, Z); Z defaults to X, and then the matrix is symmetric to the last bit."""
        X, depth = _points("X", X)
        symmetric = Z is None
        Z, _ = (X, depth) if symmetric else _points("Z", Z, X.shape[1])
        K = self.program(X.shape[1], depth).between(X, Z)
        # k(x, z) and k(z, x) may be computed by different instructions, which round differently.
        return np.tril(K) + np.tril(K, -1).T if symmetric else K

    def diagonal(self, X: Any) -> FloatArray:
        """Return k(x, x) for every row of X."""
        X, depth = _points("X", X)
        return self.program(X.shape[1], depth).diagonal(X)[0]

    def weighted_gradient(self, W: Any, X: Any, Z: Any = None) -> FloatArray:
        """Return sum_ij W_ij d k(x_i, z_j) / d log(hyperparameter) without holding the gradients of all pairs.

        Args:
            W: (n, m) weights; without Z they are symmetric, and only the lower triangle is read.
            X: n points.
            Z: m points; None: X.
        """
        X, depth = _points("X", X)
        triangle = Z is None
        Z, _ = (X, depth) if triangle else _points("Z", Z, X.shape[1])
        W = _weights(W, (X.shape[0], Z.shape[0]))
        W = np.tril(W) + np.tril(W, -1) if triangle else W
        return self.program(X.shape[1], depth).weighted_gradient(W, X, Z, triangle)

    def weighted_diagonal_gradient(self, w: Any, X: Any) -> FloatArray:
        """Return sum_i w_i d k(x_i, x_i) / d log(hyperparameter)."""
        X, depth = _points("X", X)
        w = _weights(w, (X.shape[0],))
        return self.program(X.shape[1], depth).diagonal(X)[1] @ w  # type: ignore[no-any-return]

    def __add__(self, other: Kernel) -> Kernel:
        return Sum(self, _as_kernel(other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        return Product(self, _as_kernel(other))

    def __radd__(self, other: float) -> Kernel:
        return Sum(_as_kernel(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return Product(_as_kernel(other), self)


class LeafKernel(Kernel):
    """A kernel that is not built of others: an operation and its own hyperparameters."""

    lengths: tuple[str, ...] = ("lengthscale",)  # hyperparameters in the units of the inputs
    own: tuple[str, ...] = ()  # hyperparameters before the variance, which every leaf has
    variance: float

    def postfix(self, prefix: str = "") -> Iterator[tuple[str, Kernel]]:
        yield prefix, self

    def memory_length(self, named: dict[str, FloatArray], depth: int) -> float:
        """How many of the last inputs count: without recursion all that the window holds."""
        return float(depth)

    def bound(self, width: int, depth: int) -> dict[str, FloatArray]:
        """The hyperparameters by name, bound to the width of the inputs, in the order of the program."""
        return {name: np.atleast_1d(getattr(self, name)).astype(np.float64) for name in (*self.own, "variance")}


class _Pair(Kernel):
    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left, self.right = _as_kernel(left), _as_kernel(right)

    def postfix(self, prefix: str = "") -> Iterator[tuple[str, Kernel]]:
        yield from self.left.postfix(f"{prefix}left.")
        yield from self.right.postfix(f"{prefix}right.")
        yield prefix, self


class Sum(_Pair):
    """k(x, z) = left(x, z) + right(x, z)."""

    operation = prog.SUM


class Product(_Pair):
    """k(x, z) = left(x, z) * right(x, z)."""

    operation = prog.PRODUCT


class Constant(LeafKernel):
    """k(x, z) = variance: an unknown offset; as a factor, a scale."""

    operation = prog.CONSTANT

    def __init__(self, variance: Variance = 1.0) -> None:
        self.variance = variance


def scaled(kernel: Kernel, factor: float) -> Kernel:
    """The kernel times a number, which goes into its variances."""
    if isinstance(kernel, Sum):
        return Sum(scaled(kernel.left, factor), scaled(kernel.right, factor))
    if isinstance(kernel, Product):
        return Product(scaled(kernel.left, factor), kernel.right)
    leaf: Any = kernel
    return kernel.replaced(variance=factor * leaf.variance)


def _checked(name: str, value: Any) -> Kernel:
    if not isinstance(value, Kernel):
        raise TypeError(f"{name} must be a kernel such as SquaredExponential(lengthscale=1.0); got {value!r}")
    refuse_overrides(value)
    return value


def refuse_overrides(kernel: Kernel) -> None:
    """Refuse a subclass of somebody else's that overrides a method: models run the program of a kernel, compiled."""
    for _, one in kernel.postfix():
        kinds = type(one).__mro__
        ours = [kind for kind in kinds if kind.__module__.startswith("streamgp.kernels.")]
        for name in (name for kind in ours for name, value in vars(kind).items() if inspect.isfunction(value)):
            first = next(kind for kind in kinds if name in vars(kind))
            if first not in ours and (name == "__call__" or not name.startswith("__")):
                raise TypeError(
                    f"{type(one).__name__} overrides {name} of {ours[0].__name__}, which models do not call, so that "
                    f"they would run {ours[0].__name__}. Use a sum or a product of the kernels there are, such as "
                    "Matern(1.5) + 0.1 * LinearKernel(), or learn features of your own with Linear()"
                )


KernelSetting = Annotated[Kernel, Setting("covariance function", check=_checked)]


def _as_kernel(value: Any) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Constant(float(value))
    raise TypeError(f"expected a kernel or a positive number, got {value!r}; for example SquaredExponential(1.0)")


def _points(name: str, value: Any, width: int | None = None) -> tuple[NDArray[np.float64], int]:
    points = np.array(value, dtype=np.float64, order="C")
    if points.ndim not in (2, 3):
        raise ValueError(f"{name} must have shape (n, d), or (n, depth, d) for windows; got {points.shape}")
    depth = points.shape[1] if points.ndim == 3 else 1
    points = points.reshape(points.shape[0], -1)
    if width is not None and points.shape[1] != width:
        raise ValueError(f"{name} must have {width} numbers a row, as X has; got {points.shape[1]}")
    return points, depth


def _weights(value: Any, shape: tuple[int, ...]) -> FloatArray:
    weights = np.ascontiguousarray(value, dtype=np.float64)
    if weights.shape != shape:
        raise ValueError(f"the weights must have shape {shape}, one for each pair of points; got {weights.shape}")
    return weights

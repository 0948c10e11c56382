"""What every batch model can do: fit a whole data set, predict, and tell how likely the data are."""

from __future__ import annotations

import abc
import copy
from functools import partial
from typing import Any, Self

import numpy as np

from streamgp.batch.evidence import Evidence, Maximum, Objective, checked
from streamgp.compiled import compile_now
from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.contract.prediction import Prediction
from streamgp.kernels import Kernel, described_kernel
from streamgp.kernels.algebra import START
from streamgp.settings import Configured, FloatArray

Hyperparameters = dict[str, float | FloatArray]


class BatchModel(Configured, abc.ABC):
    """A model that is given all its data at once: a baseline for stream models, and a way to their hyperparameters.

    Several outputs share the hyperparameters and one covariance; their log marginal likelihoods add.
    """

    maximum: Maximum | None = None  # where the last maximization ended; None when nothing was maximized

    _shape: tuple[int, ...] | None = None  # of one input: (d,) or (depth, d); None before fit
    _scalar: bool = True  # targets are numbers, not lists of numbers
    _outputs: int = 1
    _fitted: Hyperparameters | None = None
    _solution: Any = None

    @abc.abstractmethod
    def _start(self, X: FloatArray) -> Hyperparameters:
        """The hyperparameters to start from, bound to the width of the inputs; and ``also_tuned``, if it is."""

    also_tuned: str = ""

    def _units(self, named: Hyperparameters, X: FloatArray) -> FloatArray:
        """What each of them is measured in that has any sign; 0 where it is positive and moves by its logarithm."""
        return np.concatenate([np.full(np.size(one), float(name == self.also_tuned)) for name, one in named.items()])

    def _redrawn(self, count: int, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Those of any sign for a further start, in their units."""
        return START * rng.standard_normal(count)

    @abc.abstractmethod
    def _solve(self, named: Hyperparameters, X: FloatArray, Y: FloatArray) -> Any:
        """All that predictions and gradients need; its ``value`` is the log marginal likelihood."""

    @abc.abstractmethod
    def _gradient(self, solution: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Of the log marginal likelihood, by the logarithms of positive parameters, by the others themselves."""

    @abc.abstractmethod
    def _predict(self, solution: Any, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (n, p) and latent variances (n,)."""

    def fit(self, X: Any, Y: Any, evidence: Evidence | None = None) -> Self:
        """Learn all rows, in place of any learned before.

        Args:
            X: (n, d) rows, or (n, depth, d) windows with the oldest input first.
            Y: (n,) or (n, p) targets; none may be missing.
            evidence: how to maximize the log marginal likelihood over the hyperparameters; None: they stay as given.
        """
        search = None if evidence is None else checked(evidence)
        X, Y, scalar = _checked_data(X, Y)
        objective = self.objective(X, Y)
        maximum = None if search is None else search.maximize(objective)
        values = objective.values(objective.start if maximum is None else maximum.coordinates)
        fitted = _named(self._start(X), values)
        try:
            solution = self._solve(fitted, X, Y)
        except np.linalg.LinAlgError:
            raise ValueError(
                "a covariance is not positive definite: rows or points lie too close together for this kernel. "
                "Raise the noise or the jitter, or shorten the lengthscale."
            ) from None
        self._solution, self.maximum, self._fitted = solution, maximum, fitted
        self._shape, self._scalar, self._outputs = X.shape[1:], scalar, Y.shape[1]
        return self

    def predict(self, X: Any) -> Prediction:
        """Predict the targets of rows: (n,) or (n, p), as the targets were.

        Args:
            X: (n, d) rows, or (n, depth, d) windows.
        """
        solution = self._learned()
        X = _checked_points(X, self._shape)
        if len(X) == 0:
            empty = np.empty(0 if self._scalar else (0, self._outputs))
            return Prediction(empty, empty.copy(), empty.copy())
        try:
            mean, variance = self._predict(solution, X)
        except np.linalg.LinAlgError:
            raise ValueError(
                "a covariance of the rows to predict is not positive definite: they lie too close together for this "
                "kernel. Use jitter=1e-6, or predict fewer of them together."
            ) from None
        noise = np.full(len(X), self.hyperparameters["noise"])
        if self._scalar:
            return Prediction(mean[:, 0], variance, noise)
        return Prediction(mean, *(np.repeat(values[:, None], self._outputs, axis=1) for values in (variance, noise)))

    def log_marginal_likelihood(self) -> float:
        """Return the log marginal likelihood of the data that were fitted, summed over the outputs."""
        return float(self._learned().value)

    def objective(self, X: Any, Y: Any) -> Objective:
        """Return the log marginal likelihood of data and its gradient, as functions of the coordinates."""
        X, Y, _ = _checked_data(X, Y)
        start = self._start(X)
        values = np.concatenate([np.ravel(value) for value in start.values()])
        units = self._units(start, X)
        logs = units == 0

        def evaluate(coordinates: FloatArray) -> tuple[float, FloatArray]:
            solution = self._solve(_named(start, objective.values(coordinates)), X, Y)
            return solution.value, self._gradient(solution, X, Y) * np.where(logs, 1.0, units)

        objective = Objective(
            evaluate,
            start=np.where(logs, np.log(np.where(logs, values, 1.0)), values / np.where(logs, 1.0, units)),
            names=tuple(name for name, value in start.items() for _ in range(np.size(value))),
            logs=logs,
            redraw=partial(self._redrawn, int(np.sum(~logs)), X),
            units=units,
        )
        return objective

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters by name; before fit only those that do not depend on the inputs' width."""
        if self._fitted is None:
            return {"noise": self._settings["noise"]}
        return {name: copy.copy(value) for name, value in self._fitted.items() if name != self.also_tuned}

    def _learned(self) -> Any:
        if self._solution is None:
            raise ValueError(f"this {type(self).__name__} has learned nothing yet; call fit(X, Y) first")
        return self._solution


class KernelModel(BatchModel):
    """A batch model over a kernel and a noise."""

    _kernel: Kernel
    _noise: float
    _jitter: float

    def _compose(self, kernel: Kernel, lengthscale: Any, variance: Any, noise: float, jitter: float) -> None:
        self._kernel = described_kernel(kernel, lengthscale=lengthscale, variance=variance)
        self._noise, self._jitter = noise, jitter

    @property
    def kernel(self) -> Kernel:
        """The kernel with the present hyperparameters."""
        return self._kernel if self._solution is None else self._solution.kernel

    def _start(self, X: FloatArray) -> Hyperparameters:
        width, depth = extent(X)
        values = self._kernel.program(width, depth).parameters
        return self._kernel.hyperparameters(values, width, depth) | {"noise": self._noise}

    def _units(self, named: Hyperparameters, X: FloatArray) -> FloatArray:
        units, (width, depth) = super()._units(named, X), extent(X)
        program = self._bound(named, X)[0].program(width, depth)
        units[: program.parameters.size] = program.loading_units(width)
        return units

    def _kernel_values(self, named: Hyperparameters) -> FloatArray:
        return np.concatenate([np.ravel(one) for name, one in named.items() if name not in ("noise", self.also_tuned)])

    def _bound(self, named: Hyperparameters, X: FloatArray) -> tuple[Kernel, float]:
        return self._kernel.with_values(self._kernel_values(named), *extent(X)), float(named["noise"])


def extent(X: FloatArray) -> tuple[int, int]:
    """Numbers in one input, and its depth."""
    return int(np.prod(X.shape[1:])), X.shape[1] if X.ndim == 3 else 1


def _named(template: Hyperparameters, values: FloatArray) -> Hyperparameters:
    named: Hyperparameters = {}
    first = 0
    for name, value in template.items():
        part = values[first : first + np.size(value)]
        named[name] = float(part[0]) if np.ndim(value) == 0 else part.reshape(np.shape(value)).copy()
        first += part.size
    return named


def _checked_points(X: Any, shape: tuple[int, ...] | None) -> FloatArray:
    compile_now(check)
    if isinstance(X, np.ndarray) and X.ndim == 3:
        points = inputs.rows(X.reshape(len(X), extent(X)[0]), None).reshape(X.shape)
    else:
        points = inputs.rows(X, None)
    if shape is not None and points.shape[1:] != shape:
        if len(points) > 0:
            raise ValueError(f"X must have shape (n, {', '.join(map(str, shape))}), as in fit; got {points.shape}")
        points = np.empty((0, *shape))
    flat = points.reshape(len(points), extent(points)[0])
    inputs.refuse(*check(flat, flat[:0], True, np.inf), many=True)
    return points


def _checked_data(X: Any, Y: Any) -> tuple[FloatArray, FloatArray, bool]:
    X = _checked_points(X, None)
    if len(X) == 0:
        raise ValueError("X has no rows; a batch model needs at least one")
    Y, scalar = inputs.targets(Y, len(X), None, True)
    bad = np.flatnonzero(~np.all(np.isfinite(Y), axis=1))
    if bad.size:
        raise ValueError(f"Y has NaN or inf in row {bad[0]}: a batch model needs every target. Drop such rows first.")
    return X, Y, scalar

"""The prior mean: what is known of the function before any row. The process learns what is above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.kernels.temporal import DECAY, Block, Component
from streamgp.settings import FloatArray, Part, Setting, number, positive_vector, switch, whole

# Steps of central differences, in units of the input or of 1: their error is about the square of it.
STEP = float(np.finfo(np.float64).eps) ** (1.0 / 3.0)

Rows = Callable[[FloatArray], Any]


def _features(name: str, value: Any) -> Any:
    """None, a function, or a list of different columns."""
    if value is None or callable(value):
        return value
    if isinstance(value, str | float) or np.ndim(value) != 1 or np.size(value) == 0:
        raise TypeError(f"{name} must be a list of columns, a function of (n, d) rows, or None; got {value!r}")
    columns = [whole(name, column, at_least=0) for column in list(value)]
    if len(set(columns)) < len(columns):
        raise ValueError(f"{name} must be different columns; got {columns}")
    return columns


def _names(name: str, value: Any) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not all(isinstance(one, str) and one for one in value):
        raise TypeError(f"{name} must be a list of names, one for each weight, or None; got {value!r}")
    if len(set(value)) < len(value) or not value:
        raise ValueError(f"{name} must be different names, at least one; got {list(value)}")
    return list(value)


def _numbers(name: str, value: Any) -> FloatArray:
    """A finite number, or one for each weight, (k,), or for each weight and output, (k, p); (1 or k, 1 or p)."""
    try:
        given = np.asarray(value)
    except ValueError:  # lists of different lengths
        given = np.array("")
    if given.ndim > 2 or given.dtype.kind not in "iuf" or given.size == 0 or not np.all(np.isfinite(given)):
        raise ValueError(
            f"{name} must be a finite number, or one for each weight, or (weights, outputs); got {value!r}"
        )
    return given.astype(np.float64).reshape(max(given.shape[:1], default=1), -1)


def _function(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function of (n, d) rows, or None; got {value!r}")
    return value


class Weights(NamedTuple):
    """What is known of the weights of a LinearMean.

    Args:
        names: of the k weights.
        mean: (k,), or (k, p) of p outputs.
        covariance: (k, k); where outputs are separate (p, k, k).
    """

    names: list[str]
    mean: FloatArray
    covariance: FloatArray

    @property
    def std(self) -> FloatArray:
        """Standard deviations, as the means are shaped."""
        own = np.sqrt(np.maximum(np.einsum("...kk->...k", self.covariance), 0.0))
        return own if self.mean.ndim == 1 else np.broadcast_to(np.atleast_2d(own).T, self.mean.shape)


class LinearMean(Part):
    """A prior mean that is linear in weights which are learned: h(x)'w, for example of masses and frictions.

    The weights have a Gaussian prior of their own and are learned in the same posterior as the function above them, so
    that the model is the Gaussian process with the kernel k(x, x') + h(x)' diag(variance) h(x'). ``model.mean_weights``
    says what is known of them. Forgetting leaves them alone: they are constants.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> model = sg.SOGP(mean=sg.LinearMean(variance=100.0), variance=0.1)
        >>> x = np.linspace(0.0, 3.0, 50)
        >>> model.learn_many(x, 5.0 + 2.0 * x)
        >>> model.mean_weights.names, model.mean_weights.mean.round(1)
        (['constant', 'x0'], array([5., 2.]))
        >>> round(model.predict_one(10.0).mean)
        25
    """

    def __init__(
        self,
        features: Annotated[
            Rows | list[int] | None,
            Setting(
                "what the weights are multiplied with: None: every input; a list of columns; or a function of (n, d) "
                "rows that returns (n, k) numbers, with ``names``; a function is not saved: load(path, "
                "mean__features=f)",
                check=_features,
            ),
        ] = None,
        *,
        names: Annotated[
            list[str] | None,
            Setting('of the k weights; None, for inputs only: "constant", "x0", "x1", ...', "", _names),
        ] = None,
        constant: Annotated[
            bool, Setting("with inputs or columns: whether there is a weight of 1 in front, an intercept", "", switch)
        ] = True,
        start: Annotated[
            Any,
            Setting("prior mean of the weights: one number, or one for each, or (weights, outputs)", "", _numbers),
        ] = 0.0,
        variance: Annotated[
            Any,
            Setting("prior variance of the weights: one number, or one for each", "", positive_vector),
        ] = 1.0,
        gradient: Annotated[
            Rows | None,
            Setting(
                "with a function: another one that returns its derivatives by the inputs, (n, k, d), for "
                "``derivatives=True``; None: differences of it, with steps of 6e-6 times the input, or 6e-6 around 0",
                check=_function,
            ),
        ] = None,
    ) -> None:
        self.features, self.names, self.constant, self.gradient = features, names, constant, gradient
        self._start, self._scales = start, np.sqrt(variance)
        if gradient is not None and not callable(features):
            raise ValueError("gradient is of features that are a function; those of inputs are known: leave it out")
        if callable(features):
            if names is None:
                raise ValueError("features is a function, so names= says how many weights there are and what they are")
            self.labels(0)

    def labels(self, d: int) -> list[str]:
        """The names of the weights, for rows of d inputs; what does not go with them is refused."""
        names = self.names
        if not callable(self.features):
            columns = self._columns(d)
            if columns and max(columns) >= d:
                raise ValueError(
                    f"features of the mean has column {max(columns)}, but the rows have {d} inputs, 0 to {d - 1}"
                )
            own = ["constant"] * self.constant + [f"x{column}" for column in columns]
            if names is not None and len(names) != len(own):
                raise ValueError(f"names of the mean has {len(names)} names, but there are {len(own)} weights")
            names = names or own
        assert names is not None
        for name, given in (("start", self._start), ("variance", self._scales)):
            if len(given) not in (1, len(names)):
                raise ValueError(
                    f"{name} of the mean has {len(given)} values, but there are {len(names)} weights; give 1 or "
                    f"{len(names)}"
                )
        return names

    def count(self, d: int) -> int:
        """The number of weights."""
        return len(self.labels(d))

    def _columns(self, d: int) -> list[int]:
        return list(range(d)) if self.features is None else list(self.features)  # type: ignore[arg-type]

    def component(self, d: int) -> Component:
        """The weights as blocks of coordinates that stay as they are (time.py)."""
        return Component("mean", [Block(DECAY, float(variance)) for variance in self.scales(d) ** 2])

    def scales(self, d: int) -> FloatArray:
        """The prior standard deviations of the weights, (k,)."""
        return np.broadcast_to(self._scales, self.count(d))

    def start(self, d: int) -> FloatArray:
        """The prior means of the weights, (k, 1) or (k, p)."""
        return np.broadcast_to(self._start, (self.count(d), self._start.shape[1]))

    def values(self, X: FloatArray) -> FloatArray:
        """h of rows, (n, k); 0 where one of them will be refused."""
        k = self.count(X.shape[1])
        if not np.all(np.abs(X) <= LARGEST):
            return np.zeros((len(X), k))
        if not callable(self.features):
            inputs = X[:, self._columns(X.shape[1])]
            return np.hstack([np.ones((len(X), int(self.constant))), inputs])
        found = np.asarray(self.features(X.copy()), dtype=np.float64)
        if found.shape != (len(X), k) and not (k == 1 and found.shape == (len(X),)):
            raise ValueError(
                f"features of the mean must return {k} numbers for each of the {len(X)} rows, one for each of its "
                f"names; got an array of shape {found.shape}"
            )
        _refuse_wild(found, np.inf)
        return found.reshape(len(X), k)

    def whitened(self, X: FloatArray) -> FloatArray:
        """h of rows in units in which the prior variance of the weights is 1, (n, k)."""
        found = self.scales(X.shape[1]) * self.values(X)
        _refuse_wild(found, LARGEST)
        return found

    def slopes(self, X: FloatArray) -> FloatArray:
        """The derivatives of h by the inputs, (n, k, d)."""
        n, d = X.shape
        k = self.count(d)
        if not callable(self.features):
            found = np.zeros((n, k, d))
            for i, column in enumerate(self._columns(d)):
                found[:, int(self.constant) + i, column] = 1.0
            return found
        if self.gradient is None:
            return differences(self.values, X)
        found = np.asarray(self.gradient(X.copy()), dtype=np.float64)
        if found.shape != (n, k, d) or not np.all(np.isfinite(found)):
            raise ValueError(
                f"gradient of the mean must return finite numbers of shape ({n}, {k}, {d}): rows, weights, inputs; got "
                f"an array of shape {found.shape}"
            )
        return found


Mean = float | Rows | LinearMean


def _refuse_wild(found: FloatArray, largest: float) -> None:
    if not np.all(np.isfinite(found)) or np.any(np.abs(found) > largest):
        raise ValueError(f"features of the mean must return finite numbers, at most {LARGEST:g} in size")


def checked(name: str, value: Any) -> Mean | None:
    """A finite number, a function, a LinearMean, or None."""
    if value is None or callable(value) or isinstance(value, LinearMean):
        return value  # type: ignore[no-any-return]
    if isinstance(value, str) or np.ndim(value) > 0 or isinstance(value, Part):
        raise TypeError(f"{name} must be a number, a function of (n, d) rows, a LinearMean, or None; got {value!r}")
    return number(name, value)


def fixed(name: str, value: Any) -> Any:
    """The same without weights to learn."""
    if isinstance(value, LinearMean):
        raise ValueError(
            f"{name}=LinearMean(...) has weights that a stream model learns; here {name} is a number or a function. "
            "For weights of the inputs, add LinearKernel() + Constant() to the kernel"
        )
    return checked(name, value)


_MEANING = "prior mean of the targets: a number, {}a function of (n, d) rows (not saved: load(path, mean=f)); None: 0"
_UNIT = "unit of the target"
MeanSetting = Annotated[
    Mean | None,
    Setting(_MEANING.format("LinearMean(...) or "), _UNIT, checked),
]
FixedMeanSetting = Annotated[float | Rows | None, Setting(_MEANING.format("or "), _UNIT, fixed)]


def values(mean: Mean, X: FloatArray, p: int) -> FloatArray:
    """The prior mean of rows, (n, 1) or (n, p)."""
    if isinstance(mean, LinearMean):
        start = mean.start(X.shape[1])
        if start.shape[1] not in (1, p):
            raise ValueError(f"start of the mean has weights of {start.shape[1]} outputs, but there are {p}")
        return mean.values(X) @ start
    if not callable(mean):
        return np.full((len(X), 1), mean)
    found = np.asarray(mean(X.copy()), dtype=np.float64)
    if found.shape not in ((len(X),), (len(X), 1), (len(X), p)) or not np.all(np.isfinite(found)):
        raise ValueError(
            f"mean must return one finite number for each of the {len(X)} rows; got an array of shape {found.shape}"
        )
    return found.reshape(len(X), -1)


def slopes(mean: Mean, X: FloatArray, p: int) -> FloatArray:
    """The derivatives of the prior mean by the inputs, (n, 1, d) or (n, p, d); of a function by differences."""
    if isinstance(mean, LinearMean):
        return np.einsum("nkd,kp->npd", mean.slopes(X), mean.start(X.shape[1]))  # type: ignore[no-any-return]
    if not callable(mean):
        return np.zeros((len(X), 1, X.shape[1]))
    return differences(lambda rows: values(mean, rows, p), X)


def differences(function: Rows, X: FloatArray) -> FloatArray:
    """Central differences of a function of (m, d) rows that returns (m, k): (n, k, d)."""
    n, d = X.shape
    steps = STEP * np.maximum(np.abs(X), 1.0)
    above, below = (X[None] + sign * steps[None] * np.eye(d)[:, None] for sign in (1.0, -1.0))  # (d, n, d)
    width = np.einsum("jnj->jn", above - below)
    found = function(np.concatenate([above, below]).reshape(2 * d * n, d)).reshape(2, d, n, -1)
    return np.ascontiguousarray(((found[0] - found[1]) / width[:, :, None]).transpose(1, 2, 0))

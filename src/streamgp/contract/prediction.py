"""Prediction: columns, such as a mean, the variance of the function and the noise of the observation, and a law."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, Literal, NoReturn, Self, TypeVar

import numpy as np

from streamgp.contract.inputs import numbers
from streamgp.contract.laws import GAUSSIAN, LadderLaw, Law, ladder_law, probabilities
from streamgp.contract.shown import BESIDE, Shown
from streamgp.settings import FloatArray, nearest, option, probability, whole

Values = TypeVar("Values", float, FloatArray)  # float for one scalar target, otherwise an array
Side = Literal["two-sided", "lower", "upper"]
SIDES = "two-sided", "lower", "upper"

NUMBERS = "mean", "variance", "noise"  # which every kind of prediction has
# Columns in the unit of the target, or in its square; points move with the target, too.
POWERS = dict.fromkeys(("mean", "lower", "upper", "scale", "mean_gradient"), 1)
POWERS |= dict.fromkeys(("variance", "noise", "variance_gradient"), 2)
POINTS, GRADIENTS = {"mean", "lower", "upper"}, {"mean_gradient", "variance_gradient"}


class Prediction(Shown, Generic[Values]):
    """A Gaussian prediction of one target, of several, or of many rows.

    Args:
        mean: scalar, (p,), (n,) or (n, p).
        variance: of the latent function; NaN for models without one.
        noise: variance of the observation noise.
        ticket: under which the row waits for its target, where ``Delayed`` issued the prediction; (n,) of a ``Fleet``.
        surprise: -log of the p-value of the target, like the mean, where ``Alarms`` tracked it.
        alarm: "spike", "level" or "relation" where it raised an alarm, otherwise "".
        mean_gradient: d mean / dx, with one axis more than the mean, where ``derivatives=True`` asked for it.
        variance_gradient: d variance / dx, likewise.

    Example:
        >>> import streamgp as sg
        >>> p = sg.Prediction(mean=1.0, variance=0.03, noise=0.01)
        >>> round(p.std, 3)
        0.2
        >>> low, high = p.interval(0.9)
        >>> round(low, 2), round(high, 2)
        (0.67, 1.33)
        >>> round(p.quantile(0.95), 2), round(p.cdf(1.33), 2), round(p.p_value(1.5), 3)
        (1.33, 0.95, 0.012)
        >>> p.quantile([0.05, 0.5, 0.95]).round(2)
        array([0.67, 1.  , 1.33])
    """

    # The columns are what ``vars`` holds: arrays like the mean, other predictions, and tuples or dicts of those.
    mean: Values
    variance: Values
    noise: Values
    ticket: Any = None
    surprise: Any = None
    alarm: Any = None
    mean_gradient: Any = None
    variance_gradient: Any = None

    def __init__(self, mean: Values, variance: Values, noise: Values, **beside: Any) -> None:
        self._fill(GAUSSIAN, {"mean": mean, "variance": variance, "noise": noise}, beside)

    def _fill(self, law: Law, columns: dict[str, Any], beside: dict[str, Any]) -> None:
        """Take columns as one's own, and those that stand beside them, where they are not None."""
        for name in beside:
            if name not in BESIDE:
                known = f"What may stand beside a prediction: {', '.join(BESIDE)}"
                raise TypeError(f"{type(self).__name__} has no column {name!r}.{nearest(name, BESIDE)} {known}")
            if beside[name] is not None:
                columns[name] = beside[name]
        set_columns(self, "__dict__", columns)
        set_law(self, law)

    @classmethod
    def _of(cls, columns: dict[str, Any], law: Law) -> Self:
        made = cls.__new__(cls)
        made._fill(law, columns, {})
        return made

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a prediction cannot be changed; {name} is what was predicted")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, (dict(vars(self)), self.law)

    @property
    def std(self) -> Values:
        """Standard deviation of the observation y: function and noise together."""
        total = self.variance + self.noise
        return math.sqrt(total) if isinstance(total, float) else np.sqrt(total)

    def interval(self, level: float | Sequence[float] | FloatArray | None = None) -> tuple[Values, Values]:
        """Return the central interval that holds the observation with probability ``level``.

        Args:
            level: None: 0.9, or what the prediction was calibrated for. Of several levels the ends of each are an
                array, (levels, ...) over the shape of the mean.
        """
        if not isinstance(level, float | None) and np.ndim(level):
            ends: Any = np.array([self.interval(one) for one in np.asarray(level).tolist()])
            return ends[:, 0], ends[:, 1]
        law = self.law
        lower, upper = law.interval(self, law.level if level is None else probability("level", level))
        return plain(lower), plain(upper)

    def deviations(self, y: Any) -> Any:
        """Return by how many standard deviations of the observation, on its side, y lies above the mean."""
        error = numbers(y, "y") - self.mean
        with np.errstate(over="ignore"):
            return plain(error / self.law.deviation(self, error))

    def quantile(self, q: Any) -> Any:
        """Return the value below which the observation lies with probability q.

        Args:
            q: above 0 and below 1. Of several probabilities, (k,), the quantiles are an array, (k, ...) over the shape
                of the mean. Where rows have probabilities of their own, q has this shape, too.
        """
        levels, shape = probabilities(q), np.shape(self.mean)
        if levels.ndim == 1:
            levels = levels.reshape(-1, *(1,) * len(shape))
        elif levels.ndim and levels.shape[1:] != shape:
            raise ValueError(
                "q must be one probability, a list of them, or an array (k, ...) with k for each number of the mean, "
                f"of shape {shape}; got {levels.shape}"
            )
        return plain(self.law.quantile(self, levels))

    def cdf(self, y: Any) -> Any:
        """Return the probability that the observation is at most y."""
        return plain(self.law.tails(self, numbers(y, "y"))[0])

    def pit(self, y: Any) -> Any:
        """Return the probability integral transform of y: uniform along a stream where the prediction is calibrated.

        This is ``cdf(y)``; of classes and counts it is the middle of the step that the cdf makes at y.
        """
        below, above = self.law.tails(self, numbers(y, "y"))
        return plain(0.5 * (below - above) + 0.5 if self.law.discrete else below)

    def p_value(self, y: Any, side: Side = "two-sided") -> Any:
        """Return how probable an observation as extreme as y is: small where y is a surprise.

        Args:
            y: the observation, like the mean.
            side: ``"lower"`` and ``"upper"`` look at one side only: the probability of at most and of at least y.
        """
        below, above = self.law.tails(self, numbers(y, "y"))
        of_both = np.minimum(1.0, 2.0 * np.minimum(below, above))
        return plain((of_both, below, above)[option("side", side, SIDES)])

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y, in the units of y: less is better.

        Of a prediction without spread it is the absolute error, of classes the Brier score. With Student-t noise of at
        most 1 degree of freedom it is NaN. Of counts it is right to 1e-3 of itself, to 1e-9 where few are likely.
        """
        return plain(self.law.crps(self, numbers(y, "y")))

    def log_density(self, y: Any) -> Any:
        """Return the log density of the observation y; of classes and counts the log of its probability."""
        return plain(self.law.log_density(self, numbers(y, "y")))

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the observation, an array (n, ...) over the shape of the mean."""
        shape = whole("n", n), *np.shape(self.mean)
        rng = np.random.default_rng(whole("seed", seed, at_least=0))
        return np.asarray(self.law.sample(self, rng, shape), dtype=np.float64)

    def __len__(self) -> int:
        if np.ndim(self.mean) == 0:
            raise TypeError("this Prediction is of one scalar target and has no length")
        return len(self.mean)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Self:
        """Return the prediction of some of the rows (or outputs), with all that stands beside them."""
        shape = np.shape(self.mean)
        return self._each(lambda column: _some(column, shape, index))._from(self._origin_of(index))

    # How predictions travel: each of these is one loop over whatever columns there are.

    def _each(self, change: Callable[..., Any], *others: Prediction) -> Self:
        """The prediction whose every column is change(that column of this one, those of others).

        A column that not all have is left out; of different laws remain a mean, a variance and a noise.
        """
        if not others:
            return self._of({name: _changed(change, column) for name, column in vars(self).items()}, self.law)
        alike = all(type(one) is type(self) and one.law == self.law for one in others)
        kind: Any = type(self) if alike else Prediction
        columns = {}
        for name in tuple(vars(self)) if alike else NUMBERS + BESIDE:
            parts = [getattr(one, name, None) for one in (self, *others)]
            if all(part is not None for part in parts):
                columns[name] = _changed(change, *parts)
        return kind._of(columns, self.law if alike else GAUSSIAN)  # type: ignore[no-any-return]

    def _with(self, **columns: Any) -> Self:
        """The same rows with other columns, or with more of them."""
        return self._of({**vars(self), **columns}, self.law)._from(self._known_origin)

    def _moved(self, shift: Any, scale: Any) -> Self:
        """The prediction of shift + scale * y; classes and counts have no unit and stay."""
        if self.law.discrete:
            return self
        factors, columns = (1.0, scale, scale**2), {}
        for name, column in vars(self).items():
            if power := POWERS.get(name):
                column = (np.asarray(factors[power])[..., None] if name in GRADIENTS else factors[power]) * column
                columns[name] = shift + column if name in POINTS else column
            elif isinstance(column, Prediction):
                columns[name] = column._moved(shift, scale)
            elif isinstance(column, dict):  # the shift belongs to no component
                columns[name] = {part: one._moved(0.0, scale) for part, one in column.items()}
            else:
                columns[name] = column
        return self._of(columns, self.law)

    def _shaped(self, *, scalar: bool, many: bool) -> Self:
        """Columns (n, p) as users see them: scalars, (p,), (n,) or (n, p)."""
        p = np.asarray(self.mean).shape[1]
        if p == 1 and many and not scalar:
            return self
        at = slice(None) if many else 0, 0 if scalar else slice(None)

        def shaped(column: FloatArray) -> Any:
            if not scalar and column.ndim > 1 and column.shape[1] != p:
                column = np.repeat(column, p, axis=1)
            return plain(column[at[: column.ndim]])

        return self._each(shaped)

    def _arranged(self, shape: tuple[int, ...]) -> Self:
        """Columns of rows, (n, ...), as an array of rows of this shape."""
        like = np.shape(self.mean)
        return self._each(lambda column: _widened(column, like).reshape(*shape, *column.shape[1:]))


set_columns = object.__setattr__
set_law = vars(Shown)["law"].__set__


class CalibratedPrediction(Prediction[Values]):
    """A prediction with calibrated bounds, which need not lie alike on both sides of the mean, and quantiles.

    The bounds are those of ``interval(level)``. The other quantiles are given by ``shape``; between them and beyond
    them the distribution is as in contract/ladder.py. Without a shape it is two halves of Gaussians, each with half of
    the mass, that meet at the mean and reach as far as the bounds say. ``variance`` and ``noise`` share the variance of
    such halves in the proportions that the model gave them; all of it is ``variance`` where the model has none.

    Args:
        mean: of the model, as it is.
        variance: of the latent function, calibrated.
        noise: variance of the observation noise, calibrated.
        lower: lower bound of the interval at ``level``.
        upper: upper bound.
        level: what the bounds were calibrated for.
        raw: the prediction of the model itself.
        shape: the quantiles of the error at ``ladder_levels(level)`` over the distance of the bound on their side, then
            xi and sigma of the lower tail and of the upper one, in the same unit.
    """

    lower: Values
    upper: Values
    raw: Prediction
    shape: tuple[Values, ...]
    law: LadderLaw

    def __init__(
        self,
        mean: Values,
        variance: Values,
        noise: Values,
        lower: Values,
        upper: Values,
        level: float,
        raw: Prediction,
        shape: Sequence[Values] | FloatArray = (),
        **beside: Any,
    ) -> None:
        columns: dict[str, Any] = {"mean": mean, "variance": variance, "noise": noise, "lower": lower, "upper": upper}
        columns["shape"], columns["raw"] = tuple(shape), raw
        self._fill(ladder_law(level), columns, beside)

    @property
    def level(self) -> float:
        """What the bounds were calibrated for."""
        return self.law.level


def joined(predictions: Sequence[Prediction]) -> Prediction:
    """Predictions of rows that follow each other, as one."""
    first, *others = predictions
    return first._each(lambda *parts: np.concatenate(parts), *others) if others else first


def move(columns: FloatArray, names: Sequence[str], shift: Any, scale: Any) -> None:
    """Let columns of predictions of y, (columns, n, p), of the first of these names, be those of shift + scale * y."""
    for column, (power, moves) in zip(columns, _units(tuple(names)), strict=False):
        if power:
            column *= scale if power == 1 else scale**2
            if moves:
                column += shift


@cache
def bare(names: tuple[str, ...]) -> int:
    """How many columns there are before those of components."""
    return sum("components" not in name.split(".") for name in names)


@cache
def _units(names: tuple[str, ...]) -> list[tuple[int, bool]]:
    """Of columns the power of the unit of y, and whether they move with y; the shift belongs to no component."""
    split = [name.split(".") for name in names]
    return [(POWERS.get(last, 0), last in POINTS and "components" not in within) for *within, last in split]


def _changed(change: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Change a column of several predictions, or all that it consists of."""
    if isinstance(first, np.ndarray | float):  # most columns
        return change(first, *others)
    if isinstance(first, tuple):
        return tuple(map(change, first, *others))
    if isinstance(first, dict):
        return {name: _changed(change, part, *(other[name] for other in others)) for name, part in first.items()}
    return first._each(change, *others) if isinstance(first, Prediction) else change(first, *others)


def _widened(column: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A column of a mean of this shape, with all of its axes where it has them: outputs may share one variance."""
    array = np.asarray(column)
    axes = len(shape)
    return (
        array
        if array.ndim < axes or array.shape[:axes] == shape
        else np.broadcast_to(array, shape + array.shape[axes:])
    )


def _some(column: Any, shape: tuple[int, ...], index: Any) -> Any:
    """Some of a column of a mean of this shape: one for each row, like the mean, or with axes after its own."""
    values = _widened(column, shape)
    if values.ndim >= len(shape):
        chosen = np.arange(math.prod(shape)).reshape(shape)[index]
        return plain(values.reshape(-1, *values.shape[len(shape) :])[chosen])
    index = np.nonzero(index) if np.asarray(index).dtype == bool else index
    return plain(values[index[: values.ndim] if isinstance(index, tuple) else index] if values.ndim else values)


def plain(values: Any) -> Any:
    """What users see: an array, or the one thing in an array without axes."""
    return values if type(values) is float or np.ndim(values) else np.asarray(values).item()

"""Calibrated: intervals that cover as often as they say, around any stream model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract.analysis import Analysis
from streamgp.contract.freerun import Mapped, Step, Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import PREDICT, listed, predicted_too
from streamgp.contract.laws import gaussian_reach, ladder_levels
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import NUMBERS, CalibratedPrediction, Prediction
from streamgp.settings import FloatArray, Maybe, number, positive_vector, whole
from streamgp.wrappers import conformal
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper

# Errors of predictions h rows ahead overlap: n of them say as much as n / h. So trackers are compared by a sharpness of
# an h-th, bounds are wider by a quantile of Student's t with n / h degrees of freedom, trackers start from the errors
# of at least LATE_WARMUP h rows, and the last correction, of which there is more to do, is faster by LATE_CORRECTION.
# Both numbers were chosen on CHOSEN_AHEAD_ON of benchmarks/auto_streams.py.
LATE_WARMUP, LATE_CORRECTION = 2.5, 2.0

# The tails before any error: heavier than those of a Gaussian, as errors mostly are.
START_DOF, START_XI = 5.0, 0.1
NOT_WIDER = np.empty((0, 0))


class Calibration(NamedTuple):
    """How the intervals have done, over all outputs and all rows with a target; NaN before the first.

    Args:
        rows: targets that were compared with their intervals.
        coverage: the share of them inside.
        width: mean width of the intervals, in units of the target.
        recent_coverage: the share inside over about the last ``memory`` rows.
        recent_width: mean width over about as many.
        raw_coverage: the share inside the intervals of the model itself; NaN for a model without a variance.
        raw_width: mean width of those.
    """

    rows: int
    coverage: float
    width: float
    recent_coverage: float
    recent_width: float
    raw_coverage: float
    raw_width: float


class FittedTail(NamedTuple):
    """The generalized Pareto tail beyond the last quantile that is tracked, and on how many errors it rests.

    Args:
        level: probability of what lies beyond that quantile.
        threshold: that quantile, in units of the distance of the bound on its side.
        xi: how heavy the tail is; 0 is exponential.
        sigma: its scale, in the same unit.
        rows: errors beyond the bound, from which xi and sigma were fitted.
    """

    level: float
    threshold: float
    xi: float
    sigma: float
    rows: int


class Calibrated(Wrapper):
    """A stream model whose intervals cover as often as they say, even where the model is wrong or the world drifts.

    Each end of the interval is learned from the errors on its side, before the row is learned: trackers of a quantile
    of the errors, over the standard deviation of the model and over a fixed unit, move at several rates, and are
    averaged by how they did. Means are those of the model; ``variance`` and ``noise`` are stretched to fit the
    interval. Models without a variance get one. A missing target changes nothing.

    Args:
        model: the stream model within, which has learned nothing.
        level: how much of the observations the interval is to hold, above 0 and below 1.
        rates: of the trackers: a miss moves the log of the bound's distance up by about the rate.
        memory: rows over which the trackers' losses count; also of the recent coverage.
        sharpness: how much better than the others a tracker counts for an average loss less.
        correction: rate of the last correction, which makes the average of the trackers cover as they do.
        warmup: rows from whose errors the trackers start.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (2000, 1))
        >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(2000)  # the model supposes 0.1
        >>> model = sg.Calibrated(sg.KRLST(forgetting=1.0, noise=0.01), level=0.9)
        >>> p = model.track(X, y)
        >>> round(model.calibration.raw_coverage, 2), round(model.calibration.coverage, 2)
        (0.41, 0.91)
        >>> low, high = p.interval()
        >>> np.array_equal(low, p.lower), bool(p.raw.std[-1] < p.std[-1])
        (True, True)
    """

    has_variance = True
    _stacks = True
    _numbers: Numbers

    def __init__(
        self,
        model: StreamModel,
        *,
        level: float = 0.9,
        rates: Sequence[float] | FloatArray = (0.01, 0.03, 0.1, 0.3),
        memory: int = 500,
        sharpness: float = 0.3,
        correction: float = 0.01,
        warmup: int = 30,
    ) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("learns the errors of numbers")
        self.has_variance = True
        self._level = number("level", level, above=0)
        if self._level >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        self._rates = positive_vector("rates", rates)
        self._shape_numbers = int(self._levels.size) + conformal.TAILS  # of a prediction: its quantiles and tails
        self._own = conformal.MOMENTS + self._shape_numbers  # columns of a prediction before those of the model within
        tail = (1.0 - self._level) / 2.0
        self._plan = {
            "tail": tail,
            "log_z": math.log(gaussian_reach(self._level)),
            "sharpness": number("sharpness", sharpness, at_least=0),
            "discount": 1.0 - 1.0 / whole("memory", memory, at_least=2),
            "correction": number("correction", correction, at_least=0),
            "warmup": whole("warmup", warmup),
            # Of the errors on one side the share 2 tail lies beyond the bound: so many in a row do once in a thousand.
            "beyond": max(3, math.ceil(math.log(1e-3) / math.log(2.0 * tail) - 1e-9)),
            # As large a share of Gaussian errors as this is smaller than the bound by a factor of e.
            "within": max(
                6, math.ceil(math.log(1e-6) / math.log(1.0 - 2.0 * ndtr(-gaussian_reach(self._level) / math.e)))
            ),
            "memory": memory,
        }
        compile_now(conformal.calibrate)

    # The state.

    def _planned(self) -> dict[str, Any]:
        """The plan, for errors that overlap as far as targets come late."""
        if self._ahead == 1:
            return self._plan
        return self._plan | {
            "sharpness": self._plan["sharpness"] / self._ahead,
            "correction": LATE_CORRECTION * self._plan["correction"],
            "warmup": max(self._plan["warmup"], math.ceil(LATE_WARMUP * self._ahead)),
        }

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        rates = self._rates.size
        sizes = {"outputs": p, "ends": 2, "kinds": 2, "rates": rates, "trackers": 1 + 2 * rates}
        sizes |= {"watched": conformal.WATCHED, "rungs": self._levels.size, "told": 2 + self._shape_numbers}
        self._numbers = Numbers(conformal.LAYOUT, sizes, self._planned())
        self._numbers.state.trackers[:] = self._plan["log_z"]
        self._numbers.state.losses[:, :, 0] = conformal.OWN_LOSS
        self._numbers.work.rates[:] = self._rates
        self._start_shape()

    def _start_shape(self) -> None:
        """Quantiles and tails before any error: those of a Student-t, and steps that suit a Gaussian."""
        state, work, levels, tail = self._numbers.state, self._numbers.work, self._levels, self._plan["tail"]
        z, bound = ndtri(levels), gaussian_reach(self._level)
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        distance = np.minimum(levels, 1.0 - levels) / tail - 1.0  # 0 at a bound
        inner, outer = 1.0 / (density * bound), conformal.OUTER_GAIN / (density * np.maximum(np.abs(z), 1e-300))
        work.levels[:] = levels
        work.gains[:] = np.where(np.abs(distance) < 1e-9, 0.0, np.where(distance > 0.0, inner, outer))
        state.ratios[:] = np.where(
            np.abs(distance) < 1e-9, np.sign(z), stdtrit(START_DOF, levels) / stdtrit(START_DOF, 1.0 - tail)
        )
        # A Gaussian's mean excess, and a second moment that makes xi START_XI.
        state.excess[:] = math.exp(-0.5 * bound * bound) / math.sqrt(2.0 * math.pi) / (tail * bound) - 1.0
        state.excess2[:] = state.excess**2 * (1.0 + 1.0 / (1.0 - 2.0 * START_XI))

    @property
    def _levels(self) -> FloatArray:
        """Those of the quantiles that are tracked."""
        return ladder_levels(self._level)

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        raw = (f"raw.{name}" for name in self._within._columns)
        return (*NUMBERS, "lower", "upper", *["shape"] * self._shape_numbers, *raw)

    def _told(self, columns: Sequence[Any]) -> CalibratedPrediction:
        return self._with_raw(columns, self._within._told(columns[self._own :]))

    def _with_raw(self, columns: Sequence[Any], raw: Prediction) -> CalibratedPrediction:
        mean, variance, noise, lower, upper = columns[: conformal.MOMENTS]
        shape = columns[conformal.MOMENTS : self._own]
        return CalibratedPrediction(mean, variance, noise, lower, upper, self._level, raw, shape)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        within: Any = self._models[0]
        ops = ops if Y is None else predicted_too(ops)
        own = 0 if kept is None else self._own_width
        if type(within) is Standardize and within._in_one_call and within._has_seen(ops, kept, own):
            numbers, wider = self._numbers, NOT_WIDER if self._ahead == 1 else self._wider(ops)
            calibration = numbers.records, numbers.buffers, wider, own
            told: FloatArray = within._do(ops, X, Y, conditions, kept, calibration, self._own + len(NUMBERS))
            return told
        raw = within._pass(ops, X, Y, conditions, None if kept is None else kept[:, own:])
        columns = np.zeros((self._own + len(raw), *raw.shape[1:]))
        columns[self._own :] = raw
        targets, lines = raw[0, :0] if Y is None else Y, raw[0, :0] if kept is None else kept[:, :own]
        self._calibrate(ops, targets, lines, columns)
        return columns

    def _calibrate(self, ops: np.ndarray, Y: FloatArray, kept: FloatArray, columns: FloatArray) -> None:
        """Do operations of which the model within has predicted the rows."""
        numbers = self._numbers
        conformal.calibrate(numbers.records, numbers.buffers, *self._lanes, ops, Y, kept, self._wider(ops), columns)

    @property
    def _one_step(self) -> bool:  # type: ignore[override]
        within: Any = self._models[0]
        return type(within) is Standardize and within._one_step

    @property
    def _own_width(self) -> int:
        """How many numbers of the line of a row that waits are this layer's."""
        width = conformal.KEPT + (2 * (1 + 2 * self._rates.size) if self._ahead > 1 else 0)
        return width * (self._p or 1)

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return self._own_width + super()._kept_width

    def _calibrated(self, *moments: FloatArray) -> CalibratedPrediction:
        """The prediction of rows of which the model within says these means, variances and noises, (n, p)."""
        columns = np.zeros((self._own + len(NUMBERS), *moments[0].shape))
        for column, values in zip(columns[self._own :], moments, strict=True):
            column[:] = values
        self._calibrate(listed(len(moments[0]), PREDICT), moments[0][:0], moments[0][:0], columns)
        return self._with_raw(tuple(columns), Prediction(*moments))

    def _wider(self, ops: np.ndarray) -> FloatArray:
        """By how much bounds are wider after so many errors that overlap, (p, errors + 1); empty if they do not."""
        if self._ahead == 1:
            return NOT_WIDER
        errors = self._numbers.state.kind_rows[:, conformal.ABSOLUTE, None] + np.arange(len(ops) + 1)
        dof = np.maximum(errors / self._ahead, 1.0)
        wider: FloatArray = stdtrit(dof, 1.0 - self._plan["tail"]) / gaussian_reach(self._level)
        return wider

    def _analysis(self) -> Analysis:
        return _CalibratedAnalysis(self)

    # What can be read.

    @property
    def coverage(self) -> float:
        """The share of the targets so far that lay inside their intervals; NaN before the first."""
        return self.calibration.coverage

    @property
    def width(self) -> float:
        """Mean width of the intervals so far, in units of the target; NaN before the first."""
        return self.calibration.width

    @property
    def tails(self) -> list[FittedTail]:
        """The tails beyond the tracked quantiles: below and above, output after output; NaN before the first target."""
        level = float(self._levels[0])
        if self._d is None:
            return [FittedTail(level, math.nan, math.nan, math.nan, 0)] * 2
        rows, result = self._numbers.state.excess_rows, []
        shape = np.array(self._calibrated(*np.zeros((3, 1, self._p or 1))).shape)[:, 0].T.tolist()
        for j, (first, *_, last, xi_below, sigma_below, xi_above, sigma_above) in enumerate(shape):
            result.append(FittedTail(level, first, xi_below, sigma_below, int(rows[j, 0])))
            result.append(FittedTail(level, last, xi_above, sigma_above, int(rows[j, 1])))
        return result

    @property
    def calibration(self) -> Calibration:
        """How the intervals have done so far, and how those of the model itself would have."""
        if self._d is None:
            return Calibration(0, *(math.nan,) * 6)
        state, rows = self._numbers.state, self._numbers.count("rows")
        recent, raw = state.recent_rows.sum(), state.raw_rows.sum()
        sums = state.inside, state.width, state.recent_inside, state.recent_width, state.raw_inside, state.raw_width
        counts = rows, rows, recent, recent, raw, raw
        shares = (float(what.sum() / of) if of else math.nan for what, of in zip(sums, counts, strict=True))
        return Calibration(rows, *shares)


class _CalibratedAnalysis(Analysis):
    """What the model within says, stretched as its variances are."""

    def derived(self, X: FloatArray, conditions: Maybe = None) -> Prediction:
        raw = self.within.derived(X, conditions)
        model: Calibrated = self.model
        p, wide = (model._calibrated(raw.mean, k * raw.variance, k * raw.noise) for k in (1.0, 4.0))
        below, above = p.mean - p.lower, p.upper - p.mean
        v, s = raw.variance, raw.variance + raw.noise
        with np.errstate(invalid="ignore", divide="ignore"):
            # A bound lies at c s^(power / 2) from the mean: the powers follow from those of twice the deviation.
            powers = np.log2((wide.mean - wide.lower) / below), np.log2((wide.upper - wide.mean) / above)
            total = (below**2 * powers[0] + above**2 * powers[1]) / (below**2 + above**2)
            slope = np.nan_to_num((p.variance + p.noise) * (raw.noise + v * total) / s**2)
        return p._with(mean_gradient=raw.mean_gradient, variance_gradient=slope[:, :, None] * raw.variance_gradient)

    def trajectories(self, count: int, steps: int) -> Trajectories:
        if not self.model._within.has_variance:  # it is all in the calibration: nothing to draw within
            return super().trajectories(count, steps)
        return _Stretched(self.within.trajectories(count, steps), self.model)

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        # Stretched row by row as the variances are: the correlations are those of the model within.
        joint = self.within.joint(X, conditions)
        raw = joint.marginal
        calibrated: Prediction = self.model._calibrated(raw.mean, raw.variance, raw.noise)
        factor = _stretch(calibrated, raw.variance)
        return joint.mapped((1.0 - factor) * joint.mean, factor, np.asarray(calibrated.noise))


class _Stretched(Mapped):
    """Trajectories whose function and noise vary as much as the calibrated ones."""

    def __init__(self, within: Trajectories, model: Calibrated) -> None:
        super().__init__(within)
        self._model = model

    def _map(self, X: FloatArray, step: Step) -> tuple[FloatArray, FloatArray, FloatArray]:
        calibrated = self._model._calibrated(step.free_mean, step.free_variance, step.noise)
        factor = _stretch(calibrated, step.free_variance)
        return (1.0 - factor) * step.free_mean, factor, np.asarray(calibrated.noise)


def _stretch(calibrated: Prediction, variance: FloatArray) -> FloatArray:
    """By how much calibration widens the function, in standard deviations."""
    known = variance > 0
    result: FloatArray = np.sqrt(np.where(known, calibrated.variance, 1.0) / np.where(known, variance, 1.0))
    return result

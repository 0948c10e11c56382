"""Calibrated: intervals that cover as often as they say, around any stream model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from streamgp import inputs
from streamgp.compiled import CUBE, MATRIX, VECTOR, compile_now
from streamgp.core import conformal
from streamgp.model import StreamModel
from streamgp.prediction import CalibratedPrediction, Prediction, Values, gaussian_reach
from streamgp.settings import FloatArray, number, positive_vector, whole
from streamgp.wrapper import Wrapper


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


class Calibrated(Wrapper):
    """A stream model whose intervals cover as often as they say, even where the model is wrong or the world drifts.

    Each end of the interval is learnt from the errors on its side, before the row is learnt: trackers of a quantile of
    the errors, over the standard deviation of the model and over a fixed unit, move at several rates, and are averaged
    by how they did. Means are those of the model; ``variance`` and ``noise`` are stretched to fit the interval. Models
    without a variance get one. A missing target changes nothing.

    Args:
        model: the stream model within, which has learnt nothing.
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
        >>> model = sg.Calibrated(sg.KRLST(noise=0.01), level=0.9)
        >>> p = model.track(X, y)
        >>> round(model.calibration.raw_coverage, 2), round(model.calibration.coverage, 2)
        (0.41, 0.9)
        >>> low, high = p.interval()
        >>> np.array_equal(low, p.lower), bool(p.raw.std[-1] < p.std[-1])
        (True, True)
    """

    has_variance = True
    _conformal: conformal.ConformalState

    def __init__(
        self,
        model: StreamModel,
        level: float = 0.9,
        rates: Sequence[float] | FloatArray = (0.01, 0.03, 0.1, 0.3),
        memory: int = 500,
        sharpness: float = 0.3,
        correction: float = 0.01,
        warmup: int = 30,
    ) -> None:
        self._wrap(model)
        self.has_variance = True
        self._level = number("level", level, above=0)
        if self._level >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        self._rates = positive_vector("rates", rates)
        numbers = np.zeros(conformal.NUMBERS_SIZE)
        numbers[conformal.TAIL] = (1.0 - self._level) / 2.0
        numbers[conformal.LOG_Z] = math.log(gaussian_reach(self._level))
        numbers[conformal.SHARPNESS] = number("sharpness", sharpness, at_least=0)
        numbers[conformal.DISCOUNT] = 1.0 - 1.0 / whole("memory", memory, at_least=2)
        numbers[conformal.CORRECTION] = number("correction", correction, at_least=0)
        numbers[conformal.WARMUP] = whole("warmup", warmup)
        self._numbers = numbers
        compile_now(
            conformal.calibrate,
            *(VECTOR, VECTOR, CUBE, CUBE, CUBE, MATRIX),
            *(MATRIX, MATRIX, MATRIX, MATRIX, numba.boolean, CUBE),
        )

    # The state.

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        count = 1 + 2 * self._rates.size
        trackers = np.full((p, 2, count), self._numbers[conformal.LOG_Z])
        self._conformal = conformal.ConformalState(
            trackers,
            np.zeros((p, 2, count)),
            np.zeros((p, 2, conformal.TAILS_SIZE)),
            np.zeros((p, conformal.TALLY_SIZE)),
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._conformal._asdict() | super()._arrays()

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        prediction = self._within._advance(X, Y, report or Y is not None)
        return None if prediction is None else self._calibrate(prediction, Y)

    def _foresee(self, X: FloatArray) -> Prediction:
        return self._calibrate(self._within._foresee(X), None)

    def _calibrate(self, raw: Prediction, Y: FloatArray | None) -> CalibratedPrediction:
        """The bounds of predictions, each before its target is taken into account."""
        mean, variance, noise = (np.ascontiguousarray(part) for part in (raw.mean, raw.variance, raw.noise))
        targets = np.full_like(mean, np.nan) if Y is None else Y
        out = np.empty((4, *mean.shape))
        conformal.calibrate(self._numbers, self._rates, *self._conformal, mean, variance, noise, targets, False, out)
        lower, upper, variance, noise = out
        return CalibratedPrediction(mean, variance, noise, lower, upper, self._level, raw)

    def learn_one(self, x: Any, y: Any, issued: Prediction | None = None) -> None:
        """Advance the memory by one row, then learn its target.

        Args:
            x: d numbers.
            y: a number, or p numbers; None or NaN: the memory advances, nothing is learnt or forgotten.
            issued: where the target came late, the prediction that was made of it before the rows in between were
                learnt: its errors count. None: the prediction that the model would make now.
        """
        if issued is None:
            super().learn_one(x, y)
            return
        X = inputs.row(x, self._d)
        Y, scalar = inputs.target(y, self._p if self._certain else None, self._scalar)
        parts = self._issued(issued, Y.shape[1])
        self._begin(X, Y, scalar, y is not None, many=False)
        self._within._advance(X, Y, report=False)
        mean, variance, noise, *bounds = parts
        out = np.concatenate([*bounds, np.zeros((2, *mean.shape))])
        conformal.calibrate(self._numbers, self._rates, *self._conformal, mean, variance, noise, Y, True, out)

    def _issued(self, issued: Prediction, p: int) -> list[FloatArray]:
        """The parts of an earlier prediction of one row: three (1, p), then two (1, 1, p)."""
        if not isinstance(issued, CalibratedPrediction):
            raise TypeError(f"issued must be a prediction that this model made of the row; got {issued!r}")
        raw = issued.raw
        parts = [np.array(v, dtype=np.float64).ravel() for v in (raw.mean, raw.variance, raw.noise)]
        parts += [np.array(v, dtype=np.float64).ravel() for v in (issued.lower, issued.upper)]
        if any(part.size != p for part in parts):
            raise ValueError(
                f"issued must be the prediction of one row with {p} output{'s' if p > 1 else ''}; got one of "
                f"{parts[0].size} numbers"
            )
        return [part[None] for part in parts[:3]] + [part[None, None] for part in parts[3:]]

    def _shaped(self, prediction: Prediction, *, many: bool) -> CalibratedPrediction:
        assert isinstance(prediction, CalibratedPrediction)
        mean, variance, noise, lower, upper = (self._part(part, many) for part in prediction.parts)
        raw = super()._shaped(prediction.raw, many=many)
        return CalibratedPrediction(mean, variance, noise, lower, upper, prediction.level, raw)

    def _part(self, values: Values, many: bool) -> Values:
        assert isinstance(values, np.ndarray)
        if self._scalar:
            return values[:, 0] if many else float(values[0, 0])
        return values if many else values[0]

    def _empty(self) -> CalibratedPrediction:
        raw = super()._empty()
        return CalibratedPrediction(raw.mean, raw.variance, raw.noise, raw.mean, raw.mean, self._level, raw)

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
    def calibration(self) -> Calibration:
        """How the intervals have done so far, and how those of the model itself would have."""
        if self._d is None:
            return Calibration(0, *(math.nan,) * 6)
        sums = self._conformal.tally.sum(0)

        def share(what: int, of: int) -> float:
            return float(sums[what] / sums[of]) if sums[of] else math.nan

        return Calibration(
            int(sums[conformal.ROWS]),
            share(conformal.INSIDE, conformal.ROWS),
            share(conformal.WIDTH, conformal.ROWS),
            share(conformal.RECENT_INSIDE, conformal.RECENT_ROWS),
            share(conformal.RECENT_WIDTH, conformal.RECENT_ROWS),
            share(conformal.RAW_INSIDE, conformal.RAW_ROWS),
            share(conformal.RAW_WIDTH, conformal.RAW_ROWS),
        )

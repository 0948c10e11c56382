"""Forecaster: a series in, quantiles of the times ahead out."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compile_now
from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.contract.frames import dates_of_index
from streamgp.contract.prediction import Prediction
from streamgp.contract.spacing import usual_gap
from streamgp.process.features import Linear
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.time import TimeGP
from streamgp.settings import FloatArray, duration, probability
from streamgp.tuning.inputs import InputFeatures, Recent
from streamgp.tuning.series import CALENDAR, Chosen, beside, choose
from streamgp.tuning.spread import Spread
from streamgp.tuning.time import refuse_unordered
from streamgp.wrappers import outliers

# Intervals are judged by at most ORIGINS past forecasts, in the last PART of the rows, after the first LEARNED rows.
ORIGINS, PART, LEARNED = 40, 0.5, 10
# Forecasts that overlap tell nearly the same: a row is judged by about this many of those that are issued.
OVERLAP = 4
# A row belongs to a forecast if their times differ by less than this part of the time between rows.
SAME = 0.01
# How rows that do not count as they came are named.
FILL_VALUES = "targets that look like fill values, which count as missing"
REPEATED = "rows that repeat a time, the last of which counts"


class _Rows(NamedTuple):
    """Rows as they are learned, how many were not, how many targets count as missing, and the screen after them."""

    y: FloatArray
    times: FloatArray
    X: FloatArray | None
    repeated: int
    fill_values: int
    screen: FloatArray

    def part(self, rows: slice) -> _Rows:
        return self._replace(y=self.y[rows], times=self.times[rows], X=None if self.X is None else self.X[rows])


@dataclass(frozen=True, eq=False)
class SeriesForecast:
    """What a series will be at some times.

    Args:
        times: (n,) in the unit of the series' times, seconds since 1970 for dates.
        within: the prediction in the units of the model: of targets, or of their logarithms.
        log: whether the model predicts logarithms.
        step: (n,) how many rows ahead each time is, as far apart as most rows were.
        spread: how wide intervals have to be by rows ahead.
    """

    times: FloatArray
    within: Prediction
    log: bool
    step: FloatArray
    spread: Spread

    @property
    def median(self) -> FloatArray:
        return self.quantile(0.5)

    def quantile(self, level: float) -> FloatArray:
        """The value that a target stays below with this probability."""
        apart = 2.0 * probability("level", level) - 1.0
        size = np.sign(apart) * self.spread.size(self.step, abs(apart))
        return self._back(self.within.mean + size * self._deviation)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold a target with this probability."""
        tail = 0.5 * (1.0 - probability("level", level))
        return self.quantile(tail), self.quantile(1.0 - tail)

    @property
    def components(self) -> dict[str, FloatArray]:
        """The parts of the forecast by name: terms of a sum, or factors where logarithms are modeled."""
        parts: dict[str, Prediction] = getattr(self.within, "components", {})
        return {name: self._back(np.asarray(part.mean)) for name, part in parts.items()}

    @property
    def _deviation(self) -> FloatArray:
        return np.asarray(np.sqrt(np.asarray(self.within.variance) + self.within.noise))

    def errors(self, y: Any) -> FloatArray:
        """How far targets at these times are from the median, in standard deviations of the model; NaN where missing.

        Args:
            y: (n,) targets.
        """
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((np.log(y) if self.log else y) - self.within.mean) / self._deviation)

    def _back(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(values) if self.log else values


class Forecaster:
    """Choose a kernel over time for a series, tune it, and learn the series: a model with everything decided.

    The parts are a level, short memory, the seasons, and a trend where the evidence supports one; logarithms are
    modeled where all targets are above 0 and the evidence is larger. Inputs that are known in advance, such as a
    weather forecast, come beside them: each has a line, a curve, and both along the shortest season (heating by the
    hour), for its value and for its mean over the last season. ``model`` is a TimeGP; with inputs an OnlineGP over
    these features with ``time=``.

    Args:
        y: (n,) targets; NaN where missing.
        time: (n,) times, numbers or dates, in order; of rows of the same time the last counts. None: the dates that a
            series of pandas has as its index, otherwise rows are one apart.
        X: (n, d) inputs of the same rows; None: there are none.
        seasons: periods, such as 24.0 or "1d"; None: found by the autocorrelation and checked by the evidence.
        log: True or False to decide it; None: by the evidence.
        trend: likewise.
        rows: most rows that count for the hyperparameters, the last ones; all are learned.
        screen: whether targets far beyond all others, such as the fill value -9999, count as missing; False: all are
            believed.
        verbose: whether to print what is tried, to standard error.

    Attributes:
        step: how far apart rows usually are; those that come without a time follow at this distance.
        fill_values: how many targets counted as missing because they look like fill values.
        repeated: how many rows did not count because another one has their time.
        targets: of the last rows that were learned, as they were learned: NaN where missing.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> hours = np.arange(24.0 * 21)
        >>> load = 50 + 10 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(0, 0.1, len(hours))
        >>> forecaster = sg.Forecaster(load, seasons=[24.0])
        >>> forecaster.forecast(24).median.round()[[6, 18]]
        array([60., 40.])
    """

    model: TimeGP | OnlineGP
    _seen = np.nan  # the time of the last row
    _screen: FloatArray  # of the targets so far, as outliers.screened() takes it

    def __init__(
        self,
        y: Any,
        time: Any = None,
        X: Any = None,
        *,
        seasons: Sequence[float | str] | None = None,
        log: bool | None = None,
        trend: bool | None = None,
        rows: int = 1000,
        screen: bool = True,
        verbose: bool = False,
    ) -> None:
        compile_now(outliers.screen, check)
        tell: Callable[[str], None] = (
            partial(print, "Forecaster:", file=sys.stderr, flush=True) if verbose else lambda _: None
        )
        self._screens = screen
        self._features: InputFeatures | None = None
        y, times, dated = _series(y, time)
        first = self._taken(y, times, None if X is None else _inputs(X, len(y), None))
        for what, count in ((FILL_VALUES, first.fill_values), (REPEATED, first.repeated)):
            if count:
                tell(f"{what}: {count}")
        periods = None if seasons is None else [duration("seasons", period) for period in seasons]
        self.step = usual_gap(first.times[~np.isnan(first.y)]) or 1.0
        self.chosen: Chosen = choose(
            first.y,
            first.times,
            periods,
            calendar=CALENDAR if dated else (),
            log=log,
            trend=trend,
            rows=rows,
            tell=tell,
        )
        if first.X is not None:
            tell("tuning inputs and structure together")
            self._features = InputFeatures(first.X, min(self.chosen.structure.seasons, default=None))
            features, _ = self._features(first.X, first.times, None)
            self.chosen = beside(self.chosen, first.y, first.times, rows, features, self._features.groups)
        self._begin()
        self._learn(first)

    def _begin(self) -> None:
        """Learn nothing yet."""
        chosen = self.chosen
        self._recent: Recent | None = None
        self._seen = np.nan
        self.fill_values = self.repeated = 0
        self._last: FloatArray | None = None
        self._waiting: list[SeriesForecast] = []  # issued, and not yet judged to their ends
        self.spread = Spread(1)
        if chosen.variances is None:
            self.model = TimeGP(chosen.kernel, noise=chosen.noise)
        else:
            self.model = OnlineGP(Linear(1.0, constant=False), noise=chosen.noise, time=chosen.kernel)

    def fresh(self) -> Forecaster:
        """The same model, which has learned nothing."""
        other = copy.copy(self)
        other._begin()
        return other

    def learn(self, y: Any, time: Any = None, X: Any = None) -> None:
        """Learn more rows; the kernel stays as it is.

        Args:
            y: (n,) targets; NaN where missing.
            time: (n,) times after those before; None: the dates of a series of pandas, otherwise the rows follow, one
                ``step`` apart.
            X: (n, d) inputs, where the first rows had some.
        """
        y, times, _ = _series(y, time, 0.0 if np.isnan(self._seen) else self._seen + self.step, self.step)
        rows = self._taken(y, times, self._checked(X, len(y)))
        if self.chosen.structure.log and np.any(rows.y <= 0):
            raise ValueError("logarithms are modeled, but a target is not above 0; begin anew with log=False")
        self._learn(rows)

    def _taken(self, y: FloatArray, times: FloatArray, X: FloatArray | None) -> _Rows:
        """Rows as they are learned: of each time the last, without fill values."""
        at = in_order(times)
        at = at[times[at] != self._seen]
        left, screen = y[at, None], np.zeros((1, outliers.NUMBERS))
        if self._screens and np.isnan(self._seen):  # among the first rows fill values are known by those after them
            left = outliers.without_fill_values(left, False)
            outliers.screened(screen, left, False)
        elif self._screens:
            screen = self._screen.copy()
            left = outliers.screened(screen, left, False)
        filled = np.count_nonzero(np.isnan(left)) - np.count_nonzero(np.isnan(y[at]))
        return _Rows(left[:, 0], times[at], None if X is None else X[at], len(y) - len(at), int(filled), screen)

    def _learn(self, rows: _Rows) -> None:
        y, times, X, repeated, fill_values, screen = rows
        features, recent = self._featured_now(times, X)
        self.model.learn_many(features, self._within(y), time=times)
        self._judge_waiting(y, times)
        self._recent, self.targets, self._screen = recent, y, screen
        if len(times):
            self._seen, self._last = float(times[-1]), None if X is None else X[-1].copy()
        self.repeated += repeated
        self.fill_values += fill_values

    def _featured_now(self, times: FloatArray, X: FloatArray | None) -> tuple[FloatArray, Recent | None]:
        """The inputs as the model sees them, and what those after them need."""
        if X is None or self._features is None or self.chosen.variances is None:
            return np.empty((len(times), 0)), None
        features, recent = self._features(X, times, self._recent)
        return features * np.sqrt(self.chosen.variances)[self._features.groups], recent

    def _checked(self, X: Any, n: int) -> FloatArray | None:
        """Inputs, if there are any, as many as the first rows had."""
        if self._features is None and X is not None:
            raise ValueError("this Forecaster has no inputs; give X with its first rows to have some")
        if self._features is not None and X is None:
            raise ValueError(f"X is missing; this Forecaster has {self._features.width} inputs")
        return None if self._features is None else _inputs(X, n, self._features.width)

    def _within(self, y: FloatArray) -> FloatArray:
        """Targets as the model sees them."""
        return (np.log(y) if self.chosen.structure.log else y) - self.chosen.center

    def forecast(self, times: Any, X: Any = None) -> SeriesForecast:
        """Predict times ahead.

        Args:
            times: (n,) times that are not before the last learned one, or how many rows ahead, as far apart as most.
            X: (n, d) inputs at these times, in order; None: those of the last learned row stay.
        """
        if isinstance(times, int | np.integer):
            times = self._seen + self.step * np.arange(1.0, times + 1)
        at = inputs.times(times, len(times), many=True)
        if X is None and self._last is not None:
            X = np.tile(self._last, (len(at), 1))
        features, _ = self._featured_now(at, self._checked(X, len(at)))
        prediction = self.model.predict_many(features, time=at)
        step = (at - self._seen) / self.step
        within = prediction._moved(self.chosen.center, 1.0)
        return SeriesForecast(at, within, self.chosen.structure.log, step, self.spread)

    def issue_forecast(self, times: Any, X: Any = None) -> SeriesForecast:
        """Predict as ``forecast`` does; when targets at these times are learned, the forecast is judged by them.

        Of forecasts that are issued one after the other, those a quarter of their length apart are judged.
        """
        ahead = self.forecast(times, X)
        last = self._waiting[-1] if self._waiting else None
        if last is None or self._seen >= last.times[(len(last.times) - 1) // OVERLAP] - SAME * self.step:
            self._waiting.append(ahead)
        return ahead

    def _judge_waiting(self, y: FloatArray, times: FloatArray) -> None:
        """Judge the forecasts of some rows by their targets."""
        for ahead in self._waiting if len(times) else ():
            row = np.minimum(np.searchsorted(times, ahead.times - SAME * self.step), len(times) - 1)
            known = np.abs(times[row] - ahead.times) <= SAME * self.step
            if known.any():
                self.judge(ahead, np.where(known, y[row], np.nan))
        self._waiting = [ahead for ahead in self._waiting if not len(times) or ahead.times[-1] > times[-1]]

    def judge(self, forecast: SeriesForecast, y: Any) -> None:
        """Take note of how far off a past forecast was: the intervals of those to come are as wide as it takes.

        Args:
            forecast: an earlier one.
            y: (n,) targets at its times; NaN where missing.
        """
        self.spread.add(forecast.step, forecast.errors(y))

    def calibrate(self, y: Any, time: Any = None, X: Any = None, *, steps: int) -> FloatArray:
        """Forecast the past rows anew from some of them on, and judge all these forecasts.

        The hyperparameters are those found on all rows; the rows themselves are learned up to each forecast only. Every
        forecast's intervals go by those before it.

        Args:
            y: (n,) the targets that were learned.
            time: (n,) their times; None: as in ``learn``.
            X: (n, d) their inputs.
            steps: rows ahead.

        Returns:
            (forecasts, steps) the probability of the central interval that just reaches each target; NaN where none is.
        """
        model, learned = self.fresh(), 0
        y, times, _ = _series(y, time, 0.0, self.step)
        rows = model._taken(y, times, self._checked(X, len(y)))
        y, times = rows.y, rows.times
        first = max(int((1.0 - PART) * len(y)), LEARNED)
        origins = np.unique(np.linspace(first, len(y) - 1, ORIGINS if len(y) > first else 0).astype(int))
        found = np.full((len(origins), steps), np.nan)
        model.spread = Spread(steps)
        for i, origin in enumerate(origins):
            model._learn(rows.part(slice(learned, origin)))
            learned = origin
            # Which step a row is: rows may be missing, or not as far apart as most.
            step = np.round((times[origin:] - times[origin - 1]) / self.step).astype(int)
            later = origin + np.flatnonzero((step >= 1) & (step <= steps) & ~np.isnan(y[origin:]))
            if not later.size:
                continue
            ahead = model.forecast(times[later], None if rows.X is None else rows.X[later])
            found[i, step[later - origin] - 1] = model.spread.part(ahead.step, np.abs(ahead.errors(y[later])))
            model.judge(ahead, y[later])
        self.spread = model.spread
        return found


def _inputs(X: Any, n: int, d: int | None) -> FloatArray:
    """Inputs, checked."""
    known = inputs.rows(X, d)
    if len(known) != n:
        raise ValueError(f"X has {len(known)} rows, but there are {n} times; give one row of inputs for each")
    inputs.refuse(*check(known, known[:0], False, np.inf), many=True)
    return known


def in_order(times: FloatArray) -> NDArray[np.int64]:
    """The numbers of rows in the order of their times; of rows of the same time the last."""
    order = np.argsort(times, kind="stable")
    return np.asarray(order[np.append(np.diff(times[order]) > 0, True)[: len(order)]])


def _series(y: Any, time: Any, start: float = 0.0, step: float = 1.0) -> tuple[FloatArray, FloatArray, bool]:
    """Targets and times, checked, and whether these are dates; without times or dates of y rows are a step apart."""
    time = dates_of_index(getattr(y, "index", None)) if time is None else time
    Y, scalar = inputs.targets(y, len(y), None, True)
    if not scalar:
        raise ValueError(f"y must be one series, shape (n,); got {np.shape(y)}. Make one Forecaster for each")
    times = start + step * np.arange(float(len(Y))) if time is None else inputs.times(time, len(Y), many=True)
    refuse_unordered(times)
    inputs.refuse(*check(Y[:0], Y, False, np.inf), many=True)
    return Y[:, 0], times, time is not None and np.asarray(time).dtype.kind in "MO"

"""Forecaster: a series in, quantiles of the times ahead out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from streamgp.contract import inputs
from streamgp.contract.prediction import Prediction
from streamgp.recipes.time import TimeGP
from streamgp.settings import FloatArray, duration, probability
from streamgp.tuning.series import CALENDAR, Chosen, choose


@dataclass(frozen=True, eq=False)
class SeriesForecast:
    """What a series will be at some times.

    Args:
        times: (n,) in the unit of the series' times, seconds since 1970 for dates.
        within: the prediction in the units of the model: of targets, or of their logarithms.
        log: whether the model predicts logarithms.
    """

    times: FloatArray
    within: Prediction
    log: bool

    @property
    def median(self) -> FloatArray:
        return self.quantile(0.5)

    def quantile(self, level: float) -> FloatArray:
        """The value that a target stays below with this probability."""
        deviation = np.sqrt(np.asarray(self.within.variance) + self.within.noise)
        return self._back(self.within.mean + special.ndtri(probability("level", level)) * deviation)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold a target with this probability."""
        tail = 0.5 * (1.0 - probability("level", level))
        return self.quantile(tail), self.quantile(1.0 - tail)

    @property
    def components(self) -> dict[str, FloatArray]:
        """The parts of the forecast by name: terms of a sum, or factors where logarithms are modeled."""
        parts: dict[str, Prediction] = getattr(self.within, "components", {})
        return {name: self._back(np.asarray(part.mean)) for name, part in parts.items()}

    def _back(self, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(values) if self.log else values


class Forecaster:
    """Choose a kernel over time for a series, tune it, and learn the series: a TimeGP with everything decided.

    The parts are a level, short memory, the seasons, and a trend where the evidence supports one; logarithms are
    modeled where all targets are above 0 and the evidence is larger.

    Args:
        y: (n,) targets; NaN where missing.
        time: (n,) times, numbers or dates, in order; None: rows are one apart.
        seasons: periods, such as 24.0 or "1d"; None: found by the autocorrelation and checked by the evidence.
        log: True or False to decide it; None: by the evidence.
        trend: likewise.
        rows: most rows that count for the hyperparameters, the last ones; all are learned.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> hours = np.arange(24.0 * 21)
        >>> load = 50 + 10 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(0, 0.1, len(hours))
        >>> forecaster = sg.Forecaster(load, seasons=[24.0])
        >>> forecaster.forecast(24).median.round()[[6, 18]]
        array([60., 40.])
    """

    def __init__(
        self,
        y: Any,
        time: Any = None,
        *,
        seasons: Sequence[float | str] | None = None,
        log: bool | None = None,
        trend: bool | None = None,
        rows: int = 1000,
    ) -> None:
        dated = np.asarray(time).dtype.kind in "MO" and time is not None
        y, times = _series(y, time)
        periods = None if seasons is None else [duration("seasons", period) for period in seasons]
        self.chosen: Chosen = choose(
            y, times, periods, calendar=CALENDAR if dated else (), log=log, trend=trend, rows=rows
        )
        self.model = TimeGP(self.chosen.kernel, noise=self.chosen.noise)
        self._learn(y, times)

    def fresh(self) -> Forecaster:
        """The same model, which has learned nothing."""
        other = copy.copy(self)
        other.model = TimeGP(self.chosen.kernel, noise=self.chosen.noise)
        return other

    def learn(self, y: Any, time: Any = None) -> None:
        """Learn more rows; the kernel stays as it is.

        Args:
            y: (n,) targets; NaN where missing.
            time: (n,) times after those before; None: the rows follow, one apart.
        """
        if time is None:
            y = np.asarray(y, dtype=np.float64)
            time = self.model._numbers.state.clock[1] + 1.0 + np.arange(float(len(y)))
        y, times = _series(y, time)
        if self.chosen.structure.log and np.any(y <= 0):
            raise ValueError("logarithms are modeled, but a target is not above 0; begin anew with log=False")
        self._learn(y, times)

    def _learn(self, y: FloatArray, times: FloatArray) -> None:
        self.model.learn_many(np.empty((len(y), 0)), self._within(y), time=times)

    def _within(self, y: FloatArray) -> FloatArray:
        """Targets as the model sees them."""
        return (np.log(y) if self.chosen.structure.log else y) - self.chosen.center

    def forecast(self, times: Any) -> SeriesForecast:
        """Predict times ahead.

        Args:
            times: (n,) times that are not before the last learned one, or how many rows ahead.
        """
        if isinstance(times, int):
            state = self.model._numbers.state
            times = state.clock[1] + state.clock[2] * np.arange(1.0, times + 1)
        at = inputs.times(times, len(times), many=True)
        prediction = self.model.predict_many(time=at)
        return SeriesForecast(at, prediction._moved(self.chosen.center, 1.0), self.chosen.structure.log)


def _series(y: Any, time: Any) -> tuple[FloatArray, FloatArray]:
    """Targets and times, checked."""
    Y, scalar = inputs.targets(y, len(y), None, True)
    if not scalar:
        raise ValueError(f"y must be one series, shape (n,); got {np.shape(y)}. Make one Forecaster for each")
    times = np.arange(float(len(Y))) if time is None else inputs.times(time, len(Y), many=True)
    for at in np.flatnonzero(np.isinf(Y[:, 0])):
        raise ValueError(f"y is infinite in row {at}: targets are numbers, or NaN where missing")
    return Y[:, 0], times

"""Forecasts: what the target of a stream will be over the next rows, and what was assumed to say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from streamgp.contract.spacing import usual_gap
from streamgp.job.forecast import LEAST_ROWS
from streamgp.job.pipeline import Pipeline
from streamgp.serve.messages import ForecastAnswer, RefusedError
from streamgp.settings import FloatArray, duration, probability
from streamgp.tables.times import Written
from streamgp.tuning.forecaster import Forecaster, in_order

KEPT = 2000  # rows of a stream that forecasts are made of
MOST_STEPS = 2000  # rows ahead
MOST_LEVELS = 20
RENEWED = 500  # rows after which seasons, trend and hyperparameters are looked for again
WITHOUT_INPUTS = (
    "inputs are not used: the last {rows} targets go on over time, with the seasons and the trend found in them"
)
LAST_INPUTS = "inputs stay as they are in the last row"

Past = Sequence[tuple[float, float, float]]  # of each row its number, seconds since 1970 or NaN, target or NaN


class Forecast(Protocol):
    """A distribution for each of some rows."""

    def quantile(self, level: float, /) -> FloatArray: ...


class Asked(NamedTuple):
    """What a forecast is asked for.

    Args:
        ahead: a number of rows, or a length of time such as "24h".
        levels: of the quantiles.
    """

    ahead: str
    levels: tuple[float, ...]

    @classmethod
    def of(cls, query: Mapping[str, str], defaults: Mapping[str, str]) -> Asked:
        """From the query of a request."""
        ahead, listed = (query.get(name, defaults[name]) for name in ("ahead", "quantiles"))
        try:
            levels = {probability("each of `quantiles`", float(text)) for text in listed.split(",")}
        except ValueError:
            raise _refused(
                f"quantiles must be numbers above 0 and below 1, such as 0.1,0.5,0.9; got {listed[:80]!r}"
            ) from None
        if len(levels) > MOST_LEVELS:
            raise _refused(f"there may be {MOST_LEVELS} quantiles; got {len(levels)}")
        return cls(ahead, tuple(sorted(levels)))


class Series:
    """The last targets of a stream in the order of time: by their times, or by their rows where those are not known.

    Args:
        past: the last rows.
        written: the last time as it came; "" where there is none.
    """

    def __init__(self, past: Past, written: str) -> None:
        row, seconds, y = np.array(past, dtype=np.float64).reshape(-1, 3).T
        self.row = int(row[-1]) if len(row) else 0
        is_dated = bool(np.count_nonzero(np.isfinite(seconds)) > len(row) // 2)
        times = seconds if is_dated else row
        known = np.flatnonzero(np.isfinite(times))
        at = known[in_order(times[known])]
        self.times, self.y = times[at], y[at]
        self._written = written if is_dated else ""
        if np.count_nonzero(np.isfinite(self.y)) < LEAST_ROWS:
            raise RefusedError(
                409, "too_few_rows", f"a forecast needs {LEAST_ROWS} rows with a target", "post rows, then ask again"
            )

    @property
    def is_dated(self) -> bool:
        return bool(self._written)

    def ahead(self, text: str) -> FloatArray:
        """The times of the next rows, as far apart as most rows are."""
        step = usual_gap(self.times)
        if text.strip().isdecimal():
            steps = int(text) if len(text) < 10 else MOST_STEPS + 1
        elif not self.is_dated:
            raise _refused(f"the stream has no times, so ahead must be a number of rows; got {text[:40]!r}")
        else:
            try:
                steps = max(1, round(min(duration("ahead", text) / step, 2.0 * MOST_STEPS)))
            except (ValueError, TypeError):
                raise _refused(
                    f"ahead must be a number of rows, or a length of time such as 90s, 24h or 2d; got {text[:40]!r}"
                ) from None
        if not 1 <= steps <= MOST_STEPS:
            raise _refused(f"ahead must be 1 to {MOST_STEPS} rows; {text[:40]!r} is {_counted(steps)}")
        return np.asarray(self.times[-1] + step * np.arange(1.0, steps + 1))

    def as_times(self, times: FloatArray) -> np.ndarray:
        """Times as the library takes them: dates where they are."""
        return (1e6 * times).round().astype("datetime64[us]") if self.is_dated else times

    def shown(self, times: FloatArray) -> list[str]:
        """Times as the stream writes them."""
        written = Written.like(self._written, "T")
        return [written.shown(time) for time in times]


class Forecasting:
    """Forecasts the series of a stream; what takes seconds to find is found again only after many rows."""

    def __init__(self) -> None:
        self._chosen: Forecaster | None = None
        self._from, self._until = 0, 0  # rows of the stream for which it holds

    def over_time(self, series: Series, steps: int) -> Forecaster:
        """A model of the series over time, which has learned it, and how far off it was up to this many rows ahead."""
        times, learned = series.as_times(series.times), None
        if self._chosen is not None and self._from <= series.row < self._until:
            learned = self._chosen.fresh()
            try:
                learned.learn(series.y, times)
            except ValueError:  # a target that has no logarithm
                learned = None
        if learned is None:
            learned = self._chosen = Forecaster(series.y, times)
            self._from, self._until = series.row, series.row + min(series.row, RENEWED)
        learned.calibrate(series.y, times, steps=steps)
        return learned


def own(pipeline: Pipeline, series: Series, asked: Asked) -> ForecastAnswer | None:
    """The forecast of the stream's own model, in its turn; None where that has no kernel over time."""
    if pipeline.lags or pipeline.horizon or not series.is_dated or pipeline.model._moment() is None:
        return None
    times = series.ahead(asked.ahead)
    return _answer(series, times, pipeline.model.forecast(times), asked, pipeline.request.model, LAST_INPUTS)


def over_time(forecasting: Forecasting, series: Series, asked: Asked) -> ForecastAnswer:
    """The forecast of a model over time alone; it may take seconds."""
    times = series.ahead(asked.ahead)
    try:
        forecast = forecasting.over_time(series, len(times)).forecast(series.as_times(times))
    except ValueError as error:
        raise RefusedError(409, "no_forecast", str(error), "post more rows, then ask again") from None
    return _answer(series, times, forecast, asked, "over time", WITHOUT_INPUTS.format(rows=len(series.y)))


def _answer(
    series: Series, times: FloatArray, forecast: Forecast, asked: Asked, model: str, assumed: str
) -> ForecastAnswer:
    return ForecastAnswer(
        issued=series.row,
        row=list(range(series.row + 1, series.row + 1 + len(times))),
        time=series.shown(times) if series.is_dated else None,
        median=forecast.quantile(0.5).tolist(),
        quantiles={f"{level:g}": forecast.quantile(level).tolist() for level in asked.levels},
        model=model,
        assumed=assumed,
    )


def _counted(steps: int) -> str:
    return f"{steps} rows" if steps <= MOST_STEPS else "more"


def _refused(message: str) -> RefusedError:
    return RefusedError(422, "bad_parameter", message)

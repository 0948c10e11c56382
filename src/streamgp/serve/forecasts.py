"""Forecasts: what the target of a stream will be over the next rows, and what was assumed to say so."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract.spacing import usual_gap
from streamgp.job.forecast import LEAST_ROWS
from streamgp.serve.learner import Learner
from streamgp.serve.messages import ForecastAnswer, ForecastQuery, RefusedError, refusing
from streamgp.settings import FloatArray, duration, probability
from streamgp.tables.times import Written
from streamgp.tuning.forecaster import Forecaster, in_order

MOST_STEPS = 2000  # rows ahead
MOST_LEVELS = 20
RENEWED = 500  # rows after which seasons, trend and hyperparameters are looked for again
WITHOUT_INPUTS = (
    "inputs are not used: the last {rows} targets go on over time, with the seasons and the trend found in them"
)
LAST_INPUTS = "inputs stay as they are in the last row"

Past = Sequence[tuple[float, float, float]]  # of each row its number, seconds since 1970 or NaN, target or NaN


def levels_of(query: ForecastQuery) -> list[float]:
    """The levels of the quantiles that a request asks for."""
    try:
        levels = {probability("each of `quantiles`", float(text)) for text in query.quantiles.split(",")}
    except ValueError:
        wanted = "quantiles must be numbers above 0 and below 1, such as 0.1,0.5,0.9"
        raise RefusedError("bad_parameter", f"{wanted}; got {query.quantiles[:80]!r}") from None
    if len(levels) > MOST_LEVELS:
        raise RefusedError("bad_parameter", f"there may be {MOST_LEVELS} quantiles; got {len(levels)}")
    return sorted(levels)


class Series:
    """The last targets of a stream in the order of time: by their times, or by their rows where those are not known;
    ``written`` is the last time as it came."""

    def __init__(self, past: Past, written: str) -> None:
        row, seconds, y = np.array(past, dtype=np.float64).reshape(-1, 3).T
        self.row = int(row[-1]) if len(row) else 0
        self.is_dated, self._written = bool(np.count_nonzero(np.isfinite(seconds)) > len(row) // 2), written
        times = seconds if self.is_dated else row
        known = np.flatnonzero(np.isfinite(times))
        at = known[in_order(times[known])]
        self.times, self.y = times[at], y[at]
        if np.count_nonzero(np.isfinite(self.y)) < LEAST_ROWS:
            few = f"a forecast needs {LEAST_ROWS} rows with a target"
            raise RefusedError("too_few_rows", few, "post rows, then ask again")

    def ahead(self, text: str) -> FloatArray:
        """The times of the next rows, as far apart as most rows are."""
        step, wanted = usual_gap(self.times), "ahead must be a number of rows"
        if text.strip().isdecimal():
            steps = int(text) if len(text) < 10 else MOST_STEPS + 1
        elif not self.is_dated:
            raise RefusedError("bad_parameter", f"the stream has no times, so {wanted}; got {text[:40]!r}")
        else:
            try:
                steps = max(1, round(min(duration("ahead", text) / step, 2.0 * MOST_STEPS)))
            except (ValueError, TypeError):
                wanted += ", or a length of time such as 90s, 24h or 2d"
                raise RefusedError("bad_parameter", f"{wanted}; got {text[:40]!r}") from None
        if not 1 <= steps <= MOST_STEPS:
            counted = f"{steps} rows" if steps <= MOST_STEPS else "more"
            raise RefusedError("bad_parameter", f"ahead must be 1 to {MOST_STEPS} rows; {text[:40]!r} is {counted}")
        return np.asarray(self.times[-1] + step * np.arange(1.0, steps + 1))

    def as_times(self, times: FloatArray) -> np.ndarray:
        """Times as the library takes them: dates where they are."""
        return (1e6 * times).round().astype("datetime64[us]") if self.is_dated else times

    def shown(self, times: FloatArray) -> list[str]:
        """Times as the stream writes them."""
        written = Written.like(self._written, "T")
        return [written.shown(time) for time in times]

    def answer(
        self, times: FloatArray, forecast: Any, asked: ForecastQuery, model: str, assumed: str
    ) -> ForecastAnswer:
        """What a client gets to see of a forecast of these times."""
        return ForecastAnswer(
            issued=self.row,
            row=list(range(self.row + 1, self.row + 1 + len(times))),
            time=self.shown(times) if self.is_dated else None,
            median=forecast.quantile(0.5).tolist(),
            quantiles={f"{level:g}": forecast.quantile(level).tolist() for level in levels_of(asked)},
            model=model,
            assumed=assumed,
        )


def own(learner: Learner, asked: ForecastQuery) -> Series | ForecastAnswer:
    """In the stream's turn: the forecast of its model; or what a model over time needs for one, where its own has no
    kernel over time."""
    series, pipeline = Series(learner.past, learner.written), learner.pipeline
    if pipeline is None or pipeline.lags or pipeline.horizon or not series.is_dated or pipeline.model._moment is None:
        return series
    times = series.ahead(asked.ahead)
    return series.answer(times, pipeline.model.forecast(times), asked, pipeline.request.model, LAST_INPUTS)


class Forecasting:
    """Forecasts the series of a stream; what takes seconds to find is found again only after many rows."""

    def __init__(self) -> None:
        self._chosen: Forecaster | None = None
        self._from, self._until = 0, 0  # rows of the stream for which it holds

    def over_time(self, series: Series, asked: ForecastQuery) -> ForecastAnswer:
        """The forecast of a model over time alone; it may take seconds."""
        ahead, times = series.ahead(asked.ahead), series.as_times(series.times)
        model: Forecaster | None = None
        with refusing("no_forecast", hint="post more rows, then ask again"):
            if self._chosen is not None and self._from <= series.row < self._until:
                again = self._chosen.fresh()
                with contextlib.suppress(ValueError):  # a target that has no logarithm
                    again.learn(series.y, times)
                    model = again
            if model is None:
                model = self._chosen = Forecaster(series.y, times)
                self._from, self._until = series.row, series.row + min(series.row, RENEWED)
            model.calibrate(series.y, times, steps=len(ahead))  # how far off it was so many rows ahead
            forecast = model.forecast(series.as_times(ahead))
        return series.answer(ahead, forecast, asked, "over time", WITHOUT_INPUTS.format(rows=len(series.y)))

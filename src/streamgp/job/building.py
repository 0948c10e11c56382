"""The stream model of a run: what was asked for, with past targets as inputs, ahead of time, beside yardsticks."""

from __future__ import annotations

from typing import Any

from streamgp.auto.auto import Auto
from streamgp.auto.tuned import Tuned
from streamgp.contract.model import Shape, StreamModel
from streamgp.job.request import AUTO, Request
from streamgp.job.yardsticks import Measured
from streamgp.tables.columns import Schema
from streamgp.wrappers.alarms import Alarms
from streamgp.wrappers.delayed import Ahead, Delayed
from streamgp.wrappers.lagged import Lagged

MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DEFAULT_LAGS = 10  # ahead of time, or where the target's own past is all there is to predict from


def default_lags(schema: Schema, model: str, horizon: int) -> int:
    """Without other inputs, or ahead of time, a few; auto lets models with and without them compete."""
    own = len(schema.input_names)
    if model == AUTO:
        return Auto(seasons=schema.seasons, ahead=horizon).lags_for(own)
    return 0 if own and not horizon else DEFAULT_LAGS


def stream_model(schema: Schema, request: Request, lags: int, yardsticks: list[StreamModel]) -> Measured | Delayed:
    """Return a model that predicts calibrated intervals, beside yardsticks, and takes late targets where there are any.

    A horizon is within what waits for late targets: a row's own prediction was made ``horizon`` rows before it, and
    whenever its target comes, it is learned at the row that the prediction was made from.

    Args:
        schema: what the columns are.
        request: which model, how, and how far ahead.
        lags: past targets that are inputs.
        yardsticks: that predict the same.
    """
    own, run = len(schema.input_names), request.run
    common: dict[str, Any] = {name: getattr(run, name) for name in ("level", "warmup", "tune", "drift", "screen")}
    model: StreamModel
    if request.model == AUTO:
        settings = {"seasons": list(schema.seasons), "budget": run.budget, "candidates": request.own or None}
        model = Auto(lags=lags, **settings, **common)
    else:
        model = Tuned(request.build(own + lags), made_up=max(lags - 1, 0), **common)
        model = Lagged(model, lags=lags) if lags else model
    if request.horizon:
        model = Ahead(model, horizon=request.horizon)
    if run.alarms is not None:
        model = Alarms(model, rate=run.alarms)
    measured = Measured([model, *yardsticks], horizon=request.horizon, needs_past=bool(lags) or request.model == AUTO)
    stream = Delayed(measured, pending=run.pending) if request.late else measured
    stream._prepare(Shape(own, 1, scalar=False, certain=True))
    return stream

"""The stream model of a run: what was asked for, with past targets as inputs, ahead of time."""

from __future__ import annotations

from typing import Any, NoReturn

from streamgp.auto import features
from streamgp.auto.auto import Auto
from streamgp.auto.tuned import Tuned
from streamgp.contract.model import Shape, StreamModel
from streamgp.job.request import AUTO, Request
from streamgp.settings import whole
from streamgp.tables.columns import Schema
from streamgp.tables.source import RowsError
from streamgp.wrappers.ahead import Ahead
from streamgp.wrappers.alarms import Alarms
from streamgp.wrappers.lagged import Lagged

MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DEFAULT_LAGS = 10  # ahead of time, or where the target's own past is all there is to predict from


def default_lags(schema: Schema, model: str, horizon: int) -> int:
    """Without other inputs, or ahead of time, a few; auto lets models with and without them compete."""
    own = len(schema.input_names)
    if model == AUTO:
        return features.default_lags(own, schema.seasons, horizon)
    return 0 if own and not horizon else DEFAULT_LAGS


def checked_lags(schema: Schema, request: Request, lags: int | None) -> int:
    """How many past targets are inputs: those that were asked for, or the default."""
    own = len(schema.input_names)
    lags = default_lags(schema, request.model, request.horizon) if lags is None else whole("lags", lags, at_least=0)
    if own + lags > MOST_INPUTS:
        raise ValueError(
            f"a row would have {own + lags} inputs ({own} of the columns, {lags} lags); the limit is {MOST_INPUTS}. "
            "Select columns with `inputs`, or lower `lags`"
        )
    if own + lags == 0:
        raise RowsError("nothing to predict from: the target is the only column in use; give `lags=10`, or `inputs`")
    return lags


def stream_model(schema: Schema, request: Request, lags: int) -> StreamModel:
    """Return a model that predicts calibrated intervals, of the row or of one ``horizon`` rows ahead.

    Whenever the target of a row comes, it is learned at the row that its prediction was made from.

    Args:
        schema: what the columns are.
        request: which model, how, and how far ahead.
        lags: past targets that are inputs.
    """
    own, run = len(schema.input_names), request.run
    common: dict[str, Any] = {name: getattr(run, name) for name in ("level", "warmup", "tune", "drift", "screen")}
    model: StreamModel
    if request.model == AUTO:
        candidates = request.own
        prior = candidates.pop("prior", None)
        common |= {"budget": run.budget, "trees": run.trees, "candidates": candidates or None}
        model = Auto(lags=lags, prior=prior, seasons=list(schema.seasons), **common)
    else:
        model = Tuned(request.build(own + lags), made_up=max(lags - 1, 0), **common)
        model = Lagged(model, lags=lags) if lags else model
    if request.horizon:
        model = Ahead(model, horizon=request.horizon)
    if run.alarms is not None:
        model = Alarms(model, rate=run.alarms)
    model._prepare(Shape(own, 1, certain=True))
    if model._needs_time and not schema.time:
        _refuse_no_time(request, model)
    return model


def _refuse_no_time(request: Request, model: StreamModel) -> NoReturn:
    """Say what needs a column of times where there is none."""
    which, instead = "a rate of alarms by time", "give `alarms` for each row, such as 1e-3"
    if request.by_time:
        which, instead = "half_life", "drop `half_life` to forget by rows"
    elif model._moment() is not None:
        which, instead = "a kernel over time", "add the column, or drop `time`"
    raise RowsError(
        f"{which} needs a column that says when each row was observed, with dates or numbers, and there is none; "
        f"{instead}"
    )

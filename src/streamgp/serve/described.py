"""Streams by their settings: the run that these ask for, the settings of a run, and what no stream can have."""

from __future__ import annotations

from typing import Any

import msgspec

from streamgp.job.named import value_of
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import MOST_PENDING, Request, default_lags, told_of_columns
from streamgp.serve import cost
from streamgp.serve.messages import LONGEST_SETTING, ColumnSchema, RefusedError, StreamSettings, refusing
from streamgp.settings import whole
from streamgp.tables.columns import Schema
from streamgp.tables.recognizing import refuse_uses

PENDING = 10_000  # rows that wait for their targets, unless the settings say otherwise
MOST_WARMUP = 10_000  # rows: a stream shares memory and time with others; see cost.py


def new_pipeline(settings: StreamSettings, schema: Schema) -> Pipeline:
    """What a stream starts with, unless it is too large."""
    request = Request(settings.model, run_settings(settings), settings.horizon)
    lags = default_lags(schema, settings.model, settings.horizon) if settings.lags is None else settings.lags
    cost.refuse(request, max(len(schema.input_names) + lags, 1), pending_of(settings))
    pipeline = Pipeline(schema, settings.model, run_settings(settings), settings.lags, settings.horizon)
    cost.refuse_pending(pipeline, pending_of(settings))
    return pipeline


def run_settings(settings: StreamSettings) -> dict[str, Any]:
    """The settings as a run takes them."""
    own = {name: value for name, value in settings.settings.items() if name != "pending"}
    schema = {} if settings.schema is None else {"schema": msgspec.to_builtins(settings.schema)}
    return own | schema | {"level": settings.level}


def settings_of(pipeline: Pipeline) -> StreamSettings:
    """The settings of a run."""
    given = pipeline.request.settings
    own = {name: _shown(value) for name, value in given.items() if name not in ("level", "schema")}
    return StreamSettings(
        pipeline.schema.target,
        list(pipeline.schema.inputs),
        pipeline.lags,
        pipeline.horizon,
        pipeline.request.model,
        own,
        pipeline.level,
        msgspec.convert(given.get("schema"), dict[str, str | ColumnSchema] | None),
    )


def _shown(value: Any) -> float | str | None:
    """A setting as messages can have it; what cannot be is told in words."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:LONGEST_SETTING]


def pending_of(settings: StreamSettings) -> int:
    """How many rows can wait for their targets."""
    return whole("pending", value_of(settings.settings.get("pending", PENDING)), at_most=MOST_PENDING)


def check_settings(settings: StreamSettings) -> None:
    """Refuse settings that no stream can have, before its first row."""
    given = settings.settings.get("level", settings.level)
    with refusing("bad_settings", Exception):  # what they say may do anything to a constructor
        if str(given) != str(settings.level):
            raise ValueError(f"level is given twice: {settings.level} and, in settings, {given}")
        if settings.inputs is not None and settings.target in settings.inputs:
            raise ValueError(
                f"{settings.target!r} is the target and cannot be an input; for its past values use `lags`"
            )
        if "schema" in settings.settings:
            raise ValueError("schema is a field of its own, beside settings")
        declared = told_of_columns(run_settings(settings))["declared"] or {}
        refuse_uses(declared, settings.target, settings.inputs, "")
        if "warmup" in settings.settings:
            whole("warmup", value_of(settings.settings["warmup"]), at_most=MOST_WARMUP)
        # How many inputs there are may turn out later, and new_pipeline looks again.
        inputs = len(settings.inputs or ()) + (settings.lags or 0)
        request = Request(settings.model, run_settings(settings), settings.horizon)
        cost.refuse(request, max(inputs, 1), pending_of(settings))


def refuse_waiting(pipeline: Pipeline) -> None:
    """Refuse tickets for a stream whose model cannot wait for targets."""
    if pipeline.horizon:
        ahead = f"the stream predicts {pipeline.horizon} rows ahead and gets its targets from later rows"
        raise RefusedError("has_horizon", ahead, "post rows: each is answered with the prediction ahead")
    with refusing("cannot_wait", hint="post rows, with null where the target is missing"):
        Request(pipeline.request.model, pipeline.request.settings, late=True)

"""What is told of a run: what its models know of themselves, and in words its abnormal rows and its changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.contract.within import family
from streamgp.job.changes import StreamChange
from streamgp.job.scores import shown
from streamgp.settings import FloatArray
from streamgp.tables.columns import NEW_LEVEL, Schema
from streamgp.tables.encoding import RowEncoder
from streamgp.wrappers.alarms import Alarm

ALARMS = {"spike": "one row", "level": "the level changed", "relation": "inputs and target relate otherwise"}
COUNTED = {
    "spike": ("spike", "spikes"),
    "level": ("change of the level", "changes of the level"),
    "relation": ("change of the relation", "changes of the relation"),
}
FAINT = 0.02  # a smaller shift of the targets, as a part of their level, is none to be told


def model_with(model: StreamModel, name: str) -> Any:
    """The first of a model and those within it that has something of this name; None: none has.

    Args:
        model: the outermost one.
        name: of what can be read of models, such as "chosen", "weights" or "upcoming".
    """
    return next((one for one in family(model) if hasattr(type(one), name)), None)


def asked(model: StreamModel, name: str) -> Any:
    """What the first of a model and those within it that has something of this name says; None: none has."""
    found = model_with(model, name)
    return None if found is None else getattr(found, name)


def uses_time(model: StreamModel) -> bool:
    """Whether a model uses the times of rows."""
    return model._needs_time or model._sees_time


def of_alarm(alarm: Alarm, names: Sequence[str]) -> str:
    """Why a row is abnormal, by the names of its inputs."""
    cause = "" if alarm.cause < 0 else f"; most unlike its usual effect: {names[alarm.cause]}"
    seen = f"{alarm.observed:.4g} observed, {alarm.expected:.4g} expected"
    chance = (
        f"p = {alarm.p_value:.1g}"
        if alarm.kind == "spike"
        else f"by chance at most once in {shown(1 / alarm.p_value)} rows"
    )
    return f"alarm, {ALARMS[alarm.kind]}: {seen}, {chance}{cause}"


def counted_alarms(counts: Mapping[str, int]) -> str:
    """How many alarms there were of each kind; empty where there were none."""
    return ", ".join(f"{count} {COUNTED[kind][count > 1]}" for kind, count in counts.items() if count)


def of_change(change: StreamChange, schema: Schema) -> str:
    """What has changed."""
    target, unit = schema.target, schema.column(schema.target).form
    shift, level = change.shift, change.level
    by = f"{shown(abs(shift))}{unit and ' '}{unit}"
    if abs(level) > abs(shift):
        by += f" ({100 * abs(shift / level):.0f}%)"
    if abs(shift) < FAINT * max(abs(level), abs(shift)):
        return f"{target} depends on its inputs otherwise than before"
    return f"{target} is {by} {'higher' if shift > 0 else 'lower'} than the same inputs gave before"


def relevance(model: StreamModel) -> FloatArray:
    """How much each input counts by lengthscales; nothing where a model has none, or has seen no row."""
    try:
        return model.relevance().inputs
    except (ValueError, RuntimeError):
        return np.zeros(0)


def importance(model: StreamModel, encoder: RowEncoder, inputs: Sequence[str]) -> dict[str, float]:
    """How much each column counts, as shares, the largest first; empty where models cannot tell.

    Of auto by how far predictions of the last rows move, of other models by lengthscales. It takes
    as long as a few thousand predictions.

    Args:
        model: of a run.
        encoder: of its rows.
        inputs: the names of the model's inputs, those of the encoder first, then past targets.
    """
    columns, past = encoder.input_sources, f"past {encoder.schema.target}"
    if (auto := model_with(model, "importance")) is not None:
        names = list(dict.fromkeys(columns))
        groups = [[i for i, one in enumerate(columns) if one == name] for name in names]
        shares = dict(zip([*names, past], auto.importance(groups).tolist(), strict=False))
    else:
        columns += [past] * (len(inputs) - len(columns))
        weights = relevance(model)
        shares = dict.fromkeys(columns, 0.0) if len(weights) == len(columns) else {}
        for name, weight in zip(shares and columns, weights.tolist(), strict=False):
            shares[name] += weight
    shares.pop(NEW_LEVEL, None)
    total = sum(shares.values()) or 1.0
    return {name: share / total for name, share in sorted(shares.items(), key=lambda item: -item[1])}

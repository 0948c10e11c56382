"""How the rows of a call pass: from what users hand over to arrays, through the model, and back to a prediction."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from streamgp.contract import frames, inputs
from streamgp.contract.atomic import undone_on_error, uninterrupted
from streamgp.contract.checks import check
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import PREDICT, SCREEN, TAKE, TRACK, listed
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import Shape
from streamgp.settings import FloatArray

Model = TypeVar("Model", bound=Any)  # a stream model


def take_many(
    model: Any,
    X: Any,
    Y: Any,
    report: bool,
    *,
    target: Any = None,
    columns: Any = None,
    time: Any = None,
    **given: Any,
) -> Prediction | None:
    """Take rows, with the noise, the time and the weight of each, by which its noise is divided, where given."""
    X, Y, time, names, origin = frames.taken(X, Y, time, target, columns, model._names)
    X = inputs.rows(X, model._shape.d)
    scalar, certain = model._shape.scalar, Y is not None or not report  # track alone goes without targets
    if certain:
        Y, scalar = inputs.targets(Y, len(X), model._shape.outputs, scalar)
    conditions = conditions_of(model, len(X), Y, time=time, **given, many=True)
    if not len(X):
        return nothing(model)._from(origin) if report else None
    frame = None if names is None and origin is None else (names, origin)
    return take(model, X, Y, scalar, certain, many=True, report=report, conditions=conditions, frame=frame)


def take(
    model: Any,
    X: FloatArray,
    Y: FloatArray | None,
    scalar: bool,
    certain: bool,
    *,
    many: bool,
    report: bool,
    conditions: FloatArray | None = None,
    frame: tuple[Any, Any] | None = None,  # the names that the model is to remember, and where predictions belong
) -> Prediction | None:
    """Advance; the first row, and the first target, tell the shape of all. Predictions are as users see them."""
    known = model._shape.covers(certain)
    with whole(model, known and len(X) == 1):
        if not known:
            begin(model, X, Y, scalar, certain, many=many)
        columns = learn(model, X, Y, report, conditions)
        shown = shaped(model, columns, many=many) if report else None
        if frame is not None:
            names, origin = frame
            shown = None if shown is None else shown._from(origin)
            model._names = model._names if names is None else names
        return shown


def begin(model: Any, X: FloatArray, Y: FloatArray | None, scalar: bool, certain: bool, *, many: bool) -> None:
    """Check first rows, or those with the first target, before anything changes, and allocate for their shape."""
    p: int = model._outputs or model._p or 1
    if certain and Y is not None:
        if model._outputs not in (None, Y.shape[1]):
            raise ValueError(f"y must have {p} numbers, one for each of the models within; got {Y.shape[1]}")
        p = Y.shape[1]
    refuse_unfit(model, X, Y, many=many)
    model._prepare(Shape(X.shape[1], p, scalar, certain))


def learn(
    model: Any, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
) -> FloatArray:
    """Take rows as they come from outside; the columns of their predictions, if asked for."""
    Y = np.full((len(X), model._p or 1), np.nan) if Y is None else Y
    kind = TRACK if report else TAKE
    if model._one_step:
        kind |= SCREEN
    else:
        refuse_unfit(model, X, Y)
        Y = model._screened(Y)
    model._last_targets = Y
    columns: FloatArray = model._pass(listed(len(X), kind), X, Y, conditions, None)
    return columns


def predict(model: Any, X: FloatArray, conditions: FloatArray | None, *, many: bool) -> Prediction:
    """Predict rows as they come from outside, each as if it came next."""
    kind = PREDICT
    if model._one_step:
        kind |= SCREEN
    else:
        refuse_unfit(model, X, many=many and len(X) > 1)
    started = started_for(model, X)
    return shaped(started, started._pass(listed(len(X), kind), X, None, conditions, None), many=many)


def predicted(model: Any, X: FloatArray, conditions: FloatArray | None = None) -> FloatArray:
    """The columns of predictions of rows that would each come next, (columns, n, p)."""
    columns: FloatArray = model._pass(listed(len(X), PREDICT), X, None, conditions, None)
    return columns


def nothing(model: Any) -> Prediction:
    """The prediction of no rows, of the kind that a model makes."""
    shape = (0,) if model._shape.scalar else (0, model._p or 1)
    none: Prediction = model._told([np.empty(shape) for _ in model._columns])
    return none


def whole(model: Any, quick: bool) -> AbstractContextManager[None]:
    """A block that is done whole or not at all; quick: it takes one row whose shape is known."""
    return uninterrupted() if quick and not model._may_fail else undone_on_error(model)


def conditions_of(
    model: Any, n: int, Y: FloatArray | None, noise: Any = None, time: Any = None, weight: Any = None, *, many: bool
) -> FloatArray | None:
    """The conditions of n rows, checked, as one array; None: there are none."""
    if noise is None and time is None and weight is None and not model._needs_time:
        return None
    p = model._p or 1 if Y is None else Y.shape[1]
    learned = np.zeros((n, p), dtype=bool) if Y is None else ~np.isnan(Y)
    result = np.full((n, NOISE + (1 if model._shared else p)), np.nan)
    if (noise is not None or weight is not None) and (why := model._cannot("weigh", 1 if noise is None else p)):
        raise ValueError(why)
    if noise is not None:
        result[:, NOISE:] = inputs.noises(noise, learned, model._shared, many=many)
    if weight is not None:
        result[:, WEIGHT] = weight
    if time is not None:
        result[:, TIME] = inputs.times(time, n, many=many)
    if model._needs_time:
        model._refuse_times(None if time is None else result[:, TIME], np.asarray(learned.any(axis=1)), many)
    return result


def conditions_at(model: Any, time: Any, n: int, *, many: bool) -> FloatArray:
    """The conditions of n rows that are predicted at times."""
    conditions = np.full((n, NOISE + 1), np.nan)
    conditions[:, TIME] = inputs.times(time, n, many=many)
    model._refuse_times(conditions[:, TIME], None, many)
    return conditions


def refuse_unfit(model: Any, X: FloatArray, Y: FloatArray | None = None, *, many: bool | None = None) -> None:
    """Refuse rows that no model of this kind takes."""
    if X.shape[1] == 0 and not model._without_inputs:
        inputs.refuse_empty("X" if many else "x")
    several = len(X) > 1 if many is None else many
    status, at = check(X, X[:0] if Y is None else Y, model._shared, model._largest)
    if status:
        inputs.refuse(status, at, many=several)
    if Y is not None and model._refuse_targets is not None:
        model._refuse_targets(Y, many=several)


def started_for(model: Model, X: FloatArray) -> Model:
    """This model, or, before the first row, one that holds the prior for such inputs."""
    if model._shape.d is not None:
        return model
    refuse_unfit(model, X)
    prior: Model = model.clone()
    prior._prepare(Shape(X.shape[1], 1))
    return prior


def with_slopes(model: Any, X: FloatArray, conditions: FloatArray | None, *, many: bool) -> Prediction:
    """A prediction with derivatives, as users see it."""
    refuse_unfit(model, X, many=many)
    told: Prediction = started_for(model, X)._analysis().derived(X, conditions)
    return told._shaped(scalar=model._shape.scalar, many=many)


def shaped(model: Any, columns: FloatArray, *, many: bool) -> Prediction:
    """The prediction of columns, (columns, n, p), as users see it: scalars, (p,), (n,) or (n, p)."""
    scalar = model._shape.scalar
    if many:
        of_all: Prediction = model._told(list(columns[:, :, 0] if scalar else columns))
        return of_all
    of_one: Prediction = model._told(columns.ravel().tolist() if scalar else list(columns[:, 0]))
    return of_one

"""How a row is issued whose target comes later, and how it is learned then: as of its own moment."""

from __future__ import annotations

import numpy as np

from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray


def issued_width(model: StreamModel) -> int:
    """How many numbers issued() returns."""
    return (model._d or 0) + model._issued_width(model._p or 1) + memory_of(model).size


def unresolved(
    model: StreamModel, X: FloatArray, conditions: FloatArray | None = None
) -> tuple[Prediction, FloatArray]:
    """Predict rows, (n, d), that would each come next and whose targets come later; the model does not change.

    Returns:
        The prediction, and what it takes to learn each row: its inputs, what was issued, and the memory before it.
    """
    prediction, issued = model._issue(X, conditions)
    return prediction, np.concatenate([X, issued, np.repeat(memory_of(model)[None], len(X), axis=0)], axis=1)


def issued(model: StreamModel, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
    """Predict one row, (1, d), whose target comes later, and advance the memory by it.

    Returns:
        The prediction, and what it takes to learn the row, as of ``unresolved``.
    """
    prediction, rows = unresolved(model, X, conditions)
    model._remember(X)
    return prediction, rows[0]


def learn_issued(
    model: StreamModel, row: FloatArray, Y: FloatArray, conditions: FloatArray | None, *, last: bool, unchanged: bool
) -> bool:
    """Learn the target of a row, (1, p), at the inputs and with the memory of its moment.

    Args:
        model: that issued the row.
        row: what issued() or unresolved() returned; whatever follows it is not looked at.
        Y: the target, screened.
        conditions: of the row.
        last: whether no row came after it: the model then goes on from there.
        unchanged: whether the model has not changed since, so that it would issue the same now.

    Returns:
        Whether the row was learned as one whose target comes at once.
    """
    x, issued, past = parts_of(model, row)
    present = memory_of(model)
    at_once = unchanged and not looks_ahead(model)
    put_memory(model, past)
    try:
        if at_once:
            model._advance(x, Y, False, conditions)
        else:
            model._resolve(x, Y, issued, conditions)
    except BaseException:
        put_memory(model, present)
        raise
    if not last:
        put_memory(model, present)
    return at_once


def looks_ahead(model: StreamModel) -> bool:
    """Whether a row is learned by the target of a later one, by the model or one within it."""
    return any(one._looks_ahead for one in model._family())


def parts_of(model: StreamModel, row: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of an issued row the inputs and what was issued, (1, ...), and the memory."""
    d = model._d or 0
    width = model._issued_width(model._p or 1)
    return row[None, :d], row[None, d : d + width], row[d + width :]


def unissued(model: StreamModel, x: FloatArray, memory: FloatArray) -> FloatArray:
    """A row, (1, d), as issued() returns it, of which nothing was issued."""
    return np.concatenate([x[0], np.zeros(model._issued_width(model._p or 1)), memory])


def timed(conditions: FloatArray | None, at: float) -> FloatArray | None:
    """The conditions of one row, with its time where that is known."""
    if np.isnan(at):
        return conditions
    timed = np.full((1, NOISE + 1), np.nan) if conditions is None else conditions.copy()
    timed[0, TIME] = at
    return timed


def memory_of(model: StreamModel) -> FloatArray:
    return np.concatenate([np.empty(0), *(array.ravel() for array in model._memory_arrays())])


def put_memory(model: StreamModel, values: FloatArray) -> None:
    start = 0
    for array in model._memory_arrays():
        array[...] = values[start : start + array.size].reshape(array.shape)
        start += array.size

"""Inputs: what users hand over, as arrays the compiled core takes, or a sentence that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp import checks
from streamgp.settings import FloatArray


def row(x: Any, d: int | None) -> FloatArray:
    """One row as a (1, d) array: an array, a list, a scalar when d = 1, one row of a DataFrame."""
    # The usual case first: an array that can be handed over as it is.
    if type(x) is np.ndarray and x.dtype == np.float64 and x.ndim == 1 and x.flags.c_contiguous and x.flags.writeable:
        result = x[None]
    else:
        values = _numbers(x, "x")
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim > 1:
            raise ValueError(
                f"x must be one row: {_wanted(d)}; got an array of shape {values.shape}. "
                "For several rows use predict_many, learn_many or track."
            )
        result = np.atleast_1d(values)[None]
    _check_width(result, d, "x")
    return result


def rows(X: Any, d: int | None) -> FloatArray:
    """Rows as an (n, d) array."""
    values = _numbers(X, "X")
    if values.ndim == 1 and values.size > 0 and (d is None or d == 1):
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"X must have shape (n, d); got an array of shape {values.shape}")
    if values.shape[0] > 0:
        _check_width(values, d, "X")
    elif d is not None:
        values = np.empty((0, d))
    return values


def target(y: Any, p: int | None, scalar: bool) -> tuple[FloatArray, bool]:
    """One target as a (1, p) array and whether it was a scalar; None is a missing one."""
    if type(y) is float:
        if p is not None and not scalar:
            _refuse_shape((), p, scalar)
        return np.array([[y]]), True
    if y is None:
        return np.full((1, 1 if p is None else p), np.nan), scalar
    values = _numbers(y, "y")
    is_scalar = values.ndim == 0
    values = np.atleast_1d(values)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"y must be a number or a list of numbers, one for each output; got shape {values.shape}")
    if p is not None and (values.size != p or is_scalar != scalar) and not (p == 1 and values.size == 1):
        _refuse_shape(() if is_scalar else values.shape, p, scalar)
    return values[None], is_scalar


def targets(Y: Any, n: int, p: int | None, scalar: bool) -> tuple[FloatArray, bool]:
    """Targets as an (n, p) array and whether they were scalars."""
    if isinstance(Y, list | tuple):
        Y = [np.nan if y is None else y for y in Y]
    values = _numbers(Y, "Y")
    is_scalar = values.ndim == 1
    if values.ndim not in (1, 2) or values.shape[0] != n:
        raise ValueError(
            f"Y must have one target for each of the {n} rows of X: shape ({n},) or ({n}, p); got {values.shape}"
        )
    if n == 0:
        return np.empty((0, 1 if p is None else p)), scalar
    values = values[:, None] if is_scalar else values
    if values.shape[1] == 0 or (p is not None and values.shape[1] != p):
        raise ValueError(
            f"Y must have {p if p is not None else 'at least 1'} columns, one for each output; got {values.shape[1]}"
        )
    return values, is_scalar


def refuse(status: int, at: int, many: bool) -> None:
    """Raise what the compiled check found."""
    where = f" in row {at}" if many else ""
    nothing = "; nothing was learnt"
    if status == checks.BAD_INPUT:
        name = "X" if many else "x"
        raise ValueError(
            f"{name} has NaN or inf{where}: inputs must be finite numbers{nothing}. "
            "Drop the row or fill the gap; a missing target is fine, a missing input is not."
        )
    if status == checks.BAD_TARGET:
        name = "Y" if many else "y"
        raise ValueError(
            f"{name} has inf{where}: targets must be finite, or NaN where missing{nothing}. Clip or drop it."
        )
    if status in (checks.LARGE_INPUT, checks.LARGE_TARGET):
        name = ("X" if many else "x") if status == checks.LARGE_INPUT else ("Y" if many else "y")
        raise ValueError(
            f"{name} has a number beyond {checks.LARGEST:g}{where}, whose square would overflow{nothing}. "
            "Use other units, or wrap the model in Standardize."
        )
    if status == checks.PARTLY_MISSING:
        raise ValueError(
            f"some targets of a row are missing{where}, but the outputs share one covariance{nothing}. "
            'Make the whole row missing, or use a model with outputs="separate".'
        )


def _numbers(value: Any, name: str) -> FloatArray:
    """A fresh contiguous float64 array, so that nothing of the caller's is kept."""
    try:
        array = np.array(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers of one length; got {_described(value)}") from None
    if array.dtype.kind in "OUSbMm" and array.dtype.kind != "b":
        if array.dtype.kind in "US":
            raise TypeError(
                f"{name} must be numbers; got text: {_described(value)}. Convert or encode the column first."
            )
        try:
            array = np.array([np.nan if v is None else v for v in array.ravel()], dtype=np.float64).reshape(array.shape)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be numbers; got {_described(value)}. Convert or encode it first.") from None
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} must be real numbers; got complex ones. Hand over real and imaginary parts as columns."
        )
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wanted(d: int | None) -> str:
    return "numbers, one for each input" if d is None else f"{d} number{'s' if d > 1 else ''}, one for each input"


def _check_width(values: FloatArray, d: int | None, name: str) -> None:
    if values.shape[1] == 0:
        raise ValueError(f"{name} is empty: expected {_wanted(d)}")
    if d is not None and values.shape[1] != d:
        raise ValueError(
            f"{name} must have {d} column{'s' if d > 1 else ''}, as the first row had; got {values.shape[1]}. "
            "A model keeps the width of its first row: use another model for other inputs."
        )


def _refuse_shape(shape: tuple[int, ...], p: int, scalar: bool) -> None:
    expected = "a number" if scalar else f"{p} numbers"
    came = "a number" if shape == () else f"{shape[0]} numbers"
    raise ValueError(f"y must be {expected}, as the first target was; got {came}. Use another model for other targets.")

"""Inputs: what users hand over, as arrays the compiled core takes, or a sentence that says what is wrong."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any, NoReturn

import numpy as np

from streamgp.contract import checks
from streamgp.settings import FloatArray, real_matrix, unix_seconds
from streamgp.vocabulary import LEAST_NOISE

FLOAT = np.dtype(np.float64)


def row(x: Any, d: int | None) -> FloatArray:
    """One row as a (1, d) array: an array, a list, a scalar when d = 1, one row of a DataFrame."""
    # The usual case first: an array that can be handed over as it is.
    if (
        type(x) is np.ndarray
        and x.dtype is FLOAT
        and x.ndim == 1
        and (flags := x.flags).c_contiguous
        and flags.writeable
    ):
        result = x[None]
    else:
        values = numbers(x, "x")
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim > 1:
            raise ValueError(
                f"x must be one row: {_wanted(d)}; got an array of shape {values.shape}. "
                "For several rows use predict_many, learn_many or track."
            )
        result = np.atleast_1d(values)[None]
    if not d or result.shape[1] != d:
        _check_width(result, d, "x")
    return result


def rows(X: Any, d: int | None, time: Any = None) -> FloatArray:
    """Rows as an (n, d) array; None: rows without columns, one for each time."""
    values = np.empty((np.size(time) if time is not None else 0, 0)) if X is None else numbers(X, "X")
    if values.ndim == 1 and values.size > 0 and (d is None or d == 1):
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"X must have shape (n, d); got an array of shape {values.shape}")
    if values.shape[0] > 0:
        _check_width(values, d, "X")
    elif d is not None:
        values = np.empty((0, d))
    return values


def target(y: Any, p: int | None, scalar: bool) -> tuple[FloatArray, bool, bool]:
    """One target as a (1, p) array, whether it was a scalar, and whether it was given, not None, NA or masked."""
    if isinstance(y, float):
        if p is not None and not scalar:
            _refuse_shape((), p, scalar)
        return np.array([[y]]), True, True
    if _is_missing(y):
        return np.full((1, 1 if p is None else p), np.nan), scalar, False
    values = numbers(y, "y")
    is_scalar = values.ndim == 0
    values = np.atleast_1d(values)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"y must be a number or a list of numbers, one for each output; got shape {values.shape}")
    if p is not None and (values.size != p or is_scalar != scalar) and not (p == 1 and values.size == 1):
        _refuse_shape(() if is_scalar else values.shape, p, scalar)
    return values[None], is_scalar, True


def targets(Y: Any, n: int, p: int | None, scalar: bool) -> tuple[FloatArray, bool]:
    """Targets as an (n, p) array and whether they were scalars."""
    values = numbers(Y, "Y")
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


def noises(noise: Any, learned: np.ndarray, shared: bool, *, many: bool) -> FloatArray:
    """The noises of rows, (n, 1) or (n, p), where learned (n, p) says which targets there are; NaN for the others."""
    values = numbers(noise, "noise")
    n, p = learned.shape
    if not many and values.ndim == 1:
        values = values[None]
    if values.ndim < 2:
        values = np.broadcast_to(values, n)[:, None] if values.ndim == 0 or len(values) == n else values
    if values.shape not in ((n, 1), (n, p)):
        each = f"one, ({n},) or ({n}, {p})" if many else f"one or {p}"
        raise ValueError(f"noise must be a variance for each row: {each}; got shape {np.shape(noise)}")
    if shared and values.shape[1] > 1:
        raise ValueError(
            f"noise has {p} values for each row, but the outputs share one covariance; give one value, or use a model "
            'with outputs="separate"'
        )
    with np.errstate(invalid="ignore"):
        wrong = (learned & ~(np.isfinite(values) & (values >= LEAST_NOISE))).any(axis=1)
    for at in np.flatnonzero(wrong)[:1]:
        raise ValueError(
            f"noise must be finite and above 0{f' in row {at}' if many else ''}: it is the variance of an observation, "
            f"at least {LEAST_NOISE:g}, below which arithmetic cannot tell it from 0; got {values[at].tolist()}; "
            "nothing was learned. Leave a row out that is to count for nothing, or make its target missing; otherwise "
            "give a larger noise, or use other units."
        )
    return np.where(learned if values.shape[1] == p else learned.any(axis=1, keepdims=True), values, np.nan)


def covariance(value: Any, d: int) -> FloatArray:
    """The covariance matrix of an input of d numbers; a variance where d is 1."""
    P = real_matrix("covariance", np.reshape(value, (1, 1)) if d == 1 and np.size(value) == 1 else value, f"({d}, {d})")
    if P.shape != (d, d):
        raise ValueError(f"covariance must have shape ({d}, {d}), one row and column for each input; got {P.shape}")
    if np.abs(P - P.T).max() > 1e-8 * np.abs(P).max() or np.linalg.eigvalsh(P).min() < -1e-8 * np.abs(P).max():
        raise ValueError("covariance must be symmetric and have no negative eigenvalue; give that of the input")
    return np.asarray(0.5 * (P + P.T))


def times(time: Any, n: int, *, many: bool) -> FloatArray:
    """The times of rows, (n,): numbers as they are, dates in seconds since 1970; NaN where missing."""
    array = np.asarray(time)
    if array.dtype.kind == "O":
        items = [_moment(item) for item in array.ravel().tolist()]
        array = np.array(items, dtype=np.float64).reshape(array.shape)
    elif array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    elif array.dtype.kind not in "iuf":
        _refuse_time(time)
    if array.shape != ((n,) if many else ()) and not (n == 1 and array.shape in ((), (1,))):
        wanted = f"one time for each of the {n} rows, shape ({n},)" if many else "one time"
        raise ValueError(f"time must be {wanted}; got shape {array.shape}")
    return np.asarray(array, dtype=np.float64).reshape(n)


def _moment(item: Any) -> float:
    """The seconds of a date; without a zone it counts as UTC."""
    if _is_missing(item):
        return np.nan
    if isinstance(item, dt.datetime) and item == item:  # NaT of pandas does not equal itself
        return unix_seconds(item)
    if isinstance(item, np.datetime64):
        return float((item - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if item != item:
        return np.nan
    if isinstance(item, bool) or not isinstance(item, int | float):
        _refuse_time(item)
    return float(item)


def _refuse_time(value: Any) -> NoReturn:
    raise TypeError(
        f"time must be numbers, datetimes or datetime64; got {_described(value)}. Convert text first, for example with "
        "datetime.fromisoformat or pandas.to_datetime."
    )


LARGE = (
    f" has a number beyond {checks.LARGEST:g}{{where}}, whose square would overflow; nothing was learned. Use other "
    "units, or wrap the model in Standardize."
)
# What the compiled check answers, in words: {X} and {Y} are what the call names rows and targets.
NOT_TAKEN = {
    checks.BAD_INPUT: "{X} has NaN or inf{where}: inputs must be finite numbers, and None, NA and masked entries count "
    "as NaN; nothing was learned. Drop the row or fill the gap; a missing target is fine, a missing input is not.",
    checks.BAD_TARGET: "{Y} has inf{where}: targets must be finite, or NaN where missing; nothing was learned. Clip or "
    "drop it.",
    checks.PARTLY_MISSING: "some targets of a row are missing{where}, but the outputs share one covariance; nothing "
    'was learned. Make the whole row missing, or use a model with outputs="separate".',
    checks.LARGE_INPUT: "{X}" + LARGE,
    checks.LARGE_TARGET: "{Y}" + LARGE,
}


def refuse(status: int, at: int, many: bool) -> None:
    """Raise what the compiled check found."""
    if status in NOT_TAKEN:
        X, Y = "XY" if many else "xy"
        raise ValueError(NOT_TAKEN[status].format(X=X, Y=Y, where=f" in row {at}" if many else ""))


def numbers(value: Any, name: str) -> FloatArray:
    """A fresh contiguous float64 array, so that nothing of the caller's is kept; NaN where None, NA or masked."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return np.array(value, order="C")
    try:
        array = np.array(faithful(value))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be numbers of one length; got {_described(value)}") from None
    if array.dtype.kind == "O":
        array = _from_objects(array, value, name)
    _check_kind(array.dtype.kind, value, name)
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def faithful(value: Any) -> Any:
    """What NumPy takes without loss: NaN for what is masked, and tensors without their gradient."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= {list, tuple}:  # a list of rows
            kinds = set(map(type, itertools.chain.from_iterable(value)))
        if any(issubclass(kind, np.ma.MaskedArray) or hasattr(kind, "detach") for kind in kinds - _PLAIN):
            return [faithful(item) for item in value]
    elif isinstance(value, np.ma.MaskedArray):
        dates = value.dtype.kind in "mM"  # which are refused, NaT with them
        return value.data if dates else np.where(np.ma.getmaskarray(value), np.nan, value.data)
    elif hasattr(type(value), "detach"):  # a tensor of PyTorch
        tensor = value.detach().cpu()
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy(force=True)
    return value


def _from_objects(array: Any, value: Any, name: str) -> FloatArray:
    items = array.ravel().tolist()
    for item in items:
        if isinstance(item, str | bytes):
            _check_kind("U", value, name)
        if isinstance(item, _DATES):
            _check_kind("M", value, name)
    try:
        found = np.array([np.nan if _is_missing(item) else item for item in items], dtype=np.float64)
        return found.reshape(array.shape)
    except OverflowError:
        raise ValueError(
            f"{name} has a whole number beyond the largest float, {np.finfo(float).max:.1e}. Use other units."
        ) from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers; got {_described(value)}. Convert or encode it first.") from None


_PLAIN = {float, int}
_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


def _is_missing(item: Any) -> bool:
    return item is None or item is np.ma.masked or type(item).__name__ == "NAType"  # pd.NA, without pandas


# What NumPy would convert to numbers that mean something else, or not at all, by the kinds of its types.
NO_NUMBERS = {
    "UST": ("numbers; got text: {}", "Convert or encode the column first."),
    "mM": (
        "numbers; got dates or durations: {}",
        "Convert them, for example to seconds: (dates - dates[0]) / np.timedelta64(1, 's'), or durations / "
        "np.timedelta64(1, 's').",
    ),
    "c": ("real numbers; got complex ones", "Hand over real and imaginary parts as columns."),
    "OV": ("numbers; got {}", "Hand over plain columns of numbers."),
}


def _check_kind(kind: str, value: Any, name: str) -> None:
    for kinds, (came, advice) in NO_NUMBERS.items():
        if kind in kinds:
            raise TypeError(f"{name} must be {came.format(_described(value))}. {advice}")


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wanted(d: int | None) -> str:
    return "numbers, one for each input" if d is None else f"{d} number{'s' if d > 1 else ''}, one for each input"


def _check_width(values: FloatArray, d: int | None, name: str) -> None:
    if values.shape[1] == 0 and d:
        refuse_empty(name, d)
    if d is not None and values.shape[1] != d:
        raise ValueError(
            f"{name} must have {d} column{'s' if d > 1 else ''}, as the first row had; got {values.shape[1]}. "
            "A model keeps the width of its first row: use another model for other inputs."
        )


def refuse_empty(name: str, d: int | None = None) -> NoReturn:
    """Refuse rows without columns."""
    raise ValueError(f"{name} is empty: expected {_wanted(d)}")


def _refuse_shape(shape: tuple[int, ...], p: int, scalar: bool) -> None:
    expected = "a number" if scalar else f"{p} numbers"
    came = "a number" if shape == () else f"{shape[0]} numbers"
    raise ValueError(f"y must be {expected}, as the first target was; got {came}. Use another model for other targets.")

"""Frames: rows and targets by the names of columns, and the same kind of frame back. Narwhals reads and writes them."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.inputs import numbers
from streamgp.settings import FloatArray, nearest

BACKENDS = ("pandas", "polars", "pyarrow")  # of a frame where none came in, the first that is installed
MOST_NAMES = 12  # that a message lists


class Names(NamedTuple):
    """What the columns of a model's rows are called, in order."""

    inputs: tuple[str, ...]
    targets: tuple[str, ...]


class Origin(NamedTuple):
    """The frame that rows came from, as far as what is predicted of them goes back into one."""

    backend: str  # its package, such as "pandas"
    index: Any = None  # of the rows, where frames have one
    time: Any = None  # the column that says when, a series of narwhals; None: none was named
    time_name: str = ""
    observed: FloatArray | None = None  # targets like the mean, NaN where missing; None: not known
    targets: tuple[str, ...] = ()  # their names

    def part(self, rows: np.ndarray) -> Origin:
        """Of some of the rows, by their numbers."""
        return self._replace(
            index=None if self.index is None else self.index[rows],
            time=None if self.time is None else self.time[rows.tolist()],
            observed=None if self.observed is None else self.observed[rows],
        )


class NamedRows(NamedTuple):
    """Rows of a call, their targets and times, the names of their columns, and the frame that they came from."""

    X: Any
    Y: Any
    time: Any
    names: Names | None = None
    origin: Origin | None = None


def is_frame(value: Any) -> bool:
    """Whether a value is a table with named columns."""
    kind = type(value)
    return kind is not np.ndarray and (hasattr(kind, "columns") or hasattr(kind, "column_names"))


def taken(X: Any, Y: Any, time: Any, target: Any, inputs: Any, known: Names | None) -> NamedRows:
    """Rows as they were handed over: arrays as they are, columns of a frame by their names; see learn_many."""
    if not is_frame(X):
        for name, value in (("target", target), ("inputs", inputs)):
            if value is not None:
                raise TypeError(
                    f"{name} names columns, so X must be a data frame (pandas, polars, pyarrow...); got "
                    f"{type(X).__name__}. Hand over arrays as track(X, Y) and learn_many(X, Y)"
                )
        return NamedRows(X, Y, time)
    if target is not None and Y is not None:
        raise TypeError("give the targets once: by the name of a column, target=..., or as Y")
    apart = (time,) if isinstance(time, str) else ()
    if target is None and inputs is None and known is None and not apart:
        return NamedRows(X, Y, time, None, _origin(X, _observed(Y, len(X))))
    frame, targets = _read(X), () if target is None else _named("target", target)
    if inputs is not None:
        columns = _named("inputs", inputs)
    elif known is not None:
        columns = known.inputs
    else:
        columns = tuple(name for name in frame.columns if name not in (*targets, *apart))
    _refuse_missing(frame.columns, [*columns, *targets, *apart])
    for name in columns:
        if name in (*targets, *apart):
            what = "target" if name in targets else "time"
            raise ValueError(f"{name!r} is the {what} and cannot be an input as well; leave it out of inputs")
    if known is not None and columns != known.inputs:
        raise ValueError(
            f"the inputs of this model are {_listed(known.inputs)}, in this order; got {_listed(columns)}. "
            "Leave inputs out, or use another model"
        )
    learned = () if known is None else known.targets
    if targets and learned and targets != learned:
        raise ValueError(f"this model has learned {_listed(learned)}; got target={_listed(targets)}. Use another model")
    if targets:
        own = _numbers(frame, targets)
        Y = own[:, 0] if isinstance(target, str) else own
    names = Names(columns, targets or learned)
    origin = _origin(X, _observed(Y, len(X)))._replace(targets=names.targets)
    if apart:
        when = frame.get_column(time)
        origin, time = origin._replace(time=when, time_name=time), when.to_numpy()
    return NamedRows(_numbers(frame, columns), Y, time, names, origin)


def row_by_name(row: Mapping[str, Any], names: Names | None) -> list[Any]:
    """The inputs of one row that comes as a mapping."""
    if names is None:
        raise TypeError(
            "x is a mapping, but this model does not know what its inputs are called; learn a data frame first, "
            "learn_many(df, target=...), hand over the numbers in order, or use streamgp.adapters.river"
        )
    _refuse_missing(list(row), names.inputs)
    return [row[name] for name in names.inputs]


def made(columns: Mapping[str, Any], origin: Origin | None, backend: str | None = None) -> Any:
    """A frame of these columns, of the kind of the origin, of another one, or of any that is installed."""
    nw = _narwhals()
    own = origin.backend if origin is not None else ""
    kind = backend or own or _installed()
    series = {name: v for name, v in columns.items() if isinstance(v, nw.Series)}
    kept = series if kind == own else {}  # a series of this kind keeps its type
    values = {name: _portable(v.to_numpy()) if name in series else v for name, v in columns.items() if name not in kept}
    try:
        frame = nw.from_dict(values, backend=kind).to_native()
    except (ImportError, ValueError, TypeError) as error:
        if backend is not None or isinstance(error, ImportError):
            raise ValueError(
                f"backend must be a package of data frames that is installed, such as {', '.join(BACKENDS)}; "
                f"got {kind!r}"
            ) from None
        raise
    if origin is not None and origin.index is not None and kind == own:
        frame.index = origin.index
    if kept:
        return nw.from_native(frame).with_columns(*kept.values()).select(*columns).to_native()
    return frame


def columns_of(frame: Any) -> dict[str, Sequence[Any]]:
    """The values of every column as a file would have them, None where missing; an index of dates is the first one."""
    read = _read(frame)
    found: dict[str, Sequence[Any]] = {
        name: [plain(value) for value in read.get_column(name).to_list()] for name in read.columns
    }
    dates = dates_of_index(getattr(frame, "index", None))
    if dates is None:
        return found
    name = next(name for name in (getattr(frame.index, "name", None), "time", "index") if name and name not in found)
    return {str(name): [plain(value) for value in dates], **found}


def dates_of_index(index: Any) -> list[Any] | None:
    """The dates that rows are known by; None: they have no index, or one that holds something else."""
    kind = getattr(getattr(index, "dtype", None), "kind", "")
    return index.tolist() if kind == "M" else None


def backend_of(frame: Any) -> str:
    """The package that a frame belongs to."""
    return type(frame).__module__.partition(".")[0]


def origin_of(frame: Any, time: str) -> Origin:
    """The kind of a frame, its index and the column of this name, if it has one."""
    origin, read = _origin(frame, None), _read(frame)
    return origin._replace(time=read.get_column(time), time_name=time) if time in read.columns else origin


def _origin(frame: Any, observed: FloatArray | None) -> Origin:
    return Origin(backend_of(frame), getattr(frame, "index", None), observed=observed)


def _observed(Y: Any, n: int) -> FloatArray | None:
    """Targets as numbers, if they are some."""
    try:
        values = None if Y is None else numbers(Y, "Y")
    except (TypeError, ValueError):  # which the model will refuse
        return None
    return values if values is not None and values.ndim in (1, 2) and len(values) == n else None


def plain(value: Any) -> Any:
    """A value of a column as a table of text has it; a duration is a number of seconds."""
    if value is None or isinstance(value, str | int | float):
        return value if value == value else None
    if isinstance(value, dt.date):  # also NaT, which does not equal itself
        return str(value) if value == value else None
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return None if type(value).__name__ == "NAType" else value


def _portable(values: np.ndarray) -> np.ndarray:
    """Dates in a unit that every kind of frame has."""
    return values.astype("datetime64[us]") if values.dtype.kind == "M" else values


def _numbers(frame: Any, names: Sequence[str]) -> FloatArray:
    """Columns of numbers, (n, columns); NaN where values are missing."""
    nw = _narwhals()
    values = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        column = frame.get_column(name)
        if isinstance(column.dtype, nw.Datetime | nw.Date):
            raise TypeError(
                f"the column {name!r} holds dates; say time={name!r}, leave it out with inputs=[...], or use "
                "sg.run(df, target=...), which reads dates and categories"
            )
        try:
            values[:, j] = numbers(column.to_numpy(), "column")
        except TypeError:
            raise TypeError(
                f"the column {name!r} does not hold numbers, but {column.dtype}; leave it out with inputs=[...], or "
                "use sg.run(df, target=...), which reads dates and categories"
            ) from None
    return values


def _read(frame: Any) -> Any:
    """A frame of narwhals whose columns have names that are text."""
    nw = _narwhals()
    try:
        read = nw.from_native(frame)
        columns = list(read.columns) if isinstance(read, nw.DataFrame) else []
    except (TypeError, ValueError) as error:
        raise TypeError(f"X is a {type(frame).__name__} that cannot be read as a data frame: {error}") from None
    if not isinstance(read, nw.DataFrame):
        raise TypeError("X is a lazy frame, whose rows are not there yet; hand over X.collect()")
    if wrong := [name for name in columns if not isinstance(name, str)]:
        raise TypeError(f"names of columns must be text; got {wrong[0]!r}. Rename: df.columns = df.columns.astype(str)")
    return read


def _named(what: str, given: Any) -> tuple[str, ...]:
    """One name, or several, each but once."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not names and what == "inputs" and isinstance(given, list | tuple):
        return ()
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be the name of a column, or a list of names; got {given!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} names the column {twice!r} twice")
    return names


def _refuse_missing(columns: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in columns:
            raise ValueError(
                f"there is no column {name!r}.{nearest(name, map(str, columns))} The columns are: {_listed(columns)}"
            )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:MOST_NAMES])) or "none"
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def _narwhals() -> Any:
    try:
        return importlib.import_module("narwhals")
    except ImportError:
        raise ModuleNotFoundError(
            'data frames need narwhals: pip install "streamgp[frames]"', name="narwhals"
        ) from None


def _installed() -> str:
    """A package of data frames."""
    for name in BACKENDS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise ModuleNotFoundError("there is no package of data frames: install pandas, polars or pyarrow", name="pandas")

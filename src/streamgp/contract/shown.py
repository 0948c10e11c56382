"""How predictions and models are shown: as a frame, as a picture, in few words, and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Self

import numpy as np

from streamgp.contract import frames
from streamgp.contract.frames import Origin
from streamgp.contract.inputs import numbers
from streamgp.contract.laws import Law

HEAD, TAIL = 3, 2  # rows that are shown of many
MOST_OUTPUTS = 4  # that are shown
BAND = 0.25  # how dense the color of an interval is
FIRST_BANDS = (0.02, 0.98)  # wider intervals, such as those of the first rows, do not set the scale
# What may stand beside the numbers of a prediction: of rows, like the mean, or with an axis more.
BESIDE = "ticket", "surprise", "alarm", "mean_gradient", "variance_gradient"


class Shown:
    """A prediction, as far as it is shown."""

    __slots__ = ("_origin", "law")

    law: Law

    def to_frame(self: Any, level: float | None = None, *, backend: str | None = None) -> Any:
        """Return the prediction as a data frame, of the kind that came in, one line for each row.

        Its columns are the time, where a column was named, ``mean``, ``lower``, ``upper`` and ``std``, then
        ``observed`` where the targets are known, and what else there is: ``ticket``, ``surprise`` and ``alarm``,
        gradients such as ``mean_gradient_1`` by the first input, and the means of components. With several targets each
        has its own, such as ``load_mean``. The index of pandas is kept.

        Args:
            level: of the interval; None: 0.9, or what it was calibrated for.
            backend: the package of another kind of frame: "pandas", "polars", "pyarrow"...; None: the kind that came
                in, otherwise the first of these that is installed.
        """
        return frames.made(self._in_columns(level), self._known_origin, backend)

    def plot(self: Any, y: Any = None, *, time: Any = None, level: float | None = None, ax: Any = None) -> Any:
        """Draw the mean, the interval and the targets over the rows, or over their times; needs matplotlib.

        Args:
            y: targets, like the mean; None: those that were tracked from a data frame, if any.
            time: (n,) of the rows; None: those of the data frame, otherwise the numbers of the rows.
            level: of the interval; None: 0.9, or what it was calibrated for.
            ax: the axes to draw on, one for each output; None: new ones.

        Returns:
            The axes; an array of them where there are several outputs.
        """
        if np.ndim(self.mean) == 0:
            raise ValueError("plot shows many rows, and this is the prediction of one; use track or predict_many")
        origin = self._known_origin
        if y is not None:
            observed = numbers(y, "y")
            if observed.shape != np.shape(self.mean):
                raise ValueError(f"y must be like the mean, of shape {np.shape(self.mean)}; got {observed.shape}")
            origin = (origin or Origin(""))._replace(observed=observed)
        when, label = rows_axis(origin, len(self), time)
        outputs = self._outputs(origin)
        axes = drawn_on(ax, len(outputs))
        for (name, one, observed), own in zip(outputs, axes, strict=True):
            draw(own, when, one._columns(level, observed), self.law.level if level is None else level)
            own.set(xlabel=label, ylabel=name or ", ".join(origin.targets if origin is not None else ()))
        return axes[0] if len(axes) == 1 else axes

    def __repr__(self: Any) -> str:
        shape, kind = np.shape(self.mean), type(self).__name__
        few, gap = self._few()
        parts = few._numbers(None)
        if len(shape) == 2:
            parts = {name: parts[name] for name in ("mean", "std")}
        shown = {name: _in_words(values, gap) for name, values in parts.items()}
        if shape == ():
            return f"{kind}({', '.join(f'{name}={text[1:-1]}' for name, text in shown.items())})"
        of = f"{shape[0]:,} rows" if len(shape) == 1 else f"{shape[0]:,} rows of {shape[1]} outputs"
        return f"{kind}({of}, {', '.join(f'{name}={text}' for name, text in shown.items())})"

    def _repr_html_(self: Any) -> str:
        n = len(self) if np.ndim(self.mean) else 1
        few, gap = self._few()
        columns = {"row": np.arange(n)[_ends(n)].tolist()}
        columns |= {name: _cells(values) for name, values in few._in_columns(None).items() if "gradient" not in name}
        return table(f"{type(self).__name__}, {n:,} row{'s' * (n != 1)}, {self.law.level:.0%} interval", columns, gap)

    def _from(self, origin: Origin | None) -> Self:
        """The same, which knows the frame that its rows came from."""
        if origin is not None:
            object.__setattr__(self, "_origin", origin)
        return self

    @property
    def _known_origin(self) -> Origin | None:
        return getattr(self, "_origin", None)

    def _origin_of(self: Any, index: Any) -> Origin | None:
        """The origin of some of the rows."""
        origin: Origin | None = self._known_origin
        if origin is None or isinstance(index, tuple):
            return None
        rows = np.arange(len(self))[index]
        return origin.part(rows) if rows.ndim == 1 else None

    def _few(self: Any) -> tuple[Any, int | None]:
        """The first and the last rows, and after how many of them the others are left out; None: nowhere."""
        n = len(self) if np.ndim(self.mean) else 1
        return (self, None) if n <= HEAD + TAIL + 1 else (self[_ends(n)], HEAD)

    def _outputs(self: Any, origin: Origin | None) -> list[tuple[str, Any, Any]]:
        """Of each output its name, "" where there is but one, its prediction, and its targets where they are known."""
        observed = None if origin is None else origin.observed
        if np.ndim(self.mean) < 2:
            return [("", self, observed)]
        n, p = self.mean.shape
        names = origin.targets if origin is not None and len(origin.targets) == p else [f"y{j + 1}" for j in range(p)]
        found = []
        for j, name in enumerate(names):
            own = None if observed is None else observed.reshape(n, p)[:, j]
            found.append(("" if p == 1 else name, self[:, j], own))
        return found

    def _in_columns(self: Any, level: float | None) -> dict[str, Any]:
        """The times of rows, and the columns of all outputs."""
        origin = self._known_origin
        columns: dict[str, Any] = {}
        if origin is not None and origin.time is not None:
            columns[origin.time_name] = origin.time
        for output, one, observed in self._outputs(origin):
            columns |= {
                f"{output}_{name}" if output else name: values for name, values in one._columns(level, observed).items()
            }
        return columns

    def _columns(self: Any, level: float | None, observed: Any) -> dict[str, Any]:
        """What a frame has of one output, (n,) each."""
        columns: dict[str, Any] = self._numbers(level)
        if observed is not None:
            columns["observed"] = np.atleast_1d(observed)
        for name in BESIDE:
            values = np.asarray(getattr(self, name))
            if values.ndim > np.ndim(self.mean):  # one for each input
                columns |= {f"{name}_{i + 1}": each for i, each in enumerate(values.reshape(-1, values.shape[-1]).T)}
            elif values.dtype != object:
                columns[name] = np.atleast_1d(values) if values.dtype.kind == "f" else np.atleast_1d(values).tolist()
        components = vars(self).get("components", {})
        return columns | {f"component_{name}": np.atleast_1d(one.mean) for name, one in components.items()}

    def _numbers(self: Any, level: float | None) -> dict[str, Any]:
        """The numbers of the prediction, at least (1,) each."""
        lower, upper = self.interval(level)
        parts = {"mean": self.mean, "lower": lower, "upper": upper, "std": self.std}
        return {name: np.atleast_1d(np.asarray(values)) for name, values in parts.items()}


def rows_axis(origin: Origin | None, n: int, time: Any = None) -> tuple[Any, str]:
    """What rows are drawn over, (n,), and what it is called."""
    if time is not None:
        when = np.asarray(time)
        if when.shape != (n,):
            raise ValueError(f"time must be one time for each of the {n} rows; got shape {when.shape}")
        return when, "time"
    if origin is not None and origin.time is not None:
        return origin.time.to_numpy(), origin.time_name
    if origin is not None and getattr(getattr(origin.index, "dtype", None), "kind", "") == "M":
        return origin.index.to_numpy(), str(origin.index.name or "time")
    return np.arange(1, n + 1), "row"


def drawn_on(ax: Any, count: int) -> list[Any]:
    """Axes to draw this many outputs on."""
    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object)).tolist()
        if len(given) != count:
            raise ValueError(f"ax must be the axes of {count} output{'s' * (count > 1)}; got {len(given)}")
        return given
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ModuleNotFoundError('plot needs matplotlib: pip install "streamgp[plots]"', name="matplotlib") from None
    _, axes = plt.subplots(count, 1, squeeze=False, figsize=(9.0, 3.0 * count), layout="constrained")
    return list(axes[:, 0])


def draw(ax: Any, when: Any, parts: Mapping[str, Any], level: float) -> None:
    """Draw one output: columns as ``to_frame`` has them."""
    known = {name: np.where(np.isfinite(v), v, np.nan) for name, v in parts.items() if not isinstance(v, list)}
    ax.fill_between(
        when, known["lower"], known["upper"], alpha=BAND, linewidth=0, color="tab:blue", label=f"{level:.0%} interval"
    )
    ax.plot(when, known["mean"], color="tab:blue", linewidth=1.2, label="mean")
    if "observed" in known:
        size = 3.0 if len(known["mean"]) < 500 else 1.5
        ax.plot(when, known["observed"], ".", color="tab:orange", markersize=size, label="observed")
    ends = [values for name, values in known.items() if name in ("mean", "observed")]
    ends += [np.nanquantile(known[name], FIRST_BANDS) for name in ("lower", "upper") if np.isfinite(known[name]).any()]
    seen = np.concatenate([values[np.isfinite(values)] for values in ends])
    if seen.size and seen.min() < seen.max():
        margin = 0.05 * (seen.max() - seen.min())
        ax.set_ylim(seen.min() - margin, seen.max() + 3.0 * margin)  # the legend is above
    ax.legend(loc="upper left", frameon=False, ncols=3)


def table(title: str, columns: Mapping[str, Sequence[Any]], gap: int | None = None) -> str:
    """A small table for a notebook, cells by heading; after gap lines others are left out."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    rows = zip(*columns.values(), strict=True)
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    if gap is not None:
        lines.insert(gap, "<td>...</td>" * len(columns))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def facts(title: str, found: Mapping[str, Any]) -> str:
    """What there is to say of something, by name, for a notebook."""
    return table(title, {"": list(found), " ": list(found.values())})


def _ends(n: int) -> Any:
    """The rows that are shown of n."""
    return slice(None) if n <= HEAD + TAIL + 1 else np.r_[:HEAD, n - TAIL : n]


def _cells(values: Any) -> list[Any]:
    """A column of a frame in text."""
    if isinstance(values, np.ndarray):
        return _brief(values)
    return values if isinstance(values, list) else [str(one) for one in values.to_list()]


def _brief(values: Any) -> list[str]:
    return [f"{value:.4g}" for value in np.asarray(values, dtype=float).ravel()]


def _in_words(values: Any, gap: int | None) -> str:
    """Numbers in few digits, in brackets, with dots where rows are left out."""
    rows = [_row(row) for row in np.asarray(values, dtype=float)]
    if gap is not None:
        rows.insert(gap, "...")
    return f"[{', '.join(rows)}]"


def _row(values: Any) -> str:
    if np.ndim(values) == 0:
        return f"{float(values):.4g}"
    more = ", ..." if len(values) > MOST_OUTPUTS else ""
    return f"[{', '.join(_brief(values[:MOST_OUTPUTS]))}{more}]"

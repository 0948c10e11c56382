"""GEFCom2012 as series for Table 4 and Fig. 7: load from temperatures and past load, wind power from forecasts.

Of each sequence's hours the first 3/4 are the training part, the last quarter is the test part; the last quarter of the
training part is for validation. Load is the sum of the 20 zones, over the hours of complete days; wind has 7 farms, one
after the other, each cut in the same way. Of each farm only the hours before the first gap count: later there are no 48
hours in a row. Targets are in units of the standard deviation of the training part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.data import load
from streamgp.settings import FloatArray

LAG = 48
TABLES = {"load": ("gefcom2012_load",), "wind": tuple(f"gefcom2012_wind/{farm}" for farm in range(1, 8))}


class Part(NamedTuple):
    """Rows in order, and where sequences begin."""

    U: FloatArray
    Y: FloatArray
    starts: NDArray[np.int64]


class Split(NamedTuple):
    """A series in parts."""

    learned: Part  # the training part, the rows for validation last
    validation: int  # their first row
    test: Part
    scale: float  # standard deviation of the training part's targets


def split(name: str, rows: int | None = None) -> Split:
    """The parts of a series; with rows, only so many rows of the training part, the latest, are learned."""
    pieces: dict[str, list[Part]] = {"learned": [], "kept": [], "test": []}
    for table in (load(table) for table in TABLES[name]):
        Y = table.Y.sum(axis=1) if table.Y.ndim > 1 else table.Y
        if name == "wind":
            Y = Y[: np.append(table.starts, len(Y))[1]]
        end = 3 * len(Y) // 4
        first = 0 if rows is None else max(0, end - rows)
        ends = [first + 3 * (end - first) // 4, end, len(Y)]
        for piece, start, stop in zip(pieces, [first, *ends], ends, strict=False):
            inside = table.starts[(table.starts > start) & (table.starts < stop)] - start
            pieces[piece].append(Part(table.X[start:stop], Y[start:stop], np.append(0, inside)))
    learned = joined(pieces["learned"] + pieces["kept"])
    validation = sum(len(part.Y) for part in pieces["learned"])
    return Split(learned, validation, joined(pieces["test"]), float(np.std(learned.Y)))


def joined(parts: list[Part]) -> Part:
    """One after the other."""
    parts = [part for part in parts if len(part.Y)]
    first = np.cumsum([0, *(len(part.Y) for part in parts[:-1])])
    return Part(
        np.vstack([part.U for part in parts]),
        np.concatenate([part.Y for part in parts]),
        np.concatenate([part.starts + shift for part, shift in zip(parts, first, strict=True)]),
    )


def linear(data: Split, inputs: bool, lag: int = LAG) -> FloatArray:
    """Predictions of the test part by least squares on the last targets, and inputs if asked; NaN where fewer."""

    def design(part: Part) -> FloatArray:
        columns = np.column_stack([part.U, part.Y]) if inputs else part.Y[:, None]
        age = np.arange(len(part.Y)) - np.repeat(part.starts, np.diff(np.append(part.starts, len(part.Y))))
        windows = np.lib.stride_tricks.sliding_window_view(columns, lag, axis=0)[:-1].reshape(len(columns) - lag, -1)
        result = np.full((len(columns), windows.shape[1] + 1), np.nan)
        result[lag:, :-1], result[:, -1] = windows, 1.0
        result[age < lag] = np.nan
        return result

    A = design(data.learned)
    known = ~np.isnan(A[:, 0])
    shift, scale = A[known].mean(0), A[known].std(0) + 1e-12
    shift[-1], scale[-1] = 0.0, 1.0
    weights = np.linalg.lstsq((A[known] - shift) / scale, data.learned.Y[known], rcond=None)[0]
    return np.asarray((design(data.test) - shift) / scale @ weights)

"""90% intervals of Calibrated in the first rows of a stream, on streams that had no say in how it starts.

A model is started at 20 places of each stream of benchmarks/auto.py. How trackers start (START, OWN_LOSS and the
widening of the first bounds in wrappers/conformal.py) was chosen on every second stream, CHOSEN_ON; the others, and
errors that are drawn, are a holdout. What chance does is told by the starts: the standard error of a stream's mean is
that of the means of its starts, each over all models. A stream is outside by more than chance if its mean lies outside
85 to 95% by more than two standard errors.

Writes benchmarks/results/first_rows.json and the table in docs/intervals.md; with --render only the table, from the
file. The streams need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import streamgp as sg
from auto_streams import CHOSEN_FIRST_ROWS_ON as CHOSEN_ON
from auto_streams import MEASURED, stream
from calibration import PAGE, Rows, command, replaced, with_lags
from record import RESULTS as FOLDER
from record import environment, measured_on

LEVEL, STARTS, LAGS = 0.9, 20, 3
ALLOWED, ERRORS = (0.85, 0.95), 2.0  # coverage of a stream, and by how many standard errors it may lie outside
WINDOWS = (10, 20), (20, 40), (20, 60), (60, 100), (100, 200)
REPORTED_ON = tuple(name for name in MEASURED if name not in CHOSEN_ON)
RESULTS = FOLDER / "first_rows.json"
BEGIN, END = "<!-- table of first_rows.py -->", "<!-- end of the table of first rows -->"

MODELS: dict[str, Callable[[], sg.StreamModel]] = {
    "Standardize(KRLST(50))": lambda: sg.Standardize(sg.KRLST(capacity=50)),
    "Standardize(ISSGPR(50))": lambda: sg.Standardize(sg.ISSGPR(50)),
    "Standardize(QKLMS(50))": lambda: sg.Standardize(sg.filters.QKLMS(capacity=50)),
}
DRAWN: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "Gaussian": lambda rng, n: rng.normal(size=n),
    "Student-t, 4 degrees of freedom": lambda rng, n: rng.standard_t(4, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "Gaussian, of changing size": lambda rng, n: rng.normal(size=n) * np.exp(np.cumsum(0.05 * rng.normal(size=n))),
}


def pieces(name: str) -> Iterator[Rows]:
    """Rows of a stream from several places on."""
    found, last = stream(name), WINDOWS[-1][1]
    known = np.isfinite(found.y)
    X, y = with_lags(found.X[known], found.y[known], LAGS)
    for start in np.linspace(0, len(y) - last, STARTS).astype(int):
        yield X[start : start + last], y[start : start + last]


def drawn(kind: str) -> Iterator[Rows]:
    rng = np.random.default_rng(0)
    for _ in range(STARTS):
        X = rng.uniform(-2, 2, (WINDOWS[-1][1], 2))
        yield X, np.sin(X[:, 0]) + DRAWN[kind](rng, len(X))


def inside(model: Callable[[], sg.StreamModel], X: np.ndarray, y: np.ndarray) -> np.ndarray:
    low, high = sg.Calibrated(model(), level=LEVEL).track(X, y).interval()
    return (low <= y) & (y <= high)


def shares(rows: Callable[[str], Iterator[Rows]], names: tuple[str, ...]) -> dict[str, Any]:
    """Coverage by window: over all, of single streams, and below which a tenth of the starts is."""
    covered = np.array([[[inside(model, X, y) for X, y in rows(name)] for model in MODELS.values()] for name in names])
    result: dict[str, Any] = {}
    for first, last in WINDOWS:
        part = covered[..., first:last].mean(axis=-1)  # (streams, models, starts)
        streams = part.mean(axis=(1, 2))
        errors = part.mean(axis=1).std(axis=1, ddof=1) / np.sqrt(STARTS)
        below, above = ALLOWED[0] - ERRORS * errors, ALLOWED[1] + ERRORS * errors
        result[f"{first} to {last}"] = {
            "all": float(part.mean()),
            "lowest": float(streams.min()),
            "highest": float(streams.max()),
            "lowest tenth": float(np.quantile(part, 0.1)),
            "standard error": float(np.median(errors)),
            "beyond": [
                name for name, share in zip(names, streams, strict=True) if not ALLOWED[0] <= share <= ALLOWED[1]
            ],
            "outside": [name for name, out in zip(names, (streams < below) | (streams > above), strict=True) if out],
        }
    return result


def measure() -> dict[str, Any]:
    return {
        **environment(),
        "level": LEVEL,
        "groups": {
            "chosen on, 9 streams": shares(pieces, CHOSEN_ON),
            "holdout, 9 streams": shares(pieces, REPORTED_ON),
            "drawn, 4 kinds of errors": shares(drawn, tuple(DRAWN)),
        },
    }


def table(report: dict[str, Any]) -> str:
    groups = report["groups"]
    lines = [f"| rows | {' | '.join(groups)} |", f"|{'---|' * (len(groups) + 1)}"]
    for rows in next(iter(groups.values())):
        cells = [
            f"{found['all']:.1%} ({found['lowest']:.0%} to {found['highest']:.0%})"
            for found in (windows[rows] for windows in groups.values())
        ]
        lines.append(f"| {rows} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", measured_on(report)])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)

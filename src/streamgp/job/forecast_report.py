"""The page of a forecast: what was seen and is to come, its components, and how past forecasts did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from streamgp.job.forecast import Issued
from streamgp.job.report import write_page

PAST = 3  # lengths of the forecast that are shown before it
MOST_POINTS = 2000
MOST_LINES = 12  # of the table
TITLES = {"level 2": "short memory"}  # of components


def write_forecast_report(path: str | Path, issued: Issued, source: str) -> None:
    """Write the page.

    Args:
        path: an .html file.
        issued: the forecast.
        source: where the rows came from.
    """
    readings, forecast = issued.readings, issued.forecast
    target, now, times = readings.schema.target, readings.times[-1], forecast.times
    past = np.flatnonzero(readings.times >= now - PAST * (times[-1] - now))[-MOST_POINTS:]
    values = [forecast.quantile(level) for level in issued.quantiles]
    pairs = range(len(values) // 2)
    between = ", ".join(f"{100 * (issued.quantiles[-1 - i] - issued.quantiles[i]):g}%" for i in pairs)
    within = f", and where {between} of the values will lie" if between else ""
    shown = [readings.shown(time) for time in [*readings.times[past], *times]]
    contents = {
        "title": f"{target}: forecast to {shown[-1]}",
        "about": f"{source}, issued after the row of {readings.shown(now)}",
        "times": shown,
        "first": 1,
        "stride": 1,
        "rows": len(shown),
        "drift": [{"row": len(past)}],
        "seen": readings.y[past],
        "median": forecast.median,
        "bands": [[values[i], values[-1 - i]] for i in pairs],
        "fan_note": f"Gray: observed. Blue: median{within}.",
        "quantiles": _table(issued),
        "components": [
            {"name": TITLES.get(name, name), "values": parts} for name, parts in forecast.components.items()
        ],
        "components_note": "The forecast is the product of these factors and a typical value."
        if forecast.log
        else "The forecast is the sum of these parts and the mean of the series.",
        "notes": [*readings.notes(), *issued.notes()],
    }
    write_page(path, "forecast.html", contents | _coverage(issued))


def _table(issued: Issued) -> list[list[str]]:
    """Times and quantiles, of many rows some."""
    rows = [{name: value for name, value in row.items() if name != "issued"} for row in issued.rows()]
    every = max(1, len(rows) // MOST_LINES)
    lines = [[v if isinstance(v, str) else f"{v:.5g}" for v in row.values()] for row in rows[every - 1 :: every]]
    return [list(rows[0]), *lines]


def _coverage(issued: Issued) -> dict[str, Any]:
    """How many values past forecasts held, by rows ahead."""
    level = issued.quantiles[-1] - issued.quantiles[0]
    if not 0 < level < 1:
        return {"coverage": [], "coverage_note": ""}
    part = issued.past(level)
    known = part[np.isfinite(part)]
    mean = f"{100 * float(known.mean()):.1f}%" if known.size else "unknown"
    note = (
        f"Part of the values inside the {100 * level:g}% interval of {len(issued.parts)} forecasts over the last half "
        f"of the rows: {mean} over all steps. Each forecast knew the rows before it; earlier forecasts tell how wide "
        "its intervals are; seasons, trend and noise were found on all rows."
    )
    return {"coverage": part, "level": level, "coverage_note": note}

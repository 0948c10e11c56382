"""The page of a forecast: a fan chart, its components, and how past forecasts did; with nothing to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from streamgp.job.forecast import Issued, Readings
from streamgp.job.report import TEMPLATE, write_page
from streamgp.settings import FloatArray

WIDE, TALL, LEFT, BELOW = 900, 300, 62, 24
HALF = 440  # wide, of pictures that stand two in a row
MINUTE, DAY = 60, 86400
# Times between two labels of an axis of dates, in seconds, and the most labels.
BETWEEN = (
    1,
    5,
    15,
    *(MINUTE * n for n in (1, 5, 15, 60, 180, 360, 720)),
    *(DAY * n for n in (1, 2, 7, 14, 30, 90, 365.25)),
)
MOST_LABELS = 6
PAST = 3  # lengths of the forecast that are shown before it
MOST_POINTS = 2000
STYLE = Path(__file__).with_name("forecast.css")


class Chart:
    """An SVG picture over an axis of times or steps.

    Args:
        x: (lowest, highest).
        values: what the vertical axis has to reach.
        label: how a place on the horizontal axis is written.
        at: the places that have a label.
        tall: in pixels.
        wide: likewise.
    """

    def __init__(
        self,
        x: tuple[float, float],
        values: Sequence[FloatArray],
        label: Callable[[float], str],
        at: FloatArray,
        tall: int = TALL,
        wide: int = WIDE,
    ) -> None:
        together = np.concatenate([np.ravel(one) for one in values])
        together = together[np.isfinite(together)]
        low, high = (float(together.min()), float(together.max())) if together.size else (0.0, 1.0)
        margin = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        self._x, self._y, self._tall, self._wide = x, (low - margin, high + margin), tall, wide
        self._parts: list[str] = []
        for value in _ticks(*self._y, max(3, tall // 60)):
            y = self._at(x[0], value).partition(",")[2]
            self._parts.append(f'<line x1="{LEFT}" x2="{wide}" y1="{y}" y2="{y}"/>')
            self._parts.append(f'<text x="{LEFT - 6}" y="{y}" text-anchor="end" dy="4">{value:.6g}</text>')
        for place in at:
            left = self._at(float(place), low).partition(",")[0]
            text = escape(label(float(place)))
            anchor = "middle" if float(left) < wide - LEFT else "end"
            self._parts.append(f'<text x="{left}" y="{tall - 6}" text-anchor="{anchor}">{text}</text>')

    def _at(self, x: float, y: float) -> str:
        (first, last), (low, high) = self._x, self._y
        across = LEFT + (x - first) / ((last - first) or 1.0) * (self._wide - LEFT)
        return f"{across:.1f},{4 + (high - y) / (high - low) * (self._tall - BELOW - 4):.1f}"

    def line(self, x: FloatArray, y: FloatArray, kind: str = "") -> None:
        """A line, broken where values are missing."""
        known = np.isfinite(y)
        breaks = np.flatnonzero(np.diff(known.astype(int)) != 0) + 1
        for part in np.split(np.arange(len(y)), breaks):
            if part.size and known[part[0]]:
                points = " ".join(self._at(float(x[i]), float(y[i])) for i in part)
                self._parts.append(f'<polyline class="{kind}" points="{points}"/>')

    def band(self, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
        there = [self._at(float(a), float(b)) for a, b in zip(x, high, strict=True)]
        back = [self._at(float(a), float(b)) for a, b in zip(x[::-1], low[::-1], strict=True)]
        self._parts.append(f'<polygon points="{" ".join(there + back)}"/>')

    def rule(self, kind: str, *, x: float | None = None, y: float | None = None) -> None:
        """A line across the picture, upright at x or level at y."""
        (first, last), (low, high) = self._x, self._y
        start, end = ((first, y), (last, y)) if y is not None else ((x or 0.0, low), (x or 0.0, high))
        (x1, y1), (x2, y2) = (self._at(*place).split(",") for place in (start, end))
        self._parts.append(f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>')

    def text(self, title: str) -> str:
        inside = "".join(self._parts)
        return f'<svg viewBox="0 0 {self._wide} {self._tall}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def write_forecast_report(path: str | Path, issued: Issued, source: str) -> None:
    """Write the page.

    Args:
        path: an .html file.
        issued: the forecast.
        source: where the rows came from.
    """
    readings, forecast = issued.readings, issued.forecast
    target, end = readings.schema.target, readings.shown(forecast.times[-1])
    style = TEMPLATE.read_text(encoding="utf-8").partition("<style>")[2].partition("</style>")[0]
    style += STYLE.read_text(encoding="utf-8")
    notes = "".join(f"<li>{escape(note)}</li>" for note in [*readings.notes(), *issued.notes()])
    sections = [
        f"<h1>{escape(target)}: forecast to {escape(end)}</h1>",
        f'<p class="soft">{escape(source)}, issued after the row of {escape(readings.shown(readings.times[-1]))}</p>',
        _fan(issued),
        _table(issued),
        _components(issued),
        _coverage(issued),
        f"<h2>Rows and model</h2><ul>{notes}</ul>",
    ]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(target)}: forecast</title><style>{style}</style></head><body>"
    )
    write_page(path, head + "\n".join(sections) + "</body></html>\n")


def _fan(issued: Issued) -> str:
    readings, forecast = issued.readings, issued.forecast
    now, times = readings.times[-1], forecast.times
    shown = np.flatnonzero(readings.times >= now - PAST * (times[-1] - now))[-MOST_POINTS:]
    past, seen = readings.times[shown], readings.y[shown]
    values = [forecast.quantile(level) for level in issued.quantiles]
    across = float(past[0]), float(times[-1])
    chart = Chart(across, [seen, *values], *_axis(readings, *across, MOST_LABELS))
    pairs = len(values) // 2
    for i in range(pairs):
        chart.band(times, values[i], values[-1 - i])
    chart.line(past, seen, "seen")
    chart.line(times, forecast.median)
    chart.rule("now", x=float(now))
    between = ", ".join(f"{100 * (issued.quantiles[-1 - i] - issued.quantiles[i]):g}%" for i in range(pairs))
    caption = "Gray: observed. Blue: median" + (f", and where {between} of the values will lie" if pairs else "") + "."
    return f"<figure>{chart.text('forecast')}<figcaption>{caption}</figcaption></figure>"


def _table(issued: Issued) -> str:
    rows = list(issued.rows())
    every = max(1, len(rows) // 12)
    names = [name for name in rows[0] if name != "issued"]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cells = [
        "".join(f"<td>{escape(row[n]) if n == 'time' else format(row[n], '.5g')}</td>" for n in names)
        for row in rows[every - 1 :: every]
    ]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"


def _components(issued: Issued) -> str:
    forecast, readings = issued.forecast, issued.readings
    pictures = []
    for name, values in forecast.components.items():
        across = float(forecast.times[0]), float(forecast.times[-1])
        chart = Chart(across, [values], *_axis(readings, *across, MOST_LABELS // 2), 150, HALF)
        chart.line(forecast.times, values)
        title = {"level 2": "short memory"}.get(name, name)
        pictures.append(f"<section><h2>{escape(title)}</h2><figure>{chart.text(title)}</figure></section>")
    how = "The forecast is the product of these factors" if forecast.log else "The forecast is the sum of these parts"
    rest = "a typical value" if forecast.log else "the mean of the series"
    return f'<h2>Components</h2><p class="soft">{how} and {rest}.</p><div class="two">{"".join(pictures)}</div>'


def _coverage(issued: Issued) -> str:
    level = issued.quantiles[-1] - issued.quantiles[0]
    if not 0 < level < 1:
        return ""
    part, forecasts = issued.past(level), len(issued.parts)
    steps = np.arange(1.0, len(part) + 1)
    across = 1.0, float(max(2, len(part)))
    at = np.unique(_ticks(*across, MOST_LABELS).round())
    chart = Chart(across, [part, np.array([0.0, 1.0])], lambda step: f"{step:.0f}", at, 190)
    chart.rule("wanted", y=level)
    chart.line(steps, part)
    known = np.isfinite(part)
    mean = f"{100 * float(part[known].mean()):.1f}%" if known.any() else "unknown"
    return (
        f"<h2>Coverage of past forecasts, by rows ahead</h2><figure>{chart.text('coverage')}<figcaption>Part of the "
        f"values inside the {100 * level:g}% interval of {forecasts} forecasts over the last half of the rows: {mean} "
        "over all steps. Each forecast knew the rows before it; earlier forecasts tell how wide its intervals are; "
        "seasons, trend and noise were found on all rows."
        "</figcaption></figure>"
    )


def _axis(readings: Readings, first: float, last: float, most: int) -> tuple[Callable[[float], str], FloatArray]:
    """How places on an axis of times are written, and which ones: full hours, days... where these are dates."""
    if not readings.is_dated:
        return readings.shown, _ticks(first, last, most)
    apart = next((one for one in BETWEEN if (last - first) / one <= most), (last - first) / most)
    midnight = readings.midnight(first)
    at = midnight + apart * np.arange(np.ceil((first - midnight) / apart), np.floor((last - midnight) / apart) + 1)
    length = 10 if apart % DAY == 0 else 16 if apart >= 60 else 19  # the day; with minutes; with seconds
    return lambda time: readings.shown(time)[:length], at


def _ticks(low: float, high: float, count: int) -> FloatArray:
    raw = (high - low) / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= raw)
    return np.asarray(np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step + 0.0)  # no -0

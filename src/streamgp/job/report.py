"""Report: one page that shows how a run went, with nothing to load from elsewhere; and a picture of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract.shown import draw
from streamgp.job.recorder import LEVELS, Recorder
from streamgp.job.scores import as_table
from streamgp.job.summary import Summary
from streamgp.job.verdict import leaders, verdict
from streamgp.tables.writing import finite, writing

MOST_MEMBERS = 3  # of a committee that are drawn each by its own line
WINDOW = 500  # rows over which errors and coverage are averaged
SHOWN_INPUTS = 8
TIME_LABELS = 5  # along an axis
DRAWN = 400  # last rows of a picture
SHOWN_PATHS = 8  # numbers of one hyperparameter


def write_report(path: str | Path, recorder: Recorder, summary: Summary, source: str = "") -> None:
    """Write the page.

    Args:
        path: an .html file.
        recorder: what was seen along the run.
        summary: of the run.
        source: where the rows came from.
    """
    write_page(path, "report.html", _contents(recorder, summary, source))


def write_page(path: str | Path, template: str, contents: dict[str, Any]) -> None:
    """Write a page that needs nothing from elsewhere.

    Args:
        path: an .html file.
        template: a file beside this one.
        contents: what the page shows, by name.
    """
    text = json.dumps(finite(contents), ensure_ascii=False, separators=(",", ":"))
    # A column or a time may be called anything; "<" could end the element that holds the data.
    parts = {"STYLE": _beside("report.css"), "CHART": _beside("chart.js"), "DATA": text.replace("<", "\\u003c")}
    page = _beside(template)
    for name, part in parts.items():
        page = page.replace(f"/*{name}*/", part)
    with writing(path):
        Path(path).write_bytes(page.encode(errors="replace"))


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def write_plot(path: str | Path, recorder: Recorder, summary: Summary) -> None:
    """Write a picture of the last predictions, and of error and coverage along the run.

    Args:
        path: a .png, .svg or .pdf file.
        recorder: what was seen along the run.
        summary: of the run.
    """
    plt = _pyplot()
    pipeline = summary.pipeline
    series, running = recorder.series(), recorder.running(WINDOW)
    row = recorder.first + recorder.columns.stride * np.arange(recorder.columns.used)
    last = {name: values[-DRAWN:] for name, values in series.items()}
    last |= {"mean": 0.5 * (last["mean_low"] + last["mean_high"]), "observed": last["observed_high"]}
    figure, axes = plt.subplots(3, 1, figsize=(10, 8), layout="constrained", height_ratios=[2.2, 1, 1])
    top, error, coverage = axes
    draw(top, row[-DRAWN:], last, pipeline.level)
    top.vlines(row[-DRAWN:], last["observed_low"], last["observed_high"], color="tab:orange")
    top.set(title=f"{pipeline.schema.target}: the last rows", xlim=(row[-DRAWN:][0], row[-1] + 1))
    error.plot(row, running["rmse"], color="tab:blue", lw=1)
    error.set(title=f"RMSE over the last {WINDOW} rows", xlim=(row[0], row[-1] + 1))
    error.set_ylim(bottom=0)
    coverage.plot(row, running["raw_coverage"], color="0.6", lw=1, label="before calibration")
    coverage.plot(row, running["coverage"], color="tab:blue", lw=1.3, label="calibrated")
    coverage.axhline(pipeline.level, color="tab:green", lw=1)
    coverage.set(title=f"Coverage over the last {WINDOW} rows", xlim=(row[0], row[-1] + 1))
    coverage.legend(frameon=False, loc="lower right", ncols=2)
    for axis in axes:
        _label_times(axis, recorder)
        for event, _ in [*pipeline.drift, *pipeline.alarms]:
            if axis.get_xlim()[0] <= event <= axis.get_xlim()[1]:
                axis.axvline(event, color="tab:red", ls="--", lw=1)
    try:
        with writing(path):
            figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)


def refuse_plot(path: str | Path) -> None:
    """Refuse a picture that cannot be drawn: matplotlib is missing, or it cannot write files with this ending."""
    canvas = _pyplot().Figure().canvas
    if Path(path).suffix.lower().removeprefix(".") not in canvas.get_supported_filetypes():
        raise ValueError(f"`plot` cannot be {str(path)!r}; use a name that ends in .png, .svg or .pdf")


def _pyplot() -> Any:
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ValueError('`plot` needs matplotlib: pip install "streamgp[plots]"; `report` works without it') from None
    return plt


def _label_times(axis: Any, recorder: Recorder) -> None:
    """Label rows with their times, where they have any."""
    if not recorder.times:
        axis.set_xlabel("row")
        return
    first, last = axis.get_xlim()
    ticks = np.linspace(float(first), float(last), 2 * TIME_LABELS + 1)[1::2]
    places = np.clip(np.round((ticks - recorder.first) / recorder.columns.stride), 0, len(recorder.times) - 1)
    axis.set_xticks(ticks.tolist(), [_clock(recorder.times[int(at)]) for at in places])


def _clock(text: str) -> str:
    """A time to the minute, as its table writes it."""
    return text.replace("T", " ")[:16]


def _contents(recorder: Recorder, summary: Summary, source: str) -> dict[str, Any]:
    pipeline = summary.pipeline
    scores = pipeline.score_summary()
    samples, repairs = recorder.samples, pipeline.model.health.repairs
    running = recorder.running(WINDOW)
    series = recorder.series() | {name: running[name] for name in ("rmse", "coverage", "raw_coverage")}
    horizon = f", {pipeline.horizon} rows ahead" if pipeline.horizon else ""
    known = [_clock(text) for text in recorder.times if text]
    span = f"{pipeline.rows:,} rows" + (f", {known[0]} to {known[-1]}" if known else "")
    models = leaders(pipeline)
    speed = f"{summary.rows / summary.seconds:,.0f} rows per second" if summary.seconds else ""
    return {
        "title": f"{pipeline.schema.target}{horizon}",
        "about": " · ".join(filter(None, [source, span, speed, models])),
        "verdict": verdict(pipeline),
        "importance": list(pipeline.importance().items())[:SHOWN_INPUTS],
        "single": len(pipeline.weights) == 1,
        "numbers": [
            *(
                [["targets far outside all before them, not learned", f"{pipeline.refused.count:,}"]]
                * bool(pipeline.refused.count)
            ),
            *([["diverged, without weight", ", ".join(pipeline.diverged)]] if pipeline.diverged else []),
            *([["rows that needed a repair of rounding", f"{repairs:,}"]] if repairs else []),
        ],
        "scores": as_table(scores, pipeline.level),
        "level": f"{100 * pipeline.level:g}%",
        "level_number": pipeline.level,
        "window": max(WINDOW, recorder.columns.stride),
        "rows": recorder.columns.rows,
        "first": recorder.first,
        "stride": recorder.columns.stride,
        "times": recorder.times,
        "series": {name: _packed(values) for name, values in series.items()},
        "pit": recorder.pit.tolist(),
        "levels": _coverage_by_level(recorder),
        "samples": {name: [sample[name] for sample in samples] for name in ("row", "size", "microseconds")},
        "median_microseconds": float(np.median([s["microseconds"] for s in samples])) if samples else None,
        "paths": _paths(recorder),
        "weights": _weights(recorder),
        "drift": [{"row": row, "text": f"{pipeline.when(row)}: {sentence}"} for row, sentence in pipeline.drift],
        "alarms": [{"row": row, "text": f"{pipeline.when(row)}: {sentence}"} for row, sentence in pipeline.alarms],
        "strangest": [f"{pipeline.when(row)}: {sentence}" for row, sentence in pipeline.strangest()],
        "notes": summary.notes,
    }


def _coverage_by_level(recorder: Recorder) -> str:
    """A sentence with the share of the targets within the interval of each level."""
    rows = recorder.pit.sum()
    shares = (f"{100 * level:g}%: {100 * n / rows:.1f}%" for level, n in zip(LEVELS, recorder.covered, strict=True))
    return f"Coverage by level: {', '.join(shares)}." if rows else ""


def _weights(recorder: Recorder) -> dict[str, list[float]]:
    """The weights of the members that had the most to say, and those of the others together."""
    weights = recorder.weights()
    if len(weights) <= MOST_MEMBERS:
        return {name: values.tolist() for name, values in weights.items()}
    order = sorted(weights, key=lambda name: -np.nanmean(weights[name]) - weights[name][-1])
    others = np.nansum([weights[name] for name in order[MOST_MEMBERS:]], axis=0)
    return {name: weights[name].tolist() for name in order[:MOST_MEMBERS]} | {"others": others.tolist()}


def _paths(recorder: Recorder) -> list[dict[str, Any]]:
    found = []
    for name, values in recorder.paths().items():
        with np.errstate(divide="ignore", invalid="ignore"):
            shown = np.log10(values[:, :SHOWN_PATHS])
        more = values.shape[1] - shown.shape[1]
        title = f"{name} (the first {SHOWN_PATHS})" if more > 0 else name
        found.append({"name": title, "values": [column.tolist() for column in shown.T]})
    return found


def _packed(values: np.ndarray) -> str:
    with np.errstate(over="ignore"):
        return base64.b64encode(values.astype("<f4").tobytes()).decode()

"""Report: one page that shows how a run went, with nothing to load from elsewhere; and a picture of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.job.pipeline import Pipeline
from streamgp.job.recorder import LEVELS, Recorder
from streamgp.job.scores import as_table
from streamgp.job.summary import Summary
from streamgp.job.told import counted_alarms
from streamgp.job.verdict import leaders, verdict
from streamgp.tables.columns import is_spare
from streamgp.tables.writing import finite, writing

MOST_MEMBERS = 3  # of a committee that are drawn each by its own line
WINDOW = 500  # rows over which errors and coverage are averaged
SHOWN_INPUTS = 8
TIME_LABELS = 5  # along an axis
FEW = 0.005  # of the values at each end of a plot that may lie beyond it, if they lie far
SHOWN_PATHS = 8  # numbers of one hyperparameter
TEMPLATE = Path(__file__).with_name("report.html")


def write_report(path: str | Path, recorder: Recorder, summary: Summary, source: str = "") -> None:
    """Write the page.

    Args:
        path: an .html file.
        recorder: what was seen along the run.
        summary: of the run.
        source: where the rows came from.
    """
    text = json.dumps(finite(_contents(recorder, summary, source)), ensure_ascii=False, separators=(",", ":"))
    # A column or a time may be called anything; "<" could end the element that holds the data.
    page = TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/", text.replace("<", "\\u003c"))
    write_page(path, page)


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
    row = recorder.first + recorder.stride * np.arange(recorder.used)
    last = slice(max(0, recorder.used - 400), None)
    figure, axes = plt.subplots(3, 1, figsize=(10, 8), layout="constrained", height_ratios=[2.2, 1, 1])
    top = axes[0]
    top.fill_between(row[last], series["lower"][last], series["upper"][last], color="tab:blue", alpha=0.2, lw=0,
                     label=f"{100 * pipeline.level:g}% interval")  # fmt: skip
    top.vlines(row[last], series["observed_low"][last], series["observed_high"][last], color="0.55")
    top.plot(row[last], series["observed_high"][last], ".", ms=4, color="0.55", label="observed")
    middle = 0.5 * (series["mean_low"] + series["mean_high"])
    top.plot(row[last], middle[last], color="tab:blue", lw=1.3, label="predicted")
    top.set(title=f"{pipeline.schema.target}: the last rows", xlim=(row[last][0], row[last][-1] + 1))
    low, high = _visible({name: values[last] for name, values in series.items()})
    top.set_ylim(low, high)
    for edge, beyond, marker in (
        (low, series["observed_low"][last] < low, "v"),
        (high, series["observed_high"][last] > high, "^"),
    ):
        if beyond.any():
            top.plot(row[last][beyond], np.full(np.count_nonzero(beyond), edge), marker, color="tab:red", ms=7,
                     clip_on=False, label="outside the plot")  # fmt: skip
    top.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False)
    axes[1].plot(row, running["rmse"], color="tab:blue", lw=1)
    axes[1].set(title=f"RMSE over the last {WINDOW} rows", xlim=(row[0], row[-1] + 1))
    axes[1].set_ylim(bottom=0)
    axes[2].plot(row, running["raw_coverage"], color="0.6", lw=1, label="before calibration")
    axes[2].plot(row, running["coverage"], color="tab:blue", lw=1.3, label="calibrated")
    axes[2].axhline(pipeline.level, color="tab:green", lw=1)
    axes[2].set(title=f"Coverage over the last {WINDOW} rows", xlim=(row[0], row[-1] + 1))
    axes[2].legend(frameon=False, loc="lower right", ncols=2)
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
    places = [min(max(round((tick - recorder.first) / recorder.stride), 0), len(recorder.times) - 1) for tick in ticks]
    axis.set_xticks(ticks.tolist(), [_clock(recorder.times[at]) for at in places])


def _clock(text: str) -> str:
    """A time to the minute, as its table writes it."""
    return text.replace("T", " ")[:16]


def _inner(values: np.ndarray) -> np.ndarray:
    """The lowest and the highest of the values, less few that lie further out than the others reach."""
    known = values[np.isfinite(values)]
    if not known.size:
        return np.empty(0)
    low, high = np.quantile(known, [FEW, 1 - FEW])
    near = known[(known >= low - (high - low)) & (known <= high + (high - low))]
    return np.array([near.min(), near.max()])


def _visible(series: dict[str, np.ndarray]) -> tuple[float, float]:
    """The range of a plot: of all values, less the few that reach far and would flatten everything else."""
    low, high = ([_inner(series[f"{name}_{end}"]) for name in ("observed", "mean")] for end in ("low", "high"))
    for bounds, part, among in ((series["lower"], 0.02, low), (series["upper"], 0.98, high)):
        finite_bounds = bounds[np.isfinite(bounds)]
        if finite_bounds.size:
            among.append(np.atleast_1d(np.quantile(finite_bounds, part)))
    values = np.concatenate(low + high)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    margin = 0.05 * np.ptp(values) or 1.0
    return float(values.min() - margin), float(values.max() + margin)


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
        "window": max(WINDOW, recorder.stride),
        "rows": recorder.rows,
        "first": recorder.first,
        "stride": recorder.stride,
        "times": recorder.times,
        "series": {name: _packed(values) for name, values in series.items()},
        "pit": recorder.pit.tolist(),
        "levels": _coverage_by_level(recorder),
        "samples": {name: [sample[name] for sample in samples] for name in ("row", "size", "microseconds")},
        "median_microseconds": float(np.median([s["microseconds"] for s in samples])) if samples else None,
        "relevance": _relevance(recorder, pipeline.input_names),
        "paths": _paths(recorder),
        "weights": _weights(recorder),
        "drift": [{"row": row, "text": f"{pipeline.when(row)}: {sentence}"} for row, sentence in pipeline.drift],
        "alarms": [{"row": row, "text": f"{pipeline.when(row)}: {sentence}"} for row, sentence in pipeline.alarms],
        "strangest": [f"{pipeline.when(row)}: {sentence}" for row, sentence in pipeline.strangest()],
        "alarms_note": _alarms_note(pipeline),
        "drift_note": _drift_note(pipeline),
        "notes": summary.notes,
    }


def _drift_note(pipeline: Pipeline) -> str:
    """What stands in place of changes where there are none."""
    if not pipeline.changes.on:
        return "Drift detection: off."
    told = any(pipeline.alarm_counts.get(kind) for kind in ("level", "relation"))
    return "None but those among the alarms." if told else "None was noticed."


def _alarms_note(pipeline: Pipeline) -> str:
    """How many alarms there were; empty where rows are not judged."""
    return f"Alarms: {counted_alarms(pipeline.alarm_counts) or 'none'}." if pipeline.alarm_counts else ""


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


def _relevance(recorder: Recorder, names: list[str]) -> dict[str, Any]:
    values = recorder.relevance()
    if values.size == 0 or values.shape[1] != len(names):
        return {"names": [], "values": [], "others": 0}
    largest = [i for i in np.argsort(-values[-1], kind="stable") if not is_spare(names[i])][:SHOWN_INPUTS]
    return {
        "names": [names[i] for i in largest],
        "values": [values[:, i].tolist() for i in largest],
        "others": sum(not is_spare(name) for name in names) - len(largest),
    }


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


def write_page(path: str | Path, page: str) -> None:
    """Write the text of a page to a file."""
    with writing(path):
        Path(path).write_bytes(page.encode(errors="replace"))

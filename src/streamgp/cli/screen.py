"""The screen: progress and sentences for people on standard error, JSON for machines on standard output."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import typer

from streamgp.cli.settings import with_options
from streamgp.contract.model import REPAIRS
from streamgp.job import Block, Observer, Summary
from streamgp.job.recorder import Recorder
from streamgp.job.request import AUTO
from streamgp.job.scores import as_table
from streamgp.job.verdict import verdict

REFRESH = 0.2  # seconds
MOST_SKIPPED = 3  # reasons for which rows were skipped


class Screen(Observer):
    """Shows how a run goes.

    Args:
        quiet: say nothing but errors.
        to_terminal: predictions go to standard output, so that a bar would run into them on a terminal.
    """

    def __init__(self, quiet: bool, to_terminal: bool) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._shown = self._began = time.monotonic()
        self._first: int | None = None
        self._wanted = not quiet and sys.stderr.isatty() and not (to_terminal and sys.stdout.isatty())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def note(self, sentence: str) -> None:
        """Print a sentence, unless quiet."""
        if self.quiet:
            return
        sentence = with_options(sentence)
        if self._bar is not None:
            self._bar.console.print(sentence, markup=False, highlight=False)
        else:
            typer.echo(sentence, err=True)

    def doing(self, sentence: str) -> None:
        """Show what takes long."""
        self._show(sentence)

    def block(self, block: Block) -> None:
        """Show how much has been read, how fast, and which model leads."""
        pipeline = block.pipeline
        now = time.monotonic()
        if self._first is None:
            self._first, self._began = pipeline.rows, now
        if now - self._shown < REFRESH:
            return
        self._shown = now
        speed = (pipeline.rows - self._first) / max(now - self._began, 1e-9)
        weights = pipeline.weights
        name = max(weights, key=weights.__getitem__)
        leading = f"leading: {name} {100 * weights[name]:.0f}%" if len(weights) > 1 else name
        self._show(f"row {pipeline.rows:,}, {speed:,.0f} rows/s, {leading}", completed=block.read, total=block.total)

    def _show(self, text: str, **progress: int | None) -> None:
        """One line on a terminal, which the next one overwrites."""
        if not self._wanted:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], text=text, refresh=True, **progress)

    def finish(self, summary: Summary, out: Path | None, save: Path | None, rescue: Path) -> None:
        """Say what was done, how good it was, and where it is."""
        summary.notes = [with_options(note) for note in summary.notes]  # for the report and JSON
        self.note("")
        for sentence in verdict(summary.pipeline):
            self.note(sentence)
        self.note("")
        for sentence in sentences(summary):
            self.note(sentence)
        if not self.quiet:
            show_scores(summary.pipeline.score_summary(), summary.pipeline.level, stderr=True)
        if out is not None:
            self.note(f"predictions: {out}")
        if save is not None and not summary.interrupted:
            self.note(f"saved: {save} (resume with --load {save})")
        if summary.interrupted:
            typer.echo(
                f"streamgp: stopped after row {summary.pipeline.rows}; resume with --load {rescue}",
                err=True,
            )

    def pictures(
        self, recorder: Recorder, summary: Summary, source: str, report: Path | None, plot: Path | None
    ) -> None:
        """Write the page and the picture that were asked for."""
        from streamgp.job.report import write_plot, write_report

        if report is not None:
            write_report(report, recorder, summary, source)
            self.note(f"report: {report}")
        if plot is not None:
            write_plot(plot, recorder, summary)
            self.note(f"plot: {plot}")

    def advise(self, steps: list[str]) -> None:
        """Say what can be typed next."""
        for line in ["\nNext:", *(f"  {step}" for step in steps)]:
            self.note(line)

    def print_json(self, summary: Summary) -> None:
        from streamgp.tables.writing import finite

        print(json.dumps({"summary": finite(summary.to_dict())}), flush=True)


def sentences(summary: Summary) -> list[str]:
    """What a run did, for people."""
    pipeline = summary.pipeline
    speed = f" ({summary.rows / summary.seconds:,.0f} per second)" if summary.seconds > 0 else ""
    lines = [f"rows: {summary.rows} in {summary.seconds:.1f} s{speed}"]
    gaps = ", ".join(f"{count} in {name}" for name, count in pipeline.encoder.gaps.items())
    if gaps:
        lines.append(f"missing values: {gaps}; inputs repeat their last value, rows without a target are not learned")
    if late := pipeline.late:
        lines.append(
            f"late targets: {late['learned']} learned, {late['waiting']} rows still waiting, {late['expired']} expired"
            f"{' (keep more with --set pending=N)' * (late['expired'] > 0)}, {late['ignored']} rows ignored"
            f"{' (no target, or a ticket that is unknown, resolved or expired)' * (late['ignored'] > 0)}"
        )
    if fill_values := pipeline.refused.sentence():
        lines.append(fill_values)
    health = pipeline.model.health
    if health.repairs:
        kinds = ", ".join(f"{getattr(health, k)} {k.replace('_', ' ')}" for k in REPAIRS if getattr(health, k))
        advice = "if predictions look wrong, raise noise or novelty"
        if pipeline.request.model == AUTO:
            advice = "in single members of auto, whose weights go by their errors"
        lines.append(f"numerical repairs: {health.repairs} ({kinds}); {advice}")
    if pipeline.diverged:
        why = "weight 0" if len(pipeline.weights) > 1 else "errors beyond measure; try --model auto, or a smaller step"
        lines.append(f"diverged: {', '.join(pipeline.diverged)} ({why})")
    if first := summary.first_skipped:
        rows = f"{summary.skipped_rows} row{'s' if summary.skipped_rows > 1 else ''}"
        lines.append(f"skipped: {rows}; the first is {summary.unit} {first.line}, which {first.reason}")
        often = [f"{count} x: {reason}" for reason, count in summary.skipped.most_common(MOST_SKIPPED)]
        if len(often) > 1:
            lines.append(f"skipped most often: {'; '.join(often)}")
    return lines


def show_scores(scores: dict[str, Any], level: float, stderr: bool) -> None:
    """Print the scores of the first rows and of those after them, if there are any."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    headings, *lines = as_table(scores, level) or [[]]
    if lines:
        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for heading in headings:
            shown.add_column(heading, justify="right" if heading else "left")
        for line in lines:
            shown.add_row(*line)
        Console(stderr=stderr).print(shown)


@contextlib.contextmanager
def stopping(screen: Screen) -> Iterator[threading.Event]:
    """An event that is set by the first Ctrl-C or SIGTERM; the second Ctrl-C stops at once."""
    stop = threading.Event()

    def asked(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        screen.note("finishing this batch; press Ctrl-C again to quit without saving")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = [(number, signal.signal(number, asked)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        BarColumn(bar_width=10),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task("", total=None, text="")
    return bar

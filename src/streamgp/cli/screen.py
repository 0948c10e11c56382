"""The screen: progress and sentences for people on standard error."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import typer

from streamgp.cli.settings import with_options
from streamgp.job import Block, Observer, Summary
from streamgp.job.pipeline import Pipeline
from streamgp.job.scores import as_table
from streamgp.job.verdict import verdict

REFRESH = 0.2  # seconds
MOST_STEPS = 3  # commands that are shown after a run
RATE_BY_TIME, RATE_BY_ROW = "1/week", "1e-3"


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
        for sentence in summary.sentences():
            self.note(sentence)
        if not self.quiet:
            show_scores(summary.pipeline.score_summary(), summary.pipeline.level, stderr=True)
        if out is not None:
            self.note(f"predictions: {out}")
        if save is not None and not summary.interrupted:
            self.note(f"saved: {save} (resume with --load {save})")
        if summary.interrupted:
            typer.echo(f"streamgp: stopped after row {summary.pipeline.rows}; resume with --load {rescue}", err=True)


def next_steps(
    run: Pipeline,
    source: str,
    typed: str,
    save: Path | None = None,
    load: Path | None = None,
    report: Path | None = None,
) -> list[str]:
    """Commands that can be typed after a run, each with what it is for; see the options for the arguments."""
    table = shlex.quote(source)
    steps = []
    unsure = any("may stand for missing values" in column.note for column in run.schema.columns)
    if source != "-" and load is None and unsure:
        steps.append(
            f"declare what stands for missing values: streamgp inspect {table} --write-schema schema.toml, "
            "then add --schema schema.toml"
        )
    if save is not None:
        steps.append(f"go on when there are more rows: streamgp run {table} --load {shlex.quote(str(save))}")
    else:
        steps.append(f"keep what was learned, to go on later: {typed} --save model.sgp")
    if report is None:
        steps.append(f"look at it: {typed} --report report.html")
    if load is None and run.request.run.alarms is None:
        rate = RATE_BY_TIME if run.schema.is_dated else RATE_BY_ROW
        steps.append(f"find abnormal rows: {typed} --alarms {rate}")
    return steps[:MOST_STEPS]


def show_scores(scores: dict[str, Any], level: float, stderr: bool) -> None:
    """Print the scores of the first rows and of those after them, if there are any."""
    headings, *lines = as_table(scores, level) or [[]]
    if lines:
        show_table(headings, lines, stderr)


def show_table(headings: list[str], lines: Iterable[Iterable[str]], stderr: bool = False, right: bool = True) -> Any:
    """Print a table, numbers on the right if it has some; returns where it was printed."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, heading in enumerate(headings):
        shown.add_column(heading, justify="right" if i and right else "left")
    for line in lines:
        shown.add_row(*line)
    console = Console(stderr=stderr)
    console.print(shown)
    return console


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

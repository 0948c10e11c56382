"""The job: read rows, predict and learn them, write what was predicted, and stop without losing anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.frames import is_frame
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import told_of_columns
from streamgp.job.summary import Summary, introduced
from streamgp.job.verdict import leaders
from streamgp.settings import option
from streamgp.tables.columns import listed
from streamgp.tables.encoding import EncodedRows
from streamgp.tables.formats import LOOK, BadRow, Chunk, FrameReader, Reader, read_rows
from streamgp.tables.places import locked, refuse_same
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import OtherSourceError, RowsError
from streamgp.tables.writing import PredictedRows, Writer, write_rows, writing

ON_ERROR = ("stop", "skip")
SAVE_EVERY = 60.0  # seconds
BLOCK_ROWS = 250  # predicted and written at once: how fine a history is, and how soon a run stops
FIRST_BLOCK = 50  # rows that are written before processes are built, for which a first run may still be compiling


class BadRowError(RowsError):
    """A row that cannot be used, where the run stopped."""


class Block(NamedTuple):
    """Rows that were predicted and learned at once.

    Args:
        predicted: the predictions; with a ticket column those whose targets have come.
        pipeline: that made them, as it is after them.
        seconds: that they took.
        read: how much of the source has been read, in bytes, or in rows of Parquet.
        total: of how much; None where that is not known.
        lines: the number of each row that was taken, in the source.
    """

    predicted: PredictedRows
    pipeline: Pipeline
    seconds: float
    read: int
    total: int | None
    lines: Sequence[int] = ()


class Observer:
    """Is told how a run goes; override what you want to know."""

    def note(self, sentence: str) -> None:
        """Something was recognized, decided or noticed, for people."""

    def doing(self, sentence: str) -> None:
        """What the run is doing from now on, until the next such sentence or block: something that takes seconds."""

    def block(self, block: Block) -> None:
        """A block of rows was predicted, learned and written."""


@dataclass
class Job:
    """Predict and learn every row of a table.

    Args:
        source: a CSV, NDJSON or Parquet file, "-" for standard input, or a data frame.
        target: the column to predict; a loaded run has its own.
        inputs: the columns to predict it from; None: all that can be.
        lags: past values of the target that are inputs.
        horizon: rows ahead.
        ticket: the column by which late targets find their rows; None: targets come with their rows.
        model: the name of a model, or "auto".
        settings: of the model and of the run, by name; ``schema`` among them says what columns are.
        out: where to write predictions: .csv, .ndjson or .parquet, "-" for standard output; None: nowhere.
        as_json: write NDJSON instead of CSV to standard output.
        save: where to save the run, every minute, at the end and when it is stopped.
        load: a saved run to continue, a file or a Pipeline.
        new_source: if the source is not the file that the loaded run has read, learn it from its first row.
        follow: wait for more rows at the end of the source.
        on_error: "stop" at a row that cannot be used, or "skip" and count it.
        rescue: where to save a run that is stopped, if save is not given.
        observers: told of every block of rows and of what is decided along the way.
        stop: when set, the run ends after the present rows.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("wave.csv").write_text("x,y\\n" + "".join(f"{i % 10},{(i % 10) ** 2}\\n" for i in range(200)))
        >>> summary = Job("wave.csv", "y", model="KRLST", settings={"tune": False}).run()
        >>> summary.rows, summary.pipeline.scores.rows
        (200, 198)
        >>> Path("wave.csv").unlink()
    """

    source: Any
    target: str | None = None
    inputs: Sequence[str] | None = None
    lags: int | None = None
    horizon: int = 0
    ticket: str | None = None
    model: str = "auto"
    settings: Mapping[str, Any] | None = None
    out: str | Path | None = None
    as_json: bool = False
    save: str | Path | None = None
    load: str | Path | Pipeline | None = None
    new_source: bool = False
    follow: bool = False
    on_error: str = "stop"
    rescue: str | Path | None = None
    observers: Sequence[Observer] = ()
    stop: threading.Event = field(default_factory=threading.Event)

    _writer: Writer | None = field(default=None, init=False)

    def run(self) -> Summary:
        """Read to the end, or until it is stopped; errors leave everything before them written."""
        option("on_error", self.on_error, ON_ERROR)
        source = None if is_frame(self.source) else 0 if str(self.source) == "-" else self.source  # 0: standard input
        out = 1 if str(self.out) == "-" else self.out
        load = None if isinstance(self.load, Pipeline) else self.load
        refuse_same({"source": source, "load": load, "out": out, "save": self.save})
        quiet = np.errstate(over="ignore", divide="ignore", invalid="ignore")  # the summary tells of what diverges
        with quiet, locked({"out": self.out, "save": self.save}), ExitStack() as opened:
            loaded = None if self.load is None else self._loaded(self.load)
            reader = self._reader(loaded)
            opened.callback(reader.close)
            try:
                return self._over(reader, loaded, opened)
            except OtherSourceError as error:
                raise RowsError(f"{error}. Get the complete file, or start a new run without `load`") from None

    def _reader(self, loaded: Pipeline | None) -> Reader:
        if is_frame(self.source):
            if self.follow:
                raise ValueError("a data frame has all its rows and cannot be followed; drop `follow`")
            return FrameReader(self.source)
        names = () if loaded is None else [column.name for column in loaded.schema.columns]
        opened = partial(read_rows, self.source, follow=self.follow, stop=self.stop, names=names)
        try:
            return opened(after=None if loaded is None else loaded.position)
        except OtherSourceError as error:
            if self.new_source:
                return opened()
            raise RowsError(
                f"{error}. To go on where {self.load} stopped, give the source as it was; to learn this one from its "
                "first row, add `new_source`"
            ) from None

    def _loaded(self, saved: str | Path | Pipeline) -> Pipeline:
        """A saved run, which goes on with its own settings: others are refused."""
        pipeline = saved if isinstance(saved, Pipeline) else Pipeline.load(saved)
        origin = "the run" if isinstance(saved, Pipeline) else str(saved)
        model = None if self.model == "auto" else self.model
        for name, asked, has in (
            ("target", self.target, pipeline.schema.target),
            ("lags", self.lags, pipeline.lags),
            ("horizon", self.horizon or None, pipeline.horizon),
            ("ticket", self.ticket, pipeline.schema.ticket or "nothing"),
            ("model", model, pipeline.request.model),
        ):
            if asked is not None and asked != has:
                raise ValueError(
                    f"{origin} was made with `{name}={has}`, not {asked}; drop `{name}`, or start a new run "
                    "without `load`"
                )
        if self.inputs is not None or self.settings:
            raise ValueError(
                f"{origin} has its own inputs, settings and schema; drop `inputs`, `settings` and `schema`, or "
                "start a new run"
            )
        return pipeline

    def _over(self, reader: Reader, loaded: Pipeline | None, opened: ExitStack) -> Summary:
        self._doing("reading the first rows")
        chunks = reader.chunks()
        if loaded is not None and reader.live:  # nothing is to be decided, and the next row may be long in coming
            first, more = next(chunks, Chunk()), True
        else:
            first, chunks, more = first_rows(chunks, reader.live)
        if loaded is None:
            pipeline = self._begin(reader, first, growing=more or self.follow)
        else:
            pipeline = loaded
            _refuse_other_columns(pipeline, reader)
        pipeline.report_to(self._doing)
        summary = Summary(pipeline, unit=reader.unit)
        for sentence in introduced(pipeline, reader) if loaded is None else [self._resumed(pipeline, reader)]:
            self._tell(summary, sentence)
        if self.out is not None:
            self._writer = write_rows(
                self.out,
                timed=bool(pipeline.schema.time),
                ticketed=bool(pipeline.schema.ticket),
                judged=pipeline.judges,
                as_json=self.as_json,
                after=None if loaded is None else pipeline.extra.get("out", {}),
            )
            opened.callback(self._writer.close)
        self._doing("predicting the first rows")
        started = saved = time.monotonic()
        chunk: Chunk | None = first
        try:
            while chunk is not None:
                self._take(chunk, reader, summary)
                summary.seconds = time.monotonic() - started
                if self.save is not None and time.monotonic() - saved > SAVE_EVERY:
                    self._save(pipeline, self.save)
                    saved = time.monotonic()
                chunk = None if self.stop.is_set() else next(chunks, None)
        except RowsError:  # all that came before is written; after a failure to write it would not be
            if self.save is not None:
                self._save(pipeline, self.save)
            raise
        summary.interrupted = self.stop.is_set()
        place = self.save or (self.rescue if summary.interrupted else None)
        if place is not None:
            self._save(pipeline, place)
        if self._writer is not None and not summary.interrupted and not reader.live:
            self._writer.write(pipeline.outstanding())  # a continued run cuts them off: their rows have come then
        return summary

    def _begin(self, reader: Reader, first: Chunk, growing: bool) -> Pipeline:
        if self.target is None:
            raise ValueError(f"`target` is missing; the columns are: {listed(reader.names)}")
        if not len(first):
            if first.bad:
                raise BadRowError(f"{reader.unit} {first.bad[0].line} {first.bad[0].reason}; no row could be read")
            has = (
                f"has a header but no rows; the columns are: {listed(reader.names)}" if reader.names else "has no rows"
            )
            raise RowsError(f"{self._name} {has}")
        known = told_of_columns(self.settings)
        schema = recognize(first, self.target, self.inputs, self.ticket or "", growing=growing, **known)
        self._doing("loading compiled code; after an installation, compiling")
        return Pipeline(schema, self.model, self.settings, self.lags, self.horizon)

    @property
    def _name(self) -> str:
        return "the data frame" if is_frame(self.source) else str(self.source)

    def _resumed(self, pipeline: Pipeline, reader: Reader) -> str:
        passed = getattr(reader, "passed", 0)
        where = f"after {reader.unit} {passed}" if passed else "at its first row"
        return f"resuming after {pipeline.rows} rows, in {self._name} {where}"

    def _tell(self, summary: Summary, sentence: str) -> None:
        summary.notes.append(sentence)
        for observer in self.observers:
            observer.note(sentence)

    def _doing(self, sentence: str) -> None:
        for observer in self.observers:
            observer.doing(sentence)

    def _take(self, chunk: Chunk, reader: Reader, summary: Summary) -> None:
        pipeline = summary.pipeline
        bad = chunk.bad
        if chunk.news:
            self._tell(summary, chunk.news)
        if len(chunk):
            known = len(pipeline.encoder.joined)
            rows = pipeline.encoder.encode(chunk)
            for column, level in pipeline.encoder.joined[known:]:
                self._tell(summary, f"new level: {level} of {column} has an input of its own from now on")
            bad = rows.bad
            usable = len(rows.y)
            if bad and self.on_error == "stop":
                usable = sum(line < bad[0].line for line in rows.lines)
            start = 0
            while start < usable:
                if self.stop.is_set():
                    return
                stop = min(start + (BLOCK_ROWS if pipeline.rows else FIRST_BLOCK), usable)
                self._predict(rows.part(start, stop), reader, summary)
                start = stop
        if bad:
            self._handle(bad, reader, summary)

    def _predict(self, rows: EncodedRows, reader: Reader, summary: Summary) -> None:
        pipeline = summary.pipeline
        began = time.perf_counter()
        undecided, late = pipeline.chosen is None, pipeline.late is not None
        told = {*pipeline.drift, *pipeline.alarms}
        predicted = pipeline.take(rows if late else pipeline.encoder.fill(rows), ahead=reader.live)
        if undecided and pipeline.chosen is not None:
            chosen = pipeline.chosen
            after = f"{pipeline.request.chosen_after()} {'targets' if late else 'rows'}"
            model = leaders(pipeline) if len(pipeline.weights) > 1 else f"{chosen.name} ({chosen.reason})"
            self._tell(summary, f"model after {after}: {model}")
            if not pipeline.changes.on:
                self._tell(summary, "changes of the stream are not looked for")
        for row, event in [*pipeline.drift, *pipeline.alarms]:
            if (row, event) not in told:
                self._tell(summary, f"{pipeline.when(row)}: {event}")
        if self._writer is not None:
            self._writer.write(predicted)
        pipeline.position = reader.position(rows.lines[-1])
        summary.rows += len(rows.y)
        scored, seconds = pipeline.scored if late else predicted, time.perf_counter() - began
        block = Block(scored, pipeline, seconds, *reader.progress(), rows.lines)
        for observer in self.observers:
            observer.block(block)

    def _handle(self, bad: list[BadRow], reader: Reader, summary: Summary) -> None:
        if self.on_error == "stop":
            line, reason = bad[0]
            before = "row before it is" if summary.rows == 1 else f"{summary.rows} rows before it are"
            raise BadRowError(
                f"{reader.unit} {line} {reason}. The run stopped there; the {before} predicted and kept. Fix it, or "
                "skip such rows with `on_error=skip`"
            )
        summary.skip(bad)
        summary.pipeline.position = reader.position(max(summary.pipeline.position.lines, bad[-1].line))

    def _save(self, pipeline: Pipeline, place: str | Path) -> None:
        self._doing(f"saving {place}")
        with writing(place):
            if self._writer is not None and str(self.out) != "-":
                pipeline.extra["out"] = self._writer.written()
            pipeline.save(place)


def first_rows(chunks: Iterator[Chunk], live: bool) -> tuple[Chunk, Iterator[Chunk], bool]:
    """The first rows together, on which it is decided what the columns are, the chunks after them, and whether
    others may come: a pipe that has ended is a table.
    """
    gathered: list[Chunk] = []
    rows, more = 0, True
    try:
        while rows < LOOK:
            chunk = next(chunks)
            if not len(chunk) and live and rows:
                break
            gathered.append(chunk)
            rows += len(chunk)
    except StopIteration:
        more = False
    except RowsError as error:
        if not rows:
            raise
        chunks, more = _fails(error), False
    return Chunk.joined(gathered), chunks, more


def _fails(error: RowsError) -> Iterator[Chunk]:
    """The end of a source in which the rows before the error are used first."""
    raise error
    yield


def _refuse_other_columns(pipeline: Pipeline, reader: Reader) -> None:
    """Refuse a source without the columns of the run that it continues."""
    needed = pipeline.schema.needed
    missing = [name for name in needed if name not in reader.names]
    if missing and (not reader.sparse or len(missing) == len(needed)):
        raise RowsError(
            f"the columns have changed: {listed([repr(name) for name in missing])} "
            f"{'is' if len(missing) == 1 else 'are'} missing; the run needs {listed(needed)}; the source has "
            f"{listed(reader.names)}"
        )

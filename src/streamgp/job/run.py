"""``sg.run``: what ``streamgp run`` does, in one call: a data frame or a file in, calibrated predictions out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import frames
from streamgp.contract.frames import Origin
from streamgp.contract.shown import draw, drawn_on, facts
from streamgp.job.job import BadRowError, Block, Job, Observer
from streamgp.job.pipeline import Pipeline
from streamgp.job.summary import Summary
from streamgp.tables.formats import Chunk, FrameReader
from streamgp.tables.source import RowsError
from streamgp.tables.writing import PredictedRows

MOST_NOTES = 12  # that a notebook shows


class Predicted:
    """Predictions of the rows of a table.

    Args:
        rows: as the run made them.
        pipeline: that made them.
        lines: the number of each row in its source, from 1; None: they have not come yet.
        source: the data frame, if it was one.
    """

    def __init__(self, rows: PredictedRows, pipeline: Pipeline, lines: np.ndarray | None, source: Any) -> None:
        self.rows, self.pipeline = rows, pipeline
        self._lines, self._source = lines, source if frames.is_frame(source) else None

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return the predictions as a data frame, of the kind that came in, one line for each row that was used.

        Its columns are the time, where there is one, ``mean``, ``lower`` and ``upper``, the interval, ``std``,
        ``observed``, and ``p_value`` and ``alarm`` where rows are judged. The index of pandas is kept.

        Args:
            backend: the package of another kind of frame: "pandas", "polars", "pyarrow"...
        """
        columns, name = self._columns(), self.pipeline.schema.time
        if self._lines is None or self._source is None:
            columns = {"row": self.rows.row, **columns}
        origin = self._origin()
        if origin is not None and origin.time is not None:
            columns = {name: origin.time, **columns}
        elif self.rows.time is not None and (origin is None or origin.index is None):  # which may be the time
            columns = {name: self.rows.time, **columns}
        return frames.made(columns, origin, backend)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the mean, the interval and the targets over the times of the rows; return the axes. Needs matplotlib.

        Args:
            ax: the axes to draw on; None: new ones.
        """
        own = drawn_on(ax, 1)[0]
        when, label = self._when()
        draw(own, when, self._columns(), self.pipeline.level)
        own.set(xlabel=label, ylabel=self.pipeline.schema.target)
        return own

    def __len__(self) -> int:
        return len(self.rows.row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} rows of {self.pipeline.schema.target!r})"

    def _columns(self) -> dict[str, Any]:
        rows = self.rows
        found: dict[str, Any] = {name: getattr(rows, name) for name in ("mean", "lower", "upper", "std", "observed")}
        if rows.alarm is not None:
            found |= {"p_value": rows.p_value, "alarm": rows.alarm}
        return found | ({} if rows.ticket is None else {"ticket": rows.ticket})

    def _origin(self) -> Origin | None:
        """The frame that the rows came from; None: a file, or rows that have not come."""
        if self._source is None:
            return None
        origin = frames.origin_of(self._source, self.pipeline.schema.time)
        return origin._replace(index=None, time=None) if self._lines is None else origin.part(self._lines - 1)

    def _when(self) -> tuple[Any, str]:
        """What the rows are drawn over, and what it is called."""
        if self.rows.time is not None:
            schema = self.pipeline.schema
            moments = schema.reader.moments(self.rows.time)
            if np.isfinite(moments).all():
                return (1e6 * moments).round().astype("datetime64[us]") if schema.is_dated else moments, schema.time
        return self.rows.row, "row"


class Run(Predicted):
    """What ``sg.run`` did: its predictions, each made before its target was learned, and the model as it is now.

    Args:
        rows: the predictions.
        summary: of the run.
        lines: the number of each row in its source.
        source: the table.
    """

    def __init__(self, rows: PredictedRows, summary: Summary, lines: np.ndarray | None, source: Any) -> None:
        super().__init__(rows, summary.pipeline, lines, source)
        self.summary = summary

    @property
    def scores(self) -> dict[str, Any]:
        """The scores of all rows so far by name: ``rmse``, ``mae``, ``coverage``..., and those of simple predictors."""
        return self.pipeline.scores.summary()

    @property
    def notes(self) -> list[str]:
        """What was recognized, decided and noticed."""
        return self.summary.notes

    def predict_many(self, source: Any) -> Predicted:
        """Predict further rows, each as the next one; nothing is learned, and the run does not change.

        Args:
            source: a data frame with the columns of the first one; the target may be missing.
        """
        if not frames.is_frame(source):
            raise TypeError(f"predict_many takes a data frame; got {type(source).__name__}. Use track for files")
        reader = FrameReader(source)
        chunk = Chunk.joined([Chunk({name: [] for name in reader.names}), *reader.chunks()])
        missing = [name for name in self.pipeline.schema.needed if name not in chunk.columns]
        if missing := [name for name in missing if name != self.pipeline.schema.target]:
            raise RowsError(
                f"the column {missing[0]!r} is missing; the run needs {', '.join(self.pipeline.schema.needed)}"
            )
        encoded = copy.deepcopy(self.pipeline.encoder).encode(chunk)
        if encoded.bad:
            raise BadRowError(f"row {encoded.bad[0].line} {encoded.bad[0].reason}; nothing was predicted")
        rows = self.pipeline.issued(self.pipeline.issue(encoded))
        numbers = np.arange(self.pipeline.rows + 1, self.pipeline.rows + len(chunk) + 1)
        rows = rows._replace(row=numbers, time=encoded.times, observed=encoded.y)
        return Predicted(rows, self.pipeline, np.array(encoded.lines), source)

    def track(self, source: Any, **options: Any) -> Run:
        """Predict and learn further rows, which come after those of the run.

        Args:
            source: a data frame or a file with the columns of the first one; all its rows are new.
            options: of ``sg.run``, such as ``out`` and ``save``.
        """
        return run(source, load=self.pipeline, new_source=True, **options)

    def upcoming(self) -> Predicted:
        """Return the predictions of the rows to come, with a ``horizon``."""
        return Predicted(self.pipeline.outstanding(), self.pipeline, None, self._source)

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file, for ``load``, ``streamgp run`` and the server.

        Args:
            path: such as plant.sgp.
        """
        self.pipeline.save(path)

    def __repr__(self) -> str:
        scores = self.scores
        return (
            f"Run({len(self):,} rows of {self.pipeline.schema.target!r}, RMSE {scores['rmse']:.4g}, "
            f"{self.pipeline.level:.0%} intervals cover {scores['coverage']:.1%})"
        )

    def _repr_html_(self) -> str:
        scores, schema = self.scores, self.pipeline.schema
        found = {
            "target": schema.target,
            "rows": f"{self.pipeline.rows:,}",
            "RMSE": f"{scores['rmse']:.4g}",
            "RMSE of the previous value": f"{scores['rmse_previous_value']:.4g}",
            f"coverage of {self.pipeline.level:.0%} intervals": f"{scores['coverage']:.1%}",
        }
        lines = self.notes if len(self.notes) <= MOST_NOTES else [*self.notes[:MOST_NOTES], "..."]
        return facts("Run", found | {f"note {i}": note for i, note in enumerate(lines, start=1)})


class _Collector(Observer):
    """Keeps all predictions of a run, and prints what happens if asked to."""

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self.blocks: list[PredictedRows] = []
        self.lines: list[Sequence[int]] = []
        self._tell = tell

    def note(self, sentence: str) -> None:
        if self._tell is not None:
            self._tell(sentence)

    def block(self, block: Block) -> None:
        self.blocks.append(block.predicted)
        self.lines.append(block.lines)


def run(
    source: Any,
    target: str | None = None,
    *,
    inputs: Sequence[str] | None = None,
    lags: int | None = None,
    horizon: int = 0,
    ticket: str | None = None,
    model: str = "auto",
    out: str | Path | None = None,
    save: str | Path | None = None,
    load: str | Path | Pipeline | None = None,
    new_source: bool = False,
    on_error: str = "stop",
    verbose: bool = False,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> Run:
    """Predict and learn every row of a table, in order: what ``streamgp run`` does, dates and categories included.

    Args:
        source: a data frame (pandas, polars, pyarrow...), or a CSV, NDJSON or Parquet file.
        target: the column to predict; a loaded run has its own.
        inputs: the columns to predict it from; None: all that can be.
        lags: past values of the target that are inputs.
        horizon: rows ahead.
        ticket: the column by which late targets find their rows.
        model: the name of a model, or "auto".
        out: a file for the predictions, .csv, .ndjson or .parquet.
        save: a file for the run, from which ``load`` goes on.
        load: a saved run to continue.
        new_source: if the file is not the one that the loaded run has read, learn it from its first row.
        on_error: "stop" at a row that cannot be used, or "skip" and count it.
        verbose: print what is recognized, decided and noticed.
        observers: told of every block of rows and of what is decided along the way.
        settings: of the model and of the run by name, such as ``level=0.95`` or ``alarms="1/week"``.

    Returns:
        A Run: ``to_frame()``, ``plot()``, ``scores``, ``predict_many(df)``, ``track(df)``, ``save(path)``.

    Example:
        >>> import pandas as pd
        >>> import streamgp as sg
        >>> x = pd.Series(range(200)) % 10
        >>> df = pd.DataFrame({"x": x, "machine": ["old", "new"] * 100, "y": x**2})
        >>> done = sg.run(df, "y", model="KRLST", tune=False)
        >>> done.to_frame().shape, done.predict_many(df.iloc[:3]).to_frame().shape
        ((200, 5), (3, 5))
    """
    collector = _Collector(print if verbose else None)
    job = Job(
        source,
        target,
        inputs,
        lags,
        horizon,
        ticket,
        model,
        settings or None,
        out=out,
        save=save,
        load=load,
        new_source=new_source,
        on_error=on_error,
        observers=[collector, *observers],
    )
    summary = job.run()
    rows = PredictedRows.joined(collector.blocks or [summary.pipeline._nothing()])
    lines = np.array([line for block in collector.lines for line in block], dtype=int)
    return Run(rows, summary, lines if len(lines) == len(rows.row) else None, source)

"""The pipeline: a row encoder, one stream model, its scores and a position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import part
from streamgp.contract.waiting import Tickets
from streamgp.job.ahead import compile_ahead
from streamgp.job.building import checked_lags, stream_model
from streamgp.job.changes import Changes
from streamgp.job.few import FewRow, Unscored, few_rows
from streamgp.job.late import LateRun
from streamgp.job.predicted import in_columns, nothing
from streamgp.job.request import Request
from streamgp.job.scores import RunningScores
from streamgp.job.screening import Screening
from streamgp.job.times import Times, uses_time
from streamgp.job.yardsticks import Measured, yardsticks
from streamgp.settings import FloatArray, copied, whole
from streamgp.tables.columns import Schema
from streamgp.tables.encoding import EncodedRows, RowEncoder
from streamgp.tables.source import Position
from streamgp.tables.writing import PredictedRows

MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
MORE_TIMES = 1000  # rows beyond the warm-up whose times are kept: a change is told that many rows later at most


class Pipeline(LateRun):
    """Predicts the target of every row before it learns it.

    Args:
        schema: what the columns are.
        model: the name of a model, or "auto": the best of a small set on the first rows.
        settings: of the model and of the run (RunSettings) by name, as text or values.
        lags: past values of the target that are inputs; None: 0, or 10 where there is nothing else, or a horizon.
        horizon: rows ahead; 0 predicts the target of a row from its other columns, h the target h rows later from all
            that the row has, its own target included. Nothing is learned before its target has come.

    Example:
        >>> import numpy as np
        >>> from streamgp.tables.columns import Column
        >>> from streamgp.tables.encoding import EncodedRows
        >>> t = np.arange(300)
        >>> schema = Schema((Column("y", "number"),), "y", ())
        >>> pipeline = Pipeline(schema, model="KRLST", settings={"warmup": 100}, lags=2, horizon=1)
        >>> predicted = pipeline.take(EncodedRows(np.empty((300, 0)), np.sin(0.3 * t), None, list(t + 2), []))
        >>> bool(np.abs(predicted.mean - predicted.observed)[-50:].max() < 0.1)
        True
    """

    def __init__(
        self,
        schema: Schema,
        model: str = "auto",
        settings: Mapping[str, Any] | None = None,
        lags: int | None = None,
        horizon: int = 0,
    ) -> None:
        self.schema, self.encoder = schema, RowEncoder(schema)
        self.horizon = whole("horizon", horizon, at_least=0, at_most=MOST_AHEAD)
        kept = {name: copied(value) for name, value in (settings or {}).items()}
        self.request = Request(model, kept, horizon, late=bool(schema.ticket))
        self.level = self.request.run.level
        self.lags = checked_lags(schema, self.request, lags)
        compile_ahead(self.request.model)  # all at once, before the first model asks for its part
        self.rows = 0
        seasons = () if schema.uneven else schema.seasons
        named = yardsticks(len(schema.input_names), self.lags, self.horizon, seasons)
        self._stream = stream_model(schema, self.request, self.lags, list(named.values()))
        self.screening = Screening(len(schema.input_names), self.request.run.screen)
        self._scores = RunningScores(list(named))
        self._changes = Changes(len(schema.input_names), self.request.run.drift and not schema.ticket)
        self.times = Times(schema.reader, self.request.run.warmup + self.horizon + MORE_TIMES)
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self.tickets = Tickets[int](self.request.run.pending) if schema.ticket else None
        self._unscored = Unscored()
        self.scored = nothing(self)  # the rows whose targets came last

    def take(self, rows: EncodedRows, ahead: bool = False) -> PredictedRows:
        """Predict a block of rows and learn it, row by row.

        Args:
            rows: from the encoder, gaps filled; with tickets as they are, because late targets leave no gaps.
            ahead: with a horizon, return predictions when they are made, of rows to come, rather than when the row that
                they are of has come.
        """
        self.settle()
        if self.tickets is not None:
            return self._take_late(rows, self.tickets)
        n, h, start = len(rows.y), self.horizon, 0
        time, blocks = self.times.moments(rows.times, self.stream), [] if n else [nothing(self)]
        shown = self.times.add(rows.times, n)
        while start < n:
            stop = min(n, start + (self.screening.next_look(self.rows) or n))
            X, y, moments = rows.X[start:stop], rows.y[start:stop], part(time, start, stop)
            self.screening.keep(self.rows, X, y, moments)
            blocks.append(self._track(X, y, moments, shown[start:stop]))
            self._strike_out()
            start = stop
        self.scored = PredictedRows.joined(blocks)._replace(time=rows.times)
        self.mark_events()
        if not (h and ahead):
            return self.scored
        made = self.scored.since(min(h, n))._replace(time=None, p_value=None, alarm=None, learned=None)
        coming, unknown = PredictedRows.joined([made, self.outstanding()]), np.full(n, np.nan)
        return coming.since(len(coming.row) - n)._replace(observed=unknown, log_density=unknown, pit=unknown)

    def _track(self, X: FloatArray, y: FloatArray, time: FloatArray | None, shown: FloatArray) -> PredictedRows:
        """Predict rows and learn them; score what was predicted.

        Args:
            X: (n, d) inputs.
            y: (n,) targets.
            time: (n,) times, if models forget by time.
            shown: (n,) times for people.
        """
        p, numbers = self._stream.track(X, y[:, None], time=time), np.arange(self.rows + 1, self.rows + len(y) + 1)
        learned = self._measured.taken[:, 0]
        y = self.screening.take(y, learned, self.rows + 1)
        predicted = in_columns(self, p, numbers, y, self._judged)._replace(learned=learned)
        self.rows += len(y)
        self._scores.add(predicted)
        self._changes.add(X, y, predicted.mean, numbers, shown)
        return predicted

    def take_few(self, X: FloatArray, y: FloatArray, times: list[str] | None) -> list[FewRow] | None:
        """Predict few rows and learn them, as ``take`` does; what nobody waits for is done when more rows have come.

        Whoever calls it throws the run away if it raises. None: the rows need ``take``, and nothing has changed.

        Args:
            X: (n, d) inputs without gaps.
            y: (n,) targets, NaN where missing.
            times: what the time column says; None where there is none.
        """
        stream = self._stream
        if not isinstance(stream, Measured) or not stream._may_wait or self._alarms is not None:
            return None
        if self.screening.next_look(self.rows) or (times is not None and uses_time(stream)):
            return None
        passing.refuse_unfit(stream, X, y[:, None])
        Y = stream._screened(y[:, None])
        y = self.screening.take(y, Y[:, 0], self.rows + 1)
        told = stream._take_few(X, Y)
        found = few_rows(self.rows + 1, y, told)
        self.rows += len(found)
        self._unscored.add(X, y, Y, self.times.add(times, len(found)), told)
        if len(self._unscored) >= self._changes.rows_until_look:
            self.settle()
        return found

    def settle(self) -> None:
        if not len(self._unscored):
            return
        X, y, Y, shown, told = self._unscored.taken()
        numbers, stream = np.arange(self.rows - len(y) + 1, self.rows + 1), self._measured
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.scored = in_columns(self, stream._beside(told, X, Y), numbers, y)._replace(learned=Y[:, 0])
            self._scores.add(self.scored)
            self._changes.add(X, y, self.scored.mean, numbers, shown)
            self.mark_events()

    def _strike_out(self) -> None:
        """Learn and score the first rows again if fill values are among them that could not be told when they came."""
        found = self.screening.look_back(self.rows)
        if found is None:
            return
        X, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.screening = self.screening
        again.report_to(self._staged.doing)
        shown = np.array([self.times.moment(row) for row in range(1, len(y) + 1)])
        again._track(X, y, time if uses_time(self.stream) else None, shown)
        self._stream, self._scores, self._changes = again.stream, again.scores, again.changes

    def outstanding(self) -> PredictedRows:
        """The predictions of rows that have not come yet."""
        numbers = np.arange(self.rows + 1, self.rows + self.horizon + 1)
        return in_columns(self, self._measured.upcoming(), numbers, np.full(self.horizon, np.nan))

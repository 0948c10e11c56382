"""Rows of a run whose targets come late: under the tickets of a column, or kept by whoever asks."""

from __future__ import annotations

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import part
from streamgp.contract.prediction import packed, unpacked
from streamgp.contract.waiting import Tickets
from streamgp.job.predicted import in_columns
from streamgp.job.saving import SavedRun
from streamgp.settings import FloatArray
from streamgp.tables.encoding import EncodedRows
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.delayed import Delayed
from streamgp.wrappers.issuing import issued_width, learn_issued, unresolved
from streamgp.wrappers.wrapper import joined


class LateRun(SavedRun):
    """A run, as far as it predicts rows whose targets come later and learns these."""

    # Under the tickets of a column.

    def _take_late(self, rows: EncodedRows, late: Tickets[int]) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        new: list[int] = []  # rows of the block that are predicted
        judged = [np.empty((2, 0))]  # of these
        issued, scored = [self.stream._empty()], [self.stream._empty()]
        targets, learned = [np.empty(0)], [np.empty(0)]
        moments, observed = self.times.moments(rows.times, self.stream), rows.y.copy()
        for i, (name, alone) in enumerate(rows.tickets or []):
            y, time, comes, found = rows.y[i : i + 1], part(moments, i, i + 1), not np.isnan(rows.y[i]), None
            known = name in late or (alone and comes)
            number = late.resolve(name) if known and comes else None
            if known and number is None:
                late.ignored += 1
                continue
            if number is not None:
                p = self._delayed.resolve(number, y, time=time)
            else:
                X = self.encoder.fill(rows.part(i, i + 1)).X
                if comes:
                    late.close(name)
                    p, found = self.stream.track(X, y[:, None], time=time), self._judged
                else:
                    late.issue(name, self.stream.rows_seen)
                    p = self._delayed.issue(X[0], time=None if self.stream._needs_time else time)
            p = p._each(np.atleast_2d)
            if not known:
                new.append(i)
                judged.append(np.full((2, 1), np.nan) if found is None else found)
                issued.append(p)
            if comes:
                learned.append(self._measured.taken[:, 0])
                observed[i : i + 1] = y = self.screening.take(y, learned[-1], self.rows + 1 + i)
                scored.append(p)
                targets.append(y)
                self.times.add(None if rows.times is None else rows.times[i : i + 1], 1)
        first, y = self.scores.rows + 1, np.concatenate(targets)
        self.scored = in_columns(self, joined(scored), np.arange(first, first + len(y)), y)
        self.scored = self.scored._replace(learned=np.concatenate(learned))
        self.scores.add(self.scored)
        self.mark_events()
        row = self.rows + 1 + np.array(new, dtype=int)
        self.rows += len(rows.y)
        times = None if rows.times is None else [rows.times[i] for i in new]
        names = [rows.tickets[i].name for i in new] if rows.tickets else []
        return in_columns(self, joined(issued), row, observed[new], np.hstack(judged), times, names)

    @property
    def _delayed(self) -> Delayed:
        """The stream model of a run with tickets."""
        if not isinstance(self.stream, Delayed):
            raise TypeError(f"a run with a ticket column waits for targets; its model is {self.stream!r}")
        return self.stream

    # Kept by whoever asks.

    def issue(self, rows: EncodedRows) -> FloatArray:
        """Predict rows whose targets come later, each as the next one; the run does not change.

        Args:
            rows: from the encoder, gaps not filled; their targets are not looked at.

        Returns:
            One line for each row: what it takes to learn it, and what was predicted. ``issued`` reads it, and
            ``resolve`` takes it with the target.
        """
        if self.horizon:
            raise ValueError(
                f"the run predicts {self.horizon} rows ahead and learns a row by later ones: take rows, with tickets "
                "where targets come late"
            )
        own = np.nan_to_num(np.where(np.isnan(rows.X), self.encoder.last, rows.X))
        times = self.times.issued(rows.times, self.stream)
        conditions = None if times is None else passing.conditions_at(self.stream, times, len(own), many=True)
        p, lines = unresolved(self.stream, own, conditions)
        return np.hstack([lines, packed(p, 1)])

    def issued(self, lines: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            lines: from ``issue``.
        """
        return self._issued(lines, np.zeros(len(lines), dtype=int), np.full(len(lines), np.nan))

    def _issued(self, lines: FloatArray, numbers: np.ndarray, y: FloatArray) -> PredictedRows:
        p = unpacked(lines[:, issued_width(self.stream) :], self.stream._empty(), 1)
        return in_columns(self, p, numbers, y)

    def resolve(self, lines: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
        """Learn late targets in the order in which they come; each counts as a row.

        Args:
            lines: of ``issue``.
            y: (n,) their targets.
            times: when they came, if models forget by time; None: when the last row came.
        """
        time, stream = self.times.moments([""] * len(y) if times is None else times, self.stream), self.stream
        numbers = np.arange(self.rows + 1, self.rows + len(y) + 1)
        learned = np.empty(len(y))
        for t, line in enumerate(lines):
            Y = y[t : t + 1, None]
            conditions = passing.conditions_of(stream, 1, Y, time=part(time, t, t + 1), many=True)
            with passing.whole(stream, quick=True):
                Y = stream._screened(Y)
                learn_issued(stream, line, Y, conditions, last=False, unchanged=False)
            learned[t] = Y[0, 0]
        y = self.screening.take(y, learned, self.rows + 1)
        self.rows += len(y)
        self.times.add(times, len(y))
        self.scored = self._issued(lines, numbers, y)._replace(learned=learned)
        self.scores.add(self.scored)
        self.mark_events()
        return self.scored

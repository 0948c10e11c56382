"""Late: a stream model whose rows wait for their targets; Delayed and Ahead say when these come."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Layout, Numbers
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.lanes import ADVANCE, ISSUE, ONE, PREDICT
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import bare
from streamgp.settings import FloatArray
from streamgp.wrappers.wrapper import Wrapper

# Rows so far, which is the next ticket; rows that expired; the last row's ticket if it waits, or -1; rows learned later
# than their own time.
COUNTERS = np.dtype([(name, np.int64) for name in ("rows", "expired", "newest", "late")])

LAYOUT = Layout(np.dtype([]), COUNTERS, {"last_x": "inputs", "last_y": "outputs", "learned": "times"}, {})

APART = np.array([[0, PREDICT], [0, ADVANCE]])  # a row is predicted at another time than its own


class Late(Wrapper):
    """A stream model whose rows wait for their targets.

    A row that waits is a line: its number, its inputs, what the model within keeps of it, what was predicted of it, and
    its time.
    """

    _numbers: Numbers
    _said: int  # columns of a prediction that are kept
    _line_width: int

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        self._within._prepare(shape._replace(ahead=self._shape_within(1, 1).ahead))

    def _start(self, d: int, p: int) -> None:
        before = None if self._d is None else self._numbers
        super()._start(d, p)
        self._numbers = Numbers(LAYOUT, {"inputs": d, "outputs": p, "times": 1}, {})
        self._numbers.counters["newest"], self._numbers.state.learned[:] = -1, np.nan
        self._said = bare(self._within._columns)
        self._line_width = 2 + d + self._within._kept_width + self._said * p
        if before is not None:  # rows wait, but no target has come
            self._numbers.counters[:] = before.counters
            self._numbers.state.last_x[:] = before.state.last_x

    # Lines.

    def _parts(self, lines: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Views of lines, (n, width): inputs, what is kept, what was predicted, (columns, n, p), and times."""
        d, p = self._numbers.state.last_x.size, self._numbers.state.last_y.size
        end = lines.shape[1] - 1 - self._said * p
        predicted = lines[:, end:-1].reshape(len(lines), self._said, p).transpose(1, 0, 2)
        return lines[:, 1 : 1 + d], lines[:, 1 + d : end], predicted, lines[:, -1]

    def _issue(
        self, X: FloatArray, number: int, at: float, ahead: float, model: StreamModel
    ) -> tuple[FloatArray, FloatArray]:
        """Let one row, (1, d), advance a model like the one within; its line, (width,), and its prediction.

        Args:
            X: the row.
            number: of the row.
            at: its time, where the model sees times; else NaN.
            ahead: how much later its target comes.
            model: the model.
        """
        line, conditions = np.full((1, self._line_width), np.nan), None
        x, kept, said, time = self._parts(line)
        if not np.isnan(at):
            conditions = np.full((2 if ahead else 1, NOISE + 1), np.nan)
            conditions[:, TIME] = (at + ahead, at)[-len(conditions) :]
        columns = model._pass(APART if ahead else ONE[ISSUE], X, None, conditions, kept)
        line[0, 0], x[:], said[:], time[:] = number, X, columns[: self._said], at
        return line[0], columns

    def _widened(self, lines: FloatArray, d: int, p: int) -> list[FloatArray]:
        """Lines of rows that were issued in order before it was known how many outputs there are."""
        head = 1 + d + self._within._kept_width
        if lines.shape[1] == head + self._said + 1:  # what is kept is alike: what one output says stands for all
            said = np.repeat(lines[:, head:-1], p, axis=1)
            return list(np.hstack([lines[:, :head], said, lines[:, -1:]]))
        model = self._pristine.clone()
        model._prepare(self._shape_within(d, p))
        rows = ((line[None, 1 : 1 + d].copy(), int(line[0]), float(line[-1])) for line in lines)
        return [self._issue(x, number, time, self._later(time), model)[0] for x, number, time in rows]

    def _later(self, time: float) -> float:
        """How much later than a row at a time its target comes, with a kernel over time."""
        return 0.0

    def _note_last(self, Y: FloatArray) -> None:
        """Of each output, the last of these targets that is known is the last one."""
        for j, column in enumerate(Y.T):
            known = column[~np.isnan(column)]
            if known.size:
                self._numbers.state.last_y[j] = known[-1]

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._numbers.state.last_x, self._numbers.state.last_y

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows")

"""CalibratedForecasts: forecasts whose intervals cover as often as they say, at every step."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamgp.contract import inputs
from streamgp.contract.conditions import TIME
from streamgp.contract.lanes import ADVANCE, LEARN, ONE
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.snapshot import require
from streamgp.contract.within import check_numbers
from streamgp.recipes.naive import RunningMean
from streamgp.settings import FloatArray, Maybe, Setting, whole
from streamgp.wrappers import conformal
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.mapped import Mapped

# Of each step of a forecast that waits for its targets: mean, variance and noise of the model, and both bounds.
ISSUED = 5
# Times that differ by less than this part of them are the same.
SAME = 1e-13


class CalibratedForecasts(Mapped):
    """A stream model whose forecasts have intervals that cover as often as they say, at every step.

    Rows are predicted and learned as the model within does. ``issue_forecast`` forecasts the next rows and remembers
    what it predicted; each step is compared with its target when that is learned, by trackers as those of
    ``Calibrated``, one set for each step. With a kernel over time rows are found by their times. ``forecast`` uses what
    the trackers have learned and changes nothing; steps beyond ``steps`` have the intervals of the last one. Targets
    that come late are learned, but judge no forecast.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> y = np.sin(0.3 * np.arange(600)) + 0.1 * np.random.default_rng(0).standard_normal(600)
        >>> model = sg.CalibratedForecasts(sg.Lagged(sg.SOGP(capacity=20), lags=4), steps=10)
        >>> for start in range(0, 600, 5):
        ...     model.learn_many(np.empty((5, 0)), y[start : start + 5])
        ...     p = model.issue_forecast(10, trajectories=20)
        >>> low, high = model.forecast(10).interval()
        >>> low.shape, bool(model.judged.sum() > 1000)
        ((10,), True)
    """

    # Forecasts that wait, each in the place of its origin modulo steps: the row after which it was issued, or -1, and
    # for which rows it is: their numbers, or with a kernel over time their times.
    _origins: np.ndarray
    _due: FloatArray  # (steps, steps)
    _waiting: FloatArray  # (steps, steps, ISSUED, p)
    _judged: FloatArray  # (2, steps) targets that were compared, and those inside

    def __init__(
        self,
        model: Annotated[StreamModel, Setting("the stream model within, which has learned nothing")],
        *,
        steps: Annotated[int, Setting("steps ahead that have trackers of their own", "rows", whole)] = 50,
        level: Annotated[float, Setting("share of the targets that intervals are to hold, above 0 and below 1")] = 0.9,
    ) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("learns the errors of numbers")
        self._steps, self._level = whole("steps", steps), level
        # The trackers are those of a calibrated model with one output for each step and output; what is within is
        # never asked.
        self._trackers = Calibrated(RunningMean(), level=level)

    # The state.

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._trackers = self._trackers.clone()
        self._trackers._prepare(Shape(1, self._steps * p, scalar=False, certain=True))
        self._origins = np.full(self._steps, -1, dtype=np.int64)
        self._due = np.full((self._steps, self._steps), -np.inf)
        self._waiting = np.zeros((self._steps, self._steps, ISSUED, p))
        self._judged = np.zeros((2, self._steps))

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {"origins": self._origins, "due": self._due, "waiting": self._waiting, "judged": self._judged}
        return own | {f"trackers.{name}": array for name, array in self._trackers._arrays().items()}

    def _check_restored(self) -> None:
        require("origins", self._origins, at_least=-1, at_most=self.rows_seen)
        require("due", np.where(np.isinf(self._due), 0.0, self._due))
        require("judged", self._judged, at_least=0)
        check_numbers(self._trackers)

    def reset_memory(self) -> None:
        if self._d is not None:  # what was forecast does not come
            self._origins[:], self._due[:] = -1, -np.inf
        super().reset_memory()

    # Rows.

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return gradient

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        advances = ops[:, 1] & ADVANCE != 0
        taken = ops[advances]
        names = self._names_of_rows(len(taken), None if conditions is None else conditions[advances])
        columns = super()._pass(ops, X, Y, conditions, kept)
        for name, (row, kind) in zip(names, taken.tolist(), strict=True):
            if Y is None or self._due.max() < name - SAME * abs(name):
                break  # no forecast reaches this row
            if kind & LEARN:
                self._judge(name, Y[row])
        return columns

    def _names_of_rows(self, n: int, conditions: Maybe) -> FloatArray:
        """By what forecasts know the rows that come next: their numbers, or with a kernel over time their times."""
        if (moment := self._within._moment) is None:
            return np.asarray(self.rows_seen + np.arange(float(n)))
        times = np.full(n, np.nan) if conditions is None else conditions[:, TIME].copy()
        for t in np.flatnonzero(np.isnan(times)):
            times[t] = (moment if t == 0 else moment._replace(seen=times[t - 1])).one_later
        return times

    def _judge(self, row: float, y: FloatArray) -> None:
        """Compare the target of a row, (p,), with the last forecasts of it, at each step one."""
        of_row = np.abs(self._due - row) <= SAME * abs(row)
        place = np.argmax(np.where(of_row, self._origins[:, None], -1), axis=0)
        step = np.arange(self._steps)
        mean, variance, noise, lower, upper = self._waiting[place, step].transpose(1, 0, 2)  # (steps, p) each
        compared = of_row[place, step][:, None] & (upper > lower) & ~np.isnan(y)
        self._judged[0] += compared.sum(axis=1)
        self._judged[1] += (compared & (lower <= y) & (y <= upper)).sum(axis=1)
        line = np.stack([mean, variance, noise, mean - lower, upper - mean], axis=-1).reshape(1, -1)
        targets = np.where(compared, y, np.nan).reshape(1, -1)
        self._trackers._calibrate(ONE[LEARN], targets, line, np.empty((conformal.MOMENTS, 1, targets.size)))

    # Forecasts.

    def forecast(
        self,
        steps: Any,
        X: Any = None,
        feedback: Any = (),
        trajectories: int = 100,
        seed: int = 0,
    ) -> Prediction:
        raw = self._raw_forecast(steps, X, feedback, trajectories, seed)
        return self._calibrated(raw)._shaped(scalar=self._shape.scalar, many=True)

    forecast.__doc__ = StreamModel.forecast.__doc__

    def issue_forecast(
        self, steps: Any, X: Any = None, feedback: Any = (), trajectories: int = 100, seed: int = 0
    ) -> Prediction:
        """Predict as ``forecast`` does, and learn from the targets of these rows how wide intervals have to be.

        A second one after the same row takes the place of the first. The arguments are those of ``forecast``.
        """
        raw = self._raw_forecast(steps, X, feedback, trajectories, seed)
        prediction = self._calibrated(raw)
        row, due, n = self.rows_seen, self._rows_ahead(steps), min(len(raw.mean), self._steps)
        place = row % self._steps
        self._origins[place], self._due[place, n:], self._waiting[place, n:] = row, -np.inf, 0.0
        self._due[place, :n] = due[:n]
        issued = np.stack([raw.mean, raw.variance, raw.noise, prediction.lower, prediction.upper], axis=1)[:n]
        self._waiting[place, :n] = np.nan_to_num(issued, posinf=np.inf, neginf=-np.inf)
        return prediction._shaped(scalar=self._shape.scalar, many=True)

    def _rows_ahead(self, steps: Any) -> FloatArray:
        """By what the rows of a forecast are known when they come."""
        moment = self._within._moment
        if not isinstance(steps, int | np.integer):
            return inputs.times(steps, len(steps), many=True)
        return np.asarray(self.rows_seen + np.arange(float(steps)) if moment is None else moment.next(steps))

    def _raw_forecast(self, steps: Any, X: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
        """What the model within forecasts, (n, p) each."""
        if self._d is None or not self._shape.certain:
            raise ValueError("forecast goes on from the last row and target: learn some rows first")
        raw = self._within.forecast(steps, X, feedback, trajectories, seed)
        shape = len(raw.mean), self._p or 1
        parts = raw.mean, raw.variance, raw.noise
        return Prediction(*(np.array(np.broadcast_to(np.reshape(part, (shape[0], -1)), shape)) for part in parts))

    def _calibrated(self, raw: Prediction) -> CalibratedPrediction:
        """A forecast with the intervals of its steps."""
        n, p = raw.mean.shape
        step = np.minimum(np.arange(n), self._steps - 1)
        line = np.maximum(np.arange(n) - self._steps + 1, 0)  # the steps beyond come one by one
        lines = np.zeros((3, line[-1] + 1, self._steps, p))
        lines[:, line, step] = raw.mean, raw.variance, raw.noise
        by_line = self._trackers._calibrated(*lines.reshape(3, len(lines[0]), -1))
        by_step = by_line._each(lambda part: np.reshape(part, (-1, self._steps, p))[line, step])
        return by_step._with(raw=raw)

    # What can be read.

    @property
    def judged(self) -> FloatArray:
        """How many targets issued forecasts have been compared with, (steps,)."""
        return np.zeros(self._steps) if self._d is None else self._judged[0].copy()

    @property
    def forecast_coverage(self) -> FloatArray:
        """The share of them that lay inside the intervals, (steps,); NaN before the first."""
        judged = self.judged
        inside = self._judged[1] if self._d is not None else judged
        return np.asarray(np.divide(inside, judged, out=np.full(self._steps, np.nan), where=judged > 0))

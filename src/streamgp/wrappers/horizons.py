"""CalibratedForecasts: forecasts whose intervals cover as often as they say, at every step."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np

from streamgp.contract.freerun import Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.snapshot import require
from streamgp.recipes.naive import RunningMean
from streamgp.settings import FloatArray, Setting, whole
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.wrapper import Wrapper

# Of each step of a forecast that waits for its targets: mean, variance and noise of the model, and both bounds.
ISSUED = 5


class CalibratedForecasts(Wrapper):
    """A stream model whose forecasts have intervals that cover as often as they say, at every step.

    Rows are predicted and learned as the model within does. ``issue_forecast`` forecasts the next rows and remembers
    what it predicted; each step is compared with its target when that is learned, by trackers as those of
    ``Calibrated``, one set for each step. ``forecast`` uses what they have learned and changes nothing.

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

    _taken: np.ndarray  # (1,) rows so far
    # Forecasts that wait, each in the place of its origin modulo steps: the row after which it was issued, or -1.
    _origins: np.ndarray
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
        taken = 0 if self._d is None else int(self._taken[0])  # rows may have come, but no target
        super()._start(d, p)
        self._trackers = self._trackers.clone()
        self._trackers._prepare(Shape(1, self._steps * p, scalar=False, certain=True))
        self._taken = np.array([taken], dtype=np.int64)
        self._origins = np.full(self._steps, -1, dtype=np.int64)
        self._waiting = np.zeros((self._steps, self._steps, ISSUED, p))
        self._judged = np.zeros((2, self._steps))

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {"taken": self._taken, "origins": self._origins, "waiting": self._waiting, "judged": self._judged}
        return own | {f"trackers.{name}": array for name, array in self._trackers._arrays().items()}

    def _check_restored(self) -> None:
        require("taken", self._taken, at_least=0)
        require("origins", self._origins, at_least=-1, at_most=int(self._taken[0]))
        require("judged", self._judged, at_least=0)
        self._trackers._check_numbers({name: array[None] for name, array in self._trackers._arrays().items()})
        super()._check_restored()

    def reset_memory(self) -> None:
        if self._d is not None:  # what was forecast does not come
            self._origins[:] = -1
        super().reset_memory()

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        prediction = self._within._advance(X, Y, report, conditions)
        if Y is not None:
            for t in range(len(X)):
                if self._taken[0] + t - self._origins.max() >= self._steps:
                    break  # no forecast reaches this row
                self._judge(int(self._taken[0]) + t, Y[t])
        self._taken[0] += len(X)
        return prediction

    def _judge(self, row: int, y: FloatArray) -> None:
        """Compare the target of a row, (p,), with all forecasts of it: at step k the one issued k rows before."""
        step = np.arange(self._steps)
        place = (row - step) % self._steps
        known = (self._origins[place] == row - step) & (row >= step)
        issued = self._waiting[place, step]  # (steps, ISSUED, p)
        mean, variance, noise, lower, upper = issued.transpose(1, 0, 2)
        compared = known[:, None] & (upper > lower) & ~np.isnan(y)
        self._judged[0] += compared.sum(axis=1)
        self._judged[1] += (compared & (lower <= y) & (y <= upper)).sum(axis=1)
        parts = mean, variance, noise, lower, upper, np.where(compared, y, np.nan)
        self._trackers._compare(*(np.ascontiguousarray(part.reshape(1, -1)) for part in parts))

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._predict(X, conditions)

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._derived(X, conditions)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._within._uncertain(X, P, conditions)

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return self._within._trajectories(count, steps)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._within._joint(X, conditions)

    # Late targets are those of the model within: forecasts are not judged by them.

    def _issued_width(self, p: int) -> int:
        return self._within._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._within._issue(X, conditions)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        self._within._resolve(X, Y, issued, conditions)

    # Forecasts.

    def forecast(
        self,
        steps: Any,
        X: Any = None,
        feedback: Any = (),
        trajectories: int = 100,
        seed: int = 0,
        *,
        inputs: Any = None,
    ) -> Prediction:
        """Predict the next rows after the last one learned, with calibrated intervals; the model does not change.

        The arguments are those of ``StreamModel.forecast``. Steps beyond ``steps`` have the intervals of the last one.

        Returns:
            One CalibratedPrediction of arrays, (steps,) or (steps, p).
        """
        raw = self._raw_forecast(steps, X if inputs is None else inputs, feedback, trajectories, seed)
        return self._shaped(self._calibrated(raw), many=True)

    def issue_forecast(
        self, steps: Any, X: Any = None, feedback: Any = (), trajectories: int = 100, seed: int = 0
    ) -> Prediction:
        """Predict as ``forecast`` does, and learn from the targets of these rows how wide intervals have to be.

        A second one after the same row takes the place of the first. The arguments are those of ``forecast``.
        """
        raw = self._raw_forecast(steps, X, feedback, trajectories, seed)
        prediction = self._calibrated(raw)
        row, n = int(self._taken[0]), min(len(raw.mean), self._steps)
        place = row % self._steps
        waiting = np.full_like(self._waiting[place], np.nan)
        parts = raw.mean, raw.variance, raw.noise, prediction.lower, prediction.upper
        for k, part in enumerate(parts):
            waiting[:n, k] = part[:n]
        self._waiting[place], self._origins[place] = np.nan_to_num(waiting, posinf=np.inf, neginf=-np.inf), row
        return self._shaped(prediction, many=True)

    def _raw_forecast(self, steps: Any, X: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
        """What the model within forecasts, (n, p) each."""
        if self._d is None or not self._shape.certain:
            raise ValueError("forecast goes on from the last row and target: learn some rows first")
        if self._within._moment() is not None and not np.size(feedback) and not self._feeds_itself:
            raw = self._within.forecast(steps, X)  # in closed form
        else:
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
        by_line = self._trackers._calibrate(Prediction(*lines.reshape(3, len(lines[0]), -1)), None)
        by_step = by_line._each(lambda part: np.reshape(part, (-1, self._steps, p))[line, step])
        return dataclasses.replace(by_step, raw=raw)

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

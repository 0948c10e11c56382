"""TimeGP: an exact Gaussian process over time, one row at a time."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract import inputs
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import TIME, Moment, refuse_past
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.kernels import Kernel
from streamgp.kernels.temporal import COORDINATES, TimeKernel, components, hyperparameters
from streamgp.process import temporal
from streamgp.process.likelihood import DEFAULT_NOISE
from streamgp.process.predictive import TimePrediction
from streamgp.settings import FloatArray, Setting, positive_vector
from streamgp.vocabulary import LEAST_NOISE, Noise

ObservationNoise = Annotated[Noise, Setting("variance of the observation noise")]


class TimeGP(StreamModel):
    """A Gaussian process over time, y = g1(t) + g2(t) + ... + noise: exact, for any spacing of the rows.

    There are no inputs: x is ``()``. A row without a time comes one after the last. The posterior is that of a batch
    Gaussian process over the times of all rows, at a cost that does not grow: O(q^2) a row for q coordinates (Matern of
    order 1/2, 3/2, 5/2: 1, 2, 3; a harmonic of Periodic 2, Trend 2), O(q) once rows that are equally far apart have
    settled the gain. Missing targets cost nothing.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> hours = np.arange(24.0 * 28)
        >>> load = 50 + 10 * np.sin(2 * np.pi * hours / 24) + 0.02 * hours
        >>> model = sg.TimeGP(sg.Trend(1000.0, variance=100.0) + sg.Periodic(24.0, variance=100.0), noise=0.1)
        >>> model.learn_many(np.empty((len(hours), 0)), load, time=hours)
        >>> p = model.forecast([24 * 28 + 6.0, 24 * 28 + 18.0])
        >>> p.mean.round(), list(p.components)
        (array([74., 54.]), ['trend', '24'])
    """

    _without_inputs = True
    _largest = LARGEST
    _numbers: Numbers

    def __init__(self, time: TimeKernel, *, noise: ObservationNoise = DEFAULT_NOISE) -> None:
        if not isinstance(time, Kernel):
            raise TypeError(
                f"time must be a kernel such as Matern(1.5, lengthscale='3h') + Periodic('1d'); got {time!r}"
            )
        self._components = components(time)
        values = positive_vector("noise", noise)
        if values.size != 1 or values[0] < LEAST_NOISE:
            raise ValueError(f"noise must be one variance of at least {LEAST_NOISE:g}; got {noise!r}")
        self._noise = float(values[0])
        compile_now(temporal.run, temporal.predict, temporal.covariances)

    # The state.

    def _start(self, d: int, p: int) -> None:
        _refuse_inputs(d)
        before = None if self._d is None else self._numbers
        table, feature = temporal.tabulated(self._components)
        numbers = _at_prior(table, feature, self._noise, p)
        if before is not None:  # rows have come, but no target
            numbers.counters["rows_seen"] = before.counters["rows_seen"]
            numbers.state.clock[1] = before.state.clock[1]
        self._numbers = numbers

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays()

    def _check_restored(self) -> None:
        state = self._numbers.state
        for name in ("mu", "covariance", "gain"):
            require(name, getattr(state, name))
        require("the diagonal of covariance", np.diag(state.covariance), at_least=-1e-9)
        require("innovation", state.innovation, at_least=0)
        require("clock", state.clock[~np.isnan(state.clock)])
        for name in self._numbers.counted:
            require(name, self._numbers.counters[name], at_least=0)

    def reset_memory(self) -> None:
        """There is no memory but the posterior itself: nothing happens."""

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        given = None if conditions is None or np.isnan(conditions[:, TIME]).all() else conditions[:, TIME]
        times = self._times(given, len(X), follow=True)
        p = self._p or 1
        out = np.empty((p + 1, len(X) if report else 0))
        targets = np.empty((0, p)) if Y is None else Y
        numbers, own = self._numbers, np.empty((0, 3)) if conditions is None else conditions
        temporal.run(numbers.records, numbers.buffer, np.ascontiguousarray(times), targets, own, out)
        return self._prediction(out) if report else None

    def _times(self, given: FloatArray | None, n: int, *, follow: bool) -> FloatArray:
        """The times of rows, checked: at or after the posterior's own; those that follow each other in order."""
        now, seen = self._numbers.state.clock[:2]
        if given is None:
            start = 0.0 if np.isnan(seen) else seen + 1.0
            return start + np.arange(float(n)) if follow else np.full(n, start)
        refuse_past(given, now, many=n > 1, follow=follow)
        return given

    def _conditions(
        self, n: int, Y: FloatArray | None, noise: Any = None, time: Any = None, weight: Any = None, *, many: bool
    ) -> FloatArray | None:
        if time is not None:
            refuse_past(inputs.times(time, n, many=many), np.nan, many=n > 1, follow=False)
        return super()._conditions(n, Y, noise, time, weight, many=many)

    def _refuses_noise(self, p: int) -> str:
        return ""

    def _prediction(self, out: FloatArray) -> Prediction:
        p = self._p or 1
        variance = out[p:].T
        return Prediction(out[:p].T, variance, np.full_like(variance, self._noise))

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        _refuse_inputs(X.shape[1])
        return self._look(self._times(None if conditions is None else conditions[:, TIME], len(X), follow=False))

    def _look(self, times: FloatArray) -> TimePrediction:
        """Predict times, each as if it came next, with the components."""
        n, groups = len(times), range(-1, len(self._components))
        out = np.empty(((self._p or 1) + 1, n * len(groups)))
        numbers, which = self._numbers, np.repeat(np.array(groups, dtype=np.float64), n)
        temporal.predict(numbers.records, numbers.buffer, np.tile(times, len(groups)), which, out)
        whole, *parts = (self._prediction(out[:, k * n : (k + 1) * n].copy()) for k in range(len(groups)))
        named = {
            one.name: Prediction(part.mean, part.variance, np.zeros_like(part.noise))
            for one, part in zip(self._components, parts, strict=True)
        }
        return TimePrediction(whole.mean, whole.variance, whole.noise, named)

    # What users call.

    def predict_one(self, x: Any = (), *, time: Any = None) -> Prediction:
        """Predict the target at a time that is not before the last learned one; the model does not change.

        Args:
            x: ``()``: there are no inputs.
            time: a number, datetime or datetime64; None: one after the last row.
        """
        X = inputs.row(x, self._shape.d)
        given = None if time is None else inputs.times(time, 1, many=False)
        return self._shaped(self._at_times(X, given), many=False)

    def predict_many(self, X: Any = None, *, time: Any = None) -> Prediction[FloatArray]:
        """Predict times, each as if it came next.

        Args:
            X: rows without columns, (n, 0), or None where times are given.
            time: (n,) times; None: one after the last row.
        """
        given = None if time is None else inputs.times(time, len(np.atleast_1d(time)), many=True)
        X = np.empty((0 if given is None else len(given), 0)) if X is None else inputs.rows(X, self._d)
        return self._shaped(self._at_times(X, given), many=True)

    def forecast(self, times: Any, X: Any = None) -> Prediction:  # type: ignore[override]  # times, not a free run
        """Predict times ahead, in closed form: nothing is fed back.

        Args:
            times: (n,) times that are not before the last learned one, or how many rows ahead, as far apart as the last
                two were.
            X: None; there are no inputs.
        """
        return self.predict_many(X, time=self._moment().next(times) if isinstance(times, int) else times)

    def predict_joint(self, X: Any = None, *, time: Any = None) -> JointPrediction:
        """Predict times together, with the covariance of the function between them.

        Args:
            X: rows without columns, or None where times are given.
            time: (n,) times; None: all of them one after the last row.
        """
        given = None if time is None else inputs.times(time, len(np.atleast_1d(time)), many=True)
        n = len(np.empty((1, 0)) if X is None else inputs.rows(X, self._d)) if given is None else len(given)
        if not n:
            raise ValueError("there are no times: there is nothing to predict together")
        model = self._started_for(np.empty((n, 0)))
        return model._joint_at(model._times(given, n, follow=False)).shaped(self._shape.scalar)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._joint_at(self._times(None if conditions is None else conditions[:, TIME], len(X), follow=False))

    def _joint_at(self, times: FloatArray) -> JointPrediction:
        numbers, at = self._numbers, self._look(times)
        covariance = np.empty((len(times), len(times)))
        temporal.covariances(numbers.records, numbers.buffer, np.ascontiguousarray(times), covariance)
        noise = np.broadcast_to(at.noise, at.mean.shape).copy()
        return JointPrediction(at.mean, np.repeat(covariance[None], self._p or 1, axis=0), noise)

    def _at_times(self, X: FloatArray, given: FloatArray | None) -> TimePrediction:
        self._refuse_unfit(X)
        model = self._started_for(X)
        return model._look(model._times(given, len(X) if given is None else len(given), follow=False))

    def _moment(self) -> Moment:
        if self._d is None:
            return Moment(np.nan, 0.0, np.nan)
        learned, seen, spacing = self._numbers.state.clock.tolist()
        return Moment(seen, 0.0 if np.isnan(spacing) else spacing, learned)

    def _note_time(self, time: float) -> None:
        self._numbers.state.clock[1] = time

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        refuse_past(time, np.nan if self._d is None else self._numbers.state.clock[0], many=many, follow=follow)

    def _refuses_free_run(self) -> str:
        return "TimeGP feeds nothing back: use forecast(times)"

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return np.empty(0), self._numbers.state.last_target

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows_seen")

    @property
    def size(self) -> int:
        """How many coordinates the posterior has."""
        return sum(COORDINATES[block.kind] for one in self._components for block in one.blocks)

    @property
    def basis(self) -> FloatArray:
        return np.empty((0, 0))

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return {"noise": self._noise} | hyperparameters(self._settings["time"])


def _at_prior(table: FloatArray, feature: FloatArray, noise: float, p: int) -> Numbers:
    """A posterior that has learned nothing, of blocks and features as compiled code reads them."""
    symbols = {"coordinates": feature.size, "outputs": p, "blocks": len(table)}
    numbers = Numbers(temporal.LAYOUT, symbols, {"noise": noise})
    state, work = numbers.state, numbers.work
    state.covariance[:] = np.eye(feature.size)
    state.clock[:] = np.nan
    state.last_target[:] = np.nan
    work.prepared[:] = np.nan
    work.feature[:], work.table[:] = feature, table
    return numbers


def innovations(
    table: FloatArray, feature: FloatArray, noise: float, times: FloatArray, Y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What the rows before do not tell of each of (n, p) targets, and its variance, (n,)."""
    compile_now(temporal.run)
    p = Y.shape[1]
    numbers, out = _at_prior(table, feature, noise, p), np.empty((p + 1, len(Y)))
    temporal.run(numbers.records, numbers.buffer, times, np.ascontiguousarray(Y), np.empty((0, 3)), out)
    return Y - out[:p].T, out[p] + noise


def _refuse_inputs(d: int) -> None:
    if d:
        raise ValueError(f"TimeGP has no inputs, only times: x is (); got {d} columns")

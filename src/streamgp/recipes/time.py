"""TimeGP: an exact Gaussian process over time, one row at a time."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now, places
from streamgp.contract import inputs, passing, spacing
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import NOISE, TIME, Moment, refuse_past
from streamgp.contract.frames import taken
from streamgp.contract.health import Health
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ALONE
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.kernels import Kernel
from streamgp.kernels.temporal import COORDINATES, TimeKernel, components, hyperparameters
from streamgp.process import temporal
from streamgp.process.likelihood import DEFAULT_NOISE
from streamgp.process.predictive import TimePrediction
from streamgp.process.temporal import LATEST, LEARNED, SEEN
from streamgp.settings import FloatArray, Setting, positive_vector
from streamgp.vocabulary import LEAST_NOISE, Noise

ObservationNoise = Annotated[Noise, Setting("variance of the observation noise")]


class TimeGP(StreamModel):
    """A Gaussian process over time, y = g1(t) + g2(t) + ... + noise: exact, for any spacing of the rows.

    There are no inputs: x is ``()``. A row without a time comes as long after the last as rows usually are apart (the
    median of the last 20 gaps; 1 while there is none). The posterior is that of a batch Gaussian process over the times
    of all rows, at a cost that does not grow: O(q^2) a row for q coordinates (Matern of order 1/2, 3/2, 5/2: 1, 2, 3; a
    harmonic of Periodic 2, Trend 2). Rows that are equally far apart, with none missing, settle the gain in the end and
    then take O(q) each: after thousands of rows where there are seasons. Missing targets cost nothing.

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
    _needs_time = True
    _largest = LARGEST
    _may_overflow = ("clock", "last_target")

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
        compile_now(temporal.run, temporal.predict, temporal.covariances, spacing.note, spacing.usual)

    # The state.

    def _start(self, d: int, p: int) -> None:
        _refuse_inputs(d)
        before = None if self._d is None else self._numbers
        table, feature = temporal.tabulated(self._components)
        numbers = _at_prior(table, feature, self._noise, p)
        if before is not None:  # rows have come, but no target
            numbers.counters["rows_seen"] = before.counters["rows_seen"]
            numbers.state.clock[:], numbers.state.spacing[:] = before.state.clock, before.state.spacing
        self._numbers = numbers

    def _arrays(self) -> dict[str, np.ndarray]:
        named: dict[str, np.ndarray] = self._numbers.arrays()
        return named

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        for name in ("mu", "covariance", "gain"):
            require(name, named[name])
        require("the diagonal of covariance", np.einsum("mii->mi", named["covariance"]), at_least=-1e-9)
        require("innovation", named["innovation"], at_least=0)
        require("clock", named["clock"][~np.isnan(named["clock"])])
        require("spacing", named["spacing"], at_least=0)
        for name in self._numbers.counted:
            require(name, named[f"counters.{name}"], at_least=0)

    def reset_memory(self) -> None:
        """There is no memory but the posterior itself: nothing happens."""

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        numbers, p = self._numbers, self._p or 1
        out = np.empty((p + 1, len(X) if report else 0))
        targets = np.empty((0, p)) if Y is None else Y
        own = np.empty((0, NOISE + 1)) if conditions is None else conditions
        temporal.run(numbers.records, numbers.buffers, *self._lanes, _times(conditions, len(X)), targets, own, out)
        return self._prediction(out) if report else None

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray, many: bool) -> None:
        if time is not None:
            self._refuse_past(time, many=many, follow=True)

    def _refuses_noise(self, p: int) -> str:
        return ""

    def _prediction(self, out: FloatArray) -> Prediction:
        p = self._p or 1
        variance = out[p:].T
        return Prediction(out[:p].T, variance, np.full_like(variance, self._noise))

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        _refuse_inputs(X.shape[1])
        return self._look(_times(conditions, len(X)))

    def _look(self, times: FloatArray) -> TimePrediction:
        """Predict times, each as if it came next, with the components."""
        numbers, rows = self._numbers, (self._p or 1) + 1
        out = np.empty((rows * (1 + len(self._components)), len(times)))
        temporal.predict(numbers.records, numbers.buffers, *self._lanes, times, out)
        whole, *parts = (self._prediction(one) for one in np.split(out, 1 + len(self._components)))
        named = {
            one.name: Prediction(part.mean, part.variance, np.zeros_like(part.noise))
            for one, part in zip(self._components, parts, strict=True)
        }
        return TimePrediction(whole.mean, whole.variance, whole.noise, named)

    # What users call.

    def predict_one(self, x: Any = (), *, time: Any = None, derivatives: bool = False) -> Prediction:
        """Predict the target at a time that is not before the last learned one; the model does not change.

        Args:
            x: ``()``: there are no inputs.
            time: a number, datetime or datetime64; None: a usual spacing after the last row.
            derivatives: False; there are no inputs.
        """
        X = inputs.row(x, self._shape.d)
        if derivatives:
            return self._derived(X)
        given = None if time is None else inputs.times(time, 1, many=False)
        return passing.shaped(self, self._at_times(X, given), many=False)

    def predict_many(self, X: Any = None, *, time: Any = None, derivatives: bool = False) -> Prediction[FloatArray]:
        """Predict times, each as if it came next.

        Args:
            X: rows without columns, (n, 0), or None where times are given.
            time: (n,) times; None: a usual spacing after the last row.
            derivatives: False; there are no inputs.
        """
        if derivatives:
            return self._derived(np.empty((0, 0)))
        X, _, time, _, origin = taken(X, None, time, None, None, self._names)
        given = None if time is None else inputs.times(time, len(np.atleast_1d(time)), many=True)
        X = np.empty((0 if given is None else len(given), 0)) if X is None else inputs.rows(X, self._d)
        return passing.shaped(self, self._at_times(X, given), many=True)._from(origin)

    def forecast(self, times: Any, X: Any = None) -> Prediction:  # type: ignore[override]  # times, not a free run
        """Predict times ahead, in closed form: nothing is fed back.

        Args:
            times: (n,) times that are not before the last learned one, or how many rows ahead, as far apart as rows
                usually are.
            X: None; there are no inputs.
        """
        return self.predict_many(X, time=self._moment().next(times) if isinstance(times, int | np.integer) else times)

    def predict_joint(self, X: Any = None, *, time: Any = None) -> JointPrediction:
        """Predict times together, with the covariance of the function between them.

        Args:
            X: rows without columns, or None where times are given.
            time: (n,) times; None: all of them a usual spacing after the last row.
        """
        given = None if time is None else inputs.times(time, len(np.atleast_1d(time)), many=True)
        n = len(np.empty((1, 0)) if X is None else inputs.rows(X, self._d)) if given is None else len(given)
        if not n:
            raise ValueError("there are no times: there is nothing to predict together")
        conditions = None if given is None else passing.conditions_at(self, given, n, many=True)
        X = np.empty((n, 0))
        return passing.started_for(self, X)._joint(X, conditions).shaped(self._shape.scalar)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        times = _times(conditions, len(X))
        times = np.where(np.isnan(times), self._moment().one_later, times)
        numbers, at = self._numbers, self._look(times)
        covariance = np.empty((len(times), len(times)))
        temporal.covariances(numbers.records, numbers.buffers, np.ascontiguousarray(times), covariance)
        noise = np.broadcast_to(at.noise, at.mean.shape).copy()
        return JointPrediction(at.mean, np.repeat(covariance[None], self._p or 1, axis=0), noise)

    def _at_times(self, X: FloatArray, given: FloatArray | None) -> Prediction:
        passing.refuse_unfit(self, X)
        n = len(X) if given is None else len(given)
        conditions = None if given is None else passing.conditions_at(self, given, n, many=n > 1)
        return passing.started_for(self, X)._predict(np.empty((n, X.shape[1])), conditions)

    def _moment(self) -> Moment:
        if self._d is None:
            return Moment(np.nan, 0.0, np.nan)
        state = self._numbers.state
        seen, learned = state.clock[[SEEN, LEARNED], 0].tolist()
        return Moment(seen, spacing.usual(state.spacing), learned)

    def _note_time(self, time: float) -> None:
        state = self._numbers.state
        spacing.note(state.spacing, time - state.clock[LATEST, 0])
        state.clock[SEEN], state.clock[LATEST] = time, np.fmax(state.clock[LATEST], time)

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        learned = np.nan if self._d is None else self._numbers.state.clock[LEARNED, 0]
        refuse_past(time, learned, many=many, follow=follow)

    def _refuses_free_run(self) -> str:
        return "TimeGP feeds nothing back: use forecast(times)"

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return np.empty(0), self._numbers.state.last_target

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows_seen")

    @property
    def health(self) -> Health:
        return Health() if self._d is None else Health.of(self._numbers)

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
    numbers = Numbers(temporal.LAYOUT, symbols, {"noise": noise} | places(temporal.look))
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
    none = np.empty((0, NOISE + 1))
    temporal.run(numbers.records, numbers.buffers, *ALONE, times, np.ascontiguousarray(Y), none, out)
    return Y - out[:p].T, out[p] + noise


def _times(conditions: FloatArray | None, n: int) -> FloatArray:
    """The times of rows, NaN where none is given."""
    return np.full(n, np.nan) if conditions is None else np.ascontiguousarray(conditions[:, TIME])


def _refuse_inputs(d: int) -> None:
    if d:
        raise ValueError(f"TimeGP has no inputs, only times: x is (); got {d} columns")

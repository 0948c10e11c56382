"""How the rows of a call pass: from what users hand over to arrays, through the model, and back to a prediction."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamgp.contract import frames, inputs
from streamgp.contract.atomic import undone_on_error, uninterrupted
from streamgp.contract.checks import check
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.prediction import Prediction
from streamgp.contract.provided import Provided
from streamgp.contract.saved import Shape
from streamgp.settings import FloatArray


class Passing(Provided):
    """A stream model, as far as rows pass through it."""

    def _take_many(
        self, X: Any, Y: Any, report: bool, *, target: Any = None, columns: Any = None, time: Any = None, **given: Any
    ) -> Prediction | None:
        """Take rows, with the noise, the time and the weight of each, by which its noise is divided, where given."""
        X, Y, time, names, origin = frames.taken(X, Y, time, target, columns, self._names)
        X = inputs.rows(X, self._shape.d)
        scalar, certain = self._shape.scalar, Y is not None or not report  # track alone goes without targets
        if certain:
            Y, scalar = inputs.targets(Y, len(X), self._shape.outputs, scalar)
        conditions = self._conditions(len(X), Y, time=time, **given, many=True)
        if not len(X):
            return self._empty()._from(origin) if report else None
        given_by = None if names is None and origin is None else (names, origin)
        return self._take(X, Y, scalar, certain, many=True, report=report, conditions=conditions, given_by=given_by)

    def _take(
        self,
        X: FloatArray,
        Y: FloatArray | None,
        scalar: bool,
        certain: bool,
        *,
        many: bool,
        report: bool,
        conditions: FloatArray | None = None,
        given_by: tuple[Any, Any] | None = None,
    ) -> Prediction | None:
        """Advance; the first row, and the first target, tell the shape of all. Predictions are as users see them.

        Args:
            X: (n, d).
            Y: (n, p), or None.
            scalar: whether targets are numbers.
            certain: whether there are targets.
            many: whether the call is one of many rows.
            report: whether predictions are asked for.
            conditions: of the rows.
            given_by: the names of a data frame that the model is to remember, and the frame for its predictions.
        """
        known = self._shape.covers(certain)
        with self._whole(known and len(X) == 1):
            if not known:
                self._begin(X, Y, scalar, certain, many=many)
            prediction = self._learn(X, Y, report, conditions)
            shown = self._shaped(prediction, many=many) if report and prediction is not None else None
            if given_by is not None:
                names, origin = given_by
                shown = None if shown is None else shown._from(origin)
                self._names = self._names if names is None else names
            return shown

    def _learn(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        """Advance by rows as they come from outside."""
        if not self._one_step:
            self._refuse_unfit(X, Y)
            Y = None if Y is None else self._screened(Y)
        return self._advance(X, Y, report, conditions)

    def _whole(self, quick: bool) -> undone_on_error | uninterrupted:
        """A block that is done whole or not at all; quick: it takes one row whose shape is known."""
        return uninterrupted() if quick and not self._may_fail() else undone_on_error(self)

    def _conditions(
        self, n: int, Y: FloatArray | None, noise: Any = None, time: Any = None, weight: Any = None, *, many: bool
    ) -> FloatArray | None:
        """The conditions of n rows, checked, as one array; None: there are none."""
        if noise is None and time is None and weight is None and not self._needs_time:
            return None
        p = self._p or 1 if Y is None else Y.shape[1]
        learned = np.zeros((n, p), dtype=bool) if Y is None else ~np.isnan(Y)
        result = np.full((n, NOISE + (1 if self._shared else p)), np.nan)
        if (noise is not None or weight is not None) and (why := self._refuses_noise(1 if noise is None else p)):
            raise ValueError(why)
        if noise is not None:
            result[:, NOISE:] = inputs.noises(noise, learned, self._shared, many=many)
        if weight is not None:
            result[:, WEIGHT] = weight
        if time is not None:
            result[:, TIME] = inputs.times(time, n, many=many)
        if self._needs_time:
            for one in self._family():
                one._refuse_times(None if time is None else result[:, TIME], np.asarray(learned.any(axis=1)), many)
        return result

    def _conditions_at(self, time: Any, n: int, *, many: bool) -> FloatArray:
        """The conditions of n rows that are predicted at times."""
        conditions = np.full((n, NOISE + 1), np.nan)
        conditions[:, TIME] = inputs.times(time, n, many=many)
        self._refuse_past(conditions[:, TIME], many=many, follow=False)
        return conditions

    def _begin(self, X: FloatArray, Y: FloatArray | None, scalar: bool, certain: bool, *, many: bool) -> None:
        """Check rows before anything changes, and allocate for their shape."""
        self._refuse_unfit(X, Y, many=many)
        self._prepare(Shape(X.shape[1], (self._p or 1) if Y is None else Y.shape[1], scalar, certain))

    def _prepare(self, shape: Shape) -> None:
        """Allocate for rows of this shape."""
        assert shape.d is not None
        assert shape.p is not None
        if (self._shape.d, self._shape.p) != (shape.d, shape.p):
            self._start(shape.d, shape.p)
        self._shape = shape

    def _refuse_unfit(self, X: FloatArray, Y: FloatArray | None = None, *, many: bool | None = None) -> None:
        """Refuse rows that no model of this kind takes."""
        if X.shape[1] == 0 and not self._without_inputs:
            inputs.refuse_empty("X" if many else "x")
        several = len(X) > 1 if many is None else many
        status, at = check(X, X[:0] if Y is None else Y, self._shared, self._largest)
        if status:
            inputs.refuse(status, at, many=several)
        if Y is not None and self._observes != "numbers":
            self._refuse_targets(Y, many=several)

    def _started_for(self, X: FloatArray) -> Self:
        """This model, or, before the first row, one that holds the prior for such inputs."""
        if self._shape.d is not None:
            return self
        self._refuse_unfit(X)
        prior = self.clone()
        prior._prepare(Shape(X.shape[1], 1))
        return prior

    @property
    def _d(self) -> int | None:
        return self._shape.d

    @property
    def _p(self) -> int | None:
        return self._shape.p

    # Predictions.

    def _with_slopes(self, X: FloatArray, conditions: FloatArray | None, *, many: bool) -> Prediction:
        """A prediction with derivatives, as users see it."""
        self._refuse_unfit(X, many=many)
        p = self._started_for(X)._derived(X, conditions)
        mean, variance = p.mean_gradient, p.variance_gradient
        if self._shape.scalar:
            mean, variance = mean[:, 0], variance[:, 0]
        elif variance.shape != mean.shape:
            variance = np.repeat(variance, mean.shape[1], axis=1)
        gradients = (mean, variance) if many else (mean[0], variance[0])
        return self._shaped(p, many=many)._with_gradients(*gradients)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict one row, (1, d), whose input has the covariance P, by sigma points of the same covariance."""
        d = X.shape[1]
        center = max(3 - d, 0)  # so that fourth moments along an axis are right, too, but no weight is negative
        eigenvalues, V = np.linalg.eigh(P)
        steps = (np.sqrt(np.maximum(eigenvalues, 0.0) * (d + center)) * V).T
        rows = np.ascontiguousarray(np.concatenate([X, X + steps, X - steps]))
        weights = np.array([center, *[0.5] * (2 * d)])[:, None] / (d + center)
        p = self._predict(rows, None if conditions is None else np.repeat(conditions, len(rows), axis=0))
        mean = (weights * p.mean).sum(axis=0)
        variance = (weights * (p.variance + (p.mean - mean) ** 2)).sum(axis=0)
        return Prediction(
            mean[None], variance[None], np.broadcast_to((weights * p.noise).sum(axis=0), mean.shape)[None]
        )

    def _empty(self) -> Prediction:
        """The prediction of no rows, of the kind that this model makes."""
        return self._empty_like(Prediction(*(np.empty((0, 1)) for _ in range(3))))

    def _empty_like(self, prediction: Prediction) -> Prediction:
        """No rows of another model's predictions, in the shape of this one's."""
        shape = (0,) if self._shape.scalar else (0, self._p or 1)
        return prediction._each(lambda _: np.empty(shape))

    def _shaped(self, prediction: Prediction, *, many: bool) -> Prediction:
        """Arrays (n, p) as users see them: scalars, (p,), (n,) or (n, p)."""
        return prediction._shaped(scalar=self._shape.scalar, many=many)

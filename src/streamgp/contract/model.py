"""The contract every stream model keeps: what users call."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from streamgp.contract import frames, freerun, inputs
from streamgp.contract.atomic import undone_on_error
from streamgp.contract.attributes import FixedSetting, no_attribute
from streamgp.contract.health import REPAIRS as REPAIRS
from streamgp.contract.health import Change as Change
from streamgp.contract.health import Health as Health
from streamgp.contract.health import Relevance as Relevance
from streamgp.contract.joint import JointPrediction
from streamgp.contract.passing import Passing
from streamgp.contract.prediction import Prediction
from streamgp.contract.provided import Provided
from streamgp.contract.saved import Shape as Shape
from streamgp.contract.shown import facts
from streamgp.contract.turns import guard, refuse
from streamgp.settings import FloatArray

LONGEST_SHOWN = 80  # characters of a setting in a notebook
# Settings and single counters, which a second thread may read to follow the first.
AT_ANY_TIME = {"get_params", "clone", "rows_seen", "size", "health", "frozen", "on_trial"}
# These take their turn themselves: a function around them would show in the cost of a row.
QUICK = {"predict_one", "learn_one"}
# Changes of a few steps, for whose end Ctrl-C waits.
SHORT = frozenset({"add", "forget", "insert", "replace", "reset_memory", "retire", "set_params"})


class StreamModel(Passing):
    """A model that learns from a stream, one row at a time.

    One model belongs to one thread at a time, and a call from a second one raises RuntimeError; different models run in
    parallel.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.setting_names():
            if not hasattr(cls, name):
                setattr(cls, name, FixedSetting(name))
        guard(cls, AT_ANY_TIME | QUICK, SHORT)

    if not TYPE_CHECKING:  # type checkers find out themselves what is not there

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self), name))

    def _repr_html_(self) -> str:
        settings = {
            name: text if len(text := repr(value)) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
            for name, value in self.get_params().items()
        }
        read = {"rows seen": f"{self.rows_seen:,}", "size": f"{self.size:,}", "repairs": f"{self.health.repairs:,}"}
        return facts(type(self).__name__, settings | read)

    # What users call.

    def predict_one(self, x: Any, *, time: Any = None, derivatives: bool = False) -> Prediction:
        """Predict the target of one row that would come next; the model does not change.

        Args:
            x: d numbers: an array, a list, a scalar when d = 1, one row of a DataFrame; a mapping from names to numbers
                where the model has learned a data frame by name.
            time: of the row, not before the last learned one; models without a kernel over time take no notice. None:
                as long after the last row as rows usually are apart.
            derivatives: whether to add ``mean_gradient`` and ``variance_gradient``, (d,) or (p, d): how the mean and
                the variance of the function change with x (docs/derivatives.md).
        """
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, self._shape.d)
            conditions = None if time is None else self._conditions_at(time, 1, many=False)
            if derivatives:
                return self._with_slopes(X, conditions, many=False)
            return self._shaped(self._started_for(X)._predict(X, conditions), many=False)
        finally:
            self._owner = owner

    def predict_many(self, X: Any, *, time: Any = None, derivatives: bool = False) -> Prediction[FloatArray]:
        """Predict rows that would each come next: the memory does not advance from one to the other.

        Args:
            X: (n, d) rows; a data frame, of which the columns are taken that the model has learned by name.
            time: (n,) times of the rows, in any order; see ``predict_one``. Of a data frame also the name of a column.
            derivatives: whether to add gradients, (n, d) or (n, p, d); see ``predict_one``.
        """
        X, _, time, _, origin = frames.taken(X, None, time, None, None, self._names)
        X = inputs.rows(X, self._d)
        conditions = None if time is None else self._conditions_at(time, len(X), many=True)
        if derivatives:
            return self._with_slopes(X, conditions, many=True)._from(origin)
        return self._shaped(self._started_for(X)._predict(X, conditions), many=True)._from(origin)

    def predict_uncertain(self, x: Any, covariance: Any, *, time: Any = None) -> Prediction:
        """Predict the target of a row whose input is not known exactly, x ~ N(x, covariance); nothing changes.

        With the squared exponential mean and variance are exact; with other kernels and models they are made of
        predictions at a few points around x (docs/derivatives.md).

        Args:
            x: d numbers, the mean of the input.
            covariance: (d, d) of the input; a variance when d = 1.
            time: of the row; see ``predict_one``.
        """
        X = inputs.row(x, self._shape.d)
        P = inputs.covariance(covariance, X.shape[1])
        self._refuse_unfit(X)
        if self._observes != "numbers":
            raise ValueError(
                f"{type(self).__name__} predicts {self._observes}, which have no mean and variance to add up"
            )
        conditions = None if time is None else self._conditions_at(time, 1, many=False)
        return self._shaped(self._started_for(X)._uncertain(X, P, conditions), many=False)

    def predict_joint(self, X: Any, *, time: Any = None) -> JointPrediction:
        """Predict rows that would each come next, with the covariance of the function between them.

        Args:
            X: (n, d) rows; the memory does not advance from one to the other, as in predict_many.
            time: (n,) times of the rows, in any order; see ``predict_one``.

        Returns:
            A JointPrediction; models without a joint posterior raise ValueError (docs/joint-predictions.md).
        """
        X = inputs.rows(X, self._d)
        if not len(X):
            raise ValueError("X has no rows: there is nothing to predict together")
        self._refuse_unfit(X, many=True)
        conditions = None if time is None else self._conditions_at(time, len(X), many=True)
        return self._started_for(X)._joint(X, conditions).shaped(self._shape.scalar)

    def learn_one(self, x: Any, y: Any, *, noise: Any = None, time: Any = None) -> None:
        """Advance the memory by one row, then learn its target.

        Args:
            x: d numbers, or a mapping as in ``predict_one``.
            y: a number, or p numbers; None, NaN, NA or masked: the memory advances, nothing is learned or forgotten.
            noise: variance of this observation's noise, above 0, or p of them where outputs are separate; None: the
                model's own.
            time: when the row was observed, a number, datetime or datetime64; a model with ``half_life`` forgets by
                what has passed since the last learned row, one with a kernel over time learns what changes with it
                (None: as long after the last row as rows usually are apart, 1 while that is not known), all others take
                no notice.
        """
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            d, p, scalar, certain = self._shape
            X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, d)
            Y, scalar, given = inputs.target(y, p if certain else None, scalar)
            conditions = None
            if noise is not None or time is not None or self._needs_time:
                conditions = self._conditions(1, Y, noise=noise, time=time, many=False)
            if certain and self._one_step:
                self._advance(X, Y, False, conditions)
            else:
                self._take(X, Y, scalar, given, many=False, report=False, conditions=conditions)
        finally:
            self._owner = owner

    def reset_memory(self) -> None:
        """Begin a new sequence: the memory is as at the start, what was learned stays."""
        for child in self._children().values():
            child.reset_memory()

    def observe_one(self, x: Any) -> None:
        """Advance the memory by one row without a target."""
        self.learn_one(x, None)

    def learn_many(
        self, X: Any, Y: Any = None, *, target: Any = None, inputs: Any = None, noise: Any = None, time: Any = None
    ) -> None:
        """Learn rows in order; equal to the loop of learn_one.

        Args:
            X: (n, d) rows; a data frame (pandas, polars, pyarrow...) of numbers.
            Y: (n,) or (n, p) targets; None, NaN, NA or masked where missing.
            target: in place of Y, the column of the data frame to learn, or a list of columns.
            inputs: the columns to predict it from; None: those that were learned before, at first all others. The model
                remembers their names.
            noise: variance of the observations' noise: one for all rows, (n,), or (n, p) where outputs are separate;
                None: the model's own.
            time: (n,) times of the rows; see ``learn_one``. Of a data frame also the name of a column.
        """
        if Y is None and target is None and frames.is_frame(X):
            raise TypeError(
                'learn_many needs targets: learn_many(df, target="y"), or learn_many(X, Y); track(df) advances without '
                "learning"
            )
        self._take_many(X, Y, report=False, target=target, columns=inputs, noise=noise, time=time)

    def track(
        self, X: Any, Y: Any = None, *, target: Any = None, inputs: Any = None, noise: Any = None, time: Any = None
    ) -> Prediction[FloatArray]:
        """Predict each row, then learn it; equal to the loop of predict_one and learn_one.

        Args:
            X: (n, d) rows; a data frame (pandas, polars, pyarrow...) of numbers.
            Y: (n,) or (n, p) targets; None: predict and advance the memory without learning.
            target: in place of Y, the column of the data frame to learn, or a list of columns.
            inputs: the columns to predict it from, as in ``learn_many``.
            noise: of the observations that are learned, as in ``learn_many``; predictions are of observations with the
                model's own noise.
            time: (n,) times of the rows; see ``learn_one``. Of a data frame also the name of a column.

        Returns:
            One Prediction of arrays, (n,) or (n, p); of a data frame ``to_frame()`` is one of the same kind.
        """
        prediction = self._take_many(X, Y, report=True, target=target, columns=inputs, noise=noise, time=time)
        return self._empty() if prediction is None else prediction

    def simulate(self, U: Any, feedback: Any = (), trajectories: int = 100, seed: int = 0) -> Prediction:
        """Run freely over rows whose lagged targets are replaced by the model's own predictions; nothing is learned.

        Args:
            U: (n, d) rows; lagged targets from before the first row are taken from it.
            feedback: the input columns that are lagged targets, newest lag first (p columns for each lag); none within
                Lagged, which feeds its own.
            trajectories: sampled futures from which the uncertainty is made, each along one draw of the function where
                the model has a joint posterior (docs/forecasts.md); models without a variance run one.
            seed: of the samples.

        Returns:
            One Prediction of arrays, (n,) or (n, p).
        """
        return freerun.simulate(self, U, feedback, trajectories, seed)

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
        """Predict the next rows after the last one learned, fed with the model's own predictions; nothing is learned.

        With a kernel over time, and nothing that is fed back, the forecast is in closed form, and has its components.

        Args:
            steps: rows ahead; with a kernel over time as far apart as rows usually are, or their times, (steps,).
            X: (steps, others) future inputs, but for columns that are fed back; None, with a kernel over time: those of
                the last row.
            feedback: the input columns that are lagged targets, newest lag first (p columns for each lag); none within
                Lagged, which feeds its own.
            trajectories: sampled futures from which the uncertainty is made, each along one draw of the function where
                the model has a joint posterior (docs/forecasts.md); models without a variance run one.
            seed: of the samples.
            inputs: the former name of X.

        Returns:
            One Prediction of arrays, (steps,) or (steps, p).
        """
        return self._forecast(steps, X if inputs is None else inputs, feedback, trajectories, seed)

    def _forecast(self, steps: Any, X: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
        alone = not (np.size(feedback) or self._feeds_itself or self._recalls_rows())
        if alone and (moment := self._moment()) is not None:
            return self._forecast_at(moment.next(steps) if isinstance(steps, int | np.integer) else steps, X)
        rows = freerun.next_rows(self, steps, feedback, X)
        return freerun.simulate(self, rows, feedback, trajectories, seed)

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        """Futures of rows to come; models with a joint posterior let each follow one draw of the function."""
        return freerun.Independent(self, count)

    def _forecast_at(self, times: Any, inputs_ahead: Any) -> Prediction:
        """Predict rows at times ahead, of which none depends on another."""
        n = len(np.atleast_1d(times))
        if inputs_ahead is None:
            inputs_ahead = np.repeat(np.zeros((1, 0)) if self._d is None else self._last_row()[0][None], n, axis=0)
        return self.predict_many(inputs_ahead, time=times)

    def relevance(self) -> Relevance:
        """Return how much each input counts, and how far back: what the lengthscales imply."""
        raise ValueError(f"{type(self).__name__} has no lengthscales, so it cannot say how relevant its inputs are")

    def forget(self, factor: float) -> None:
        """Let what was learned fade once, now: as the model's forgetting does at every row.

        Back-to-prior, the mean and the certainty fade; by injection (``mode="injection"``, ``form="cholesky"``, which
        ``RLSESN`` has) the certainty alone, to the prior's at the least.

        Args:
            factor: what is kept, in (0, 1]; 0.5 halves the rows that the model seems to have seen.
        """
        if why := self._cannot_forget_because:
            raise ValueError(why)
        with undone_on_error(self):
            for child in self._children().values():
                child.forget(factor)

    def set_params(self, **params: Any) -> Self:
        """Change settings before the first row; ``kernel__lengthscale`` reaches into a part."""
        settings = self._merged(params)
        if self._d is not None:
            raise ValueError(
                "settings can be changed only before the first row; use model.clone().set_params(...) for a new model"
            )
        self.__init__(**settings)  # type: ignore[misc]
        return self


for kind in (Provided, StreamModel):
    guard(kind, AT_ANY_TIME | QUICK, SHORT)

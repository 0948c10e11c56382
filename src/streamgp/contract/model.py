"""The contract every stream model keeps: what users call, and what a kind of model provides for it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np

from streamgp.contract import frames, freerun, inputs, passing
from streamgp.contract.analysis import MODELS_THAT_CAN, Analysis
from streamgp.contract.atomic import undone_on_error
from streamgp.contract.conditions import Moment
from streamgp.contract.health import REPAIRS as REPAIRS
from streamgp.contract.health import Change as Change
from streamgp.contract.health import Health as Health
from streamgp.contract.health import Relevance as Relevance
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ALONE, ONE, SCREEN, TAKE
from streamgp.contract.prediction import NUMBERS, Prediction
from streamgp.contract.saved import Saved
from streamgp.contract.saved import Shape as Shape
from streamgp.contract.shown import facts
from streamgp.contract.turns import guard
from streamgp.settings import FloatArray, read_only

LONGEST_SHOWN = 80  # characters of a setting in a notebook
# Settings and single counters, which a second thread may read to follow the first.
AT_ANY_TIME = {"get_params", "clone", "rows_seen", "size", "health", "frozen", "on_trial"}
# Changes of a few steps, for whose end Ctrl-C waits.
SHORT = frozenset({"add", "forget", "insert", "replace", "reset_memory", "retire", "set_params"})

# What a model may be unable to do: forget(), weigh rows by a noise of their own, run freely on what it draws itself.
# What one says that is not made of others and says nothing of its own:
Ability = Literal["forget", "weigh", "simulate"]
LEFT_OUT: dict[Ability, str] = {
    "forget": f"{{}} has no posterior that could fade; {MODELS_THAT_CAN}",
    "weigh": f"{{}} cannot weigh a row by its noise; {MODELS_THAT_CAN}, without adapt=",
    "simulate": "",
}


class StreamModel(Saved):
    """A model that learns from a stream, one row at a time.

    One model belongs to one thread at a time, and a call from a second one raises RuntimeError; different models run in
    parallel.
    """

    has_variance = True
    _lanes = ALONE  # the rows and models of a call, of one that stands for many (contract/stackable.py)
    _numbers: Any = None  # its arrays by name, Numbers or Stacked (arrays.py), where it has no others
    _may_overflow: tuple[str, ...] = ()  # arrays that hold NaN or inf after a stream beyond all scales, or before any
    _shared: bool = True  # one covariance for all outputs
    _largest: float = np.inf  # number that is not refused
    _needs_time: bool = False  # forgets by the time between rows
    _sees_time: bool = False  # takes the times of rows where they have some, and needs none
    _observes: str = "numbers"  # or "classes", "counts"
    _without_inputs: bool = False  # rows may have no columns
    _recalls: bool = False  # what was seen of earlier rows is an input
    _feeds_itself: bool = False  # past targets are inputs without being handed over
    _ahead: int = 1  # rows after which a target comes; 1: before the next row
    _outputs: int | None = None  # how many it has, where it says so before the first target
    _may_fail: bool = False  # the next row may lead to more than learning it: building or tuning a model
    _kept_width: int = 0  # numbers of the line that a row keeps while it waits for its target
    _units: int = 0  # columns of the basis points that are units of a reservoir, not inputs; they come first
    _moment: Moment | None = None  # where the kernel over time stands; None: there is none
    _refuse_targets: Callable[..., None] | None = None  # of numbers that are no classes, or no counts
    _one_step: bool = False  # a row is checked, screened and learned in one compiled call, which nothing interrupts
    _direct: bool = False  # its loop alone does operations, so that other compiled code may call it
    _columns: tuple[str, ...] = NUMBERS  # of a prediction; after dots those of what they consist of
    # The targets of the rows that were taken last, (n, p), as they were learned: NaN in place of those refused.
    _last_targets: FloatArray = np.empty((0, 1))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        guard(cls, AT_ANY_TIME, SHORT)
        for name in cls.setting_names():
            if not hasattr(cls, name):
                setattr(cls, name, read_only(name))

    def _repr_html_(self) -> str:
        settings = {
            name: text if len(text := repr(value)) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
            for name, value in self.get_params().items()
        }
        read = {"rows seen": f"{self.rows_seen:,}", "size": f"{self.size:,}", "repairs": f"{self.health.repairs:,}"}
        return facts(type(self).__name__, settings | read)

    # What users call.

    def predict_one(self, x: Any = (), *, time: Any = None, derivatives: bool = False) -> Prediction:
        """Predict the target of one row that would come next; the model does not change.

        Args:
            x: d numbers: an array, a list, a scalar when d = 1, one row of a DataFrame; a mapping from names to numbers
                where the model has learned a data frame by name; nothing for a model without inputs.
            time: of the row, not before the last learned one; models without a kernel over time take no notice. None:
                as long after the last row as rows usually are apart.
            derivatives: whether to add ``mean_gradient`` and ``variance_gradient``, (d,) or (p, d): how the mean and
                the variance of the function change with x (docs/derivatives.md).
        """
        X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, self._d)
        conditions = None if time is None else passing.conditions_at(self, time, 1, many=False)
        if derivatives:
            return passing.with_slopes(self, X, conditions, many=False)
        return passing.predict(self, X, conditions, many=False)

    def predict_many(self, X: Any = None, *, time: Any = None, derivatives: bool = False) -> Prediction[FloatArray]:
        """Predict rows that would each come next: the memory does not advance from one to the other.

        Args:
            X: (n, d) rows; a data frame, of which the columns are taken that the model has learned by name; None for a
                model without inputs: as many rows as there are times.
            time: (n,) times of the rows, in any order; see ``predict_one``. Of a data frame also the name of a column.
            derivatives: whether to add gradients, (n, d) or (n, p, d); see ``predict_one``.
        """
        X, _, time, _, origin = frames.taken(X, None, time, None, None, self._names)
        X = inputs.rows(X, self._d, time)
        conditions = None if time is None else passing.conditions_at(self, time, len(X), many=True)
        if derivatives:
            return passing.with_slopes(self, X, conditions, many=True)._from(origin)
        return passing.predict(self, X, conditions, many=True)._from(origin)

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
        passing.refuse_unfit(self, X)
        if self._observes != "numbers":
            raise ValueError(
                f"{type(self).__name__} predicts {self._observes}, which have no mean and variance to add up"
            )
        conditions = None if time is None else passing.conditions_at(self, time, 1, many=False)
        found = passing.started_for(self, X)._analysis().uncertain(X, P, conditions)
        return found._shaped(scalar=self._shape.scalar, many=False)

    def predict_joint(self, X: Any = None, *, time: Any = None) -> JointPrediction:
        """Predict rows that would each come next, with the covariance of the function between them.

        Args:
            X: (n, d) rows; the memory does not advance from one to the other; see ``predict_many``.
            time: (n,) times of the rows, in any order; see ``predict_one``.

        Returns:
            A JointPrediction; models without a joint posterior raise ValueError (docs/joint-predictions.md).
        """
        X = inputs.rows(X, self._d, time)
        if not len(X):
            raise ValueError("X has no rows: there is nothing to predict together")
        passing.refuse_unfit(self, X, many=True)
        conditions = None if time is None else passing.conditions_at(self, time, len(X), many=True)
        return passing.started_for(self, X)._analysis().joint(X, conditions).shaped(self._shape.scalar)

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
        X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, self._d)
        Y, scalar, given = inputs.target(y, self._shape.outputs, self._shape.scalar)
        conditions = passing.conditions_of(self, 1, Y, noise=noise, time=time, many=False)
        if self._one_step and self._shape.certain:
            self._pass(ONE[TAKE | SCREEN], X, Y, conditions, None)
        else:
            passing.take(self, X, Y, scalar, given, many=False, report=False, conditions=conditions)

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
        passing.take_many(self, X, Y, report=False, target=target, columns=inputs, noise=noise, time=time)

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
        prediction = passing.take_many(self, X, Y, report=True, target=target, columns=inputs, noise=noise, time=time)
        return passing.nothing(self) if prediction is None else prediction

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
    ) -> Prediction:
        """Predict the next rows after the last one learned, fed with the model's own predictions; nothing is learned.

        With a kernel over time, and nothing that is fed back, the forecast is in closed form, and has its components.

        Args:
            steps: rows ahead; with a kernel over time as far apart as rows usually are, or their times, (steps,).
            X: (steps, others) future inputs, but for columns that are fed back; None, with a kernel over time: those of
                the last row.
            feedback: the input columns that are lagged targets; this, trajectories and seed are as in ``simulate``.

        Returns:
            One Prediction of arrays, (steps,) or (steps, p).
        """
        return freerun.forecast(self, steps, X, feedback, trajectories, seed)

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
        if why := self._cannot("forget"):
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

    # How a model begins.

    def _prepare(self, shape: Shape) -> None:
        """Allocate for rows of this shape."""
        assert shape.d is not None
        assert shape.p is not None
        if (self._shape.d, self._shape.p) != (shape.d, shape.p):
            self._ahead = shape.ahead
            self._start(shape.d, shape.p)
        self._shape = shape

    @property
    def _d(self) -> int | None:
        return self._shape.d

    @property
    def _p(self) -> int | None:
        return self._shape.p

    # What a kind of model provides; the defaults are those of a model that is made of others.

    @abc.abstractmethod
    def _start(self, d: int, p: int) -> None:
        """Allocate for inputs of d columns and p outputs; a model that has seen no target yet keeps its memory."""

    @abc.abstractmethod
    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        """Do operations on rows, in order (contract/lanes.py).

        Args:
            ops: (k, 2) numbers of rows and kinds.
            X: (n, d) rows.
            Y: (n, p) targets; None where no operation has any.
            conditions: of the operations (conditions.py), k of them.
            kept: (n, kept width) the lines of rows that wait for their targets; None where none does. A row that is
                predicted or advances, and waits, writes what it takes to learn it; its target reads it.

        Returns:
            The columns of the predictions of all rows, (columns, n, p); those of rows that are not predicted say
            nothing, and where rows are taken components are left out.
        """

    def _told(self, columns: Sequence[Any]) -> Prediction:
        """The prediction that has these columns, numbers or arrays of one shape."""
        return Prediction(*columns)

    def _screened(self, Y: FloatArray) -> FloatArray:
        """Targets, NaN in place of those that cannot be observations."""
        return Y

    # The state, and the models within.

    def _arrays(self) -> dict[str, np.ndarray]:
        return {} if self._numbers is None else dict(self._numbers.arrays())

    # What is remembered of the last rows.

    @abc.abstractmethod
    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        """The last input and the last target."""

    # What a model cannot do, and what it knows beforehand.

    def _analysis(self) -> Analysis:
        """What it says of its function beside predictions of single rows."""
        return Analysis(self)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        """Why it cannot do something with p outputs, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._cannot(what, p))), "")
        return LEFT_OUT[what].format(type(self).__name__)

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray | None, many: bool) -> None:
        """Refuse times of rows, (n,), at which it cannot predict (learned is None), or cannot learn those learned."""
        for child in self._children().values():
            child._refuse_times(time, learned, many)

    # What can be read.

    @property
    @abc.abstractmethod
    def rows_seen(self) -> int:
        """Rows that have advanced the memory, with or without a target."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Basis points, expansion terms or local models in use; weights of other features."""

    @property
    @abc.abstractmethod
    def basis(self) -> FloatArray:
        """The basis points, (size, width); for windows one row holds depth * d numbers, oldest input first."""

    @property
    @abc.abstractmethod
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        """The present hyperparameters by name; with ``adapt`` they move, as far as rows are in reach of the basis."""

    @property
    def health(self) -> Health:
        """Numerical repairs so far, of all models within, and targets that were not learned."""
        found = [child.health for child in self._children().values()]
        met = max((one.fill_values for one in found), default=0)  # models side by side meet the same ones
        return Health(*map(sum, zip(*found, strict=True)))._replace(fill_values=met)

    @property
    def last_change(self) -> Change:
        """What the last row did to the basis."""
        return Change()


guard(StreamModel, AT_ANY_TIME, SHORT)

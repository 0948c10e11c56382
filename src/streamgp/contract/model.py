"""The contract every stream model keeps: what users call, and what a kind of model provides for it."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np

from streamgp.contract import frames, freerun, inputs, passing
from streamgp.contract.atomic import undone_on_error
from streamgp.contract.attributes import FixedSetting, no_attribute
from streamgp.contract.conditions import Moment
from streamgp.contract.health import REPAIRS as REPAIRS
from streamgp.contract.health import Change as Change
from streamgp.contract.health import Health as Health
from streamgp.contract.health import Relevance as Relevance
from streamgp.contract.health import Swap as Swap
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ALONE, ONE, PREDICT, SCREEN, TAKE
from streamgp.contract.prediction import NUMBERS, Prediction
from streamgp.contract.saved import Saved
from streamgp.contract.saved import Shape as Shape
from streamgp.contract.shown import facts
from streamgp.contract.turns import guard, refuse
from streamgp.settings import FloatArray

PREDICTED, TAKEN = ONE[PREDICT | SCREEN], ONE[TAKE | SCREEN]  # one row as it comes from outside

LONGEST_SHOWN = 80  # characters of a setting in a notebook
# Settings and single counters, which a second thread may read to follow the first.
AT_ANY_TIME = {"get_params", "clone", "rows_seen", "size", "health", "frozen", "on_trial"}
# These take their turn themselves: a function around them would show in the cost of a row.
QUICK = {"predict_one", "learn_one"}
# Changes of a few steps, for whose end Ctrl-C waits.
SHORT = frozenset({"add", "forget", "insert", "replace", "reset_memory", "retire", "set_params"})

FORGETTING_MODELS = (
    "models that can forget are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, RecursiveGP, ISSGPR, IRFRR, "
    "RLSESN and OnlineGP, also within wrappers"
)
NOISE_MODELS = (
    "models that can are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, SWKRLS, FBKRLS, RecursiveGP, ISSGPR, "
    "IRFRR, RLSESN, LocalGP, TimeGP and OnlineGP, all without adapt=, also within wrappers"
)
# What a model may be unable to do: forget(), weigh rows by a noise of their own, run freely on what it draws itself.
# What one says that is not made of others and says nothing of its own:
Ability = Literal["forget", "weigh", "simulate"]
LEFT_OUT: dict[Ability, str] = {
    "forget": f"{{}} has no posterior that could fade; {FORGETTING_MODELS}",
    "weigh": f"{{}} cannot weigh a row by its noise; {NOISE_MODELS}",
    "simulate": "",
}
JOINT_MODELS = (
    "models that have one are OnlineGP and all recipes with a variance that are built on it, such as SOGP, KRLST and "
    "ISSGPR, also within wrappers. For one row at a time use predict_many"
)
DERIVATIVE_MODELS = (
    "models that have them are OnlineGP and all recipes that are built on it, such as SOGP, KRLST and ISSGPR, with "
    "Gaussian noise, also within Standardize, Lagged, Columns, Differenced, Calibrated, DriftAware, Alarms and Delayed"
)


class StreamModel(Saved):
    """A model that learns from a stream, one row at a time.

    One model belongs to one thread at a time, and a call from a second one raises RuntimeError; different models run in
    parallel.
    """

    has_variance = True
    _lanes = ALONE  # the rows and models of a call, of one that stands for many (contract/stackable.py)
    _stacks = False  # whether it can
    _numbers: Any  # Numbers, of models that hold no other arrays
    _may_overflow: tuple[str, ...] = ()  # arrays that hold NaN or inf after a stream beyond all scales, or before any
    _names: frames.Names | None = None  # of inputs and targets that came in a data frame
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
    _one_step: bool = False  # a row is checked, screened and learned in one compiled call, which nothing interrupts
    _direct: bool = False  # its loop alone does operations, so that other compiled code may call it
    _columns: tuple[str, ...] = NUMBERS  # of a prediction; after dots those of what they consist of
    # The targets of the rows that were taken last, (n, p), as they were learned: NaN in place of those refused.
    _last_targets: FloatArray = np.empty((0, 1))
    _swaps: Sequence[Swap] = ()  # where, among the rows that were taken last, another model began to predict

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
            d, _, scalar, _, _ = self._shape
            X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, d)
            conditions = None if time is None else passing.conditions_at(self, time, 1, many=False)
            if scalar and d is not None and not derivatives and self._one_step:
                return self._told(self._pass(PREDICTED, X, None, conditions, None).ravel().tolist())
            if derivatives:
                return passing.with_slopes(self, X, conditions, many=False)
            return passing.predict(self, X, conditions, many=False)
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
        found = passing.started_for(self, X)._uncertain(X, P, conditions)
        return found._shaped(scalar=self._shape.scalar, many=False)

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
        passing.refuse_unfit(self, X, many=True)
        conditions = None if time is None else passing.conditions_at(self, time, len(X), many=True)
        return passing.started_for(self, X)._joint(X, conditions).shaped(self._shape.scalar)

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
            d, p, scalar, certain, _ = self._shape
            X = inputs.row(frames.row_by_name(x, self._names) if type(x) is dict else x, d)
            Y, scalar, given = inputs.target(y, p if certain else None, scalar)
            conditions = None
            if noise is not None or time is not None or self._needs_time:
                conditions = passing.conditions_of(self, 1, Y, noise=noise, time=time, many=False)
            if certain and self._one_step:
                self._pass(TAKEN, X, Y, conditions, None)
            else:
                passing.take(self, X, Y, scalar, given, many=False, report=False, conditions=conditions)
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
        return freerun.forecast(self, steps, X if inputs is None else inputs, feedback, trajectories, seed)

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        """Futures of rows to come; models with a joint posterior let each follow one draw of the function."""
        return freerun.Independent(self, count)

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

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict one row, (1, d), whose input has the covariance P, by sigma points of the same covariance."""
        d = X.shape[1]
        center = max(3 - d, 0)  # so that fourth moments along an axis are right, too, but no weight is negative
        eigenvalues, V = np.linalg.eigh(P)
        steps = (np.sqrt(np.maximum(eigenvalues, 0.0) * (d + center)) * V).T
        rows = np.ascontiguousarray(np.concatenate([X, X + steps, X - steps]))
        weights = np.array([center, *[0.5] * (2 * d)])[:, None] / (d + center)
        conditions = None if conditions is None else np.repeat(conditions, len(rows), axis=0)
        means, variances, noises = passing.predicted(self, rows, conditions)[:3]
        mean = (weights * means).sum(axis=0)
        variance = (weights * (variances + (means - mean) ** 2)).sum(axis=0)
        return Prediction(mean[None], variance[None], (weights * noises).sum(axis=0)[None])

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

    @property
    def _kept_width(self) -> int:
        """How many numbers a row keeps while it waits for its target."""
        return 0

    def _screened(self, Y: FloatArray) -> FloatArray:
        """Targets, NaN in place of those that cannot be observations."""
        return Y

    # The state, and the models within.

    @abc.abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The state by name, without that of the models within, as arrays that can be written to."""

    def _children(self) -> dict[str, Any]:
        """The models within, by their names in a snapshot."""
        return {}

    def _family(self) -> Iterator[Any]:
        """This model and all within it."""
        yield self
        for child in self._children().values():
            yield from child._family()

    def _changing(self) -> Iterable[Any]:
        """Attributes, and in them arrays, that rows may change; without those of the models within."""
        return vars(self).values()

    def _all_arrays(self) -> dict[str, np.ndarray]:
        """The state by name, with that of the models within."""
        named = dict(self._arrays())
        for name, child in self._children().items():
            named |= {f"{name}.{inner}": array for inner, array in child._all_arrays().items()}
        return named

    def _structure(self) -> dict[str, Any]:
        """What a snapshot says beside settings and arrays: models within that come and go, by name."""
        own = {} if self._names is None else {"frame": [list(part) for part in self._names]}
        return own | {
            f"{name}.{inner}": value
            for name, child in self._children().items()
            for inner, value in child._structure().items()
        }

    def _rebuild(self, structure: dict[str, Any]) -> None:
        """Make the models within those of a snapshot, before their arrays are restored."""
        if "frame" in structure:
            self._names = frames.Names(*map(tuple, structure["frame"]))
        for name, child in self._children().items():
            head = f"{name}."
            child._rebuild({key.removeprefix(head): v for key, v in structure.items() if key.startswith(head)})

    def _check_restored(self) -> None:
        self._check_numbers({name: array[None] for name, array in self._arrays().items()})
        for child in self._children().values():
            child._check_restored()

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        """Refuse arrays of models like this one that no stream leads to; each has a leading axis for the models."""

    # What stands for many: the same with a leading axis for models.

    def _stack(self) -> list[np.ndarray]:
        """All arrays of numbers, work space included, without those of the model within: (models, ...) each."""
        return [self._numbers.records, self._numbers.buffers] if self._stacks else []

    def _restack(self, arrays: list[np.ndarray]) -> None:
        """Go on with other arrays, for any number of models."""
        if arrays:
            self._numbers.records, self._numbers.buffers = arrays

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        """The state by name, as _arrays() has it."""
        return self._numbers.stacked() if self._stacks else {}

    def _begin_again(self, models: np.ndarray, fresh: StreamModel) -> None:
        """Let models be as a single one of the same kind and shape, which has learned nothing."""
        for many, one in zip(self._stack(), fresh._stack(), strict=True):
            many[models] = one[0]
        for within, blank in zip(self._children().values(), fresh._children().values(), strict=True):
            within._begin_again(models, blank)

    # What is remembered of the last rows.

    @abc.abstractmethod
    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        """The last input and the last target."""

    def _moment(self) -> Moment | None:
        """Where the kernel over time stands; None: there is none."""
        return next((at for child in self._children().values() if (at := child._moment()) is not None), None)

    # What a model cannot do, and what it knows beforehand.

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        """Predict rows that would each come next, together."""
        raise ValueError(f"{type(self).__name__} has no joint posterior over several rows; {JOINT_MODELS}")

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict rows that would each come next, with the derivatives by their inputs, (n, p, d)."""
        raise ValueError(f"{type(self).__name__} has no derivatives by its inputs; {DERIVATIVE_MODELS}")

    def _cannot(self, what: Ability, p: int = 1) -> str:
        """Why it cannot do something with p outputs, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._cannot(what, p))), "")
        return LEFT_OUT[what].format(type(self).__name__)

    def _may_fail(self) -> bool:
        """Whether the next row may lead to more than learning it, which may fail: building or tuning a model."""
        children = self._children()
        return bool(children) and any(child._may_fail() for child in children.values())

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray | None, many: bool) -> None:
        """Refuse the times of rows at which this model cannot predict, or cannot learn those that are learned.

        Args:
            time: (n,); None: they have none.
            learned: (n,) whether a row is learned; None: all are predicted, each as if it came next.
            many: whether the call is one of many rows.
        """
        for child in self._children().values():
            child._refuse_times(time, learned, many)

    def _refuse_targets(self, Y: FloatArray, *, many: bool) -> None:
        """Refuse numbers that are no classes, or no counts."""
        for child in self._children().values():
            child._refuse_targets(Y, many=many)

    def _units(self) -> int:
        """Columns of the basis points that are units of a reservoir, not inputs; they come first."""
        return 0

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


guard(StreamModel, AT_ANY_TIME | QUICK, SHORT)

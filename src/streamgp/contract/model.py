"""The contract every stream model keeps."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from threading import get_ident
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from streamgp.contract import freerun, inputs
from streamgp.contract.atomic import undone_on_error, uninterrupted
from streamgp.contract.checks import check
from streamgp.contract.conditions import NOISE, TIME, WEIGHT, Moment
from streamgp.contract.joint import JointPrediction
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import Saved
from streamgp.contract.saved import Shape as Shape
from streamgp.contract.turns import guard, refuse
from streamgp.settings import FloatArray

FORGETTING_MODELS = (
    "models that can forget are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, RecursiveGP, ISSGPR, IRFRR, "
    "RLSESN and OnlineGP, also within Standardize"
)
NOISE_MODELS = (
    "models that can are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, SWKRLS, FBKRLS, RecursiveGP, ISSGPR, "
    "IRFRR, RLSESN, LocalGP and OnlineGP, all without adapt=, also within wrappers"
)

JOINT_MODELS = (
    "models that have one are OnlineGP and all recipes with a variance that are built on it, such as SOGP, KRLST and "
    "ISSGPR, also within wrappers. For one row at a time use predict_many"
)

DERIVATIVE_MODELS = (
    "models that have them are OnlineGP and all recipes that are built on it, such as SOGP, KRLST and ISSGPR, with "
    "Gaussian noise, also within Standardize, Lagged, Columns, Differenced, Calibrated, DriftAware and Delayed"
)

# Settings and single counters, which a second thread may read to follow the first.
AT_ANY_TIME = {"get_params", "clone", "rows_seen", "size", "health", "frozen", "on_trial"}
# These take their turn themselves: a function around them would show in the cost of a row.
QUICK = {"predict_one", "learn_one"}
# Changes of a few steps, for whose end Ctrl-C waits.
SHORT = frozenset({"add", "forget", "insert", "replace", "reset_memory", "retire", "set_params"})
# The kinds of Health that are repairs of rounding.
REPAIRS = ("skipped_rows", "unresolved_rows", "negative_residuals", "floored_pivots", "resets")


class Health(NamedTuple):
    """What arithmetic did so far that exact numbers would not need, and targets that were not learned.

    Args:
        skipped_rows: rows that were not learned because rounding left no gain between 0 and 1.
        unresolved_rows: rows learned with a noise so small against the prior variance that rounding may show in the
            mean (docs/numerics.md).
        indistinct_points: basis points that left, at a move of hyperparameters or though the budget never evicts,
            because the others explain them as well as arithmetic can tell; no repair.
        negative_residuals: rows whose residual gamma2 came out below 0 by more than rounding and was taken as 0.
        capped_directions: directions in which injected uncertainty had grown above the prior and was cut back to it,
            which is part of forgetting by injection and no repair.
        reduced_steps: moves of hyperparameters that had to be halved because they could not be solved well, or because
            points would have left that the others do not replace; no repair.
        floored_pivots: points of a LocalGP that arithmetic could not tell from the span of the others.
        limited_rows: rows for which a member of a Committee with a ``reach`` predicted what no target so far makes
            plausible, and had no weight.
        fill_values: targets so far beyond all others that they cannot be observations, and counted as missing (see
            Standardize), and single broken readings of targets and inputs (see Auto). They are in the data, so they are
            not among the ``repairs``.
        late_rows: rows whose targets came too late for ``Delayed`` to learn them in the order of their times: they were
            learned at the time of the last row; no repair.
        resets: times that a model of a fleet in single precision had to start again.
    """

    skipped_rows: int = 0
    unresolved_rows: int = 0
    indistinct_points: int = 0
    negative_residuals: int = 0
    capped_directions: int = 0
    reduced_steps: int = 0
    floored_pivots: int = 0
    limited_rows: int = 0
    fill_values: int = 0
    late_rows: int = 0
    resets: int = 0

    @property
    def repairs(self) -> int:
        """How often rounding had to be made good; 0 is the normal case."""
        return sum(getattr(self, kind) for kind in REPAIRS)


class Change(NamedTuple):
    """What the last row did to the basis.

    Args:
        absorbed: the row was learned on the basis as it is.
        admitted: the row became a basis point.
        evictions: indices of the points that left, in order, each counted at its own moment.
    """

    absorbed: bool = False
    admitted: bool = False
    evictions: tuple[int, ...] = ()

    @property
    def evicted(self) -> int:
        """The index of the first point that left; -1: none."""
        return self.evictions[0] if self.evictions else -1


class Relevance(NamedTuple):
    """What the lengthscales imply.

    Args:
        inputs: the weight of each input, 1 / lengthscale, normalized to sum 1.
        memory: length of the memory in steps, for a kernel or a window that has one; 1 without memory.
    """

    inputs: FloatArray
    memory: float


class _FixedSetting:
    """A setting as an attribute, which it is not: to assign to it would change nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, kind: type[Any]) -> NoReturn:
        raise AttributeError(
            f"{kind.__name__} has no attribute {self._name!r}; read it by get_params()[{self._name!r}]"
        )

    def __set__(self, model: Any, value: Any) -> NoReturn:
        raise AttributeError(
            f"{self._name} is a setting: change it before the first row by model.set_params({self._name}={value!r})"
        )


class StreamModel(Saved):
    """A model that learns from a stream, one row at a time.

    One model belongs to one thread at a time, and a call from a second one raises RuntimeError; different models run in
    parallel.
    """

    has_variance = True

    _shared: bool = True  # one covariance for all outputs
    _largest: float = np.inf  # number that is not refused
    _needs_time: bool = False  # forgets by the time between rows
    _sees_time: bool = False  # takes the times of rows where they have some, and needs none
    _observes: str = "numbers"  # or "classes", "counts"
    _without_inputs: bool = False  # rows may have no columns
    _feeds_itself: bool = False  # past targets are inputs without being handed over
    _one_step: bool = False  # a row is learned in one compiled call, which nothing interrupts

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.setting_names():
            if not hasattr(cls, name):
                setattr(cls, name, _FixedSetting(name))
        guard(cls, AT_ANY_TIME | QUICK, SHORT)

    # What a model has to provide.

    @abc.abstractmethod
    def _start(self, d: int, p: int) -> None:
        """Allocate for inputs of d columns and p outputs; a model that has seen no target yet keeps its memory."""

    @abc.abstractmethod
    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        """Take every row: predict it if asked to, then learn it under its conditions (conditions.py)."""

    def _learn(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        """Advance by rows as they come from outside."""
        if not self._one_step:
            self._refuse_unfit(X, Y)
            Y = None if Y is None else self._screened(Y)
        return self._advance(X, Y, report, conditions)

    def _screened(self, Y: FloatArray) -> FloatArray:
        """Targets, NaN in place of those that cannot be observations."""
        return Y

    @abc.abstractmethod
    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict rows that would each come next, at their times where there is a kernel over time."""

    # A row whose target comes late is issued, and resolved when the target is there. What was predicted counts then.

    def _issued_width(self, p: int) -> int:
        """How many numbers a row with p outputs keeps from its issue until it is resolved."""
        return 0

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        """Predict rows that would each come next; the numbers by which they are judged later, (n, issued width)."""
        return self._predict(X, conditions), np.empty((len(X), 0))

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        """Learn one row, (1, d), that was issued before other rows were learned."""
        self._advance(X, Y, False, conditions)

    def _expect_late(self, rows: int, pending: int) -> None:
        """Be told, before the first row, that targets come so many rows late, or up to so many in any order."""
        for child in self._children().values():
            child._expect_late(rows, pending)

    @abc.abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The state by name, without that of the models within, as arrays that can be written to."""

    def _children(self) -> dict[str, StreamModel]:
        """The models within, by their names in a snapshot."""
        return {}

    @abc.abstractmethod
    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        """The last input and the last target."""

    def _recall(self, y: FloatArray) -> None:
        """Remember y as the last target, where the memory is fed with targets."""
        for child in self._children().values():
            child._recall(y)

    def _note_target(self, y: FloatArray) -> None:
        """A target, (p,), has come late, or without a row that waits for it."""
        for child in self._children().values():
            child._note_target(y)

    def _remember(self, X: FloatArray) -> None:
        """Advance the memory by one row, (1, d), and change nothing else."""
        for child in self._children().values():
            child._remember(X)

    def _memory_arrays(self) -> list[FloatArray]:
        """What is remembered of the last rows, and not learned, as arrays that can be written to."""
        return [array for child in self._children().values() for array in child._memory_arrays()]

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        """So many futures of so many rows; models with a joint posterior let each follow one draw of the function."""
        return freerun.Independent(self, count)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        """Predict rows that would each come next, together."""
        raise ValueError(f"{type(self).__name__} has no joint posterior over several rows; {JOINT_MODELS}")

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict rows that would each come next, with the derivatives by their inputs, (n, p, d)."""
        raise ValueError(f"{type(self).__name__} has no derivatives by its inputs; {DERIVATIVE_MODELS}")

    def _refuses_free_run(self) -> str:
        """Why futures cannot be drawn, or nothing."""
        return next((why for child in self._children().values() if (why := child._refuses_free_run())), "")

    def _units(self) -> int:
        """Columns of the basis points that are units of a reservoir, not inputs; they come first."""
        return 0

    def _prior_mean(self, X: FloatArray) -> FloatArray | None:
        """What a model says of rows before any data, (n, 1); None: 0."""
        return None

    def _check_restored(self) -> None:
        self._check_numbers({name: array[None] for name, array in self._arrays().items()})
        for child in self._children().values():
            child._check_restored()

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        """Refuse arrays of models like this one that no stream leads to; each has a leading axis for the models."""

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

    # What users call.

    def predict_one(self, x: Any, *, time: Any = None, derivatives: bool = False) -> Prediction:
        """Predict the target of one row that would come next; the model does not change.

        Args:
            x: d numbers: an array, a list, a scalar when d = 1, one row of a DataFrame.
            time: of the row, not before the last learned one; models without a kernel over time take no notice. None:
                one after the last row.
            derivatives: whether to add ``mean_gradient`` and ``variance_gradient``, (d,) or (p, d): how the mean and
                the variance of the function change with x (docs/derivatives.md).
        """
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            X = inputs.row(x, self._shape.d)
            conditions = None if time is None else self._conditions_at(time, 1, many=False)
            if derivatives:
                return self._with_slopes(X, conditions, many=False)
            return self._shaped(self._started_for(X)._predict(X, conditions), many=False)
        finally:
            self._owner = owner

    def predict_many(self, X: Any, *, time: Any = None, derivatives: bool = False) -> Prediction[FloatArray]:
        """Predict rows that would each come next: the memory does not advance from one to the other.

        Args:
            X: (n, d) rows.
            time: (n,) times of the rows, in any order; see ``predict_one``.
            derivatives: whether to add gradients, (n, d) or (n, p, d); see ``predict_one``.
        """
        X = inputs.rows(X, self._d)
        conditions = None if time is None else self._conditions_at(time, len(X), many=True)
        if derivatives:
            return self._with_slopes(X, conditions, many=True)
        return self._shaped(self._started_for(X)._predict(X, conditions), many=True)

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
            x: d numbers.
            y: a number, or p numbers; None, NaN, NA or masked: the memory advances, nothing is learned or forgotten.
            noise: variance of this observation's noise, above 0, or p of them where outputs are separate; None: the
                model's own.
            time: when the row was observed, a number, datetime or datetime64; a model with ``half_life`` forgets by
                what has passed since the last learned row, one with a kernel over time learns what changes with it
                (None: one after the last row), all others take no notice.
        """
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            d, p, scalar, certain = self._shape
            X = inputs.row(x, d)
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

    def learn_many(self, X: Any, Y: Any, *, noise: Any = None, time: Any = None) -> None:
        """Learn rows in order; equal to the loop of learn_one.

        Args:
            X: (n, d) rows.
            Y: (n,) or (n, p) targets; None, NaN, NA or masked where missing.
            noise: variance of the observations' noise: one for all rows, (n,), or (n, p) where outputs are separate;
                None: the model's own.
            time: (n,) times of the rows; see ``learn_one``.
        """
        self._take_many(X, Y, report=False, noise=noise, time=time)

    def track(self, X: Any, Y: Any = None, *, noise: Any = None, time: Any = None) -> Prediction[FloatArray]:
        """Predict each row, then learn it; equal to the loop of predict_one and learn_one.

        Args:
            X: (n, d) rows.
            Y: (n,) or (n, p) targets; None: predict and advance the memory without learning.
            noise: of the observations that are learned, as in ``learn_many``; predictions are of observations with the
                model's own noise.
            time: (n,) times of the rows; see ``learn_one``.

        Returns:
            One Prediction of arrays, (n,) or (n, p).
        """
        prediction = self._take_many(X, Y, report=True, noise=noise, time=time)
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
            steps: rows ahead; with a kernel over time as far apart as the last two, or their times, (steps,).
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
        inputs = X if inputs is None else inputs
        alone = not (np.size(feedback) or self._feeds_itself or self._recalls_rows())
        if alone and (moment := self._moment()) is not None:
            return self._forecast_at(moment.next(steps) if isinstance(steps, int | np.integer) else steps, inputs)
        rows = freerun.next_rows(self, steps, feedback, inputs)
        return freerun.simulate(self, rows, feedback, trajectories, seed)

    def _moment(self) -> Moment | None:
        """Where the kernel over time stands; None: there is none."""
        return next((at for child in self._children().values() if (at := child._moment()) is not None), None)

    def _note_time(self, time: float) -> None:
        """The last row came at this time: a kernel over time goes on from there."""
        for child in self._children().values():
            child._note_time(time)

    def _recalls_rows(self) -> bool:
        """Whether what was seen of earlier rows is an input."""
        return any(child._recalls_rows() for child in self._children().values())

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

    @property
    def _cannot_forget_because(self) -> str:
        """Why forget() cannot be used, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._cannot_forget_because)), "")
        return f"{type(self).__name__} has no posterior that could fade; {FORGETTING_MODELS}"

    def _rows_until_settled(self) -> int:
        """How many rows from now on the model may still learn anew, so that forgetting would be undone."""
        return max((child._rows_until_settled() for child in self._children().values()), default=0)

    def _all_arrays(self) -> dict[str, np.ndarray]:
        """The state by name, with that of the models within."""
        named = dict(self._arrays())
        for name, child in self._children().items():
            named |= {f"{name}.{inner}": array for inner, array in child._all_arrays().items()}
        return named

    def _structure(self) -> dict[str, Any]:
        """What a snapshot says beside settings and arrays: models within that come and go, by name."""
        return {
            f"{name}.{inner}": value
            for name, child in self._children().items()
            for inner, value in child._structure().items()
        }

    def _rebuild(self, structure: dict[str, Any]) -> None:
        """Make the models within those of a snapshot, before their arrays are restored."""
        for name, child in self._children().items():
            head = f"{name}."
            child._rebuild({key.removeprefix(head): v for key, v in structure.items() if key.startswith(head)})

    def _family(self) -> Iterator[StreamModel]:
        """This model and all within it."""
        yield self
        for child in self._children().values():
            yield from child._family()

    def set_params(self, **params: Any) -> Self:
        """Change settings before the first row; ``kernel__lengthscale`` reaches into a part."""
        settings = self._merged(params)
        if self._d is not None:
            raise ValueError(
                "settings can be changed only before the first row; use model.clone().set_params(...) for a new model"
            )
        self.__init__(**settings)  # type: ignore[misc]
        return self

    # How calls become arrays.

    def _take_many(self, X: Any, Y: Any, report: bool, **given: Any) -> Prediction | None:
        """Take rows, with the noise, the time and the weight of each, by which its noise is divided, where given."""
        X = inputs.rows(X, self._shape.d)
        scalar, certain = self._shape.scalar, Y is not None or not report  # track alone goes without targets
        if certain:
            Y, scalar = inputs.targets(Y, len(X), self._shape.outputs, scalar)
        conditions = self._conditions(len(X), Y, **given, many=True)
        return self._take(X, Y, scalar, certain, many=True, report=report, conditions=conditions) if len(X) else None

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
    ) -> Prediction | None:
        """Advance; the first row, and the first target, tell the shape of all. Predictions are as users see them."""
        known = self._shape.covers(certain)
        with self._whole(known and len(X) == 1):
            if not known:
                self._begin(X, Y, scalar, certain, many=many)
            prediction = self._learn(X, Y, report, conditions)
            return self._shaped(prediction, many=many) if report and prediction is not None else None

    def _whole(self, quick: bool) -> undone_on_error | uninterrupted:
        """A block that is done whole or not at all; quick: it takes one row whose shape is known."""
        return uninterrupted() if quick and not self._may_fail() else undone_on_error(self)

    def _may_fail(self) -> bool:
        """Whether the next row may lead to more than learning it, which may fail: building or tuning a model."""
        return any(child._may_fail() for child in self._children().values())

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
        for one in self._family():
            one._refuse_past(conditions[:, TIME], many=many, follow=False)
        return conditions

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        """Refuse times at which this model alone cannot predict."""

    def _refuses_noise(self, p: int) -> str:
        """Why rows of p outputs cannot have a noise of their own, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._refuses_noise(p))), "")
        return f"{type(self).__name__} cannot weigh a row by its noise; {NOISE_MODELS}"

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray, many: bool) -> None:
        """Refuse the times of rows, of which some are learned, by which this model alone could not forget."""

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

    def _refuse_targets(self, Y: FloatArray, *, many: bool) -> None:
        """Refuse numbers that are no classes, or no counts."""
        for child in self._children().values():
            child._refuse_targets(Y, many=many)

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

    def _empty(self) -> Prediction:
        """The prediction of no rows, of the kind that this model makes."""
        return self._empty_like(Prediction(*(np.empty((0, 1)) for _ in range(3))))

    def _empty_like(self, prediction: Prediction) -> Prediction:
        """No rows of another model's predictions, in the shape of this one's."""
        shape = (0,) if self._shape.scalar else (0, self._p or 1)
        return prediction._each(lambda _: np.empty(shape))

    def _shaped(self, prediction: Prediction, *, many: bool) -> Prediction:
        """Arrays (n, p) as users see them: scalars, (p,), (n,) or (n, p)."""
        p = prediction.mean.shape[1]
        if p == 1 and many and not self._shape.scalar:
            return prediction

        def shaped(part: FloatArray) -> Any:
            if self._shape.scalar:
                return part[:, 0] if many else float(part[0, 0])
            part = part if part.shape[1] == p else np.repeat(part, p, axis=1)
            return part if many else part[0]

        return prediction._each(shaped)


guard(StreamModel, AT_ANY_TIME | QUICK, SHORT)

"""What a stream model has to provide, and what it may: the hooks that the rows of a call pass."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamgp.contract import frames
from streamgp.contract.conditions import Moment
from streamgp.contract.health import Change, Health, Swap
from streamgp.contract.joint import JointPrediction
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import Saved
from streamgp.settings import FloatArray

FORGETTING_MODELS = (
    "models that can forget are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, RecursiveGP, ISSGPR, IRFRR, "
    "RLSESN and OnlineGP, also within wrappers"
)
NOISE_MODELS = (
    "models that can are SOGP, OESGP, OIESGP, KRLS (with noise above 0), KRLST, SWKRLS, FBKRLS, RecursiveGP, ISSGPR, "
    "IRFRR, RLSESN, LocalGP, TimeGP and OnlineGP, all without adapt=, also within wrappers"
)
JOINT_MODELS = (
    "models that have one are OnlineGP and all recipes with a variance that are built on it, such as SOGP, KRLST and "
    "ISSGPR, also within wrappers. For one row at a time use predict_many"
)
DERIVATIVE_MODELS = (
    "models that have them are OnlineGP and all recipes that are built on it, such as SOGP, KRLST and ISSGPR, with "
    "Gaussian noise, also within Standardize, Lagged, Columns, Differenced, Calibrated, DriftAware and Delayed"
)


class Provided(Saved):
    """A stream model from within: what its kind provides. The defaults are those of a model that is made of others."""

    has_variance = True
    _names: frames.Names | None = None  # of inputs and targets that came in a data frame
    _shared: bool = True  # one covariance for all outputs
    _largest: float = np.inf  # number that is not refused
    _needs_time: bool = False  # forgets by the time between rows
    _sees_time: bool = False  # takes the times of rows where they have some, and needs none
    _observes: str = "numbers"  # or "classes", "counts"
    _without_inputs: bool = False  # rows may have no columns
    _feeds_itself: bool = False  # past targets are inputs without being handed over
    _looks_ahead: bool = False  # a row is learned by the target of a later one
    _one_step: bool = False  # a row is learned in one compiled call, which nothing interrupts
    _in_one_call: bool = False  # the same, and one call calibrates its prediction, too
    _bounded: bool = False  # predictions have more than a mean and variances
    _sleeps: bool = False  # has no say in the row that comes next
    _swaps: Sequence[Swap] = ()  # where, among the rows that were taken last, another model began to predict

    @abc.abstractmethod
    def _start(self, d: int, p: int) -> None:
        """Allocate for inputs of d columns and p outputs; a model that has seen no target yet keeps its memory."""

    @abc.abstractmethod
    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        """Take every row: predict it if asked to, then learn it under its conditions (conditions.py)."""

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

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        """In turn, learn the target of a row that was issued before, and issue another one.

        Args:
            learned: (n, d) rows whose targets come now, each h rows late.
            Y: (n, p) these targets.
            X: (n, d) rows that are issued.
            issued: (h + n, issued width) what h rows keep that were issued before; receives what these rows keep.
        """
        predictions: list[Any] = []
        for t in range(len(X)):
            self._resolve(learned[t : t + 1], Y[t : t + 1], issued[t : t + 1], None)
            prediction, issued[len(issued) - len(X) + t] = self._issue(X[t : t + 1])
            predictions.append(prediction)
        joined: Prediction = predictions[0]._followed_by(predictions[1:])
        return joined

    def _may_take_turns(self) -> bool:
        """Whether many rows may go in turn in fewer steps than one after the other."""
        return False

    def _take_turns(self, rows: FloatArray, Y: FloatArray, times: FloatArray) -> Prediction | None:
        """Of rows that come h rows before their targets take the first ones that can go together.

        Args:
            rows: (h + n, d + issued width + memory) of h rows that wait for their targets what it takes to learn them
                (wrappers/issuing.py), then n rows, of which the inputs are known; of the last h of those that are taken
                it receives the rest.
            Y: (n, p) targets of the first n of these.
            times: (n,) of the new rows, NaN where they have none.

        Returns:
            The prediction of the new rows that were taken; None: the next row has to go alone, and nothing has changed.
        """
        return None

    def _quick(self) -> bool:
        """Whether one row goes through without detours: nothing but numbers comes and goes, nothing is learned anew."""
        return False

    def _expect_late(self, rows: int, pending: int) -> None:
        """Be told, before the first row, that targets come this many rows late, or up to this many in any order."""
        for child in self._children().values():
            child._expect_late(rows, pending)

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

    # What is remembered of the last rows.

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

    def _memory_in_turn(self, X: FloatArray, Y: FloatArray, issued: FloatArray) -> FloatArray | None:
        """What is remembered before each of rows that are issued in turn with late targets, (n, numbers).

        None: these rows cannot go in turn.

        Args:
            X: (n, d) the rows.
            Y: (n, p) targets that come before each of them.
            issued: (h, issued width) what h rows keep that wait.
        """
        return None

    def _recalls_rows(self) -> bool:
        """Whether what was seen of earlier rows is an input."""
        return any(child._recalls_rows() for child in self._children().values())

    def _moment(self) -> Moment | None:
        """Where the kernel over time stands; None: there is none."""
        return next((at for child in self._children().values() if (at := child._moment()) is not None), None)

    def _note_time(self, time: float) -> None:
        """The last row came at this time: a kernel over time goes on from there."""
        for child in self._children().values():
            child._note_time(time)

    # What a model cannot do, and what it knows beforehand.

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        """Predict rows that would each come next, together."""
        raise ValueError(f"{type(self).__name__} has no joint posterior over several rows; {JOINT_MODELS}")

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        """Predict rows that would each come next, with the derivatives by their inputs, (n, p, d)."""
        raise ValueError(f"{type(self).__name__} has no derivatives by its inputs; {DERIVATIVE_MODELS}")

    def _refuses_free_run(self) -> str:
        """Why futures cannot be drawn, or nothing."""
        return next((why for child in self._children().values() if (why := child._refuses_free_run())), "")

    @property
    def _cannot_forget_because(self) -> str:
        """Why forget() cannot be used, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._cannot_forget_because)), "")
        return f"{type(self).__name__} has no posterior that could fade; {FORGETTING_MODELS}"

    def _rows_until_settled(self) -> int:
        """How many rows from now on the model may still learn anew, so that forgetting would be undone."""
        return max((child._rows_until_settled() for child in self._children().values()), default=0)

    def _may_fail(self) -> bool:
        """Whether the next row may lead to more than learning it, which may fail: building or tuning a model."""
        return any(child._may_fail() for child in self._children().values())

    def _refuses_noise(self, p: int) -> str:
        """Why rows of p outputs cannot have a noise of their own, or nothing."""
        if children := self._children().values():
            return next((why for child in children if (why := child._refuses_noise(p))), "")
        return f"{type(self).__name__} cannot weigh a row by its noise; {NOISE_MODELS}"

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        """Refuse times at which this model cannot predict; one that gives times of its own to those within can."""
        for child in self._children().values():
            child._refuse_past(time, many=many, follow=follow)

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray, many: bool) -> None:
        """Refuse the times of rows, of which some are learned, by which this model alone could not forget."""

    def _refuse_targets(self, Y: FloatArray, *, many: bool) -> None:
        """Refuse numbers that are no classes, or no counts."""
        for child in self._children().values():
            child._refuse_targets(Y, many=many)

    def _units(self) -> int:
        """Columns of the basis points that are units of a reservoir, not inputs; they come first."""
        return 0

    def _prior_mean(self, X: FloatArray) -> FloatArray | None:
        """What a model says of rows before any data, (n, 1); None: 0."""
        return None

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

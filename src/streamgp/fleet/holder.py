"""Holder: models of any kind, one object for each, that a process holds and calls one by one."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streamgp.contract import atomic, passing
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import LEARN, ONE, PREDICT
from streamgp.contract.loading import resume
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.snapshot import encoded_state, packed, unpacked
from streamgp.contract.within import check_restored
from streamgp.fleet.rows import Predicted, Rows, joined
from streamgp.settings import FloatArray

Result = TypeVar("Result")
Known = tuple[dict[str, np.ndarray], dict[str, Any]]  # arrays and structure, see Saved
Request = tuple[Any, ...]  # the name of a method, then its arguments
BEGIN = "begin"


class Failure(NamedTuple):
    """Why a request was not done for a model."""

    model: int
    error: BaseException


class Holder:
    """Models with the ids that they have in the fleet; those that another process holds stay untouched here."""

    _model: StreamModel  # as all begin
    _models: list[StreamModel | None]  # None: nobody has looked for it yet
    _before: list[StreamModel | None]
    _undoings: list[Callable[[], None]]
    _busy_with: int  # the model that was called last

    def begin(self, model: StreamModel, size: int) -> None:
        self._model, self._models = model, [None] * size

    def reply(self, request: Request) -> bytes:
        """The answer to a request of another process, the shape of rows before it; or a Failure."""
        shape, name, *given = request
        self._busy_with = -1
        try:
            if name != BEGIN:
                self._model._shape = shape
            return pickle.dumps(getattr(self, name)(*given), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:
            return pickle.dumps(Failure(self._busy_with, _as_told(error)), pickle.HIGHEST_PROTOCOL)

    # Rows.

    def run(self, rows: Rows, kind: int, kept: FloatArray | None) -> tuple[Predicted, FloatArray | None]:
        """Do the same operation on each row; the columns of its predictions, and what is kept."""
        if rows.conditions is not None and kind & LEARN:  # those that every model takes
            rows = rows._replace(conditions=np.vstack(self._each(rows, lambda model, own, _: _conditions(model, own))))

        def done(model: Any, own: Rows, j: int) -> Predicted:
            columns: Predicted
            if kept is not None:
                Y = None if kind & LEARN == 0 else model._screened(own.Y)
                columns = model._pass(ONE[kind], own.X, Y, own.conditions, kept[j : j + 1])
            elif kind & LEARN:
                columns = passing.learn(model, own.X, own.Y, bool(kind & PREDICT), own.conditions)
            else:
                columns = passing.predicted(model, own.X, _times_ahead(model, own))
            return columns

        found = self._each(rows, done)
        return joined(found) if kind & PREDICT else [], kept

    def _each(self, rows: Rows, work: Callable[[StreamModel, Rows, int], Result]) -> list[Result]:
        """What the work returns of each model, its rows, and which of the models of all rows it is."""
        found = []
        for j, i in enumerate(rows.models.tolist()):
            self._busy_with = i
            try:
                found.append(work(self._one(i), rows.between(j, j + 1), j))
            except ValueError as error:
                raise ValueError(f"model {i}: {error}") from error
        return found

    def _one(self, i: int) -> StreamModel:
        """Model i, for the rows that are known by now."""
        model, shape = self._models[i], self._model._shape
        if model is None:
            model = self._models[i] = self._model.clone()
        if model._shape != shape:
            model._prepare(shape)
        return model

    def cannot_fail(self, rows: Rows) -> bool:
        """Whether rows that have been checked are learned, and copies of the models would cost more than that."""
        if self._model._one_step:
            return True
        shape, models = self._model._shape, [self._models[i] for i in rows.models.tolist()]
        if not shape.certain or len(rows.X) != len(models):
            return False
        return all(model is not None and model._shape == shape and not model._may_fail for model in models)

    def keep_copies(self, rows: Rows) -> None:
        """Keep what brings the models of rows back to their present state, up to the next time."""
        self._before, self._undoings = list(self._models), []  # earlier copies go before others come
        found = (self._models[i] for i in rows.models.tolist())
        self._undoings = [atomic.undo_of(model) for model in found if model is not None]

    def undo(self) -> None:
        """Bring models back to the state of which there are copies."""
        self._models = self._before
        for one in self._undoings:
            one()

    # Models.

    def known_of(self, i: int) -> Known | None:
        """What model i knows; None: nothing."""
        model = self._models[i]
        return None if model is None else model._knowledge()[1:]

    def put(self, i: int, model: StreamModel) -> None:
        self._models[i] = model

    def add(self, count: int) -> None:
        self._models += [None] * count

    def keep(self, which: np.ndarray) -> None:
        self._models = [self._models[i] for i in which.tolist()]

    # What can be read.

    def written(self, which: Iterable[int]) -> list[bytes]:
        """What some of the models know, as bytes."""
        blank = _written(self._model)
        return [blank if (model := self._models[i]) is None else _written(model) for i in which]

    def read(self, written: dict[int, bytes]) -> None:
        """Take over what some of the models know, as bytes."""
        blank = _written(self._model)
        for i, one in written.items():
            if one != blank:
                model = self._model.clone()
                resume(model, self._model._shape, *unpacked(one), {})
                self._models[i] = model

    def rows_seen(self) -> np.ndarray:
        return np.array([0 if model is None else model.rows_seen for model in self._models], dtype=np.int64)

    def health(self) -> Health:
        found = [Health() if model is None else model.health for model in self._models]
        counts = np.array(found, dtype=np.int64).reshape(len(self._models), len(Health._fields))
        return Health(*counts.T)

    def broken(self) -> np.ndarray:
        """The ids of models in a state that no snapshot may have."""
        return np.array([i for i, model in enumerate(self._models) if model and _broken(model)], dtype=np.int64)

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        wrong = self.broken()
        for i in wrong.tolist():
            self._models[i] = None
        return wrong


def _conditions(model: StreamModel, rows: Rows) -> FloatArray:
    """The conditions of rows as the model takes them, or why it does not."""
    assert rows.conditions is not None
    noise, time, weight = rows.conditions[:, NOISE:], rows.conditions[:, TIME], rows.conditions[:, WEIGHT]
    named = ("noise", noise), ("time", time), ("weight", weight)
    given = {name: None if np.isnan(values).all() else values for name, values in named}
    taken = passing.conditions_of(model, len(rows.X), rows.Y, **given, many=len(rows.X) > 1)
    return rows.conditions if taken is None else taken  # these rows have none


def _times_ahead(model: StreamModel, rows: Rows) -> FloatArray | None:
    """The times at which rows are predicted, or why the model cannot."""
    given = rows.conditions
    return None if given is None else passing.conditions_at(model, given[:, TIME], len(rows.X), many=True)


def _written(model: StreamModel) -> bytes:
    _, arrays, structure = model._knowledge()
    return packed(*encoded_state(arrays, structure))


def _broken(model: StreamModel) -> bool:
    try:
        check_restored(model)
    except ValueError:
        return True
    return False


def _as_told(error: BaseException) -> BaseException:
    """An error as another process can be told it; where it arose is told unless it is the row's own fault."""
    if not isinstance(error, ValueError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error

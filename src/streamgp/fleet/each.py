"""EachEngine: the models of a fleet as they are alone, one object for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from streamgp.contract import atomic, passing
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import ISSUE, LEARN, ONE
from streamgp.contract.loading import resume
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction, joined
from streamgp.contract.snapshot import SnapshotError, encoded_state, packed, unpacked
from streamgp.fleet.rows import Rows
from streamgp.settings import FloatArray

Result = TypeVar("Result")
Known = tuple[dict[str, np.ndarray], dict[str, Any]]  # arrays and structure, see Saved


class EachEngine:
    """Holds models of any kind and calls them one by one.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
    """

    def __init__(self, model: StreamModel, size: int) -> None:
        self._model = model
        self._models: list[StreamModel | None] = [None] * size  # None: nobody has looked for it yet

    checks_rows = False
    busy_with = -1  # the model that was called last

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        rows = self._checked(rows)

        def learned(model: Any, own: Rows) -> Prediction:
            columns = passing.learn(model, own.X, own.Y, report, own.conditions)
            told: Prediction = model._told(list(columns))
            return told

        found = self._run(rows, learned)
        return joined(found) if report else None

    def predict(self, rows: Rows) -> Prediction:

        def predicted(model: Any, own: Rows) -> Prediction:
            told: Prediction = model._told(list(passing.predicted(model, own.X, _times_ahead(model, own))))
            return told

        return joined(self._run(rows, predicted))

    def kept_width(self) -> int:
        return (self._model._shape.d or 0) + self._model._kept_width

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        def issued(model: Any, own: Rows) -> tuple[FloatArray, FloatArray]:
            line, d = np.full((1, self.kept_width()), np.nan), own.X.shape[1]
            line[:, :d] = own.X
            return model._pass(ONE[ISSUE], own.X, None, None, line[:, d:]), line

        columns, kept = zip(*self._run(rows, issued), strict=True)
        return np.concatenate(columns, axis=1), np.concatenate(kept)

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        rows = self._checked(rows)
        places = {int(i): j for j, i in enumerate(rows.models)}

        def learn(model: StreamModel, own: Rows) -> None:
            assert own.Y is not None
            line, d = kept[places[int(own.models[0])], None], own.X.shape[1]
            x, Y = np.ascontiguousarray(line[:, :d]), model._screened(own.Y)
            model._pass(ONE[LEARN], x, Y, own.conditions, line[:, d:])

        self._run(rows, learn)

    def _checked(self, rows: Rows) -> Rows:
        """Rows under conditions that every model takes."""
        return rows if rows.conditions is None else rows._replace(conditions=np.vstack(self._run(rows, _conditions)))

    def _run(self, rows: Rows, work: Callable[[StreamModel, Rows], Result]) -> list[Result]:
        """What the work returns of each model and its rows, in their order."""
        found = []
        for j, i in enumerate(rows.models.tolist()):
            self.busy_with = i
            try:
                found.append(work(self._one(i), rows.between(j, j + 1)))
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

    def undo_of(self, rows: Rows) -> Callable[[], None] | None:
        return None if self.cannot_fail(rows) else self.undo_by_copies(rows)

    def cannot_fail(self, rows: Rows) -> bool:
        """Whether rows that have been checked are learned, and copies of the models would cost more than that."""
        if self._model._one_step:
            return True
        shape, models = self._model._shape, [self._models[i] for i in rows.models.tolist()]
        if not shape.certain or len(rows.X) != len(models):
            return False
        return all(model is not None and model._shape == shape and not model._may_fail() for model in models)

    def undo_by_copies(self, rows: Rows) -> Callable[[], None]:
        """What brings the models of rows back to their present state, of which it has copies."""
        before = list(self._models)
        found = [atomic.undo_of(model) for i in rows.models.tolist() if (model := before[i]) is not None]

        def undo() -> None:
            self._models = before
            for one in found:
                one()

        return undo

    # Models.

    @property
    def size(self) -> int:
        return len(self._models)

    def take(self, i: int, model: StreamModel) -> None:
        take_over(model, self.known_of(i))

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

    def arrays(self) -> dict[str, np.ndarray]:
        return as_arrays(self.written(range(self.size)))

    def written(self, which: Iterable[int]) -> list[bytes]:
        """What some of the models know, as bytes."""
        blank = _written(self._model)
        return [blank if (model := self._models[i]) is None else _written(model) for i in which]

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.read(dict(enumerate(as_written(saved, self.size))))

    def read(self, written: dict[int, bytes]) -> None:
        """Take over what some of the models know, as bytes."""
        blank = _written(self._model)
        for i, one in written.items():
            if one != blank:
                model = self._model.clone()
                resume(model, self._model._shape, *unpacked(one), {})
                self._models[i] = model

    def check_restored(self) -> None:
        """Each was checked when it was restored."""

    def rows_seen(self) -> np.ndarray:
        return np.array([0 if model is None else model.rows_seen for model in self._models], dtype=np.int64)

    def health(self) -> Health:
        found = [Health() if model is None else model.health for model in self._models]
        counts = np.array(found, dtype=np.int64).reshape(self.size, len(Health._fields))
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


def take_over(model: StreamModel, known: Known | None) -> None:
    """Let a single model that has learned nothing know what another one of its recipe and shape does."""
    if known is not None:
        arrays, structure = known
        model._rebuild(structure)
        model._restore(arrays)


def as_arrays(written: list[bytes]) -> dict[str, np.ndarray]:
    """What each model knows, one after the other, and where each ends: they need not be equally long."""
    ends = np.cumsum([len(one) for one in written], dtype=np.int64)
    return {"models": np.frombuffer(b"".join(written), dtype=np.uint8), "ends": ends}


def as_written(saved: dict[str, np.ndarray], size: int) -> list[bytes]:
    """What each of so many models knows, from as_arrays(); other arrays are refused."""
    kinds = {name: (array.dtype.name, array.ndim) for name, array in saved.items()}
    if kinds != {"models": ("uint8", 1), "ends": ("int64", 1)} or len(saved["ends"]) != size:
        raise SnapshotError(f"the snapshot does not hold {size} models one by one: it has {sorted(saved)}")
    models, ends = saved["models"].tobytes(), [0, *saved["ends"].tolist()]
    if ends != sorted(ends) or ends[-1] != len(models):
        raise SnapshotError("the models of the snapshot do not lie one after the other")
    return [models[start:end] for start, end in itertools.pairwise(ends)]


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
        model._check_restored()
    except ValueError:
        return True
    return False

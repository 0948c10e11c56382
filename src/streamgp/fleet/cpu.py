"""CpuEngine: the models of a fleet on the cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from streamgp.contract import passing
from streamgp.contract.lanes import ISSUE, LEARN, TAKE, TRACK, Lanes, listed
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction, joined
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.stackable import on, put, stands_for_many, take
from streamgp.fleet.rows import Rows
from streamgp.fleet.workers import Workers
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers

Result = TypeVar("Result")

CHECKED_AT_ONCE = 1000  # models of a file: some numbers more for each

# Room for models to come, as a share of those there are: adding them one by one then copies each a few times only. It
# takes no memory before it is used.
SPARE = 0.25


def fits(model: StreamModel) -> bool:
    """Whether one object can stand for many models like this one."""
    return stands_for_many(model)


class CpuEngine:
    """One model that stands for all, and runs their rows, the models shared out among threads.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        threads: that run models at the same time.
    """

    def __init__(self, model: StreamModel, size: int, threads: int) -> None:
        self._blank, self._model = self._prepared(model), self._prepared(model)
        self._workers = Workers(threads)
        self._stack = [(one, self._places_of(one)) for one in self._model._family()]
        self.size = 0
        self.add(size)

    checks_rows = False

    def _prepared(self, model: StreamModel) -> StreamModel:
        """A model of the same recipe and shape that has learned nothing."""
        twin = model.clone()
        twin._prepare(model._shape)
        return twin

    def _places_of(self, one: Any) -> Any:
        """Where the numbers of all models like one of the family are."""
        return Places(one._stack())

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Take rows that have been checked: predict each if asked to, then learn it; predictions are (n, p)."""

        def learned(model: Any, part: Rows) -> Prediction:
            Y = np.full((len(part.X), model._p or 1), np.nan) if part.Y is None else part.Y
            ops = listed(len(part.X), TRACK if report else TAKE)
            return _told(model, model._pass(ops, part.X, model._screened(Y), part.conditions, None))

        parts = self._each_part(rows, learned)
        return joined(parts) if report else None

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next."""
        return joined(
            self._each_part(rows, lambda model, part: _told(model, passing.predicted(model, part.X, part.conditions)))
        )

    def _each_part(self, rows: Rows, work: Callable[[Any, Rows], Result]) -> list[Result]:
        return self._workers.share(rows, lambda part: work(self._on(part), part))

    def _on(self, rows: Rows) -> Any:
        """The model that stands for those whose rows these are."""
        return on(self._model, Lanes(rows.models, rows.starts))

    # Late targets, at most one row of each model in a call.

    def kept_width(self) -> int:
        """How many numbers are kept of a row that waits for its target."""
        return (self._model._shape.d or 0) + self._model._kept_width

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Predict rows and advance memories by them; also what it takes to learn each row later, (n, numbers)."""
        model, d = self._on(rows), rows.X.shape[1]
        kept = np.full((len(rows.X), self.kept_width()), np.nan)
        kept[:, :d] = rows.X
        columns: FloatArray = model._pass(listed(len(rows.X), ISSUE), rows.X, None, None, kept[:, d:])
        return columns, kept

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        """Learn rows whose targets came late, as they were when they were issued.

        Args:
            rows: of which only models, Y and conditions count; the inputs are among what is kept.
            kept: what issue() returned.
        """
        model, d = self._on(rows), self._model._shape.d or 0
        ops, X = listed(len(kept), LEARN), np.ascontiguousarray(kept[:, :d])
        model._pass(ops, X, model._screened(rows.Y), rows.conditions, kept[:, d:])

    def undo_of(self, rows: Rows) -> None:
        """Nothing: rows that have been checked are learned."""

    # Models.

    def take(self, i: int, model: StreamModel) -> None:
        """Write the numbers of model i into a single model of the same recipe and shape."""
        take(self._model, i, model)

    def put(self, i: int, model: StreamModel) -> None:
        """Write the numbers of a single model of the same recipe and shape into model i."""
        put(self._model, i, model)

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""
        for one, places in self._stack:
            places.add(count)
            one._restack(places.arrays)
        self.size += count

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        for one, places in self._stack:
            places.keep(which)
            one._restack(places.arrays)
        self.size = len(which)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        return self._named()

    def _named(self) -> dict[str, np.ndarray]:
        """The state by the names that it has in a single model, each array with a leading axis for the models."""
        named: dict[str, np.ndarray] = {}
        prefix = ""
        for one in self._model._family():
            named |= {f"{prefix}{name}": array for name, array in one._stacked_arrays().items()}
            prefix += "inner."
        return named

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        arrays = self.arrays()
        refuse_unlike(saved, arrays)
        for name, array in arrays.items():
            array[...] = saved[name]

    def check_restored(self) -> None:
        """Refuse restored states that no stream leads to, many models at once where the models can."""
        if any(type(one)._check_restored is not StreamModel._check_restored for one in self._model._family()):
            single = CpuEngine._prepared(self, self._blank)
            for i in range(self.size):
                self.take(i, single)
                single._check_restored()
            return
        named = self._named()
        for start in range(0, self.size, CHECKED_AT_ONCE):
            prefix = ""
            for one in self._model._family():
                inner = f"{prefix}inner."
                one._check_numbers(
                    {
                        name.removeprefix(prefix): array[start : start + CHECKED_AT_ONCE]
                        for name, array in named.items()
                        if name.startswith(prefix) and not name.startswith(inner)
                    }
                )
                prefix = inner

    def _counters(self) -> np.ndarray:
        """The counters of the processes, which are the innermost models."""
        *_, process = self._model._family()
        counters: np.ndarray = process._numbers.records["counters"]
        return counters

    def rows_seen(self) -> np.ndarray:
        return np.array(self._counters()["rows_seen"])

    def clock(self) -> FloatArray:
        """When each model learned last; -inf: never."""
        *_, process = self._model._family()
        clock = process._numbers.stacked_array("clock")[:, 0]
        last: FloatArray = np.where(np.isnan(clock), -np.inf, clock).max(axis=1)
        return last

    def health(self) -> Health:
        """Repairs, an array with a number for each model."""
        counters = self._counters()
        counts: dict[str, np.ndarray] = {name: np.array(counters[name]) for name in counters.dtype.names or ()}
        counts |= self._fill_values()
        none = np.zeros(self.size, dtype=np.int64)
        return Health(*(counts.get(name, none) for name in Health._fields))  # type: ignore[arg-type]

    def _fill_values(self) -> dict[str, Any]:
        """What Standardize counts, if there is one."""
        for name, array in self._named().items():
            if name.removeprefix("inner.") == "screen":
                return {"fill_values": array[:, :, outliers.REFUSED].sum(axis=1).astype(np.int64)}
        return {}

    def broken(self) -> np.ndarray:
        """The ids of models with a number that is not finite where it has to be."""
        *around, process = self._model._family()
        prefix, wrong = "inner." * len(around), np.zeros(self.size, dtype=bool)
        for name, array in self.arrays().items():
            own = name.removeprefix(prefix)
            if name.startswith(prefix) and own in vars(process._numbers.state) and own not in process._may_overflow:
                wrong |= ~np.isfinite(array).reshape(self.size, -1).all(axis=1)
        return np.flatnonzero(wrong)

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        wrong = self.broken()
        for i in wrong.tolist():
            self.put(i, self._blank)
        return wrong


class Places:
    """The numbers of models of a kind, in arrays with room for models to come.

    Args:
        blank: those of one that has learned nothing, (1, ...) each.
    """

    def __init__(self, blank: list[np.ndarray]) -> None:
        self._blank, self._size = [array.copy() for array in blank], 0
        self._rooms = [_zeros(array, 0) for array in blank]

    @property
    def arrays(self) -> list[np.ndarray]:
        """Of the models there are."""
        return [room[: self._size] for room in self._rooms]

    def add(self, count: int) -> None:
        before, size = self._size, self._size + count
        for at, (blank, room) in enumerate(zip(self._blank, self._rooms, strict=True)):
            if size > len(room):
                self._rooms[at] = _zeros(blank, size + int(SPARE * before))
                self._rooms[at][:before] = room[:before]
            _fill(self._rooms[at][before:size], blank[0])
        self._size = size

    def keep(self, which: np.ndarray) -> None:
        self._rooms, self._size = [array[which] for array in self.arrays], len(which)


def _zeros(blank: np.ndarray, size: int) -> np.ndarray:
    """Zeros for this many models, of the kind of an array of one."""
    return np.zeros((size, *blank.shape[1:]), blank.dtype).view(type(blank))


def _fill(places: np.ndarray, blank: np.ndarray) -> None:
    """Write an array into places that hold zeros; what is zero stays untouched, and then takes no memory either."""
    if places.dtype.names:
        places[...] = blank
        return
    flat = blank.ravel()
    (where,) = flat.view(np.int64).nonzero()  # -0.0 is not zero in every bit
    places.reshape(len(places), flat.size)[:, where] = flat[where]


def _told(model: Any, columns: FloatArray) -> Prediction:
    """The prediction of all rows, (n, p) each column."""
    prediction: Prediction = model._told(list(columns))
    return prediction

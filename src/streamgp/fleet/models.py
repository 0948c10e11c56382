"""The models of a fleet: what is known of each, how it is saved, and how models come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Self, cast

import numpy as np

from streamgp.contract import passing
from streamgp.contract.atomic import uninterrupted
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.saved import Saved, Shape, refuse_unlike, restored
from streamgp.contract.snapshot import described, require
from streamgp.contract.turns import guard
from streamgp.contract.waiting import Waiting
from streamgp.cuda.exchange import NUMBERS
from streamgp.fleet import devices, own
from streamgp.fleet.alarms import Watch
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.cuda import RECORDS, CudaEngine, Stored
from streamgp.fleet.devices import Engine
from streamgp.fleet.each import EachEngine
from streamgp.fleet.rows import Rows, checked_ids
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import NAMES, Prior
from streamgp.settings import FloatArray, whole


class FleetHealth(NamedTuple):
    """Numerical repairs of a fleet.

    Args:
        total: of all models together.
        models: an array (size,) of each kind; ``models.repairs`` counts those of each model.
    """

    total: Health
    models: Health


class Models(Saved):
    """Models of one recipe, with the ids 0 to size - 1."""

    _recipe: StreamModel  # which has learned nothing
    _prototype: StreamModel  # prepared for the rows once they have come
    _prior: Prior | None
    _device: tuple[str, str]
    _threads: int | None
    _together: bool  # one object stands for all models
    _places: int
    _rate: Any
    _engine: Engine | None = None
    _waiting: Waiting | None = None  # until the first row has come
    _issued: np.ndarray  # how many rows have waited, and how many of them expired
    _watch: Watch | None = None  # until the first row has come

    @property
    def _own(self) -> dict[str, FloatArray]:
        """Hyperparameters of each model, by name, (size, 1) or (size, d)."""
        return {name: self._settings[name] for name in NAMES if self._settings[name] is not None}

    def _prepare(self, shape: Shape) -> None:
        if (self._shape.d, self._shape.p) != (shape.d, shape.p):
            (prototype, _), *_ = own.recipes(self._recipe, self._own, np.arange(min(1, self.size)))
            prototype._prepare(shape)
            devices.refuse_unfit(*self._device, prototype, self._own)
            engine = devices.engine(*self._device, prototype, self.size, self._threads)
            if self._own:
                self._begin_models(engine, np.arange(self.size), shape)
            if self._engine is not None:  # rows have come, but no target: memories are carried over
                for i in range(self.size):
                    single = self._single(i)
                    single._prepare(shape)
                    engine.put(i, single)
            if self._waiting is not None and len(self._waiting):
                raise ValueError(
                    f"a fleet that issues rows before its first target has one output; got {shape.p}. Learn some rows "
                    "first, then issue."
                )
            self._prototype, self._engine = prototype, engine
            if self._rate is not None:
                self._watch = Watch(self._rate, self.size, shape.p or 1)
            if self._places:
                self._waiting = Waiting(self._places, self._kept_width(engine, shape))
        self._prototype._shape = self._shape = shape

    def _kept_width(self, engine: Engine, shape: Shape) -> int:
        """How many numbers are kept of a row that waits: its model, its input, and what its model keeps.

        With alarms also its number, and what was predicted.
        """
        judged = 0 if self._watch is None else 1 + len(self._prototype._columns) * self._watch.outputs
        return 1 + (shape.d or 0) + engine.kept_width + judged

    def _begin(self, rows: Rows, scalar: bool) -> None:
        """Allocate for the first rows, or for the first target."""
        probe = self._recipe.clone()  # it may know how many outputs there are before the first target
        Y = None if rows.Y is None else rows.Y[:1]
        passing.begin(probe, rows.X[:1], Y, scalar, Y is not None, many=True)
        self._prepare(probe._shape)

    def _begin_models(self, engine: Engine, models: np.ndarray, shape: Shape) -> None:
        """Give models that have learned nothing the hyperparameters that are their own."""
        if isinstance(engine, CudaEngine):
            engine.begin(models, own.named(self._recipe, self._own, models, shape.d or 1))
            return
        for single, some in own.recipes(self._recipe, self._own, models):
            single._prepare(shape)
            for i in some.tolist():
                engine.put(i, single)

    def _knowledge(self) -> tuple[Shape, dict[str, np.ndarray], dict[str, Any]]:
        """A fleet that all models have left is as new, but for its tickets."""
        return super()._knowledge() if self.size or self._waiting is not None else (Shape(), {}, {})

    def _arrays(self) -> dict[str, np.ndarray]:
        assert self._engine is not None
        return self._engine.arrays() | self._own_arrays()

    def _own_arrays(self) -> dict[str, np.ndarray]:
        """The state that is not the models'."""
        named = {} if self._watch is None else self._watch.arrays()
        if self._waiting is not None:
            named |= {"waiting.issued": self._issued}
            named |= {"waiting.rows": self._waiting.rows, "waiting.tickets": self._waiting.tickets}
        return named

    def _restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over a saved state, also one of another device."""
        assert self._engine is not None
        mine = self._own_arrays()
        refuse_unlike({name: saved[name] for name in mine if name in saved}, mine)
        models = {name: array for name, array in saved.items() if name not in mine}
        here = np.dtype(NUMBERS[self._device[1]]).name if isinstance(self._engine, CudaEngine) else ""
        if here == (saved[RECORDS].dtype.name if RECORDS in saved else ""):  # the same kind of numbers
            self._engine.restore(models)
        else:
            self._take_over(models)
        for name, array in mine.items():
            array[...] = saved[name]

    def _take_over(self, saved: dict[str, np.ndarray]) -> None:
        """Models that another device has saved, one after the other."""
        assert self._engine is not None
        source: Stored | CpuEngine
        everybody = np.arange(self.size)
        if RECORDS in saved:
            named = own.named(self._recipe, self._own, everybody, self._shape.d or 1) if self._own else None
            source = Stored(cast(OnlineGP, self._prototype), self.size, saved, named)
        else:
            source = CpuEngine(self._prototype, self.size, 1)
            if self._own:
                self._begin_models(source, everybody, self._shape)
            source.restore(saved)
        for i in range(self.size):
            if i == 0 or self._own:  # otherwise one takes over after the other
                single = self._blank(i)
                single._prepare(self._shape)
            source.take(i, single)
            self._engine.put(i, single)

    def _check_restored(self) -> None:
        assert self._engine is not None
        if self._waiting is not None:
            require("waiting.issued", self._issued, at_least=0)
            require("waiting.rows", self._waiting.rows[:, 0], at_least=0, at_most=max(self.size - 1, 0))
            self._waiting.check_restored(int(self._issued[0]))
        if self._watch is not None:
            self._watch.check_restored()
        self._engine.check_restored()

    @contextmanager
    def _undone_on_error(self, rows: Rows) -> Iterator[None]:
        """Undo what a block that takes rows changed of models, of the rows that wait and of alarms, if it raises."""
        shape, prototype, engine = self._shape, self._prototype, self._engine
        beside, issued = (self._waiting, self._watch), self._issued.copy()
        undo = engine.undo_of(rows) if isinstance(engine, EachEngine) else None  # others cannot fail any more
        kept = {} if undo is None else {name: array.copy() for name, array in self._own_arrays().items()}
        with uninterrupted() if undo is None and engine is not None else nullcontext():
            try:
                yield
            except BaseException:
                with uninterrupted():
                    self._prototype, self._engine, (self._waiting, self._watch) = prototype, engine, beside
                    self._shape = self._prototype._shape = shape
                    self._issued[:] = issued
                    if undo is not None:
                        undo()
                        for name, array in self._own_arrays().items():
                            array[...] = kept[name]
                raise

    def _single(self, i: int) -> StreamModel:
        """Model i on its own."""
        single = self._blank(i)
        if self._engine is not None:
            single._prepare(self._shape)
            self._engine.take(i, single)
        return single

    def _blank(self, i: int) -> StreamModel:
        """Model i before its first row."""
        ((single, _),) = own.recipes(self._recipe, self._own, np.array([i]))
        return single

    def _clock(self) -> FloatArray:
        """When each model learned last; NaN or -inf: never."""
        if self._engine is None:
            return np.full(self.size, np.nan)
        assert isinstance(self._engine, CpuEngine)
        return self._engine.clock()

    # What comes and goes.

    def model(self, i: int) -> StreamModel:
        """Return model i as a single model, an independent copy."""
        return self._single(self._checked(i))

    def replace(self, i: int, model: StreamModel) -> None:
        """Put a copy of a single model of the same recipe in the place of model i."""
        i = self._checked(i)
        if not isinstance(model, StreamModel) or not _same_recipe(
            own.without(self._recipe, self._own, model), self._recipe
        ):
            raise ValueError(
                f"a model of a fleet must have the settings of all: {self._recipe!r}; got {model!r}. Take it from "
                "fleet.model(i), or build it with the same settings."
            )
        for name, values in self._own.items():
            if (given := own.usual(model, name).size) not in (1, values.shape[1]):
                raise ValueError(
                    f"the models of this fleet have {values.shape[1]} {name}{'s' * (values.shape[1] > 1)} each; got a "
                    f"model with {given}. Build the fleet with {name}= of shape (size, {given}), or the model with "
                    f"{'one' if values.shape[1] == 1 else f'one or {values.shape[1]}'}."
                )
        devices.refuse_unfit(*self._device, model, {})
        twin, mine = model.copy(), self._shape
        theirs = twin._shape
        if theirs.d is not None and mine.d is not None:
            both_known = theirs.certain and mine.certain
            if theirs.d != mine.d or (both_known and theirs.p != mine.p):
                raise ValueError(
                    f"the models of this fleet have {mine.d} inputs and {mine.p} outputs; got a model with {theirs.d} "
                    f"and {theirs.p}"
                )
        if theirs.d is not None and (mine.d is None or (theirs.certain and not mine.certain)):
            self._prepare(theirs)
        for name, values in self._own.items():
            values[i] = own.usual(model, name)
        if self._engine is not None:
            twin._prepare(self._shape)
            self._engine.put(i, twin)
        if self._watch is not None:
            self._watch.start_again(i)

    def add(self, n: int = 1) -> np.ndarray:
        """Add models that have learned nothing; return their ids, which follow those of the others."""
        whole("n", n)
        added = np.arange(self.size, self.size + n)
        begin = {} if self._prior is None else self._prior.start
        self._settings |= own.written(self._recipe, self._own, self.size + n, added, begin)
        if self._engine is not None:
            self._engine.add(n)
            if self._own:
                self._begin_models(self._engine, added, self._shape)
        if self._watch is not None:
            self._watch.add(n)
        self._settings["size"] += n
        return np.arange(self.size - n, self.size)

    def set(self, ids: Any, *, lengthscale: Any = None, variance: Any = None, noise: Any = None) -> None:
        """Give models hyperparameters of their own before their first row.

        Args:
            ids: (n,) of the models.
            lengthscale: of each of them, (n,) or (n, d); None: as before.
            variance: of the prior of each, (n,); None: as before.
            noise: of each, (n,); None: as before.
        """
        which = checked_ids(np.atleast_1d(np.asarray(ids)), self.size)
        named = {"lengthscale": lengthscale, "variance": variance, "noise": noise}
        given = own.checked(self._recipe, len(which), named)
        for i in which[self.rows_seen[which] > 0][:1].tolist():
            raise ValueError(f"model {i} has seen rows: hyperparameters are given to models before their first row")
        devices.refuse_unfit(*self._device, self._recipe, given)
        chosen = own.written(self._recipe, self._own, self.size, which, given)
        for name, values in chosen.items():
            width = self._own.get(name, own.usual(self._recipe, name)[None]).shape[1]
            if self._engine is not None and values.shape[1] != width:
                raise ValueError(
                    f"the models of this fleet have {width} {name}{'s' * (width > 1)} each; got {values.shape[1]}. Set "
                    "them before the fleet's first row, or build it with as many"
                )
        self._settings |= chosen
        if self._engine is not None:
            self._begin_models(self._engine, which, self._shape)

    def remove(self, ids: Any) -> None:
        """Remove models, one or several; the models after them move up, so that ids are again 0 to size - 1."""
        gone = checked_ids(np.atleast_1d(np.asarray(ids)), self.size)
        kept = np.setdiff1d(np.arange(self.size), gone)
        self._settings |= {name: values[kept] for name, values in self._own.items()}
        if self._engine is not None:
            self._engine.keep(kept)
        if self._watch is not None:
            self._watch.keep(kept)
        if self._waiting is not None:  # rows of models that are gone wait no longer
            waiting, used = self._waiting, np.flatnonzero(self._waiting.tickets >= 0)
            models = waiting.rows[used, 0].astype(np.int64)
            waiting.rows[used, 0] = np.searchsorted(kept, models)
            waiting.resolve(used[np.isin(models, gone)])
        self._settings["size"] = len(kept)

    def _checked(self, i: Any) -> int:
        return int(checked_ids(np.atleast_1d(np.asarray(i)), self.size)[0])

    def to(self, device: str, precision: str = "double") -> Self:
        """Return a fleet of the same models on another device.

        Args:
            device: "cpu" or "cuda".
            precision: "double" or "single".
        """
        settings = self._settings | {"device": device, "precision": precision}
        moved: Self = restored(type(self), settings, *self._knowledge())
        return moved

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return super().get_params(deep) | {"model": self._recipe.clone()}

    # What can be read.

    @property
    def _without_inputs(self) -> bool:
        return self._recipe._without_inputs

    @property
    def size(self) -> int:
        """How many models there are."""
        size: int = self._settings["size"]
        return size

    def __len__(self) -> int:
        return self.size

    @property
    def rows_seen(self) -> np.ndarray:
        """Rows of each model, with or without a target, (size,)."""
        return np.zeros(self.size, dtype=np.int64) if self._engine is None else self._engine.rows_seen()

    @property
    def health(self) -> FleetHealth:
        """Numerical repairs so far, in sum and of each model."""
        none = np.zeros(self.size, dtype=np.int64)
        models = Health(*(none,) * len(Health._fields)) if self._engine is None else self._engine.health()  # type: ignore[arg-type]
        return FleetHealth(Health(*(int(np.sum(kind)) for kind in models)), models)

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._waiting is None else len(self._waiting)

    @property
    def expired(self) -> int:
        """Rows whose targets had not come when newer rows took their places."""
        return int(self._issued[1])

    def broken(self) -> np.ndarray:
        """Return the ids of models whose numbers arithmetic cannot go on with; normally none."""
        return np.zeros(0, dtype=np.int64) if self._engine is None else self._engine.broken()

    def refresh(self) -> np.ndarray:
        """Make broken models anew, in double precision, from their basis; return their ids.

        One whose numbers are not finite starts again. In single precision this is done by itself now and then.
        """
        return np.zeros(0, dtype=np.int64) if self._engine is None else self._engine.refresh()


guard(Models, {"size", "clone", "get_params"})


def _same_recipe(model: StreamModel, other: StreamModel) -> bool:
    (mine, my_arrays), (theirs, their_arrays) = described(model), described(other)
    return (
        mine == theirs
        and my_arrays.keys() == their_arrays.keys()
        and all(np.array_equal(array, their_arrays[name]) for name, array in my_arrays.items())
    )

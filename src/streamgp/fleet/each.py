"""EachEngine: the models of a fleet as they are alone, one object for each, here or in processes of their own."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.atomic import uninterrupted
from streamgp.contract.lanes import PREDICT
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.snapshot import SnapshotError
from streamgp.contract.within import family, rebuild
from streamgp.fleet.holder import BEGIN, Holder
from streamgp.fleet.remote import Remotes
from streamgp.fleet.rows import Predicted, Rows, joined
from streamgp.settings import FloatArray

MODELS_EACH = 16  # that are worth a process, where nobody says how many there are to be


def how_many(model: StreamModel, size: int, threads: int | None, cores: int) -> int:
    """How many processes are to hold models like this one; 1: they stay in this one."""
    if not can_be_sent(model):
        return 1
    return max(1, min(cores, size // MODELS_EACH) if threads is None else min(threads, size))


def can_be_sent(model: StreamModel) -> bool:
    """Whether another process can be sent a model: it finds the classes, and settings have no functions."""
    if any(type(one).__module__ == "__main__" for one in family(model)):
        return False
    try:
        pickle.dumps(model)
    except Exception:
        return False
    return True


class Share(NamedTuple):
    """Rows of the models that one process holds."""

    process: int
    rows: Rows
    models: np.ndarray  # which of the models of all rows these are
    where: np.ndarray  # the rows are among all


class EachEngine:
    """Shares out models of any kind among processes; one holds them here.

    Python runs one thread at a time, except within compiled calls: models with many parts gain little from several
    threads.
    """

    checks = False  # whether it checks rows itself

    def __init__(self, model: StreamModel, size: int, processes: int = 1) -> None:
        self._model, self._processes = model, processes
        self._here, self._remotes = Holder(), Remotes(processes) if processes > 1 else None
        self._held_by = np.arange(size) % processes  # the number of its process, of each model
        self._ask_all(BEGIN, model, size)

    # Rows.

    def run(self, rows: Rows, kind: int, kept: FloatArray | None = None) -> Predicted:
        shares = self._shares(rows)
        given = [(share.rows, kind, None if kept is None else kept[share.models]) for share in shares]
        answers = self._ask_for(shares, "run", *given)
        for share, (_, lines) in zip(shares, answers, strict=True):
            if kept is not None:
                kept[share.models] = lines
        if not kind & PREDICT:
            return []
        return joined([columns for columns, _ in answers], [share.where for share in shares])

    @property
    def kept_width(self) -> int:
        return self._model._kept_width

    def undo_of(self, rows: Rows) -> Callable[[], None] | None:
        """What brings the models of rows back to their present state; None: no row that was checked can fail."""
        shares = self._shares(rows)
        given = [(share.rows,) for share in shares]
        if all(self._ask_for(shares, "cannot_fail", *given)):
            return None
        self._ask_for(shares, "keep_copies", *given)

        def undo() -> None:
            self._ask_for(shares, "undo", *((),) * len(shares))

        return undo

    def _shares(self, rows: Rows) -> list[Share]:
        """The rows of each process that has some."""
        if self._remotes is None:
            return [Share(0, rows, np.arange(len(rows.models)), np.arange(len(rows.X)))]
        held_by, shares = self._held_by[rows.models], []
        for k in np.unique(held_by).tolist():
            models = np.flatnonzero(held_by == k)
            some, where = rows.of(models)
            shares.append(Share(k, some, models, where))
        return shares

    # Requests, each the name of a method with what it takes.

    def _ask_for(self, shares: list[Share], name: str, *given: tuple[Any, ...]) -> list[Any]:
        """What the processes of shares answer."""
        return self._ask({share.process: (name, *each) for share, each in zip(shares, given, strict=True)})

    def _ask_all(self, *request: Any) -> list[Any]:
        return self._ask(dict.fromkeys(range(self._processes), request))

    def _ask_holder(self, i: int, *request: Any) -> Any:
        """What the process that holds model i answers."""
        (answer,) = self._ask({int(self._held_by[i]): request})
        return answer

    def _ask(self, requests: dict[int, tuple[Any, ...]]) -> list[Any]:
        if self._remotes is None:
            return [getattr(self._here, name)(*given) for name, *given in requests.values()]
        return self._remotes.ask(self._model._shape, requests)

    # Models.

    @property
    def size(self) -> int:
        return len(self._held_by)

    def take(self, i: int, model: StreamModel) -> None:
        if (known := self._ask_holder(i, "known_of", i)) is not None:
            arrays, structure = known
            rebuild(model, structure)
            model._restore(arrays)

    def put(self, i: int, model: StreamModel) -> None:
        self._ask_holder(i, "put", i, model)

    def add(self, count: int) -> None:
        with uninterrupted():
            self._ask_all("add", count)
            self._held_by = np.concatenate([self._held_by, self._fewest(count)])

    def _fewest(self, count: int) -> np.ndarray:
        """The processes that are to hold this many more models: those that have the fewest."""
        held, found = np.bincount(self._held_by, minlength=self._processes), np.empty(count, dtype=np.int64)
        for j in range(count):
            found[j] = np.argmin(held)
            held[found[j]] += 1
        return found

    def keep(self, which: np.ndarray) -> None:
        with uninterrupted():
            self._ask_all("keep", which)
            self._held_by = self._held_by[which]

    # What can be read.

    def _held(self) -> list[np.ndarray]:
        """The models that each process holds."""
        return [np.flatnonzero(self._held_by == k) for k in range(self._processes)]

    def arrays(self) -> dict[str, np.ndarray]:
        own, written = self._held(), [b""] * self.size
        answers = self._ask({k: ("written", some.tolist()) for k, some in enumerate(own)})
        for some, answer in zip(own, answers, strict=True):
            for i, one in zip(some.tolist(), answer, strict=True):
                written[i] = one
        return as_arrays(written)

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        written = as_written(saved, self.size)
        self._ask({k: ("read", {i: written[i] for i in some.tolist()}) for k, some in enumerate(self._held())})

    def check_restored(self) -> None:
        """Each was checked when it was restored."""

    def rows_seen(self) -> np.ndarray:
        return np.asarray(np.sum(self._ask_all("rows_seen"), axis=0))  # 0 of models that another one holds

    def health(self) -> Health:
        return Health(*np.sum(self._ask_all("health"), axis=0))

    def broken(self) -> np.ndarray:
        """The ids of models in a state that no snapshot may have."""
        return np.sort(np.concatenate(self._ask_all("broken")))

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        return np.sort(np.concatenate(self._ask_all("refresh")))


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

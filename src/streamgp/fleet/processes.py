"""ProcessesEngine: the models of a fleet as they are alone, one object for each, in processes of their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.atomic import uninterrupted
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction, joined
from streamgp.fleet.each import EachEngine, as_arrays, as_written, take_over
from streamgp.fleet.remote import BEGIN, Remotes
from streamgp.fleet.rows import Rows
from streamgp.settings import FloatArray

MODELS_EACH = 16  # that are worth a process, where nobody says how many there are to be


def how_many(model: StreamModel, size: int, threads: int | None, cores: int) -> int:
    """How many processes are to hold models like this one; 1: they stay in this one."""
    if not can_be_sent(model):
        return 1
    return max(1, min(cores, size // MODELS_EACH) if threads is None else min(threads, size))


def can_be_sent(model: StreamModel) -> bool:
    """Whether another process can be sent a model: it finds the classes, and settings have no functions."""
    if any(type(one).__module__ == "__main__" for one in model._family()):
        return False
    try:
        pickle.dumps(model)
    except Exception:
        return False
    return True


class Share(NamedTuple):
    """Rows of the models that one process holds.

    Args:
        process: its number.
        rows: of its models.
        models: which of the models of all rows these are.
        where: the rows are among all.
    """

    process: int
    rows: Rows
    models: np.ndarray
    where: np.ndarray


class ProcessesEngine:
    """Shares out models of any kind among processes.

    Python runs one thread at a time, except within compiled calls: models with many parts gain little from several
    threads. Every process holds its models under the ids that they have in the fleet, and does what EachEngine does.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        count: of processes.
    """

    checks_rows = False

    def __init__(self, model: StreamModel, size: int, count: int) -> None:
        self._model, self._remotes = model, Remotes(count)
        self._held_by = np.arange(size) % count  # the number of its process, of each model
        self._ask_all(BEGIN, model, size)

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        shares = self._shares(rows)
        found = self._ask_for(shares, "advance", *((share.rows, report) for share in shares))
        return _in_order(shares, found) if report else None

    def predict(self, rows: Rows) -> Prediction:
        shares = self._shares(rows)
        return _in_order(shares, self._ask_for(shares, "predict", *((share.rows,) for share in shares)))

    def kept_width(self) -> int:
        return EachEngine(self._model, 0).kept_width()

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        shares = self._shares(rows)
        columns, kept = zip(*self._ask_for(shares, "issue", *((share.rows,) for share in shares)), strict=True)
        order = _order(shares)
        return np.concatenate(columns, axis=1)[:, order], np.concatenate(kept)[order]

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        shares = self._shares(rows)
        self._ask_for(shares, "resolve", *((share.rows, kept[share.models]) for share in shares))

    def undo_of(self, rows: Rows) -> Callable[[], None] | None:
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
        return self._ask(dict.fromkeys(range(len(self._remotes)), request))

    def _ask_holder(self, i: int, *request: Any) -> Any:
        """What the process that holds model i answers."""
        (answer,) = self._ask({int(self._held_by[i]): request})
        return answer

    def _ask(self, requests: dict[int, tuple[Any, ...]]) -> list[Any]:
        return self._remotes.ask(self._model._shape, requests)

    # Models.

    @property
    def size(self) -> int:
        return len(self._held_by)

    def take(self, i: int, model: StreamModel) -> None:
        take_over(model, self._ask_holder(i, "known_of", i))

    def put(self, i: int, model: StreamModel) -> None:
        self._ask_holder(i, "put", i, model)

    def add(self, count: int) -> None:
        with uninterrupted():
            self._ask_all("add", count)
            self._held_by = np.concatenate([self._held_by, self._fewest(count)])

    def _fewest(self, count: int) -> np.ndarray:
        """The processes that are to hold this many more models: those that have the fewest."""
        held, found = np.bincount(self._held_by, minlength=len(self._remotes)), np.empty(count, dtype=np.int64)
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
        return [np.flatnonzero(self._held_by == k) for k in range(len(self._remotes))]

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


def _order(shares: list[Share]) -> np.ndarray:
    """Where each row is among those of the shares, one after the other."""
    return np.argsort(np.concatenate([share.where for share in shares]))


def _in_order(shares: list[Share], predictions: Sequence[Prediction]) -> Prediction:
    """What is predicted of the rows of shares, as one."""
    if len(shares) == 1:
        return predictions[0]
    order = _order(shares)
    return joined(list(predictions))._each(lambda values: values[order])

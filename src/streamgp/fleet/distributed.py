"""DistributedEngine: the models of a fleet as they are alone, one object for each, in processes of their own."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streamgp.contract.atomic import uninterrupted
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction, joined
from streamgp.fleet.each import EachEngine, as_arrays, take_over
from streamgp.fleet.remote import BEGIN, Remotes, Request
from streamgp.fleet.rows import Rows
from streamgp.settings import FloatArray

Result = TypeVar("Result")

# What it costs to move models: processes start at the same time, and load what is compiled; then each model is written
# by one process and read by another. About twice what Auto takes on 16 quiet cores, where 16 processes start in 2 s and
# a model is written in 10 ms.
SECONDS_TO_START, SECONDS_PER_MODEL = 5.0, 0.02


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


class DistributedEngine:
    """Holds models of any kind, and shares them out among processes once that pays.

    Python runs one thread at a time, except within compiled calls: models with many parts gain little from several
    threads. The models begin in this process, as in EachEngine. When processes of their own would have saved as much
    time as it takes to move there, they move, for good; models that cannot be sent to another process stay. Every
    process holds its models under the ids that they have in the fleet, and does what EachEngine does.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        threads: that run models at the same time, and how many processes.
    """

    checks_rows = False

    def __init__(self, model: StreamModel, size: int, threads: int) -> None:
        self._model, self._threads = model, threads
        self._here: EachEngine | None = EachEngine(model, size, threads)
        self._saved = 0.0  # seconds, if there had been processes; -inf: there cannot be any
        self._remotes: Remotes | None = None
        self._held_by = np.zeros(size, dtype=np.int64)  # the number of its process, of each model

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        if self._here is not None:
            return self._timed(rows, lambda here: here.advance(rows, report))
        shares = self._shares(rows)
        found = self._ask_for(shares, [("advance", share.rows, report) for share in shares])
        return _in_order(shares, found) if report else None

    def predict(self, rows: Rows) -> Prediction:
        if self._here is not None:
            return self._timed(rows, lambda here: here.predict(rows))
        shares = self._shares(rows)
        return _in_order(shares, self._ask_for(shares, [("predict", share.rows) for share in shares]))

    def kept_width(self) -> int:
        return EachEngine(self._model, 0, 1).kept_width()

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        if self._here is not None:
            return self._timed(rows, lambda here: here.issue(rows))
        shares = self._shares(rows)
        found = self._ask_for(shares, [("issue", share.rows) for share in shares])
        columns, kept = zip(*found, strict=True)
        order = _order(shares)
        return np.concatenate(columns, axis=1)[:, order], np.concatenate(kept)[order]

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        if self._here is not None:
            self._timed(rows, lambda here: here.resolve(rows, kept))
            return
        shares = self._shares(rows)
        self._ask_for(shares, [("resolve", share.rows, kept[share.models]) for share in shares])

    def undo_of(self, rows: Rows) -> Callable[[], None] | None:
        if self._here is not None and self._pays() and not self._move(self._here):
            self._saved = -math.inf
        if self._here is not None:
            return self._here.undo_of(rows)
        shares, single = self._shares(rows), len(rows.X) == len(rows.models)
        asked = [("cannot_fail", share.rows) for share in shares]
        if (single or self._model._one_step) and all(self._ask_for(shares, asked)):
            return None
        self._ask_for(shares, [("keep_copies", share.rows) for share in shares])

        def undo() -> None:
            self._ask_for(shares, [("undo",)] * len(shares))

        return undo

    def _timed(self, rows: Rows, work: Callable[[EachEngine], Result]) -> Result:
        """Do the work in this process, and count what processes would have saved."""
        assert self._here is not None
        began = time.perf_counter()
        result = work(self._here)
        self._saved += (time.perf_counter() - began) * (1.0 - 1.0 / min(self._threads, len(rows.models)))
        return result

    def _shares(self, rows: Rows) -> list[Share]:
        """The rows of each process that has some."""
        held_by, shares = self._held_by[rows.models], []
        for k in np.unique(held_by).tolist():
            models = np.flatnonzero(held_by == k)
            some, where = rows.of(models)
            shares.append(Share(k, some, models, where))
        return shares

    # Processes.

    def _pays(self) -> bool:
        return self._saved > SECONDS_TO_START + SECONDS_PER_MODEL * self.size

    def _move(self, here: EachEngine) -> bool:
        """Hand all models over to processes; whether that can be done."""
        if not can_be_sent(self._model):
            return False
        try:
            remotes = Remotes(min(self._threads, self.size))
        except OSError:
            return False
        held_by = np.arange(self.size) % len(remotes)
        asked: dict[int, list[Request]] = {k: [(BEGIN, self._model, self.size)] for k in range(len(remotes))}
        for i, model in here.known_models():
            asked[int(held_by[i])].append(("put", i, model))
        try:
            remotes.ask(self._model._shape, asked)
        except BaseException as error:
            remotes.end()
            if isinstance(error, Exception):
                return False
            raise
        with uninterrupted():
            self._remotes, self._held_by, self._here = remotes, held_by, None
        return True

    def _ask_for(self, shares: list[Share], requests: Sequence[Request]) -> list[Any]:
        """What the processes of shares answer, one request to each."""
        return self._ask({share.process: [one] for share, one in zip(shares, requests, strict=True)})

    def _ask_all(self, *request: Any) -> list[Any]:
        """What all processes answer to a request."""
        assert self._remotes is not None
        return self._ask({k: [request] for k in range(len(self._remotes))})

    def _ask(self, requests: dict[int, Sequence[Request]]) -> list[Any]:
        assert self._remotes is not None
        return self._remotes.ask(self._model._shape, requests)

    def _ask_holder(self, i: int, *request: Any) -> Any:
        """What the process that holds model i answers."""
        (answer,) = self._ask({int(self._held_by[i]): [request]})
        return answer

    # Models.

    @property
    def size(self) -> int:
        return len(self._held_by)

    def take(self, i: int, model: StreamModel) -> None:
        take_over(model, self._ask_holder(i, "known_of", i) if self._here is None else self._here.known_of(i))

    def put(self, i: int, model: StreamModel) -> None:
        if self._here is not None:
            self._here.put(i, model)
        else:
            self._ask_holder(i, "put", i, model)

    def add(self, count: int) -> None:
        with uninterrupted():
            if self._here is not None:
                self._here.add(count)
                self._held_by = np.zeros(self.size + count, dtype=np.int64)
            else:
                self._ask_all("add", count)
                self._held_by = np.concatenate([self._held_by, self._fewest(count)])

    def _fewest(self, count: int) -> np.ndarray:
        """The processes that are to hold this many more models: those that have the fewest."""
        assert self._remotes is not None
        held, found = np.bincount(self._held_by, minlength=len(self._remotes)), np.empty(count, dtype=np.int64)
        for j in range(count):
            found[j] = np.argmin(held)
            held[found[j]] += 1
        return found

    def keep(self, which: np.ndarray) -> None:
        with uninterrupted():
            if self._here is not None:
                self._here.keep(which)
            else:
                self._ask_all("keep", which)
            self._held_by = self._held_by[which]

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        if self._here is not None:
            return self._here.arrays()
        assert self._remotes is not None
        own = [np.flatnonzero(self._held_by == k).tolist() for k in range(len(self._remotes))]
        answers = self._ask({k: [("written", some)] for k, some in enumerate(own)})
        written = [b""] * self.size
        for some, answer in zip(own, answers, strict=True):
            for i, one in zip(some, answer, strict=True):
                written[i] = one
        return as_arrays(written)

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        here = EachEngine(self._model, self.size, self._threads)
        here.restore(saved)
        self._here, self._remotes = here, None

    def check_restored(self) -> None:
        """Each was checked when it was restored."""

    def rows_seen(self) -> np.ndarray:
        if self._here is not None:
            return self._here.rows_seen()
        return np.asarray(np.sum(self._ask_all("rows_seen"), axis=0))  # 0 of models that another one holds

    def health(self) -> Health:
        if self._here is not None:
            return self._here.health()
        return Health(*np.sum(self._ask_all("health"), axis=0))

    def broken(self) -> np.ndarray:
        """The ids of models in a state that no snapshot may have."""
        return self._here.broken() if self._here is not None else np.sort(np.concatenate(self._ask_all("broken")))

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        return self._here.refresh() if self._here is not None else np.sort(np.concatenate(self._ask_all("refresh")))


def can_be_sent(model: StreamModel) -> bool:
    """Whether another process can be sent a model: it finds the classes, and settings have no functions."""
    if any(type(one).__module__ == "__main__" for one in model._family()):
        return False
    try:
        pickle.dumps(model)
    except Exception:
        return False
    return True


def _order(shares: list[Share]) -> np.ndarray:
    """Where each row is among those of the shares, one after the other."""
    return np.argsort(np.concatenate([share.where for share in shares]))


def _in_order(shares: list[Share], predictions: Sequence[Prediction]) -> Prediction:
    """What is predicted of the rows of shares, as one."""
    if len(shares) == 1:
        return predictions[0]
    order = _order(shares)
    return joined(list(predictions))._each(lambda values: values[order])

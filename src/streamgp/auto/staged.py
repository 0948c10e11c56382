"""Staged models: what predicts is built anew, or changed, after given numbers of rows, from the last rows."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from streamgp.auto.background import Job, has_room
from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract import passing
from streamgp.contract.conditions import TIME, part
from streamgp.contract.freerun import Trajectories
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Change, Relevance, Row, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray
from streamgp.tuning.tune import NoEvidenceError, fit_prefix
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper, joined

FEWEST = 30  # rows from which hyperparameters can be found at all
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search
# What is to change after some rows is built from the first four fifths of them while the others are answered.
BUILT_FROM = 0.8


class Chosen(NamedTuple):
    """Which models were chosen, and why.

    Args:
        names: of the models, the best first.
        model: how it was built.
        reason: a sentence.
        scores: by candidate, the root mean squared error on the later of the first rows, in units of the target.
    """

    names: list[str]
    model: str
    reason: str
    scores: dict[str, float]

    @property
    def name(self) -> str:
        """For people."""
        return " + ".join(self.names)

    def written(self) -> list[Any]:
        """As a snapshot has it."""
        return [*self[:3], [list(pair) for pair in self.scores.items()]]

    @classmethod
    def read(cls, written: Any) -> Chosen | None:
        """What written() returned, or None."""
        if written is None:
            return None
        names, model, reason, scores = written
        return cls(names, model, reason, {str(name): float(score) for name, score in scores})


class Rows(NamedTuple):
    """The last rows.

    Args:
        X: (n, d) inputs.
        Y: (n, p) targets, NaN where missing.
        time: (n,) times, if models forget by it.
        missed: (n, p) errors of what was predicted, NaN where unknown.
    """

    X: FloatArray
    Y: FloatArray
    time: FloatArray | None
    missed: FloatArray

    def sorted_by(self, column: int) -> Rows:
        """The same rows, in the order of a column."""
        order = np.argsort(self.X[:, column], kind="stable")
        time = None if self.time is None else self.time[order]
        return Rows(self.X[order], self.Y[order], time, self.missed[order])


class Task(NamedTuple):
    """What is being built from the rows so far, part by part.

    Args:
        start: the row after which it began.
        begin: the row after which the rows begin that it is built from.
        dues: rows after which the parts that are still to come are taken over, one after each.
        parts: those parts, by names.
    """

    start: int
    begin: int
    dues: tuple[int, ...]
    parts: tuple[tuple[str, ...], ...]

    @classmethod
    def until(cls, due: int, start: int, begin: int, parts: Sequence[Sequence[str]]) -> Task:
        """Parts that are taken over one after the other, the last one after the row that is due."""
        dues = tuple(start + (i + 1) * (due - start) // len(parts) for i in range(len(parts)))
        return cls(start, begin, dues, tuple(tuple(names) for names in parts))

    @property
    def rest(self) -> Task | None:
        """Without the first part; None: nothing is left."""
        return self._replace(dues=self.dues[1:], parts=self.parts[1:]) if self.parts[1:] else None


class Staged(StreamModel):
    """A stream model that keeps its last rows, and is built anew or changed after some of them.

    What takes long is built in the background from the rows up to one row, and taken over after a later one, with
    what came in between: the numbers are the same however long it takes.
    """

    _bounded = True
    _model: Calibrated  # that predicts
    _ahead: int = 0  # rows between a row and its target
    _room: int  # rows that are kept
    # (room, d + 1 + 2 p) inputs, time, targets and errors of the last rows, each at its number modulo room
    _kept: FloatArray
    _seen: np.ndarray  # (1,) rows so far
    chosen: Chosen | None = None
    _background: bool = True  # whether a thread builds; if not, it is done when it is due
    _task: Task | None = None  # what is being built
    _jobs: tuple[Job[Any], ...] = ()  # its parts; none before the thread has them
    _next: float = -1  # the next row after which something changes; -1: not known at present
    doing: Callable[[str], None] = staticmethod(lambda _: None)  # told what takes seconds

    # What a staged model has to provide.

    @abc.abstractmethod
    def _first(self, d: int) -> Calibrated:
        """What predicts from the first row on."""

    @abc.abstractmethod
    def _changes_after(self, row: int) -> float:
        """The first row after this one after which something changes."""

    @abc.abstractmethod
    def _change(self) -> None:
        """Change what is due after the rows so far."""

    @abc.abstractmethod
    def _works(self, task: Task) -> list[Callable[[], Any]]:
        """How each part of a task is built, in a thread that sees no change of this model."""

    def _watch(self, X: FloatArray, y: FloatArray, mean: FloatArray) -> None:
        """See rows, their targets and what was predicted of them, before they are kept."""

    # Rows.

    def _start(self, d: int, p: int) -> None:
        kept = np.full((self._room, d + 1 + 2 * p), np.nan)
        if self._d is None:
            self._model, self._seen = self._first(d), np.zeros(1, dtype=np.int64)
        else:  # rows have come, but no target
            kept[:, : d + 1] = self._kept[:, : d + 1]
            self._jobs = ()
        self._kept = kept
        self._model._prepare(Shape(d, p, scalar=False, certain=True))

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        predictions: list[Any] = []
        start, n = 0, len(X)
        while start < n:
            stop = start + self._before_change(n - start)
            targets, given = None if Y is None else Y[start:stop], part(conditions, start, stop)
            prediction: Any = self._model._advance(X[start:stop], targets, True, given)
            predictions.append(prediction)
            self._keep(X[start:stop], targets, prediction.mean, given)
            start = stop
        return self._as_shown(joined(predictions)) if report else None

    @property
    def next_change(self) -> float:
        """The next row after which something changes."""
        if self._next < 0:
            self._next = self._changes_after(int(self._seen[0]))
        return self._next

    def _before_change(self, n: int) -> int:
        """How many of the next n rows come before something may change."""
        return int(min(n, self.next_change - int(self._seen[0])))

    def _changes_next(self) -> bool:
        return int(self._seen[0]) + 1 == self.next_change

    def _may_fail(self) -> bool:
        return self._changes_next() or super()._may_fail()

    def _quick(self) -> bool:
        return self._d is not None and not self._may_fail() and self._model._quick()

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        row = self._model._row(X, Y)
        if Y is not None:
            self._keep(X, Y, row.mean, None)
        return row

    def _told(self) -> Prediction:
        return self._model._told()

    def _keep(self, X: FloatArray, Y: FloatArray | None, mean: FloatArray, conditions: FloatArray | None) -> None:
        """Keep rows that were predicted and learned; change what is due after them."""
        n, due = len(X), self.next_change
        targets = np.full_like(mean, np.nan) if Y is None else Y
        self._watch(X, targets[:, 0], mean[:, 0])
        last, kept, (d, p) = int(self._seen[0]) + n, min(n, self._room), (X.shape[1], mean.shape[1])
        if n == p == 1 and conditions is None:  # most often, in fewer steps
            one, y = self._kept[(last - 1) % self._room], targets.item()
            one[:d], one[d], one[d + 1], one[d + 2] = X[0], np.nan, y, y - mean.item()
        else:
            where = np.arange(last - kept, last) % self._room
            self._kept[where, :d] = X[n - kept :]
            self._kept[where, d] = np.nan if conditions is None else conditions[n - kept :, TIME]
            self._kept[where, d + 1 : d + 1 + p] = targets[n - kept :]
            self._kept[where, d + 1 + p :] = (targets - mean)[n - kept :]
        self._seen[0] = last
        if last == due:
            self._change()
            self._next = -1
        task = self._task if self._background and not self._jobs else None
        if task is not None and has_room(len(task.parts)):  # otherwise after the next row, or when it is due
            self._jobs = tuple(Job(work) for work in self._works(task))

    @property
    def _due(self) -> int:
        """The row after which the next part of what is being built is taken over; -1: there is none."""
        return -1 if self._task is None else self._task.dues[0]

    def _taken(self) -> tuple[Any, Rows]:
        """The next part of what is being built, and the rows since it began, which it has not learned."""
        task: Any = self._task
        try:
            built = self._jobs[0].result() if self._jobs else self._works(task)[0]()
        except Exception as error:
            error.add_note(f"{type(self).__name__} met this when it built models from its first {task.start:,} rows.")
            raise
        self._task, self._jobs = task.rest, self._jobs[1:]
        return built, self._rows_between(task.start, int(self._seen[0]))

    def _aside(self) -> Self:
        """The same model for another thread, which does not see what becomes of this one."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _rows_between(self, start: int, stop: int) -> Rows:
        """Rows that came after this many, as far as they are kept, oldest first."""
        d, p, start = self._d or 0, self._p or 1, max(start, int(self._seen[0]) - self._room)
        kept = self._kept[np.arange(start, stop) % self._room]
        X, time, targets, missed = kept[:, :d], kept[:, d], kept[:, d + 1 : d + 1 + p], kept[:, d + 1 + p :]
        return Rows(X, targets.copy(), time if self._needs_time else None, missed)

    def _as_shown(self, prediction: Prediction) -> Prediction:
        """What users see of a prediction."""
        return prediction

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        return self._as_shown(self._model._predict(X, conditions))

    # Late targets: the mean that was issued is what the row is judged by.

    def _issued_width(self, p: int) -> int:
        return p + self._model._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        prediction, issued = self._model._issue(X, conditions)
        return self._as_shown(prediction), np.concatenate([prediction.mean, issued], axis=1)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        mean, rest = issued[:, : Y.shape[1]], issued[:, Y.shape[1] :]
        self._model._resolve(X, Y, rest, conditions)
        self._keep(X, Y, mean, conditions)

    def _turns(self, n: int) -> int:
        """How many of the next n rows may go in turn; none after which something changes."""
        if self._p != 1 or not self._model._may_take_turns():
            return 0
        many = self._before_change(n)
        return many - (int(self._seen[0]) + many == self.next_change)

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        prediction = self._model._in_turn(learned, Y, X, issued[:, 1:])
        issued[len(issued) - len(X) :, :1] = prediction.mean
        self._keep(learned, Y, issued[: len(X), :1], None)
        return self._as_shown(prediction)

    # The state.

    def _children(self) -> dict[str, StreamModel]:
        return {"model": self._model}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"kept": self._kept, "seen": self._seen}

    def _structure(self) -> dict[str, Any]:
        own = {"model": self._model.clone(), "chosen": None if self.chosen is None else self.chosen.written()}
        own["task"] = None if self._task is None else list(self._task)
        return own | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        model = structure["model"]
        if not isinstance(model, Calibrated):
            raise SnapshotError(f"the snapshot's model must be a Calibrated one; it is {model!r}")
        self._model = model
        self._model._expect_late(self._ahead, 0)
        self._model._prepare(self._model_shape())
        self.chosen = Chosen.read(structure["chosen"])
        self._next = -1
        self._task = None if structure["task"] is None else _task_of(*structure["task"])
        super()._rebuild(structure)

    def _model_shape(self) -> Shape:
        return self._shape._replace(scalar=False, certain=True)

    def _check_restored(self) -> None:
        require("rows seen", self._seen, at_least=0)
        if self._task is not None:
            require("rows seen", self._seen, at_least=self._task.start, at_most=self._due - 1)
        super()._check_restored()

    def _empty(self) -> Prediction:
        return passing.empty_like(self, self._model._empty())

    # What can be read, and the rest.

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return self._model._trajectories(count, steps)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._model._joint(X, conditions)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._model._last_row()

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._seen[0])

    def _shown(self) -> StreamModel:
        """The model whose basis, size, hyperparameters... can be read."""
        return self._model

    @property
    def size(self) -> int:
        return self._shown().size

    @property
    def basis(self) -> FloatArray:
        return self._shown().basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._shown().hyperparameters

    def relevance(self) -> Relevance:
        return self._shown().relevance()

    @property
    def last_change(self) -> Change:
        return self._shown().last_change


def _task_of(start: Any, begin: Any, dues: Any, parts: Any) -> Task:
    """A task as a snapshot has it, in lists."""
    names = tuple(tuple(str(name) for name in part) for part in parts)
    task = Task(int(start), int(begin), tuple(int(due) for due in dues), names)
    if not task.dues or len(task.dues) != len(names) or not 0 <= task.begin <= task.start <= min(task.dues):
        raise SnapshotError(f"the snapshot's task cannot be of a stream: {task}")
    return task


def innermost(model: StreamModel) -> StreamModel:
    """The model in the middle of wrappers, as they were given it."""
    while isinstance(model, Wrapper):
        model = model._pristine
    return model


def first_rows(n: int, least: int = FEWEST) -> int:
    """Of n rows, how many what changes after them is built from; at least this many, if there are."""
    return min(n, max(least, int(BUILT_FROM * n)))


def hyperparameters(model: StreamModel, X: FloatArray, Y: FloatArray) -> FullGP | SSGPR | None:
    """What the first rows say of a model for standard units; None where it has nothing to find."""
    evidence = Evidence(restarts=0, iterations=ITERATIONS)
    try:
        return fit_prefix(Standardize(model, warmup=max(len(Y), 2)), X, Y, evidence, rows=TUNED_ROWS)
    except NoEvidenceError:
        return None

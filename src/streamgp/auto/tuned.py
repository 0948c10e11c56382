"""Tuned: one stream model of the user's choice, in standard units, calibrated, and tuned on its first rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from streamgp.auto.background import Job, has_room
from streamgp.auto.choosing import BUILT_FROM, Chosen
from streamgp.auto.lines import FEWEST
from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract import freerun
from streamgp.contract.conditions import TIME
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.model import Change, Health, Relevance, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray, number, switch, whole
from streamgp.tuning.tune import NoEvidenceError, fit_prefix, with_hyperparameters
from streamgp.wrappers import outliers
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper

EARLY = 5  # hyperparameters are first found on this fraction of the warm-up's rows
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search


class Tuned(StreamModel):
    """A stream model in standard units, calibrated, and tuned on its first rows.

    It predicts from the first row on with the hyperparameters it was given. After a fifth of the warm-up, and again at
    its end, a new model takes over that has learned all rows so far. Its hyperparameters are found by the evidence of
    the first four fifths of them, in the background while the others are answered. With ``drift`` it notices when its
    errors grow, and forgets.

    Args:
        model: the stream model, which has learned nothing, for inputs and targets in standard units.
        level: how much of the observations the interval is to hold, above 0 and below 1.
        warmup: rows on which hyperparameters are found, at least 10.
        tune: whether they are found at all; if not, only the units are.
        drift: whether to look for changes, if the model can forget.
        screen: whether targets far beyond all others, such as fill values, count as missing (see Standardize).
        made_up: first rows whose inputs are not to be built upon, such as lags from before the first target.
        background: whether a thread tunes while rows are answered; the numbers are the same.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 100, (300, 1))
        >>> y = 1000 * np.sin(X[:, 0] / 10) + 10 * rng.standard_normal(300)
        >>> model = sg.Tuned(sg.SOGP(), warmup=100)
        >>> p = model.track(X, y)
        >>> bool(np.abs(p.mean - y)[-100:].mean() < 30), model.chosen.reason
        (True, 'as requested')
    """

    has_variance = True
    _model: Calibrated  # that predicts
    _rows: FloatArray  # (warmup, d + 1 + p) inputs, times and targets of the first rows
    _seen: np.ndarray  # (1,) rows that are over
    _job: Job[Calibrated] | None = None  # what the thread builds
    chosen: Chosen | None = None
    doing: Callable[[str], None] = staticmethod(lambda _: None)  # told what takes seconds

    def __init__(
        self,
        model: StreamModel,
        *,
        level: float = 0.9,
        warmup: int = 1000,
        tune: bool = True,
        drift: bool = True,
        screen: bool = True,
        made_up: int = 0,
        background: bool = True,
    ) -> None:
        if not isinstance(model, StreamModel) or model.rows_seen:
            raise TypeError(f"model must be a stream model such as KRLST() that has learned nothing; got {model!r}")
        self._settings["model"] = self._prototype = model.clone()
        self._level = number("level", level, above=0)
        self._warmup = whole("warmup", warmup, at_least=10)
        self._tune, self._drift, self._made_up = tune, drift, whole("made_up", made_up, at_least=0)
        self._background = switch("background", background)
        early = max(10, warmup // EARLY)
        # After how many rows a model is built that takes over after how many.
        self._starts = {first_rows(early): early, max(early, first_rows(warmup)): warmup}
        self._needs_time, self._shared, self._observes = model._needs_time, model._shared, model._observes
        self._without_inputs, self._feeds_itself = model._without_inputs, model._feeds_itself
        self._screens = switch("screen", screen) and self._observes == "numbers"
        self._model = self._wrapped(self._prototype.clone(), early)

    # The state.

    def _start(self, d: int, p: int) -> None:
        rows = np.full((self._warmup, d + 1 + p), np.nan)
        if self._d is None:
            self._model = self._wrapped(self._prototype.clone(), min(self._starts.values()))
            self._seen = np.zeros(1, dtype=np.int64)
        else:  # rows have come, but no target
            rows[:, : d + 1], self._job = self._rows[:, : d + 1], None
        self._rows, self._screen = rows, np.zeros((p, outliers.NUMBERS))
        self._model._prepare(self._inner_shape(d, p))

    def _inner_shape(self, d: int, p: int) -> Shape:
        return Shape(d, p, scalar=False, certain=True, ahead=self._ahead)

    def _children(self) -> dict[str, StreamModel]:
        return {"model": self._model}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self._rows, "seen": self._seen, "screen": self._screen}

    def _structure(self) -> dict[str, Any]:
        chosen = None if self.chosen is None else self.chosen.written()
        return {"model": self._model.clone(), "chosen": chosen} | super()._structure()

    def _rebuild(self, structure: dict[str, Any]) -> None:
        model = structure["model"]
        if not isinstance(model, Calibrated):
            raise SnapshotError(f"the snapshot's model must be a Calibrated one; it is {model!r}")
        self._model, self.chosen = model, Chosen.read(structure["chosen"])
        self._model._prepare(self._inner_shape(self._d or 0, self._p or 1))
        super()._rebuild(structure)

    def _check_restored(self) -> None:
        outliers.check(self._screen)
        require("rows seen", self._seen, at_least=0)
        require("first rows", self._rows[~np.isnan(self._rows)])
        super()._check_restored()

    # Rows.

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        d = self._d or 0
        if kept is not None:  # a row that waits keeps its inputs, too
            new = ops[ops[:, 1] & LEARN == 0, 0]
            kept[new, 1 : 1 + d] = X[new]
        within = None if kept is None else kept[:, 1 + d :]
        if not len(ops):
            return self._model._pass(ops, X, Y, conditions, within)
        out, start = np.empty((0, len(X), self._p or 1)), 0
        while start < len(ops):
            stop = self._until(ops, start)
            given = None if conditions is None else conditions[start:stop]
            if kept is not None:
                self._note_model(ops[start:stop], X, kept)
            first = self._keep(ops[start:stop], X, Y, given, kept)
            said = self._model._pass(ops[start:stop], X, Y, given, within)
            told = ops[start:stop][ops[start:stop, 1] & PREDICT != 0, 0]
            if not start:
                out = np.full(said.shape, np.nan)
            out = out[: len(said)]  # components come last, and not from all models
            out[:, told] = said[: len(out), told]
            if first != int(self._seen[0]):
                self._change()
            start = stop
        return out

    def _note_model(self, ops: np.ndarray, X: FloatArray, kept: FloatArray) -> None:
        """Rows that wait know which model has seen them, in its units; a later one sees them when it learns them."""
        (rows, kinds), d = ops.T, self._d or 0
        number = sum(due <= self._seen[0] for due in self._starts.values())
        kept[rows[kinds & LEARN == 0], 0] = number
        late = rows[(kinds & LEARN != 0) & (kinds & ADVANCE == 0)]
        late = late[kept[late, 0] < number]
        X[late], kept[late, 1 + d + self._model._own_width :] = kept[late, 1 : 1 + d], np.nan

    def _until(self, ops: np.ndarray, start: int) -> int:
        """Up to which operation nothing changes."""
        due = min((at for at in (*self._starts, *self._starts.values()) if at > self._seen[0]), default=0)
        if not due:
            return len(ops)
        over = np.flatnonzero(ops[start:, 1] & LEARN)
        left = due - int(self._seen[0])
        return start + int(over[left - 1]) + 1 if len(over) >= left else len(ops)

    def _keep(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> int:
        """Keep the first rows that are over; how many were before."""
        before, d = int(self._seen[0]), self._d or 0
        over = np.flatnonzero(ops[:, 1] & LEARN)
        at = np.arange(before, before + len(over))
        at = at[at < self._warmup]
        if len(at) and Y is not None:
            rows = ops[over[: len(at)], 0]
            self._rows[at, :d] = X[rows] if kept is None else kept[rows, 1 : 1 + d]
            self._rows[at, d] = np.nan if conditions is None else conditions[over[: len(at)], TIME]
            self._rows[at, d + 1 :] = Y[rows]
        self._seen[0] += len(over)
        return before

    def _change(self) -> None:
        """Build the model anew on the rows so far, or let it take the place of the old one."""
        seen = int(self._seen[0])
        self._exchange(seen)
        if seen in self._starts:
            self._strike_out(seen)
            if self._tunes_on(self._first_rows(seen)[1]):
                self.doing(f"tuning {type(self._prototype).__name__} on {seen:,} rows")
            self._exchange(seen)
        start = self._begun_at
        if self._background and self._job is None and start is not None and start <= seen and has_room(1):
            self._job = Job(partial(self._built, *self._first_rows(start)))

    @property
    def _begun_at(self) -> int | None:
        """After how many rows the next model that takes over is built."""
        due = min((due for due in self._starts.values() if due > self._seen[0]), default=None)
        return next((start for start, one in self._starts.items() if one == due), None)

    def _exchange(self, seen: int) -> None:
        """Take over a model that is due."""
        start = next((start for start, due in self._starts.items() if due == seen), None)
        if start is None:
            return
        job, self._job = self._job, None
        try:
            built = self._built(*self._first_rows(start)) if job is None else job.result()
        except Exception as error:
            error.add_note(f"Tuned met this when it built a model from its first {start:,} rows.")
            raise
        model = built.copy()
        X, Y, times = self._between(start, seen)
        if len(Y):
            model.learn_many(X, Y, time=times)
        self._model = model
        if seen == self._warmup:
            process = innermost(model)
            self.chosen = Chosen([type(process).__name__], repr(process), "as requested", {})

    def _strike_out(self, seen: int) -> None:
        """Let kept targets be missing that are fill values, as can be told by now."""
        Y = self._rows[:seen, (self._d or 0) + 1 :]
        left = outliers.without_fill_values(Y.copy(), self._shared) if self._screens else Y
        self._screen[:, outliers.REFUSED] += np.count_nonzero(np.isnan(left) & ~np.isnan(Y), axis=0)
        Y[:] = left

    def _between(self, start: int, stop: int) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Inputs, targets and times of the first rows after this many."""
        d, rows = self._d or 0, self._rows[start:stop].copy()
        return rows[:, :d], rows[:, d + 1 :], rows[:, d] if self._needs_time else None

    def _first_rows(self, stop: int) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        X, Y, times = self._between(0, stop)
        # Made-up lags are enough for a first guess, but not to be built upon.
        if len(Y) - self._made_up >= FEWEST:
            Y[: self._made_up] = np.nan
        return X, Y, times

    def _tunes_on(self, Y: FloatArray) -> bool:
        """Whether hyperparameters are found on these rows; there may be too few."""
        return self._tune and bool(np.count_nonzero(~np.isnan(Y).any(axis=1)) >= FEWEST)

    def _built(self, X: FloatArray, Y: FloatArray, times: FloatArray | None) -> Calibrated:
        """A model with hyperparameters of these rows, which has learned them."""
        built = self._prototype.clone()
        if self._tunes_on(Y):
            batch = hyperparameters(built, X, Y)
            built = built if batch is None else with_hyperparameters(built, batch)
        model = self._wrapped(built, len(Y))
        model._prepare(self._inner_shape(X.shape[1], Y.shape[1]))
        model.learn_many(X, Y, time=times)
        return model

    def _wrapped(self, model: StreamModel, first_rows: int) -> Calibrated:
        """A model for rows as they come, in the units of the first rows."""
        whole: StreamModel = Standardize(model, warmup=max(first_rows, 2), screen=self._screens)
        if self._drift and not whole._cannot("forget"):
            whole = DriftAware(whole)
        return Calibrated(whole, level=self._level)

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._screen, Y, self._shared) if self._screens else Y

    def _may_fail(self) -> bool:
        return int(self._seen[0]) + 1 in {*self._starts, *self._starts.values()} or super()._may_fail()

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._model._columns

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._model._told(columns)

    @property
    def _kept_width(self) -> int:
        return 1 + (self._d or 0) + self._model._kept_width

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return self._model._trajectories(count, steps)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._model._joint(X, conditions)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._model._last_row()

    # What can be read.

    @property
    def next_change(self) -> float:
        """The number of rows after which a model is built or takes over next."""
        return min((at for at in (*self._starts, *self._starts.values()) if at > self.rows_seen), default=np.inf)

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._seen[0])

    @property
    def health(self) -> Health:
        return super().health._replace(fill_values=0 if self._d is None else outliers.refused(self._screen))

    @property
    def size(self) -> int:
        return self._model.size

    @property
    def basis(self) -> FloatArray:
        return self._model.basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._model.hyperparameters

    def relevance(self) -> Relevance:
        return self._model.relevance()

    @property
    def last_change(self) -> Change:
        return self._model.last_change


def first_rows(n: int) -> int:
    """Of n rows, how many what changes after them is built from."""
    return min(n, max(FEWEST, int(BUILT_FROM * n)))


def innermost(model: StreamModel) -> StreamModel:
    """The model within all wrappers."""
    while isinstance(model, Wrapper):
        model = model._within
    return model


def hyperparameters(model: StreamModel, X: FloatArray, Y: FloatArray) -> FullGP | SSGPR | None:
    """A batch model of the same recipe with hyperparameters of these rows; None where the evidence says nothing."""
    evidence = Evidence(restarts=0, iterations=ITERATIONS)
    try:
        return fit_prefix(Standardize(model, warmup=max(len(Y), 2)), X, Y, evidence, rows=TUNED_ROWS)
    except NoEvidenceError:
        return None

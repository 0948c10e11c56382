"""Tuned: one stream model of the user's choice, in standard units, calibrated, and tuned on its first rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np

from streamgp.auto.background import Job, has_room
from streamgp.auto.choosing import BUILT_FROM, Chosen
from streamgp.auto.lines import FEWEST
from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.contract.conditions import TIME
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray, Maybe, switch, whole
from streamgp.tuning.tune import NoEvidenceError, fit_prefix, with_hyperparameters
from streamgp.wrappers import outliers
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper

EARLY = 5  # hyperparameters are first found on this fraction of the warm-up's rows
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search


class Tuned(Wrapper):
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

    _rows: FloatArray  # (warmup, d + 1 + p) inputs, times and targets of the first rows
    _seen: np.ndarray  # (1,) rows that are over
    _job: Job[Calibrated] | None = None  # what the thread builds
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
        background: bool = True,
    ) -> None:
        early = max(10, whole("warmup", warmup, at_least=10) // EARLY)
        # After how many rows a model is built, and takes over.
        self._stages = (first_rows(early), early), (max(early, first_rows(warmup)), warmup)
        self._tune, self._background, self._screens = tune, switch("background", background), switch("screen", screen)
        self._level, self._drift = level, drift
        self._wrap(self._wrapped(model, early))
        self._settings["model"] = model.clone()

    # The state.

    def _start(self, d: int, p: int) -> None:
        rows = np.full((self._stages[-1][1], d + 1 + p), np.nan)
        if self._d is None:
            self._seen = np.zeros(1, dtype=np.int64)
        else:  # rows have come, but no target
            rows[:, : d + 1], self._job = self._rows[:, : d + 1], None
        self._rows, self._screen = rows, np.zeros((p, outliers.NUMBERS))
        super()._start(d, p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self._rows, "seen": self._seen, "screen": self._screen}

    def _structure(self) -> dict[str, Any]:
        return {"model": self._within.clone()}

    def _rebuild(self, structure: dict[str, Any]) -> None:
        model = structure["model"]
        if not isinstance(model, Calibrated):
            raise SnapshotError(f"the snapshot's model must be a Calibrated one; it is {model!r}")
        model._prepare(self._within._shape)
        self._within = model

    def _check_restored(self) -> None:
        outliers.check(self._screen)
        require("rows seen", self._seen, at_least=0)
        require("first rows", self._rows[~np.isnan(self._rows)])

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        out = np.empty((0, 0, 0))
        for start, stop in pairwise([0, *sorted({*self._ends(ops), len(ops)})]):
            part, given = ops[start:stop], None if conditions is None else conditions[start:stop]
            if kept is not None:
                self._note_model(part, kept)
            said = self._within._pass(part, X, Y, given, None if kept is None else kept[:, 1:])
            self._keep(part, X, Y, given)
            if start:  # components come last, and not where rows are taken
                told = part[part[:, 1] & PREDICT != 0, 0]
                out = out[: len(said)]
                out[:, told] = said[: len(out), told]
            else:
                out = said
        return out

    def _ends(self, ops: np.ndarray) -> list[int]:
        """Before which operations a model is built or takes over."""
        seen = int(self._seen[0])
        if seen >= self._stages[-1][1]:
            return []
        over = np.flatnonzero(ops[:, 1] & LEARN) + 1
        dues = sorted({due for stage in self._stages for due in stage})
        return [int(over[due - seen - 1]) for due in dues if 0 < due - seen <= len(over)]

    def _note_model(self, ops: np.ndarray, kept: FloatArray) -> None:
        """Rows that wait keep which model has seen them; a later one sees them when it learns them."""
        (rows, kinds), within = ops.T, cast(Calibrated, self._within)
        number = sum(due <= self._seen[0] for _, due in self._stages)
        kept[rows[kinds & LEARN == 0], 0] = number
        late = rows[kinds & (LEARN | ADVANCE) == LEARN]
        kept[late[kept[late, 0] < number], 1 + within._own_width :] = np.nan

    def _keep(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe) -> None:
        """Keep the first rows that are over, and change what is due after them."""
        before, over = int(self._seen[0]), np.flatnonzero(ops[:, 1] & LEARN)
        self._seen[0] += len(over)
        if before < len(self._rows) and len(over) and Y is not None:
            rows, times = ops[over, 0], np.nan if conditions is None else conditions[over, TIME]
            given = np.broadcast_to(times, len(rows))
            self._rows[before : before + len(over)] = np.column_stack([X[rows], given, Y[rows]])
            self._change(int(self._seen[0]))

    def _change(self, seen: int) -> None:
        """Let the model that is due after this many rows take over, and begin to build the next one."""
        for start, due in dict.fromkeys(self._stages):
            if start == seen:
                self._strike_out(seen)
                if self._tunes_on(self._first(seen)[1]):
                    self.doing(f"tuning {type(self._pristine).__name__} on {seen:,} rows")
            if due == seen:
                self._take_over(start, seen)
        start = next((start for start, due in self._stages if due > seen), seen + 1)
        if self._background and self._job is None and start <= seen and has_room():
            self._job = Job(partial(self._built, *self._first(start)))

    def _take_over(self, start: int, seen: int) -> None:
        job, self._job = self._job, None
        try:
            built = self._built(*self._first(start)) if job is None else job.result()
        except Exception as error:
            error.add_note(f"Tuned met this when it built a model from its first {start:,} rows.")
            raise
        self._within = built.copy()
        if seen > start:
            X, Y, times = self._first(seen, start)
            self._within.learn_many(X, Y, time=times)

    def _strike_out(self, seen: int) -> None:
        """Let kept targets be missing that are fill values, as can be told by now."""
        Y = self._rows[:seen, (self._d or 0) + 1 :]
        left = outliers.without_fill_values(Y.copy(), self._shared) if self._screens else Y
        self._screen[:, outliers.REFUSED] += np.count_nonzero(np.isnan(left) & ~np.isnan(Y), axis=0)
        Y[:] = left

    def _first(self, stop: int, start: int = 0) -> tuple[FloatArray, FloatArray, Maybe]:
        """Inputs, targets and times of the first rows."""
        d, rows = self._d or 0, self._rows[start:stop].copy()
        return rows[:, :d], rows[:, d + 1 :], rows[:, d] if self._needs_time else None

    def _tunes_on(self, Y: FloatArray) -> bool:
        """Whether hyperparameters are found on these rows; there may be too few."""
        return self._tune and bool(np.count_nonzero(~np.isnan(Y).any(axis=1)) >= FEWEST)

    def _built(self, X: FloatArray, Y: FloatArray, times: Maybe) -> Calibrated:
        """A model with hyperparameters of these rows, which has learned them."""
        model = self._pristine
        if self._tunes_on(Y) and (batch := hyperparameters(model, X, Y)) is not None:
            model = with_hyperparameters(model, batch)
        built = self._wrapped(model, len(Y))
        built._prepare(self._shape_within(X.shape[1], Y.shape[1]))
        built.learn_many(X, Y, time=times)
        return built

    def _wrapped(self, model: StreamModel, first_rows: int) -> Calibrated:
        """A model for rows as they come, in the units of the first rows."""
        whole: StreamModel = Standardize(model, warmup=max(first_rows, 2), screen=self._screens)
        if self._drift and not whole._cannot("forget"):
            whole = DriftAware(whole)
        return Calibrated(whole, level=self._level)

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._screen, Y, self._shared) if self._screens else Y

    @property
    def _may_fail(self) -> bool:  # type: ignore[override]
        return self.next_change == self.rows_seen + 1 or self._within._may_fail

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return 1 + self._within._kept_width

    # What can be read.

    @property
    def chosen(self) -> Chosen | None:
        """The model with the hyperparameters that were found; None before the end of the warm-up."""
        if self.rows_seen < self._stages[-1][1]:
            return None
        model: StreamModel = self._within
        while isinstance(model, Wrapper):
            model = model._within
        return Chosen([type(model).__name__], repr(model), "as requested", {})

    @property
    def next_change(self) -> float:
        """The number of rows after which a model is built or takes over next."""
        return min((at for stage in self._stages for at in stage if at > self.rows_seen), default=np.inf)

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._seen[0])

    @property
    def health(self) -> Health:
        return super().health._replace(fill_values=0 if self._d is None else outliers.refused(self._screen))


def first_rows(n: int) -> int:
    """Of n rows, how many what changes after them is built from."""
    return min(n, max(FEWEST, int(BUILT_FROM * n)))


def hyperparameters(model: StreamModel, X: FloatArray, Y: FloatArray) -> FullGP | SSGPR | None:
    """A batch model of the same recipe with hyperparameters of these rows; None where the evidence says nothing."""
    evidence = Evidence(restarts=0, iterations=ITERATIONS)
    try:
        return fit_prefix(Standardize(model, warmup=max(len(Y), 2)), X, Y, evidence, rows=TUNED_ROWS)
    except NoEvidenceError:
        return None

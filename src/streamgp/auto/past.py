"""Past: what the experts of one output see beside the columns of a row: past targets, the time, and its seasons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.auto.clock import TICK
from streamgp.contract import freerun
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.model import Row, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, whole
from streamgp.wrappers import outliers
from streamgp.wrappers.issuing import timed
from streamgp.wrappers.lagged import Lagged, bridged, lag_columns
from streamgp.wrappers.wrapper import joined

HARMONICS = 3  # of each season
PERIODS = 2  # a value of a season ago is sought this many seasons back
# Fill values among the first targets cannot be told when they come. They are looked for whenever the rows have doubled:
# in the end a target may lie 33 widths beyond the range of the others, and never less than 20 (wrappers/outliers.py).
LOOKS = tuple(outliers.FEWEST << k for k in range(6))
FIRST = LOOKS[-1]


class Layout(NamedTuple):
    """The columns that experts see.

    Args:
        own: inputs, which come first.
        past: past targets that follow, the newest first.
        seasons: rows of each season. After the time of the target, one column for each has the target of a season
            before, and then sines and cosines of each follow.
    """

    own: int
    past: int
    seasons: tuple[int, ...]

    @property
    def clock(self) -> int:
        """The column of the target's time."""
        return self.own + self.past

    @property
    def values(self) -> list[int]:
        """The columns of the targets of a season before."""
        return list(range(self.clock + 1, self.clock + 1 + len(self.seasons)))

    @property
    def waves(self) -> list[int]:
        """The columns of sines and cosines."""
        first = self.clock + 1 + len(self.seasons)
        return list(range(first, first + 2 * HARMONICS * len(self.seasons)))

    @property
    def width(self) -> int:
        return self.clock + 1 + (1 + 2 * HARMONICS) * len(self.seasons)


class Past(Lagged):
    """Past targets of one output, the time of its target, and its seasons by the clock.

    Rows come with three more columns, their time, the time between rows, and how many rows are missing before them. The
    first row, which has no past, is for the experts that need none. A missing target is bridged by what was predicted
    of it, and so is that of a missing row, which is predicted from the inputs of the row before. Ahead of time the
    targets of missing rows lie on a straight line between those that are known. The target of a season before is found
    by its time; where there is none, nor one of two seasons before, the last target stands for it.

    Args:
        model: the experts.
        lags: past targets.
        ahead: rows between a row and its target.
        seasons: rows of each season.
        screen: whether the first rows are learned anew where fill values are found among their targets.
    """

    _times: FloatArray  # of the last targets, in order; -inf where there is none yet
    _values: FloatArray  # these targets
    # Of the first rows: inputs, whether one of them is broken, target, and time if it is needed; NaN: late ones.
    _first: FloatArray
    _struck: np.ndarray  # (1,) fill values that were found among their targets

    def __init__(
        self, model: StreamModel, *, lags: int, ahead: int = 0, seasons: Sequence[int] = (), screen: bool = False
    ) -> None:
        super().__init__(model, lags=lags)
        self._looks = LOOKS if screen else ()
        self._ahead = whole("ahead", ahead, at_least=0)
        self._seasons = tuple(whole("seasons", season) for season in seasons)
        # Whole seasons, so that the target is known by then.
        self._backs = [-(-max(self._ahead, 1) // season) * season for season in self._seasons]
        self._room = max(
            (back + (PERIODS - 1) * s for back, s in zip(self._backs, self._seasons, strict=True)), default=0
        )

    @property
    def _needed(self) -> int:
        return 0

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._x, self._rows, self._struck = np.zeros(d), *np.zeros((2, 1), dtype=np.int64)
            self._first = np.zeros((FIRST if self._looks else 0, d + 3))
        self._models = self._fresh()
        self._within._prepare(Shape(self._layout(d).width, p, scalar=False, certain=True))
        self._past = np.full((self._lags, p), np.nan)
        self._times, self._values = np.full(self._room, -np.inf), np.zeros(self._room)
        self._orders = np.arange(1.0, HARMONICS + 1)

    def _layout(self, d: int) -> Layout:
        return Layout(d - TICK, self._lags, self._seasons)

    def _arrays(self) -> dict[str, np.ndarray]:
        first = {"first": self._first, "struck": self._struck}
        return super()._arrays() | {"times": self._times, "values": self._values} | first

    def _check_restored(self) -> None:
        require("times of past targets", self._times[self._times > -np.inf])
        require("past targets", self._values)
        require("first rows", self._first[~np.isnan(self._first)])
        require("fill values", self._struck, at_least=0)
        super()._check_restored()

    # Rows.

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        n, own = len(X), X.shape[1] - TICK
        times, values, before = self._times, self._values, np.zeros(n, dtype=np.int64)
        if Y is None or n == 1:  # each would come next
            if np.count_nonzero(X[:, -1]):
                lags = np.concatenate([_newest_first(self._bridged_past(x)) for x in X])
            else:
                lags = _newest_first(self._past)
                lags = lags if n == 1 else np.repeat(lags, n, axis=0)
        else:
            lags = lag_columns(bridged(np.concatenate([self._past, Y])), self._lags, n)
            known = ~np.isnan(Y[:, 0])
            times = np.concatenate([times, X[known, own]])
            values, before = np.concatenate([values, Y[known, 0]]), np.cumsum(known) - known
        return np.concatenate([X[:, :own], lags, self._timed(X[:, own:], lags[:, 0], times, values, before)], axis=1)

    def _bridged_past(self, x: FloatArray) -> FloatArray:
        """Past targets as a row sees them, with what stands for the targets of rows that are missing before it."""
        steps, past = int(min(x[-1], self._lags)), self._past
        if not steps or np.isnan(past[-1]).any() or (self._ahead and self._lags == 1):
            return past
        if self._ahead:  # the newest is the row's own
            between = past[-1] + np.outer(np.arange(steps, 0, -1) / (x[-1] + 1), past[-2] - past[-1])
            return np.concatenate([past[:-1], between, past[-1:]])[-self._lags :]
        own, (at, every, _) = len(x) - TICK, x[-TICK:].tolist()
        for back in range(steps, 0, -1):
            moment = at - back * every
            lags, tick = _newest_first(past), np.array([[moment, every, 0.0]])
            seen = [self._x[None, :own], lags, self._timed(tick, lags[:, 0], self._times, self._values)]
            mean = self._within._predict(np.concatenate(seen, axis=1), self._when_missing(moment)).mean
            past = np.concatenate([past[1:], np.where(np.isfinite(mean), mean, past[-1:])])
        return past

    def _when_missing(self, time: float) -> FloatArray | None:
        """Of a row that came at this time, as far as experts need it beside their columns."""
        needed = self._within._needs_time or self._within._moment() is not None
        return timed(None, time) if needed else None

    def _timed(
        self,
        ticks: FloatArray,
        newest: FloatArray,
        times: FloatArray,
        values: FloatArray,
        before: NDArray[np.int64] | int = 0,
    ) -> FloatArray:
        """The columns that follow the lags, of rows whose newest targets are given.

        Args:
            ticks: (n, TICK) the times of the rows.
            newest: (n,) their newest lags.
            times: of targets, in order; as many as there is room for, and those that became known since.
            values: these targets.
            before: how many of those became known before each row, which sees the last ones that there is room for.
        """
        at, every = ticks[:, 0] + self._ahead * ticks[:, 1], ticks[:, 1]
        if not self._seasons:
            return at[:, None]
        past, waves, seen = [], [], (before, before + self._room - 1)
        for season, back in zip(self._seasons, self._backs, strict=True):
            found = newest
            for more in reversed(range(PERIODS)):
                found = _value_at(at - (back + more * season) * every, 0.5 * every, times, values, found, seen)
            past.append(found)
            turns = (at / (season * every) % 1.0)[:, None] * self._orders
            waves += [np.sin(2.0 * np.pi * turns), np.cos(2.0 * np.pi * turns)]
        return np.concatenate([np.column_stack([at, *past]), *waves], axis=1)

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        targets = np.full((len(X), self._past.shape[1]), np.nan) if Y is None else Y
        missing, gaps = np.flatnonzero(np.isnan(targets[:, 0])), np.flatnonzero(X[:, -1])
        if not len(missing) and not len(gaps):
            return super()._advance(X, Y, report, conditions)
        parts: list[Any] = []
        for start, stop in pairwise(sorted({0, *(missing + 1).tolist(), *gaps.tolist(), len(X)})):
            rows, known = X[start:stop], None if Y is None else Y[start:stop]
            if rows[0, -1]:
                rows = self._after_gap(rows)
            parts.append(super()._advance(rows, known, True, part(conditions, start, stop)))
            self._bridge(targets[stop - 1], parts[-1].mean[-1])
        return joined(parts) if report else None

    def _after_gap(self, X: FloatArray) -> FloatArray:
        """Let past targets be those before the first of these rows; the rows, before which none is missing then."""
        self._past[:] = self._bridged_past(X[0])
        rows = X.copy()
        rows[0, -1] = 0.0
        return rows

    def note_missing(self, rows: int) -> None:
        """So many rows were missing before the last one, whose target is the newest."""
        x = np.zeros(TICK)
        x[-1] = rows
        self._past[:] = self._bridged_past(x)

    def advance_beside(
        self,
        broken: NDArray[np.bool_],
        X: FloatArray,
        Y: FloatArray | None,
        report: bool,
        conditions: FloatArray | None,
    ) -> Prediction | None:
        """Predict and learn rows, of which those with broken inputs are not learned."""
        parts: list[Any] = []
        seen = self.rows_seen
        looks = [look - seen for look in self._looks if seen < look <= seen + len(X)]
        for start, stop in pairwise(sorted({0, *looks, len(X)})):
            rows, targets, given = X[start:stop], None if Y is None else Y[start:stop], part(conditions, start, stop)
            parts.append(self._beside(np.flatnonzero(broken[start:stop]), rows, targets, report, given))
            self._keep_first(rows, broken[start:stop], targets, given)
        return joined(parts) if report else None

    # The first rows are learned anew where fill values are found among their targets.

    def _keep_first(
        self, X: FloatArray, broken: NDArray[np.bool_], Y: FloatArray | None, conditions: FloatArray | None
    ) -> None:
        """Keep rows that were learned while they are among the first; look for fill values where it is time."""
        seen, (n, d) = self.rows_seen, X.shape
        if seen - n >= len(self._first):
            return
        kept = self._first[seen - n : seen]
        kept[:], kept[:, :d], kept[:, d] = np.nan, X, broken
        if Y is not None:
            kept[:, d + 1] = Y[:, 0]
        if conditions is not None:
            kept[:, d + 2] = conditions[:, TIME]
        if seen in self._looks:
            self._look_back(self._first[:seen].copy(), d)
        if seen >= FIRST:
            self._first[:] = 0.0

    def _look_back(self, rows: FloatArray, d: int) -> None:
        """Learn rows anew if there are fill values among their targets."""
        X, broken, Y, times = rows[:, :d], rows[:, d], rows[:, d + 1 : d + 2], rows[:, d + 2]
        left = outliers.without_fill_values(np.ascontiguousarray(Y), False)
        struck = np.count_nonzero(np.isnan(left) & ~np.isnan(Y))
        if not struck or np.isnan(X).any():
            return
        self._struck += struck
        self._rows[0] = 0
        self._start(d, 1)
        self._first[: len(rows), d + 1 : d + 2] = left
        conditions = np.full((len(rows), NOISE + 1), np.nan)
        conditions[:, TIME] = times
        given = None if np.isnan(times).all() else conditions
        self._beside(np.flatnonzero(broken), np.ascontiguousarray(X), left, False, given)

    def _may_fail(self) -> bool:
        return self.rows_seen + 1 in self._looks or super()._may_fail()

    def _quick(self) -> bool:
        return self.rows_seen + 1 not in self._looks and super()._quick()

    def reset_memory(self) -> None:
        super().reset_memory()
        if self._d is not None:
            self._times[:], self._values[:] = -np.inf, 0.0
            self._first[:] = np.nan

    # A row with a broken input is not learned: its target belongs to inputs that nobody knows. It is still known.

    def _beside(
        self,
        broken: NDArray[np.intp],
        X: FloatArray,
        Y: FloatArray | None,
        report: bool,
        conditions: FloatArray | None,
    ) -> Prediction | None:
        if Y is None or not len(broken):
            return self._advance(X, Y, report, conditions)
        parts: list[Any] = []
        for start, stop in pairwise(sorted({0, *(broken + 1).tolist(), len(X)})):
            targets = Y[start:stop].copy()
            if stop - 1 in broken:
                targets[-1] = np.nan
            parts.append(self._advance(X[start:stop], targets, report, part(conditions, start, stop)))
            if stop - 1 in broken:
                self._note_unlearned(X[stop - 1], Y[stop - 1])
        return joined(parts) if report else None

    def row_of(self, X: FloatArray, Y: FloatArray, *, learned: bool) -> Row:
        """The same for one row."""
        row = self._row(X, Y if learned else np.full_like(Y, np.nan))
        if not learned:
            self._note_unlearned(X[0], Y[0])
        if self.rows_seen <= len(self._first):
            self._keep_first(X, np.array([not learned]), Y, None)
        return row

    def _note_unlearned(self, x: FloatArray, y: FloatArray) -> None:
        """The target of the last row, (p,), stands among the lags and the values of seasons."""
        self.experts.note_broken()
        if not np.isnan(y).any():
            self._recall(y)
            if self._room:
                self._keep_targets(x[-TICK : 1 - TICK], y)

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        row = super()._row(X, Y)
        if Y is not None:
            self._bridge(Y[0], row.mean[0])
        return row

    def _bridge(self, y: FloatArray, mean: FloatArray) -> None:
        """In place of the last target stands what was predicted, where it is missing and others are known."""
        if (missing := np.isnan(y)).any():
            self._past[-1] = np.where(missing & np.isfinite(self._past[-1] + mean), mean, self._past[-1])

    def _note(self, X: FloatArray, Y: FloatArray | None) -> None:
        super()._note(X, Y)
        if Y is not None and self._room:
            known = ~np.isnan(Y[:, 0])
            if known.any():
                self._keep_targets(X[known, X.shape[1] - TICK], Y[known, 0])

    def _keep_targets(self, times: FloatArray, values: FloatArray) -> None:
        """Keep targets, in the order of their times, as many as there is room for."""
        times, values = np.concatenate([self._times, times]), np.concatenate([self._values, values])
        if times[-1] < times[-2]:  # one that came late
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        self._times[:], self._values[:] = times[-self._room :], values[-self._room :]

    # Late targets.

    @property
    def _issued_columns(self) -> int:
        d = self._d or TICK
        return self._layout(d).width - (d - TICK)

    def _issued_width(self, p: int) -> int:
        return self._issued_columns + self._within._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        within = self._inputs(X)
        prediction, issued = self._within._issue(within, conditions)
        return prediction, np.concatenate([within[:, X.shape[1] - TICK :], issued], axis=1)

    def _resolve(
        self,
        X: FloatArray,
        Y: FloatArray,
        issued: FloatArray,
        conditions: FloatArray | None,
        *,
        learned: bool = True,
    ) -> None:
        """Learn a late target; the first of the last columns is the target's time, or NaN: it is the one expected."""
        own, width = X.shape[1] - TICK, self._issued_columns
        seen = np.concatenate([X[:, :own], issued[:, :width]], axis=1)
        clock = self._layout(X.shape[1]).clock
        if not np.isnan(X[0, own]):
            seen[:, clock] = X[:, own]
        self._within._resolve(seen, Y if learned else np.full_like(Y, np.nan), issued[:, width:], conditions)
        self._rows += len(X)
        self._first[:] = np.nan
        if not np.isnan(Y).all():
            self._note_target(Y[0])
            if self._room:
                self._keep_targets(seen[:, clock], Y[:, 0])

    def turns(self, ticks: FloatArray) -> int:
        """How many of the next rows, of which these are the last columns, may go in turn."""
        many: int = self.experts._turns(len(ticks))
        alone = ticks[:many, -1] > 0.0  # rows are missing before it
        if self._seasons:  # or it is so near to the row before that this would find its target a season back
            alone[1:] |= np.diff(ticks[:many, 0]) <= 0.5 * ticks[1:many, 1]
        return int(alone.argmax()) if alone.any() else many

    def in_turn(
        self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray, unlearned: NDArray[np.bool_]
    ) -> Prediction:
        """Rows in turn, as ``_in_turn`` has them; of some, which had broken readings, the targets are only noted."""
        n, own, width = len(X), X.shape[1] - TICK, self._issued_columns
        past, known, before = np.concatenate([self._past, Y]), ~np.isnan(Y[:, 0]), len(issued) - n
        past = past if known.all() else bridged(past)
        lags = _newest_first(past[1:]) if n == 1 else lag_columns(past[1:], self._lags, n)
        expected = np.concatenate([issued[:before, self._lags], X[:, own] + self._ahead * X[:, own + 1]])[:n]
        arrived = np.where(np.isnan(learned[:, own]), expected, learned[:, own])
        times = np.concatenate([self._times, arrived[known]])
        values = np.concatenate([self._values, Y[known, 0]])
        timed = self._timed(X[:, own:], lags[:, 0], times, values, np.cumsum(known))
        within = np.concatenate([X[:, :own], lags, timed], axis=1)
        issued[before:, :width] = within[:, own:]
        seen = np.concatenate([learned[:, :own], issued[:n, :width]], axis=1)
        seen[:, self._layout(X.shape[1]).clock] = arrived
        prediction = self._within._in_turn(seen, np.where(unlearned[:, None], np.nan, Y), within, issued[:, width:])
        self._rows += n
        self._first[:] = np.nan
        self._past[:] = past[n:]
        if self._room and known.any():
            self._keep_targets(arrived[known], Y[known, 0])
        return prediction

    def _remember(self, X: FloatArray) -> None:
        self._x[:] = X[-1]  # experts remember nothing

    # Free runs.

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _Futures(self, self._within._trajectories(count, steps), count)

    @property
    def experts(self) -> Any:
        """The model within."""
        return self._within


class _Futures(freerun.Trajectories):
    """Trajectories that see their own targets as lags and as values of seasons before."""

    def __init__(self, model: Past, within: freerun.Trajectories, count: int) -> None:
        self._model, self._within = model, within
        self._past = np.repeat(model._past[None], count, axis=0)  # (count, lags, 1)
        self._times = np.repeat(model._times[None], count, axis=0)
        self._values = np.repeat(model._values[None], count, axis=0)

    def predict(self, X: FloatArray) -> freerun.Step:
        model, own = self._model, X.shape[1] - TICK
        lags = np.concatenate([lag_columns(past, len(past), 1) for past in self._past])
        timed = [
            model._timed(X[i : i + 1, own:], lags[i : i + 1, 0], self._times[i], self._values[i]) for i in range(len(X))
        ]
        self._at = X[:, own : own + 1]
        return self._within.predict(np.concatenate([X[:, :own], lags, *([np.concatenate(timed)])], axis=1))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        self._past = np.concatenate([self._past[:, 1:], targets[:, None]], axis=1)
        if self._model._room:
            self._times = np.concatenate([self._times[:, 1:], self._at], axis=1)
            self._values = np.concatenate([self._values[:, 1:], targets], axis=1)
        self._within.record(values, targets)


def _newest_first(past: FloatArray) -> FloatArray:
    """The lags of one row, (1, lags)."""
    return lag_columns(past, len(past), 1) if np.count_nonzero(np.isnan(past[0])) else past[::-1].reshape(1, -1)


def _value_at(
    at: FloatArray, near: FloatArray, times: FloatArray, values: FloatArray, otherwise: FloatArray, seen: Any
) -> FloatArray:
    """Of the values that are seen, first to last, those with times nearest to some, if near enough; else others."""
    first, last = seen
    after = np.clip(np.searchsorted(times, at), first, last)
    before = np.maximum(after - 1, first)
    nearest = np.where(at - times[before] <= times[after] - at, before, after)
    return np.where(np.abs(times[nearest] - at) <= near, values[nearest], otherwise)

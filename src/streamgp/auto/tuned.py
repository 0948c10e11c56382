"""Tuned: a model whose hyperparameters are found on the first rows of its stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from streamgp.auto.staged import FEWEST, Chosen, Rows, Staged, Task, first_rows, hyperparameters, innermost
from streamgp.contract.model import Health, StreamModel
from streamgp.settings import FloatArray, number, switch, whole
from streamgp.tuning.tune import with_hyperparameters
from streamgp.wrappers import outliers
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize

EARLY = 5  # hyperparameters are first found on this fraction of the warm-up's rows


class Tuned(Staged):
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
        self._warmup = self._room = whole("warmup", warmup, at_least=10)
        self._tune, self._drift, self._made_up = tune, drift, whole("made_up", made_up, at_least=0)
        self._background = switch("background", background)
        early = max(10, warmup // EARLY)
        # After how many rows a model is built that takes over after how many.
        self._starts = {first_rows(early): early, max(early, first_rows(warmup)): warmup}
        self._needs_time, self._shared, self._observes = model._needs_time, model._shared, model._observes
        self._without_inputs, self._feeds_itself = model._without_inputs, model._feeds_itself
        self._screens = switch("screen", screen) and self._observes == "numbers"
        self._model = self._first(1)

    def _start(self, d: int, p: int) -> None:
        self._screen = np.zeros((p, outliers.NUMBERS))
        super()._start(d, p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"screen": self._screen}

    def _check_restored(self) -> None:
        outliers.check(self._screen)
        super()._check_restored()

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._screen, Y, self._shared) if self._screens else Y

    @property
    def health(self) -> Health:
        return super().health._replace(fill_values=0 if self._d is None else outliers.refused(self._screen))

    def _first(self, d: int) -> Calibrated:
        return self._wrapped(self._prototype.clone(), max(10, self._warmup // EARLY))

    def _wrapped(self, model: StreamModel, first_rows: int) -> Calibrated:
        """A model for rows as they come, in the units of the first rows."""
        whole: StreamModel = Standardize(model, warmup=max(first_rows, 2), screen=self._screens)
        if self._drift and not whole._cannot_forget_because:
            whole = DriftAware(whole)
        return Calibrated(whole, level=self._level)

    def _changes_after(self, row: int) -> float:
        return min((at for at in (self._due, *self._starts) if at > row), default=np.inf)

    def _change(self) -> None:
        """Build the model anew on the rows so far, or let it take the place of the old one."""
        seen = int(self._seen[0])
        self._exchange(seen)
        if seen in self._starts:
            self._strike_out(seen)
            if self._tunes_on(self._first_rows(seen)):
                self.doing(f"tuning {type(self._prototype).__name__} on {seen:,} rows")
            self._task, self._jobs = Task.until(self._starts[seen], seen, 0, [()]), ()
            self._exchange(seen)

    def _strike_out(self, seen: int) -> None:
        """Let kept targets be missing that are fill values, as can be told by now."""
        d, p = self._d or 0, self._p or 1
        Y = self._kept[:seen, d + 1 : d + 1 + p]
        left = outliers.without_fill_values(Y.copy(), self._shared) if self._screens else Y
        self._screen[:, outliers.REFUSED] += np.count_nonzero(np.isnan(left) & ~np.isnan(Y), axis=0)
        Y[:] = left

    def _exchange(self, seen: int) -> None:
        """Take over a model that is due."""
        if self._due == seen:
            built, since = self._taken()
            self._model = built.copy()
            if len(since.Y):
                self._model.learn_many(since.X, since.Y, time=since.time)
            if seen == self._warmup:
                process = innermost(self._model)
                self.chosen = Chosen([type(process).__name__], repr(process), "as requested", {})

    def _works(self, task: Task) -> list[Callable[[], Calibrated]]:
        return [partial(self._aside()._built, self._first_rows(task.start))]

    def _first_rows(self, stop: int) -> Rows:
        """The rows up to one."""
        rows = self._rows_between(0, stop)
        # Made-up lags are enough for a first guess, but not to be built upon.
        if len(rows.Y) - self._made_up >= FEWEST:
            rows.Y[: self._made_up] = np.nan
        return rows

    def _tunes_on(self, rows: Rows) -> bool:
        """Whether hyperparameters are found on these rows; there may be too few."""
        return self._tune and bool(np.count_nonzero(~np.isnan(rows.Y).any(axis=1)) >= FEWEST)

    def _built(self, rows: Rows) -> Calibrated:
        """A model with hyperparameters of these rows, which has learned them."""
        built = self._prototype.clone()
        if self._tunes_on(rows):
            batch = hyperparameters(built, rows.X, rows.Y)
            built = built if batch is None else with_hyperparameters(built, batch)
        model = self._wrapped(built, len(rows.Y))
        model._prepare(self._model_shape())
        model.learn_many(rows.X, rows.Y, time=rows.time)
        return model

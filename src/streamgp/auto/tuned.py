"""Tuned: a model whose hyperparameters are found on the first rows of its stream."""

from __future__ import annotations

import numpy as np

from streamgp.auto.staged import FEWEST, Chosen, Staged, hyperparameters
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
    its end, hyperparameters are found by the evidence of the rows so far, and a new model learns these rows. With
    ``drift`` it notices when its errors grow, and forgets.

    Args:
        model: the stream model, which has learned nothing, for inputs and targets in standard units.
        level: how much of the observations the interval is to hold, above 0 and below 1.
        warmup: rows on which hyperparameters are found, at least 10.
        tune: whether they are found at all; if not, only the units are.
        drift: whether to look for changes, if the model can forget.
        screen: whether targets far beyond all others, such as fill values, count as missing (see Standardize).
        made_up: first rows whose inputs are not to be built upon, such as lags from before the first target.

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
    ) -> None:
        if not isinstance(model, StreamModel) or model.rows_seen:
            raise TypeError(f"model must be a stream model such as KRLST() that has learned nothing; got {model!r}")
        self._settings["model"] = self._prototype = model.clone()
        self._level = number("level", level, above=0)
        self._warmup = self._room = whole("warmup", warmup, at_least=10)
        self._tune, self._drift, self._made_up = tune, drift, whole("made_up", made_up, at_least=0)
        self._stages = max(10, warmup // EARLY), warmup
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
        return self._wrapped(self._prototype.clone(), self._stages[0])

    def _wrapped(self, model: StreamModel, first_rows: int) -> Calibrated:
        """A model for rows as they come, in the units of the first rows."""
        whole: StreamModel = Standardize(model, warmup=max(first_rows, 2), screen=self._screens)
        if self._drift and not whole._cannot_forget_because:
            whole = DriftAware(whole)
        return Calibrated(whole, level=self._level)

    def _before_change(self, n: int) -> int:
        seen = int(self._seen[0])
        if n == 0:
            return 0 if seen in self._stages else 1
        return min([n, *(stage - seen for stage in self._stages if stage > seen)])

    def _change(self) -> None:
        """Build the model anew on the rows so far."""
        rows = self._last_rows(self._warmup)
        # Made-up lags are enough for a first guess, but not to be built upon.
        if len(rows.Y) - self._made_up >= FEWEST:
            rows.Y[: self._made_up] = np.nan
        built = self._prototype.clone()
        if self._tune and np.count_nonzero(~np.isnan(rows.Y).any(axis=1)) >= FEWEST:
            self.doing(f"tuning {type(built).__name__} on {len(rows.Y):,} rows")
            batch = hyperparameters(built, rows.X, rows.Y)
            built = built if batch is None else with_hyperparameters(built, batch)
        if len(rows.Y) == self._warmup:
            self.chosen = Chosen([type(built).__name__], repr(built), "as requested", {})
        self._model = self._wrapped(built, len(rows.Y))
        self._model._prepare(self._model_shape())
        self._model.learn_many(rows.X, rows.Y, time=rows.time)

"""Auto: the model for those who do not want to choose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.auto import clock, forest, needed
from streamgp.auto.candidates import CANDIDATES, DEFAULT, sizes_of
from streamgp.auto.choosing import Chosen
from streamgp.auto.features import LONGER_LAGS, Layout, default_lags
from streamgp.auto.importance import importance
from streamgp.auto.lines import Builder
from streamgp.auto.table import Plan, Table
from streamgp.contract import freerun
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import NOISE
from streamgp.contract.lanes import ADVANCE, PREDICT
from streamgp.contract.model import Ability, Change, Health, Relevance, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.process.prior import Prior, checked
from streamgp.settings import FloatArray, nearest, number, switch, whole
from streamgp.wrappers import outliers

ONE_LATER = np.full(1, np.nan)  # the time of a row that comes without one


class Auto(StreamModel):
    """A stream model without settings: it scales, chooses, tunes, calibrates and notices change by itself.

    Naive predictions, least squares, Gaussian processes and, where LightGBM is installed, forests of trees compete at
    one table, with and without past targets as inputs. It predicts from the second row on. Rows may be empty, ``()``,
    where the past is all there is. Several outputs each have a table of their own.

    Experts join after row 20, after a tenth and three tenths of the warm-up and at its end; the snapshot grows and
    shrinks there as they come and go. They are built and tuned in the background, from the first four fifths of these
    rows: a row waits only if it is one after which experts join that are not ready yet.

    Args:
        level: how much of the observations the interval is to hold, above 0 and below 1.
        lags: past targets that experts may use as inputs; None: a day of them if ``seasons`` has one of at most 48
            rows, otherwise 10 without other inputs or ahead of time, or 3. Unless it is 0, least squares may use 24.
        seasons: rows of a day and of a week, or of any other season, where they are known.
        warmup: rows after which processes are chosen, at least 10.
        tune: whether hyperparameters are tuned.
        drift: whether to look for changes of the stream.
        screen: whether targets far beyond all others, such as fill values, count as missing (see Standardize), and
            single targets and inputs further out than the range of those before is wide, likewise; the third within a
            few rows is believed, and so is a target that the experts explain.
        budget: the processor time that a row may take once experts are chosen, for each output: "200us", "1ms", a
            number in seconds or a timedelta; None: any. It decides between three sizes, not by the machine, so that
            results are the same everywhere (docs/models/auto.md).
        ahead: rows between a row and its target; ``Ahead`` sets it.
        background: whether a thread builds and tunes experts while rows are answered; the numbers are the same.
        candidates: settings of the processes by name, such as {"capacity": 50}; None: their own.
        prior: that a fleet of models in standard units has learned (``Fleet(Standardize(KRLST()))``, ``fleet.tune``):
            KRLST joins after row 20 with its hyperparameters, and searches begin there. None: there is none.
        trees: whether a forest sits at the table, trained by LightGBM (``pip install streamgp[trees]``); None: if it
            is installed.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = 50 + 10 * np.sin(X[:, 0]) + rng.normal(size=200)
        >>> model = sg.Auto(warmup=100)
        >>> p = model.track(X, y)
        >>> low, high = p.interval(0.9)
        >>> bool(np.mean((low < y) & (y < high)) > 0.8), bool(np.std((y - p.mean)[100:]) < 2)
        (True, True)
    """

    _shared = False
    _without_inputs = True
    _feeds_itself = True
    _sees_time = True

    def __init__(
        self,
        *,
        level: float = 0.9,
        lags: int | None = None,
        seasons: Sequence[int] = (),
        warmup: int = 1000,
        tune: bool = True,
        drift: bool = True,
        screen: bool = True,
        budget: Any = DEFAULT,
        ahead: int = 0,
        background: bool = True,
        candidates: dict[str, Any] | None = None,
        prior: Prior | None = None,
        trees: bool | None = None,
    ) -> None:
        if number("level", level, above=0) >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        self._lags = None if lags is None else whole("lags", lags, at_least=0)
        self._seasons = tuple(whole("seasons", season) for season in seasons)
        whole("ahead", ahead, at_least=0)
        whole("warmup", warmup, at_least=10)
        given, known = candidates or {}, sorted({name for one in CANDIDATES.values() for name in one.settings})
        for name in given:
            if name.partition("__")[0] not in known:
                raise ValueError(f"no candidate of Auto has a setting {name!r}.{nearest(name, known)}")
        self._needs_time = given.get("half_life") is not None
        self._screens = switch("screen", screen)
        self._largest = np.inf if screen else LARGEST
        self._sizes, self._candidates, self._prior = sizes_of(budget), given, checked("prior", prior)
        switch("tune", tune)
        if trees is not None and switch("trees", trees) and (why := forest.without_trees()):
            raise ImportError(why)
        self._table: dict[str, Any] = {
            "level": float(level),
            "warmup": warmup,
            "drift": switch("drift", drift),
            "screen": screen,
            "background": switch("background", background),
            "trees": trees is not False,
        }
        needed.compile_first()  # together, before experts ask for their parts
        self._tables: tuple[Table, ...] = (self._fresh(1),)

    def lags_for(self, d: int) -> int:
        """Return how many past targets experts may use beside this many columns."""
        return default_lags(d, self._seasons, self._horizon) if self._lags is None else self._lags

    @property
    def _horizon(self) -> int:
        """Rows between a row and its target, where there is more than one."""
        return int(self._settings["ahead"]) or (self._ahead if self._ahead > 1 else 0)

    # The state.

    def _fresh(self, d: int) -> Table:
        """What predicts one output from d columns."""
        lags = self.lags_for(d)
        layout = Layout(d, max(lags, LONGER_LAGS) if lags else 1, self._seasons, self._horizon)
        builder = Builder(layout, lags, self._settings["tune"], self._sizes, self._candidates, self._prior)
        table = Table(Plan(layout, builder, **self._table))
        table._prepare(Shape(d + clock.TICK, 1, scalar=False, certain=True))
        return table

    def _start(self, d: int, p: int) -> None:
        prior = self._prior
        lengths = 1 if prior is None or "lengthscale" not in prior.start else prior.start["lengthscale"].size
        if lengths not in (1, d):
            raise ValueError(f"prior has lengthscales of {lengths} inputs, but rows have {d}; give one of such rows")
        if self._d is None:
            self._tables = tuple(self._fresh(d) for _ in range(p))
            self._readings, self._clock = np.zeros((d, outliers.NUMBERS)), clock.begin()
        else:  # rows have come, but no target
            self._tables = (*self._tables, *(self._tables[0].copy() for _ in range(p - 1)))[:p]
        self._screen = np.zeros((p, outliers.NUMBERS))

    def _children(self) -> dict[str, StreamModel]:
        return {f"output.{j}": table for j, table in enumerate(self._tables)}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"screen": self._screen, "readings": self._readings, "clock": self._clock}

    def _check_restored(self) -> None:
        outliers.check(self._screen)
        outliers.check(self._readings)
        clock.check(self._clock)
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
        Z, width = self._upcoming(ops, X, conditions), 0 if kept is None else kept.shape[1] // len(self._tables)
        said = []
        for j, table in enumerate(self._tables):
            y = None if Y is None else np.ascontiguousarray(Y[:, j : j + 1])
            own = None if kept is None else kept[:, j * width : (j + 1) * width]
            said.append(table._pass(ops, Z, y, _of_output(conditions, j), own))
            if Y is not None and y is not None:  # who looks for refused targets finds those that were doubted, too
                Y[:, j] = y[:, 0]
        return said[0] if len(said) == 1 else np.concatenate(said, axis=2)

    def _upcoming(self, ops: np.ndarray, X: FloatArray, conditions: FloatArray | None) -> FloatArray:
        """Rows as they are believed, with their times."""
        d, (rows, kinds) = X.shape[1], ops.T
        Z = np.zeros((len(X), d + clock.TICK))
        Z[:, :d] = X
        times = clock.times_of(conditions, len(ops))
        advances = kinds & ADVANCE != 0
        if advances.any():
            came = rows[advances]
            Z[came, :d] = self._believed(X[came], self._readings)
            Z[came, d:] = clock.advanced(self._clock, times[advances])
        if not advances.all():
            alone = np.flatnonzero((kinds & PREDICT != 0) & ~advances)
            if len(alone):
                asked = rows[alone]
                Z[asked, :d] = self._asked(X[asked])
                Z[asked, d:] = clock.next_of(self._clock, times[alone])
        return Z

    def _believed(self, X: FloatArray, readings: FloatArray) -> FloatArray:
        """Rows in order; in place of an input that is more likely a broken reading the one before it stands."""
        if not (self._screens and X.shape[1]):
            return X
        if len(X) == 1 and outliers.within(readings, X[0]):
            outliers.doubt(readings, X.copy())
            return X
        last = readings[:, outliers.LAST].copy()
        left = outliers.doubted(readings, X)
        for row in left if np.isnan(left).any() else ():
            row[:] = last = np.where(np.isnan(row), last, row)
        return left

    def _asked(self, X: FloatArray) -> FloatArray:
        """Rows that would each come next, as they would be believed."""
        if not self._screens or all(outliers.within(self._readings, x) for x in X):
            return X
        return np.concatenate([self._believed(x[None], self._readings.copy()) for x in X])

    def _screened(self, Y: FloatArray) -> FloatArray:
        if not self._screens:
            return Y
        observed = np.where(np.abs(Y) > LARGEST, np.nan, Y)
        self._screen[:, outliers.REFUSED] += (np.isnan(observed) & ~np.isnan(Y)).sum(axis=0)
        return outliers.screened(self._screen, observed, False)

    @property
    def _kept_width(self) -> int:
        return sum(table._kept_width for table in self._tables)

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._tables[0]._columns

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._tables[0]._told(columns)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return super()._cannot(what, p) if what == "forget" else ""

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray | None, many: bool) -> None:
        if learned is not None:  # otherwise nothing is refused: the clock says what the time is
            super()._refuse_times(time, learned, many)

    def _moment(self) -> None:
        """Nothing stands outside of the clock."""

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _Futures(self, count)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        rows = [table._last_row() for table in self._tables]
        return rows[0][0], np.concatenate([y for _, y in rows])

    # What can be read.

    @property
    def _shown(self) -> Table:
        """The table of the first output."""
        return self._tables[0]

    @property
    def rows_seen(self) -> int:
        return self._tables[0].rows_seen

    @property
    def health(self) -> Health:
        if self._d is None:
            return super().health
        found = super().health
        screened = outliers.refused(self._screen) + outliers.refused(self._readings)
        doubted = sum(table.health.fill_values for table in self._tables)
        limited = sum(table.bank.limited for table in self._tables)
        return found._replace(fill_values=screened + doubted, limited_rows=found.limited_rows + limited)

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert counts at present, by name; of the first output."""
        bank = self._shown.bank
        return dict(zip(bank.names, bank.weights().tolist(), strict=True))

    @property
    def errors(self) -> dict[str, float]:
        """The root mean squared error of each expert over about the last thousand rows; of the first output."""
        bank = self._shown.bank
        return dict(zip(bank.names, bank.long_errors().tolist(), strict=True))

    def importance(self, groups: Sequence[Sequence[int]]) -> FloatArray:
        """Return how much groups of inputs count, and past targets together, as shares of 1; of the first output.

        They say how far predictions of the last rows move when columns are taken from other rows; see importance.py.
        It takes as long as a few thousand predictions. Without rows enough, or where nothing moves, there are none.

        Args:
            groups: numbers of inputs.
        """
        layout = self._shown.layout
        past = [] if self._d is None else [range(layout.own, layout.clock)]
        return importance(self._shown, [*groups, *past]) if past else np.zeros(0)

    @property
    def chosen(self) -> Chosen | None:
        """Which processes were chosen, and why; None before the end of the warm-up; of the first output."""
        return self._shown.chosen

    @property
    def changes(self) -> list[int]:
        """Rows, from 0, after which the stream changed; of the first output."""
        return list(self._shown.events)

    @property
    def next_change(self) -> int:
        """The number of rows after which experts are built or join next, which takes longer than a row."""
        return min(table.next_build for table in self._tables)

    @property
    def without_trees(self) -> str:
        """Why no forest can be trained, in a sentence; nothing where it can."""
        return forest.without_trees() if self._table["trees"] else "No trees, because trees=False."

    @property
    def size(self) -> int:
        return self._shown.size

    @property
    def basis(self) -> FloatArray:
        return self._shown.basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._shown.hyperparameters

    def relevance(self) -> Relevance:
        leader = self._shown.leader
        if leader is None:
            return super().relevance()
        found: Relevance = leader.relevance()
        return found

    @property
    def last_change(self) -> Change:
        leader = self._shown.leader
        return Change() if leader is None else leader.last_change


class _Futures(freerun.Trajectories):
    """Trajectories that see their own targets as lags and as values of seasons before; each step is drawn alone."""

    def __init__(self, model: Auto, count: int) -> None:
        self._tables, self._clock = [table.copy() for table in model._tables], model._clock.copy()
        self._pasts = [[table.past.copy() for _ in range(count)] for table in self._tables]

    def predict(self, X: FloatArray) -> freerun.Step:
        ticks = clock.advanced(self._clock, ONE_LATER)
        said = [table.ahead(X, ticks, pasts) for table, pasts in zip(self._tables, self._pasts, strict=True)]
        mean, variance, noise = (np.column_stack([one[i] for one in said]) for i in range(3))
        for pasts in self._pasts:
            for past, x in zip(pasts, X, strict=True):
                past.x[:] = x
        return freerun.Step(mean, variance, noise, mean, variance)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for j, pasts in enumerate(self._pasts):
            for past, y in zip(pasts, targets[:, j], strict=True):
                past.tell(np.array([y]))


def _of_output(conditions: FloatArray | None, j: int) -> FloatArray | None:
    if conditions is None:
        return None
    own = conditions[:, NOISE + j : NOISE + j + 1] if conditions.shape[1] > NOISE + j else conditions[:, NOISE:][:, :1]
    return np.hstack([conditions[:, :NOISE], own])

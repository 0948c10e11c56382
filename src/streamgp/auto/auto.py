"""Auto: the model for those who do not want to choose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.auto import choosing, clock, forest, needed
from streamgp.auto.candidates import CANDIDATES, DEFAULT, sizes_of
from streamgp.auto.features import Layout, default_lags
from streamgp.auto.lines import Builder
from streamgp.auto.table import NOUGHT, Table
from streamgp.contract import freerun
from streamgp.contract.analysis import Analysis
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.lanes import ADVANCE, PREDICT
from streamgp.contract.model import Ability, Health, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.process.prior import Prior, checked
from streamgp.settings import FloatArray, Maybe, nearest, probability, switch, whole
from streamgp.wrappers import outliers
from streamgp.wrappers.aggregation import LIMITED
from streamgp.wrappers.wrapper import Composite

LONGER_LAGS = 24  # of least squares, which needs few rows for many inputs
IMPORTANCE_ROWS = 200  # of the last ones
SHARED = "level", "warmup", "drift", "screen", "background"  # settings of each output


class Auto(Composite):
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

    _models: list[Table]  # type: ignore[assignment]  # one for each output
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
        background: bool = True,
        candidates: dict[str, Any] | None = None,
        prior: Prior | None = None,
        trees: bool | None = None,
    ) -> None:
        self._lags = None if lags is None else whole("lags", lags, at_least=0)
        self._seasons = tuple(whole("seasons", season) for season in seasons)
        whole("warmup", warmup, at_least=10)
        probability("level", level)
        given, known = candidates or {}, sorted(set().union(*CANDIDATES.values()))
        for name in given:
            if name.partition("__")[0] not in known:
                raise ValueError(f"no candidate of Auto has a setting {name!r}.{nearest(name, known)}")
        self._needs_time = given.get("half_life") is not None
        self._screens, self._trees = switch("screen", screen), trees is not False
        self._largest = np.inf if screen else LARGEST
        self._sizes, self._candidates, self._prior = sizes_of(budget), given, checked("prior", prior)
        for name in ("tune", "drift", "background"):
            switch(name, self._settings[name])
        if trees is not None and switch("trees", trees) and (why := forest.without_trees()):
            raise ImportError(why)
        needed.compile_first()  # together, before experts ask for their parts
        self._models = [self._table_for(1)]

    # The state.

    def _table_for(self, d: int) -> Table:
        """What predicts one output from d columns."""
        ahead = self._ahead if self._ahead > 1 else 0
        lags = default_lags(d, self._seasons, ahead) if self._lags is None else self._lags
        layout = Layout(d, max(lags, LONGER_LAGS) if lags else 1, self._seasons, ahead)
        builder = Builder(layout, lags, self._settings["tune"], self._sizes, self._candidates, self._prior)
        table = Table({name: self._settings[name] for name in SHARED} | {"builder": builder, "trees": self._trees})
        table._prepare(Shape(d + clock.TICK, 1, scalar=False, certain=True))
        return table

    def _start(self, d: int, p: int) -> None:
        prior = self._prior
        lengths = 1 if prior is None or "lengthscale" not in prior.start else prior.start["lengthscale"].size
        if lengths not in (1, d):
            raise ValueError(f"prior has lengthscales of {lengths} inputs, but rows have {d}; give one of such rows")
        if self._d is None:
            self._models = [self._table_for(d) for _ in range(p)]
            self._readings, self._clock = np.zeros((d, outliers.NUMBERS)), clock.begin()
        else:  # rows have come, but no target
            self._models = [*self._models, *(self._models[0].copy() for _ in range(p - 1))][:p]
        self._screen = np.zeros((p, outliers.NUMBERS))

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return StreamModel.get_params(self, deep)

    def _children(self) -> dict[str, StreamModel]:
        return {f"output.{j}": table for j, table in enumerate(self._models)}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"screen": self._screen, "readings": self._readings, "clock": self._clock}

    def _check_restored(self) -> None:
        outliers.check(self._screen)
        outliers.check(self._readings)
        clock.check(self._clock)

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        Z, width = self._upcoming(ops, X, conditions), 0 if kept is None else kept.shape[1] // len(self._models)
        said = []
        for j, table in enumerate(self._models):
            y = None if Y is None else np.ascontiguousarray(Y[:, j : j + 1])
            own = None if kept is None else kept[:, j * width : (j + 1) * width]
            given = conditions
            if conditions is not None:  # the noises of its own targets, if outputs have some
                given = conditions[:, [*range(NOISE), min(NOISE + j, conditions.shape[1] - 1)]]
            said.append(table._pass(ops, Z, y, given, own))
            if Y is not None and y is not None:  # who looks for refused targets finds those that were doubted, too
                Y[:, j] = y[:, 0]
        return said[0] if len(said) == 1 else np.concatenate(said, axis=2)

    def _upcoming(self, ops: np.ndarray, X: FloatArray, conditions: Maybe) -> FloatArray:
        """Rows as they are believed, with their times; those that do not advance as each would come next."""
        rows, kinds = ops.T
        Z = np.concatenate([X, np.zeros((len(X), clock.TICK))], axis=1)
        times = np.full(len(ops), np.nan) if conditions is None else conditions[:, TIME]
        advance = np.flatnonzero(kinds & ADVANCE)
        if len(advance):
            Z[rows[advance]] = self._come(X[rows[advance]], times[advance], self._readings, self._clock)
        for op in np.flatnonzero(kinds & (PREDICT | ADVANCE) == PREDICT):
            state = self._readings.copy(), self._clock.copy()
            Z[rows[op]] = self._come(X[rows[op] : rows[op] + 1], times[op : op + 1], *state)[0]
        return Z

    def _come(self, X: FloatArray, times: FloatArray, readings: FloatArray, ticks: FloatArray) -> FloatArray:
        """Rows in order; in place of an input that is more likely a broken reading the one before it stands."""
        if self._screens:
            last, X = readings[:, outliers.LAST].copy(), outliers.doubted(readings, X)
            for x in X if np.isnan(X).any() else ():
                x[:] = last = np.where(np.isnan(x), last, x)
        return np.concatenate([X, clock.advanced(ticks, times)], axis=1)

    def _screened(self, Y: FloatArray) -> FloatArray:
        if not self._screens:
            return Y
        observed = np.where(np.abs(Y) > LARGEST, np.nan, Y)
        self._screen[:, outliers.REFUSED] += (np.isnan(observed) & ~np.isnan(Y)).sum(axis=0)
        return outliers.screened(self._screen, observed, False)

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return sum(table._kept_width for table in self._models)

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._models[0].intervals._columns

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._models[0].intervals._told(columns)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return super()._cannot(what, p) if what == "forget" else ""

    def _refuse_times(self, time: Maybe, learned: np.ndarray | None, many: bool) -> None:
        if learned is not None:  # otherwise nothing is refused: the clock says what the time is
            super()._refuse_times(time, learned, many)

    def _analysis(self) -> Analysis:
        return _AutoAnalysis(self)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        rows = [table._last_row() for table in self._models]
        return rows[0][0], np.concatenate([y for _, y in rows])

    # What can be read.

    def _shown(self) -> StreamModel:
        return self._models[0].leader or self._models[0]

    @property
    def health(self) -> Health:
        found = super().health
        if self._d is None:
            return found
        screened = outliers.refused(self._screen) + outliers.refused(self._readings)
        doubted = sum(outliers.refused(table.doubts) + int(table.clock[choosing.STRUCK]) for table in self._models)
        limited = sum(int(table.bank.seen[LIMITED]) for table in self._models)
        return found._replace(fill_values=screened + doubted, limited_rows=found.limited_rows + limited)

    @property
    def weights(self) -> dict[str, float]:
        """How much each expert counts at present, by name; of the first output."""
        return self._models[0].bank.by_name(self._models[0].bank.weights())

    @property
    def errors(self) -> dict[str, float]:
        """The root mean squared error of each expert over about the last thousand rows; of the first output."""
        return self._models[0].bank.by_name(self._models[0].bank.long_errors())

    def importance(self, groups: Sequence[Sequence[int]]) -> FloatArray:
        """Return how much groups of inputs count, and past targets together, as shares of 1; of the first output.

        They say how far predictions of the last rows move when columns are taken from other rows. It takes as long as a
        few thousand predictions. Without rows enough, or where nothing moves, there are none.

        Args:
            groups: numbers of inputs.
        """
        table, seen = self._models[0], self.rows_seen
        F = table.rows_between(max(seen - IMPORTANCE_ROWS, 0), seen).F
        F = F[np.isfinite(F).all(axis=1)]
        if len(F) < 2:
            return np.zeros(0)
        other, mean = F[np.random.default_rng(0).permutation(len(F))], table.said(F)[0]
        groups = [*groups, range(table.layout.own, table.layout.clock)]
        moved = np.empty(len(groups))
        # Its half is the part of the variance in which a group has a part, Sobol's total index.
        for at, columns in enumerate(groups):
            changed = F.copy()
            changed[:, columns] = other[:, columns]
            moved[at] = np.mean((table.said(changed)[0] - mean) ** 2)
        total = moved.sum()
        return moved / total if np.isfinite(total) and total > 0 else np.zeros(0)

    @property
    def chosen(self) -> choosing.Chosen | None:
        """Which processes were chosen, and why; None before the end of the warm-up; of the first output."""
        return self._models[0].chosen

    @property
    def changes(self) -> list[int]:
        """Rows, from 0, after which the stream changed; of the first output."""
        return list(self._models[0].events)

    @property
    def next_change(self) -> int:
        """The number of rows after which experts are built or join next, which takes longer than a row."""
        return min(choosing.next_build(table) for table in self._models)

    @property
    def without_trees(self) -> str:
        """Why no forest can be trained, in a sentence; nothing where it can."""
        return forest.without_trees() if self._trees else "No trees, because trees=False."


class _AutoAnalysis(Analysis):
    def trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _Futures(self.model, count)


class _Futures(freerun.Trajectories):
    """Trajectories that see their own targets as lags and as values of seasons before; each step is drawn alone."""

    def __init__(self, model: Auto, count: int) -> None:
        self._tables, self._clock = model._models, model._clock.copy()
        self._pasts = [[table.past.copy() for _ in range(count)] for table in self._tables]

    def predict(self, X: FloatArray) -> freerun.Step:
        ticks, said = clock.advanced(self._clock, np.full(1, np.nan)), []
        for table, pasts in zip(self._tables, self._pasts, strict=True):
            rows = [past.see(x[None], ticks, past.known, NOUGHT, past.x) for past, x in zip(pasts, X, strict=True)]
            said.append(table.said(np.concatenate(rows))[:3])
            for past, x in zip(pasts, X, strict=True):
                past.x[:] = x
        mean, variance, noise = np.stack(said, axis=2)
        return freerun.Step(mean, variance, noise, mean, variance)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for j, pasts in enumerate(self._pasts):
            for past, y in zip(pasts, targets[:, j], strict=True):
                past.tell(np.array([y]))

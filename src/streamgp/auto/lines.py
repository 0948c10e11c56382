"""Which lines there are, and how each is built from rows. Nothing here changes, so that a thread can use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import over_time, search
from streamgp.auto.bank import Line
from streamgp.auto.candidates import CANDIDATES, LEAST_SQUARES, Sizes, candidate, least_squares
from streamgp.auto.features import Layout
from streamgp.auto.step import MEAN, PROCESS, VALUE
from streamgp.batch import FullGP
from streamgp.contract.model import Shape
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior
from streamgp.process.row import LEARNED
from streamgp.settings import FloatArray
from streamgp.wrappers.units import standard, units_of

FEWEST = 30  # targets from which hyperparameters can be found at all
FROM = ", from row "  # in the names of lines that are built anew
# Precisions of the weights of a line, in units of the noise, among which the evidence chooses.
PRECISIONS = np.logspace(-12.0, 4.0, 17)
TREES = "trees (change)"


class Rows(NamedTuple):
    """Rows from which lines are built.

    Args:
        F: (n, width) features.
        y: (n,) targets, NaN where missing.
        times: (n,) by which models forget; None: they do not.
    """

    F: FloatArray
    y: FloatArray
    times: FloatArray | None = None


class View(NamedTuple):
    """What a line sees: some columns, and the target or its change since the last known one."""

    label: str
    columns: tuple[int, ...]
    change: bool = False

    def named(self, name: str) -> str:
        return f"{name} ({self.label})" if self.label else name


class Builder(NamedTuple):
    """Builds lines.

    Args:
        layout: which column is what.
        lags: past targets that lines other than least squares may use.
        tune: whether hyperparameters are tuned.
        sizes: of the processes.
        candidates: settings of the processes by name.
        prior: of a fleet, where their hyperparameters begin; None: there is none.
    """

    layout: Layout
    lags: int
    tune: bool
    sizes: Sizes
    candidates: dict[str, Any]
    prior: Prior | None

    # What there may be.

    def naive(self) -> list[Line]:
        """Lines that need no rows."""
        newest = self.layout.newest
        seasons = zip(self.layout.seasons, self.layout.values, strict=True)
        return [
            Line("previous value", VALUE, (newest,)),
            Line("mean", MEAN),
            *(Line(f"value {rows} rows ago", VALUE, (column,)) for rows, column in seasons),
        ]

    def straight(self) -> list[View]:
        """What least squares sees."""
        own, layout = tuple(range(self.layout.own)), self.layout
        found = [View("", own)] if own else []
        if self.lags:
            recent, longer = (*own, *range(len(own), len(own) + self.lags)), tuple(range(layout.own + layout.past))
            found.append(View("lags", recent))
            if layout.past > self.lags:
                found.append(View(f"{layout.past} lags", longer))
            if layout.before:
                found.append(View("lags, row before", (*recent, *layout.before)))
            if layout.before or layout.seasons:
                found.append(View("all", (*longer, *layout.values, *layout.waves, *layout.before)))
        return found

    def processes(self) -> dict[str, tuple[View, str]]:
        """Processes by name: what each sees, and of which kind it is."""
        own = tuple(range(self.layout.own))
        found = [View("", own)] if own else []
        if self.lags:
            recent = tuple(range(self.layout.own + self.lags))
            found += [View("lags", recent), View("change, lags", recent, True)]
        elif own:
            found.append(View("change", own, True))
        return {view.named(kind): (view, kind) for view in found for kind in CANDIDATES}

    def over_time(self) -> list[View]:
        """What processes over time see."""
        alone, own = View(over_time.LABEL, ()), tuple(range(self.layout.own))
        return [alone, View(over_time.LABEL, own)] if own else [alone]

    # How it is built.

    def lines(self, rows: Rows) -> list[Line]:
        """Least squares, with the precision that the evidence prefers, for the target or for its change."""
        built = []
        for view in self.straight():
            precision, change = self._ridge(view, rows)
            for forgetting in LEAST_SQUARES:
                process = least_squares(forgetting, precision)
                name = view.named(f"least squares {forgetting:g}")
                built.append(self._learned(name, view._replace(change=change), process, rows, varies=False))
        return built

    def _ridge(self, view: View, rows: Rows) -> tuple[float, bool]:
        """The precision of the weights, and whether the line is one for the change."""
        found = []
        for change in (False, True):
            X, y, _ = self._standard(view._replace(change=change), rows)
            known = np.isfinite(y)
            precision, evidence = ridge(X[known], y[known])
            found.append((evidence, -precision, change, precision))
        _, _, change, precision = max(found)
        return precision, change

    def built(self, names: Sequence[str], rows: Rows, suffix: str = "") -> list[Line]:
        """Processes by name, with hyperparameters that are found from these rows.

        Args:
            names: of ``processes``.
            rows: of the stream.
            suffix: of the names.
        """
        processes, found, lines = self.processes(), dict[tuple[int, ...], FullGP | None](), []
        for name in names:
            view, kind = processes[name]
            model = self._candidate(kind, len(view.columns))
            if self.tune and np.count_nonzero(np.isfinite(rows.y)) >= FEWEST:
                # One search for all that see the same columns: for the change, where there is one.
                searched = view._replace(change="lags" in view.label or view.change)
                X, y, (_, unit) = self._standard(searched, rows)
                if view.columns not in found:
                    found[view.columns] = search.exact(self._candidate("KRLST", len(view.columns)), X, y)
                batch = found[view.columns]
                if batch is not None:
                    own = self._standard(view, rows)
                    scale = (unit[1] / own[2][1][1]) ** 2
                    model = search.tuned(model, batch, scale, own[0], own[1])
            lines.append(self._learned(name + suffix, view, model, rows))
        return lines

    def built_over_time(self, rows: Rows) -> list[Line]:
        """Processes over time; none where too little is known."""
        order = np.argsort(rows.F[:, self.layout.clock], kind="stable")  # late targets came in another order
        rows = Rows(rows.F[order], rows.y[order], None)
        times = rows.F[:, self.layout.clock]
        known: Any = over_time.found(rows.y, times, self.layout.seasons, tune=self.tune)
        if known is None:
            return []
        names = over_time.ALONE, over_time.WITH_INPUTS
        return [
            self._learned(view.named(name), view, known.model(len(view.columns)), rows, timed=True)
            for name, view in zip(names, self.over_time(), strict=False)
        ]

    def _candidate(self, kind: str, d: int) -> OnlineGP:
        return candidate(kind, d, self.candidates, self.sizes, self.prior, self.layout.own)

    def _standard(self, view: View, rows: Rows) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
        """Rows as a view sees them in standard units, and these units."""
        X, y = rows.F[:, view.columns], rows.y - (rows.F[:, self.layout.newest] if view.change else 0.0)
        of = units_of(X, y[:, None])
        units, target_units = np.stack(of[:2]), np.concatenate(of[2:])
        X = np.where(np.isnan(X), 0.0, standard(np.ascontiguousarray(X), *units))
        return X, standard(y[:, None].copy(), of.target_shift, of.target_scale)[:, 0], (units, target_units)

    def _learned(
        self, name: str, view: View, process: OnlineGP, rows: Rows, *, timed: bool = False, varies: bool = True
    ) -> Line:
        """A line whose process has learned these rows."""
        X, y, (units, target_units) = self._standard(view, rows)
        process._prepare(Shape(X.shape[1], 1, scalar=False, certain=True))
        line = Line(
            name,
            PROCESS,
            view.columns,
            self.layout.newest if view.change else -1,
            process,
            units,
            target_units,
            timed or process._needs_time or process._moment() is not None,
            varies,
        )
        y, times = self._in_time(line, rows, y)
        process.learn_many(X, y[:, None], time=times)
        return line

    def _in_time(self, line: Line, rows: Rows, y: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Targets as a line learns them, and their times; those that came too late for a filter are missing."""
        if not line.timed or line.process is None:
            return y, None
        times = rows.F[:, self.layout.clock]
        latest = np.maximum.accumulate(np.fmax(times, line.process._state.clock[LEARNED, 0]))
        return np.where(times < latest, np.nan, y), latest

    def tried(self, lines: Sequence[Line], rows: Rows) -> Iterator[tuple[str, FloatArray]]:
        """Let lines predict and learn rows that they have not seen; their errors, NaN where unknown."""
        for line in lines:
            if line.process is not None:
                base = rows.F[:, line.origin] if line.origin >= 0 else 0.0
                X = standard(np.ascontiguousarray(rows.F[:, line.columns]), *line.units)
                shift, scale = line.target_units
                y = (rows.y - base - shift) / scale
                y, times = self._in_time(line, rows, y)
                said = line.process.track(np.where(np.isnan(X), 0.0, X), y[:, None], time=times)
                yield line.name, rows.y - (shift + scale * said.mean[:, 0] + base)
            elif line.forest is not None:
                yield line.name, rows.y - line.forest.predict(rows.F) - rows.F[:, line.origin]


def ridge(X: FloatArray, y: FloatArray) -> tuple[float, float]:
    """The precision of the weights under which targets are likeliest, in units of their noise, and that evidence.

    The noise is the one that fits best under each precision, with one row's worth of the targets' own variance beside
    it. Both are in standard units, in which the target and its change differ by their scale: it is taken into account.
    """
    if not len(y):
        return 1.0, -np.inf
    U, s, _ = np.linalg.svd(np.hstack([X, np.ones((len(X), 1))]), full_matrices=False)
    z2 = (U.T @ y) ** 2
    rest = max(float(y @ y) - float(z2.sum()), 0.0)
    share = 1.0 + s**2 / PRECISIONS[:, None]  # of the variance of each direction, in units of the noise
    noise = ((z2 / share).sum(axis=1) + rest + 1e-12) / len(y)
    evidence = -0.5 * (len(y) * np.log(noise) + np.log(share).sum(axis=1))
    best = int(np.argmax(evidence))
    return float(PRECISIONS[best]), float(evidence[best])

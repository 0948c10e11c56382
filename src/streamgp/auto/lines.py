"""Which lines there are, and how each is built from rows. Nothing here changes, so that a thread can use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import forest, search
from streamgp.auto.bank import Bank, Line
from streamgp.auto.candidates import (
    CANDIDATES,
    LEAST_SQUARES,
    Sizes,
    candidate,
    kernel_over_time,
    least_squares,
    over_time,
)
from streamgp.auto.features import Layout
from streamgp.auto.step import FOREST, MEAN, PROCESS, VALUE
from streamgp.contract.lanes import TAKE, TRACK, listed
from streamgp.contract.model import Shape
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior
from streamgp.settings import FloatArray
from streamgp.wrappers.units import standard, units_of

FEWEST = 30  # targets from which hyperparameters can be found at all
FROM = ", from row "  # in the names of lines that are built anew
# Precisions of the weights of a line, in units of the noise, among which the evidence chooses.
PRECISIONS = np.logspace(-12.0, 4.0, 17)
TREES = "trees (change)"
LINES, OVER_TIME, FORESTS = "least squares", "over time", "forests"  # what is built beside processes


class Rows(NamedTuple):
    """Rows from which lines are built.

    Args:
        F: (n, width) features.
        y: (n,) targets, NaN where missing.
    """

    F: FloatArray
    y: FloatArray


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
            recent, longer = tuple(range(layout.own + self.lags)), tuple(range(layout.own + layout.past))
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
            # Errors in rows 501 to 3,000 without the first: 1.05 (barrett_wam); without the second: 1.15 (tank).
            found += [View("lags", recent), View("change, lags", recent, True)]
        elif own:
            found.append(View("change", own, True))
        return {view.named(kind): (view, kind) for view in found for kind in CANDIDATES}

    def over_time(self) -> dict[str, View]:
        """Processes over time by name: what each sees."""
        own = tuple(range(self.layout.own))
        found = {"Gaussian process": View(OVER_TIME, ())} | ({"least squares": View(OVER_TIME, own)} if own else {})
        return {view.named(name): view for name, view in found.items()}

    # How it is built.

    def built(self, what: str, rows: Rows, suffix: str = "") -> list[Line]:
        """Lines that have learned these rows.

        Args:
            what: LINES, OVER_TIME, FORESTS, or names of ``processes``, joined by "+".
            rows: of the stream.
            suffix: of the names of processes.
        """
        others = {LINES: self._lines, OVER_TIME: self._over_time, FORESTS: self._forests}
        return others[what](rows) if what in others else self._processes(what.split("+"), rows, suffix)

    def _lines(self, rows: Rows) -> list[Line]:
        """Least squares, with the precision that the evidence prefers, for the target or for its change."""
        built = []
        for view in self.straight():
            found = []
            for change in (False, True):
                X, y, _ = self._standard(view._replace(change=change), rows)
                known = np.isfinite(y)
                precision, evidence = ridge(X[known], y[known])
                found.append((evidence, -precision, change))
            _, negative, change = max(found)
            for forgetting in LEAST_SQUARES:
                process, name = least_squares(forgetting, -negative), view.named(f"least squares {forgetting:g}")
                built.append(self._learned(name, view._replace(change=change), process, rows, varies=False))
        return built

    def _processes(self, names: Sequence[str], rows: Rows, suffix: str) -> list[Line]:
        """Processes that see the same columns, with hyperparameters of one search."""
        views, lines, found = [self.processes()[name] for name in names], list[Line](), None
        first, d = views[0][0], len(views[0][0].columns)
        searched = first._replace(change=first.change or "lags" in first.label)  # for the change, where there is one
        if self.tune and np.count_nonzero(np.isfinite(rows.y)) >= FEWEST:
            X, y, (_, unit) = self._standard(searched, rows)
            found = search.exact(self._candidate("KRLST", d), X, y)
        for name, (view, kind) in zip(names, views, strict=True):
            model = self._candidate(kind, d)
            if found is not None:
                X, y, (_, own) = self._standard(view, rows)
                model = search.tuned(model, found, (unit[1] / own[1]) ** 2, X, y)
            lines.append(self._learned(name + suffix, view, model, rows))
        return lines

    def _over_time(self, rows: Rows) -> list[Line]:
        """None where too little is known."""
        order = np.argsort(rows.F[:, self.layout.clock], kind="stable")  # late targets came in another order
        rows = Rows(rows.F[order], rows.y[order])
        known = kernel_over_time(rows.y, rows.F[:, self.layout.clock], self.layout.seasons, self.tune)
        if known is None:
            return []
        return [
            self._learned(name, view, over_time(*known, len(view.columns)), rows)
            for name, view in self.over_time().items()
        ]

    def _forests(self, rows: Rows) -> list[Line]:
        """None where there is no LightGBM."""
        newest = self.layout.newest
        found = forest.train(rows.F, rows.y - rows.F[:, newest])
        return [] if found is None else [Line(TREES, FOREST, (), newest, forest=found)]

    def _candidate(self, kind: str, d: int) -> OnlineGP:
        return candidate(kind, d, self.candidates, self.sizes, self.prior, self.layout.own)

    def _standard(self, view: View, rows: Rows) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
        """Rows as a view sees them in standard units, and these units."""
        X, y = rows.F[:, view.columns], rows.y - (rows.F[:, self.layout.newest] if view.change else 0.0)
        of = units_of(X, y[:, None])
        units, target_units = np.stack(of[:2]), np.concatenate(of[2:])
        X = np.where(np.isnan(X), 0.0, standard(np.ascontiguousarray(X), *units))
        return X, standard(y[:, None].copy(), of.target_shift, of.target_scale)[:, 0], (units, target_units)

    def _learned(self, name: str, view: View, process: OnlineGP, rows: Rows, *, varies: bool = True) -> Line:
        """A line whose process has learned these rows."""
        _, _, (units, target_units) = self._standard(view, rows)
        process._prepare(Shape(len(view.columns), 1, scalar=False, certain=True))
        origin = self.layout.newest if view.change else -1
        line = Line(name, PROCESS, view.columns, origin, process, units, target_units, varies)
        self._run([line], rows, TAKE)
        return line

    def tried(self, lines: Sequence[Line], rows: Rows) -> dict[str, FloatArray]:
        """Let lines predict and learn rows that they have not seen; their errors by name, NaN where unknown."""
        errors = rows.y[:, None] - self._run(lines, rows, TRACK)
        return {line.name: one for line, one in zip(lines, errors.T, strict=True)}

    def _run(self, lines: Sequence[Line], rows: Rows, kind: int) -> FloatArray:
        """What lines say of rows, (n, lines), by themselves."""
        said: FloatArray = Bank(self.layout.clock).placed(lines).run(listed(len(rows.F), kind), *rows)[0]
        return said


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

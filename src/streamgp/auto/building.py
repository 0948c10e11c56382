"""Building: which experts there are, and how each is built from rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import needed, over_time, search
from streamgp.auto.budget import Sizes
from streamgp.auto.candidates import CANDIDATES, LEAST_SQUARES, LOGARITHMIC, ROBUST, WEAK, candidate, least_squares
from streamgp.auto.first_targets import outliers
from streamgp.auto.logarithm import Logarithm
from streamgp.auto.past import Layout
from streamgp.auto.preceded import Preceded
from streamgp.auto.staged import FEWEST, Rows
from streamgp.auto.timed import Timed
from streamgp.batch import FullGP
from streamgp.contract.model import StreamModel
from streamgp.process.prior import Prior
from streamgp.settings import FloatArray
from streamgp.wrappers.columns import Columns, Differenced
from streamgp.wrappers.standardize import Standardize

PER_INPUT = 2  # rows for each input of a line; with fewer its weights stay near 0
FROM = ", from row "  # in the names of later generations
LOGARITHM = "log"  # in the labels of lines for it


class View(NamedTuple):
    """What an expert sees: some columns, and the target or its change.

    Args:
        label: for people.
        columns: their numbers.
        change: whether the target is its change since the newest lag.
    """

    label: str
    columns: list[int]
    change: bool


class Builder(NamedTuple):
    """Builds experts. It never changes, so that a thread can use it beside the stream.

    Args:
        layout: what the columns are.
        lags: past targets that experts other than least squares may use.
        ahead: rows between a row and its target.
        tune: whether hyperparameters are tuned.
        screen: whether fill values among the first targets are struck out.
        sizes: of the Gaussian processes.
        candidates: settings of the candidates by name.
        prior: of a fleet, where their hyperparameters begin; None: there is none.
    """

    layout: Layout
    lags: int
    ahead: int
    tune: bool
    screen: bool
    sizes: Sizes
    candidates: dict[str, Any]
    prior: Prior | None

    def processes(self, begin: int) -> dict[str, tuple[View, str]]:
        """Those that a generation may have, by name."""
        since = f"{FROM}{begin + 1}" if begin else ""
        found = {
            named(kind, view) + since: (view, kind) for view in views(self.layout.own, self.lags) for kind in CANDIDATES
        }
        return found if begin else found | self.over_time() | self.logarithmic()

    def logarithmic(self) -> dict[str, tuple[View, str]]:
        """Lines for the logarithm of the target, of the first generation."""
        label = f"{LOGARITHM}, lags" if self.lags else LOGARITHM
        view = View(label, list(range(self.layout.own + self.lags)), False)
        kinds = [f"least squares {forgetting:g}" for forgetting in LOGARITHMIC] if view.columns else []
        return {named(kind, view): (view, kind) for kind in kinds}

    def _built_logarithmic(self, names: list[str], y: FloatArray) -> Iterator[tuple[str, StreamModel]]:
        """Lines for the logarithm of the target; none where a target is not above 0."""
        least = float(np.nanmin(y, initial=np.inf))
        lags = list(range(self.layout.own, self.layout.own + self.layout.past))
        for name, forgetting in zip(self.logarithmic(), LOGARITHMIC, strict=False):
            if name in names and 0 < least < np.inf:
                columns = self.logarithmic()[name][0].columns
                line = Standardize(least_squares(forgetting), warmup=max(len(y), 2), screen=False)
                yield name, Logarithm(Columns(line, columns=columns), columns=lags, least=least)

    def over_time(self) -> dict[str, tuple[View, str]]:
        """Experts over time, of the first generation only: what they forget does not depend on a change."""
        alone, beside = (View(over_time.LABEL, columns, False) for columns in ([], list(range(self.layout.own))))
        found = {named(over_time.ALONE, alone): (alone, over_time.ALONE)}
        if self.layout.own:
            found[named(over_time.WITH_INPUTS, beside)] = beside, over_time.WITH_INPUTS
        return found

    def _lines(self, rows: int) -> Iterator[tuple[str, StreamModel]]:
        """Least squares; with the past among the inputs a line for the change is one for the level."""
        longer = View(f"{self.layout.past} lags", list(range(self.layout.own + self.layout.past)), False)
        layout, recent = self.layout, list(range(self.layout.own + self.lags))
        seasonal = View("lags, seasons", [*recent, *layout.values, *layout.waves], False)
        further = [longer] if self.layout.past > self.lags > 0 else []
        further += [seasonal] if self.lags and layout.seasons else []
        for view in [*views(self.layout.own, self.lags), *further]:
            if not (view.change and "lags" in view.label):
                width = len(view.columns)
                few = rows < PER_INPUT * width
                # Where rows are few, weights near 0 say: as before, or where nothing is known of that, as on average.
                of = view._replace(change=True) if few and "lags" in view.label else view
                for forgetting in LEAST_SQUARES:
                    line = least_squares(forgetting, float(width) if few else WEAK)
                    yield named(f"least squares {forgetting:g}", view), self._seeing(of, line, rows)
        if self.layout.own and self.lags and not self.ahead:
            for forgetting in LEAST_SQUARES:
                line = Standardize(least_squares(forgetting), warmup=max(rows, 2), screen=self.screen)
                seen = Preceded(line, columns=self.layout.own, sees=self.layout.own + self.lags)
                yield f"least squares {forgetting:g} (lags, row before)", seen

    def _seeing(self, view: View, model: StreamModel, rows: int) -> StreamModel:
        seen: StreamModel = Standardize(model, warmup=max(rows, 2), screen=self.screen)
        if len(view.columns) < self.layout.width:
            seen = Columns(seen, columns=view.columns)
        return Differenced(seen, column=self.layout.own) if view.change else seen

    def built(
        self, names: list[str], begin: int, known: StreamModel | None, rows: Rows
    ) -> list[tuple[str, StreamModel]]:
        """Members that have learned these rows; nothing of this model changes."""
        if names:
            needed.compile_tuning()
        if names and self._is_over_time(names):  # late targets came in another order
            rows = rows.sorted_by(self.layout.clock)
        members = list(self._tuned(names, begin, known, rows) if names else self._lines(len(rows.Y)))
        for _, member in members:
            member.learn_many(rows.X, rows.Y[:, 0], time=rows.time)
        return members

    def _tuned(
        self, names: list[str], begin: int, known: StreamModel | None, rows: Rows
    ) -> Iterator[tuple[str, StreamModel]]:
        """Gaussian processes of a generation that see the same, with the hyperparameters of their families."""
        processes, X, y = self.processes(begin), rows.X, rows.Y[:, 0]
        if self._is_over_time(names):
            yield from self._built_over_time(names, X, y)
            return
        if processes[names[0]][0].label.startswith(LOGARITHM):
            yield from self._built_logarithmic(names, y)
            return
        found: dict[bool, FullGP | None] = {}
        for name in names:
            view, kind = processes[name]
            columns = view.columns
            model = self._candidate(kind, len(columns))
            if self.tune and np.count_nonzero(~np.isnan(y)) >= FEWEST:
                robust = kind in ROBUST
                if robust not in found:
                    target = y - X[:, self.layout.own] if view.change else y
                    if robust:  # the search itself is not robust
                        target = np.where(outliers(rows), np.nan, target)
                    start = self._candidate(kind if robust else "KRLST", len(columns))
                    found[robust] = search.exact(start, known, np.ascontiguousarray(X[:, columns]), target)
                batch = found[robust]
                model = model if batch is None else search.tuned(model, batch)
            yield name, self._seeing(view, model, len(y))

    def _is_over_time(self, names: Sequence[str]) -> bool:
        """Whether members that are built together are over time."""
        return names[0] in self.over_time()

    def _built_over_time(self, names: list[str], X: FloatArray, y: FloatArray) -> Iterator[tuple[str, StreamModel]]:
        """Experts over time; none where too little is known."""
        clock, processes = self.layout.clock, self.over_time()
        known = over_time.found(y, X[:, clock], self.layout.seasons, tune=self.tune)
        if known is None:
            return
        for name in names:
            columns = processes[name][0].columns
            model = Standardize(known.model(len(columns)), warmup=max(len(y), 2), screen=self.screen)
            yield name, Timed(model, column=clock, columns=columns)

    def _candidate(self, kind: str, d: int) -> StreamModel:
        return candidate(kind, d, self.candidates, self.sizes, self.prior, self.layout.own)


def views(own: int, lags: int) -> list[View]:
    """What experts see of this many columns and past targets."""
    columns = list(range(own))
    level = [View("", columns, False), View("change", columns, True)] if columns else []
    recent = list(range(own + lags))
    past = [View("lags", recent, False), View("change, lags", recent, True)] if lags else []
    return level + past


def named(name: str, view: View) -> str:
    return f"{name} ({view.label})" if view.label else name

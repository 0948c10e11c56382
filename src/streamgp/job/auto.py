"""Auto: experts that predict from the second row on, Gaussian processes that join them, and one prediction of all.

Naive predictions exist at once, least squares from row 20. On the first hundred rows Gaussian processes are tuned, for
the level of the target and for its change, with and without its past as inputs; at the end of the warm-up the better
half is tuned again and stays, and later those that have fallen behind leave. All of them are members of one committee,
which never starts anew: whoever is better earns weight, and nobody has to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError
from streamgp.evaluate.metrics import rmse
from streamgp.job.candidates import CANDIDATES, LEAST_SQUARES, least_squares
from streamgp.job.request import Request
from streamgp.job.selection import FEWEST, Chosen, hyperparameters, kept_rows
from streamgp.recipes.naive import InputValue, RunningMean, SeasonalValue
from streamgp.settings import FloatArray
from streamgp.tuning.tune import with_hyperparameters
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.columns import Columns, Differenced
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.standardize import Standardize

LINES_FROM = 20  # rows from which least squares takes part
EARLY = 10  # Gaussian processes are first tuned on this fraction of the warm-up's rows
# How many Gaussian processes stay after so many times the warm-up.
STAY = {1: 8, 2: 6, 4: 4}


class View(NamedTuple):
    """What an expert sees: some columns, and the target or its change.

    Args:
        label: for people.
        columns: None: all.
        change: whether the target is its change since the newest lag.
    """

    label: str
    columns: list[int] | None
    change: bool


class Auto:
    """Keeps the first rows, and changes the members of the committee as more is known.

    Args:
        request: what was asked for.
        own: inputs that are columns of the table; they come first.
        lags: past targets that experts may use; at least one column of them follows, the newest first.
        seasons: rows of a day and of a week, where they are known.
    """

    def __init__(self, request: Request, own: int, lags: int, seasons: tuple[int, ...] = ()) -> None:
        self.request, self._own, self._past, self._seasons = request, own, lags, seasons
        self.chosen: Chosen | None = None
        self.names: list[str] = []
        self._inputs = own + max(lags, 1)
        self._kept = np.empty((0, self._inputs + 2))  # inputs, time and target of the first rows
        self._seen = np.zeros(1, dtype=np.int64)
        warmup, late = request.warmup, request.horizon
        births = {LINES_FROM, max(FEWEST, warmup // EARLY)}
        self._births = [birth + late for birth in sorted(births) if birth < warmup]
        self._warmup = warmup + late
        self._cuts = {times * warmup + late: stay for times, stay in STAY.items() if times > 1}

    def first(self) -> Calibrated:
        """The committee of those who need no rows to learn from."""
        ahead = max(self.request.horizon, 1)
        # Ahead of time the row's own target is the last one known, before any has been learnt.
        previous = InputValue(self._own) if self.request.horizon else SeasonalValue(1)
        naive: dict[str, StreamModel] = {"previous value": previous, "mean": RunningMean()}
        naive |= {f"value {period} rows ago": SeasonalValue(period, ahead=ahead) for period in self._seasons}
        self.names = list(naive)
        model: StreamModel = Committee(list(naive.values()), rule="stacked")
        if self.request.run["drift"]:
            model = DriftAware(model)
        return Calibrated(model, level=self.request.level)

    def before_next(self, n: int) -> int:
        """How many of the next n rows come before members change."""
        seen = int(self._seen[0])
        stages = (*self._births, self._warmup, *self._cuts)
        return min([n, *(stage - seen for stage in stages if stage > seen)])

    def keep(self, X: FloatArray, y: FloatArray, time: FloatArray | None, model: Calibrated) -> Calibrated:
        """Keep rows that were predicted; change the members of the model where that is due.

        Args:
            X: (n, d) inputs, no more than ``before_next`` allows.
            y: (n,) targets as they came with these rows, NaN where missing.
            time: (n,) times at which they came, if models forget by it.
            model: that predicted them.
        """
        self._seen += len(y)
        seen, horizon = int(self._seen[0]), self.request.horizon
        if self.chosen is None:
            self._kept = np.concatenate([self._kept, kept_rows(X, y, time)])
            X, y = self._kept[: seen - horizon, :-2], self._kept[horizon:, -1].copy()
            time = None if time is None else self._kept[horizon:, -2]
            y[: min(max(self._past, 1), max(len(y) - FEWEST, 1))] = np.nan  # their lags are made up
        if seen in self._births:
            model._revise(lambda committee: self._bear(committee, X, y, time, first=seen == self._births[0]))
        elif seen == self._warmup:
            model._revise(lambda committee: self._settle(committee, X, y, time))
            self._kept = self._kept[:0]
        elif seen in self._cuts:
            model._revise(lambda committee: self._cut(committee, self._cuts[seen]))
        return model

    # Members.

    def _views(self) -> list[View]:
        columns = list(range(self._own))
        own = [View("", columns, False), View("change", columns, True)] if columns else []
        past = [View("lags", None, False), View("change, lags", None, True)] if self._past else []
        return own + past

    def _lines(self, rows: int) -> Iterator[tuple[str, StreamModel]]:
        """Least squares; with the past among the inputs a line for the change is one for the level."""
        for view in self._views():
            if not (view.change and view.columns is None):
                for forgetting in LEAST_SQUARES:
                    yield (
                        _named(f"least squares {forgetting:g}", view),
                        self._seeing(view, least_squares(forgetting), rows),
                    )

    def _seeing(self, view: View, model: StreamModel, rows: int) -> StreamModel:
        seen: StreamModel = Standardize(model, warmup=max(rows, 2))
        if view.columns is not None:
            seen = Columns(seen, columns=view.columns)
        return Differenced(seen, column=self._own) if view.change else seen

    def _tuned(self, view: View, name: str, X: FloatArray, y: FloatArray, found: dict[Any, Any]) -> StreamModel:
        """A Gaussian process, with the hyperparameters of its family on these rows."""
        columns = list(range(self._inputs)) if view.columns is None else view.columns
        model = self.request.build(name, len(columns))
        if self.request.run["tune"] and np.count_nonzero(~np.isnan(y)) >= FEWEST:
            key = view.label, CANDIDATES[name].family
            if key not in found:
                target = y - X[:, self._own] if view.change else y
                found[key] = hyperparameters(model, np.ascontiguousarray(X[:, columns]), target)
            batch: FullGP | SSGPR | None = found[key]
            model = model if batch is None else with_hyperparameters(model, batch)
        return self._seeing(view, model, len(y))

    def _bear(self, committee: Committee, X: FloatArray, y: FloatArray, time: FloatArray | None, first: bool) -> None:
        """Add least squares, or renew it in new units and add Gaussian processes."""
        self._renew(committee, self._lines(len(y)), X, y, time)
        if not first or len(self._births) == 1:
            found: dict[Any, Any] = {}
            processes = (
                (_named(name, view), self._tuned(view, name, X, y, found))
                for view in self._views()
                for name in CANDIDATES
            )
            self._renew(committee, processes, X, y, time)

    def _renew(
        self,
        committee: Committee,
        members: Iterator[tuple[str, StreamModel]],
        X: FloatArray,
        y: FloatArray,
        time: FloatArray | None,
    ) -> None:
        """Let members learn the rows so far; each takes the place of the one of its name, if there is one."""
        for name, member in members:
            member.learn_many(X, y, time=time)
            if name in self.names:
                committee.replace(self.names.index(name), member)
            else:
                committee.add(member)
                self.names.append(name)

    def _settle(self, committee: Committee, X: FloatArray, y: FloatArray, time: FloatArray | None) -> None:
        """Of the processes, keep those with the lowest errors on the later half of the rows, tuned on all of them."""
        views = {_named(name, view): (view, name) for view in self._views() for name in CANDIDATES}
        scores: dict[str, float] = {}
        half = len(y) // 2
        for name, member in zip(self.names, committee._models, strict=True):
            if name in views:
                error = rmse(y[half:], member.clone().track(X, y, time=time).mean[half:])
                scores[name] = error if np.isfinite(error) else np.inf
        order = sorted(scores, key=scores.__getitem__)
        if not order:  # a warm-up too short for any to be born before
            order = list(views)
        stay = order[: STAY[1]]
        for name in order[STAY[1] :]:
            self._retire(committee, name)
        self._renew(committee, self._lines(len(y)), X, y, time)
        found: dict[Any, Any] = {}
        self._renew(committee, ((name, self._tuned(*views[name], X, y, found)) for name in stay), X, y, time)
        listed = ", ".join(f"{name} {scores[name]:.4g}" for name in order[: STAY[1]] if name in scores)
        reason = f"lowest RMSE on rows {half + 1} to {len(y)}: {listed}" if listed else "too few rows to compare"
        self.chosen = Chosen(stay, "", reason, scores)

    def _cut(self, committee: Committee, stay: int) -> None:
        """Let the processes go that have erred most over about the last thousand rows."""
        assert self.chosen is not None
        errors = dict(zip(self.names, committee.errors.tolist(), strict=True))
        order = sorted((name for name in self.chosen.names if name in self.names), key=errors.__getitem__)
        for name in order[stay:]:
            self._retire(committee, name)
        self.chosen = self.chosen._replace(names=order[:stay])

    def _retire(self, committee: Committee, name: str) -> None:
        if name in self.names:
            committee.retire(self.names.index(name))
            self.names.remove(name)

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"kept": self._kept, "seen": self._seen}

    def header(self) -> dict[str, Any]:
        """The rest of it."""
        return {"choice": None if self.chosen is None else self.chosen._asdict(), "experts": self.names}

    def restore(self, tensors: dict[str, np.ndarray], saved: dict[str, Any]) -> None:
        """Go on from saved rows, and from what was chosen."""
        kept, seen, chosen = tensors["kept"], tensors["seen"], saved["choice"]
        if kept.ndim != 2 or kept.shape[1] != self._kept.shape[1] or kept.dtype != self._kept.dtype:
            raise SnapshotError(f"the array kept has shape {kept.shape}, the run needs {self._kept.shape}")
        if seen.shape != (1,) or seen.dtype != self._seen.dtype or seen[0] < 0:
            raise SnapshotError(f"the snapshot must say how many rows were seen; it says {seen}")
        self._kept, self._seen = kept.copy(), seen.copy()
        self.chosen = None if chosen is None else Chosen(**chosen)
        self.names = [str(name) for name in saved["experts"]]


def _named(name: str, view: View) -> str:
    return f"{name} ({view.label})" if view.label else name

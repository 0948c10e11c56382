"""Standardize: a stream model in standard units, for data that come as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import address_of, compile_now
from streamgp.contract import inputs
from streamgp.contract.conditions import NOISE, WEIGHT, part
from streamgp.contract.freerun import Independent, Trajectories
from streamgp.contract.lanes import ADVANCE, ALONE, LEARN, ONE, PREDICT, TAKE, TELL, Lanes, any_of, listed, with_kinds
from streamgp.contract.model import Ability, Health, StreamModel
from streamgp.contract.prediction import NUMBERS
from streamgp.contract.snapshot import require
from streamgp.contract.stackable import on, reset_memories
from streamgp.process.compiled_model import NONE
from streamgp.settings import FloatArray, switch, whole
from streamgp.wrappers import conformal, outliers, scaling, single
from streamgp.wrappers.mapped import Affine, Mapped
from streamgp.wrappers.units import SHARED_UNITS, Scaling, center_and_spread, units_of

TINY, FAR = 1e-150, 1e150  # no scale is less, or more: its square is still a number
NO_SCREEN = np.empty((0, 1, outliers.NUMBERS))
# The numbers of a calibration, by how much its bounds are wider, and how many numbers of a line are its own; of none.
Calibration = tuple[np.ndarray, FloatArray, FloatArray, int]
NOT_CALIBRATED = np.empty(0, conformal.LAYOUT.record), np.empty((0, 0)), np.empty((0, 0)), 0


class Standardize(Mapped):
    """A stream model that sees inputs and targets with mean 0 and standard deviation 1.

    Mean and standard deviation are those of the first ``warmup`` rows and stay from then on, so that basis points never
    change their units. Until then they are those of the rows so far, renewed whenever the number of rows has doubled:
    the rows are kept, and a new model learns them in the new units. So there are predictions from the first row on, and
    after ``warmup`` rows the model is the one that has learned all of them in the final units. A renewal takes as long
    as learning the rows so far.

    Predictions are in the units of the target; settings, ``hyperparameters`` and ``relevance()`` of the model within,
    and ``inner`` itself, are in standard units: a lengthscale of 1 is one standard deviation of the input. A column
    that does not change during the warm-up is shifted, not scaled. Targets that do not change tell no scale:
    predictions claim nothing (their variance is infinite) until one differs, and the unit is then how far it does. A
    row without a target still counts for the inputs.

    A target many times the range of all others beyond them counts as missing: -9999, 3.4e38 and other fill values of
    loggers would spoil units, model and intervals for long. ``health.fill_values`` counts them. Ten different ones in a
    row are a new level of the stream and are learned (docs/hostile-inputs.md).

    Args:
        model: the stream model within, which has learned nothing.
        warmup: rows from which the units are learned, at least 2.
        screen: whether such targets count as missing; False: every target is learned.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> hour = np.arange(500.0)
        >>> load = 30000 + 5000 * np.sin(hour * np.pi / 12)
        >>> model = sg.Standardize(sg.KRLST(), warmup=50)
        >>> model.learn_many(hour % 24, load)
        >>> round(model.predict_one(6).mean, -2), model.scaling.input_shift.round()
        (35000.0, array([11.]))
    """

    _stacks = True
    _ready = False  # whether a list of operations takes one compiled call, now and from now on
    _stacked: dict[str, np.ndarray]  # all arrays by name, (models, ...) each; those of the first model:
    _unit_arrays: list[np.ndarray]  # of these the four of the units
    _scaling: Scaling
    _rows: FloatArray  # the kept rows and targets; 0 when the warm-up is over
    _kept_targets: FloatArray
    _kept_conditions: FloatArray
    _begins: np.ndarray  # 1 where a new sequence begins with the row
    _kept: np.ndarray  # how many rows have been kept
    _screen: FloatArray  # of the targets of each output, as outliers.screen() takes it
    _known_scale: FloatArray  # 1 where two targets of an output had differed when the units were taken

    def __init__(self, model: StreamModel, *, warmup: int = 100, screen: bool = True) -> None:
        self._wrap(model)
        self._largest = np.inf  # in standard units nothing is large
        self._warmup = whole("warmup", warmup, at_least=2)
        self._screens = switch("screen", screen) and self._observes == "numbers"
        compile_now(scaling.to_standard, scaling.from_standard, outliers.screen, outliers.strike_out)
        if self._models[0]._direct:
            compile_now(conformal.calibrate, single.take)

    # The state.

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        n, noises = self._warmup, 1 if self._shared else p
        fresh = {
            "input_shift": np.zeros((1, d)),
            "input_scale": np.ones((1, d)),
            "target_shift": np.zeros((1, p)),
            "target_scale": np.ones((1, p)),
            "rows": np.zeros((1, n, d)),
            "targets": np.zeros((1, n, p)),
            "conditions": np.zeros((1, n, NOISE + noises)),
            "begins": np.zeros((1, n), dtype=np.int64),
            "kept": np.zeros((1, 1), dtype=np.int64),
            "screen": np.zeros((1, p, outliers.NUMBERS)),
            "scaled": np.zeros((1, p)),
        }
        if self._d is not None:  # rows have come, but no target
            fresh |= {name: self._stacked[name] for name in ("input_shift", "input_scale", "rows", "begins", "kept")}
        self._stacked = fresh
        self._restack(list(fresh.values()))
        if not self.frozen:
            self._kept_targets[: self._kept[0]] = self._kept_conditions[: self._kept[0]] = np.nan

    def _stack(self) -> list[np.ndarray]:
        return list(self._stacked.values())

    def _restack(self, arrays: list[np.ndarray]) -> None:
        self._stacked, self._ready = dict(zip(self._stacked, arrays, strict=True)), False
        self._unit_arrays = arrays[:4]
        first = [array[0] if len(array) else array for array in arrays]
        self._scaling = Scaling(*first[:4])
        self._rows, self._kept_targets, self._kept_conditions, self._begins, self._kept = first[4:9]
        self._screen, self._known_scale = first[9:]

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        return self._stacked

    def _changing(self) -> Iterable[Any]:
        # Units that stay, and rows that were kept for them, are as they are.
        return (self._screen,) if self._lanes is ALONE and self._settled else super()._changing()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: array[0] for name, array in self._stacked.items()}

    # Rows, there and back.

    def _inputs(self, X: FloatArray) -> FloatArray:
        return self._standard(X, "input_shift", "input_scale")

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient / self._stacked["input_scale"][0])

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self._standard(Y, "target_shift", "target_scale")

    def _standard(self, values: FloatArray, shift: str, scale: str) -> FloatArray:
        result = np.empty_like(values)
        scaling.to_standard(*self._lanes, values, self._stacked[shift], self._stacked[scale], result)
        return result

    def _affine(self, X: FloatArray) -> Affine:
        names = "target_shift", "target_scale"
        return Affine(*(self._by_row(self._stacked[name][self._lanes.models]) for name in names))

    def _by_row(self, each: np.ndarray) -> np.ndarray:
        """What each model has, (models, p), for each of its rows; of a single model one row stands for all."""
        return each[0] if self._lanes is ALONE else np.repeat(each, np.diff(self._lanes.starts), axis=0)

    def _back(self, X: FloatArray, columns: FloatArray) -> None:
        shift, scale = self._stacked["target_shift"], self._stacked["target_scale"]
        if self._within._columns != NUMBERS:
            with np.errstate(over="ignore"):  # in units of 1e150 a variance is infinite
                super()._back(X, columns)
        else:
            scaling.from_standard(*self._lanes, shift, scale, columns)
        if self._observes == "numbers" and len(columns) == len(NUMBERS) and not (scaled := self._scaled()).all():
            # In no unit nothing can be claimed; NaN, the variance of models that have none, stays.
            unknown = np.broadcast_to(self._by_row(~scaled), columns[0].shape)
            columns[0] = np.where(unknown, self._by_row(shift[self._lanes.models]), columns[0])
            columns[1][unknown] += np.inf
            columns[2][unknown] *= 0.0

    def _scaled(self) -> NDArray[np.bool_]:
        """Whether two targets had differed when units were taken, (models, p)."""
        return np.asarray(self._stacked["scaled"][self._lanes.models] > 0.0)

    @property
    def _settled(self) -> bool:
        """Whether the units of a single model stay: the warm-up is over, and targets have told a scale."""
        return self.frozen and (self._observes != "numbers" or bool(np.all(self._known_scale > 0.0)))

    def _without_fill_values(self, targets: FloatArray, counts: np.ndarray) -> FloatArray:
        """Targets of models, this many of each; among the first ones fill values could not be told when they came."""
        if not self._screens:
            return targets
        lanes = Lanes(np.arange(len(counts)), np.concatenate([[0], np.cumsum(counts)]))
        return outliers.without_fill_values(targets, self._shared, lanes)

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._stacked["screen"], Y, self._shared, self._lanes) if self._screens else Y

    # Rows.

    @property
    def _in_one_call(self) -> bool:
        """Whether a list of operations takes one compiled call, and its calibration, too."""
        if self._ready and self._lanes is ALONE:
            return True
        within: Any = self._models[0]
        if not (within._direct and within._one_step and within.has_variance) or self._shape.d is None:
            return False
        settled = bool(self._warm().all()) and (self._observes != "numbers" or bool(self._scaled().all()))
        self._ready = settled and self._lanes is ALONE
        return settled

    @property
    def _one_step(self) -> bool:  # type: ignore[override]
        return self._lanes is ALONE and self._in_one_call

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        if self._in_one_call:
            columns = np.zeros((3, len(X), self._unit_arrays[2].shape[1]))
            self._do(ops, X, Y, conditions, kept, NOT_CALIBRATED, columns)
            return columns
        cold = ~self._warm()
        if kept is not None and not cold.all():
            ops = self._seen(ops, kept)
        if not any_of(ops, ADVANCE | LEARN):
            return super()._pass(ops, X, Y, conditions, kept)
        unknown = np.zeros_like(cold) if self._observes != "numbers" else ~cold & ~self._scaled().all(axis=1)
        if not cold.any() and not unknown.any():
            return super()._pass(ops, X, Y, conditions, kept)
        if self._lanes is ALONE:
            return self._unsettled(ops, X, Y, conditions, kept)
        # Whatever the models have come to, they go on side by side.
        result, counts = np.empty((len(self._columns), len(X), self._unit_arrays[2].shape[1])), self._counts(X)
        first = np.cumsum(counts) - counts
        for some in (cold, unknown, ~cold & ~unknown):
            if some.any():
                at, one = _ranges(first[some], counts[some]), self._of(self._lanes.models[some], counts[some])
                do = one._warm_up if some is cold else one._unscaled if some is unknown else one._pass
                own, lines = np.stack([np.arange(len(at)), ops[at, 1]], axis=1), _some(kept, at)
                found = do(own, X[at], _some(Y, at), _some(conditions, at), lines)
                result[: len(found), at] = found
                if kept is not None and lines is not None:
                    kept[at] = lines
        return result

    def _do(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
        calibration: Calibration,
        columns: FloatArray,
    ) -> None:
        """Do operations in one compiled call, with a calibration that is around this model."""
        model: Any = self._models[0]
        numbers = model._numbers
        if kept is not None:
            ops = self._seen(ops, kept[:, calibration[3] :])
        given = NONE if conditions is None else self._conditions_within(X[ops[:, 0]], conditions)
        take: Any = single.take
        status, _, at = take(
            *(address_of(model._run), address_of(conformal.calibrate), numbers.records, numbers.buffers),
            *(*self._lanes, ops, X, NONE if Y is None else Y, given, NONE if kept is None else kept, self._largest),
            *(self._stacked["screen"] if self._screens else NO_SCREEN, *self._unit_arrays, *calibration, columns, 0, 0),
        )
        if status:
            inputs.refuse(status, at, many=len(X) > 1)

    # A row that is issued during the warm-up, or while targets tell no scale, is predicted and no more: the rows of the
    # warm-up are learned anew, in the order in which their targets come.

    def _has_seen(self, ops: np.ndarray, kept: FloatArray | None, first: int) -> bool:
        """Whether no row is learned that was issued during the warm-up; its lines begin with other numbers."""
        return kept is None or self._seen(ops, kept[:, first:]) is ops

    def _seen(self, ops: np.ndarray, kept: FloatArray) -> np.ndarray:
        """The operations, where rows that were issued during the warm-up are taken when their targets come."""
        if not kept.shape[1]:
            return ops
        rows, kinds = ops.T
        unseen = (kinds & TAKE == LEARN) & np.isnan(kept[rows, 0])
        for at in np.flatnonzero(unseen):  # unless they are issued by this list
            unseen[at] = not (kinds[:at][rows[:at] == rows[at]] & ADVANCE).any()
        return with_kinds(ops, kinds | ADVANCE * unseen) if unseen.any() else ops

    def _unsettled(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        """Do operations of a single model whose units may change on the way."""
        take = self._unscaled if self.frozen else self._warm_up
        if np.array_equal(ops, listed(len(X), ops.item(1))):
            return take(ops, X, Y, conditions, kept)
        columns = np.full((len(self._columns), len(X), self._unit_arrays[2].shape[1]), np.nan)
        for i, (row, kind) in enumerate(ops.tolist()):
            at = slice(row, row + 1)
            found = self._pass(ONE[kind], X[at], _some(Y, at), part(conditions, i, i + 1), _some(kept, at))
            if kind & PREDICT:
                columns[: len(found), at] = found
        return columns

    def _unscaled(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        """Take rows in order while targets have been alike, which tell no scale.

        The first that differs does; what was learned before is 0 in any unit.
        """
        kind, counts = ops.item(1), self._counts(X)
        stops, models = np.cumsum(counts), self._lanes.models
        columns = np.zeros((len(self._columns), len(X), self._unit_arrays[2].shape[1]))

        def take(model: int, start: int, stop: int) -> None:
            if start < stop:
                one, at = self._of(np.array([model]), np.array([stop - start])), slice(start, stop)
                given = X[at], _some(Y, at), part(conditions, start, stop), _some(kept, at)
                found = super(Standardize, one)._pass(listed(stop - start, kind), *given)
                columns[: len(found), at] = found

        for model, start, stop in zip(models.tolist(), (stops - counts).tolist(), stops.tolist(), strict=True):
            while start < stop:
                differ = np.zeros(1, bool) if Y is None or not kind & LEARN else self._differ(model, Y[start:stop])
                told = np.flatnonzero(differ.any(axis=-1))
                at = start + told[0] if len(told) else stop
                take(model, start, at)
                if len(told):
                    outputs = self._take_scale(model, Y[at])  # type: ignore[index]
                    take(model, at, at + 1)  # its prediction claims nothing yet
                    self._stacked["scaled"][model][outputs] = 1.0
                start = at + 1
        return columns

    def _differ(self, model: int, Y: FloatArray) -> NDArray[np.bool_]:
        """Which targets, (n, p), tell a scale that is not known: they differ by more than rounding."""
        shift = self._stacked["target_shift"][model]
        rounding = self._warmup * np.finfo(np.float64).eps * np.maximum(np.abs(Y), np.abs(shift))
        with np.errstate(over="ignore"):
            return np.asarray((self._stacked["scaled"][model] == 0.0) & (np.abs(Y - shift) > rounding))

    def _take_scale(self, model: int, y: FloatArray) -> NDArray[np.bool_]:
        """Take the scale from a target, (p,), that differs from all before it; of which outputs."""
        told: NDArray[np.bool_] = self._differ(model, y[None])[0]
        shift = self._stacked["target_shift"][model]
        self._stacked["target_scale"][model][told] = np.clip(np.abs(y - shift), TINY, FAR)[told]
        return told

    def _warm(self) -> np.ndarray:
        """Of which models the warm-up is over."""
        kept = self._kept if self._lanes is ALONE else self._stacked["kept"][self._lanes.models, 0]
        return np.asarray(kept == self._warmup)

    def _counts(self, X: FloatArray) -> np.ndarray:
        """How many rows each model has."""
        return np.array([len(X)]) if self._lanes is ALONE else np.diff(self._lanes.starts)

    def _of(self, models: np.ndarray, counts: np.ndarray) -> Standardize:
        """This one for some of its models, which have this many rows each."""
        if self._lanes is ALONE:
            return self
        return on(self, Lanes(models, np.concatenate([[0], np.cumsum(counts)])))

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        known = self._observes != "numbers" or self._scaled().all()
        return super()._trajectories(count, steps) if known else Independent(self, count)

    def _may_fail(self) -> bool:
        return not self.frozen or super()._may_fail()  # one row may have all the others learned again

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return SHARED_UNITS if what == "weigh" and self._shared and p > 1 else super()._cannot(what, p)

    # The warm-up.

    def _warm_up(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        """All models go on to their next renewals, then those that are due are renewed together, and again."""
        kind = ops.item(1)
        if kind & TELL or kind & TAKE == ADVANCE:
            if kept is not None:
                kept[:] = np.nan
            return super()._pass(ops if kind & TELL else listed(len(X), kind & PREDICT), X, Y, conditions, None)
        kind |= ADVANCE
        if self._lanes is ALONE and len(X) == 1 and not self._is_due():  # a row that is only kept, in fewer steps
            found, at = super()._pass(ONE[kind], X, Y, conditions, None), self._kept[0]
            self._rows[at], self._kept_targets[at] = X[0], np.nan if Y is None else Y[0]
            self._kept_conditions[at] = np.nan if conditions is None else conditions[0]
            self._kept[0] += 1
            return found
        columns = np.zeros((len(self._columns), len(X), self._unit_arrays[2].shape[1]))
        models, left = self._lanes.models, self._counts(X)
        first = np.cumsum(left) - left
        while left.any():
            kept_rows = self._stacked["kept"][models, 0]
            cold, reached = kept_rows < self._warmup, kept_rows + left
            renewal = np.minimum(self._warmup, _power_above(kept_rows))
            # The last renewal within these rows undoes all before it; only predictions need the others.
            last = np.where(reached >= self._warmup, self._warmup, _power_above(reached) // 2)
            unseen = cold & (last > kept_rows) & (not kind & PREDICT)
            renewal = np.where(unseen, last, renewal)
            taken = np.where(cold, np.minimum(left, renewal - kept_rows), left)
            for some in (cold & (taken > 0) & ~unseen, ~cold & (taken > 0)):
                if some.any():
                    one, at = self._of(models[some], taken[some]), _ranges(first[some], taken[some])
                    take = super(Standardize, one)._pass if cold[some][0] else one._pass
                    found = take(listed(len(at), kind), X[at], _some(Y, at), _some(conditions, at), None)
                    columns[: len(found), at] = found
            at, to = _ranges(first[cold], taken[cold]), _ranges(kept_rows[cold], taken[cold])
            whose = np.repeat(models[cold], taken[cold])
            self._stacked["rows"][whose, to] = X[at]
            self._stacked["targets"][whose, to] = np.nan if Y is None else Y[at]
            self._stacked["conditions"][whose, to] = np.nan if conditions is None else conditions[at]
            self._stacked["kept"][models[cold], 0] += taken[cold]
            due = cold & (kept_rows + taken == renewal)
            if due.any():
                self._renew(np.sort(models[due]))
            first, left = first + taken, left - taken
        return columns

    def _is_due(self) -> bool:
        """Whether the units of a single model are renewed after its next row."""
        kept = int(self._kept[0])
        return kept + 1 == min(self._warmup, 1 << kept.bit_length())

    def _renew(self, models: np.ndarray) -> None:
        """Take the units of models from their rows so far, and let them learn these anew, all together."""
        counts = self._stacked["kept"][models, 0]
        targets = self._take_units(models, counts)
        whose, rows = np.repeat(models, counts), _ranges(np.zeros_like(counts), counts)
        fresh = self._pristine.clone()
        fresh._prepare(self._shape_within(self._stacked["rows"].shape[2], targets.shape[1]))
        if self._lanes is ALONE:
            self._within = fresh
        else:
            self._models[0]._begin_again(models, fresh)
        # A sequence after the other, of all models that have one.
        begun = np.cumsum(self._stacked["begins"][whose, rows])
        turn = begun - np.repeat(begun[np.cumsum(counts) - counts], counts)
        for k in range(int(turn.max()) + 1):
            at = turn == k
            some, how_many = np.unique(whose[at], return_counts=True)
            one = self._of(some, how_many)
            if k and self._lanes is ALONE:
                self._within.reset_memory()
            elif k:
                reset_memories(one._within)
            X, conditions = (self._stacked[name][whose[at], rows[at]] for name in ("rows", "conditions"))
            super(Standardize, one)._pass(listed(len(X), TAKE), X, targets[at], conditions, None)
        done = models[counts == self._warmup]
        for name in ("rows", "targets", "conditions", "begins"):
            self._stacked[name][done] = 0

    def _take_units(self, models: np.ndarray, counts: np.ndarray) -> FloatArray:
        """Take the units of models from their rows so far; the targets of these without fill values."""
        whose, at = np.repeat(models, counts), _ranges(np.zeros_like(counts), counts)
        rows: FloatArray = self._stacked["rows"][whose, at]
        targets: FloatArray = self._stacked["targets"][whose, at]
        known, done = ~np.isnan(targets), counts == self._warmup
        targets = self._without_fill_values(targets, counts)
        struck = np.add.reduceat(known & np.isnan(targets), np.cumsum(counts) - counts, axis=0, dtype=float)
        self._stacked["screen"][models[done], :, outliers.REFUSED] += struck[done]
        for n in np.unique(counts):  # mostly one number
            some = counts == n
            shape = np.count_nonzero(some), n
            X, Y = (values[np.repeat(some, counts)].reshape(*shape, values.shape[1]) for values in (rows, targets))
            units = units_of(X, Y)
            self._stacked["scaled"][models[some]] = center_and_spread(np.moveaxis(Y, -2, -1))[1] > 0.0
            if self._observes != "numbers":  # classes and counts stay what they are
                units.target_shift[:], units.target_scale[:] = 0.0, 1.0
            for name, values in units._asdict().items():
                self._stacked[name][models[some]] = values
        return targets

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        kept, targets, given = named["kept"], named["targets"], named["conditions"]
        if any(wrong := ((kept < 0) | (kept > self._warmup)).ravel()):
            raise ValueError(f"the snapshot says {kept[wrong][0, 0]} kept rows, the model has room for {self._warmup}")
        for name in Scaling._fields:
            require(name, named[name], above=0 if name.endswith("scale") else None)
        require("rows", named["rows"])
        require("targets", targets[~np.isnan(targets)])
        require("conditions", given[~np.isnan(given)])
        require("conditions", given[:, :, WEIGHT:], at_least=0, finite=False)
        require("begins", named["begins"], at_least=0, at_most=1)
        outliers.check(named["screen"])

    def reset_memory(self) -> None:
        if self._d is not None and not self.frozen:
            self._begins[self._kept[0]] = 1
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        s = self._scaling
        x, y = self._within._last_row()
        return s.input_shift + s.input_scale * x, s.target_shift + s.target_scale * y

    # What can be read.

    @property
    def health(self) -> Health:
        return self._within.health._replace(fill_values=0 if self._d is None else outliers.refused(self._screen))

    @property
    def frozen(self) -> bool:
        """Whether the warm-up is over and the units stay."""
        return self._d is not None and bool(self._kept[0] == self._warmup)

    @property
    def scaling(self) -> Scaling:
        """The present units: (d,) of the inputs and (p,) of the targets; (x - shift) / scale is what the model sees."""
        if self._d is None:
            raise ValueError("the units are known once the first row has come")
        return Scaling(*(array.copy() for array in self._scaling))

    @property
    def basis(self) -> FloatArray:
        """The basis points in the units of the inputs; before the first row, and a reservoir's state, as they are."""
        points = self._within.basis
        if self._d is not None and points.size:
            units = self._units()
            seen = points[:, units:].reshape(len(points), -1, self._d)
            points[:, units:] = (self._scaling.input_shift + self._scaling.input_scale * seen).reshape(len(points), -1)
        return points


def rows_until_settled(model: StreamModel) -> int:
    """How many rows from now on a model may still learn anew, so that forgetting would be undone."""
    left = 0
    if isinstance(model, Standardize):  # a row that is yet to come decides how the warm-up ends
        left = model._warmup - (0 if model._d is None else int(model._kept[0]))
    return left + max(map(rows_until_settled, model._children().values()), default=0)


def _some(values: FloatArray | None, at: np.ndarray | slice) -> FloatArray | None:
    return None if values is None else values[at]


def _power_above(n: np.ndarray) -> np.ndarray:
    """The least power of 2 above each number, of 0 as well."""
    return np.asarray(np.left_shift(1, np.frexp(n)[1].astype(np.int64)))


def _ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """first[0] and the counts[0] - 1 numbers after it, then the same from first[1] on, ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(counts.sum())

"""Standardize: a stream model in standard units, for data that come as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Stacked
from streamgp.compiled import address_of, compile_now
from streamgp.contract import inputs
from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import NOISE
from streamgp.contract.freerun import Independent, Trajectories
from streamgp.contract.lanes import ADVANCE, ALONE, LEARN, PREDICT, TAKE, TELL, Lanes, any_of, listed, with_kinds
from streamgp.contract.model import Ability, Health, StreamModel
from streamgp.contract.prediction import NUMBERS
from streamgp.contract.stackable import on, put, reset_memories
from streamgp.contract.within import family
from streamgp.process.compiled_model import NONE
from streamgp.settings import FloatArray, Maybe, switch, whole
from streamgp.wrappers import conformal, outliers, scaling, single
from streamgp.wrappers.mapped import Affine, Mapped, MappedAnalysis
from streamgp.wrappers.units import SHARED_UNITS, Scaling, center_and_spread, units_of

LEAST, LARGEST = np.nextafter(0.0, 1.0), np.finfo(np.float64).max
TINY, FAR = 1e-150, 1e150  # no scale is less, or more: its square is still a number
SETTLED = 64  # more than there are renewals before the last one
NO_SCREEN = np.empty((0, 1, outliers.NUMBERS))
# The numbers of a calibration, by how much its bounds are wider, and how many numbers of a line are its own; of none.
Calibration = tuple[np.ndarray, FloatArray, FloatArray, int]
NOT_CALIBRATED = np.empty(0, conformal.LAYOUT.record), np.empty((0, 0)), np.empty((0, 0)), 0


class Call(NamedTuple):
    """What ``_pass`` takes, and room for the columns of its predictions."""

    ops: np.ndarray
    X: FloatArray
    Y: Maybe
    conditions: Maybe
    kept: Maybe
    columns: FloatArray


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
    row are a new level of the stream and are learned (docs/models/standardize.md).

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
    _numbers: Stacked
    # Once all goes in one call: the four arrays of the units, what makes room for predictions, and what takes the call.
    _unit_arrays: list[np.ndarray]
    _ways: tuple[Callable[..., FloatArray], Callable[..., Any]]
    _may_overflow = ("targets", "conditions")  # NaN where missing

    def __init__(self, model: StreamModel, *, warmup: int = 100, screen: bool = True) -> None:
        self._wrap(model)
        self._largest = np.inf  # in standard units nothing is large
        self._warmup = whole("warmup", warmup, at_least=2)
        self._screens = switch("screen", screen) and self._observes == "numbers"
        compile_now(scaling.to_standard, outliers.screen)
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
            fresh |= {name: self._numbers[name] for name in ("input_shift", "input_scale", "rows", "begins", "kept")}
            known = slice(0 if self.frozen else self._kept)
            fresh["targets"][0, known] = fresh["conditions"][0, known] = np.nan
        self._numbers, self._ready = Stacked(fresh), False
        self._numbers.limits = {
            "kept": (0, n),
            "begins": (0, 1),
            "input_scale": (LEAST, LARGEST),
            "target_scale": (LEAST, LARGEST),
            "targets": (-LARGEST, LARGEST),
            "conditions": (-LARGEST, LARGEST),
        }

    # Rows, there and back.

    def _inputs(self, X: FloatArray) -> FloatArray:
        return self._standard(X, "input_shift", "input_scale")

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient / self._numbers["input_scale"][0])

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self._standard(Y, "target_shift", "target_scale")

    def _standard(self, values: FloatArray, shift: str, scale: str) -> FloatArray:
        result = np.empty_like(values)
        scaling.to_standard(*self._lanes, values, self._numbers[shift], self._numbers[scale], result)
        return result

    def _affine(self, X: FloatArray) -> Affine:
        names = "target_shift", "target_scale"
        return Affine(*(self._by_row(self._numbers[name][self._lanes.models]) for name in names))

    def _by_row(self, each: np.ndarray) -> np.ndarray:
        """What each model has, (models, p), for each of its rows; of a single model one row stands for all."""
        return each[0] if self._lanes is ALONE else np.repeat(each, np.diff(self._lanes.starts), axis=0)

    def _back(self, X: FloatArray, columns: FloatArray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # in units of 1e150 a variance is infinite
            super()._back(X, columns)
        if len(columns) == len(NUMBERS) and not (scaled := self._scaled()).all():
            # In no unit nothing can be claimed; NaN, the variance of models that have none, stays.
            unknown = np.broadcast_to(self._by_row(~scaled), columns[0].shape)
            columns[0] = np.where(unknown, self._affine(X).offset, columns[0])
            columns[1][unknown] += np.inf
            columns[2][unknown] *= 0.0

    def _scaled(self) -> NDArray[np.bool_]:
        """Whether targets have told a scale, (models, p): two differed when units were taken, or one did later."""
        return np.asarray((self._numbers["scaled"][self._lanes.models] > 0.0) | (self._observes != "numbers"))

    def _settled(self) -> np.ndarray:
        """Of which models units stay: the warm-up is over, and targets have told a scale."""
        return np.asarray(self._warm() & self._scaled().all(axis=1))

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._numbers["screen"], Y, self._shared, self._lanes) if self._screens else Y

    # Rows.

    @property
    def _in_one_call(self) -> bool:
        """Whether a list of operations takes one compiled call, and its calibration, too."""
        if self._ready:
            return True
        within: Any = self._models[0]
        able: bool = within._direct and within._one_step and within.has_variance and self._d is not None
        able = able and bool(self._settled().all())
        self._ready = able and self._lanes is ALONE
        if able:
            self._unit_arrays, self._ways = [self._numbers[name] for name in Scaling._fields], ways_of(within._run)
        return able

    @property
    def _one_step(self) -> bool:  # type: ignore[override]
        return self._lanes is ALONE and self._in_one_call

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        if kept is not None:
            ops = self._seen(ops, kept)
        if self._in_one_call:
            return self._do(ops, X, Y, conditions, kept, NOT_CALIBRATED, len(NUMBERS))
        settled = self._settled()
        if settled.all() or not (settled.any() or any_of(ops, ADVANCE | LEARN)):
            return super()._pass(ops, X, Y, conditions, kept)
        call = Call(ops, X, Y, conditions, kept, np.zeros((len(self._columns), len(X), self._p or 1)))
        if settled.any():  # those of models whose units stay take one compiled call, as they do alone
            calm = np.repeat(settled, np.diff(self._starts(ops)))
            for (at,) in (np.nonzero(calm), np.nonzero(~calm)):
                self._do_some(call, at, ops[at, 1], settled=True)
        elif self._warm().all():
            self._find_scales(call)
        else:
            self._warm_up(call)
        return call.columns

    def _do(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: Maybe,
        conditions: Maybe,
        kept: Maybe,
        calibration: Calibration,
        columns: int,
    ) -> FloatArray:
        """Do operations in one compiled call, with a calibration around this model, where its numbers are.

        Returns:
            (columns, n, p) what is predicted of the rows.
        """
        numbers, n = self._models[0]._numbers, len(X)
        given = NONE if conditions is None else self._conditions_within(X[ops[:, 0]], conditions)
        targets, screens = NONE if Y is None else Y, self._numbers["screen"] if self._screens else NO_SCREEN
        room, take = self._ways
        told = room((columns, n, self._shape.p or 1))
        status, _, at = take(
            *(numbers.records, numbers.buffers, *self._lanes, ops, X, targets, given),
            *(NONE if kept is None else kept, self._largest),
            *(screens, *self._unit_arrays, *calibration, told, np.empty(X.shape), np.empty(targets.shape), 0, 0),
        )
        if status:
            inputs.refuse(status, at, many=n > 1)
        return told

    # A row that is issued during the warm-up, or while targets tell no scale, is predicted and no more: the rows of the
    # warm-up are learned anew, in the order in which their targets come.

    def _has_seen(self, ops: np.ndarray, kept: Maybe, first: int) -> bool:
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

    def _warm(self) -> np.ndarray:
        """Of which models the warm-up is over."""
        return np.asarray(self._numbers["kept"][self._lanes.models, 0] == self._warmup)

    def _starts(self, ops: np.ndarray) -> np.ndarray:
        """Where the operations of each model begin, and where they end."""
        return np.array([0, len(ops)]) if self._lanes is ALONE else self._lanes.starts

    def _whose(self, ops: np.ndarray) -> np.ndarray:
        """The model of each operation."""
        return np.repeat(self._lanes.models, np.diff(self._starts(ops)))

    def _before(self, which: np.ndarray) -> np.ndarray:
        """Before each operation, how many of its model's are of these."""
        starts, so_far = self._starts(which), np.cumsum(which) - which
        return np.asarray(so_far - np.repeat(so_far[starts[:-1]], np.diff(starts)))

    def _of(self, whose: np.ndarray) -> Standardize:
        """This one for operations of these models, which come one model after the other."""
        if self._lanes is ALONE:
            return self
        first = np.flatnonzero(np.diff(whose, prepend=-1))
        return on(self, Lanes(whose[first], np.append(first, len(whose))))

    def _analysis(self) -> Analysis:
        return _StandardAnalysis(self)

    @property
    def _may_fail(self) -> bool:  # type: ignore[override]
        return not self.frozen or super()._may_fail  # one row may have all the others learned again

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return SHARED_UNITS if what == "weigh" and self._shared and p > 1 else super()._cannot(what, p)

    # Units that change on the way: operations are done in parts, of all models together, at whose ends units change.

    def _do_some(self, call: Call, at: np.ndarray, kinds: np.ndarray, settled: bool, anew: bool = False) -> None:
        """Do some operations of a call, of these kinds; anew: each sees its row as if no other had."""
        if not len(at):
            return
        rows, place = call.ops[at, 0], np.arange(len(at))
        if not anew:
            rows, place = np.unique(rows, return_inverse=True)
        one, lines = self._of(self._whose(call.ops)[at]), None if anew else _some(call.kept, rows)
        take = one._pass if settled else super(Standardize, one)._pass
        ops = np.stack([place, kinds], axis=1)
        found = take(ops, call.X[rows], _some(call.Y, rows), _some(call.conditions, at), lines)
        if call.kept is not None and lines is not None:
            call.kept[rows] = lines
        asked = place[kinds & PREDICT != 0]
        call.columns[: len(found), rows[asked]] = found[:, asked]

    def _warm_up(self, call: Call) -> None:
        """Keep the rows that are learned; a part of the operations ends where the units are renewed."""
        (rows, kinds), whose, models = call.ops.T, self._whose(call.ops), self._lanes.models
        learns, kept = kinds & LEARN != 0, self._numbers["kept"][:, 0]
        before = kept[whose] + self._before(learns)
        new = learns & (before < self._warmup)
        place = whose[new], before[new]
        self._numbers["rows"][place] = call.X[rows[new]]
        self._numbers["targets"][place] = np.nan if call.Y is None else call.Y[rows[new]]
        self._numbers["conditions"][place] = np.nan if call.conditions is None else call.conditions[new]
        part, first = self._part(before), self._part(kept[models])
        np.add.at(kept, whose[new], 1)
        last = self._part(kept[models])
        # Predicted and no more is what waits for its target, and what is learned anew with all the others at once.
        only_asked = np.where(learns, self._part(before + 1) > part, kinds & TELL == 0)
        done = np.where(only_asked, kinds & PREDICT, kinds | ADVANCE * learns)
        done = np.where(part == SETTLED, kinds, done)
        if not any_of(call.ops, PREDICT):  # the last renewal undoes all before it
            done[part < np.repeat(last, np.diff(self._starts(call.ops)))] = 0
            first = np.where(first < last, last - 1, last)
        for current in np.unique(np.concatenate([part, last])).tolist():
            due = models[(first < current) & (current <= last)]
            if len(due):
                self._renew(due, min(1 << current - 1, self._warmup))
            at = np.flatnonzero((part == current) & (done != 0))
            self._do_some(call, at, done[at], settled=current == SETTLED, anew=current != SETTLED)
        if call.kept is not None:
            call.kept[rows[~learns & (part < SETTLED)]] = np.nan

    def _part(self, rows: np.ndarray) -> np.ndarray:
        """After how many renewals this many rows of the warm-up have come; SETTLED: it is over."""
        return np.where(rows < self._warmup, np.frexp(rows)[1], SETTLED)

    def _renew(self, models: np.ndarray, n: int) -> None:
        """Take the units of models from their n rows each, and let them learn these anew, all together."""
        names = "rows", "targets", "conditions", "begins"
        rows, targets, given, begins = (self._numbers[name][models, :n] for name in names)
        whose = np.repeat(models, n)
        targets = self._take_units(models, rows, targets)
        fresh = self._pristine.clone()
        fresh._prepare(self._shape_within(rows.shape[2], targets.shape[2]))
        if self._lanes is ALONE:
            self._within = fresh
        else:
            put(self._models[0], models, fresh)
        begins[:, 0] = 0
        sequence = np.cumsum(begins, axis=1)
        for k in range(int(sequence.max()) + 1):  # the first one of all models, then the second of those that have one
            at = sequence == k
            one = self._of(whose[at.ravel()])
            if k and self._lanes is ALONE:
                self._within.reset_memory()
            elif k:
                reset_memories(one._within)
            super(Standardize, one)._pass(listed(int(at.sum()), TAKE), rows[at], targets[at], given[at], None)
        if n == self._warmup:
            for name in names:
                self._numbers[name][models] = 0

    def _take_units(self, models: np.ndarray, rows: FloatArray, targets: FloatArray) -> FloatArray:
        """Take the units of models from rows, (models, n, d), and targets; the latter without fill values."""
        left = targets
        if self._screens:  # among the first ones fill values could not be told when they came
            lanes = Lanes(np.arange(len(models)), np.arange(len(models) + 1) * targets.shape[1])
            flat = outliers.without_fill_values(targets.reshape(-1, targets.shape[2]), self._shared, lanes)
            left = flat.reshape(targets.shape)
        if targets.shape[1] == self._warmup:
            struck = ~np.isnan(targets) & np.isnan(left)
            self._numbers["screen"][models, :, outliers.REFUSED] += struck.sum(axis=1)
        units = units_of(rows, left)
        self._numbers["scaled"][models] = center_and_spread(np.moveaxis(left, -2, -1))[1] > 0.0
        if self._observes != "numbers":  # classes and counts stay what they are
            units.target_shift[:], units.target_scale[:] = 0.0, 1.0
        for name, values in units._asdict().items():
            self._numbers[name][models] = values
        return left

    def _differ(self, whose: np.ndarray, Y: FloatArray) -> NDArray[np.bool_]:
        """Which targets, (n, p), tell a scale that is not known: they differ from the others by more than rounding."""
        shift = self._numbers["target_shift"][whose]
        rounding = self._warmup * np.finfo(np.float64).eps * np.maximum(np.abs(Y), np.abs(shift))
        with np.errstate(over="ignore"):
            return np.asarray((self._numbers["scaled"][whose] == 0.0) & (np.abs(Y - shift) > rounding))

    def _find_scales(self, call: Call) -> None:
        """Take the scale from the first target of each model that differs from all before it, which are 0 in any unit.

        Its prediction claims nothing yet.
        """
        (rows, kinds), whose = call.ops.T, self._whose(call.ops)
        y = np.full((len(rows), 1), np.nan) if call.Y is None else call.Y[rows]
        told = (kinds & LEARN != 0)[:, None] & self._differ(whose, y)
        tells = np.asarray(told.any(axis=1))
        earlier = self._before(tells)
        (at,) = np.nonzero((earlier == 0) & ~tells)
        self._do_some(call, at, kinds[at], settled=False)
        (at,) = np.nonzero((earlier == 0) & tells)
        if len(at):
            which, told, y = whose[at], told[at], y[at]
            scale, scaled = self._numbers["target_scale"], self._numbers["scaled"]
            away = np.clip(np.abs(y - self._numbers["target_shift"][which]), TINY, FAR)
            scale[which] = np.where(told, away, scale[which])
            self._do_some(call, at, kinds[at], settled=False)
            scaled[which] = np.where(told, 1.0, scaled[which])
        (at,) = np.nonzero(earlier)
        self._do_some(call, at, kinds[at], settled=True)

    def _check_restored(self) -> None:
        outliers.check(self._numbers["screen"])

    def reset_memory(self) -> None:
        if self._d is not None and not self.frozen:
            self._numbers["begins"][0, self._kept] = 1
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        s = self._units_now
        x, y = self._within._last_row()
        return s.input_shift + s.input_scale * x, s.target_shift + s.target_scale * y

    # What can be read.

    @property
    def health(self) -> Health:
        return self._within.health._replace(
            fill_values=0 if self._d is None else outliers.refused(self._numbers["screen"][0])
        )

    @property
    def frozen(self) -> bool:
        """Whether the warm-up is over and the units stay."""
        return self._kept == self._warmup

    @property
    def _kept(self) -> int:
        """The rows of the warm-up so far."""
        return 0 if self._d is None else int(self._numbers["kept"][0, 0])

    @property
    def _units_now(self) -> Scaling:
        return Scaling(*(self._numbers[name][0] for name in Scaling._fields))

    @property
    def scaling(self) -> Scaling:
        """The present units: (d,) of the inputs and (p,) of the targets; (x - shift) / scale is what the model sees."""
        if self._d is None:
            raise ValueError("the units are known once the first row has come")
        return Scaling(*(array.copy() for array in self._units_now))

    @property
    def basis(self) -> FloatArray:
        """The basis points in the units of the inputs.

        As they are: before the first row, a reservoir's state, and points of a model that sees other columns (Lagged).
        """
        points = self._within.basis
        mapped = {type(one)._inputs for one in family(self._within) if isinstance(one, Mapped)}
        if self._d is not None and points.size and mapped <= {Mapped._inputs, Standardize._inputs}:
            units = self._units
            seen = points[:, units:].reshape(len(points), -1, self._d)
            shift, scale, *_ = self._units_now
            points[:, units:] = (shift + scale * seen).reshape(len(points), -1)
        return points


class _StandardAnalysis(MappedAnalysis):
    """As long as targets have told no scale, nothing is drawn in units."""

    def trajectories(self, count: int, steps: int) -> Trajectories:
        return super().trajectories(count, steps) if self.model._scaled().all() else Independent(self.model, count)


def ways_of(run: Any) -> tuple[Callable[..., FloatArray], Callable[..., Any]]:
    """What makes room for predictions, and what takes operations through a loop and what is around it."""
    if (take := getattr(run, "take", None)) is not None:  # on a GPU
        return run.room, take
    return np.zeros, partial(single.take, address_of(run), address_of(conformal.calibrate))


def rows_until_settled(model: StreamModel) -> int:
    """How many rows from now on a model may still learn anew, so that forgetting would be undone."""
    left = 0
    if isinstance(model, Standardize):  # a row that is yet to come decides how the warm-up ends
        left = model._warmup - model._kept
    return left + max(map(rows_until_settled, model._children().values()), default=0)


def _some(values: Maybe, at: np.ndarray | slice) -> Maybe:
    return None if values is None else values[at]

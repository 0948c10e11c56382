"""Standardize: a stream model in standard units, for data that come as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import address_of, compile_now
from streamgp.contract import inputs
from streamgp.contract.conditions import NOISE, WEIGHT
from streamgp.contract.freerun import Independent, Trajectories
from streamgp.contract.lanes import ADVANCE, ALONE, LEARN, PREDICT, TAKE, TELL, Lanes, any_of, listed, with_kinds
from streamgp.contract.model import Ability, Health, StreamModel
from streamgp.contract.prediction import NUMBERS
from streamgp.contract.snapshot import require
from streamgp.contract.stackable import on, reset_memories
from streamgp.process.compiled_model import NONE
from streamgp.settings import FloatArray, Maybe, switch, whole
from streamgp.wrappers import conformal, outliers, scaling, single
from streamgp.wrappers.mapped import Affine, Mapped
from streamgp.wrappers.units import SHARED_UNITS, Scaling, center_and_spread, units_of

TINY, FAR = 1e-150, 1e150  # no scale is less, or more: its square is still a number
SETTLED = 64  # of operations that are done when units stay; before them come those of at most so many renewals
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
    _stacked: dict[str, np.ndarray]  # all arrays by name, (models, ...) each
    _unit_arrays: list[np.ndarray]  # of these the four of the units

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
            fresh |= {name: self._stacked[name] for name in ("input_shift", "input_scale", "rows", "begins", "kept")}
            known = slice(0 if self.frozen else self._kept)
            fresh["targets"][0, known] = fresh["conditions"][0, known] = np.nan
        self._stacked = fresh
        self._restack(list(fresh.values()))

    def _stack(self) -> list[np.ndarray]:
        return list(self._stacked.values())

    def _restack(self, arrays: list[np.ndarray]) -> None:
        self._stacked, self._ready = dict(zip(self._stacked, arrays, strict=True)), False
        self._unit_arrays = arrays[:4]

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        return self._stacked

    def _changing(self) -> Iterable[Any]:
        # Units that stay, and rows that were kept for them, are as they are.
        own = self._stacked.values() if self._d is not None else ()
        return (self._stacked["screen"],) if self._lanes is ALONE and self._settled else (*super()._changing(), *own)

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
        return np.asarray((self._stacked["scaled"][self._lanes.models] > 0.0) | (self._observes != "numbers"))

    @property
    def _settled(self) -> bool:
        """Whether units stay: the warm-up is over, and targets have told a scale."""
        return self._d is not None and bool(self._warm().all() and self._scaled().all())

    def _screened(self, Y: FloatArray) -> FloatArray:
        return outliers.screened(self._stacked["screen"], Y, self._shared, self._lanes) if self._screens else Y

    # Rows.

    @property
    def _in_one_call(self) -> bool:
        """Whether a list of operations takes one compiled call, and its calibration, too."""
        if self._ready and self._lanes is ALONE:
            return True
        within: Any = self._models[0]
        able: bool = within._direct and within._one_step and within.has_variance and self._settled
        self._ready = able and self._lanes is ALONE
        return able

    @property
    def _one_step(self) -> bool:  # type: ignore[override]
        return self._lanes is ALONE and self._in_one_call

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        if self._in_one_call:
            columns = np.zeros((3, len(X), self._unit_arrays[2].shape[1]))
            self._do(ops, X, Y, conditions, kept, NOT_CALIBRATED, columns)
            return columns
        if kept is not None and self._warm().any():
            ops = self._seen(ops, kept)
        take = self._unsettled if any_of(ops, ADVANCE | LEARN) and not self._settled else super()._pass
        return take(ops, X, Y, conditions, kept)

    def _do(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: Maybe,
        conditions: Maybe,
        kept: Maybe,
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
        targets, screens = NONE if Y is None else Y, self._stacked["screen"] if self._screens else NO_SCREEN
        status, _, at = take(
            *(address_of(model._run), address_of(conformal.calibrate), numbers.records, numbers.buffers),
            *(*self._lanes, ops, X, targets, given, NONE if kept is None else kept, self._largest),
            *(screens, *self._unit_arrays, *calibration, columns, np.empty(X.shape), np.empty(targets.shape), 0, 0),
        )
        if status:
            inputs.refuse(status, at, many=len(X) > 1)

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
        return np.asarray(self._stacked["kept"][self._lanes.models, 0] == self._warmup)

    def _counts(self, ops: np.ndarray) -> np.ndarray:
        """How many operations each model has."""
        return np.array([len(ops)]) if self._lanes is ALONE else np.diff(self._lanes.starts)

    def _whose(self, ops: np.ndarray) -> np.ndarray:
        """The model of each operation."""
        return np.repeat(self._lanes.models, self._counts(ops))

    def _before(self, which: np.ndarray) -> np.ndarray:
        """Before each operation, how many of its model's are of these."""
        counts, so_far = self._counts(which), np.concatenate([[0], np.cumsum(which)])
        return np.asarray(so_far[:-1] - np.repeat(so_far[np.cumsum(counts) - counts], counts))

    def _of(self, whose: np.ndarray) -> Standardize:
        """This one for operations of these models, which come one model after the other."""
        if self._lanes is ALONE:
            return self
        first = np.flatnonzero(np.diff(whose, prepend=-1))
        return on(self, Lanes(whose[first], np.append(first, len(whose))))

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return super()._trajectories(count, steps) if self._scaled().all() else Independent(self, count)

    def _may_fail(self) -> bool:
        return not self.frozen or super()._may_fail()  # one row may have all the others learned again

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return SHARED_UNITS if what == "weigh" and self._shared and p > 1 else super()._cannot(what, p)

    # Units that change on the way: all models go on to where theirs do, then these change, and again.

    def _unsettled(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Do operations in stages; of many models each is on a row of its own, in order."""
        learns, whose, alone = ops[:, 1] & LEARN != 0, self._whose(ops), self._lanes is ALONE
        if cold := not self._warm().all():  # a stage for each renewal
            rows_kept = self._stacked["kept"][whose, 0] + self._before(learns)
            stage = np.where(rows_kept < self._warmup, np.frexp(rows_kept)[1], SETTLED)
            if not any_of(ops, PREDICT):  # the last renewal undoes all before it
                counts = self._counts(ops)
                in_the_end = np.repeat((rows_kept + learns)[np.cumsum(counts) - 1], counts)
                over = in_the_end >= self._warmup
                stage = np.maximum(stage, np.where(over, np.frexp(self._warmup - 1)[1], np.frexp(in_the_end)[1] - 1))
        else:
            told = np.zeros_like(learns) if Y is None else learns & self._differ(whose, Y[ops[:, 0]]).any(axis=1)
            stage = np.where(self._before(told) == 0, told, SETTLED)
        columns = np.zeros((len(self._columns), len(X), self._unit_arrays[2].shape[1]))
        for current in np.unique(stage).tolist():
            at = np.flatnonzero(stage == current)
            rows: Any = slice(None) if alone else at
            one, own = self._of(whose[at]), ops[at] if alone else np.stack([np.arange(len(at)), ops[at, 1]], axis=1)
            given = X[rows], _some(Y, rows), _some(conditions, at), _some(kept, rows)
            if current == SETTLED:
                found = one._pass(own, *given)
            elif cold:
                found = one._keep(own, *given)
            elif told[at].any():
                found = one._take_scale(own, *given)
            else:
                found = super(Standardize, one)._pass(own, *given)
            asked = own[own[:, 1] & PREDICT != 0, 0]
            columns[: len(found), ops[at[asked], 0] if not alone else asked] = found[:, asked]
            if kept is not None and not alone:
                kept[at] = given[3]
        return columns

    def _keep(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Do operations of the warm-up as far as the next renewal, which is the same for all models."""
        kinds = ops[:, 1]
        learns, tells = kinds & LEARN != 0, kinds & TELL != 0
        if kept is not None:
            kept[ops[~learns, 0]] = np.nan
        at, whose = ops[learns, 0], self._whose(ops)[learns]
        to = self._stacked["kept"][whose, 0] + self._before(learns)[learns]
        due = whose[(to + 1 == self._warmup) | (to + 1 == 1 << np.frexp(to.max(initial=0))[1])]
        columns = np.zeros((len(self._columns), len(X), self._unit_arrays[2].shape[1]))
        if len(due) < len(self._lanes.models) or any_of(ops, PREDICT):  # else all is learned anew now
            as_done = np.where(learns, kinds | ADVANCE, np.where(tells, kinds, kinds & PREDICT))
            rows, own = ops[:, 0], np.stack([np.arange(len(ops)), as_done], axis=1)  # one that is taken is seen anew
            found, asked = super()._pass(own, X[rows], _some(Y, rows), conditions, None), as_done & PREDICT != 0
            columns[: len(found), rows[asked]] = found[:, asked]
        self._stacked["rows"][whose, to] = X[at]
        self._stacked["targets"][whose, to] = np.nan if Y is None else Y[at]
        self._stacked["conditions"][whose, to] = np.nan if conditions is None else conditions[learns]
        self._stacked["kept"][whose, 0] = to + 1
        if len(due):
            self._renew(due, int(to.max()) + 1)
        return columns

    def _renew(self, models: np.ndarray, n: int) -> None:
        """Take the units of models from their n rows each, and let them learn these anew, all together."""
        names = "rows", "targets", "conditions", "begins"
        rows, targets, given, begins = (self._stacked[name][models, :n] for name in names)
        whose = np.repeat(models, n)
        targets = self._take_units(models, rows, targets)
        fresh = self._pristine.clone()
        fresh._prepare(self._shape_within(rows.shape[2], targets.shape[2]))
        if self._lanes is ALONE:
            self._within = fresh
        else:
            self._models[0]._begin_again(models, fresh)
        sequence = np.cumsum(begins, axis=1)
        sequence -= sequence[:, :1]
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
                self._stacked[name][models] = 0

    def _take_units(self, models: np.ndarray, rows: FloatArray, targets: FloatArray) -> FloatArray:
        """Take the units of models from rows, (models, n, d), and targets; the latter without fill values."""
        left = targets
        if self._screens:  # among the first ones fill values could not be told when they came
            lanes = Lanes(np.arange(len(models)), np.arange(len(models) + 1) * targets.shape[1])
            flat = outliers.without_fill_values(targets.reshape(-1, targets.shape[2]), self._shared, lanes)
            left = flat.reshape(targets.shape)
        if targets.shape[1] == self._warmup:
            struck = ~np.isnan(targets) & np.isnan(left)
            self._stacked["screen"][models, :, outliers.REFUSED] += struck.sum(axis=1)
        units = units_of(rows, left)
        self._stacked["scaled"][models] = center_and_spread(np.moveaxis(left, -2, -1))[1] > 0.0
        if self._observes != "numbers":  # classes and counts stay what they are
            units.target_shift[:], units.target_scale[:] = 0.0, 1.0
        for name, values in units._asdict().items():
            self._stacked[name][models] = values
        return left

    def _differ(self, whose: np.ndarray, Y: FloatArray) -> NDArray[np.bool_]:
        """Which targets, (n, p), tell a scale that is not known: they differ from the others by more than rounding."""
        shift = self._stacked["target_shift"][whose]
        rounding = self._warmup * np.finfo(np.float64).eps * np.maximum(np.abs(Y), np.abs(shift))
        with np.errstate(over="ignore"):
            return np.asarray((self._stacked["scaled"][whose] == 0.0) & (np.abs(Y - shift) > rounding))

    def _take_scale(self, ops: np.ndarray, X: FloatArray, Y: Any, conditions: Maybe, kept: Maybe) -> FloatArray:
        """Take the scale from the first target of each model that differs from all before it, which are 0 in any unit.

        Its prediction claims nothing yet.
        """
        whose, y = self._whose(ops), Y[ops[:, 0]]
        told, scale, scaled = self._differ(whose, y), self._stacked["target_scale"], self._stacked["scaled"]
        away = np.clip(np.abs(y - self._stacked["target_shift"][whose]), TINY, FAR)
        scale[whose] = np.where(told, away, scale[whose])
        columns = super()._pass(ops, X, Y, conditions, kept)
        scaled[whose] = np.where(told, 1.0, scaled[whose])
        return columns

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
            self._stacked["begins"][0, self._kept] = 1
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        s = self._units_now
        x, y = self._within._last_row()
        return s.input_shift + s.input_scale * x, s.target_shift + s.target_scale * y

    # What can be read.

    @property
    def health(self) -> Health:
        return self._within.health._replace(
            fill_values=0 if self._d is None else outliers.refused(self._stacked["screen"][0])
        )

    @property
    def frozen(self) -> bool:
        """Whether the warm-up is over and the units stay."""
        return self._kept == self._warmup

    @property
    def _kept(self) -> int:
        """The rows of the warm-up so far."""
        return 0 if self._d is None else int(self._stacked["kept"][0, 0])

    @property
    def _units_now(self) -> Scaling:
        return Scaling(*(array[0] for array in self._unit_arrays))

    @property
    def scaling(self) -> Scaling:
        """The present units: (d,) of the inputs and (p,) of the targets; (x - shift) / scale is what the model sees."""
        if self._d is None:
            raise ValueError("the units are known once the first row has come")
        return Scaling(*(array.copy() for array in self._units_now))

    @property
    def basis(self) -> FloatArray:
        """The basis points in the units of the inputs; before the first row, and a reservoir's state, as they are."""
        points = self._within.basis
        if self._d is not None and points.size:
            units = self._units()
            seen = points[:, units:].reshape(len(points), -1, self._d)
            shift, scale, *_ = self._units_now
            points[:, units:] = (shift + scale * seen).reshape(len(points), -1)
        return points


def rows_until_settled(model: StreamModel) -> int:
    """How many rows from now on a model may still learn anew, so that forgetting would be undone."""
    left = 0
    if isinstance(model, Standardize):  # a row that is yet to come decides how the warm-up ends
        left = model._warmup - model._kept
    return left + max(map(rows_until_settled, model._children().values()), default=0)


def _some(values: Maybe, at: np.ndarray | slice) -> Maybe:
    return None if values is None else values[at]

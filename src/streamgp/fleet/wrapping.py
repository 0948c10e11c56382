"""Standardize and Calibrated around models on a GPU, written for one thread of each model.

The numbers of the wrappers lie as on the cores, with a leading axis for models. What screens, scales and calibrates is
the source of the cores, compiled for another target (``taken_over``); what stands here puts it in order, and takes the
units of a warm-up, which the cores do with NumPy.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import uncompiled
from streamgp.contract import lanes
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import NOISE, TIME
from streamgp.cuda.record import NOISE as LEARNED_WITH
from streamgp.cuda.record import ROW_NOISE, ROW_TIME, SHARED, UNIT
from streamgp.wrappers import conformal, outliers, scaling
from streamgp.wrappers.standardize import FAR, TINY

Array = NDArray
Function = Callable[..., Any]
Spans = tuple[tuple[int, ...], ...]  # where arrays lie in a buffer: the first number and the shape of each

OWN_NOISE = LEARNED_WITH - len(SHARED)
NEVER = 1 << 60  # no row comes so late
COUNTER = np.dtype([(name, np.int64) for name in conformal.COUNTERS.names or ()], align=True)

# What calibration reads by name of a model, as on the cores, where all of it lies in one record and one buffer.
made: Any = namedtuple  # of names that are known elsewhere
Plan = made("Plan", conformal.PLAN.names)
Model = made("Model", ("plan", "counters", *conformal.LAYOUT.state, *conformal.LAYOUT.work))


class Standard(NamedTuple):
    """The arrays of Standardize, in its order, (models, ...) each."""

    input_shift: Any
    input_scale: Any
    target_shift: Any
    target_scale: Any
    rows: Any
    targets: Any
    conditions: Any
    begins: Any
    kept: Any
    screen: Any
    scaled: Any


def nothing() -> dict[str, np.ndarray]:
    """Arrays by name where there is no wrapper whose they would be."""
    dimensions = Standard(2, 2, 2, 2, 3, 3, 3, 2, 2, 3, 2)
    whole = "begins", "kept"
    named = {
        name: np.zeros((1,) * n, np.int64 if name in whole else np.float64) for name, n in dimensions._asdict().items()
    }
    return named | {"counters": np.zeros(1, COUNTER), "buffers": np.zeros((1, 1))}


class AroundShape(NamedTuple):
    """Of wrappers: what their functions are compiled for.

    Args:
        width: inputs.
        outputs: of the models.
        standard: whether there is a Standardize.
        screens: whether it screens targets.
        together: whether a row of which one target is refused loses the others, too.
        parts: numbers of a calibrated prediction; 0: there is no Calibrated around it.
        at: where the arrays of a calibration lie.
    """

    width: int
    outputs: int
    standard: bool
    screens: bool
    together: bool
    parts: int
    at: Spans

    @property
    def told(self) -> int:
        """Numbers of a prediction: mean, variance and noise, and those of the calibration."""
        return 3 + self.parts

    @property
    def for_rows(self) -> AroundShape:
        """What functions depend on that take rows."""
        return self._replace(parts=0, at=())

    @property
    def for_predictions(self) -> AroundShape:
        """What functions depend on that give predictions."""
        return self._replace(width=0, screens=False, together=False)


class Thread(NamedTuple):
    """A target with one thread for each model.

    Args:
        jit: how a function is compiled that others call.
        numpy: what functions of the cores know as np.
        model: makes a function (records, buffers, i) -> Model, for arrays that lie in these places; the only record is
            a pair of plan and counters.
    """

    jit: Callable[[Function], Function]
    numpy: Any
    model: Callable[[Spans], Function]


class Functions(NamedTuple):
    """What a target runs for one model; its rows are ``count`` many from ``first`` on, ``apart`` from each other.

    Args:
        enter: (s, i, k, first, apart, count, X, Y, given, own, nobody, conditioned, learned, warmup, bound, into,
            targets, known): screen targets, keep rows of a warm-up, and write rows in standard units.
        leave: (target_shift, target_scale, i, k, first, apart, count, out, own, known, told): predictions in the units
            of the targets.
        renew: (s, i, k, begin, states, nobody, own, warmup, bound, into, targets, given): take units anew, and write
            the rows so far in them.
        calibrate: (plan, counters, buffers, i, first, apart, count, Y, told): bounds of predictions; then their errors
            count.
    """

    enter: Function
    leave: Function
    renew: Function
    calibrate: Function


def plain_thread() -> Thread:
    """Plain Python, with functions of arrays that are not compiled."""

    def model(at: Spans) -> Function:
        return lambda records, buffers, i: Model(
            *records[0], *(buffers[i, start : start + math.prod(shape)].reshape(shape) for start, *shape in at)
        )

    return Thread(lambda function: function, np, model)


def taken_over(on: Thread, module: Any, names: Iterable[str], **others: Any) -> dict[str, Any]:
    """Functions of the cores, compiled for another target; they call each other there.

    Args:
        on: the target.
        module: in which they are.
        names: of the functions.
        others: what else stands for other things there.
    """
    known = vars(module) | {"np": on.numpy} | others
    for name in names:
        source = uncompiled(getattr(module, name))
        called = (one for one in source.__code__.co_names if hasattr(known.get(one), "py_func"))
        if missing := sorted({*called} - {*names} - others.keys()):
            raise LookupError(f"{name} calls {', '.join(missing)}, which would have to be taken over, too")
        known[name] = on.jit(FunctionType(source.__code__, known, name))
    return {name: known[name] for name in names}


def gpu_numpy(**functions: Function) -> ModuleType:
    """What kernels know as np: functions of numbers, not of arrays."""
    module = ModuleType("np")
    names = "exp", "log", "isnan", "isinf", "isfinite", "copysign", "inf", "nan"
    vars(module).update({name: getattr(math, name) for name in names} | functions)
    return module


def build(on: Thread, shape: AroundShape) -> Functions:
    jit, D, P, screens, together = on.jit, shape.width, shape.outputs, shape.screens, shape.together
    rounding, nan, infinite = float(np.finfo(np.float64).eps), math.nan, math.inf
    bounded = taken_over(on, lanes, ("first_of", "end_of"))
    screening = taken_over(on, outliers, ("allowed", "reach", "keep", "extend", "accept", "screen"), **bounded)
    screen = screening["screen"]
    standard = taken_over(on, scaling, ("standard",))["standard"]
    refused, in_units = outliers.REFUSED, shape.standard

    opened = on.model(shape.at)
    take = taken_over(
        on, conformal, ("leap", "distance", "tally_row", "start", "learn", "tell_shape", "learn_shape", "take")
    )["take"]

    @jit
    def within(value: Any, bound: Any) -> Any:
        """Before the units of a stream are known, its numbers may be beyond all that a model takes: as far as any."""
        if value > bound:
            return bound
        if value < -bound:
            return -bound
        return value

    @jit
    def keep_row(s: Any, i: Any, X: Array, Y: Array, given: Array, t: Any, conditioned: Any) -> None:
        """Keep a row of the warm-up."""
        at = s.kept[i, 0]
        for j in range(D):
            s.rows[i, at, j] = X[t, j]
        for j in range(P):
            s.targets[i, at, j] = Y[t, j]
        for j in range(s.conditions.shape[2]):
            s.conditions[i, at, j] = nan
        if conditioned:
            s.conditions[i, at, TIME] = given[t, ROW_TIME]
            s.conditions[i, at, NOISE] = given[t, ROW_NOISE]
        s.kept[i, 0] = at + 1

    @jit
    def take_scale(s: Any, i: Any, k: Any, Y: Array, t: Any, r: Any, warmup: Any, known: Array) -> None:
        """Where targets of the warm-up were all alike, the first that differs tells the scale; row r."""
        for j in range(P):
            y, shift = Y[t, j], s.target_shift[i, j]
            far = abs(y - shift)
            if s.scaled[i, j] == 0.0 and far > warmup * rounding * max(abs(y), abs(shift)):
                s.target_scale[i, j] = min(max(far, TINY), FAR)
                s.scaled[i, j], known[k, j] = 1.0, r + 1

    @jit
    def noise_in_units(s: Any, i: Any, asked: Any, own: Array) -> Any:
        """What a row is learned with: its own noise, or the model's."""
        if asked != asked:
            return own[i, OWN_NOISE] * (own[i, UNIT] * own[i, UNIT])
        scale = s.target_scale[i, 0] if in_units else 1.0
        return asked / (scale * scale)

    @jit
    def write_row(s: Any, i: Any, x: Array, y: Array, into: Array, targets: Array, t: Any, bound: Any) -> None:
        """Write a row in standard units, if there are any."""
        for j in range(D):
            value = standard(x[j], s.input_shift[i, j], s.input_scale[i, j]) if in_units else x[j]
            into[t, j] = within(value, LARGEST)
        for j in range(P):
            value = standard(y[j], s.target_shift[i, j], s.target_scale[i, j]) if in_units else y[j]
            targets[t, j] = within(value, bound)

    @jit
    def enter(
        s: Any,
        i: Any,
        k: Any,
        first: Any,
        apart: Any,
        count: Any,
        X: Array,
        Y: Array,
        given: Array,
        own: Array,
        nobody: Array,
        conditioned: Any,
        learned: Any,
        warmup: Any,
        bound: Any,
        into: Array,
        targets: Array,
        known: Array,
    ) -> None:
        learned = learned and in_units
        if learned and screens:
            stop = first + apart * (count - 1) + 1
            screen(nobody, nobody[:0], s.screen[i : i + 1], Y[first:stop:apart], together, False)
        for j in range(P):
            known[k, j] = 0 if not in_units or s.scaled[i, j] > 0.0 else NEVER
        t = first
        for r in range(count):
            cold = in_units and s.kept[i, 0] < warmup
            if learned and not cold:
                take_scale(s, i, k, Y, t, r, warmup, known)
            write_row(s, i, X[t], Y[t], into, targets, t, bound)
            if learned and cold:
                keep_row(s, i, X, Y, given, t, conditioned)
            if conditioned:
                given[t, ROW_NOISE] = noise_in_units(s, i, given[t, ROW_NOISE], own)
            t += apart

    @jit
    def leave(
        target_shift: Array,
        target_scale: Array,
        i: Any,
        k: Any,
        first: Any,
        apart: Any,
        count: Any,
        out: Array,
        own: Array,
        known: Array,
        told: Array,
    ) -> None:
        noise, t = own[i, OWN_NOISE] * (own[i, UNIT] * own[i, UNIT]), first
        for r in range(count):
            for j in range(P):
                mean, variance, shift, scale = out[0, t * P + j], out[1, t * P + j], 0.0, 1.0
                if in_units:
                    shift, scale = target_shift[i, j], target_scale[i, j]
                told[0, t, j] = shift + scale * mean
                told[1, t, j] = scale * scale * variance
                told[2, t, j] = scale * scale * noise
                if r < known[k, j]:  # in no unit nothing can be claimed
                    told[0, t, j], told[1, t, j], told[2, t, j] = shift, infinite, 0.0
            t += apart

    @jit
    def spread(values: Array) -> Any:
        """Mean and standard deviation of what is not missing, as center_and_spread() of wrappers/standardize.py."""
        count, largest, first, n = 0, 0.0, 0.0, values.size
        for r in range(n):
            if values[r] == values[r]:
                first = values[r] if count == 0 else first
                largest = max(largest, abs(values[r]))
                count += 1
        largest = largest if largest > 0.0 else 1.0
        mean, low, high = 0.0, infinite, -infinite
        for r in range(n):
            if values[r] == values[r]:
                z = values[r] / largest  # so that squares neither overflow nor vanish
                mean, low, high = mean + z, min(low, z), max(high, z)
        mean /= max(count, 1)
        if not high - low > count * rounding:
            return first, 0.0
        square = 0.0
        for r in range(n):
            if values[r] == values[r]:
                square += (values[r] / largest - mean) * (values[r] / largest - mean)
        return largest * mean, largest * math.sqrt(square / max(count - 1, 1))

    @jit
    def renew(
        s: Any,
        i: Any,
        k: Any,
        begin: Any,
        states: Array,
        nobody: Array,
        own: Array,
        warmup: Any,
        bound: Any,
        into: Array,
        targets: Array,
        given: Array,
    ) -> None:
        n = s.kept[i, 0]
        Y = targets[begin : begin + n]
        for r in range(n):
            for j in range(P):
                Y[r, j] = s.targets[i, r, j]
        if screens:  # among the first targets fill values could not be told when they came
            screen(nobody, nobody[:0], states[k : k + 1], Y, together, False)
            screen(nobody, nobody[:0], states[k : k + 1], Y, together, True)
        for j in range(D):
            shift, scale = spread(s.rows[i, :n, j])
            s.input_shift[i, j], s.input_scale[i, j] = shift, scale if scale > 0.0 else 1.0
        for j in range(P):
            shift, scale = spread(Y[:, j])
            s.target_shift[i, j], s.target_scale[i, j] = shift, scale if scale > 0.0 else 1.0
            s.scaled[i, j] = 1.0 if scale > 0.0 else 0.0
            if n == warmup:
                for r in range(n):
                    if Y[r, j] != Y[r, j] and s.targets[i, r, j] == s.targets[i, r, j]:
                        s.screen[i, j, refused] += 1.0
        for r in range(n):
            t = begin + r
            given[t, ROW_NOISE] = noise_in_units(s, i, s.conditions[i, r, NOISE], own)
            given[t, ROW_TIME] = s.conditions[i, r, TIME]
            write_row(s, i, s.rows[i, r], Y[r], into, targets, t, bound)
        if n == warmup:
            for r in range(n):
                s.begins[i, r] = 0
                for j in range(D):
                    s.rows[i, r, j] = 0.0
                for j in range(P):
                    s.targets[i, r, j] = 0.0
                for j in range(s.conditions.shape[2]):
                    s.conditions[i, r, j] = 0.0

    @jit
    def calibrate(
        plan: Array,
        counters: Array,
        buffers: Array,
        i: Any,
        first: Any,
        apart: Any,
        count: Any,
        Y: Array,
        told: Array,
    ) -> None:
        settings = Plan(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6], plan[7], plan[8])
        m, t = opened(((settings, counters[i]),), buffers, i), first
        for _ in range(count):
            for j in range(P):
                take(m, j, told[0, t, j], told[1, t, j], told[2, t, j], Y[t, j], False, told[3:, t, j])
            t += apart

    return Functions(enter, leave, renew, calibrate)

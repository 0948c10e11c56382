"""WrappedEngine: wrappers on a GPU around processes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

import numpy as np

from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.contract.saved import refuse_unlike
from streamgp.cuda.record import COUNTED, PREDICTED, Look, UnfitError
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.cuda import CudaEngine, Memory
from streamgp.fleet.rows import Rows
from streamgp.fleet.wrapping import COUNTER, AroundShape, Model, Plan
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.standardize import Standardize

UNFIT = "inputs must be finite, and targets finite or missing"


class Wrappers(Protocol):
    """The numbers of wrappers, and what runs rows through them and the models within."""

    def up(self, named: dict[str, np.ndarray]) -> None:
        """Take over the arrays of all models by name."""

    def down(self, names: tuple[str, ...], which: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Arrays of these names, of some models or of all."""

    def write(self, which: np.ndarray, named: dict[str, np.ndarray]) -> None:
        """Replace the numbers of some models."""

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray,
        given: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
        largest: float,
        bound: float,
        report: bool,
    ) -> np.ndarray | None:
        """As Memory.run(), with targets (n, p); predictions, if they are asked for, are (numbers of one, n, p).

        Rows with a number beyond the largest are refused; the models within see none beyond the bound. A model in its
        warm-up has one row at most.
        """

    def renew(self, models: np.ndarray, counts: np.ndarray, bound: float) -> None:
        """Take the units of models from their rows so far, and let them learn these, having learned nothing."""


def fits(model: StreamModel) -> bool:
    """Whether a GPU runs the wrappers of models like this one, too."""
    *around, _ = model._family()
    return [type(one) for one in around] in ([Standardize], [Calibrated], [Calibrated, Standardize])


def shape_of(model: StreamModel) -> tuple[AroundShape, int, np.ndarray]:
    """Of the wrappers of a model that is prepared, the rows of its warm-up, and the plan of its calibration."""
    parts, at, plan = 0, (), np.zeros(len(Plan._fields))
    standard: Standardize | None = None
    for one in model._family():
        if isinstance(one, Calibrated):
            record = one._numbers.records[0]
            parts, at = 4 + one._rungs, tuple(record["at"][name].item() for name in Model._fields[2:])
            plan = np.array([float(record["plan"][name]) for name in Plan._fields])
        if isinstance(one, Standardize):
            standard = one
    shape = AroundShape(
        width=model._shape.d or 0,
        outputs=model._shape.p or 1,
        standard=standard is not None,
        screens=standard is not None and standard._screens,
        together=model._shared,
        parts=parts,
        at=at,
    )
    return shape, 0 if standard is None else standard._warmup, plan


class Elsewhere(OnlineGP):
    """The process within the wrappers that stand for all: its numbers are those of an engine."""

    @classmethod
    def of(cls, model: OnlineGP) -> Self:
        twin = object.__new__(cls)
        vars(twin).update(vars(model))
        return twin

    def _stack(self) -> list[np.ndarray]:
        return []

    def _restack(self, arrays: list[np.ndarray]) -> None:
        """Nothing: the numbers are on the GPU."""

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        """Nothing: the engine does."""


class WrappedEngine(CpuEngine):
    """Keeps the wrappers of all models on the GPU, and on the cores as long as somebody reads or changes them there.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        processes: their engine, without models so far.
        kind: (memory, shape, warmup, plan) -> the wrappers.
    """

    checks_rows = True

    def __init__(
        self,
        model: StreamModel,
        size: int,
        processes: CudaEngine,
        kind: Callable[[Memory, AroundShape, int, np.ndarray], Wrappers],
    ) -> None:
        self._processes = processes
        self._around_shape, self._warmup, plan = shape_of(model)
        self._wrappers = kind(processes._memory, self._around_shape, self._warmup, plan)
        self._largest = model._largest
        self._newer_here, self._newer_there = True, False
        self._kept = np.zeros(0, np.int64)  # rows of each warm-up, while the wrappers are on the GPU
        super().__init__(model, size, 1)

    def _prepared(self, model: StreamModel) -> StreamModel:
        twin = super()._prepared(model)
        *_, around, process = twin._family()
        around._within = Elsewhere.of(process)
        return twin

    # Where the wrappers are.

    def _bring_here(self) -> None:
        """Have the present numbers on the cores, where they may be changed now."""
        if self._newer_there:
            mine = _numbers(self._model)
            for name, array in self._wrappers.down(tuple(mine)).items():
                mine[name][...] = array
        self._newer_here, self._newer_there = True, False

    def _bring_there(self) -> None:
        if self._newer_here:
            mine = _numbers(self._model)
            self._wrappers.up({name: _dense(array) for name, array in mine.items()})
            if "kept" in mine:
                self._kept = mine["kept"][:, 0].copy()
        self._newer_here, self._newer_there = False, True

    def _named(self) -> dict[str, np.ndarray]:
        self._bring_here()
        return super()._named()

    def add(self, count: int) -> None:
        self._bring_here()
        super().add(count)
        self._processes.add(count)

    def keep(self, which: np.ndarray) -> None:
        self._bring_here()
        super().keep(which)
        self._processes.keep(which)

    def take(self, i: int, model: StreamModel) -> None:
        mine = _numbers(model)
        if self._newer_there:
            for name, array in self._wrappers.down(tuple(mine), np.array([i])).items():
                mine[name][...] = array
        else:
            for name, array in _numbers(self._model).items():
                mine[name][0] = array[i]
        *_, process = model._family()
        self._processes.take(i, process)

    def put(self, i: int, model: StreamModel) -> None:
        mine = _numbers(model)
        if self._newer_there:
            self._wrappers.write(np.array([i]), {name: _dense(array) for name, array in mine.items()})
            if "kept" in mine:
                self._kept[i] = mine["kept"][0, 0]
        else:
            for name, array in _numbers(self._model).items():
                array[i] = mine[name][0]
        *_, process = model._family()
        self._processes.put(i, process)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        return self._named() | self._processes.arrays()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        mine = self._named()
        refuse_unlike({name: saved[name] for name in mine if name in saved}, mine)
        self._processes.restore({name: array for name, array in saved.items() if name not in mine})
        for name, array in mine.items():
            array[...] = saved[name]

    def check_restored(self) -> None:
        super().check_restored()
        self._processes.check_restored()

    def clock(self) -> FloatArray:
        return self._processes.clock()

    def rows_seen(self) -> np.ndarray:
        return self._processes.rows_seen()

    def health(self) -> Health:
        return self._processes.health()._replace(**self._fill_values())

    def broken(self) -> np.ndarray:
        return self._processes.broken()

    def refresh(self) -> np.ndarray:
        return self._processes.refresh()

    def _fill_values(self) -> dict[str, Any]:
        if not self._newer_there:
            return super()._fill_values()
        if not self._around_shape.standard:
            return {}
        screen = self._wrappers.down(("screen",))["screen"]
        return {"fill_values": screen[:, :, outliers.REFUSED].sum(axis=1).astype(np.int64)}

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        self._bring_there()
        if not self._cold(rows).any():
            return self._prediction(self._run(rows, COUNTED, report))
        self._refuse_unfit(rows)
        n, p = len(rows.X), self._around_shape.outputs
        told: FloatArray = np.empty((self._around_shape.told if report else 0, n, p))
        for part, where in _one_by_one(rows):
            of_part = self._run(part, COUNTED, report)
            if of_part is not None:
                told[:, where] = of_part
            self._count(part.models)
        return self._prediction(told if report else None)

    def predict(self, rows: Rows) -> Prediction:
        self._bring_there()
        prediction = self._prediction(self._run(rows, PREDICTED, True))
        assert prediction is not None
        return prediction

    def _refuse_unfit(self, rows: Rows) -> None:
        """Refuse rows before any of them is taken, where they are taken one after the other."""
        Y = np.zeros((1, 1)) if rows.Y is None else rows.Y
        missing = np.isnan(Y)
        wild = np.isinf(Y).any() or (np.abs(Y) > self._largest).any() or (missing != missing[:, :1]).any()
        if wild or not np.isfinite(rows.X).all() or (np.abs(rows.X) > self._largest).any():
            raise UnfitError(UNFIT)

    def _cold(self, rows: Rows) -> np.ndarray:
        """Which of the models are in their warm-up."""
        if not self._around_shape.standard:
            return np.zeros(1, bool)
        return np.asarray(self._kept[rows.models] < self._warmup)

    def _run(self, rows: Rows, mode: int, report: bool) -> FloatArray | None:
        processes, learned = self._processes, mode != PREDICTED
        Y = np.full((len(rows.X), self._around_shape.outputs), np.nan) if rows.Y is None else rows.Y
        given = self._given(rows) if learned else None
        look = processes._look(len(rows.models), len(rows.X)) if learned else Look()
        try:
            told = self._wrappers.run(
                *(rows.models, rows.starts, rows.X, Y, given, mode, rows.step, look, self._largest, processes.bound),
                report,
            )
        except UnfitError:
            raise UnfitError(UNFIT) from None
        if learned:
            processes._mend(rows.models, look)
        return told

    def _given(self, rows: Rows) -> FloatArray | None:
        """What rows have of their own, (n, 2): noises in the units of the targets, NaN where there is none; times."""
        if rows.conditions is None:
            return None
        noises = rows.conditions[:, NOISE]
        if self._processes._single and not np.isnan(noises).all():
            scaled = self._around_shape.standard
            units = rows.each(self._wrappers.down(("target_scale",))["target_scale"][:, 0]) if scaled else 1.0
            self._processes.refuse_noise(rows, noises, units)
        return np.ascontiguousarray(np.column_stack([noises, rows.conditions[:, TIME]]))

    def _count(self, models: np.ndarray) -> None:
        """One more row of each of these models was kept, if it is in its warm-up; renew those that are due."""
        warmup = self._warmup
        cold = models[self._kept[models] < warmup]
        self._kept[cold] += 1
        rows = self._kept[cold]
        due = cold[(rows & (rows - 1) == 0) | (rows == warmup)]  # 1, 2, 4, 8..., and all
        if len(due):
            self._processes.begin_again(due)
            self._wrappers.renew(due, self._kept[due], self._processes.bound)

    def _prediction(self, told: FloatArray | None) -> Prediction | None:
        if told is None:
            return None
        raw, parts = Prediction(told[0], told[1], told[2]), told[3:]
        if not len(parts):
            return raw
        lower, upper, variance, noise = parts[:4]
        level = self._model._level  # type: ignore[attr-defined]
        return CalibratedPrediction(raw.mean, variance, noise, lower, upper, level, raw, parts[4:])


def _numbers(model: StreamModel) -> dict[str, np.ndarray]:
    """What the wrappers of a model hold, by name, (models, ...) each."""
    named: dict[str, np.ndarray] = {}
    for one in model._family():
        if isinstance(one, Standardize):
            named |= one._stacked
        elif isinstance(one, Calibrated):
            named |= {"counters": one._numbers.records["counters"], "buffers": one._numbers.buffers}
    return named


def _dense(array: np.ndarray) -> np.ndarray:
    """An array of its own kind, or of counters as a GPU has them."""
    return np.ascontiguousarray(array).astype(COUNTER) if array.dtype.names else array


def _one_by_one(rows: Rows) -> Iterator[tuple[Rows, Any]]:
    """The first row of every model, then the second, ..., and where they are among all."""
    if not rows.step:
        yield from rows.turns()
        return
    starts = np.arange(rows.step + 1)
    for begin in range(0, len(rows.X), rows.step):
        where = slice(begin, begin + rows.step)
        yield Rows(rows.models, starts, *rows._at(where)), where

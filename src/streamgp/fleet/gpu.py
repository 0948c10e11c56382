"""GpuEngine: models on a GPU, run by kernels made of the cores' own loops."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.contract.checks import check
from streamgp.contract.lanes import LEARN, PREDICT, SCREEN, TRACK, Lanes, listed
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import NUMBERS
from streamgp.contract.stackable import on, stack_of
from streamgp.contract.within import family
from streamgp.cuda.columns import Columns
from streamgp.cuda.record import UnfitError
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.cuda import DevicePrediction
from streamgp.fleet.rows import Arrival, Predicted, Rows
from streamgp.process.compiled_model import NONE
from streamgp.settings import FloatArray
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.standardize import Standardize, ways_of
from streamgp.wrappers.units import Scaling

if TYPE_CHECKING:
    from streamgp.cuda.place import Gpu

AT_ONCE = [Standardize], [Calibrated, Standardize]  # what kernels take rows through


@lru_cache(maxsize=2)
def _row_after_row(rows: int, size: int, kind: int) -> np.ndarray:
    """The same operation on rows of all models, which come row after row, each model's together."""
    ops = np.empty((rows * size, 2), dtype=np.int64)
    ops[:, 0], ops[:, 1] = np.arange(rows * size).reshape(rows, size).T.ravel(), kind
    return ops


class GpuEngine(CpuEngine):
    """One model that stands for all, as on the cores, whose innermost numbers are elsewhere.

    While nobody asks for them here, so are those of wrappers that take rows in one compiled call.
    """

    def __init__(self, model: StreamModel, size: int, threads: int, place: Gpu) -> None:
        self._place = place
        self._settled: np.ndarray | None = None  # models of the last call, if wrappers are on the GPU since then
        *around, _ = family(model)
        super().__init__(model, size, threads if around else 1)

    def _places_of(self, one: Any) -> Any:
        *self._around, process = family(self._many)
        if one is not process:
            return super()._places_of(one)
        *_, blank = family(self._blank)
        self._columns = process._run = Columns(blank._numbers, self._place, process._run)
        self._direct, process._direct = process._direct, False  # what else is compiled cannot call it
        return self._columns

    _checked_at_once = sys.maxsize

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        cores = CpuEngine(self._blank, self.size, 1)
        cores.restore(saved)
        for mine, theirs in zip(stack_of(self._model), stack_of(cores._model), strict=True):
            mine[...] = theirs

    # Rows.

    @property
    def checks(self) -> bool:  # type: ignore[override]
        """Whether rows are checked there: they are if nothing changes them before."""
        return self._looks and (not self._around or self._settled is not None)

    @property
    def _looks(self) -> bool:
        """Whether a kernel can check rows: what comes is what the loop gets, and any number is a target."""
        process = self._process
        return process._refuse_targets is None and getattr(process, "_mean", None) is None

    def run(self, rows: Rows, kind: int, kept: FloatArray | None = None) -> Predicted:
        model = on(self._many, Lanes(rows.models, rows.starts))
        at_once = kept is None and self._goes_at_once(model, rows.models)
        looks = self._looks and kept is None and (at_once or not self._around)
        self._columns.largest = model._largest if looks else None
        if not at_once:
            given = rows.X, rows.X[:0] if rows.Y is None else rows.Y
            if self._around and check(*given, model._shared, model._largest)[0]:  # before wrappers here change anything
                raise UnfitError("inputs and targets must be finite; a target may be NaN")
            return super().run(rows, kind, kept)
        Y = None
        if kind & LEARN:
            Y = np.full((len(rows.X), model._p or 1), np.nan) if rows.Y is None else rows.Y
        columns: FloatArray = model._pass(listed(len(rows.X), kind | SCREEN), rows.X, Y, rows.conditions, None)
        return columns

    def there(self, came: Arrival, X: Any, Y: Any | None) -> DevicePrediction:
        """Predict rows that are on the GPU, as they came, and learn them if they have targets."""
        from streamgp.cuda.device_array import DeviceArray

        *rows, size = came.shape
        n, kind, model = int(np.prod(came.shape)), PREDICT if Y is None else TRACK, self._process
        X = DeviceArray(X.address, (n, X.shape[-1]), X.dtype, X)
        targets = NONE if Y is None else DeviceArray(Y.address, (n, 1), Y.dtype, Y)
        told = self._place.lend((len(NUMBERS), n, 1))
        ops = listed(n, kind) if n == size else _row_after_row(*rows, size, kind)
        self._columns.largest = model._largest
        self._columns(None, None, came.models, came.starts, ops, X, targets, NONE, NONE, told)
        at = (told.address + i * n * told.dtype.itemsize for i in range(len(NUMBERS)))
        mean, variance, noise = (DeviceArray(one, came.shape, told.dtype, told) for one in at)
        return DevicePrediction(mean, variance, noise) if model.has_variance else DevicePrediction(mean, np.nan, np.nan)

    def _goes_at_once(self, model: Any, models: np.ndarray) -> bool:
        """Whether one kernel takes rows through wrappers and processes; then the wrappers are on the GPU, too."""
        *around, process = family(model)
        process._direct = self._direct
        if [type(one) for one in around] not in AT_ONCE:
            return False
        if models is not self._settled:
            if not around[-1]._in_one_call:
                return False
            if self._settled is None:
                self._mirror()
            self._settled = models
        around[-1]._unit_arrays, around[-1]._ways, around[-1]._ready = self._units, ways_of(process._run), True
        return True

    # Where the wrappers are.

    @property
    def _model(self) -> Any:
        """For whoever reads or changes numbers here."""
        if self._settled is not None:
            self._mirror_back()
        return self._many

    @_model.setter
    def _model(self, model: StreamModel) -> None:
        self._many = model

    def _mirror(self) -> None:
        mirrors = self._columns.mirrors
        for one in self._around:
            if isinstance(one, Standardize):
                self._units = [one._numbers[name] for name in Scaling._fields]
                mirrors |= {id(array): self._place.sent(array) for array in (one._numbers["screen"], *self._units)}
            else:
                records, buffers = one._numbers.stack
                self._calibration = Columns(one._numbers.one(0), self._place, None)
                self._calibration.add(self.size)
                self._calibration.records[...], self._calibration.buffers[...] = records, buffers
                mirrors |= {id(records): self._place.sent(records[:1]), id(buffers): self._calibration.array}

    def _mirror_back(self) -> None:
        self._settled, mirrors = None, self._columns.mirrors
        for one in self._around:
            if isinstance(one, Standardize):
                screen = one._numbers["screen"]
                screen[...] = self._place.back(mirrors[id(screen)])
            else:
                records, buffers = one._numbers.stack
                records["counters"] = self._calibration.records["counters"]
                buffers[...] = self._calibration.buffers[:, : buffers.shape[1]]
        mirrors.clear()

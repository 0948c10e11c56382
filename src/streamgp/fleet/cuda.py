"""CudaEngine: growing bases in the memory of a GPU, as lanes work on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamgp.blas import one_thread
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import noise_of
from streamgp.contract.lanes import ISSUE, LEARN, PREDICT
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.snapshot import SnapshotError
from streamgp.cuda.exchange import NUMBERS, Exchange, Kept
from streamgp.cuda.record import (
    COUNTED,
    COUNTS,
    LARGEST_NUMBERS,
    LEARNED,
    MOST_DEFECT,
    POINTS,
    PREDICTED,
    ROWS,
    UNIT,
    UnfitError,
)
from streamgp.fleet.rows import Arrival, Predicted, Rows
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

if TYPE_CHECKING:
    from streamgp.cuda.memory import GpuMemory

RECORDS = "records"  # the array that only a GPU's fleet has
MODES = {PREDICT: PREDICTED, LEARN: LEARNED}  # of operations; others count the row
CHECK_EVERY = 256  # rows of a model, in single precision


class DevicePrediction(NamedTuple):
    """Predictions that stay on the GPU: arrays that torch, CuPy and JAX take over without a copy.

    Args:
        mean: of the targets, with ``__cuda_array_interface__``.
        variance: of the latent function; NaN, and so is the noise, of models that have none.
        noise: of the observations, a number, or an array of one for each model or for each row.
    """

    mean: Any
    variance: Any
    noise: Any


class CudaEngine:
    """Keeps the records of all models in the memory of a GPU; rows go up, predictions come down."""

    checks = True  # rows, where the models are

    def __init__(self, model: OnlineGP, size: int, precision: str, kind: Callable[..., GpuMemory]) -> None:
        self._model, self._exchange = model, (exchange := Exchange(model, precision))
        self._memory = kind(exchange.shape, exchange.number, exchange.shared)
        self._single = precision == "single"
        self._unchecked = np.zeros(1)  # rows of a model since all were looked at
        self._own: FloatArray = np.empty((0, len(exchange.blank.own)))  # as the memory has it
        self._noise: FloatArray = np.empty(0)  # of the observations of each model
        self.add(size)

    # Rows.

    def run(self, rows: Rows, kind: int, kept: FloatArray | None = None) -> Predicted:
        mode, noise, n = MODES.get(kind, COUNTED), None, len(rows.X)
        Y = np.full(n, np.nan) if rows.Y is None else rows.Y[:, 0]
        if mode != PREDICTED and rows.conditions is not None:
            noise = noise_of(rows.conditions, rows.each(self._noise)[:, None])[:, 0]
            self._refuse_noise(rows, noise)
        try:
            out = self._memory.run(rows.models, rows.starts, rows.X, Y, noise, mode, rows.step, self._bound)
        except UnfitError:
            raise self._unfit() from None
        self._look(mode, n)
        if kept is not None and kind == ISSUE:
            kept[:, 0], kept[:, 1:] = 0.0, rows.X  # as the cores keep it
        own = np.broadcast_to(self._noise[:1], n) if self._alike else rows.each(self._noise)
        return [column[:, None] for column in (*out, own)]

    @property
    def kept_width(self) -> int:
        return 1 + self._exchange.shape.width

    def _refuse_noise(self, rows: Rows, noise: FloatArray) -> None:
        """Refuse rows whose own noise is too small for the precision."""
        least = self._exchange.least_noise * rows.each(self._own[:, UNIT]) ** 2
        for row in np.flatnonzero(noise < least)[:1]:
            raise ValueError(
                f'noise must be at least {least[row]:g} on device="cuda" with this recipe and precision; got '
                f'{noise[row]:g}. Nothing was learned; use device="cpu" for more exact rows'
            )

    def _unfit(self) -> UnfitError:
        return UnfitError(
            f"inputs must lie within {LARGEST:g}, and targets within {min(self._bound, LARGEST):g} in this precision "
            "with this variance"
        )

    def _look(self, mode: int, rows: int) -> None:
        """In single precision make broken models anew now and then."""
        if self._single and mode != PREDICTED:
            self._unchecked += rows / self.size
            if self._unchecked[0] >= CHECK_EVERY:
                self._unchecked[0] = 0.0
                self.refresh()

    def there(self, came: Arrival, X: Any, Y: Any | None) -> DevicePrediction:
        """Predict rows that are on the GPU, as they came, and learn them if they have targets."""
        try:
            mean, variance = self._memory.run_there(came.models, came.starts, X, Y, came.step, self._bound)
        except UnfitError:
            raise self._unfit() from None
        self._look(PREDICTED if Y is None else COUNTED, int(np.prod(came.shape)))
        return DevicePrediction(mean, variance, float(self._noise[0]) if self._alike else self._noise.copy())

    # Models.

    @property
    def size(self) -> int:
        return self._memory.size

    def take(self, i: int, model: StreamModel) -> None:
        kept = Kept(*(array[0] for array in self._memory.read(np.array([i]))))
        with one_thread():
            self._exchange.read(kept, model)

    def put(self, i: int, model: StreamModel) -> None:
        with one_thread():
            kept = self._exchange.write(model)
        self._memory.write(np.array([i]), *(array[None] for array in kept))
        assert isinstance(model, OnlineGP)
        self._change_own(i, kept.own, model._state.noise[0])

    def add(self, count: int) -> None:
        blank, size = self._exchange.blank, self.size
        self._memory.add(count, *blank)
        self._own = np.resize(self._own, (size + count, len(blank.own)))
        self._noise = np.resize(self._noise, size + count)
        self._change_own(slice(size, None), blank.own, self._model._state.noise[0])

    def begin(self, which: np.ndarray, named: dict[str, FloatArray]) -> None:
        """Let models that have learned nothing have hyperparameters of their own, (n, 1) or (n, d) by name."""
        blank = self._exchange.blank
        own = self._exchange.own(named["noise"][:, 0], named["variance"][:, 0], named["lengthscale"])
        self._memory.write(which, *(part[None] for part in blank[:-1]), own)
        self._change_own(which, own, named["noise"][:, 0])

    def _change_own(self, which: Any, own: FloatArray, noise: Any) -> None:
        self._own[which], self._noise[which] = own, noise
        vars(self).pop("_alike", None)
        vars(self).pop("_bound", None)

    @cached_property
    def _alike(self) -> bool:
        """Whether one noise stands for all."""
        return bool((self._noise == self._noise[:1]).all())

    @cached_property
    def _bound(self) -> float:
        """Of targets."""
        return LARGEST_NUMBERS[self._exchange.shape.bytes] * float(self._own[:, UNIT].min(initial=np.inf))

    def keep(self, which: np.ndarray) -> None:
        self._memory.keep(which)
        self._own, self._noise = self._own[which], self._noise[which]

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the records, origins and counts as they are: read back, models go on bit for bit."""
        found = dict(zip((RECORDS, "origins", "counts"), self._memory.read(np.arange(self.size))[:-1], strict=True))
        return found | {"unchecked": self._unchecked}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        refuse_unlike(saved, self.arrays())
        self._memory.write(np.arange(self.size), saved[RECORDS], saved["origins"], saved["counts"], self._own)
        self._unchecked[:] = saved["unchecked"]

    def check_restored(self) -> None:
        named = self.arrays()
        if not (np.isfinite(named[RECORDS]).all() and np.isfinite(named["origins"]).all()):
            raise SnapshotError("the records or origins of the snapshot hold numbers that are not finite")
        counts, capacity = named["counts"], self._exchange.shape.points
        if not self._unchecked[0] >= 0 or (counts < 0).any() or (counts[:, POINTS] > capacity).any():
            raise SnapshotError(f"the counts of the snapshot are below 0, or more than {capacity} points")

    def rows_seen(self) -> np.ndarray:
        return self._memory.counts()[:, ROWS]

    def health(self) -> Health:
        counts, none = self._memory.counts(), np.zeros(self.size, np.int64)
        return Health(*(counts[:, COUNTS.index(name)] if name in COUNTS else none for name in Health._fields))  # type: ignore[arg-type]

    def broken(self) -> np.ndarray:
        """The ids of models whose numbers are not finite or whose L is no longer a root of K^-1."""
        return np.flatnonzero(~(self._memory.off(np.arange(self.size)) <= MOST_DEFECT))

    def refresh(self) -> np.ndarray:
        """Make the records of broken models anew in double precision; their ids."""
        wrong = self.broken()
        if len(wrong):
            found = Kept(*self._memory.read(wrong))
            with one_thread():
                anew = [self._exchange.refreshed(Kept(*kept)) for kept in zip(*found, strict=True)]
            self._memory.write(wrong, *(np.stack(arrays) for arrays in zip(*anew, strict=True)))
        return wrong


class Stored:
    """Models as CudaEngine.arrays() has them, for a fleet elsewhere; named: hyperparameters as begin() takes them."""

    def __init__(
        self, model: OnlineGP, size: int, saved: dict[str, np.ndarray], named: dict[str, FloatArray] | None
    ) -> None:
        precision = next(name for name, number in NUMBERS.items() if saved[RECORDS].dtype == number)
        self._exchange, parts = Exchange(model, precision), (RECORDS, "origins", "counts")
        *blank, own = (np.broadcast_to(part, (size, len(part))) for part in self._exchange.blank)
        refuse_unlike(saved, dict(zip(parts, blank, strict=True)) | {"unchecked": np.zeros(1)})
        if named is not None:
            own = self._exchange.own(named["noise"][:, 0], named["variance"][:, 0], named["lengthscale"])
        self._parts = *(saved[name] for name in parts), own

    def take(self, i: int, model: StreamModel) -> None:
        with one_thread():
            self._exchange.read(Kept(*(part[i] for part in self._parts)), model)

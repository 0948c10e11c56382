"""CudaEngine: the models of a fleet in the memory of a GPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from streamgp.blas import one_thread
from streamgp.contract.checks import LARGEST
from streamgp.contract.conditions import TIME, noise_of
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction, moments_of
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.snapshot import SnapshotError
from streamgp.cuda.exchange import Exchange, Kept
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
    Look,
    UnfitError,
)
from streamgp.fleet.rows import Arrival, Rows
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

RECORDS = "records"  # the array that only a GPU's fleet has
CHECK_EVERY = 256  # calls with one row, in which single precision is looked at once in every model


class Memory(Protocol):
    """Where records are, and what runs rows through them."""

    @property
    def size(self) -> int: ...

    def add(self, count: int, *state: np.ndarray) -> None:
        """Add models at the end, all with these parts of Kept."""

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""

    def read(self, which: np.ndarray) -> tuple[np.ndarray, ...]:
        """The parts of Kept of these models."""

    def counts(self) -> np.ndarray:
        """Of all models."""

    def origins(self) -> np.ndarray:
        """Of all models."""

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        """Replace the parts of Kept of these models; one stands for all."""

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray | None,
        given: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
        bound: float,
    ) -> np.ndarray:
        """Predict rows, and learn them unless they are only PREDICTED; targets are (n, p), predictions (2, n * p).

        Rows of a model follow each other from its start on, or are ``step`` apart where that is not 0. What they have
        of their own, (n, 2), is in the order of record.py. Targets beyond the bound are refused.
        """

    @property
    def suspected(self) -> bool:
        """Whether one of the models that the last run looked at may be broken."""

    def off(self, which: np.ndarray) -> np.ndarray:
        """For each of these, how far |L k(b)|^2 is from k(b, b) over its basis points b, relative; inf: not finite."""


@runtime_checkable
class MemoryThere(Protocol):
    """Of a GPU that is here."""

    def run_there(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: Any,
        Y: Any | None,
        mode: int,
        step: int,
        look: Look,
        bound: float,
    ) -> tuple[Any, Any]:
        """As run(), for rows on the GPU; means and variances stay there."""

    def pinned(self, rows: int, number: type) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets in pinned memory."""


class DevicePrediction(NamedTuple):
    """Predictions that stay on the GPU: arrays that torch, CuPy and JAX take over without a copy.

    Args:
        mean: of the targets, with ``__cuda_array_interface__``.
        variance: of the latent function.
        noise: of the observations, a number, or an array of one for each model.
    """

    mean: Any
    variance: Any
    noise: Any


class CudaEngine:
    """Keeps the records of all models in the memory of a GPU; rows go up, predictions come down.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        precision: "double" or "single".
        memory: made from the exchange.
    """

    def __init__(self, model: OnlineGP, size: int, precision: str, memory: Memory, exchange: Exchange) -> None:
        if model._shape.p != 1 and not model._shared:
            raise ValueError(
                f'device="cuda" runs several outputs only if they share one covariance (outputs="shared"); got '
                f'{model._shape.p} separate ones. Use device="cpu"'
            )
        self._model, self._memory, self._exchange = model, memory, exchange
        self._outputs = exchange.shape.outputs
        self._single = precision == "single"
        self._turn = 0  # of those models whose numbers are looked at after a call
        self._own: FloatArray = np.empty((0, len(exchange.blank.own)))  # as the memory has it
        self._noise: FloatArray = np.empty(0)  # of the observations of each model
        self.add(size)

    checks_rows = True  # a GPU looks at a million rows in no time

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        return self._learn(rows, COUNTED, report)

    def _learn(self, rows: Rows, mode: int, report: bool) -> Prediction | None:
        Y = np.full((len(rows.X), self._outputs), np.nan) if rows.Y is None else rows.Y
        look = self._look(len(rows.models), len(rows.X))
        out = self._run(rows, Y, mode, look)
        self._mend(rows.models, look)
        return self._prediction(rows, out) if report else None

    def _given(self, rows: Rows) -> FloatArray | None:
        """What rows have of their own, (n, 2); None: nothing."""
        if rows.conditions is None:
            return None
        noise = noise_of(rows.conditions, rows.each(self._noise)[:, None])[:, 0]
        self.refuse_noise(rows, noise)
        return np.column_stack([noise, rows.conditions[:, TIME]])

    def refuse_noise(self, rows: Rows, noise: FloatArray, unit: Any = 1.0) -> None:
        """Refuse rows whose own noise, in this unit, is too small for the precision."""
        least = self._exchange.least_noise * (rows.each(self._own[:, UNIT]) * unit) ** 2
        for row in np.flatnonzero(noise < least)[:1]:
            raise ValueError(
                f'noise must be at least {least[row]:g} on device="cuda" with this recipe and precision; got '
                f'{noise[row]:g}. Nothing was learned; use device="cpu" for more exact rows'
            )

    def _look(self, models: int, rows: int) -> Look:
        """Which models are looked at after these rows: in single precision some, others after the next call."""
        if not self._single:
            return Look()
        every = max(1, CHECK_EVERY * models // rows)
        return Look(self._turn % every, every)

    def _mend(self, models: np.ndarray, look: Look) -> None:
        """Make those models anew that were looked at and are broken."""
        self._turn += 1
        if look.every and self._memory.suspected:
            self._make_anew(models[look.first :: look.every])

    def predict(self, rows: Rows) -> Prediction:
        return self._prediction(rows, self._run(rows, None, PREDICTED, Look()))

    def _run(self, rows: Rows, Y: np.ndarray | None, mode: int, look: Look) -> np.ndarray:
        given = None if mode == PREDICTED else self._given(rows)
        try:
            return self._memory.run(rows.models, rows.starts, rows.X, Y, given, mode, rows.step, look, self.bound)
        except UnfitError:
            raise self._unfit() from None

    def _unfit(self) -> UnfitError:
        return UnfitError(
            f"inputs must lie within {LARGEST:g}, and targets within {min(self.bound, LARGEST):g} in this precision "
            "with this variance"
        )

    def there(self, came: Arrival, X: Any, Y: Any | None, learned: bool) -> DevicePrediction:
        """Predict rows that are on the GPU, as they came, and learn them if they have targets."""
        memory, mode = self._memory, COUNTED if learned else PREDICTED
        assert isinstance(memory, MemoryThere)
        look = self._look(len(came.models), int(np.prod(came.shape))) if learned else Look()
        try:
            mean, variance = memory.run_there(came.models, came.starts, X, Y, mode, came.step, look, self.bound)
        except UnfitError:
            raise self._unfit() from None
        if learned:
            self._mend(came.models, look)
        return DevicePrediction(mean, variance, float(self._noise[0]) if self._alike else self._noise.copy())

    def pinned(self, rows: int, number: type) -> tuple[np.ndarray, np.ndarray]:
        """Room for rows in memory from which the GPU copies fastest."""
        assert isinstance(self._memory, MemoryThere)
        return self._memory.pinned(rows, number)

    def kept_width(self) -> int:
        return 1 + 2 * self._exchange.shape.width

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        prediction = self._learn(rows._replace(Y=None), COUNTED, True)
        assert prediction is not None
        return moments_of(prediction), np.hstack([rows.X, np.zeros((len(rows.X), 1)), rows.X])  # as the cores keep it

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        self._learn(rows._replace(X=np.ascontiguousarray(kept[:, : self._exchange.shape.width])), LEARNED, False)

    def _prediction(self, rows: Rows, out: np.ndarray) -> Prediction:
        mean, variance = out.reshape(2, -1, self._outputs)
        noise = self._noise[0] if self._alike else rows.each(self._noise)[:, None]
        return Prediction(mean, variance, np.broadcast_to(noise, mean.shape))

    def undo_of(self, rows: Rows) -> None:
        """Nothing: rows are checked before any model learns."""

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
        self._own, self._noise = (
            np.resize(self._own, (size + count, len(blank.own))),
            np.resize(self._noise, size + count),
        )
        self._change_own(slice(size, None), blank.own, self._model._state.noise[0])

    def begin(self, which: np.ndarray, named: dict[str, FloatArray]) -> None:
        """Let models that have learned nothing have hyperparameters of their own, (n, 1) or (n, d) by name."""
        blank = self._exchange.blank
        own = self._exchange.own(named["noise"][:, 0], named["variance"][:, 0], named["lengthscale"])
        self._memory.write(which, *(part[None] for part in blank[:-1]), own)
        self._change_own(which, own, named["noise"][:, 0])

    def begin_again(self, which: np.ndarray) -> None:
        """Let models forget all they have learned."""
        self._memory.write(which, *(part[None] for part in self._exchange.blank[:-1]), self._own[which])

    def _change_own(self, which: Any, own: FloatArray, noise: Any) -> None:
        self._own[which], self._noise[which] = own, noise
        vars(self).pop("_alike", None)
        vars(self).pop("bound", None)

    @cached_property
    def _alike(self) -> bool:
        """Whether one noise stands for all."""
        return bool((self._noise == self._noise[:1]).all())

    @cached_property
    def bound(self) -> float:
        """Of targets."""
        return LARGEST_NUMBERS[self._exchange.shape.bytes] * float(self._own[:, UNIT].min(initial=np.inf))

    def keep(self, which: np.ndarray) -> None:
        self._memory.keep(which)
        self._own, self._noise = self._own[which], self._noise[which]

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the records, origins and counts as they are: read back, models go on bit for bit."""
        found = dict(zip((RECORDS, "origins", "counts"), self._memory.read(np.arange(self.size))[:-1], strict=True))
        return found | {"turn": np.array([self._turn])}

    def clock(self) -> FloatArray:
        """When each model learned last, where it forgets by time; NaN: never."""
        last: FloatArray = self._memory.origins()[:, -1]
        return last

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        refuse_unlike(saved, self.arrays())
        self._memory.write(np.arange(self.size), saved[RECORDS], saved["origins"], saved["counts"], self._own)
        self._turn = int(saved["turn"][0])

    def check_restored(self) -> None:
        named = self.arrays()
        origins, clocks = np.split(named["origins"], [self._exchange.shape.width], axis=1)  # NaN: nothing learned yet
        if not (np.isfinite(named[RECORDS]).all() and np.isfinite(origins).all()) or np.isinf(clocks).any():
            raise SnapshotError("the records or origins of the snapshot hold numbers that are not finite")
        counts, capacity = named["counts"], self._exchange.shape.points
        if self._turn < 0 or (counts < 0).any() or (counts[:, POINTS] > capacity).any():
            raise SnapshotError(f"the counts of the snapshot are below 0, or more than {capacity} points")

    def rows_seen(self) -> np.ndarray:
        return self._memory.counts()[:, ROWS]

    def health(self) -> Health:
        counts, none = self._memory.counts(), np.zeros(self.size, np.int64)
        return Health(*(counts[:, COUNTS.index(name)] if name in COUNTS else none for name in Health._fields))  # type: ignore[arg-type]

    def broken(self) -> np.ndarray:
        """The ids of models whose numbers are not finite or whose L is no longer a root of K^-1."""
        return self._broken(np.arange(self.size))

    def _broken(self, which: np.ndarray) -> np.ndarray:
        """Those of some models."""
        found: np.ndarray = which[~(self._memory.off(which) <= MOST_DEFECT)]
        return found

    def refresh(self) -> np.ndarray:
        """Make the records of broken models anew in double precision; their ids."""
        return self._make_anew(np.arange(self.size))

    def _make_anew(self, which: np.ndarray) -> np.ndarray:
        """The same for some models."""
        wrong = self._broken(which)
        if len(wrong):
            found = Kept(*self._memory.read(wrong))
            with one_thread():
                anew = [self._exchange.refreshed(Kept(*kept)) for kept in zip(*found, strict=True)]
            self._memory.write(wrong, *(np.stack(arrays) for arrays in zip(*anew, strict=True)))
        return wrong

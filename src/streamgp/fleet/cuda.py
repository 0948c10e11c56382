"""CudaEngine: the models of a fleet in the memory of a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
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
        """Add models at the end, all with this record, origin and counts."""

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Records, origins and counts of these models."""

    def counts(self) -> np.ndarray:
        """Of all models."""

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        """Replace records, origins and counts of these models."""

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
    ) -> np.ndarray:
        """Predict rows, and learn them unless they are only PREDICTED; means and variances, (2, n).

        Rows of a model follow each other from its start on, or are ``step`` apart where that is not 0.
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
        self, models: np.ndarray, starts: np.ndarray, X: Any, Y: Any | None, mode: int, step: int, look: Look
    ) -> tuple[Any, Any]:
        """As run(), for rows on the GPU; means and variances stay there."""

    def pinned(self, rows: int, number: type) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets in pinned memory."""


class DevicePrediction(NamedTuple):
    """Predictions that stay on the GPU: arrays that torch, CuPy and JAX take over without a copy.

    Args:
        mean: of the targets, with ``__cuda_array_interface__``.
        variance: of the latent function.
        noise: of the observations, a number.
    """

    mean: Any
    variance: Any
    noise: float


class CudaEngine:
    """Keeps the records of all models in the memory of a GPU; rows go up, predictions come down.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        precision: "double" or "single".
        memory: made from the exchange.
    """

    def __init__(self, model: OnlineGP, size: int, precision: str, memory: Memory, exchange: Exchange) -> None:
        if model._shape.p != 1:
            raise ValueError(f'device="cuda" runs models of one output; got {model._shape.p}. Use device="cpu"')
        self._model, self._memory, self._exchange = model, memory, exchange
        self._single = precision == "single"
        self._turn = 0  # of those models whose numbers are looked at after a call
        self.add(size)

    checks_rows = True  # a GPU looks at a million rows in no time

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        return self._learn(rows, COUNTED, report)

    def _learn(self, rows: Rows, mode: int, report: bool) -> Prediction | None:
        if rows.conditions is not None:
            raise ValueError('device="cuda" knows one noise for all rows; use device="cpu" for noise= and time=')
        Y = np.full(len(rows.X), np.nan) if rows.Y is None else rows.Y[:, 0]
        look = self._look(len(rows.models), len(rows.X))
        out = self._run(rows, Y, mode, look)
        self._mend(rows.models, look)
        return self._prediction(out) if report else None

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
        return self._prediction(self._run(rows, None, PREDICTED, Look()))

    def _run(self, rows: Rows, Y: np.ndarray | None, mode: int, look: Look) -> np.ndarray:
        try:
            return self._memory.run(rows.models, rows.starts, rows.X, Y, mode, rows.step, look)
        except UnfitError:
            raise self._unfit() from None

    def _unfit(self) -> UnfitError:
        largest = LARGEST_NUMBERS[self._exchange.shape.bytes] * self._exchange.units[0, 0]
        return UnfitError(
            f"inputs must lie within {LARGEST:g}, and targets within {min(largest, LARGEST):g} in this precision with "
            "this variance"
        )

    def there(self, came: Arrival, X: Any, Y: Any | None, learned: bool) -> DevicePrediction:
        """Predict rows that are on the GPU, as they came, and learn them if they have targets."""
        memory, mode = self._memory, COUNTED if learned else PREDICTED
        assert isinstance(memory, MemoryThere)
        look = self._look(len(came.models), int(np.prod(came.shape))) if learned else Look()
        try:
            mean, variance = memory.run_there(came.models, came.starts, X, Y, mode, came.step, look)
        except UnfitError:
            raise self._unfit() from None
        if learned:
            self._mend(came.models, look)
        return DevicePrediction(mean, variance, float(self._model._state.noise[0]))

    def pinned(self, rows: int, number: type) -> tuple[np.ndarray, np.ndarray]:
        """Room for rows in memory from which the GPU copies fastest."""
        assert isinstance(self._memory, MemoryThere)
        return self._memory.pinned(rows, number)

    def held_width(self) -> int:
        return self._exchange.shape.width

    def issue(self, rows: Rows) -> tuple[Prediction, FloatArray]:
        prediction = self._learn(rows._replace(Y=None), COUNTED, True)
        assert prediction is not None
        return prediction, rows.X.copy()

    def resolve(self, rows: Rows, held: FloatArray, newest: np.ndarray, unchanged: np.ndarray) -> None:
        self._learn(rows._replace(X=np.ascontiguousarray(held)), LEARNED, False)

    def _prediction(self, out: np.ndarray) -> Prediction:
        mean, variance = out[0][:, None], out[1][:, None]
        return Prediction(mean, variance, np.broadcast_to(self._model._state.noise, mean.shape))

    def undo_of(self, rows: Rows) -> None:
        """Nothing: rows are checked before any model learns."""

    # Models.

    @property
    def size(self) -> int:
        return self._memory.size

    def take(self, i: int, model: StreamModel) -> None:
        self._exchange.read(Kept(*(array[0] for array in self._memory.read(np.array([i])))), model)

    def put(self, i: int, model: StreamModel) -> None:
        self._memory.write(np.array([i]), *(array[None] for array in self._exchange.write(model)))

    def add(self, count: int) -> None:
        self._memory.add(count, *self._exchange.blank)

    def keep(self, which: np.ndarray) -> None:
        self._memory.keep(which)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the records, origins and counts as they are: read back, models go on bit for bit."""
        found = dict(zip((RECORDS, "origins", "counts"), self._memory.read(np.arange(self.size)), strict=True))
        return found | {"turn": np.array([self._turn])}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        refuse_unlike(saved, self.arrays())
        self._memory.write(np.arange(self.size), saved[RECORDS], saved["origins"], saved["counts"])
        self._turn = int(saved["turn"][0])

    def check_restored(self) -> None:
        named = self.arrays()
        if not (np.isfinite(named[RECORDS]).all() and np.isfinite(named["origins"]).all()):
            raise SnapshotError("the records or origins of the snapshot hold numbers that are not finite")
        counts, capacity = named["counts"], getattr(self._exchange.shape, "points", 0)
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
            anew = [self._exchange.refreshed(Kept(*kept)) for kept in zip(*found, strict=True)]
            self._memory.write(wrong, *(np.stack(arrays) for arrays in zip(*anew, strict=True)))
        return wrong

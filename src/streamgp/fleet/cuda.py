"""CudaEngine: the models of a fleet in the memory of a GPU."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.snapshot import SnapshotError
from streamgp.cuda.exchange import Exchange
from streamgp.cuda.record import COUNTED, COUNTS, LARGEST_NUMBERS, LEARNED, POINTS, PREDICTED, ROWS, UnfitError
from streamgp.fleet.rows import Rows
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

RECORDS = "records"  # the array that only a GPU's fleet has
CHECK_EVERY = 256  # rows of a model after which single precision is looked at
MOST_DEFECT = 0.05  # of L K L' from I, beyond which a record is made anew


class Memory(Protocol):
    """Where records are, and what runs rows through them."""

    @property
    def size(self) -> int: ...

    def add(self, count: int, record: np.ndarray, counts: np.ndarray) -> None:
        """Add models at the end, all with this record."""

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records and counts of these models."""

    def counts(self) -> np.ndarray:
        """Of all models."""

    def write(self, which: np.ndarray, records: np.ndarray, counts: np.ndarray) -> None: ...

    def run(self, models: np.ndarray, starts: np.ndarray, X: np.ndarray, Y: np.ndarray | None, mode: int) -> np.ndarray:
        """Predict rows, and learn them unless they are only PREDICTED; means and variances, (2, n)."""

    def off(self) -> np.ndarray:
        """For each model, how far |L k(b)|^2 is from k(b, b) over its basis points b, relative; inf: not finite."""


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
        self._since_check = 0
        self.add(size)

    checks_rows = True  # a GPU looks at a million rows in no time

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        return self._learn(rows, COUNTED, report)

    def _learn(self, rows: Rows, mode: int, report: bool) -> Prediction | None:
        if rows.conditions is not None:
            raise ValueError('device="cuda" knows one noise for all rows; use device="cpu" for noise= and time=')
        Y = np.full(len(rows.X), np.nan) if rows.Y is None else rows.Y[:, 0]
        out = self._run(rows, Y, mode)
        if self._single:
            self._since_check += int(np.max(np.diff(rows.starts), initial=0))
            if self._since_check >= CHECK_EVERY:
                self._since_check = 0
                self.refresh()
        return self._prediction(out) if report else None

    def predict(self, rows: Rows) -> Prediction:
        return self._prediction(self._run(rows, None, PREDICTED))

    def _run(self, rows: Rows, Y: np.ndarray | None, mode: int) -> np.ndarray:
        try:
            return self._memory.run(rows.models, rows.starts, rows.X, Y, mode)
        except UnfitError:
            largest = LARGEST_NUMBERS[self._exchange.shape.bytes]
            raise UnfitError(f"inputs and targets must lie within {largest:g} in this precision") from None

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

    def undo_of(self, models: np.ndarray) -> None:
        """Nothing: rows are checked before any model learns."""

    # Models.

    @property
    def size(self) -> int:
        return self._memory.size

    def take(self, i: int, model: StreamModel) -> None:
        (record,), (counts,) = self._memory.read(np.array([i]))
        self._exchange.read(record, counts, model)

    def put(self, i: int, model: StreamModel) -> None:
        record, counts = self._exchange.write(model)
        self._memory.write(np.array([i]), record[None], counts[None])

    def add(self, count: int) -> None:
        self._memory.add(count, *self._exchange.blank)

    def keep(self, which: np.ndarray) -> None:
        self._memory.keep(which)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the records and counts as they are: read back, models go on bit for bit."""
        records, counts = self._memory.read(np.arange(self.size))
        return {RECORDS: records, "counts": counts}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        refuse_unlike(saved, self.arrays())
        self._memory.write(np.arange(self.size), saved[RECORDS], saved["counts"])

    def check_restored(self) -> None:
        named = self.arrays()
        if not np.isfinite(named[RECORDS]).all():
            raise SnapshotError("the records of the snapshot hold numbers that are not finite")
        counts, capacity = named["counts"], getattr(self._exchange.shape, "points", 0)
        if (counts < 0).any() or (counts[:, POINTS] > capacity).any():
            raise SnapshotError(f"the counts of the snapshot are below 0, or more than {capacity} points")

    def rows_seen(self) -> np.ndarray:
        return self._memory.counts()[:, ROWS]

    def health(self) -> Health:
        counts, none = self._memory.counts(), np.zeros(self.size, np.int64)
        return Health(*(counts[:, COUNTS.index(name)] if name in COUNTS else none for name in Health._fields))  # type: ignore[arg-type]

    def broken(self) -> np.ndarray:
        """The ids of models whose numbers are not finite or whose L is no longer a root of K^-1."""
        return np.flatnonzero(~(self._memory.off() <= MOST_DEFECT))

    def refresh(self) -> np.ndarray:
        """Make the records of broken models anew in double precision; their ids."""
        wrong = self.broken()
        if len(wrong):
            records, counts = self._memory.read(wrong)
            for j in range(len(wrong)):
                records[j], counts[j] = self._exchange.refreshed(records[j], counts[j])
            self._memory.write(wrong, records, counts)
        return wrong

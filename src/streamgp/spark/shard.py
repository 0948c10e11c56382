"""Shard: the models of some keys, which arrive with their first rows and may leave. Knows nothing of Spark."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.loading import from_bytes
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import SnapshotError, packed, unpacked
from streamgp.settings import FloatArray
from streamgp.spark.plan import MIGRATION, Plan
from streamgp.spark.rows import NO_TICKET, NO_TIME, Batch, Entry, Predictions

_COUNTS = "late", "refused", "unmatched"


class Shard:
    """A fleet whose models have keys.

    Args:
        plan: of the query.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fleet = plan.fleet()
        self._ids: dict[Any, int] = {}
        self._rows = np.zeros(0, dtype=np.int64)
        self._last = np.zeros(0)
        self.late = 0  # rows dropped because their key had learned a later one
        self.refused = 0  # rows with inputs or targets that no model takes
        self.unmatched = 0  # targets under tickets under which no row waits

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def rows(self) -> int:
        """Rows of all keys so far."""
        return int(self._rows.sum())

    def earliest(self) -> Any:
        """The time of the key that has had no row for longest; None: there are no keys."""
        return self._last.min() if len(self._last) else None

    # Rows.

    def take(self, batch: Batch) -> Predictions:
        """Predict each row, then learn it; rows of a key are taken in order of time."""
        entry, refused = self.arrange(batch)
        return joined(self.learn(entry), refused)

    def arrange(self, batch: Batch) -> tuple[Entry, Predictions]:
        """Check and order rows; nothing changes. What no model takes comes back without predictions."""
        tickets = np.full(len(batch.Y), NO_TICKET) if batch.tickets is None else batch.tickets
        fit = self._fit(batch, tickets != NO_TICKET)
        unfit = np.flatnonzero(~fit & (tickets == NO_TICKET))
        keys, nothing = [batch.keys[i] for i in unfit.tolist()], np.zeros(len(unfit), dtype=np.int64)
        refused = Predictions.none(keys, batch.time[unfit], batch.Y[unfit], nothing)
        kept = np.flatnonzero(fit)
        ids, new = self._numbered([batch.keys[i] for i in kept.tolist()])
        # Rows of one key and time are ordered by their numbers: a batch that is computed again may arrive otherwise.
        order = np.lexsort((tickets[kept], batch.Y[kept], *batch.X[kept].T, batch.time[kept], ids))
        ids, kept = ids[order], kept[order]
        in_time = self._in_time(ids, batch.time[kept])
        late, ids, kept = int(np.count_nonzero(~in_time)), ids[in_time], kept[in_time]
        X, Y = np.ascontiguousarray(batch.X[kept]), np.ascontiguousarray(batch.Y[kept])
        return Entry(ids, batch.time[kept], X, Y, tickets[kept], new, late, int(np.count_nonzero(~fit))), refused

    def learn(self, entry: Entry) -> Predictions:
        """Predict each row of an entry, then learn it."""
        self._add(entry)
        found = np.full((4, len(entry.ids)), np.nan)
        issued = np.full(len(entry.ids), NO_TICKET)
        if self._plan.pending:
            for part in _runs(entry):
                self._learn_run(entry, part, found, issued)
        elif len(entry.ids):
            time = self._seconds(entry.time)
            found[:] = _parts(self._fleet.track(entry.X, entry.Y, ids=entry.ids, time=time))
        return self._counted(entry, found, issued)

    def _learn_run(self, entry: Entry, part: np.ndarray, found: FloatArray, issued: np.ndarray) -> None:
        """Take rows with a target, without one, or late targets; at most one of the three for each key."""
        late = entry.tickets[part] != NO_TICKET
        known = ~np.isnan(entry.Y[part])
        now, waits, came = part[known & ~late], part[~known & ~late], part[late]
        if len(now):
            time = self._seconds(entry.time[now])
            found[:, now] = _parts(self._fleet.track(entry.X[now], entry.Y[now], ids=entry.ids[now], time=time))
        if len(waits):
            prediction = self._fleet.issue(entry.X[waits], entry.ids[waits])
            found[:, waits] = _parts(prediction)
            issued[waits] = prediction.ticket
        if len(came):
            _, first = np.unique(entry.tickets[came], return_index=True)
            open_ = np.isin(np.arange(len(came)), first)
            open_ &= self._fleet.waiting(entry.tickets[came]) == entry.ids[came]
            self.unmatched += int(np.count_nonzero(~open_))
            came = came[open_]
            self._fleet.resolve(entry.tickets[came], entry.Y[came], time=self._seconds(entry.time[came]))

    def _counted(self, entry: Entry, found: FloatArray, issued: np.ndarray) -> Predictions:
        """Count rows, and leave out the targets that came late: their rows were predicted when they were issued."""
        rows = np.flatnonzero(entry.tickets == NO_TICKET)
        ids = entry.ids[rows]
        counts = np.bincount(ids, minlength=len(self._rows))
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        number = self._rows[ids] + 1 + np.arange(len(ids)) - firsts[ids]
        self._rows += counts
        last = np.flatnonzero(np.diff(entry.ids, append=-1))
        self._last[entry.ids[last]] = np.maximum(self._last[entry.ids[last]], entry.time[last])
        self.late += entry.late
        self.refused += entry.refused
        keys = np.empty(len(self._ids), dtype=object)
        keys[:] = list(self._ids)
        mean, lower, upper, std = found[:, rows]
        return Predictions(
            keys[ids].tolist(), entry.time[rows], mean, lower, upper, std, entry.Y[rows], number, issued[rows]
        )

    def _fit(self, batch: Batch, come_late: np.ndarray) -> np.ndarray:
        """Which rows have a key, a time, and numbers that the recipe takes; late targets need no inputs."""
        fit = np.array([key is not None for key in batch.keys], dtype=bool)
        fit &= np.isfinite(batch.time) & (batch.time != NO_TIME)
        X, Y, recipe = np.where(come_late[:, None], 0.0, batch.X), batch.Y[:, None], self._plan.model
        if not _taken(recipe, X, Y):
            fit &= np.array([_taken(recipe, X[i : i + 1], Y[i : i + 1]) for i in range(len(Y))])
        return fit

    def _numbered(self, keys: list[Any]) -> tuple[np.ndarray, list[Any]]:
        """The ids of keys, and the keys that are new, whose ids follow those there are."""
        get, size = self._ids.get, len(self._ids)
        ids = np.fromiter((get(key, -1) for key in keys), dtype=np.int64, count=len(keys))
        new: dict[Any, int] = {}
        for i in np.flatnonzero(ids < 0).tolist():
            ids[i] = new.setdefault(keys[i], size + len(new))
        return ids, list(new)

    def _in_time(self, ids: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Which rows can be learned: models that forget by time cannot go back."""
        fine = np.ones(len(ids), dtype=bool)
        if self._plan.model._needs_time:
            known = ids < len(self._last)
            fine[known] = time[known] >= self._last[ids[known]]
        return fine

    def _seconds(self, time: np.ndarray) -> np.ndarray | None:
        """The times that models get."""
        if not self._plan.model._needs_time:
            return None
        return np.asarray(time / self._plan.per_second)

    def _add(self, entry: Entry) -> None:
        if entry.new:
            self._fleet.add(len(entry.new))
            self._ids |= {key: len(self._ids) + i for i, key in enumerate(entry.new)}
            self._rows = np.append(self._rows, np.zeros(len(entry.new), dtype=np.int64))
            self._last = np.append(
                self._last.astype(entry.time.dtype),
                np.full(len(entry.new), NO_TIME if entry.time.dtype.kind == "i" else -np.inf, dtype=entry.time.dtype),
            )

    # Keys.

    def snapshot(self, key: Any) -> bytes:
        """The model of a key, as bytes that sg.from_bytes reads, and sg.load from a file."""
        if key not in self._ids:
            raise KeyError(missing(key))
        return self._fleet.model(self._ids[key]).to_bytes()

    def expire(self, before: Any) -> tuple[Predictions, list[bytes]]:
        """Let the keys go whose last row is not after this time: these keys with their last rows, and their models."""
        gone, keys = np.flatnonzero(self._last <= before), list(self._ids)
        left = [keys[i] for i in gone.tolist()]
        found = Predictions.none(left, self._last[gone], np.full(len(gone), np.nan), self._rows[gone])
        models = [self.snapshot(key) for key in left]
        if left:
            self._fleet.remove(gone)
            kept = np.setdiff1d(np.arange(len(keys)), gone)
            self._ids = {keys[i]: j for j, i in enumerate(kept.tolist())}
            self._rows, self._last = self._rows[kept], self._last[kept]
        return found, models

    # The state.

    def to_bytes(self) -> bytes:
        """Everything, as one value."""
        plan, recipe = self._plan.described()
        header = {"fingerprint": self._plan.fingerprint, "words": str(self._plan), "plan": plan}
        header |= {"keys": list(self._ids)} | {name: getattr(self, name) for name in _COUNTS}
        fleet = np.frombuffer(self._fleet.to_bytes(), dtype=np.uint8)
        return packed(header, {"recipe": recipe, "rows": self._rows, "last": self._last, "fleet": fleet})

    @classmethod
    def from_bytes(cls, data: bytes, plan: Plan | None = None) -> Shard:
        """The shard of to_bytes().

        Args:
            data: what to_bytes() returned.
            plan: of the query; the state of another one is refused. None: that of the state.
        """
        try:
            header, arrays = unpacked(bytes(data))
        except SnapshotError as error:
            raise SnapshotError(f"the state of the query cannot be read: {error}. {MIGRATION}") from error
        if plan is None:
            plan = Plan.of(header["plan"], arrays["recipe"])
        else:
            plan.refuse_other(header["fingerprint"], header["words"])
        shard = cls(plan)
        shard._ids = {key: i for i, key in enumerate(header["keys"])}
        shard._rows, shard._last = arrays["rows"].copy(), arrays["last"].copy()
        shard._fleet = from_bytes(arrays["fleet"].tobytes())
        for name in _COUNTS:
            setattr(shard, name, header[name])
        return shard


def missing(key: Any) -> str:
    return f"there is no model of the key {key!r}: none of its rows has come, or it has expired"


def joined(first: Predictions, second: Predictions) -> Predictions:
    """The predictions of both."""
    if not second.key:
        return first
    arrays = (np.concatenate(pair) for pair in zip(first[1:], second[1:], strict=True))
    return Predictions(first.key + second.key, *arrays)


def _parts(prediction: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    lower, upper = prediction.interval()
    return prediction.mean, lower, upper, prediction.std


def _taken(recipe: StreamModel, X: FloatArray, Y: FloatArray) -> bool:
    """Whether models of a recipe take all of these rows."""
    try:
        passing.refuse_unfit(recipe, X, Y)
    except ValueError:
        return False
    return True


def _runs(entry: Entry) -> list[np.ndarray]:
    """Rows by turns: first the first run of each model of rows of one kind, then the second, ..."""
    kind = np.where(entry.tickets != NO_TICKET, 2, np.isnan(entry.Y).astype(np.int64))
    changes = (np.diff(kind, prepend=-1) != 0) | (np.diff(entry.ids, prepend=-1) != 0)
    run = np.cumsum(changes)
    first = np.flatnonzero(np.diff(entry.ids, prepend=-1))
    turn = run - np.repeat(run[first], np.diff(np.append(first, len(run))))
    return [np.flatnonzero(turn == k) for k in range(int(turn.max(initial=-1)) + 1)]

"""The file of a run: encoder, stream model, scores, tickets and position, to go on where the run stood."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.waiting import Tickets
from streamgp.job.reading import ReadableRun
from streamgp.loading import model_of
from streamgp.settings import whole
from streamgp.tables.columns import Schema
from streamgp.tables.source import Position, RowsError

MODEL = "model"  # in a file


class SavedRun(ReadableRun, abc.ABC):
    """A run, as far as all that the next row needs goes to one file and comes from it."""

    @abc.abstractmethod
    def __init__(self, schema: Schema, model: str, settings: Mapping[str, Any], lags: int, horizon: int) -> None:
        """Begin a run."""

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        return snapshot.packed(*self.contents())

    def contents(self) -> snapshot.Contents:
        """What a snapshot of the run has."""
        settings, parts = snapshot.encoded(self.request.settings)
        models, states = snapshot.nested({MODEL: snapshot.contents(self.stream)})
        header = {
            "holds": "a run over rows of a table",
            "run": {
                "schema": self.schema.to_dict(),
                "model": self.request.model,
                "settings": settings,
                "lags": self.lags,
                "horizon": self.horizon,
                "gaps": self.encoder.gaps,
                "joined": [list(pair) for pair in self.encoder.joined],
                "strangers": self.encoder.strangers,
                "rows": self.rows,
                "position": list(self.position),
                "about": self.extra,
                "late": None if self.tickets is None else _described(self.tickets, self.late),
                "models": models,
            },
        }
        own = (
            _arrays(self) | self.screening.arrays() | self.changes.arrays() | self.times.arrays() | self.scores.spread()
        )
        return header, own | parts | states

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the run of a file written by ``save``."""
        try:
            data = snapshot.read(path)
        except OSError as error:
            raise RowsError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the run of a snapshot."""
        return cls.of(*snapshot.unpacked(data))

    @classmethod
    def of(cls, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Self:
        """Return the run of ``contents``."""
        try:
            run = cls(*_request_of(header, tensors))
            run._go_on(header["run"], tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can resume: {error}; start a new run, or resume it "
                "with the version that saved it"
            ) from error
        return run

    def _go_on(self, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on, just built, where the saved run stood."""
        self.rows = whole("rows", saved["rows"], at_least=0)
        self.position, self.extra = Position(*saved["position"]), saved["about"]
        self.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        self.encoder.joined = [(str(column), str(level)) for column, level in saved.get("joined", ())]
        self.encoder.strangers = {name: whole("strangers", count) for name, count in saved.get("strangers", {}).items()}
        if len(self.encoder.joined) > self.schema.spare:
            raise snapshot.SnapshotError(f"the snapshot has more new levels than spare inputs: {self.encoder.joined}")
        arrays = _arrays(self) | self.scores.spread()
        refuse_unlike({name: tensors[name] for name in arrays if name in tensors}, arrays)
        for name, array in arrays.items():
            array[...] = tensors[name]
        for part in (self.screening, self.changes, self.times):
            part.restore(tensors)
        stream: Any = model_of(*snapshot.part(MODEL, saved["models"], tensors))
        if repr(stream) != repr(self.stream) or stream._shape != self.stream._shape:
            raise snapshot.SnapshotError(
                f"the snapshot's model is not the one that its settings say, {self.stream!r}: it is {stream!r}"
            )
        self._stream = stream
        if self.tickets is not None:
            _restore_tickets(self.tickets, saved["late"], stream._waiting)


def _request_of(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> tuple[Schema, str, dict[str, Any], int, int]:
    """What a run was built with: schema, model, settings, lags and horizon."""
    if "run" not in header:
        raise snapshot.SnapshotError(
            f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
            "or start a new run"
        )
    saved = header["run"]
    settings = snapshot.decoded(saved["settings"], tensors, {})
    return Schema.from_dict(saved["schema"]), saved["model"], settings, saved["lags"], saved["horizon"]


def _arrays(run: ReadableRun) -> dict[str, np.ndarray]:
    """The arrays of all parts by name, of fixed shape."""
    return {"last": run.encoder.last, "scores": run.scores.sums}


def _described(tickets: Tickets[int], counts: dict[str, int] | None) -> dict[str, Any]:
    """Tickets, oldest first."""
    return {"waiting": list(tickets.rows.items()), "closed": list(tickets.closed.items()), "counts": counts}


def _restore_tickets(tickets: Tickets[int], saved: dict[str, Any], waiting: Any) -> None:
    tickets.rows = {name: whole("row", row, at_least=0) for name, row in saved["waiting"]}
    if len(tickets.rows) != len(waiting) or not all(row in waiting for row in tickets.rows.values()):
        raise snapshot.SnapshotError(
            "the snapshot does not name all rows that wait for their targets: resume it with the version that "
            "saved it, or start a new run"
        )
    tickets.closed = {str(name): bool(resolved) for name, resolved in saved["closed"]}
    tickets.resolved, tickets.expired, tickets.ignored = (
        whole(name, saved["counts"][name], at_least=0) for name in ("learned", "expired", "ignored")
    )

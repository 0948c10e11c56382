"""The file of a run: encoder, stream model, scores, tickets and position, to go on where the run stood."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.waiting import Tickets
from streamgp.job.reading import ReadableRun
from streamgp.loading import decoded, model_of
from streamgp.settings import whole
from streamgp.tables.columns import Schema
from streamgp.tables.source import Position

MODEL = "model"  # in a file


def contents(run: ReadableRun) -> snapshot.Contents:
    """What a snapshot of a run has."""
    settings, parts = snapshot.encoded(run.request.settings)
    models, states = snapshot.nested({MODEL: snapshot.contents(run.stream)})
    header = {
        "holds": "a run over rows of a table",
        "run": {
            "schema": run.schema.to_dict(),
            "model": run.request.model,
            "settings": settings,
            "lags": run.lags,
            "horizon": run.horizon,
            "gaps": run.encoder.gaps,
            "joined": [list(pair) for pair in run.encoder.joined],
            "strangers": run.encoder.strangers,
            "rows": run.rows,
            "position": list(run.position),
            "about": run.extra,
            "late": None if run.tickets is None else _described(run.tickets, run.late),
            "models": models,
        },
    }
    own = _arrays(run) | run.screening.arrays() | run.changes.arrays() | run.times.arrays() | run.scores.spread()
    return header, own | parts | states


def request_of(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> tuple[Schema, str, dict[str, Any], int, int]:
    """What a run was built with: schema, model, settings, lags and horizon."""
    if "run" not in header:
        raise snapshot.SnapshotError(
            f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
            "or start a new run"
        )
    saved = header["run"]
    settings = decoded(saved["settings"], tensors, {})
    return Schema.from_dict(saved["schema"]), saved["model"], settings, saved["lags"], saved["horizon"]


def restore(run: ReadableRun, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Let a run that was just built go on where the saved one stood."""
    run.rows = whole("rows", saved["rows"], at_least=0)
    run.position, run.extra = Position(*saved["position"]), saved["about"]
    run.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
    run.encoder.joined = [(str(column), str(level)) for column, level in saved.get("joined", ())]
    run.encoder.strangers = {name: whole("strangers", count) for name, count in saved.get("strangers", {}).items()}
    if len(run.encoder.joined) > run.schema.spare:
        raise snapshot.SnapshotError(f"the snapshot has more new levels than spare inputs: {run.encoder.joined}")
    arrays = _arrays(run)
    refuse_unlike({name: tensors[name] for name in arrays}, arrays)
    for name, array in arrays.items():
        array[...] = tensors[name]
    spread = run.scores.spread()
    if saved_spread := {name: tensors[name] for name in spread if name in tensors}:  # version 0.2 did not keep it
        refuse_unlike(saved_spread, spread)
        for name, array in spread.items():
            array[...] = saved_spread[name]
    for part in (run.screening, run.changes, run.times):
        part.restore(tensors)
    stream: Any = model_of(*snapshot.part(MODEL, saved["models"], tensors))
    if repr(stream) != repr(run.stream) or stream._shape != run.stream._shape:
        raise snapshot.SnapshotError(
            f"the snapshot's model is not the one that its settings say, {run.stream!r}: it is {stream!r}"
        )
    run.stream = stream
    if run.tickets is not None:
        _restore_tickets(run.tickets, saved["late"], stream._waiting)


def _arrays(run: ReadableRun) -> dict[str, np.ndarray]:
    """The arrays of all parts by name, of fixed shape."""
    return {"last": run.encoder.last, "moment": run.moment, "scores": run.scores.sums}


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

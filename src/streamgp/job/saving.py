"""The file of a run: encoder, model, what is counted, tickets and position, to go on where the run stood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.waiting import Tickets
from streamgp.loading import model_of
from streamgp.settings import whole
from streamgp.tables.columns import Schema
from streamgp.tables.source import Position

if TYPE_CHECKING:
    from streamgp.job.pipeline import Pipeline, Waits

MODEL = "model"  # in a file


def contents(run: Pipeline) -> snapshot.Contents:
    """What a snapshot of a run has."""
    settings, parts = snapshot.encoded(run.request.settings)
    models, states = snapshot.nested({MODEL: snapshot.contents(run.stream)})
    encoder, tickets = run.encoder, run.tickets
    header = {
        "holds": "a run over rows of a table",
        "run": {
            "schema": run.schema.to_dict(),
            "model": run.request.model,
            "settings": settings,
            "lags": run.lags,
            "horizon": run.horizon,
            "gaps": encoder.gaps,
            "joined": [list(pair) for pair in encoder.joined],
            "strangers": encoder.strangers,
            "rows": run.rows,
            "position": list(run.position),
            "about": run.extra,
            "late": None if tickets is None else _described(tickets, run.late),
            "models": models,
        },
    }
    own = {"last": encoder.last} | {name: array for one in run.kept for name, array in one.arrays().items()}
    if tickets is not None:
        rows = [np.append(number, said) for number, said in tickets.rows.values()]
        own["waiting"] = np.array(rows).reshape(len(rows), 1 + run.yardsticks.none.shape[1])
    return header, own | parts | states


def request_of(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> tuple[Schema, str, dict[str, Any], int, int]:
    """What a saved run was asked for."""
    if "run" not in header:
        raise snapshot.SnapshotError(
            f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
            "or start a new run"
        )
    saved = header["run"]
    settings = snapshot.decoded(saved["settings"], tensors, {})
    return Schema.from_dict(saved["schema"]), saved["model"], settings, saved["lags"], saved["horizon"]


def go_on(run: Pipeline, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Let a run that was just built go on where the saved one stood."""
    run.rows = whole("rows", saved["rows"], at_least=0)
    run.position, run.extra = Position(*saved["position"]), saved["about"]
    encoder = run.encoder
    encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
    encoder.joined = [(str(column), str(level)) for column, level in saved["joined"]]
    encoder.strangers = {name: whole("strangers", count) for name, count in saved["strangers"].items()}
    if len(encoder.joined) > run.schema.spare:
        raise snapshot.SnapshotError(f"the snapshot has more new levels than spare inputs: {encoder.joined}")
    refuse_unlike({"last": tensors["last"]}, {"last": encoder.last})
    encoder.last[:] = tensors["last"]
    for one in run.kept:
        one.restore(tensors)
    stream: Any = model_of(*snapshot.part(MODEL, saved["models"], tensors))
    if repr(stream) != repr(run.stream) or stream._shape != run.stream._shape:
        raise snapshot.SnapshotError(
            f"the snapshot's model is not the one that its settings say, {run.stream!r}: it is {stream!r}"
        )
    run.stream = stream
    if run.tickets is not None:
        _restore_tickets(run.tickets, saved["late"], tensors["waiting"], stream.pending)


def _described(tickets: Tickets[Waits], counts: dict[str, int] | None) -> dict[str, Any]:
    """Tickets, oldest first; what their rows keep is in an array."""
    return {"waiting": list(tickets.rows), "closed": list(tickets.closed.items()), "counts": counts}


def _restore_tickets(tickets: Tickets[Waits], saved: dict[str, Any], rows: np.ndarray, pending: int) -> None:
    names = [str(name) for name in saved["waiting"]]
    if not len(set(names)) == len(rows) == pending:
        raise snapshot.SnapshotError(
            "the snapshot does not name all rows that wait for their targets: resume it with the version that "
            "saved it, or start a new run"
        )
    waits = ((whole("row", int(row[0]), at_least=0), row[1:].copy()) for row in rows)
    tickets.rows = dict(zip(names, waits, strict=True))
    tickets.closed = {str(name): bool(resolved) for name, resolved in saved["closed"]}
    tickets.resolved, tickets.expired, tickets.ignored = (
        whole(name, saved["counts"][name], at_least=0) for name in ("learned", "expired", "ignored")
    )

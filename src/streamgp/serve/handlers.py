"""Handlers: what the server does with each kind of request, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import math
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from streamgp.serve import events, forecasts, history, lines
from streamgp.serve.hosted import KINDS, Hosted
from streamgp.serve.learner import Learner
from streamgp.serve.messages import (
    LONGEST_KEY,
    TARGETS,
    Error,
    FleetDetail,
    FleetList,
    FleetSettings,
    ForecastAnswer,
    ForecastQuery,
    Healthz,
    HistoryAnswer,
    HistoryQuery,
    LinesQuery,
    MetricsQuery,
    PrecisionQuery,
    PredictAnswer,
    RefusedError,
    Row,
    RowsAnswer,
    SensorList,
    SensorQuery,
    StreamBrief,
    StreamDetail,
    StreamList,
    StreamSettings,
    Target,
    TargetsAnswer,
    WriteError,
)
from streamgp.serve.metrics import MEDIA_TYPE, Metrics
from streamgp.serve.ops import NO_POINTS, Note, Op
from streamgp.serve.routes import F, S, answer, asked, both, route
from streamgp.serve.rows import JSON, LINES, MOST_ROWS, checked, decoded, media_type, read_rows
from streamgp.serve.service import Service, check_name, new_tag
from streamgp.settings import FloatArray
from streamgp.version import __version__

LARGE = 1 << 16  # bytes of a body that is decoded in a thread, so that other requests do not wait
COMPILING = "compiling"  # the status of a server that is not ready yet
LOOKED_AT = 20  # streams that a list has renewed
PATIENCE = 0.3  # seconds that a reader waits for a busy stream before it gets the last view
SNAPSHOT = "application/octet-stream"
PAGE = Path(__file__).parent / "page"
PAGE_FILES = {
    "index.html": "text/html",
    "style.css": "text/css",
    "page.js": "text/javascript",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
    "icon.svg": "image/svg+xml",
}
CREATED = "201; 200 if it exists with the same settings, 409 with others"
LEARNED = "Predict each row, then learn it if it has a target"
LATER = "Predict rows whose targets may come later; nothing is learned"
TICKETS = "Bring targets of predicted rows by their tickets, in any order"


# Streams and fleets.


@route("GET", "/v1/streams", "read", "List the streams")
async def list_streams(service: Service) -> StreamList:
    return StreamList([_brief(one.detail) for one in _listed(service, "streams")])


def _listed(service: Service, kind: str) -> list[Hosted]:
    """All of a kind; some of which more is known than is told are looked at for whoever asks next."""
    found = service.of_kind(kind)
    for one in [one for one in found if one.stale and not one.waiting][:LOOKED_AT]:
        with contextlib.suppress(RefusedError):
            one.call(one.look)
    return found


def _brief(found: StreamDetail) -> StreamBrief:
    settings = found.settings
    return StreamBrief(
        found.name,
        settings.target,
        settings.model,
        found.state,
        found.rows,
        found.scores.rmse,
        found.scores.coverage,
        settings.level,
        found.doing,
        found.health.alarms,
        found.recent,
    )


@route("GET", "/v1/fleets", "read", "List the fleets")
async def list_fleets(service: Service) -> FleetList:
    return FleetList([one.detail for one in _listed(service, "fleets")])


MADE = (200, 201)
SETTINGS, DETAIL = (StreamSettings, FleetSettings), (StreamDetail, FleetDetail)


@both("PUT", "", "write", f"Create it: {CREATED}", takes=SETTINGS, gives=DETAIL, statuses=MADE)
async def put_stream(request: Request, service: Service, kind: str) -> Response:
    media_type(request.headers.get("content-type"))
    settings = decoded(await request.body(), KINDS[kind].settings.decode)
    one, new = await asyncio.to_thread(service.create, request.path_params["name"], settings)
    if new:
        await one.call(one.look)
    return answer(await _detail(service, one), 201 if new else 200)


@both("GET", "", "read", "Settings, models, scores and health", gives=DETAIL)
async def get_stream(service: Service, stream: Hosted) -> Any:
    return await _detail(service, stream)


async def _detail(service: Service, one: Hosted) -> Any:
    """What is known of a stream or a fleet, looked up anew unless it is too busy."""
    if one.stale or one.detail.state == "loading":
        with contextlib.suppress(TimeoutError, RefusedError):
            await asyncio.wait_for(asyncio.shield(one.call(one.look)), PATIENCE)
    if one.kind == "fleets":
        return one.detail
    # The journal also knows of changes that models noticed which have been replaced since.
    noted, detail = await asyncio.to_thread(service.journal.drift, one.id), copy.copy(one.detail)
    known = {(event.row, event.event): event for event in [*noted, *detail.drift]}
    detail.drift = [event for _, event in sorted(known.items())]
    return detail


@both("DELETE", "", "admin", "Remove it and all its data", statuses=(204,))
async def delete_stream(service: Service, stream: Hosted) -> Response:
    await stream.call(stream.remove, blind=True)
    service.forget(stream)
    return Response(status_code=204)


@route("GET", f"{F}/ids", "read", "Ids with their newest row, scores and alarms")
async def get_ids(stream: Hosted, query: SensorQuery) -> SensorList:
    return await stream.call(lambda: stream.learner().sensors(query))


# Rows.


@both("POST", "/rows", "write", LEARNED, takes=list[Row], gives=RowsAnswer, keyed=True)
async def post_rows(request: Request, stream: Hosted, query: PrecisionQuery) -> bytes:
    return await _post(request, stream, "rows", query.precision)


@both("POST", "/predict", "write", LATER, takes=list[Row], gives=PredictAnswer, keyed=True)
async def post_predict(request: Request, stream: Hosted, query: PrecisionQuery) -> bytes:
    return await _post(request, stream, "predict", query.precision)


@both("POST", "/targets", "write", TICKETS, takes=list[Target], gives=TargetsAnswer, keyed=True)
async def post_targets(request: Request, stream: Hosted) -> bytes:
    return await _post(request, stream, "targets")


async def _post(request: Request, stream: Hosted, kind: str, unit: str = "") -> bytes:
    """The answer to a request that changes a stream."""
    key, media = request.headers.get("idempotency-key", ""), media_type(request.headers.get("content-type"))
    if len(key) > LONGEST_KEY:
        raise RefusedError("bad_key", f"an Idempotency-Key has at most {LONGEST_KEY} characters; got {len(key)}")
    body = await request.body()
    if kind != "targets":
        read = partial(read_rows, body, media, unit)
        op = Op(kind, rows=await asyncio.to_thread(read) if len(body) > LARGE else read())
    elif media == "json":
        op = Op(kind, targets=_targets(body))
    else:
        raise RefusedError("unsupported_media_type", f"targets are sent as {JSON}", f"add: Content-Type: {JSON}")
    digest = hashlib.sha256(b"\0".join([kind.encode(), media.encode(), body])).digest() if key else b""
    return await stream.ask(op, key, digest)


def _targets(body: bytes) -> list[Target]:
    targets = decoded(body, TARGETS.decode)
    if not targets:
        raise RefusedError("no_targets", "the body has no targets", 'send [{"ticket": "...", "value": 1.5}]')
    if len(targets) > MOST_ROWS:
        raise RefusedError("too_many_rows", f"the body has {len(targets)} targets; the limit is {MOST_ROWS}")
    return targets


INFLUX = "Rows as InfluxDB line protocol, for InfluxDB's clients; each series is a stream"


@route("POST", "/api/v2/write", "write", INFLUX, takes=LINES, statuses=(204,), query=PrecisionQuery)
async def post_lines(request: Request, service: Service) -> Response:
    """Write requests of InfluxDB's clients: each series is a stream."""
    try:
        body = lines.unpacked(await request.body(), request.headers.get("content-encoding", ""), service.limits.body)
        read = partial(lines.by_series, body, asked(request, PrecisionQuery).precision)
        found = await asyncio.to_thread(read) if len(body) > LARGE else read()
        for series in found:
            checked(series.rows)
        new = lines.new_streams(found, service.streams)
        full = service.full(len(new))  # then no new stream is made, and the lines of the others are learned
        waits = [_learned(service, one) for one in found if full is None or one.stream not in new]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        problems = [one for one in (*outcomes, full) if isinstance(one, BaseException)]
        for problem in problems:
            if not isinstance(problem, RefusedError):
                raise problem
        if problems:  # one after which the client sends all again counts most: what was learned is known again
            raise max((one for one in problems if isinstance(one, RefusedError)), key=lambda one: one.status)
    except RefusedError as problem:
        message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        told = WriteError(Error(problem.code, problem.message, problem.hint), problem.code, message)
        response = answer(told, problem.status)
        if problem.retry_after is not None:
            response.headers["Retry-After"] = str(problem.retry_after)
        return response
    return Response(status_code=204)


async def _learned(service: Service, series: lines.Series) -> None:
    if service.streams.get(series.stream) is None and series.settings is not None:
        stream, _ = await asyncio.to_thread(service.create, series.stream, series.settings)
    else:
        stream = service.stream(series.stream)
    await stream.ask(Op("rows", rows=series.rows), series.key, series.key.encode())


# What has been, and what will be.


@both("GET", "/history", "read", "The last rows with their predictions, thinned out so that extremes survive")
async def get_history(service: Service, stream: Hosted, query: HistoryQuery) -> HistoryAnswer:
    if stream.kind == "fleets":
        return await stream.call(lambda: stream.learner().history(query))

    def read() -> HistoryAnswer:
        points, drift = service.journal.points(stream.id, query.rows), service.journal.drift(stream.id)
        return history.answered(points, query.rows, query.points, drift)

    return await asyncio.to_thread(read)


@route("GET", f"{S}/forecast", "read", "The targets of the next rows, as quantiles")
async def get_forecast(service: Service, stream: Hosted, query: ForecastQuery) -> ForecastAnswer:
    forecasts.levels_of(query)  # or it is refused at once
    found = await stream.call(lambda: forecasts.own(stream.learner(), query))
    if isinstance(found, ForecastAnswer):
        return found
    return await asyncio.wrap_future(service.slow.submit(stream.forecasting.over_time, found, query))


OUT = "The last rows with their predictions, and alarms, as InfluxDB line protocol"


@route("GET", f"{S}/lines", "read", OUT, gives="text/plain")
async def get_lines(service: Service, stream: Hosted, query: LinesQuery) -> Response:
    """The last rows as line protocol."""
    past = await stream.call(lambda: list(stream.learner().past)[-query.rows :])
    dated = [(int(row), moment) for row, moment, _ in past if math.isfinite(moment)]
    if not dated:
        without = f"rows of {stream.name} have no times, which lines need"
        raise RefusedError("no_times", without, "send a time column with the rows")

    def read() -> str:
        points, drift = service.journal.points(stream.id, query.rows), service.journal.drift(stream.id)
        return lines.out(stream.name, dated, points, drift)

    return Response(await asyncio.to_thread(read), media_type="text/plain; charset=utf-8")


EVENTS = "Server-sent events: rows, drift, model, health; resumes by Last-Event-ID"


@both("GET", "/events", "read", EVENTS, gives="text/event-stream")
async def get_events(request: Request, service: Service, stream: Hosted) -> Response:
    if len(stream.hub.listeners) >= events.MOST_LISTENERS:
        raise RefusedError("too_many_listeners", f"{events.MOST_LISTENERS} clients listen already", retry_after=10)
    last = request.headers.get("last-event-id", "")
    # A stream that was made anew counts from the beginning.
    after = min(int(last), stream.seq) if last.isdecimal() and len(last) <= 18 else stream.seq

    def read(after: int) -> events.Records:
        found: dict[int, tuple[FloatArray, list[Note]]] = {
            seq: (points, []) for seq, points in service.journal.points_after(stream.id, after, events.RESUMED)
        }
        for seq, kind, row, text in service.journal.notes(stream.id, after):
            found.setdefault(seq, (NO_POINTS, []))[1].append(Note(kind, row, text))
        return [(seq, events.frames(seq, points, notes)) for seq, (points, notes) in sorted(found.items())]

    body = () if request.method == "HEAD" else stream.hub.follow(after, read, lambda: stream.detail.health)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(body, media_type="text/event-stream", headers=headers)


# Snapshots.


@both("GET", "/snapshot", "read", "The stream as a file of streamgp run --save, a fleet of Fleet.save", gives=SNAPSHOT)
async def get_snapshot(stream: Hosted) -> Response:
    data = await stream.call(lambda: stream.learner().saved())
    headers = {"Content-Disposition": f'attachment; filename="{stream.name}.sgp"'}
    return Response(data, media_type=SNAPSHOT, headers=headers)


MOVED = "Let a stream go on from a file of streamgp run --save; creates it if need be"


@route("PUT", f"{S}/snapshot", "admin", MOVED, takes=SNAPSHOT, gives=StreamDetail, statuses=MADE)
async def put_snapshot(request: Request, service: Service) -> Response:
    name = request.path_params["name"]
    check_name(name)
    async with service.uploads:  # a large one takes several times its size
        # Apart from the threads that other requests and streams need: it may take long.
        loaded = service.slow.submit(Learner.of_run, b"".join([part async for part in request.stream()]), new_tag())
        learner = await asyncio.wrap_future(loaded)
    stream = await asyncio.to_thread(service.create_from, name, learner)
    if stream is not None:
        await stream.call(stream.look)
        return answer(await _detail(service, stream), 201)
    there = service.stream(name)
    await there.call(lambda: there.replace(learner), blind=True)
    return answer(await _detail(service, there))


# The server.


@route("GET", "/metrics", "read", "Metrics for Prometheus: totals, or those of some streams", gives="text/plain")
async def get_metrics(service: Service, metrics: Metrics, query: MetricsQuery) -> Response:
    streams: list[Hosted] | None = None
    if query.streams == "*":
        streams = service.of_kind("streams")
    elif query.streams:
        streams = [service.stream(name) for name in query.streams.split(",")]
    return Response(await asyncio.to_thread(metrics.text, streams), media_type=MEDIA_TYPE)


HEALTH: dict[str, Any] = {"gives": Healthz, "statuses": (200, 503)}


@route("GET", "/healthz", "", "Whether the server can do its work", **HEALTH)
async def get_healthz(service: Service) -> Response:
    return _health(service, fine=("ok", COMPILING))  # a server that compiles must not be started anew


@route("GET", "/readyz", "", "Whether everything is compiled, so that rows are answered soon", **HEALTH)
async def get_readyz(service: Service) -> Response:
    return _health(service, fine=("ok",))


def _health(service: Service, fine: tuple[str, ...]) -> Response:
    status = COMPILING if service.compiling and service.status() == "ok" else service.status()
    return answer(Healthz(status, __version__, len(service.streams)), 200 if status in fine else 503)


@route("GET", "/openapi.json", "", "This document")
async def get_openapi(document: dict) -> dict:
    return document


async def get_page(request: Request) -> Response:
    name = request.path_params.get("file", "index.html")
    if name not in PAGE_FILES:
        raise RefusedError("not_found", "there is no such page", "the page is at /")
    return FileResponse(PAGE / name, media_type=PAGE_FILES[name], headers={"Cache-Control": "no-cache"})

"""Handlers: what the server does with each kind of request, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from streamgp import defaults
from streamgp.serve import events, forecasts, history, lines, metrics
from streamgp.serve.hosted import Hosted
from streamgp.serve.learner import Learner, Note, Op
from streamgp.serve.messages import (
    SETTINGS,
    TARGETS,
    Error,
    Healthz,
    RefusedError,
    StreamBrief,
    StreamDetail,
    StreamList,
    Target,
    WriteError,
    encode,
)
from streamgp.serve.rows import JSON, MOST_ROWS, checked, decoded, media_type, read_rows
from streamgp.serve.service import Service, check_name, new_tag
from streamgp.settings import FloatArray
from streamgp.version import __version__

MOST_HISTORY, MOST_POINTS = 10_000_000, 5000
LARGE = 1 << 16  # bytes of a body that is decoded in a thread, so that other requests do not wait
LONGEST_KEY = 200  # characters
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

T = TypeVar("T")


class Parameter(NamedTuple):
    """A parameter in the query.

    Args:
        name: of it.
        default: without it.
        least: smallest value.
        most: largest value.
    """

    name: str
    default: int
    least: int
    most: int


class TextParameter(NamedTuple):
    """A parameter in the query that is text.

    Args:
        name: of it.
        default: without it.
        meaning: for people.
    """

    name: str
    default: str
    meaning: str


PRECISION = TextParameter("precision", "ns", "unit of the timestamps of line protocol: ns, us, ms or s")


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _stream(request: Request) -> Hosted:
    return _service(request).stream(request.path_params["name"])


def answer(message: Any, status: int = 200) -> Response:
    """A JSON answer."""
    data = message if isinstance(message, bytes) else encode(message)
    return Response(data, status, media_type=JSON)


def _number(request: Request, parameter: Parameter) -> int:
    text = request.query_params.get(parameter.name, str(parameter.default))
    try:
        value = int(text) if len(text) < 20 else -1
    except ValueError:
        value = parameter.least - 1
    if not parameter.least <= value <= parameter.most:
        raise RefusedError(
            422,
            "bad_parameter",
            f"{parameter.name} must be a whole number from {parameter.least} to {parameter.most}; got {text[:40]!r}",
        )
    return value


# Streams.


async def list_streams(request: Request) -> Response:
    streams = [stream for _, stream in sorted(_service(request).streams.items()) if not stream.gone]
    stale = [stream for stream in streams if stream.view.stale and not stream.waiting]
    for stream in stale[:LOOKED_AT]:  # for whoever asks next
        with contextlib.suppress(RefusedError):
            stream.call(stream.look)
    return answer(StreamList(list(map(_brief, streams))))


def _brief(stream: Hosted) -> StreamBrief:
    view, settings = stream.view, stream.settings
    scores = view.rest.get("scores")
    rmse, coverage = (None, None) if scores is None else (scores.rmse, scores.coverage)
    return StreamBrief(
        stream.name,
        settings.target,
        settings.model,
        view.state,
        view.rows,
        rmse,
        coverage,
        settings.level,
        view.doing,
        0 if (health := view.rest.get("health")) is None else health.alarms,
        list(stream.recent),
    )


async def put_stream(request: Request) -> Response:
    media_type(request.headers.get("content-type"))
    settings = decoded(await request.body(), SETTINGS)
    stream, new = await asyncio.to_thread(_service(request).create, request.path_params["name"], settings)
    if new:
        await stream.call(stream.look)
    return answer(await _detail(_service(request), stream), 201 if new else 200)


async def get_stream(request: Request) -> Response:
    return answer(await _detail(_service(request), _stream(request)))


async def _detail(service: Service, stream: Hosted) -> StreamDetail:
    """What is known of a stream, looked up anew unless it is too busy."""
    if stream.view.stale or stream.view.state == "loading":
        with contextlib.suppress(TimeoutError, RefusedError):
            await asyncio.wait_for(asyncio.shield(stream.call(stream.look)), PATIENCE)
    detail = stream.view.detail(stream.name, stream.settings)
    # The journal also knows of changes that models noticed which have been replaced since.
    noted = await asyncio.to_thread(service.journal.drift, stream.id)
    known = {(event.row, event.event): event for event in [*noted, *detail.drift]}
    detail.drift = [event for _, event in sorted(known.items())]
    return detail


async def delete_stream(request: Request) -> Response:
    stream = _stream(request)
    await stream.call(stream.remove, blind=True)
    _service(request).forget(stream)
    return Response(status_code=204)


# Rows.


async def post_rows(request: Request) -> Response:
    return await _post(request, "rows")


async def post_predict(request: Request) -> Response:
    return await _post(request, "predict")


async def post_targets(request: Request) -> Response:
    return await _post(request, "targets")


async def _post(request: Request, kind: str) -> Response:
    stream, key = _stream(request), key_of(request.headers)
    media = media_type(request.headers.get("content-type"))
    body = await request.body()
    if kind == "targets":
        if media != "json":
            raise RefusedError(
                415, "unsupported_media_type", f"targets are sent as {JSON}", f"add: Content-Type: {JSON}"
            )
        op = Op(kind, targets=_targets(body))
    else:
        large = len(body) > LARGE
        unit = request.query_params.get(PRECISION.name, PRECISION.default)
        read = partial(read_rows, body, media, unit)
        op = Op(kind, rows=await asyncio.to_thread(read) if large else read())
    return answer(await stream.ask(op, key, digest_of(kind, media, body) if key else b""))


def key_of(headers: Mapping[str, str]) -> str:
    """The idempotency key of a request; "": it has none."""
    key = headers.get("idempotency-key", "")
    if len(key) > LONGEST_KEY:
        raise RefusedError(422, "bad_key", f"an Idempotency-Key has at most {LONGEST_KEY} characters; got {len(key)}")
    return key


def digest_of(kind: str, media: str, body: bytes) -> bytes:
    """By which a repeated request is compared with the first."""
    return hashlib.sha256(b"\0".join([kind.encode(), media.encode(), body])).digest()


def _targets(body: bytes) -> list[Target]:
    targets = decoded(body, TARGETS)
    if not targets:
        raise RefusedError(422, "no_targets", "the body has no targets", 'send [{"ticket": "...", "value": 1.5}]')
    if len(targets) > MOST_ROWS:
        raise RefusedError(413, "too_many_rows", f"the body has {len(targets)} targets; the limit is {MOST_ROWS}")
    return targets


async def post_lines(request: Request) -> Response:
    """Write requests of InfluxDB's clients: each series is a stream."""
    service = _service(request)
    try:
        body = lines.unpacked(await request.body(), request.headers.get("content-encoding", ""), service.limits.body)
        unit = request.query_params.get(PRECISION.name, PRECISION.default)
        read = partial(lines.by_series, body, unit)
        found = await asyncio.to_thread(read) if len(body) > LARGE else read()
        for series in found:
            checked(series.rows)
        new = {series.stream for series in found if service.streams.get(series.stream) is None}
        for series in found:
            if series.settings is None and series.stream in new:
                raise lines.no_stream(series)
        if len(new) > lines.MOST_NEW:
            raise lines.too_many(len(new))
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
        error = Error(problem.code, problem.message, problem.hint)
        message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        response = answer(WriteError(error, problem.code, message), problem.status)
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


# What has been.

ROWS = Parameter("rows", 2000, 1, MOST_HISTORY)
POINTS = Parameter("points", 500, 2, MOST_POINTS)


async def get_history(request: Request) -> Response:
    stream, journal = _stream(request), _service(request).journal
    rows, points = _number(request, ROWS), _number(request, POINTS)

    def read() -> bytes:
        return encode(history.answered(journal.points(stream.id, rows), rows, points, journal.drift(stream.id)))

    return answer(await asyncio.to_thread(read))


AHEAD = TextParameter("ahead", "24", "rows ahead, or a length of time such as 24h where rows have times")
LEVELS = ",".join(map(str, defaults.QUANTILES))
QUANTILES = TextParameter("quantiles", LEVELS, "levels above 0 and below 1, with commas between them")


async def get_forecast(request: Request) -> Response:
    stream, slow = _stream(request), _service(request).slow
    usual = {parameter.name: parameter.default for parameter in (AHEAD, QUANTILES)}
    asked = forecasts.Asked.of(request.query_params, usual)
    found = await stream.call(lambda: stream.forecast(asked))
    if isinstance(found, forecasts.Series):
        found = await asyncio.wrap_future(slow.submit(forecasts.over_time, stream.forecasting, found, asked))
    return answer(found)


LAST = Parameter("rows", 100, 1, forecasts.KEPT)


async def get_lines(request: Request) -> Response:
    """The last rows as line protocol."""
    stream, journal, rows = _stream(request), _service(request).journal, _number(request, LAST)
    dated = await stream.call(lambda: stream.dated(rows))
    if not dated:
        raise RefusedError(
            409,
            "no_times",
            f"rows of {stream.name} have no times, which lines need",
            "send a time column with the rows",
        )

    def read() -> str:
        return lines.out(stream.name, dated, journal.points(stream.id, rows), journal.drift(stream.id))

    return Response(await asyncio.to_thread(read), media_type="text/plain; charset=utf-8")


async def get_events(request: Request) -> Response:
    stream, journal = _stream(request), _service(request).journal
    if len(stream.hub.listeners) >= events.MOST_LISTENERS:
        raise RefusedError(429, "too_many_listeners", f"{events.MOST_LISTENERS} clients listen already", retry_after=10)
    last = request.headers.get("last-event-id", "")
    listener = events.Listener(asyncio.get_running_loop())

    def past() -> list[tuple[int, bytes]]:
        if not last.isdecimal() or len(last) > 18:
            return []
        found: dict[int, tuple[FloatArray, list[Note]]] = {
            seq: (points, []) for seq, points in journal.points_after(stream.id, int(last), events.RESUMED)
        }
        for seq, kind, row, text in journal.notes(stream.id, int(last)):
            found.setdefault(seq, (history.NO_POINTS, []))[1].append(Note(kind, row, text))
        return [(seq, events.frames(seq, points, notes)) for seq, (points, notes) in sorted(found.items())]

    async def body() -> AsyncIterator[bytes]:
        stream.hub.join(listener)  # before the past is read, so that nothing falls between
        try:
            yield b"retry: 2000\n\n"
            missed = await asyncio.to_thread(past)
            for _, data in missed:
                yield data
            async for data in listener.frames(missed[-1][0] if missed else -1):
                yield data
        finally:
            stream.hub.leave(listener)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    frames: Iterable[bytes] | AsyncIterable[bytes] = () if request.method == "HEAD" else body()
    return StreamingResponse(frames, media_type="text/event-stream", headers=headers)


# Snapshots.


async def get_snapshot(request: Request) -> Response:
    stream = _stream(request)
    data = await stream.call(stream.snapshot)
    headers = {"Content-Disposition": f'attachment; filename="{stream.name}.sgp"'}
    return Response(data, media_type=SNAPSHOT, headers=headers)


async def put_snapshot(request: Request) -> Response:
    service, name = _service(request), request.path_params["name"]
    check_name(name)
    async with service.uploads:  # a large one takes several times its size
        # Apart from the threads that other requests and streams need: it may take long.
        loaded = service.slow.submit(Learner.of_run, b"".join([part async for part in request.stream()]), new_tag())
        learner = await asyncio.wrap_future(loaded)
    stream = await asyncio.to_thread(service.create_from, name, learner)
    if stream is not None:
        status = 201
        await stream.call(stream.look)
    else:
        status, stream = 200, service.stream(name)
        replaced = stream
        await stream.call(lambda: replaced.replace(learner), blind=True)
    return answer(await _detail(service, stream), status)


# The server.


STREAMS = TextParameter(
    "streams", "", "names with commas between them, or * for all: their metrics, labelled, in place of totals"
)


async def get_metrics(request: Request) -> Response:
    asked, service = request.query_params.get(STREAMS.name, STREAMS.default), _service(request)
    names = sorted(service.streams) if asked == "*" else asked.split(",")
    streams = [service.stream(name) for name in names] if asked else None
    found = await asyncio.to_thread(request.app.state.metrics.text, streams)
    return Response(found, media_type=metrics.MEDIA_TYPE)


async def get_healthz(request: Request) -> Response:
    return await _health(request, fine=("ok", COMPILING))  # a server that compiles must not be started anew


async def get_readyz(request: Request) -> Response:
    return await _health(request, fine=("ok",))


async def _health(request: Request, fine: tuple[str, ...]) -> Response:
    service = _service(request)
    status = COMPILING if service.compiling and service.status() == "ok" else service.status()
    return answer(Healthz(status, __version__, len(service.streams)), 200 if status in fine else 503)


async def get_openapi(request: Request) -> Response:
    return answer(request.app.state.openapi)


async def get_page(request: Request) -> Response:
    name = request.path_params.get("file", "index.html")
    if name not in PAGE_FILES:
        raise RefusedError(404, "not_found", "there is no such page", "the page is at /")
    return FileResponse(PAGE / name, media_type=PAGE_FILES[name], headers={"Cache-Control": "no-cache"})

"""Routes: each with its scope, what it takes and what it answers; the application and the OpenAPI document use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from streamgp.serve.handlers import (
    AHEAD,
    LAST,
    POINTS,
    PRECISION,
    QUANTILES,
    ROWS,
    SNAPSHOT,
    STREAMS,
    Parameter,
    TextParameter,
    delete_stream,
    get_events,
    get_forecast,
    get_healthz,
    get_history,
    get_lines,
    get_metrics,
    get_openapi,
    get_page,
    get_readyz,
    get_snapshot,
    get_stream,
    list_streams,
    post_lines,
    post_predict,
    post_rows,
    post_targets,
    put_snapshot,
    put_stream,
)
from streamgp.serve.messages import (
    ForecastAnswer,
    Healthz,
    HistoryAnswer,
    PredictAnswer,
    Row,
    RowsAnswer,
    StreamDetail,
    StreamList,
    StreamSettings,
    Target,
    TargetsAnswer,
)
from streamgp.serve.rows import LINES

Endpoint = Callable[[Request], Awaitable[Response]]


class Described(NamedTuple):
    """A route.

    Args:
        method: of HTTP.
        path: with {name} for that of a stream.
        scope: that a token needs; "": none.
        endpoint: answers requests.
        summary: for people.
        takes: type of a JSON body, SNAPSHOT, or None.
        gives: type of the JSON answer, or a media type.
        statuses: of success.
        parameters: in the query.
        rows: whether the body may also be NDJSON, CSV or line protocol.
        keyed: whether it takes an Idempotency-Key.
    """

    method: str
    path: str
    scope: str
    endpoint: Endpoint
    summary: str
    takes: Any = None
    gives: Any = None
    statuses: tuple[int, ...] = (200,)
    parameters: tuple[Parameter | TextParameter, ...] = ()
    rows: bool = False
    keyed: bool = False


S = "/v1/streams/{name}"
ROUTES = (
    Described("GET", "/v1/streams", "read", list_streams, "List the streams", gives=StreamList),
    Described(
        "PUT",
        S,
        "write",
        put_stream,
        "Create a stream: 201; 200 if it exists with the same settings, 409 with others",
        takes=StreamSettings,
        gives=StreamDetail,
        statuses=(200, 201),
    ),
    Described("GET", S, "read", get_stream, "Settings, models, scores and health of a stream", gives=StreamDetail),
    Described("DELETE", S, "admin", delete_stream, "Remove a stream and all its data", statuses=(204,)),
    Described(
        "POST",
        f"{S}/rows",
        "write",
        post_rows,
        "Predict each row, then learn it if it has a target",
        takes=list[Row],
        gives=RowsAnswer,
        parameters=(PRECISION,),
        rows=True,
        keyed=True,
    ),
    Described(
        "POST",
        f"{S}/predict",
        "write",
        post_predict,
        "Predict rows whose targets may come later; nothing is learned",
        takes=list[Row],
        gives=PredictAnswer,
        parameters=(PRECISION,),
        rows=True,
        keyed=True,
    ),
    Described(
        "POST",
        f"{S}/targets",
        "write",
        post_targets,
        "Bring targets of predicted rows by their tickets, in any order",
        takes=list[Target],
        gives=TargetsAnswer,
        keyed=True,
    ),
    Described(
        "GET",
        f"{S}/history",
        "read",
        get_history,
        "The last rows with their predictions, thinned out so that extremes survive",
        gives=HistoryAnswer,
        parameters=(ROWS, POINTS),
    ),
    Described(
        "GET",
        f"{S}/forecast",
        "read",
        get_forecast,
        "The targets of the next rows, as quantiles",
        gives=ForecastAnswer,
        parameters=(AHEAD, QUANTILES),
    ),
    Described(
        "GET",
        f"{S}/lines",
        "read",
        get_lines,
        "The last rows with their predictions, and alarms, as InfluxDB line protocol",
        gives="text/plain",
        parameters=(LAST,),
    ),
    Described(
        "POST",
        "/api/v2/write",
        "write",
        post_lines,
        "Rows as InfluxDB line protocol, for InfluxDB's clients; each series is a stream",
        takes=LINES,
        statuses=(204,),
        parameters=(PRECISION,),
    ),
    Described(
        "GET",
        f"{S}/events",
        "read",
        get_events,
        "Server-sent events: rows, drift, model, health; resumes by Last-Event-ID",
        gives="text/event-stream",
    ),
    Described(
        "GET", f"{S}/snapshot", "read", get_snapshot, "The stream as a file of streamgp run --save", gives=SNAPSHOT
    ),
    Described(
        "PUT",
        f"{S}/snapshot",
        "admin",
        put_snapshot,
        "Let a stream go on from a file of streamgp run --save; creates it if need be",
        takes=SNAPSHOT,
        gives=StreamDetail,
        statuses=(200, 201),
    ),
    Described(
        "GET",
        "/metrics",
        "read",
        get_metrics,
        "Metrics for Prometheus: totals, or those of some streams",
        gives="text/plain",
        parameters=(STREAMS,),
    ),
    Described("GET", "/healthz", "", get_healthz, "Whether the server can do its work", gives=Healthz),
    Described(
        "GET",
        "/readyz",
        "",
        get_readyz,
        "Whether everything is compiled, so that rows are answered soon",
        gives=Healthz,
    ),
    Described("GET", "/openapi.json", "", get_openapi, "This document", gives=dict),
)
PAGES = (("/", get_page), ("/page/{file}", get_page))

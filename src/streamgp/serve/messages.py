"""Messages: what requests and answers hold; the OpenAPI document and the checks of bodies follow from these types."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from streamgp import defaults
from streamgp.job.pipeline import MOST_AHEAD
from streamgp.job.request import MOST_INPUTS, RunSettings
from streamgp.tables.declared import MOST_DECLARED

Text = Annotated[str, Meta(max_length=1000)]
Scalar = float | int | Text | bool | None
Row = Annotated[dict[Text, Scalar], Meta(max_length=1000)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
LONGEST_SETTING = 1000  # characters
LONGEST_KEY = 200  # of an Idempotency-Key
KEPT = 2000  # rows of a stream that forecasts are made of


Short = Annotated[str, Meta(max_length=20)]
Name = Annotated[str, Meta(min_length=1, max_length=100)]  # of a model, or a ticket
Column = Annotated[str, Meta(min_length=1, max_length=200)]
Level = Annotated[float, Meta(gt=0, lt=1)]
Lags = Annotated[int, Meta(ge=0, le=MOST_INPUTS)]
Setting = float | int | Annotated[str, Meta(max_length=LONGEST_SETTING)] | bool | None
Settings = dict[Annotated[str, Meta(max_length=100)], Setting]


# The status of HTTP of each code of an error, and what to do where it is not said at the place.
CODES = {
    400: "bad_encoding invalid_json",
    401: "unauthorized",
    403: "forbidden foreign_machine foreign_site",
    404: "no_such_fleet no_such_id no_such_stream not_found",
    405: "method_not_allowed",
    409: "cannot_wait exists fleet_full has_horizon no_forecast no_rows_yet no_times too_few_rows too_many_streams",
    413: "body_too_long too_many_rows too_many_series",
    415: "unsupported_encoding unsupported_media_type",
    422: "bad_key bad_line bad_name bad_parameter bad_row bad_settings bad_snapshot invalid_body key_reused no_rows "
    "no_target no_targets several_measurements too_large",
    429: "busy too_many_listeners",
    500: "internal",
    503: "compiling damaged disk_error failed read_only stopping",
    507: "disk_full",
}
STATUS = {code: status for status, codes in CODES.items() for code in codes.split()}
DESCRIBED = "GET /openapi.json describes it"
HINTS = {
    "bad_line": "nothing of this request was learned; fix it, resend",
    "bad_parameter": DESCRIBED,
    "bad_row": "nothing of this request was learned; fix it, resend",
    "bad_settings": DESCRIBED,
    "internal": "see the server's log",
    "invalid_body": DESCRIBED,
    "no_rows_yet": "post rows",
}


class RefusedError(Exception):
    """A request that is refused, and nothing has changed.

    Args:
        code: for programs, one of CODES.
        message: what happened.
        hint: what to do; "": what HINTS say.
        retry_after: seconds after which the same request may succeed.
    """

    def __init__(self, code: str, message: str, hint: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = STATUS[code], code, message, retry_after
        self.hint = hint or HINTS.get(code, "")


@contextlib.contextmanager
def refusing(code: str, kind: type[Exception] = ValueError, hint: str = "") -> Iterator[None]:
    """Refuse a request that leads to an error of this kind."""
    try:
        yield
    except RefusedError:
        raise
    except kind as error:
        raise RefusedError(code, str(error), hint) from None


class Error(Struct):
    """What went wrong, for programs (code) and for people."""

    code: str
    message: str
    hint: str


class ErrorAnswer(Struct):
    """The body of every answer with a status of 400 and above."""

    error: Error


class ColumnSchema(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a column is; all fields may be left out.

    ``kind`` is "number", "category", "time" or "ignore"; "": the first rows tell. ``levels`` are all of a category,
    ``unit`` is that of its numbers, ``missing`` are values that stand for missing ones.
    """

    kind: Short = ""
    levels: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MOST_DECLARED)] = []
    unit: Short = ""
    missing: Annotated[list[float | Annotated[str, Meta(max_length=200)]], Meta(max_length=MOST_DECLARED)] = []


class WriteError(Struct):
    """The same where InfluxDB's clients read it."""

    error: Error
    code: str
    message: str


class StreamSettings(Struct, forbid_unknown_fields=True):
    """How a stream is predicted; fixed when it is created.

    ``inputs`` null: all columns that can be. ``lags`` null: 0, or a few where they help. ``settings`` are those of
    ``streamgp run --set``. ``schema`` says what columns are, by name: a kind, or all of ColumnSchema; null: the first
    rows tell.
    """

    target: Column
    inputs: list[Column] | None = None
    lags: Lags | None = None
    horizon: Annotated[int, Meta(ge=0, le=MOST_AHEAD)] = 0
    model: Name = "auto"
    settings: Settings = {}
    level: Level = RunSettings().level
    schema: dict[Column, Short | ColumnSchema] | None = None


class PredictedRow(Struct, omit_defaults=True):
    """A prediction of a row, made before its target was known; null where there is nothing to predict from yet.

    With a horizon, ``row`` is the number of the row ahead that is predicted; in a fleet it counts those of its ``id``.
    There ``alarm`` is "spike", "level" or "relation" where the row is abnormal.
    """

    row: int
    mean: float | None
    lower: float | None
    upper: float | None
    std: float | None
    id: str = ""
    alarm: str = ""


class RowsAnswer(Struct):
    """Predictions in the order of the rows; ``seen`` counts all rows so far."""

    rows: list[PredictedRow]
    seen: int


class TicketRow(Struct, omit_defaults=True):
    """A prediction of a row whose target may come later, under this ticket."""

    ticket: str
    mean: float | None
    lower: float | None
    upper: float | None
    std: float | None
    id: str = ""


class PredictAnswer(Struct):
    """Predictions in the order of the rows; nothing was learned."""

    rows: list[TicketRow]
    seen: int


class Target(Struct, forbid_unknown_fields=True):
    """The target of a row that was predicted; ``time`` only where models forget by time."""

    ticket: Name
    value: Annotated[float, Meta(gt=-1e300, lt=1e300)]
    time: Annotated[str, Meta(max_length=100)] | None = None


class TargetResult(Struct):
    """What became of a target: "learned", "known" (it had come before), "expired" or "unknown"."""

    ticket: str
    status: str


class TargetsAnswer(Struct):
    """What became of each target; ``seen`` counts all rows so far."""

    targets: list[TargetResult]
    learned: int
    seen: int


class DriftEvent(Struct):
    """Where the stream changed, and what came of it; ``kind`` is "drift" or "alarm"."""

    row: int
    event: str
    kind: str = "drift"


class Scores(Struct):
    """Scores of all predictions whose targets have come; null before the first.

    ``mae`` is the mean absolute error that the verdict tells: after the first 500 rows, as soon as there are others.
    """

    rows: int = 0
    rmse: float | None = None
    rmse_previous_value: float | None = None
    coverage: float | None = None
    mean_width: float | None = None
    mean_log_density: float | None = None
    mae: float | None = None


class Health(Struct):
    """Numerical repairs, models that have diverged and so have no weight, targets that looked like fill values, and
    alarms, where the setting ``alarms`` asks for them."""

    repairs: int = 0
    diverged: list[str] = []
    fill_values: int = 0
    alarms: int = 0


class Tickets(Struct):
    """Rows that wait for their targets, and how many expired because too many waited."""

    waiting: int = 0
    expired: int = 0


class StreamBrief(Struct):
    """A stream in a list.

    ``state`` is "new" (no rows), "learning" (models are still being chosen), "ready", "loading" or "failed". ``recent``
    are the last targets; null where one is missing.
    """

    name: str
    target: str
    model: str
    state: str
    rows: int
    rmse: float | None
    coverage: float | None
    level: float
    doing: str
    alarms: int
    recent: list[float]


class StreamList(Struct):
    """All streams by name."""

    streams: list[StreamBrief]


class StreamDetail(Struct):
    """All that is known of a stream.

    ``verdict`` says in words how good it is and what changed. ``models`` are weights by name, ``relevance`` that of
    inputs by name; ``columns`` say what was recognized. ``times`` are of some rows: their numbers, and seconds since
    1970 by the clock that the time column shows. ``recent`` are the last targets; null where one is missing.
    """

    name: str
    settings: StreamSettings
    state: str = "loading"
    doing: str = ""
    rows: int = 0
    inputs: list[str] = []
    columns: list[str] = []
    chosen: str = ""
    models: dict[str, float] = {}
    relevance: dict[str, float] = {}
    scores: Scores = field(default_factory=Scores)
    health: Health = field(default_factory=Health)
    drift: list[DriftEvent] = []
    tickets: Tickets = field(default_factory=Tickets)
    gaps: dict[str, int] = {}
    verdict: list[str] = []
    times: list[tuple[int, float]] = []
    recent: list[float] = []


class ScoredRows(Struct):
    """Scores of a range of rows."""

    from_row: int
    to_row: int
    rows: int
    rmse: float | None
    coverage: float | None


class HistoryAnswer(Struct):
    """The last rows, thinned out so that the smallest and largest target of every part are kept; and their scores."""

    rows: int
    row: list[int]
    observed: list[float | None]
    mean: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    scores: list[ScoredRows]
    drift: list[DriftEvent]


class ForecastAnswer(Struct):
    """The targets of the next rows: their medians, and quantiles by level.

    ``issued`` is the last row; ``time`` is null where rows have no times. ``model`` is the stream's own where it has a
    kernel over time, otherwise "over time": one of the last targets alone. ``assumed`` says what of the inputs.
    """

    issued: int
    row: list[int]
    time: list[str] | None
    median: list[float | None]
    quantiles: dict[str, list[float | None]]
    model: str
    assumed: str


class FleetSettings(Struct, forbid_unknown_fields=True):
    """How the sensors of a fleet are predicted, all with one kind of model; fixed when it is created.

    ``size`` is how many ids there may be. ``id`` is the column that tells the sensor, ``inputs`` are columns of
    numbers, ``lags`` counts past targets of the sensor that its model sees, ``time`` is the column of the times, if
    there is one. ``settings`` are those of the model, and alarms, pending and warmup.
    """

    target: Column
    size: Annotated[int, Meta(ge=1, le=1_000_000)]
    inputs: Annotated[list[Column], Meta(max_length=MOST_INPUTS)] = []
    lags: Lags = 0
    id: Column = "id"
    time: Column | None = None
    model: Name = "KRLST"
    settings: Settings = {}
    level: Level = RunSettings().level


class FleetDetail(Struct):
    """All that is known of a fleet; ``spread`` are quantiles over its ids, by score and by quantile."""

    name: str
    settings: FleetSettings
    state: str = "loading"
    doing: str = ""
    rows: int = 0
    ids: int = 0
    scores: Scores = field(default_factory=Scores)
    spread: dict[str, dict[str, float]] = {}
    health: Health = field(default_factory=Health)
    tickets: Tickets = field(default_factory=Tickets)


class FleetList(Struct):
    """All fleets by name."""

    fleets: list[FleetDetail]


class Sensor(Struct):
    """An id of a fleet with its newest row, its scores, and its last targets."""

    id: str
    rows: int
    observed: float | None
    mean: float | None
    lower: float | None
    upper: float | None
    rmse: float | None
    coverage: float | None
    alarms: int
    recent: list[float | None]


class SensorList(Struct):
    """Some ids of a fleet; ``found`` counts all that fit."""

    found: int
    ids: list[Sensor]


class Healthz(Struct):
    """Whether the server can do its work; ``status`` is "ok" or says what is wrong."""

    status: str
    version: str
    streams: int


# Parameters in the query.


class HistoryQuery(Struct):
    rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 2000
    points: Annotated[int, Meta(ge=2, le=5000)] = 500
    id: Annotated[str, Meta(description="of the sensor, in a fleet")] = ""


class ForecastQuery(Struct):
    ahead: Annotated[str, Meta(description="rows ahead, or a length of time such as 24h where rows have times")] = "24"
    quantiles: Annotated[str, Meta(description="levels above 0 and below 1, with commas between them")] = ",".join(
        map(str, defaults.QUANTILES)
    )


class SensorQuery(Struct):
    search: Annotated[str, Meta(description="a part of the id")] = ""
    first: Literal["alarms", "name", "rows", "error", "coverage"] = "alarms"
    most: Annotated[int, Meta(ge=1, le=1000)] = 50


class LinesQuery(Struct):
    rows: Annotated[int, Meta(ge=1, le=KEPT)] = 100


class PrecisionQuery(Struct):
    precision: Annotated[str, Meta(description="unit of the timestamps of line protocol: ns, us, ms or s")] = "ns"


class MetricsQuery(Struct):
    streams: Annotated[str, Meta(description="names with commas, or * for all: their metrics in place of totals")] = ""


# Made here, in one thread; see learner.py.
SETTINGS, TARGETS = msgspec.json.Decoder(StreamSettings), msgspec.json.Decoder(list[Target])
FLEET_SETTINGS = msgspec.json.Decoder(FleetSettings)

encode = msgspec.json.encode  # a message as JSON; NaN and infinity are null

"""Messages: what requests and answers hold; the OpenAPI document and the checks of bodies follow from these types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from streamgp.job.building import MOST_INPUTS
from streamgp.job.pipeline import MOST_AHEAD
from streamgp.job.request import RunSettings
from streamgp.tables.declared import MOST_DECLARED

Scalar = float | int | str | bool | None
Row = dict[str, Scalar]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
LONGEST_SETTING = 1000  # characters


class RefusedError(Exception):
    """A request that is refused, and nothing has changed.

    Args:
        status: of HTTP.
        code: for programs.
        message: what happened.
        hint: what to do.
        retry_after: seconds after which the same request may succeed.
    """

    def __init__(self, status: int, code: str, message: str, hint: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint, self.retry_after = status, code, message, hint, retry_after


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

    kind: Annotated[str, Meta(max_length=20)] = ""
    levels: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MOST_DECLARED)] = []
    unit: Annotated[str, Meta(max_length=20)] = ""
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

    target: Annotated[str, Meta(min_length=1, max_length=200)]
    inputs: list[Annotated[str, Meta(min_length=1, max_length=200)]] | None = None
    lags: Annotated[int, Meta(ge=0, le=MOST_INPUTS)] | None = None
    horizon: Annotated[int, Meta(ge=0, le=MOST_AHEAD)] = 0
    model: Annotated[str, Meta(min_length=1, max_length=100)] = "auto"
    settings: dict[
        Annotated[str, Meta(max_length=100)],
        float | int | Annotated[str, Meta(max_length=LONGEST_SETTING)] | bool | None,
    ] = {}
    level: Annotated[float, Meta(gt=0, lt=1)] = RunSettings().level
    schema: (
        dict[Annotated[str, Meta(min_length=1, max_length=200)], Annotated[str, Meta(max_length=20)] | ColumnSchema]
        | None
    ) = None


class PredictedRow(Struct):
    """A prediction of a row, made before its target was known; null where there is nothing to predict from yet.

    With a horizon, ``row`` is the number of the row ahead that is predicted.
    """

    row: int
    mean: float | None
    lower: float | None
    upper: float | None
    std: float | None


class RowsAnswer(Struct):
    """Predictions in the order of the rows; ``seen`` counts all rows of the stream so far."""

    rows: list[PredictedRow]
    seen: int


class TicketRow(Struct):
    """A prediction of a row whose target may come later, under this ticket."""

    ticket: str
    mean: float | None
    lower: float | None
    upper: float | None
    std: float | None


class PredictAnswer(Struct):
    """Predictions in the order of the rows; nothing was learned."""

    rows: list[TicketRow]
    seen: int


class Target(Struct, forbid_unknown_fields=True):
    """The target of a row that was predicted; ``time`` only where models forget by time."""

    ticket: Annotated[str, Meta(min_length=1, max_length=100)]
    value: Annotated[float, Meta(gt=-1e300, lt=1e300)]
    time: Annotated[str, Meta(max_length=100)] | None = None


class TargetResult(Struct):
    """What became of a target: "learned", "known" (it had come before), "expired" or "unknown"."""

    ticket: str
    status: str


class TargetsAnswer(Struct):
    """What became of each target; ``seen`` counts all rows of the stream so far."""

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

    rows: int
    rmse: float | None
    rmse_previous_value: float | None
    coverage: float | None
    mean_width: float | None
    mean_log_density: float | None
    mae: float | None = None


class Health(Struct):
    """Numerical repairs, models that have diverged and so have no weight, targets that looked like fill values, and
    alarms, where the setting ``alarms`` asks for them."""

    repairs: int
    diverged: list[str]
    fill_values: int = 0
    alarms: int = 0


class Tickets(Struct):
    """Rows that wait for their targets, and how many expired because too many waited."""

    waiting: int
    expired: int


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
    recent: list[float | None]


class StreamList(Struct):
    """All streams by name."""

    streams: list[StreamBrief]


class StreamDetail(Struct):
    """All that is known of a stream.

    ``verdict`` says in words how good it is and what changed. ``models`` are weights by name, ``relevance`` that of
    inputs by name; ``columns`` say what was recognized. ``times`` are of some rows: their numbers, and seconds since
    1970 by the clock that the time column shows.
    """

    name: str
    state: str
    doing: str
    settings: StreamSettings
    rows: int
    inputs: list[str]
    columns: list[str]
    chosen: str
    models: dict[str, float]
    relevance: dict[str, float]
    scores: Scores
    health: Health
    drift: list[DriftEvent]
    tickets: Tickets
    gaps: dict[str, int]
    verdict: list[str]
    times: list[tuple[int, float]]


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


class Healthz(Struct):
    """Whether the server can do its work; ``status`` is "ok" or says what is wrong."""

    status: str
    version: str
    streams: int


# Made here, in one thread; see learner.py.
SETTINGS, TARGETS = msgspec.json.Decoder(StreamSettings), msgspec.json.Decoder(list[Target])


def encode(message: Any) -> bytes:
    """A message as JSON; NaN and infinity are null."""
    return msgspec.json.encode(message)

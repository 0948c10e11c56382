"""Columns: from the names and types that users have to those between Spark and Python, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamgp.contract.model import StreamModel
from streamgp.fleet.fleet import refuse_no_model
from streamgp.settings import duration, whole
from streamgp.spark.frames import KEY, SHARD, SNAPSHOT, TARGET, TICKET, TIME, input_name
from streamgp.spark.plan import NUMBER, TIMESTAMP, WHOLE_NUMBER, Plan
from streamgp.spark.rows import NO_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OUTPUTS = "mean", "lower", "upper", "std", "observed", "row", TICKET, SNAPSHOT
WHOLE = "tinyint", "smallint", "int", "bigint"
NUMBERS = (*WHOLE, "float", "double", "decimal")
WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that has one


def planned(
    frame: DataFrame,
    initial: DataFrame | None,
    *,
    key: str,
    target: str,
    inputs: list[str],
    time: str,
    model: StreamModel,
    shards: int = 64,
    idle: float | str | None = None,
    pending: int = 0,
    ticket: str | None = None,
) -> Plan:
    """The plan of a query; whatever is wrong is refused here, before anything runs.

    Args:
        frame: with the rows.
        initial: what ``states`` returned, or None.
        key: column that says which stream a row belongs to: text, or numbers of any size. New keys get a new model.
        target: column to predict; null or NaN: missing.
        inputs: columns to predict from.
        time: column that orders the rows of a key within a batch: a timestamp or a number.
        model: the recipe of every key, which has learned nothing.
        shards: groups of keys; the models of a group are kept together.
        idle: how long a key may have no rows before it expires, such as "2h"; None: for ever. Needs a watermark.
        pending: rows of a shard that can wait for late targets; 0: none.
        ticket: column with the ticket of a row whose target comes with this one; null: this is a row to predict.
    """
    refuse_no_model(model)
    if model.rows_seen:
        raise ValueError(f"model must have learned nothing; got one that has seen {model.rows_seen} rows: clone() it")
    if initial is not None and initial.columns != ["shard", "state"]:
        raise ValueError(f"initial must be what states() returned, with columns shard, state; got {initial.columns}")
    if isinstance(inputs, str) or not inputs:
        raise ValueError(f"inputs must be a list of at least one column; got {inputs!r}")
    keys = "string", "decimal", *WHOLE
    wanted = {"key": (key, keys), "target": (target, NUMBERS), "time": (time, ("timestamp", *NUMBERS))}
    wanted |= {f"inputs[{j}]": (name, (*NUMBERS, "boolean")) for j, name in enumerate(inputs)}
    if ticket is not None:
        wanted["ticket"] = ticket, WHOLE
    for setting, (name, kinds) in wanted.items():
        if name not in frame.columns:
            raise ValueError(f"the frame has no column {name!r} ({setting}); it has {frame.columns}")
        if _type(frame, name) not in kinds:
            raise ValueError(
                f"the column {name!r} ({setting}) must be of type {' or '.join(kinds)}; it is {_type(frame, name)}: "
                "cast it first"
            )
    for name in {key, time} & set(OUTPUTS):
        raise ValueError(f"the column {name!r} has the name of a column of the predictions; rename it first")
    pending = whole("pending", pending, at_least=0)
    if (ticket is None) != (pending == 0):
        raise ValueError("pending= and ticket= belong together: how many rows can wait, and the column with tickets")
    seconds = None if idle is None else duration("idle", idle)
    if seconds is not None and frame.isStreaming and not watermarked(frame, time):
        raise ValueError(
            f'idle= counts by the watermark, and the column {time!r} has none: call frame.withWatermark("{time}", '
            '"10 minutes") first, with the delay that rows can have'
        )
    kind = _type(frame, time)
    clock = TIMESTAMP if kind == "timestamp" else WHOLE_NUMBER if kind in WHOLE else NUMBER
    return Plan(model, key, target, tuple(inputs), time, whole("shards", shards), clock, seconds, pending, ticket)


def selected(plan: Plan, frame: DataFrame) -> DataFrame:
    """The rows, with their shards, in the columns that frames.batch_of() reads."""
    from pyspark.sql import functions as F  # noqa: N812

    key, time = F.col(plan.key).cast("string"), F.col(plan.time)
    if plan.clock == NUMBER:
        time = time.cast("double")
    else:
        time = F.coalesce(F.unix_micros(time) if plan.clock == TIMESTAMP else time.cast("bigint"), F.lit(NO_TIME))
    chosen = [shard_of(key, plan.shards).alias(SHARD), key.alias(KEY), time.alias(TIME)]
    chosen.append(F.col(plan.target).cast("double").alias(TARGET))
    chosen += [F.col(name).cast("double").alias(input_name(j)) for j, name in enumerate(plan.inputs)]
    if plan.ticket is not None:
        chosen.append(F.col(plan.ticket).cast("bigint").alias(TICKET))
    if watermarked(frame, plan.time):
        chosen.append(F.col(plan.time).alias("watermarked"))  # Spark drops late rows by it
    return frame.select(*chosen)


def named(plan: Plan, frame: DataFrame, found: DataFrame) -> DataFrame:
    """Predictions under the names and types of the frame they are for; NaN is null, and so is the row of a refusal."""
    from pyspark.sql import functions as F  # noqa: N812

    key = F.col(KEY).cast(frame.schema[plan.key].dataType).alias(plan.key)
    time = F.col(TIME)
    if plan.clock != NUMBER:
        time = F.when(time != NO_TIME, time)
    if plan.clock == TIMESTAMP:
        time = F.timestamp_micros(time)
    time = time.cast(frame.schema[plan.time].dataType).alias(plan.time)
    numbers = [F.nanvl(F.col(name), F.lit(None)).alias(name) for name in OUTPUTS[:5]]
    chosen = [key, time, *numbers, F.when(F.col("row") > 0, F.col("row")).alias("row")]
    if plan.pending:
        chosen.append(F.when(F.col(TICKET) >= 0, F.col(TICKET)).alias(TICKET))
    if plan.idle is not None:
        chosen.append(F.col(SNAPSHOT))
    return found.select(*chosen)


def shard_of(key: Column, shards: int) -> Column:
    """The shard of a key as text."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(F.xxhash64(key), F.lit(shards)).cast("int")


def watermarked(frame: DataFrame, time: str) -> bool:
    return WATERMARK in (frame.schema[time].metadata or {})


def _type(frame: DataFrame, name: str) -> str:
    kind: Any = frame.schema[name].dataType
    return str(kind.simpleString()).partition("(")[0]

"""Columns: from the names and types that users have to those between Spark and Python, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamgp.spark.frames import KEY, SHARD, SNAPSHOT, TARGET, TICKET, TIME, input_name
from streamgp.spark.plan import Plan
from streamgp.spark.rows import NO_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MICROSECONDS = 1e6
OUTPUTS = "mean", "lower", "upper", "std", "observed", "row", TICKET, SNAPSHOT
WHOLE = "tinyint", "smallint", "int", "bigint"
NUMBERS = (*WHOLE, "float", "double", "decimal")
WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that has one


def refuse_unfit(frame: DataFrame, key: str, target: str, inputs: list[str], time: str, ticket: str | None) -> None:
    """Refuse names and types that cannot be used."""
    if isinstance(inputs, str) or not inputs:
        raise ValueError(f"inputs must be a list of at least one column; got {inputs!r}")
    wanted = {"key": (key, ("string", *WHOLE)), "target": (target, NUMBERS), "time": (time, ("timestamp", *NUMBERS))}
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


def selected(plan: Plan, frame: DataFrame) -> DataFrame:
    """The rows, with their shards, in the columns that frames.batch_of() reads."""
    from pyspark.sql import functions as F  # noqa: N812

    key = F.col(plan.key).cast(plan.key_type)
    # As text: where one is missing, whole numbers would come as floats, which round above 2^53.
    chosen = [shard_of(key, plan.shards).alias(SHARD), key.cast("string").alias(KEY)]
    if plan.ticks is not None:
        chosen.append(F.coalesce(F.unix_micros(plan.time), F.lit(NO_TIME)).alias(TIME))
    elif plan.whole:
        chosen.append(F.coalesce(F.col(plan.time).cast("bigint"), F.lit(NO_TIME)).alias(TIME))
    else:
        chosen.append(F.col(plan.time).cast("double").alias(TIME))
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
    if plan.whole:
        time = F.when(time != NO_TIME, time)
    if plan.ticks is not None:
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
    """The shard of a key, which is text or a long whole number."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(F.xxhash64(key), F.lit(shards)).cast("int")


def watermarked(frame: DataFrame, time: str) -> bool:
    return WATERMARK in (frame.schema[time].metadata or {})


def ticks(frame: DataFrame, time: str) -> float | None:
    """Units of the time in a second; None: it has no unit."""
    return MICROSECONDS if _type(frame, time) == "timestamp" else None


def is_whole(frame: DataFrame, time: str) -> bool:
    return _type(frame, time) in ("timestamp", *WHOLE)


def key_type(frame: DataFrame, key: str) -> str:
    return "string" if _type(frame, key) == "string" else "bigint"


def _type(frame: DataFrame, name: str) -> str:
    kind: Any = frame.schema[name].dataType
    return str(kind.simpleString()).partition("(")[0]

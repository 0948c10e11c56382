"""The same models on Spark, for those who outgrow one machine. Needs ``streamgp[spark]`` and Java."""

from streamgp.spark.snapshots import shards, snapshot
from streamgp.spark.tracking import states, track

__all__ = ["shards", "snapshot", "states", "track"]

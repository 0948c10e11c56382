"""A query over a folder of files, to be killed and started again: python -m tests.spark.counting FOLDER"""

from __future__ import annotations

import sys

from streamgp.spark import track
from tests.spark.sessions import session
from tests.spark.streams import RECIPES

SCHEMA = "sensor string, t timestamp, a double, b double, y double"


def settings(shards=4):
    return {
        "key": "sensor",
        "target": "y",
        "inputs": ["a", "b"],
        "time": "t",
        "model": RECIPES["Calibrated Standardize"](),
        "shards": shards,
    }


def main(folder):
    spark = session("local[2]")
    came = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    found = track(came.withWatermark("t", "1 hour"), **settings())
    writer = found.writeStream.format("parquet").option("path", f"{folder}/out")
    writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])

"""Queries in Spark itself: static frames, streams, restarts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import streamgp as sg
from streamgp.spark import shards, snapshot, states, track
from tests.spark.counting import SCHEMA, settings
from tests.spark.streams import one_by_one, rows, some

N = 240
ROOT = Path(__file__).parents[2]
START = np.datetime64("2026-11-01T00:00:00", "us")  # clocks go back in New York six hours later


def moments(batch):
    return START + batch.time * np.timedelta64(3, "m")


def frame(spark, batch):
    columns = {"sensor": batch.keys, "t": moments(batch), "a": batch.X[:, 0], "b": batch.X[:, 1], "y": batch.Y}
    text = pd.DataFrame(columns)
    text["t"] = text["t"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = spark.createDataFrame(text, "sensor string, t string, a double, b double, y double")
    return found.selectExpr("sensor", "cast(t as timestamp) as t", "a", "b", "nanvl(y, null) as y")


def collected(found):
    """(key, row) -> the numbers."""
    got = found.selectExpr("sensor", "unix_seconds(t) as seconds", "mean", "lower", "upper", "std", "row").collect()
    assert len({(one.sensor, one.row) for one in got}) == len(got)
    return {(one.sensor, one.seconds): (one.mean, one.lower, one.upper, one.std, one.row) for one in got}


@pytest.fixture(scope="module")
def batch():
    return rows(0, N)


@pytest.fixture(scope="module")
def wanted(batch):
    found, singles = one_by_one(settings()["model"], batch._replace(time=moments(batch).astype("M8[s]").astype(int)))
    return found, singles


def write(frames, folder):
    """A file for each frame, to be read in this order."""
    folder.mkdir()
    for number, one in enumerate(frames):
        one.coalesce(1).write.parquet(f"{folder}-{number}")
        (part,) = Path(f"{folder}-{number}").glob("*.parquet")
        file = part.rename(folder / f"{number:02d}.parquet")
        os.utime(file, (number + 1, number + 1))


def in_parts(spark, batch, parts):
    return [frame(spark, some(batch, part)) for part in np.array_split(np.arange(len(batch.Y)), parts)]


def read(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(found, folder):
    writer = found.writeStream.format("parquet").option("path", f"{folder}/out")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_static_frame_is_the_loop_over_single_models(spark, batch, wanted):
    found = track(frame(spark, batch), **settings())
    assert found.columns == ["sensor", "t", "mean", "lower", "upper", "std", "observed", "row"]
    assert collected(found) == wanted[0]


def test_whole_numbers_are_told_apart_as_keys_where_one_is_missing(spark):
    keys = [2**53, 2**53 + 1, None, -(2**63), 2**63 - 1]
    came = [(key, float(i), 1.0, 2.0, 3.0) for i, key in enumerate(keys)]
    numbered = spark.createDataFrame(came, "sensor bigint, t double, a double, b double, y double")
    found = track(numbered, **settings(shards=1)).select("sensor", "row").collect()
    assert {one.sensor: one.row for one in found} == {key: None if key is None else 1 for key in keys}


def test_whole_numbers_of_any_size_are_keys(spark):
    keys = [Decimal(2**64), Decimal(2**64 + 1), Decimal(-(10**30))]
    came = [(key, float(i), 1.0, 2.0, 3.0) for i, key in enumerate([*keys, keys[0]])]
    numbered = spark.createDataFrame(came, "sensor decimal(38, 0), t double, a double, b double, y double")
    found = track(numbered, **settings(shards=1)).select("sensor", "row").collect()
    assert sorted((one.sensor, one.row) for one in found) == sorted([*((key, 1) for key in keys), (keys[0], 2)])


def test_a_stream_that_starts_from_a_backfill_goes_on_with_its_models(spark, batch, wanted, tmp_path):
    first, second = (some(batch, part) for part in np.array_split(np.arange(N), 2))
    initial = states(frame(spark, first), **settings())
    write(in_parts(spark, second, 2), tmp_path / "in")
    run(track(read(spark, tmp_path / "in").withWatermark("t", "1 day"), initial=initial, **settings()), tmp_path)
    found = collected(spark.read.parquet(str(tmp_path / "out")))
    seconds = moments(second).astype("M8[s]").astype(int).tolist()
    assert found == {place: wanted[0][place] for place in zip(second.keys, seconds, strict=True)}

    checkpoint = str(tmp_path / "checkpoint")
    counts = shards(spark, checkpoint).toPandas()
    assert counts["keys"].sum() == len(wanted[1])
    assert counts["rows"].sum() == N
    for key in ("key 0", "key 3"):  # with its log, not only as it was last written whole
        data = snapshot(spark, checkpoint, key)
        (tmp_path / "one.sgp").write_bytes(data)
        assert sg.load(tmp_path / "one.sgp").to_bytes() == wanted[1][key].to_bytes()
    with pytest.raises(KeyError, match="no model of the key 'nobody'"):
        snapshot(spark, checkpoint, "nobody")

    third = frame(spark, some(batch, np.arange(5))).selectExpr("sensor", "t + interval 9 days as t", "a", "b", "y")
    third.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    other = settings() | {"model": sg.KRLST(capacity=3)}
    with pytest.raises(Exception, match="start a new query with a new checkpoint"):
        run(track(read(spark, tmp_path / "in").withWatermark("t", "1 day"), initial=initial, **other), tmp_path)


def test_rows_later_than_the_watermark_are_counted_and_idle_keys_handed_over(spark, tmp_path):
    def at(minute, key):
        return spark.sql(
            f"select '{key}' as sensor, timestamp'2026-11-01T10:00:00Z' + interval {minute} minutes as t, "
            "1D as a, 2D as b, 3D as y"
        )

    came = [at(0, "a").union(at(10, "b")), at(60, "b"), at(1, "a").union(at(61, "b")), at(200, "b"), at(201, "b")]
    write(came, tmp_path / "in")
    found = track(read(spark, tmp_path / "in").withWatermark("t", "5 minutes"), idle="90min", **settings())
    query = run(found, tmp_path)
    dropped = sum(one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in query.recentProgress)
    assert dropped == 1
    got = spark.read.parquet(str(tmp_path / "out"))
    assert got.where("snapshot is null").count() == 6
    (gone,) = got.where("snapshot is not null").collect()
    assert (gone.sensor, gone.row, gone["mean"]) == ("a", 1, None)
    assert sg.from_bytes(bytes(gone.snapshot)).rows_seen == 1


def test_a_query_that_is_killed_in_a_batch_goes_on_without_losing_or_repeating_a_row(spark, batch, wanted, tmp_path):
    write(in_parts(spark, batch, 5), tmp_path / "in")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.counting", str(tmp_path)]
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "checkpoint" / "offsets" / "2").exists():
        time.sleep(0.01)
    assert process.poll() is None  # in its third batch
    os.killpg(process.pid, signal.SIGKILL)  # the driver and its JVM; Python workers end with it
    process.wait()
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    assert collected(spark.read.parquet(str(tmp_path / "out"))) == wanted[0]


@pytest.mark.usefixtures("spark")  # skipped where it is
def test_the_example_of_the_page_runs(tmp_path):
    (example,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "spark.md").read_text(), re.DOTALL | re.MULTILINE
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", example], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split()[-1] == "100", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": "z"}, r"the frame has no column 'z' \(target\)"),
        ({"inputs": "a"}, "inputs must be a list"),
        ({"inputs": ["sensor"]}, "must be of type .* it is string: cast it first"),
        ({"shards": 0}, "shards must be a whole number of at least 1"),
        ({"idle": "soon"}, "idle must be a length of time"),
        ({"pending": 5}, "pending= and ticket= belong together"),
        ({"model": "KRLST"}, "model must be a stream model such as KRLST"),
    ],
)
def test_settings_that_cannot_be_used(spark, batch, changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        track(frame(spark, batch), **settings() | changed)


def test_streams_that_cannot_be_tracked(spark, batch, tmp_path):
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    with pytest.raises(ValueError, match='call frame.withWatermark\\("t", "10 minutes"\\) first'):
        track(stream, idle="1h", **settings())
    with pytest.raises(ValueError, match="learns a static frame"):
        states(stream, **settings())
    with pytest.raises(ValueError, match="initial must be what states"):
        track(stream, initial=frame(spark, batch), **settings())
    with pytest.raises(ValueError, match="the name of a column of the predictions; rename it"):
        track(stream.withColumnRenamed("t", "mean"), **settings() | {"time": "mean"})
    learned = sg.KRLST()
    learned.learn_one([0.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="must have learned nothing"):
        track(stream, **settings() | {"model": learned})
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    try:
        with pytest.raises(ValueError, match="needs the RocksDB state store"):
            track(stream, **settings())
    finally:
        spark.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )

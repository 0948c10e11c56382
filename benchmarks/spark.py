"""What Spark costs: the same fleet in one process and in a query, and whether a query is exact, also when it is killed.

Writes benchmarks/results/spark.json. Run it in an environment with streamgp[spark] and Java: make bench-spark.

python benchmarks/spark.py                     everything
python benchmarks/spark.py query SETTINGS      one query, in a process of its own that can be killed
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamgp as sg
from record import Record
from timing import figures, seconds

SHARDS = 8, 64, 512
CORES = 1, 2
ROWS_PER_KEY = {100: 1000, 10_000: 10, 100_000: 1}  # of a batch, by the number of keys
CAPACITY = 10
BATCHES = 4  # of which the first two are not counted: keys arrive, and the JVM compiles
EXACT_KEYS, EXACT_ROWS, EXACT_BATCHES = 1000, 1000, 16
KILLS = 10
SCHEMA = "sensor long, t long, a double, b double, y double"
HEAP = "6g"
COLUMNS = {"key": "sensor", "target": "y", "inputs": ["a", "b"], "time": "t"}


def small() -> sg.StreamModel:
    """The model whose speed is measured."""
    return sg.KRLST(capacity=CAPACITY, forgetting=0.999, noise=0.01)


def full() -> sg.StreamModel:
    """The model whose numbers are compared."""
    return sg.Calibrated(sg.Standardize(sg.KRLST(capacity=10), warmup=20))


MODELS = {"small": small, "full": full}


# Rows.


def table(rng: np.random.Generator, keys: np.ndarray, first: np.ndarray) -> pa.Table:
    """Rows of keys at these times."""
    X = rng.standard_normal((len(keys), 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(keys))
    return pa.table({"sensor": keys, "t": first, "a": X[:, 0], "b": X[:, 1], "y": y})


def write_batches(folder: Path, tables: list[pa.Table]) -> None:
    """A file for each batch, in the order of their times."""
    (folder / "in").mkdir(parents=True)
    for number, rows in enumerate(tables):
        path = folder / "in" / f"{number:03d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (number + 1, number + 1))


def even(keys: int) -> list[pa.Table]:
    """The same number of rows of each key in every batch, but in the first at least so many that a basis is full."""
    rng, each, found, begin = np.random.default_rng(0), ROWS_PER_KEY[keys], [], 0
    for number in range(BATCHES):
        count = each if number else max(each, CAPACITY)
        found.append(table(rng, np.tile(np.arange(keys), count), begin + np.repeat(np.arange(count), keys)))
        begin += count
    return found


def uneven() -> list[pa.Table]:
    """Rows of keys in an order of their own, in batches of random size; those of a key stay in order of time."""
    rng = np.random.default_rng(1)
    keys = rng.permutation(np.repeat(np.arange(EXACT_KEYS), EXACT_ROWS))
    whole = table(rng, keys, np.arange(len(keys)))
    edges = [0, *np.sort(rng.integers(0, len(keys), EXACT_BATCHES - 1)).tolist(), len(keys)]
    return [whole.slice(first, last - first) for first, last in itertools.pairwise(edges)]


# A query in a process of its own.


def query(settings: dict[str, Any]) -> None:
    """Run a query over the files in a folder to their end, and say what it took."""
    began = time.time()
    from pyspark.sql import SparkSession

    from streamgp.spark import track
    from streamgp.spark.tracking import PROVIDER, ROCKSDB

    folder, cores = Path(settings["folder"]), settings["cores"]
    builder = SparkSession.builder.master(f"local[{cores},4]").config(PROVIDER, ROCKSDB)
    for name, value in {
        "spark.sql.shuffle.partitions": cores,
        "spark.ui.enabled": "false",
        "spark.driver.memory": HEAP,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": 100_000,
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    found = track(rows, model=MODELS[settings["model"]](), shards=settings["shards"], **COLUMNS)
    started = time.time()
    writer = found.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer = writer.format("parquet").option("path", str(folder / "out")) if settings["keep"] else writer.format("noop")
    running, used = writer.start(), [processor_time()]
    while running.isActive:
        time.sleep(0.2)
        if len(running.recentProgress) >= len(used):
            used.append(processor_time())
    running.awaitTermination()
    report = {
        "seconds to start Spark": started - began,
        "batches": [
            {"rows": one["numInputRows"], "seconds": one["durationMs"]["triggerExecution"] / 1000, "processor": spent}
            for one, spent in zip(running.recentProgress, np.diff([*used, processor_time()]), strict=False)
            if one["numInputRows"]
        ],
        "memory": memory(),
        "checkpoint": size(folder / "checkpoint"),
    }
    (folder / "report.json").write_text(json.dumps(report))


def started(settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "query", json.dumps(settings)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    log = open(Path(settings["folder"]) / "log", "ab")  # noqa: SIM115
    return subprocess.Popen(command, env=environment, start_new_session=True, stdout=log, stderr=log)


def processes(session: int) -> dict[int, tuple[int, str]]:
    """The processes of a session: parent and command."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(fields[3]) == session:
            found[int(path.name)] = int(fields[1]), command
    return found


def workers(session: int) -> list[int]:
    """The Python workers, which are children of a daemon."""
    found = processes(session)
    daemons = {pid for pid, (_, command) in found.items() if "pyspark.daemon" in command}
    return [pid for pid in daemons if found[pid][0] in daemons]


def processor_time() -> float:
    """Seconds of processor time that the JVM, the driver and the Python workers have used."""
    ticks = 0
    for pid in processes(os.getsid(0)):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory() -> dict[str, int]:
    """Bytes in use: of the JVM, and of all Python workers."""
    session = os.getsid(0)
    java = [pid for pid, (_, command) in processes(session).items() if "org.apache.spark" in command]
    return {"JVM": sum(map(resident, java)), "Python workers": sum(map(resident, workers(session)))}


def resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# What is measured.


def speed(folder: Path, keys: int, shards: int, cores: int) -> dict[str, Any]:
    """Rows a second of a query whose keys all have rows in every batch."""
    write_batches(folder, even(keys))
    settings = {"folder": str(folder), "cores": cores, "model": "small", "shards": shards, "keep": False}
    load = os.getloadavg()[0]
    if started(settings).wait() != 0:
        raise RuntimeError((folder / "log").read_text()[-3000:])
    report = json.loads((folder / "report.json").read_text())
    counted = report["batches"][2:]
    rates = [one["rows"] / one["seconds"] for one in counted]
    spent = sum(one["processor"] for one in counted) / sum(one["rows"] for one in counted)
    return {
        "rows a second": figures(float(np.median(rates))),
        "best batch": figures(max(rates)),
        "processor us a row": figures(1e6 * spent),
        "seconds to start Spark": figures(report["seconds to start Spark"]),
        "seconds of the first batch": figures(report["batches"][0]["seconds"]),
        "checkpoint bytes a key": figures(report["checkpoint"] / keys),
        "worker memory a key": figures(report["memory"]["Python workers"] / keys),
        "JVM memory": report["memory"]["JVM"],
        "load before": figures(load),
    }


def alone(keys: int, cores: int) -> dict[str, Any]:
    """The same rows through a fleet in this process."""
    fleet, rates, spent = sg.Fleet(small(), size=keys, threads=cores), [], []
    load = os.getloadavg()[0]
    for rows in even(keys):
        columns = [rows.column(name).to_numpy() for name in rows.column_names]
        ids, _, a, b, y = columns
        begin, used = time.perf_counter(), time.process_time()
        fleet.track(np.column_stack([a, b]), y, ids=ids)
        rates.append(len(ids) / (time.perf_counter() - begin))
        spent.append((time.process_time() - used) / len(ids))
    return {
        "rows a second": figures(float(np.median(rates[2:]))),
        "best batch": figures(max(rates[2:])),
        "processor us a row": figures(1e6 * float(np.median(spent[2:]))),
        "load before": figures(load),
    }


def state() -> dict[str, Any]:
    """Bytes of a shard's state, and what they cost in processor time: written whole, read, and learned from the log."""
    from streamgp.spark.plan import Plan
    from streamgp.spark.rows import Batch, Entry
    from streamgp.spark.shard import Shard

    keys, rng = 1000, np.random.default_rng(3)
    plan = Plan(small(), "sensor", "y", ("a", "b"), "t", 8)
    shard = Shard(plan)
    names = [str(number) for number in range(keys)]

    def batch(number: int) -> Batch:
        return Batch(names, np.full(keys, number), rng.standard_normal((keys, 2)), rng.standard_normal(keys))

    for number in range(30):
        shard.take(batch(number))
    entry, _ = shard.arrange(batch(30))
    whole, log = shard.to_bytes(), entry.to_bytes()
    return {
        "whole bytes a key": figures(len(whole) / keys),
        "log bytes a row": figures(len(log) / keys),
        "us to write a key": figures(1e6 * seconds(shard.to_bytes, time.process_time) / keys),
        "us to read a key": figures(1e6 * seconds(lambda: Shard.from_bytes(whole, plan), time.process_time) / keys),
        "us to learn a row again": figures(
            1e6 * seconds(lambda: shard.learn(Entry.from_bytes(log)), time.process_time) / keys
        ),
    }


def exact(folder: Path, kills: int) -> dict[str, Any]:
    """Whether a query predicts what one model for each key does, bit for bit, and each row once."""
    batches = uneven()
    write_batches(folder, batches)
    settings = {"folder": str(folder), "cores": 2, "model": "full", "shards": 8, "keep": True}
    killed = {"driver": 0, "worker": 0}
    rng = random.Random(2)
    process = started(settings)
    for number in range(kills):
        committed = folder / "checkpoint" / "commits"
        wanted = number + 1  # at least this many batches have ended, so that every kill finds a query at work
        while process.poll() is None and len(list(committed.glob("[0-9]*"))) < wanted:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 3.0))
        if process.poll() is not None:
            break
        if number % 2:
            found = workers(process.pid)
            if found:
                os.kill(rng.choice(found), signal.SIGKILL)
                killed["worker"] += 1
        else:
            for pid in processes(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait()
            killed["driver"] += 1
            process = started(settings)
    while process.wait() != 0:  # a query that lost too many workers stops; its operator starts it again
        process = started(settings)
    return compared(folder, pa.concat_tables(batches)) | {"batches": len(batches), "killed": killed}


def compared(folder: Path, rows: pa.Table) -> dict[str, Any]:
    """The predictions of a query beside those of one model for each key in this process."""
    names = ("sensor", "t", "mean", "lower", "upper", "std", "row")
    got = pa.concat_tables([pq.read_table(path, columns=list(names)) for path in written(folder)])
    found = np.column_stack([got.column(name).to_numpy() for name in names])
    found = found[np.lexsort((found[:, 1], found[:, 0]))]
    columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
    order = np.lexsort((columns["t"], columns["sensor"]))
    a, b, y, t, key = (columns[name][order] for name in ("a", "b", "y", "t", "sensor"))
    different = 0
    if len(found) == len(key):
        for k in range(EXACT_KEYS):
            own = slice(k * EXACT_ROWS, (k + 1) * EXACT_ROWS)
            p = full().track(np.column_stack([a[own], b[own]]), y[own])
            lower, upper = p.interval()
            wanted = np.column_stack([key[own], t[own], p.mean, lower, upper, p.std, 1 + np.arange(EXACT_ROWS)])
            different += int(np.count_nonzero((found[own] != wanted).any(axis=1)))
    return {"keys": EXACT_KEYS, "rows": len(key), "predictions": len(found), "different": different}


def written(folder: Path) -> list[str]:
    """The files that the sink has committed, by its log; every tenth entry repeats all before it."""
    log = sorted((folder / "out" / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.stem))
    compact = max((i for i, path in enumerate(log) if path.suffix), default=0)
    lines = [line for path in log[compact:] for line in path.read_text().splitlines()[1:]]
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]


def in_folder(measure: Any, *arguments: Any) -> Any:
    """Measure in a folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="streamgp-spark-"))
    try:
        return measure(folder, *arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    record = Record("spark", ("pyspark", "pandas", "pyarrow"), rows_per_key=ROWS_PER_KEY, heap=HEAP)
    for cores in CORES:
        for keys in ROWS_PER_KEY:
            record.cell(f"fleet, {keys} keys, {cores} cores", alone, keys, cores)
    record.cell("state", state)
    record.cell("equality", in_folder, exact, 0)
    record.cell("equality after kills", in_folder, exact, KILLS)
    for keys in ROWS_PER_KEY:
        for cores in CORES:
            for shards in SHARDS:
                record.cell(f"{keys} keys, {shards} shards, {cores} cores", in_folder, speed, keys, shards, cores)
    record.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["query"]:
        query(json.loads(sys.argv[2]))
    else:
        main()

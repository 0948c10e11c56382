"""What a sensor costs, in memory and processor time, by where its model runs: the table of docs/scale.md.

python benchmarks/sensors.py [fleet|server|"fleet of a server"|"kept up" ...]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import numpy as np
import psutil

import streamgp as sg

INPUTS, MIB = 4, 2**20
FLEETS = {
    "KRLST(capacity=20)": lambda: sg.KRLST(capacity=20),
    "Calibrated(Standardize(KRLST(capacity=20)))": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=20))),
}
SERVED = {"KRLST, capacity 20": ("KRLST", {"capacity": 20}, 200), "auto": ("auto", {}, 5)}
SENSORS, ROUNDS = 20_000, 60  # of a fleet
ROWS = 600  # of a served stream
# Of a fleet whose sensors have a row a second: rounds before, rows of a request, clients that send them.
WARM_UP, REQUESTS, CLIENTS = 25, (10_000, 100), 8


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, INPUTS))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


def fleet(name: str) -> tuple[float, float]:
    """KiB of a model, and microseconds of a row once every model has seen half of the rows."""
    sg.Fleet(FLEETS[name](), size=10, threads=1).track(*rows(10, 0), ids=np.arange(10))  # compiled, and loaded
    before = psutil.Process().memory_info().rss
    found, spent = sg.Fleet(FLEETS[name](), size=SENSORS, threads=1), []
    for number in range(ROUNDS):
        X, y = rows(SENSORS, number)
        began = time.process_time()
        found.track(X, y, ids=np.arange(SENSORS))
        spent.append(time.process_time() - began)
    held = psutil.Process().memory_info().rss - before
    return held / SENSORS / 1024, 1e6 * float(np.median(spent[ROUNDS // 2 :])) / SENSORS


@contextmanager
def serving() -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """A client of a server that is ready, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "streamgp", "serve", "--data", folder, "--port", "0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            url = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line)))
            with httpx.Client(base_url=url, timeout=600) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.5)
                yield client, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait(60)


def served(name: str) -> tuple[float, float]:
    """The same of a stream of a server, which gets its rows by hundreds."""
    model, settings, streams = SERVED[name]
    with serving() as (client, process):
        put(client, "first", model, settings, ROWS)
        before = process.memory_info().rss
        for number in range(streams):
            put(client, f"s{number}", model, settings, ROWS - 100)
        began = sum(process.cpu_times()[:2])
        for number in range(streams):
            send(client, f"s{number}", ROWS - 100, ROWS)
        spent, held = sum(process.cpu_times()[:2]) - began, process.memory_info().rss - before
    return held / streams / 1024, 1e6 * spent / streams / 100


def served_fleet(_: str) -> tuple[float, float]:
    """The same of a fleet of a server, which gets a row of every sensor in two requests."""
    with serving() as (client, process):
        create(client)
        before, spent = process.memory_info().rss, []
        for number in range(ROUNDS):
            began = sum(process.cpu_times()[:2])
            for body in bodies(number, SENSORS // 2):
                post(client, body)
            spent.append(sum(process.cpu_times()[:2]) - began)
        held = process.memory_info().rss - before
    return held / SENSORS / 1024, 1e6 * float(np.median(spent[ROUNDS // 2 :])) / SENSORS


def kept_up(size: int) -> str:
    """Whether a fleet of a server keeps up with a row a second of every sensor, in requests of so many rows."""
    with serving() as (client, process), ThreadPoolExecutor(CLIENTS) as pool:
        create(client)
        for number in range(WARM_UP):
            list(pool.map(partial(post, client), bodies(number, SENSORS // 2)))
        rounds = [list(bodies(WARM_UP + number, size)) for number in range(10)]
        spent, took = sum(process.cpu_times()[:2]), []
        start = time.monotonic()
        for second in range(ROUNDS):
            time.sleep(max(start + second - time.monotonic(), 0))
            took += pool.map(partial(post, client), rounds[second % 10])
        behind = time.monotonic() - start - ROUNDS + 1
        spent = sum(process.cpu_times()[:2]) - spent
        rows = client.get("/v1/fleets/plant").json()["rows"] - WARM_UP * SENSORS
    p50, p99 = 1000 * np.percentile(took, [50, 99])
    return (
        f"| {size:,} | {rows:,} in {ROUNDS} s | the last second's took {behind:.2f} s | {p50:.0f}, {p99:.0f} ms | "
        f"{spent / ROUNDS:.2f} |"
    )


def create(client: httpx.Client) -> None:
    body = {
        "target": "y",
        "size": SENSORS,
        "inputs": [f"x{j}" for j in range(INPUTS)],
        "settings": {"capacity": 20},
    }
    client.put("/v1/fleets/plant", json=body).raise_for_status()


def bodies(number: int, size: int) -> Iterator[bytes]:
    """A row of every sensor, in requests of so many."""
    X, y = rows(SENSORS, number)
    for start in range(0, SENSORS, size):
        table = [
            {"id": f"sensor-{i}", **{f"x{j}": float(X[i, j]) for j in range(INPUTS)}, "y": float(y[i])}
            for i in range(start, start + size)
        ]
        yield json.dumps(table).encode()


def post(client: httpx.Client, body: bytes) -> float:
    """Seconds until the answer."""
    began = time.perf_counter()
    headers = {"Content-Type": "application/json"}
    client.post("/v1/fleets/plant/rows", content=body, headers=headers).raise_for_status()
    return time.perf_counter() - began


def put(client: httpx.Client, stream: str, model: str, settings: dict, n: int) -> None:
    body = {"target": "y", "model": model, "settings": settings | {"tune": False} if model != "auto" else {}}
    client.put(f"/v1/streams/{stream}", json=body).raise_for_status()
    send(client, stream, 0, n)


def send(client: httpx.Client, stream: str, first: int, last: int) -> None:
    X, y = rows(last, 1)
    for start in range(first, last, 100):
        part = range(start, min(start + 100, last))
        body = [{**{f"x{j}": float(X[i, j]) for j in range(INPUTS)}, "y": float(y[i])} for i in part]
        client.post(f"/v1/streams/{stream}/rows", json=body).raise_for_status()


def lines(asked: list[str]) -> Iterator[str]:
    yield "| where | model | KiB a sensor | microseconds of a row |"
    served_fleets = ("fleet of a server", ["KRLST(capacity=20)"], served_fleet)
    for place, names, measure in (("fleet", FLEETS, fleet), ("server", SERVED, served), served_fleets):
        for name in names if not asked or place in asked else ():
            held, spent = measure(name)
            yield f"| {place} | {name} | {held:.3g} | {spent:.2g} |"
    if not asked or "kept up" in asked:
        yield "\n| rows of a request | rows | how late | p50, p99 of a request | cores |"
        yield from map(kept_up, REQUESTS)


if __name__ == "__main__":
    for line in lines(sys.argv[1:]):
        print(line, flush=True)

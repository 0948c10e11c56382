"""The server: kill -9 under load, a disk that fills up, malformed requests, load beside other servers, and a soak.

    python benchmarks/serve.py [kills|disk|malformed|load|soak ...]

Writes benchmarks/results/serve.json and the tables in docs/serve.md; with --render the tables only. Run it from a
checkout: it uses the clients of tests/serve.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from record import RESULTS, ROOT, environment, measured_on, write

sys.path.insert(0, str(ROOT))

from hypothesis import HealthCheck, given, settings

from tests.serve.killing import FLEET, Killable, check, free_port, run, script
from tests.serve.malformed import requests, send
from tests.serve.running import QUICK, Server, in_process

PAGE, FILE = ROOT / "docs" / "serve.md", RESULTS / "serve.json"
PACKAGES = ("starlette", "uvicorn", "uvloop", "httptools", "msgspec", "river")
KILLS, MALFORMED = 200, 2000
BATCHES = (1, 10, 100)
LOAD_SECONDS = 4.0
BUILDING, SETTLED = 1100, 4000  # rows after which auto is measured: while it builds experts, and when it has them
CLIENTS_MANY = 8
SOAK_STREAMS, SOAK_MINUTES = 100, 30.0
FAST = {"target": "y", "model": "KRLST", "settings": {"tune": False, "warmup": 100}}
MODELS = {"KRLST": FAST, "auto": {"target": "y"}}


# Durability.


def calm(folder: Path, scripts: dict[str, list]) -> tuple[Any, Any]:
    """What clients see of a server that nothing happens to."""
    with in_process(folder) as client:

        class Server:
            url = str(client.base_url)

        return run(Server, scripts, 0, 0, 3600)[:2]


def kills(count: int = KILLS) -> dict[str, Any]:
    """Kill a server under load so often, in rounds of new streams; all that clients see must be as in a calm one."""
    done = repeats = rounds = answers = 0
    began = time.monotonic()
    while done < count:
        rounds += 1
        names = [*(f"r{rounds}s{i}" for i in range(3)), f"f{rounds}"]  # the last one is a fleet
        scripts = {name: list(script(name, 250, seed=1000 * rounds + i)) for i, name in enumerate(names)}
        with tempfile.TemporaryDirectory() as folder:
            expected = calm(Path(folder) / "calm", scripts)
            server = Killable(Path(folder) / "killed")
            try:
                found = run(server, scripts, min(25, count - done), rounds, 3600)
            finally:
                server.close()
            check(found[:2], expected, scripts)
        done, repeats = done + found[2], repeats + found[3]
        answers += sum(map(len, found[0].values()))
        print(f"kills: {done} of {count}, {repeats} requests repeated", flush=True)
    return {
        "kills": done,
        "answers": answers,
        "repeated": repeats,
        "seconds": time.monotonic() - began,
        "differences": 0,
    }


def disk() -> dict[str, Any]:
    """Let a real, small disk run full and get room again under load, several times."""
    scripts = {name: list(script(name, 200, seed=i)) for i, name in enumerate(["s0", "s1", "s2", "f3"])}
    with tempfile.TemporaryDirectory() as folder:
        expected = calm(Path(folder) / "calm", scripts)
        small = Path(folder) / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)], check=True)
        try:
            server = Killable(small / "data")
            ballast, full = small / "ballast", [0]

            def disturb() -> None:
                if ballast.exists():
                    ballast.unlink()
                    return
                with suppress(OSError), open(ballast, "wb") as file:
                    while True:
                        file.write(bytes(4096))
                        file.flush()
                full[0] += 1

            try:
                found = run(server, scripts, 40, 0, 600, disturb)  # an even number: in the end there is room
            finally:
                server.close()
            check(found[:2], expected, scripts)
        finally:
            subprocess.run(["umount", str(small)], check=True)
    return {"filled": full[0], "answers": sum(map(len, found[0].values())), "repeated": found[3], "differences": 0}


def malformed(count: int = MALFORMED) -> dict[str, Any]:
    """Requests made from the OpenAPI document, right and wrong; their statuses."""
    statuses: Counter[int] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder, in_process(folder, streams=50) as client:
        document = client.get("/openapi.json").json()

        @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(request=requests(document))
        def each(request: dict[str, Any]) -> None:
            nonlocal slowest
            client.put("/v1/streams/s", json=QUICK)  # if it is not there
            client.put("/v1/fleets/t", json=FLEET)
            began = time.perf_counter()
            statuses[send(client, request)] += 1
            slowest = max(slowest, time.perf_counter() - began)

        each()
    return {"requests": statuses.total(), "statuses": dict(sorted(statuses.items())), "slowest_seconds": slowest}


# Load.

OTHERS = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def echo(request):
    return JSONResponse({"rows": await request.json()})

model = None

async def river(request):
    global model
    if model is None:
        from river import linear_model, preprocessing
        model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    rows = []
    for row in await request.json():
        y = row.pop("y")
        rows.append({"mean": model.predict_one(row)})
        model.learn_one(row, y)
    return JSONResponse({"rows": rows})

app = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/river", river, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical", access_log=False)
"""


# One process, a thread and a connection for each client; a body goes out as soon as the last answer has come.
CLIENTS = """
import json, socket, sys, threading, time
port, seconds, bodies, paths = json.load(sys.stdin)
latencies, failures = [], []

def client(path):
    requests = [
        f"POST {path} HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
        f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode() for body in bodies
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = 0
        while time.perf_counter() < end:
            began = time.perf_counter()
            one.sendall(requests[sent % len(requests)])
            answer = one.recv(1 << 20)
            head, _, rest = answer.partition(b"\\r\\n\\r\\n")
            left = int(head.lower().partition(b"content-length: ")[2].partition(b"\\r")[0]) - len(rest)
            while left > 0:
                left -= len(one.recv(1 << 20))
            latencies.append(time.perf_counter() - began)
            if not head.startswith(b"HTTP/1.1 200"):
                failures.append(answer.decode())
            sent += 1

end = time.perf_counter() + seconds
threads = [threading.Thread(target=client, args=(path,)) for path in paths]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
json.dump([latencies, failures[:3]], sys.stdout)
"""


def load(models: Sequence[str]) -> dict[str, Any]:
    """Rows a second, latency and processor time of single rows and batches, of one client and of eight."""
    found: dict[str, Any] = {}
    port = free_port()
    other = subprocess.Popen([sys.executable, "-c", OTHERS, str(port)])
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            _await(client, "/")
            for name in ("echo", "river"):
                client.post(f"/{name}", json=_rows(1000, 0))
                found[name] = _cells(port, other.pid, lambda clients, name=name: [f"/{name}"] * clients)
    finally:
        other.terminate()
        other.wait(30)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, wait=600)
        try:
            port = server.client.base_url.port
            while server.client.get("/readyz").status_code != 200:  # while it compiles, it would take processor time
                time.sleep(0.5)
            for name in models:
                pid = server.process.pid
                paths = [f"/v1/streams/{name}{number}" for number in range(CLIENTS_MANY if name == "KRLST" else 1)]
                for path in paths:
                    server.client.put(path, json=MODELS[name])
                    _post(server.client, path, 0, BUILDING)
                if name == "auto":  # single rows while it builds its experts, then after it has settled
                    cells = {f"1, {n}": _measured(port, pid, [f"{paths[0]}/rows"] * n, 1) for n in (1, CLIENTS_MANY)}
                    found["auto, building"] = cells
                    _post(server.client, paths[0], BUILDING, SETTLED)
                found[name] = _cells(port, pid, lambda clients, paths=paths: [f"{paths[0]}/rows"] * clients)
                if len(paths) > 1:
                    each = _measured(port, pid, [f"{path}/rows" for path in paths], 1)
                    found[f"{name}, a stream each"] = {f"1, {CLIENTS_MANY}": each}
        finally:
            server.stop()
    return found


def _post(client: httpx.Client, path: str, start: int, stop: int) -> None:
    """Send rows of these numbers, a hundred at a time."""
    for at in range(start, stop, 100):
        client.post(f"{path}/rows", json=_rows(100, at), timeout=600).raise_for_status()


def _cells(port: int, pid: int, paths: Callable[[int], list[str]]) -> dict[str, dict[str, float]]:
    """Every batch with one client and with several, by "batch, clients"."""
    return {
        f"{batch}, {clients}": _measured(port, pid, paths(clients), batch)
        for batch in BATCHES
        for clients in (1, CLIENTS_MANY)
    }


def _measured(port: int, pid: int, paths: list[str], batch: int) -> dict[str, float]:
    """A client for each path, for some seconds."""
    bodies = [json.dumps(_rows(batch, at)) for at in range(50)]
    before = _processor_seconds(pid)
    asked = json.dumps([port, LOAD_SECONDS, bodies, paths])
    done = subprocess.run([sys.executable, "-c", CLIENTS], input=asked, capture_output=True, text=True, check=True)
    spent = _processor_seconds(pid) - before
    seconds, failures = json.loads(done.stdout)
    assert not failures, failures
    p50, p99 = np.percentile(seconds, [50, 99])
    rows = batch * len(seconds)
    return {
        "rows_per_second": rows / LOAD_SECONDS,
        "p50_ms": 1e3 * p50,
        "p99_ms": 1e3 * p99,
        "processor_us_per_row": 1e6 * spent / rows,
    }


def _processor_seconds(pid: int) -> float:
    """What a process has used so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rows(n: int, start: int) -> list[dict[str, float]]:
    rng = random.Random(start)
    rows = [{f"x{i}": rng.gauss(0, 1) for i in range(5)} for _ in range(n)]
    return [row | {"y": row["x0"] ** 2 + row["x1"] + rng.gauss(0, 0.1)} for row in rows]


def _await(client: httpx.Client, path: str) -> None:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            client.get(path)
            return
        time.sleep(0.05)


# A soak.


def soak(minutes: float = SOAK_MINUTES, streams: int = SOAK_STREAMS) -> dict[str, Any]:
    """Single rows and batches to many streams for half an hour: memory, latency, errors."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            for number in range(streams):
                server.client.put(f"/v1/streams/s{number}", json=FAST).raise_for_status()
            end = time.monotonic() + 60 * minutes
            workers = [_Soaking(server.url, part, streams, end) for part in range(4)]
            memory = []
            while time.monotonic() < end:
                time.sleep(min(10.0, 6 * minutes))
                text = server.client.get("/metrics").text
                memory.append(float(re.search(r"^streamgp_process_resident_memory_bytes (.*)$", text, re.M)[1]) / 2**20)
            for worker in workers:
                worker.thread.join()
            rows = [server.client.get(f"/v1/streams/s{number}").json()["rows"] for number in range(streams)]
            size = os.path.getsize(Path(folder) / "streamgp.sqlite")
        finally:
            server.stop()
    single = np.array([seconds for worker in workers for seconds in worker.single])
    third = len(memory) // 3
    return {
        "minutes": minutes,
        "streams": streams,
        "rows": sum(rows),
        "requests": sum(worker.requests for worker in workers),
        "failures": sum(worker.failures for worker in workers),
        "rows_not_kept": sum(worker.rows for worker in workers) - sum(rows),
        "p50_ms": 1e3 * float(np.percentile(single, 50)),
        "p99_ms": 1e3 * float(np.percentile(single, 99)),
        "resident_MiB": {
            "after a third": float(np.median(memory[third : third + 5])),
            "at the end": float(np.median(memory[-5:])),
            "most": max(memory),
        },
        "file_MiB": size / 2**20,
    }


class _Soaking:
    """A client that writes to its part of the streams, mostly single rows."""

    def __init__(self, url: str, part: int, streams: int, end: float) -> None:
        self.single: list[float] = []
        self.rows = self.requests = self.failures = 0
        self.thread = threading.Thread(target=self._run, args=(url, part, streams, end))
        self.thread.start()

    def _run(self, url: str, part: int, streams: int, end: float) -> None:
        rng = random.Random(part)
        with httpx.Client(base_url=url, timeout=60) as client:
            while time.monotonic() < end:
                number = rng.randrange(part, streams, 4)
                batch = rng.choices([1, 10, 100], [90, 8, 2])[0]
                body = _rows(batch, rng.randrange(10**9))
                began = time.perf_counter()
                answer = client.post(f"/v1/streams/s{number}/rows", json=body)
                seconds = time.perf_counter() - began
                self.requests += 1
                if answer.status_code == 200:
                    self.rows += batch
                    if batch == 1:
                        self.single.append(seconds)
                else:
                    self.failures += 1


# The page.


def rendered(report: dict[str, Any]) -> dict[str, str]:
    """The tables by name."""
    kill, full, bad, soaked = (report[name] for name in ("kills", "disk", "malformed", "soak"))
    shown = ", ".join(f"{status}: {count}" for status, count in bad["statuses"].items())
    memory = soaked["resident_MiB"]
    return {
        "promises": _table(
            ["what was done", "how often", "what clients saw"],
            [
                [
                    "`kill -9` under load, at random moments",
                    str(kill["kills"]),
                    f"{kill['answers']:,} answers, {kill['repeated']:,} requests repeated, {kill['differences']} "
                    "differences from a server that was never killed",
                ],
                [
                    "disk filled to the last byte, and emptied",
                    str(full["filled"]),
                    f"{full['answers']:,} answers, {full['repeated']:,} requests repeated, {full['differences']} "
                    "differences",
                ],
                [
                    "requests made from the OpenAPI document, most of them wrong",
                    f"{bad['requests']:,}",
                    f"by status: {shown}; slowest {bad['slowest_seconds']:.1f} s",
                ],
            ],
        ),
        "load": _load_table(report["load"]),
        "soak": _table(
            ["soak", "figure"],
            [
                ["length, streams", f"{soaked['minutes']:g} minutes, {soaked['streams']}"],
                ["rows, requests", f"{soaked['rows']:,}, {soaked['requests']:,}"],
                ["failed requests, rows lost", f"{soaked['failures']}, {soaked['rows_not_kept']}"],
                ["latency of single rows, p50 and p99", f"{soaked['p50_ms']:.1f} ms, {soaked['p99_ms']:.1f} ms"],
                [
                    "memory after a third, at the end",
                    f"{memory['after a third']:.0f} MiB, {memory['at the end']:.0f} MiB",
                ],
                ["size of the file", f"{soaked['file_MiB']:.0f} MiB"],
            ],
        ),
    }


def _load_table(found: dict[str, Any]) -> str:
    names = {
        "echo": "echo",
        "river": "River",
        "KRLST": "KRLST",
        "KRLST, a stream each": "KRLST, a stream for each client",
        "auto": "auto",
        "auto, building": "auto, building",
    }
    rows = []
    for name, label in names.items():
        for batch in dict.fromkeys(key.partition(", ")[0] for key in found.get(name, {})):
            alone, cell = (found[name].get(f"{batch}, {clients}") for clients in (1, 8))
            rows.append(
                [
                    label,
                    batch,
                    "" if alone is None else f"{alone['rows_per_second']:,.0f}",
                    f"{cell['rows_per_second']:,.0f}",
                    f"{cell['p50_ms']:.1f}, {cell['p99_ms']:.1f} ms",
                    f"{cell['processor_us_per_row']:,.0f} µs",
                ]
            )
    head = ["server", "batch", "rows a second, 1 client", "8 clients", "p50, p99", "processor time a row"]
    return _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# What each table of the page shows, and how it is called there.
SHOWN = {
    "promises": {"kills": "`kill -9`", "disk": "Full disk", "malformed": "Wrong requests"},
    "load": {"load": ""},
    "soak": {"soak": ""},
}


def page_with(page: str, report: dict[str, Any]) -> str:
    """The page with the tables of these results."""
    for name, table in rendered(report).items():
        places = " ".join(measured_on(report[part], what) for part, what in SHOWN[name].items())
        block = f"<!-- {name} of the server -->\n\n{table}\n\n{places}\n\n<!-- end -->"
        page = re.sub(f"<!-- {name} of the server -->.*?<!-- end -->", lambda _, b=block: b, page, flags=re.DOTALL)
    return page


PARTS = {"kills": kills, "disk": disk, "malformed": malformed, "load": load, "soak": soak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--minutes", type=float, default=SOAK_MINUTES, help="of the soak")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), help="of the load")
    parser.add_argument("--render", action="store_true", help="write the tables only")
    arguments = parser.parse_args()
    report: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in () if arguments.render else arguments.parts or PARTS:
        found = PARTS[name](*{"soak": [arguments.minutes], "load": [arguments.models]}.get(name, []))
        print(name, json.dumps(found, indent=1), flush=True)
        report = json.loads(FILE.read_text()) if FILE.exists() else {}
        place = environment(*PACKAGES)
        write(FILE, report | place | {name: found | place})
    if PAGE.exists() and set(PARTS) <= report.keys() | set(arguments.parts or PARTS):
        PAGE.write_text(page_with(PAGE.read_text(), json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()

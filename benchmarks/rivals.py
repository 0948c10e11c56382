"""The rivals people would pick, on streams on which nothing was chosen: one protocol for all, rivals_protocol.toml.

    python benchmarks/rivals.py run --out FOLDER [--jobs 16] [--minutes 9] [--only NAME ...] [--streams NAME ...]
    python benchmarks/rivals.py run --quick --out FOLDER
    python benchmarks/rivals.py render [--out FOLDER]
    python benchmarks/rivals.py pack FILE

``run`` starts one process for each stream and contestant and writes one file for each; a run that was stopped goes on
with the missing ones. ``--quick`` takes the first 300 rows, which the protocol does not score, and scores them from row
150 on: it shows that everything runs, and its numbers mean nothing. ``render`` gathers a folder into
benchmarks/results/rivals.json and writes the tables of README.md and docs/rivals.md; without a folder the tables only.
``pack`` writes all streams to one file, which the environment variable RIVALS_STREAMS may name on another machine.

The streams need STREAMGP_DATA (docs/data.md) and the packages river and vega_datasets. A contestant whose package
is not installed is left out: lightgbm, river, scikit-learn, gpytorch, skaters, statsforecast, prophet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

import rivals_contestants
from record import RESULTS, blas, environment, write
from rivals_contestants import Contestant, contestants, quiet, takes
from rivals_scores import scored
from rivals_streams import PROTOCOL, PROTOCOL_FILE, TASK, Stream, stream

PACKAGES = {
    "streamgp": (),
    "naive": (),
    "LightGBM": ("lightgbm",),
    "River": ("river",),
    "scikit-learn": ("sklearn",),
    "GPyTorch": ("gpytorch", "torch"),
    "skaters": ("skaters",),
    "statsforecast": ("statsforecast",),
    "Prophet": ("prophet",),
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
# About how long a row takes, in milliseconds: long runs start first.
WEIGHTS = {"MSTL": 120, "River SRP": 20, "AutoARIMA": 25, "GPyTorch exact": 10, "GPyTorch SVGP": 10, "Prophet": 10}
MADE_UP = 520  # rows of the run before the clock starts
QUICK_ROWS, QUICK_FROM = 300, 150
OVER = f"took more than {TASK['limit_seconds']} s of processor time"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def protocol_hash() -> str:
    return hashlib.sha256(PROTOCOL_FILE.read_bytes()).hexdigest()


class Job(NamedTuple):
    """One contestant on one stream."""

    stream: str
    contestant: Contestant
    rows: int

    def path(self, folder: Path) -> Path:
        words = f"{self.stream} {self.contestant.title}"
        return folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', words).strip('-')}.json"

    @property
    def weight(self) -> float:
        return WEIGHTS.get(self.contestant.name, 3) * self.rows


def jobs_of(names: list[str], only: list[str]) -> Iterator[Job]:
    """All runs of the protocol, or those of some streams and contestants; absent packages are left out, and named."""
    absent = {
        family for family, packages in PACKAGES.items() if any(find_spec(package) is None for package in packages)
    }
    for family in sorted(absent & {one.family for one in contestants()}):
        print(f"{family} is left out: {' or '.join(PACKAGES[family])} is not installed", flush=True)
    for name in names:
        data = stream(name)
        for one in contestants():
            if (
                (not only or one.name in only)
                and one.family not in absent
                and takes(one.name, data.alone, bool(data.seasons))
            ):
                yield Job(name, one, len(data.y))


# One run, in a process of its own.


def made_up(data: Stream, rows: int) -> Stream:
    """Rows like those of a stream, to compile and import before the clock starts."""
    rng = np.random.default_rng(0)
    t = np.arange(float(rows))
    X = rng.normal(size=(rows, min(data.X.shape[1], 2)))
    y = np.sin(2 * np.pi * t / 24) + np.cumsum(0.05 * rng.normal(size=rows)) + 0.1 * rng.normal(size=rows)
    if np.isnan(data.y).any():
        y[400:405] = np.nan
    return Stream(X, y, data.seasons)


def memory(field: str) -> float:
    """Resident memory in MiB: VmRSS now, VmHWM at its peak."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def forget_peak() -> bool:
    """Let the peak of the resident memory begin anew; not every system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def measure(job: Job, quick: bool) -> dict[str, Any]:
    data, first = stream(job.stream), TASK["scored_from"]
    if quick:
        data, first = data._replace(X=data.X[:QUICK_ROWS], y=data.y[:QUICK_ROWS]), QUICK_FROM
        rivals_contestants.FIRST = QUICK_FROM
    with quiet():
        job.contestant.predict(made_up(data, MADE_UP))
        held, began_anew = memory("VmRSS"), forget_peak()
        began = time.process_time()
        answer = job.contestant.predict(data)
        seconds = time.process_time() - began
        peak = memory("VmHWM")
        scores = scored(data.y, answer.said, first, PROTOCOL)
    predicted = len(data.y) - answer.first
    return {
        "seconds": seconds,
        "microseconds a row": 1e6 * seconds / predicted,
        "memory, MiB": max(peak - held, 0.0) if began_anew else None,
        "scores": scores,
        "failed": None if scores else "some predictions are no finite numbers",
    }


def rounded(value: Any) -> Any:
    """Six figures of every number."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def described(job: Job, quick: bool, found: dict[str, Any]) -> dict[str, Any]:
    packages = [DISTRIBUTIONS.get(package, package) for package in PACKAGES[job.contestant.family]]
    return {
        "stream": job.stream,
        "contestant": job.contestant.name,
        "form": job.contestant.form,
        "family": job.contestant.family,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "protocol": protocol_hash(),
        "quick": quick,
        "rows": job.rows,
        "environment": environment(*packages) | {"blas": blas()},
        **rounded(found),
    }


def run_one(name: str, title: str, folder: Path, quick: bool) -> None:
    limit = TASK["limit_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    one = next(one for one in contestants() if one.title == title)
    job = Job(name, one, len(stream(name).y))
    write(job.path(folder), described(job, quick, measure(job, quick)))


def compile_first() -> None:
    """Compile what streamgp needs for streams of every kind, once for all processes, which find it in the cache."""
    for inputs, seasons in ((2, ()), (0, (24,))):
        like = Stream(np.zeros((1, inputs)), np.zeros(1), seasons)
        with quiet():
            data = made_up(like, 1300)
            data.y[600:604] = np.nan
            for one in contestants():
                if one.family == "streamgp" and takes(one.name, data.alone, bool(seasons)):
                    one.predict(data)


# All runs.


def done(job: Job, folder: Path, quick: bool) -> bool:
    path = job.path(folder)
    if not path.exists():
        return False
    found = json.loads(path.read_text())
    ended = found["seconds"] is not None or found["failed"] == OVER  # others broke off: they are tried again
    return bool(ended and found["protocol"] == protocol_hash() and found["quick"] == quick)


class Process(NamedTuple):
    """A process, and the file that takes its complaints."""

    started: subprocess.Popen[bytes]
    complaints: IO[bytes]


def command(*words: str) -> Process:
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
    quietly = {"stdout": subprocess.DEVNULL, "stderr": complaints}
    environ = os.environ | dict.fromkeys(THREADS, "1")
    return Process(subprocess.Popen([sys.executable, __file__, *words], env=environ, **quietly), complaints)


def run(folder: Path, at_once: int, minutes: float, names: list[str], only: list[str], quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(jobs_of(names, only))
    waiting = sorted((job for job in asked if not done(job, folder, quick)), key=lambda job: -job.weight)
    print(f"{len(waiting)} of {len(asked)} runs, {at_once} at a time", flush=True)
    end = time.monotonic() + 60 * minutes
    running: dict[Process, Job | None] = {}
    compiling = None
    if any(job.contestant.family == "streamgp" for job in waiting):
        compiling = command("compile")
        running[compiling] = None
    while (waiting or running) and time.monotonic() < end:
        ours = [job for job in waiting if job.contestant.family == "streamgp"] if compiling is None else []
        others = [job for job in waiting if job.contestant.family != "streamgp"]
        while (ours or others) and len(running) < at_once:
            job = (ours or others).pop(0)
            waiting.remove(job)
            words = ["one", job.stream, job.contestant.title, str(folder), *(["--quick"] if quick else [])]
            running[command(*words)] = job
        time.sleep(0.1)
        for process in [process for process in running if process.started.poll() is not None]:
            job = running.pop(process)
            if job is None:
                compiling = None
                print(f"compiled: {process.started.returncode}", flush=True)
            else:
                finished(job, process, folder, quick)
    for process in running:
        process.started.kill()
    if waiting or running:
        print(
            f"time is up: {len(waiting) + len(running)} runs are left; the same command goes on with them", flush=True
        )


def finished(job: Job, process: Process, folder: Path, quick: bool) -> None:
    """Print how a run ended, and record it where it left no file itself."""
    status = process.started.returncode
    process.complaints.seek(0)
    said = process.complaints.read().decode(errors="replace").strip()
    if status and not done(job, folder, quick):
        ended = said.splitlines()[-1][:200] if status > 0 and said else f"ended with status {status}"
        failed = OVER if status == -signal.SIGXCPU else ended
        nothing = {"seconds": None, "microseconds a row": None, "memory, MiB": None, "scores": None}
        write(job.path(folder), described(job, quick, nothing | {"failed": failed}))
    found = json.loads(job.path(folder).read_text())
    seconds = "" if found["seconds"] is None else f"{found['seconds']:.1f} s"
    print(f"{job.stream}; {job.contestant.title}: {found['failed'] or ''} {seconds}", flush=True)


def gathered(folder: Path) -> dict[str, Any]:
    """All runs of a folder as one file of results."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise SystemExit(f"{folder} holds no results; first: python benchmarks/rivals.py run --out {folder}")
    if any(one["quick"] for one in found):
        raise SystemExit(f"{folder} holds results of a quick run, which mean nothing; run without --quick")
    if {one["protocol"] for one in found} != {protocol_hash()}:
        raise SystemExit(f"{folder} holds results of another protocol; run them anew")
    versions: dict[str, str] = {}
    for one in found:
        versions |= one["environment"]["versions"]
    order = list(PROTOCOL["streams"]), [one.title for one in contestants()]
    runs: dict[str, Any] = {name: {} for name in order[0]}
    kept = ("rows", "seconds", "microseconds a row", "memory, MiB", "failed", "scores")
    for one in found:
        title = f"{one['contestant']}, {one['form']}" if one["form"] else one["contestant"]
        runs[one["stream"]][title] = {key: one[key] for key in kept}
    return {
        "date": max(one["date"] for one in found),
        "first date": min(one["date"] for one in found),
        "protocol": protocol_hash(),
        "machine": " and ".join(sorted({one["environment"]["machine"] for one in found})),
        "blas": found[0]["environment"]["blas"],
        "versions": versions,
        "runs": {name: {title: of[title] for title in order[1] if title in of} for name, of in runs.items()},
    }


def text_of(results: dict[str, Any]) -> str:
    """JSON with one line for each run."""
    head = json.dumps({key: value for key, value in results.items() if key != "runs"}, indent=1)[:-2]
    parts = []
    for name, of in results["runs"].items():
        lines = ",\n".join(f"   {json.dumps(title)}: {json.dumps(found)}" for title, found in of.items())
        parts.append(f"  {json.dumps(name)}: {{\n{lines}\n  }}")
    return head + ',\n "runs": {\n' + ",\n".join(parts) + "\n }\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="measure what is missing in the folder")
    running.add_argument("--out", type=Path, required=True, help="folder of the runs")
    running.add_argument("--jobs", type=int, default=1, help="processes")
    running.add_argument("--minutes", type=float, default=1e6, help="stop after so many")
    running.add_argument(
        "--streams", nargs="+", default=list(PROTOCOL["streams"]), choices=list(PROTOCOL["streams"]), metavar="NAME"
    )
    running.add_argument("--only", nargs="+", default=[], choices=list(PROTOCOL["contestants"]), metavar="NAME")
    running.add_argument("--quick", action="store_true", help="few rows, to see that everything runs")
    rendering = commands.add_parser("render", help="write results and tables")
    rendering.add_argument("--out", type=Path, help="folder of the runs; nothing: only the tables")
    packing = commands.add_parser("pack", help="write all streams to one file")
    packing.add_argument("file", type=Path)
    commands.add_parser("compile", help="compile what streamgp needs; run does so itself")
    one = commands.add_parser("one", help="one run; run starts these")
    one.add_argument("stream")
    one.add_argument("contestant")
    one.add_argument("out", type=Path)
    one.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.out, asked.jobs, asked.minutes, asked.streams, asked.only, asked.quick)
    elif asked.command == "one":
        run_one(asked.stream, asked.contestant, asked.out, asked.quick)
    elif asked.command == "compile":
        compile_first()
    elif asked.command == "pack":
        from rivals_streams import pack

        pack(asked.file)
    else:
        import rivals_tables

        if asked.out is not None:
            (RESULTS / "rivals.json").write_text(text_of(gathered(asked.out)))
        rivals_tables.render()


if __name__ == "__main__":
    main()

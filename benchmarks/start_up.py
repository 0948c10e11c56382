"""Import and first calls in fresh processes, with an empty and with a filled cache of compiled code.

Writes benchmarks/results/start_up.json. Wall time: this is what one waits for.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from record import Record
from timing import figures

REPEATS = 7
MODELS = {"SOGP": "sg.SOGP()", "SOGP adapting": "sg.SOGP(adapt=sg.SNGD())", "KLMS": "sg.filters.KLMS()"}
IMPORTS = "import numpy, scipy.linalg, numba, safetensors.numpy"
STEPS = """
import json, time
seconds = {{}}
def lap(name):
    global start
    now = time.perf_counter()
    seconds[name] = now - start
    start = time.perf_counter()
start = time.perf_counter()
{imports}
lap("import of what it needs")
import streamgp as sg
lap("import of streamgp itself")
model = {build}
lap("first model")
model.learn_one([0.1] * 8, 0.5)
lap("first learn_one")
model.predict_one([0.2] * 8)
lap("first predict_one")
another = {build}
lap("second model")
model.learn_one([0.3] * 8, 0.5)
lap("second learn_one")
print(json.dumps(seconds))
"""


def process(build: str, cache: str) -> dict[str, float]:
    """Seconds of every step, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(imports=IMPORTS, build=build)],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def measure(build: str, repeats: int) -> dict[str, Any]:
    """Seconds with an empty cache (once), then with the cache which that process filled (medians)."""
    with tempfile.TemporaryDirectory() as cache:
        cold = process(build, cache)
        warm = [process(build, cache) for _ in range(repeats)]
    medians = {step: figures(statistics.median(run[step] for run in warm)) for step in cold}
    return {"cold": {step: figures(taken) for step, taken in cold.items()}, "warm": medians}


def main() -> None:
    record = Record("start_up", repeats=REPEATS)
    for name, build in MODELS.items():
        record.cell(name, measure, build, REPEATS)
    record.finish()


if __name__ == "__main__":
    main()

"""Models alone and in DriftAware: planted drift under five kinds of noise, six real streams and a switched channel.

Writes benchmarks/results/drift.json and the tables in docs/intervals.md; with --render only the tables, from the file.
The streams need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from streamgp.evaluate import rmse

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
from calibration import STREAMS as TABLES  # noqa: E402
from calibration import command, one_run, replaced  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "drift.json"
PAGE = ROOT / "docs" / "intervals.md"
BEGIN, END = "<!-- table of drift.py -->", "<!-- end of the table of drift -->"
PLANTED_BEGIN, PLANTED_END = "<!-- planted drift -->", "<!-- end of planted drift -->"
SKIP = 500

# Planted drift: where the function changes. The detector was chosen with seeds 0 and 1.
ROWS, SEEDS = 6000, (10, 11, 12)
CHANGES = {
    "none": (),
    "abrupt": (2000, 4000),
    "abrupt, small": (2000, 4000),
    "gradual": (2000, 4000),
    "recurring": (1500, 3000, 4500),
}
GRADUAL = 500  # rows that a gradual change takes
WITHIN = 500  # rows within which a change, once complete, must be found


def noises(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Five kinds of noise, none of which is drift."""
    t, z = np.arange(ROWS), rng.normal(size=ROWS)
    wild = np.ones(ROWS)
    for start in np.flatnonzero(rng.random(ROWS) < 1 / 300):
        wild[start : start + rng.integers(5, 21)] = 10.0
    return {
        "Gaussian": 0.1 * z,
        "heavy-tailed (Student, 2)": 0.1 * rng.standard_t(2, ROWS),
        "bursts": 0.1 * wild * z,
        "seasonal variance": 0.1 * np.exp(np.sin(2 * np.pi * t / 500)) * z,
        "three times larger from the middle": 0.1 * np.where(t < ROWS // 2, 1.0, 3.0) * z,
    }


def surface(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """A random smooth function of two inputs, with a variance of about 1."""
    W, phase, size = rng.normal(size=(6, 2)), rng.uniform(0, 2 * np.pi, 6), rng.normal(size=6)
    values: np.ndarray = np.sin(X @ W.T + phase) @ size / np.sqrt(3.0)
    return values


def function(change: str, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    f = [surface(rng, X) for _ in range(3)]
    t, y = np.arange(ROWS), f[0]
    for k, start in enumerate(CHANGES[change], 1):
        new = f[k % 2] if change == "recurring" else f[0] + 0.3 * f[k] if change == "abrupt, small" else f[k]
        w = np.clip((t - start) / (GRADUAL if change == "gradual" else 1e-9), 0.0, 1.0)
        y = (1.0 - w) * y + w * new
    return y


def planted(change: str, seed: int) -> dict[str, dict[str, Any]]:
    """What DriftAware makes of one change, by kind of noise."""
    rng = np.random.default_rng([seed, list(CHANGES).index(change)])
    X = rng.uniform(-2, 2, (ROWS, 2))
    y = function(change, rng, X)
    return {kind: watched(change, X, y + noise) for kind, noise in noises(rng).items()}


def watched(change: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    alone = sg.Standardize(sg.KRLST(capacity=50, forgetting=1.0))
    aware = sg.DriftAware(alone.clone())
    errors = [np.abs(model.track(X, y).mean - y)[SKIP:].mean() for model in (alone, aware)]
    alarms = [event.row for event in aware.events if event.direction == "raised"]
    verdicts = [event.direction for event in aware.events if event.direction != "raised"]
    window = WITHIN + (GRADUAL if change == "gradual" else 0)
    delays, false = [], len(alarms)
    for start in CHANGES[change]:
        near = [i for i, row in enumerate(alarms) if start <= row < start + window]
        false -= len(near)
        delays += [alarms[i] - start for i in near if verdicts[i : i + 1] == ["kept"]][:1]
    return {"delays": delays, "false": false, "ratio": float(errors[1] / errors[0])}


def planted_drift() -> list[dict[str, Any]]:
    results = []
    for change, starts in CHANGES.items():
        runs = [planted(change, seed) for seed in SEEDS]
        for kind in runs[0]:
            found = [run[kind] for run in runs]
            results.append(
                {
                    "change": change,
                    "noise": kind,
                    "changes": len(starts) * len(SEEDS),
                    "delays": [delay for one in found for delay in one["delays"]],
                    "false_alarms": sum(one["false"] for one in found),
                    "rows": ROWS * len(SEEDS),
                    "ratio": float(np.exp(np.mean(np.log([one["ratio"] for one in found])))),
                }
            )
            print(results[-1], flush=True)
    return results


def channel_switch() -> tuple[np.ndarray, np.ndarray]:
    series = sg.data.channel_switch(3000, switch=1500, seed=10)
    return series.X, series.Y


STREAMS = {"channel_switch": channel_switch} | TABLES
MODELS: dict[str, Callable[[], sg.StreamModel]] = {
    "Standardize(KRLST(forgetting=1))": lambda: sg.Standardize(sg.KRLST(forgetting=1.0)),
    "Standardize(KRLST())": lambda: sg.Standardize(sg.KRLST()),
    "Standardize(ISSGPR(50))": lambda: sg.Standardize(sg.ISSGPR(50)),
}


def run(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    alone, aware = MODELS[name](), sg.DriftAware(MODELS[name](), history=10_000)
    errors = [rmse(y[SKIP:], model.track(X, y).mean[SKIP:]) for model in (alone, aware)]
    return {"model": name, "alone": errors[0], "aware": errors[1]} | Counter(e.direction for e in aware.events)


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "after": SKIP,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba")}
        | {"streamgp": sg.__version__},
        "planted": planted_drift(),
        "streams": {},
    }
    for name, load in STREAMS.items():
        X, y = load()
        report["streams"][name] = {"rows": len(y), "results": [run(model, X, y) for model in MODELS]}
        print(name, report["streams"][name], flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    """By stream and model: the RMSE over that of the model alone, the alarms, and those that were kept."""
    lines = [f"| stream | {' | '.join(f'`{model}`' for model in MODELS)} |", f"|{'---|' * (len(MODELS) + 1)}"]
    for name, stream in report["streams"].items():
        cells = [
            f"{result['aware'] / result['alone']:.2f} ({result.get('raised', 0)}, {result.get('kept', 0)})"
            for result in stream["results"]
        ]
        lines.append(f"| {name}, {stream['rows']} rows | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{one_run(report)}; seed 0, of the channel 10."])


def planted_table(report: dict[str, Any]) -> str:
    """By noise: hits, the median delay of each kind of change, false alarms and the gain over all of them."""
    changes = [change for change, starts in CHANGES.items() if starts]
    lines = [
        f"| noise | hits | {' | '.join(f'delay, {change}' for change in changes)} "
        "| false alarms, no change | with changes | error ratio |",
        f"|{'---|' * (len(changes) + 5)}",
    ]
    for noise in dict.fromkeys(one["noise"] for one in report["planted"]):
        found = {one["change"]: one for one in report["planted"] if one["noise"] == noise}
        changed, still = [found.pop(change) for change in changes], list(found.values())
        hits = f"{sum(len(one['delays']) for one in changed)} of {sum(one['changes'] for one in changed)}"
        delays = [f"{np.median(one['delays']):.0f}" for one in changed]
        rates = [
            f"{10_000 * sum(one['false_alarms'] for one in part) / sum(one['rows'] for one in part):.1f}"
            for part in (still, changed)
        ]
        gain = np.exp(np.mean(np.log([one["ratio"] for one in changed])))
        lines.append(f"| {' | '.join((noise, hits, *delays, *rates, f'{gain:.2f}'))} |")
    return "\n".join([*lines, "", f"{one_run(report)}."])


def page_with(text: str, report: dict[str, Any]) -> str:
    text = replaced(text, PLANTED_BEGIN, PLANTED_END, planted_table(report))
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)

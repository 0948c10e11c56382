"""A grid of hard settings, each run beside the quad-precision reference.

    python tests/precision/sweep.py --rows 5000 --settings 600 --jobs 2 --out sweep.jsonl
    python tests/precision/sweep.py --out sweep.jsonl --summary

A stopped run goes on where it was: settings that the file already has are not run again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import streamgp as sg
from tests.precision.quad import follow
from tests.precision.streams import STREAMS

SEED = 1
LIMIT = 1e-6  # of the targets' size: the promise
DEPTH = 4  # of the windows of OIESGP

GRID = {
    "novelty": (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 0.0),
    "noise": (1e-2, 1e-4, 1e-6, 1e-8),
    "variance": (1.0, 100.0, 1e6),
    "kernel": ("se", "se+linear", "matern", "periodic"),
    "lengthscale": (0.5, 1.0, 3.0),
    "stream": tuple(STREAMS),
    "recipe": (
        "sogp",
        "sogp sngd",
        "sogp kl",
        "sogp kl sngd",
        "sogp dtc",
        "sogp dtc sngd",
        "krls",
        "krlst",
        "krlst sngd",
        "krlst 0.999",
        "krlst 0.999 sngd",
        "oiesgp",
        "oiesgp sngd",
    ),
    "capacity": (15, 20, 25),
}


def setting(index: int) -> dict:
    """Setting `index` of the sample: every level of a factor comes equally often, in an order of its own."""
    chosen = {"index": index}
    for position, (name, levels) in enumerate(GRID.items()):
        block, place = divmod(index, len(levels))
        order = np.random.default_rng([SEED, position, block]).permutation(len(levels))
        chosen[name] = levels[order[place]]
    if chosen["recipe"].startswith("oiesgp"):
        chosen["kernel"] = "recursive"  # its own
    return chosen


def kernel_of(chosen: dict):
    lengthscale, variance = chosen["lengthscale"], chosen["variance"]
    if chosen["kernel"] == "periodic":
        return sg.Periodic(period=5.0, lengthscale=lengthscale, variance=variance)
    if chosen["kernel"] == "matern":
        return sg.Matern(2.5, lengthscale=lengthscale, variance=variance)
    smooth = sg.SquaredExponential(lengthscale=lengthscale, variance=variance)
    return smooth if chosen["kernel"] == "se" else smooth + sg.LinearKernel(variance)


def build(chosen: dict):
    """The model of a setting."""
    recipe, *options = chosen["recipe"].split()
    common = {"capacity": chosen["capacity"], "noise": chosen["noise"]}
    if recipe != "krls":
        common["adapt"] = sg.SNGD() if "sngd" in options else None
    if recipe == "oiesgp":
        common |= {"lengthscale": chosen["lengthscale"], "variance": chosen["variance"]}
        return sg.OIESGP(depth=DEPTH, novelty=chosen["novelty"], **common)
    common["kernel"] = kernel_of(chosen)
    if recipe == "krls":
        return sg.KRLS(novelty=chosen["novelty"], **common)
    if recipe == "krlst":
        # It admits every row; what novelty is to the others, its jitter is here.
        jitter = min(chosen["novelty"], 1e-6)
        return sg.KRLST(forgetting=0.999 if "0.999" in options else 1.0, jitter=jitter, **common)
    return sg.SOGP(
        novelty=chosen["novelty"],
        removal="kl" if "kl" in options else "marginal",
        absorb="dtc" if "dtc" in options else "fitc",
        **common,
    )


def first(condition: np.ndarray) -> int | None:
    """The first row where it holds."""
    return int(np.argmax(condition)) if condition.any() else None


def measure(chosen: dict, rows: int, *, inherent: bool = False) -> dict:
    """Run one setting beside the reference and say how it went."""
    result = {"setting": chosen, "rows": rows}
    X, y = STREAMS[chosen["stream"]](rows, chosen["index"])
    size = float(np.abs(y).max())
    begin = time.perf_counter()
    try:
        followed = follow(build(chosen), X, y, inherent=inherent)
    except (ValueError, ArithmeticError) as refused:
        return result | {"refused": f"{type(refused).__name__}: {refused}"}
    mean, variance = followed.mean, followed.variance
    known = np.isfinite(followed.reference_mean)
    error = np.where(known, np.abs(mean - followed.reference_mean) / size, 0.0)
    variance_error = np.where(known, np.abs(variance - followed.reference_variance) / followed.prior, 0.0)
    bad = ~(np.isfinite(mean) & np.isfinite(variance))
    error[bad], variance_error[bad] = np.inf, np.inf
    wrong, repaired = first(error > LIMIT), first(followed.repairs > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(followed.prior > 0, variance / followed.prior, np.where(variance == 0, 0.0, np.inf))
    if inherent:  # rows that rounded kernel values cannot follow even in quad are left out
        lost = np.abs(followed.inherent - followed.reference_mean) / size
        result |= {"inherent": worst(lost[np.isfinite(lost)]), "inherent_rows": int(np.isfinite(lost).sum())}
    return result | {
        "not_finite": int(bad.sum()),
        "largest_mean": worst(np.abs(mean) / size),
        "largest_reference_mean": worst(np.abs(followed.reference_mean[known]) / size),
        "least_variance": -worst(-variance),
        "most_variance": worst(ratio[known]),
        "error": worst(error),
        "first_wrong": wrong,
        "variance_error": worst(variance_error),
        "repairs": int(followed.repairs[-1]),
        "first_repair": repaired,
        "silent": wrong is not None and (repaired is None or repaired > wrong),
        "evictions": followed.evictions,
        "moves": followed.moves,
        "reference_failure": followed.failure,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def worst(values: np.ndarray) -> float:
    """The largest, where not a number is larger than any; JSON takes it as a large number."""
    return float(min(np.max(np.nan_to_num(values, nan=1e300, posinf=1e300, neginf=-1e300), initial=-1e300), 1e300))


def largest_mean_allowed(result: dict) -> float:
    """20 times the targets' size, or what exact arithmetic says: a model told of far less noise than there is may."""
    return max(20.0, 1.001 * result["largest_reference_mean"])


def faults(result: dict) -> list[str]:
    """What a result breaks of the promise: finite, bounded, the variance within the prior's, the mean right."""
    if "refused" in result:
        return ["refused"]
    found = []
    if result["reference_failure"]:
        found.append("no reference")
    if result["not_finite"]:
        found.append("not finite")
    if result["largest_mean"] > largest_mean_allowed(result):
        found.append("mean exploded")
    if result["least_variance"] < 0 or result["most_variance"] > 1 + 1e-9:
        found.append("variance out of range")
    if result["error"] > LIMIT:
        found.append("mean off")
    if result["silent"]:
        found.append("silent")
    return found


def finished(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _measure(task: tuple[int, int, bool]) -> dict:
    index, rows, inherent = task
    return measure(setting(index), rows, inherent=inherent)


def run(indices: list[int], rows: int, jobs: int, *, inherent: bool = False):
    """Yield the results as they come; new processes, so that compiled code and threads do not mix."""
    tasks = [(index, rows, inherent) for index in indices]
    if jobs == 1:
        yield from map(_measure, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_measure, tasks)


def summary(results: list[dict]) -> str:
    lines = [f"{len(results)} settings, {sum(r.get('seconds', 0) for r in results):.0f} s"]
    counts = Counter(fault for result in results for fault in faults(result))
    lines += [f"  {fault:24s}{count:6d}" for fault, count in counts.most_common()]
    measured = [result for result in results if "refused" not in result]
    errors = np.array([result["error"] for result in measured] or [0.0])
    lines += [f"  error above {10.0**e:5.0e}      {np.sum(errors > 10.0**e):6d}" for e in range(-12, -2)]
    lines += [f"  with repairs            {sum(result['repairs'] > 0 for result in measured):6d}", ""]
    for name in ("recipe", "stream", "kernel", "novelty", "noise", "variance"):
        lines.append(f"{name:20s}{'settings':>10s}{'at fault':>10s}{'worst error':>14s}{'median':>10s}")
        for level in dict.fromkeys(result["setting"][name] for result in measured):
            chosen = [result for result in measured if result["setting"][name] == level]
            some = np.array([result["error"] for result in chosen])
            at_fault = sum(bool(faults(result)) for result in chosen)
            lines.append(f"  {level!s:18s}{len(chosen):10d}{at_fault:10d}{some.max():14.1e}{np.median(some):10.1e}")
    lines += ["", "the worst 20:"]
    for result in sorted(measured, key=lambda r: (bool(faults(r)), r["error"]), reverse=True)[:20]:
        chosen = result["setting"]
        words = " ".join(
            f"{name}={value:g}" if isinstance(value, float) else str(value)
            for name, value in chosen.items()
            if name not in ("index", "capacity")
        )
        inherent = f", inherent {result['inherent']:.1e}" if "inherent" in result else ""
        lines.append(
            f"  {chosen['index']:4d} error {result['error']:.1e} from {result['first_wrong']}, variance "
            f"{result['variance_error']:.1e}, largest mean {result['largest_mean']:.1e}, repairs {result['repairs']} "
            f"from {result['first_repair']}{inherent}: {words} "
            f"{', '.join(faults(result))} {result['reference_failure']}"
        )
    lines += [f"  {r['setting']['index']:4d} {r['refused']}" for r in results if "refused" in r]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run hard settings beside a quad-precision reference.")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--settings", type=int, default=600, help="how many of the grid's settings")
    parser.add_argument("--only", type=int, nargs="*", help="these indices instead")
    parser.add_argument("--inherent", action="store_true", help="measure what rounded kernel values alone would lose")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one for each setting; continued if there")
    parser.add_argument("--summary", action="store_true", help="print what the file says and run nothing")
    asked = parser.parse_args()
    if not asked.summary:
        done = {result["setting"]["index"] for result in finished(asked.out) if result["rows"] == asked.rows}
        wanted = range(asked.settings) if asked.only is None else asked.only
        todo = [index for index in wanted if index not in done]
        with asked.out.open("a") as file:
            for count, result in enumerate(run(todo, asked.rows, asked.jobs, inherent=asked.inherent), 1):
                file.write(json.dumps(result) + "\n")
                file.flush()
                if found := faults(result):
                    print(f"{count}/{len(todo)}: setting {result['setting']['index']}: {', '.join(found)}", flush=True)
    print(summary(finished(asked.out)))


if __name__ == "__main__":
    main()

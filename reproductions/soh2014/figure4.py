"""Fig. 4: online hyperparameters on NARMA-10 with two irrelevant inputs (section V-B).

Start: lengthscales 10, temporal lengthscale 1.01, variance 1, noise 0.0228 where the truth is 0.01. The first 80% of
100 000 rows are learnt, the last 20% predicted without learning and scored against the noise-free output.
``python reproductions/soh2014/figure4.py --rows 100000``
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import tomllib
from pathlib import Path

import matplotlib as mpl
import numpy as np

import streamgp as sg

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ADAPT = {
    "fixed": None,
    "rebase": sg.SNGD(),
    "rebuild": sg.SNGD(on_move="rebuild"),
}


def run(adapt: sg.SNGD | None, rows: int, seed: int) -> tuple[dict[str, object], dict[str, np.ndarray] | None]:
    series = sg.data.narma10(rows, seed=seed, noise_std=0.1, irrelevant=2)
    model = sg.OIESGP(20, [10.0, 10.0, 10.0], 1.01, 1.0, capacity=100, noise=0.0228, adapt=adapt)
    learnt = int(0.8 * rows)
    start = time.perf_counter()
    model.learn_many(series.X[:learnt], series.Y[:learnt])
    seconds = time.perf_counter() - start
    p = model.track(series.X[learnt:])
    truth = series.truth[learnt:]
    found = {name: np.round(value, 5).tolist() for name, value in model.hyperparameters.items()}
    scores = {
        "rmse": float(np.sqrt(np.mean((p.mean - truth) ** 2))),
        "log_likelihood": float(np.mean(p.log_density(truth))),
        "hyperparameters": found,
        "reduced_steps": model.health.reduced_steps,
        "seconds": round(seconds, 1),
    }
    return scores, None if adapt is None else model.trace


def plot(traces: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    figure, axes = plt.subplots(4, 1, figsize=(9, 10), sharex=True, layout="constrained")
    for name, trace in traces.items():
        style = "-" if name == "rebase" else ":"
        for i, colour in enumerate(("tab:blue", "tab:orange", "tab:green")):
            label = f"input {i + 1}, {name}"
            axes[0].semilogy(trace["row"], trace["lengthscale"][:, i], style, color=colour, label=label)
        axes[1].plot(trace["row"], trace["temporal_lengthscale"], style, color="k", label=name)
        axes[2].semilogy(trace["row"], trace["noise"], style, color="k", label=name)
        axes[3].plot(trace["row"], trace["log_density"], style, color="k", lw=0.8, label=name)
    axes[2].axhline(0.01, color="tab:red", lw=1, label="true noise")
    for axis, title in zip(axes, ("lengthscales", "temporal lengthscale", "noise", "running log density"), strict=True):
        axis.set_title(title)
        axis.legend(ncols=3, frameon=False)
    axes[3].set_xlabel("row")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    scores, traces = {}, {}
    for name, adapt in ADAPT.items():
        scores[name], trace = run(adapt, arguments.rows, arguments.seed)
        if trace is not None:
            traces[name] = trace
        print(name, json.dumps(scores[name]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    report = {"rows": arguments.rows, "seed": arguments.seed, "machine": platform.machine(), "scores": scores}
    (RESULTS / "figure4.json").write_text(json.dumps(report, indent=1) + "\n")
    plot(traces, RESULTS / "figure4.png")
    expected = tomllib.loads((HERE / "expected.toml").read_text())["figure4"]
    print("paper:", json.dumps(expected))


if __name__ == "__main__":
    main()

"""Track a noisy chaotic series one step ahead: every row is predicted before it is learnt."""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib as mpl
import numpy as np

import streamgp as sg

mpl.use("Agg")
import matplotlib.pyplot as plt

ROWS, SHOWN = 20_000, 300


def main() -> None:
    print("streamgp demo: the Mackey-Glass series, observed with noise, predicted one step ahead")
    series = sg.data.mackey_glass(ROWS, seed=1)
    start = time.perf_counter()
    model = sg.OIESGP(depth=20, lengthscale=5.0, temporal_lengthscale=1.01, capacity=100, noise=0.0025)
    ready = time.perf_counter()
    p = model.track(series.X, series.Y)
    end = time.perf_counter()

    last = slice(ROWS // 2, None)
    low, high = p.interval(0.9)
    inside = np.mean((low <= series.Y) & (high >= series.Y))
    persistence = np.sqrt(np.mean((series.X[last, 0] - series.truth[last]) ** 2))
    rmse = np.sqrt(np.mean((p.mean[last] - series.truth[last]) ** 2))
    print(f"  model             {model!r}")
    print(f"  compiled, loaded  {ready - start:.1f} s (the first time on a machine takes a minute or two)")
    print(f"  rows              {model.rows_seen} in {end - ready:.2f} s, {1e6 * (end - ready) / ROWS:.0f} us a row")
    print(f"  basis points      {model.size} of {ROWS} rows")
    print(f"  RMSE, second half {rmse:.4f} against the noise-free series (last value as prediction: {persistence:.4f})")
    print(f"  90% intervals     hold {100 * inside:.1f}% of the observations, all predicted before they were seen")
    print(f"  log density       {np.mean(p.log_density(series.Y)[last]):.3f} per row")
    print(f"  memory length     {model.relevance().memory:.1f} steps, as the temporal lengthscale implies")
    print(f"  repairs           {model.health.repairs}")

    out = Path("out")
    out.mkdir(exist_ok=True)
    t = np.arange(ROWS)[-SHOWN:]
    figure, axes = plt.subplots(2, 1, figsize=(10, 6), layout="constrained", height_ratios=[2, 1])
    axes[0].fill_between(t, low[-SHOWN:], high[-SHOWN:], color="tab:blue", alpha=0.2, lw=0, label="90% interval")
    axes[0].plot(t, series.Y[-SHOWN:], ".", ms=4, color="0.5", label="observed")
    axes[0].plot(t, series.truth[-SHOWN:], color="k", lw=1, label="noise-free")
    axes[0].plot(t, p.mean[-SHOWN:], color="tab:blue", lw=1.5, label="predicted one step ahead")
    axes[0].set(title="The last rows of the stream", xlabel="row", ylabel="value", xlim=(t[0], t[-1]))
    axes[0].legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    window = 500
    running = np.sqrt(np.convolve((p.mean - series.truth) ** 2, np.ones(window) / window, mode="valid"))
    axes[1].semilogy(np.arange(window - 1, ROWS), running, color="tab:blue")
    axes[1].axhline(persistence, color="0.5", ls="--", lw=1)
    axes[1].annotate("last value", (ROWS, persistence), ha="right", va="top", color="0.4")
    axes[1].set(title=f"RMSE over the last {window} rows", xlabel="row", ylabel="RMSE", xlim=(0, ROWS))
    figure.savefig(out / "demo.png", dpi=120)
    model.save(out / "demo.sgp")
    print(f"  plot, model       {out / 'demo.png'}, {out / 'demo.sgp'}")


if __name__ == "__main__":
    main()

"""The code of docs/tutorials/late-load.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)
hours = 24 * 7 * 16
h = np.arange(hours)
temperature = 8 + 6 * np.sin(2 * np.pi * h / 24 / 60) + 4 * np.sin(2 * np.pi * (h - 9) / 24)
temperature += np.convolve(rng.standard_normal(hours + 47), np.ones(48) / 12, mode="valid")
weekend = (h // 24) % 7 >= 5
load = 300 + np.where(weekend, 40, 100) * np.sin(np.pi * np.clip((h % 24 - 5) / 17, 0, 1))
load += 6 * np.maximum(15 - temperature, 0) + 8 * rng.standard_normal(hours)
load[24 * 70 :] += 60 * (h[24 * 70 :] % 24 >= 8)  # the factory

day, week = 2 * np.pi * h / 24, 2 * np.pi * h / 168
X = np.column_stack([np.sin(day), np.cos(day), np.sin(2 * day), np.cos(2 * day), weekend, temperature])
arrives = h + rng.integers(24, 60, hours)  # the hour in which a reading comes
arrives[rng.uniform(size=hours) < 0.05] += 24 * 5  # some take a week
arrives[rng.uniform(size=hours) < 0.02] = 10 * hours  # some never come

model = sg.Delayed(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=150, forgetting=0.998, noise=0.02))), pending=500)
coming = {}
mean, low, high = np.empty(hours), np.empty(hours), np.empty(hours)
for row in range(hours):
    for ticket, late in coming.pop(row, ()):
        model.resolve(ticket, load[late])
    p = model.issue(X[row])
    mean[row], (low[row], high[row]) = p.mean, p.interval()
    coming.setdefault(int(arrives[row]), []).append((p.ticket, row))

seasonal = np.concatenate([np.full(168, load[:168].mean()), load[:-168]])  # the value a week ago, known in time
after = slice(24 * 14, None)
for name, predicted in {"streamgp": mean, "a week ago": seasonal}.items():
    print(f"{name:10} RMSE {np.sqrt(np.mean((predicted - load)[after] ** 2)):5.1f}")
print(f"coverage {np.mean((low <= load) & (load <= high)):.3f}, waiting {model.pending}, expired {model.expired}")

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), layout="constrained", height_ratios=[1.4, 1])
shown = slice(24 * 66, 24 * 78)
top.fill_between(h[shown] / 24, low[shown], high[shown], color="tab:blue", alpha=0.25, lw=0, label="90% interval")
top.plot(h[shown] / 24, load[shown], ".", ms=3, color="0.5", label="load")
top.plot(h[shown] / 24, mean[shown], color="tab:blue", lw=1.2, label="predicted")
top.axvline(70, color="0.3", lw=1, ls=":")
top.set(xlabel="day", ylabel="load (MW)", title="a factory opens on day 70; its first readings come on day 71")
top.legend(ncols=3, loc="lower left", frameon=False)
days = np.arange(7, hours // 24)
for name, predicted, color in (("streamgp", mean, "tab:blue"), ("a week ago", seasonal, "tab:orange")):
    errors = np.sqrt(np.mean((predicted - load).reshape(-1, 24) ** 2, axis=1))
    bottom.plot(days, errors[7:], color=color, label=name)
bottom.set(xlabel="day", ylabel="RMSE of a day (MW)", ylim=(0, None))
bottom.legend(ncols=2, frameon=False)
figure.savefig("late-load.png", dpi=110)

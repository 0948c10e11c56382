"""The code of docs/tutorials/fleet.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)
days, meters = 40, 300
hour = np.arange(24 * days)
base = rng.uniform(0.2, 0.5, meters)  # kW
peak, width, height = rng.uniform(17, 21, meters), rng.uniform(2, 4, meters), rng.uniform(0.5, 1.5, meters)


def usage(hour):
    away = np.abs((hour[:, None] - peak + 12) % 24 - 12)  # hours from the evening's peak
    return base + height * np.exp(-0.5 * (away / width) ** 2)


load = usage(hour) * (1 + 0.1 * rng.standard_normal((len(hour), meters)))
broken = {40: "half", 120: "noisy", 220: "clock"}
late = hour >= 24 * 25
load[late, 40] *= 0.5
load[late, 120] += 0.5 * rng.standard_normal(late.sum())
load[late, 220] = usage(hour[late] + 6)[:, 220]

clock = 2 * np.pi * hour / 24
X = np.repeat(np.column_stack([np.sin(clock), np.cos(clock)])[:, None], meters, axis=1)
recipe = sg.SOGP(capacity=15, lengthscale=0.5, noise=0.01)
fleet = sg.Fleet(recipe, size=meters)
p = fleet.track(X, load)
print(f"{fleet.size} models, {load.size} rows predicted and learned")

z2 = (((load - p.mean) / p.std) ** 2).reshape(days, 24, meters).mean(axis=1)
score = np.ones((days, meters))
for day in range(5, days):
    score[day] = z2[day] / np.median(z2[2:day], axis=0)
for meter in np.flatnonzero((score > 5).any(axis=0)):
    above = np.flatnonzero(score[:, meter] > 5)
    planted = broken.get(int(meter), "nothing")
    print(f"meter {meter}: above the line on {len(above)} days, first on day {above[0]}; planted: {planted}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=[1, 1.3])
shown = left.imshow(score.T, aspect="auto", cmap="magma_r", vmin=0, vmax=10, interpolation="nearest")
left.set(xlabel="day", ylabel="meter", title="errors of a day beside the meter's usual ones")
figure.colorbar(shown, ax=left, label="score")
rows = slice(24 * 23, 24 * 28)
right.fill_between(
    hour[rows] / 24,
    (p.mean - 1.6 * p.std)[rows, 220],
    (p.mean + 1.6 * p.std)[rows, 220],
    color="tab:blue",
    alpha=0.25,
    lw=0,
)
right.plot(hour[rows] / 24, p.mean[rows, 220], color="tab:blue", lw=1.2)
right.plot(hour[rows] / 24, load[rows, 220], ".", ms=4, color="0.4")
right.axvline(25, color="0.3", lw=1, ls=":")
right.set(xlabel="day", ylabel="kW", title="meter 220: its clock slips on day 25")
figure.savefig("fleet.png", dpi=110)

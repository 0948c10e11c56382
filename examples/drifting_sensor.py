"""The code of docs/tutorials/drifting-sensor.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)
n = 6000
t = np.arange(n)
gas = 40 + 20 * np.sin(2 * np.pi * t / 144) + np.convolve(rng.standard_normal(n + 99), np.ones(100) / 5, mode="valid")
temperature = 15 + 8 * np.sin(2 * np.pi * (t - 40) / 144) + rng.standard_normal(n)
sensitivity = np.where(t < 4000, 1.0 - 0.3 * t / 4000, 1.1)  # it fades; then a new sensor
volts = sensitivity * (0.5 + 0.02 * gas) * (1 + 0.01 * (temperature - 15)) + 0.01 * rng.standard_normal(n)
reference = np.where(rng.uniform(size=n) < 0.2, gas + 0.5 * rng.standard_normal(n), np.nan)
X = np.column_stack([volts, temperature])

models = {
    "SOGP": sg.Standardize(sg.SOGP(capacity=60, noise=0.01)),
    "SOGP, drift aware": sg.DriftAware(sg.Standardize(sg.SOGP(capacity=60, noise=0.01)), trial=100),
}
found = {}
for name, inner in models.items():
    model = sg.Calibrated(inner)
    found[name] = model.track(X, reference)
    error = found[name].mean - gas
    print(f"{name:18} RMSE of rows 500 to 4000: {np.sqrt(np.mean(error[500:4000] ** 2)):.2f}", end=", ")
    print(f"after the replacement: {np.sqrt(np.mean(error[4200:] ** 2)):.2f}")
print([(event.row, event.direction) for event in model.inner.events])

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
low, high = found["SOGP, drift aware"].interval()
shown = slice(3800, 4700)
top.fill_between(t[shown], low[shown], high[shown], color="tab:blue", alpha=0.25, lw=0, label="90% interval")
top.plot(t[shown], reference[shown], ".", ms=5, color="0.3", label="reference")
top.plot(t[shown], found["SOGP, drift aware"].mean[shown], color="tab:blue", lw=1, label="drift aware")
top.plot(t[shown], found["SOGP"].mean[shown], color="tab:orange", lw=1, label="without")
top.set(ylabel="concentration (µg/m³)", ylim=(0, 95))
top.legend(ncols=4, frameon=False, loc="upper left")
for name, color in (("SOGP, drift aware", "tab:blue"), ("SOGP", "tab:orange")):
    error = np.convolve((found[name].mean - gas) ** 2, np.ones(100) / 100)[:n]
    bottom.plot(t[shown], np.sqrt(error[shown]), color=color, lw=1.2)
bottom.set(xlabel="row", ylabel="RMSE over 100 rows", ylim=(0, None))
for axis in (top, bottom):
    axis.axvline(4000, color="0.3", lw=1, ls=":")
figure.savefig("drifting-sensor.png", dpi=110)

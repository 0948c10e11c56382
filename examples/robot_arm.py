"""The code of docs/tutorials/robot-arm.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg


def rigid_body(q, v, a, load):
    """Torques of two links of 1 m and 1 kg; a load makes the second one heavier."""
    m1, m2, g = 1.0, 1.0 + load, 9.81
    c, s = np.cos(q[:, 1]), np.sin(q[:, 1])
    gravity = g * m2 / 2 * np.cos(q[:, 0] + q[:, 1])
    first = (m1 / 3 + m2 * (4 / 3 + c)) * a[:, 0] + m2 * (1 / 3 + c / 2) * a[:, 1]
    first += g * (m1 / 2 + m2) * np.cos(q[:, 0]) + gravity - m2 * s * (v[:, 0] + v[:, 1] / 2) * v[:, 1]
    second = m2 * (1 / 3 + c / 2) * a[:, 0] + m2 / 3 * a[:, 1] + m2 * s * v[:, 0] ** 2 / 2 + gravity
    return np.column_stack([first, second])


rng = np.random.default_rng(0)
t = np.arange(6000) / 100  # one minute at 100 Hz
speed, size = np.array([[0.7, 1.1], [1.9, 1.3]]), np.array([[0.9, 0.8], [0.3, 0.4]])
angle = speed[:, None] * t[:, None] + rng.uniform(0, 6, (2, 1, 2))
q = np.sum(size[:, None] * np.sin(angle), axis=0)  # joint angles, velocities, accelerations
v = np.sum((size * speed)[:, None] * np.cos(angle), axis=0)
a = -np.sum((size * speed**2)[:, None] * np.sin(angle), axis=0)

load = np.where(t < 30, 0.0, 0.5)  # kg
friction = 0.8 * np.tanh(5 * v) + 0.3 * v
X = np.column_stack([q, v, a])
Y = rigid_body(q, v, a, load) + friction + 0.1 * rng.standard_normal((6000, 2))

model = sg.KRLST(capacity=150, forgetting=0.999, lengthscale=3.0, noise=1e-3, outputs="separate")
model = sg.Calibrated(sg.Standardize(model))
p = model.track(X, Y)  # predict each row, then learn it
low, high = p.interval()

data_sheet = rigid_body(q, v, a, 0.0)
for name, mean in {"data sheet": data_sheet, "learned": p.mean}.items():
    for begin, end in ((10, 30), (30, 33), (35, 60)):
        rmse = np.sqrt(np.mean((mean - Y)[100 * begin : 100 * end] ** 2, axis=0))
        print(f"{name:10} {begin} to {end} s: {rmse[0]:5.2f} {rmse[1]:5.2f} Nm")
print("coverage of 90% intervals:", np.mean((low <= Y) & (Y <= high), axis=0))

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), layout="constrained", height_ratios=[1.3, 1])
shown = slice(2960, 3120)
top.fill_between(t[shown], low[shown, 1], high[shown, 1], color="tab:blue", alpha=0.25, lw=0, label="90% interval")
top.plot(t[shown], Y[shown, 1], ".", ms=4, color="0.5", label="measured")
top.plot(t[shown], p.mean[shown, 1], color="tab:blue", lw=1.2, label="learned")
top.plot(t[shown], data_sheet[shown, 1], color="tab:red", lw=1.2, ls="--", label="data sheet")
top.set(xlabel="time (s)", ylabel="torque of joint 2 (Nm)", ylim=(2, 8))
top.legend(ncols=4, loc="upper left", frameon=False)
for name, mean, color in (("learned", p.mean, "tab:blue"), ("data sheet", data_sheet, "tab:red")):
    second = np.sqrt(np.mean((mean - Y)[:, 1].reshape(60, 100) ** 2, axis=1))
    bottom.semilogy(np.arange(60) + 0.5, second, color=color, label=name)
bottom.axhline(0.1, color="0.5", lw=1, ls="--")
bottom.set(xlabel="time (s)", ylabel="RMSE of a second (Nm)")
for axis in (top, bottom):
    axis.axvline(30, color="0.3", lw=1, ls=":")
figure.savefig("robot-arm.png", dpi=110)

"""The code of docs/tutorials/robot-arm.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg


def rigid_body(q, v, a, m1, m2):
    """Torques of two links of 1 m; a load makes the second one heavier."""
    g = 9.81
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
Y = rigid_body(q, v, a, 1.0, 1.0 + load) + friction + 0.1 * rng.standard_normal((6000, 2))

model = sg.KRLST(capacity=150, forgetting=0.999, lengthscale=3.0, noise=1e-3, outputs="separate")
model = sg.Calibrated(sg.Standardize(model))
p = model.track(X, Y)  # predict each row, then learn it
low, high = p.interval()

data_sheet = rigid_body(q, v, a, 1.0, 1.0)
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

def too_light(rows):
    return rigid_body(rows[:, :2], rows[:, 2:4], rows[:, 4:], 0.7, 0.7)


def per_kilogram(rows):
    """Torque of joint 1 for a kilogram of each link; of joint 2 for one of the second: the first does not matter."""
    first, second = (rigid_body(rows[:, :2], rows[:, 2:4], rows[:, 4:], *kg) for kg in ((1.0, 0.0), (0.0, 1.0)))
    return np.column_stack([first[:, 0], second])


names, start = ["link 1", "link 2", "link 2, joint 2"], [[0.7, 0.0], [0.7, 0.0], [0.0, 0.7]]  # of both joints
masses = sg.LinearMean(per_kilogram, names=names, start=start, variance=0.1)
settings = {"capacity": 150, "forgetting": 0.999, "noise": 0.01, "outputs": "separate"}
scale = X[:3000].std(axis=0)
starts = {
    "from nothing": sg.KRLST(lengthscale=3 * scale, variance=100.0, **settings),
    "mean=too_light": sg.KRLST(lengthscale=3 * scale, variance=10.0, mean=too_light, **settings),
    "mean=LinearMean": sg.KRLST(lengthscale=3 * scale, variance=1.0, mean=masses, **settings),
}
ahead = slice(200, 3000, 10)  # all that the arm will do with these masses
counts, off = np.arange(10, 201, 10), {name: [] for name in starts}
for name, model in starts.items():
    for n in counts:
        model.learn_many(X[n - 10 : n], Y[n - 10 : n])
        off[name].append(np.sqrt(np.mean((model.predict_many(X[ahead]).mean - Y[ahead]) ** 2)))
    told = ", ".join(f"{n}: {off[name][n // 10 - 1]:.2f}" for n in (10, 20, 50, 100, 200))
    print(f"{name:16} error in Nm of the next 28 s, by rows learned: {told}")
known = starts["mean=LinearMean"].mean_weights
for i, j in ((0, 0), (1, 0), (2, 1)):
    print(f"{known.names[i]:16} {known.mean[i, j]:.2f} kg, standard deviation {known.std[i, j]:.2f}")

figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
for (name, errors), color in zip(off.items(), ("tab:orange", "tab:red", "tab:blue"), strict=True):
    axis.plot(counts, errors, color=color, label=name)
axis.set(xlabel="rows learned", ylabel="RMSE of the next 28 s (Nm)", xlim=(0, 202), ylim=(0, 6))
axis.legend(ncols=3, loc="upper right", frameon=False)
figure.savefig("robot-arm-start.png", dpi=110)

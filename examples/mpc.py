"""The code of docs/tutorials/mpc.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import lsq_linear

import streamgp as sg

STEP, MOST = 0.05, 12.0  # seconds between rows; the largest torque in Nm


def rigid_body(rows):
    """The acceleration without friction, for rows (angle, velocity, torque)."""
    return rows[:, 2] - 9.81 * np.sin(rows[:, 0])


def real(angle, velocity, torque, time):
    """The real pendulum one row later, in small steps."""
    dry, wet = (1.0, 0.3) if time < 10 else (4.0, 0.8)
    for _ in range(20):
        friction = dry * np.tanh(5 * velocity) + wet * velocity
        velocity += STEP / 20 * (torque - 9.81 * np.sin(angle) - friction)
        angle += STEP / 20 * velocity
    return angle, velocity


def wanted(time):
    return 1.2 * np.sin(1.5 * time) + 0.5 * np.sin(2.6 * time)

AHEAD = 12
SMOOTH = 0.003 * np.diff(np.eye(AHEAD), axis=0)  # a little weight on jumps of the torque


def rolled_out(model, angle, velocity, plan):
    """The angles of a plan, and their derivatives by its torques, (steps, steps)."""
    by_angle, by_velocity = np.zeros(AHEAD), np.zeros(AHEAD)
    angles, slopes = np.empty(AHEAD), np.empty((AHEAD, AHEAD))
    for k, torque in enumerate(plan):
        p = model.predict_one([angle, velocity, torque], derivatives=True)
        of_angle, of_velocity, of_torque = p.mean_gradient
        by_velocity = by_velocity + STEP * (of_angle * by_angle + of_velocity * by_velocity)
        by_velocity[k] += STEP * of_torque
        by_angle = by_angle + STEP * by_velocity
        velocity += STEP * p.mean
        angle += STEP * velocity
        angles[k], slopes[k] = angle, by_angle
    return angles, slopes


def improved(model, angle, velocity, plan, target):
    """The plan after one Gauss-Newton step on the squared distances to the target."""
    angles, slopes = rolled_out(model, angle, velocity, plan)
    A = np.vstack([slopes, SMOOTH])
    b = np.concatenate([target - angles + slopes @ plan, np.zeros(AHEAD - 1)])
    return lsq_linear(A, b, (-MOST, MOST), method="bvls").x


def drive(learns):
    """Follow the wanted angle for 20 s: angles and torques."""
    rng = np.random.default_rng(0)
    model = sg.KRLST(
        lengthscale=[3.0, 0.7, 20.0], variance=9.0, noise=0.2, capacity=60, forgetting=0.997, mean=rigid_body
    )
    angle, velocity, plan, rows = 0.0, 0.0, np.zeros(AHEAD), []
    for t in STEP * np.arange(400):
        target = wanted(t + STEP * np.arange(1, AHEAD + 1))
        plan = improved(model, angle, velocity, np.append(plan[1:], plan[-1]), target)
        rows.append((angle, plan[0]))
        x, before = [angle, velocity, plan[0]], velocity
        angle, velocity = real(*x, t)
        if learns:
            model.learn_one(x, (velocity - before) / STEP + 0.3 * rng.standard_normal())
    return np.array(rows).T


t = STEP * np.arange(400)
runs = {"data sheet": drive(learns=False), "data sheet, and it learns": drive(learns=True)}
parts = {"before 10 s": (t > 2) & (t < 10), "after 10 s": t >= 10}
for name, (angles, _) in runs.items():
    off = [np.degrees(np.sqrt(np.mean((angles - wanted(t))[part] ** 2))) for part in parts.values()]
    print(f"{name:26}", ", ".join(f"{when}: off by {one:.2f} degrees" for when, one in zip(parts, off, strict=True)))

figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5.5), layout="constrained", sharex=True, height_ratios=[1, 1.2])
top.plot(t, np.degrees(wanted(t)), color="0.5", lw=3, alpha=0.5, label="wanted")
for (name, (angles, _)), color in zip(runs.items(), ("tab:red", "tab:blue"), strict=True):
    top.plot(t, np.degrees(angles), color=color, lw=1, label=name)
    bottom.plot(t, np.degrees(angles - wanted(t)), color=color, lw=1.2, label=name)
top.set(ylabel="angle (degrees)", ylim=(-110, 135))
top.legend(ncols=3, loc="upper left", frameon=False)
bottom.set(xlabel="time (s)", ylabel="error (degrees)", ylim=(-6, 6))
for axis in (top, bottom):
    axis.axvline(10, color="0.3", lw=1, ls=":")
bottom.text(10.1, 5.2, "the bearing begins to stick", color="0.3")
figure.savefig("mpc.png", dpi=110)

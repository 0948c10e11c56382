"""The code of docs/tutorials/demonstration.md, which explains it."""

import matplotlib.pyplot as plt
import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)


def demonstration():
    """Two rounds of a figure eight: positions (n, 2), in decimeters."""
    s = np.linspace(0, 4 * np.pi, 300) * rng.uniform(0.95, 1.05)
    scale = rng.uniform(0.95, 1.05, 2)
    path = np.column_stack([2 * np.sin(s), np.sin(2 * s)]) * scale
    wobble = rng.standard_normal((300, 2)).cumsum(axis=0)
    return path + 0.003 * wobble + 0.01 * rng.standard_normal((300, 2))


demonstrations = [demonstration() for _ in range(6)]

models = {
    "with memory (OIESGP)": sg.OIESGP(depth=10, lengthscale=1.0, temporal_lengthscale=1.5, noise=1e-3, capacity=150),
    "without (SOGP)": sg.SOGP(lengthscale=0.5, noise=1e-3, capacity=150),
}
SCALE = 10.0  # steps are short; in these units they are about one
for model in models.values():
    for path in demonstrations:
        model.reset_memory()
        model.learn_many(path[:-1], SCALE * np.diff(path, axis=0))

def repeat(model, start, rows):
    model = model.copy()
    model.reset_memory()
    path = [*start]
    for x in start[:-1]:
        model.observe_one(x)
    for _ in range(rows):
        step = model.predict_one(path[-1]).mean / SCALE
        model.observe_one(path[-1])
        path.append(path[-1] + step)
    return np.array(path)


start = demonstration()[:15]
repeated = {name: repeat(model, start, 400) for name, model in models.items()}
for name, path in repeated.items():
    everything = np.concatenate(demonstrations)
    distance = np.min(np.linalg.norm(path[:, None] - everything, axis=2), axis=1)
    width, height = np.ptp(path[150:], axis=0)
    print(f"{name:21} width {width:.2f}, height {height:.2f}, farthest from any demonstration {distance.max():.2f}")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, path) in zip(axes, repeated.items(), strict=True):
    for shown in demonstrations:
        axis.plot(*shown.T, color="0.8", lw=0.8)
    axis.plot(*path.T, color="tab:blue", lw=1.4)
    axis.plot(*start.T, color="tab:green", lw=2.5)
    axis.plot(*path[-1], "o", color="tab:red")
    axis.set(title=name, aspect="equal")
figure.savefig("demonstration.png", dpi=110)

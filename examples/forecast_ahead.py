"""Many steps ahead with a doubt that grows, fed with the model's own predictions."""

import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)
t = np.arange(3000)
level = np.sin(2 * np.pi * t / 50) + 0.3 * np.sin(2 * np.pi * t / 17) + 0.05 * rng.standard_normal(3000)
model = sg.Standardize(sg.SOGP(depth=20, lengthscale=8.0, noise=1e-3))
model.learn_many(level[:-1], level[1:])

ahead = model.forecast(40, feedback=[0])  # the only input is the last value
low, high = ahead.interval(0.9)
for step in (1, 10, 40):
    print(
        f"{step:2} steps ahead: {ahead.mean[step - 1]:6.2f}, 90% between {low[step - 1]:6.2f} and {high[step - 1]:6.2f}"
    )

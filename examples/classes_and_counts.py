"""Targets that are no real numbers: outliers, yes or no, counts."""

import numpy as np

import streamgp as sg

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 2000)
f = np.sin(2 * x)

y = f + 0.1 * rng.standard_normal(2000)
y[rng.uniform(size=2000) < 0.05] += 10.0
for name, model in {"Gaussian": sg.SOGP(noise=0.01), "Student-t": sg.SOGP(likelihood=sg.StudentT(0.1))}.items():
    error = np.sqrt(np.mean((model.track(x, y).mean - f)[500:] ** 2))
    print(f"one target in twenty is off by 10, {name} noise: error {error:.3f}")

labels = (rng.uniform(size=2000) < 1 / (1 + np.exp(-3 * f))).astype(float)
classifier = sg.SOGP(likelihood=sg.Probit())
classifier.learn_many(x, labels)
for at in (0.8, -0.8):
    print(f"probability of a yes at x = {at}: {classifier.predict_one(at).probability:.2f}")

counts = rng.poisson(np.exp(1 + f)).astype(float)
counter = sg.SOGP(likelihood=sg.Poisson())
counter.learn_many(x, counts)
for at in (0.8, -0.8):
    print(f"expected count at x = {at}: {counter.predict_one(at).mean:.1f}; true: {np.exp(1 + np.sin(2 * at)):.1f}")

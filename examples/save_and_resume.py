"""A process that may die at any row: save now and then, and resume bit for bit."""

from pathlib import Path

import numpy as np

import streamgp as sg

series = sg.data.mackey_glass(1200)
X, Y = series.X, series.Y

model = sg.Calibrated(sg.Standardize(sg.KRLST(depth=8)))
for row in range(600):
    model.learn_one(X[row], Y[row])
    if row % 200 == 199:
        model.save("tracker.sgp")  # the old file is there until the new one is complete

resumed = sg.load("tracker.sgp")  # in another process, on another day
a, b = model.track(X[600:], Y[600:]), resumed.track(X[600:], Y[600:])
print(f"snapshot: {Path('tracker.sgp').stat().st_size} bytes, whatever the number of rows")
print("the same bits after resuming:", np.array_equal(a.mean, b.mean) and np.array_equal(a.std, b.std))

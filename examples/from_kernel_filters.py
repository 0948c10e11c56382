"""The code of docs/coming-from-kernel-adaptive-filtering.md, which explains it."""

import numpy as np
import streamgp as sg

series = sg.data.channel_switch(1500, seed=1)  # a nonlinear channel that changes after row 500
X, Y = series.X, series.Y
models = {
    "KLMS": sg.filters.KLMS(sg.SquaredExponential(1.0), step=0.5, capacity=1500),
    "QKLMS": sg.filters.QKLMS(sg.SquaredExponential(1.0), step=0.5, quantization=0.3),
    "KNLMS": sg.filters.KNLMS(sg.SquaredExponential(1.0), step=0.5, coherence=0.8),
    "NORMA": sg.filters.NORMA(sg.SquaredExponential(1.0), step=0.5, regularization=1e-3),
    "KRLS": sg.KRLS(sg.SquaredExponential(1.0), novelty=1e-2, noise=0.0),
    "SWKRLS": sg.SWKRLS(sg.SquaredExponential(1.0), capacity=100),
    "KRLST": sg.KRLST(sg.SquaredExponential(1.0), capacity=100, forgetting=0.995),
}
for name, model in models.items():
    p = model.track(X, Y)  # a learning curve in one call: each row predicted, then learned
    error = 10 * np.log10(np.mean((p.mean - Y)[-300:] ** 2))
    print(f"{name:7} {error:6.1f} dB, {model.size} terms")

kaf = sg.Calibrated(sg.KRLST(sg.SquaredExponential(1.0), capacity=100, noise=1e-4))  # its means are those of the KRLST
error = np.empty(200)
for i in range(200):
    p = kaf.predict_one(X[i])  # changes nothing
    error[i] = Y[i] - p.mean
    kaf.learn_one(X[i], Y[i])
print(p.mean, p.interval(), kaf.last_change)  # the last row, with a 90% interval: was it admitted, was another evicted?

x = np.sin(0.1 * np.arange(2000)) * np.cos(0.031 * np.arange(2000))
predictor = sg.filters.QKLMS(sg.SquaredExponential(0.5), step=0.3, quantization=0.1, depth=4)
p = predictor.track(x[:-1], x[1:])  # one step ahead, from the last four values
print(10 * np.log10(np.mean((p.mean - x[1:])[-300:] ** 2)))

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(9, 3.8), layout="constrained")
for name in ("KLMS", "QKLMS", "KNLMS", "KRLST"):
    squares = np.zeros(1500)
    for seed in range(20):
        series = sg.data.channel_switch(1500, seed=seed)
        squares += (models[name].clone().track(series.X, series.Y).mean - series.Y) ** 2 / 20
    smooth = np.convolve(squares, np.ones(25) / 25, mode="valid")
    axis.plot(np.arange(24, 1500), 10 * np.log10(smooth), lw=1.2, label=name)
axis.axvline(500, color="0.3", lw=1, ls=":")
axis.set(xlabel="row", ylabel="squared error (dB)")
axis.legend(frameon=False, ncols=4)
figure.savefig("from-kernel-filters.png", dpi=110)

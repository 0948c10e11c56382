"""A model of one's own parts: a reservoir as memory, Fourier features, injected uncertainty."""

import numpy as np

import streamgp as sg

series = sg.data.narma10(3000)
models = {
    "reservoir, Fourier features": sg.OnlineGP(
        sg.Fourier(100, lengthscale=4.0),
        memory=sg.Reservoir(50, spectral_radius=0.9),
        forgetting=sg.Injection(0.9995),
        noise=0.0025,
    ),
    "window of 20, growing basis": sg.OnlineGP(
        sg.Basis(sg.Matern(2.5, lengthscale=10.0) + sg.LinearKernel(variance=0.1)),
        memory=sg.Window(20),
        budget=sg.Budget(100, novelty=1e-3),
        noise=0.0025,
    ),
}
for name, composed in models.items():
    model = sg.Calibrated(composed)
    p = model.track(series.X, series.Y)
    rmse = np.sqrt(np.mean((p.mean - series.Y)[1000:] ** 2))
    low, high = p.interval()
    covered = np.mean(((low <= series.Y) & (series.Y <= high))[1000:])
    print(f"{name}: RMSE {rmse:.4f}, coverage of 90% intervals {covered:.3f}, {model.size} weights or points")

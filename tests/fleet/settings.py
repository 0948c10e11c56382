"""Random settings of fleets that a GPU runs, and their rows: what the cores and a GPU have to predict alike."""

from typing import Any, NamedTuple

import numpy as np

import streamgp as sg

# Kernels are compiled for these; everything else is drawn for each setting.
SHAPES = (
    ("krlst", "SE", 1, 6),
    ("krlst", "SE", 3, 20),
    ("krlst", 1.5, 2, 33),
    ("krlst", 0.5, 1, 12),
    ("sogp", "SE", 2, 12),
    ("sogp", 2.5, 3, 40),
    ("sogp, kl", 2.5, 1, 8),
    ("sogp, error", 1.5, 2, 20),
)


class Setting(NamedTuple):
    """A fleet and the rows of a stream: arrays for ``track``, (rows, size, ...)."""

    fleet: dict[str, Any]
    X: np.ndarray
    Y: np.ndarray
    conditions: dict[str, np.ndarray]


def random_setting(seed: int, rows: int, size: int) -> Setting:
    rng = np.random.default_rng(seed)
    name, kind, d, capacity = SHAPES[seed % len(SHAPES)]
    input_unit, unit = 10.0 ** rng.uniform(-6.0, 6.0, 2)
    variance, noise = unit**2 * 10.0 ** rng.uniform(-1.0, 1.0), unit**2 * 10.0 ** rng.uniform(-3.0, -0.5)
    lengthscale = input_unit * rng.uniform(0.4, 2.0)
    kernel: Any = {"lengthscale": lengthscale, "variance": variance}
    if kind != "SE":
        kernel = {"kernel": sg.Matern(kind, **kernel)}
    forgetting = {"forgetting": rng.choice([1.0, 0.999, 0.95])}
    settings = {"jitter": 1e-6, "noise": noise}
    novelty = float(rng.choice([1e-3, 0.01, 0.1]))
    if name == "krlst":
        model: Any = sg.KRLST(**kernel, capacity=capacity, **forgetting, **settings)
    else:
        evict = name.partition(", ")[2] or "paper"
        model = sg.SOGP(**kernel, capacity=capacity, novelty=novelty, evict=evict, **settings)
    fleet: dict[str, Any] = {"model": model, "size": size}
    if rng.random() < 0.5:
        spread = lambda: np.exp(0.5 * rng.standard_normal(size))  # noqa: E731
        fleet["noise"] = noise * spread()
        if kind == "SE":
            fleet |= {"lengthscale": lengthscale * spread(), "variance": variance * spread()}
    X = 2.0 * np.sin(np.cumsum(0.5 * rng.standard_normal((rows, size, d)), axis=0))
    Y = np.sin(X[..., 0]) * (1.0 + 0.3 * X[..., -1]) + 0.1 * rng.standard_normal((rows, size))
    Y[rng.random(Y.shape) < 0.05] = np.nan
    conditions = {}
    if rng.random() < 0.3:
        conditions["noise"] = noise * 10.0 ** rng.uniform(-0.5, 1.0, Y.shape)
    return Setting(fleet, input_unit * (X + rng.uniform(-10.0, 10.0)), unit * Y, conditions)


def differences(seed: int, rows: int, size: int) -> tuple[float, float]:
    """The largest ones between means and variances of a GPU and the cores, in units of the prior's deviation."""
    fleet, X, Y, conditions = random_setting(seed, rows, size)
    p, q = (sg.Fleet(**fleet, device=device).track(X, Y, **conditions) for device in ("cuda", "cpu"))
    unit2 = sg.Fleet(**fleet).predict_many(X[0]).variance
    return float(np.max(np.abs(p.mean - q.mean) / np.sqrt(unit2))), float(
        np.max(np.abs(p.variance - q.variance) / unit2)
    )

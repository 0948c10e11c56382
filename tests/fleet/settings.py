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
    ("fourier", "SE", 2, 10),
    ("issgpr", "SE", 3, 6),
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
    by_time = name in ("krlst", "fourier") and bool(rng.random() < 0.4)
    forgetting = {"half_life": 20.0} if by_time else {"forgetting": rng.choice([1.0, 0.999, 0.95])}
    settings = {"jitter": 1e-6, "noise": noise}
    novelty = float(rng.choice([1e-3, 0.01, 0.1]))
    if name == "krlst":
        model: Any = sg.KRLST(**kernel, capacity=capacity, **forgetting, **settings)
    elif name == "issgpr":
        model = sg.ISSGPR(capacity, lengthscale=lengthscale, variance=variance, noise=noise)
    elif name == "fourier":
        back = sg.BackToPrior(half_life=20.0) if by_time else sg.BackToPrior(0.98)
        model = sg.OnlineGP(
            sg.Fourier(capacity, lengthscale=lengthscale, variance=variance), forgetting=back, noise=noise
        )
    else:
        evict = name.partition(", ")[2] or "paper"
        model = sg.SOGP(**kernel, capacity=capacity, novelty=novelty, evict=evict, **settings)
    fleet: dict[str, Any] = {"model": model, "size": size}
    if rng.random() < 0.5 and name != "fourier":
        spread = lambda: np.exp(0.5 * rng.standard_normal(size))  # noqa: E731
        fleet["noise"] = noise * spread()
        if kind == "SE":
            fleet |= {"lengthscale": lengthscale * spread(), "variance": variance * spread()}
    X = 2.0 * np.sin(np.cumsum(0.5 * rng.standard_normal((rows, size, d)), axis=0))
    Y = np.sin(X[..., 0]) * (1.0 + 0.3 * X[..., -1]) + 0.1 * rng.standard_normal((rows, size))
    Y[rng.random(Y.shape) < 0.05] = np.nan
    conditions = {}
    if by_time:
        conditions["time"] = 1.7e9 + np.cumsum(rng.exponential(1.0, (rows, size)), axis=0)
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


def random_wrapped(seed: int, rows: int, size: int) -> Setting:
    """Standardize and Calibrated around models, and streams of which some are hostile."""
    rng = np.random.default_rng(seed)
    by_time = seed % 3 == 0 and bool(rng.random() < 0.4)
    model: Any = (
        lambda: sg.OnlineGP(
            sg.Basis(sg.SquaredExponential(1.0)),
            noise=0.05,
            budget=sg.Budget(8, novelty=0.01, evict="error"),
            forgetting=sg.BackToPrior(half_life=20.0) if by_time else sg.BackToPrior(0.99),
        ),
        lambda: sg.SOGP(capacity=8, novelty=0.02, noise=0.05),
        lambda: sg.ISSGPR(4, noise=0.1),
    )[seed % 3]()
    around = ("both", "standardize", "both", "calibrate")[seed % 4]
    if around != "calibrate":
        model = sg.Standardize(model, warmup=int(rng.integers(2, 40)), screen=bool(rng.random() < 0.8))
    if around != "standardize":
        level, memory = float(rng.choice([0.5, 0.9, 0.99])), int(rng.choice([20, 500]))
        model = sg.Calibrated(model, level=level, memory=memory, warmup=int(rng.integers(1, 30)))
    d = 2
    X = 2.0 * np.sin(np.cumsum(0.5 * rng.standard_normal((rows, size, d)), axis=0))
    Y = np.sin(X[..., 0]) + 0.3 * X[..., -1] + 0.1 * rng.standard_t(3, (rows, size))
    unit = 10.0 ** rng.uniform(-6.0, 9.0, size) if around != "calibrate" else np.ones(size)
    Y *= unit
    Y += unit * rng.uniform(-100.0, 100.0, size) * (around != "calibrate")
    Y[:, 0], moves = Y[0, 0], rows * 3 // 4  # a sensor that stands still, or does so for long
    X[:moves, 0] = X[0, 0]  # where nothing is told all points are equally good: rounding would choose among them
    if rng.random() < 0.7:
        Y[moves:, 0] += unit[0] * rng.standard_normal(rows - moves)
    Y[rows // 2 :, 1] *= 30.0  # another level
    Y[rng.integers(0, rows, 4), 2] = [-9999.0, 3.4e38, -9999.0, 1e30] if around != "calibrate" else 50.0
    X[:, 3, 0] = 7.0
    if around != "calibrate":
        X[:, 1:] = 10.0 ** rng.uniform(-6.0, 6.0) * (X[:, 1:] + rng.uniform(-1e3, 1e3))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    time = {"time": 1.7e9 + np.cumsum(rng.exponential(1.0, (rows, size)), axis=0)} if by_time else {}
    return Setting({"model": model, "size": size}, X, Y, time)


def wrapped_difference(seed: int, rows: int, size: int) -> float:
    """The largest one between what a GPU and the cores tell, relative to it or to the median target."""
    fleet, X, Y, conditions = random_wrapped(seed, rows, size)
    gpu, cores = (sg.Fleet(**fleet, device=device) for device in ("cuda", "cpu"))
    rng = np.random.default_rng(seed)
    unit, worst, begin = np.nanmedian(np.abs(Y), axis=0), 0.0, 0
    while begin < rows:
        end = min(rows, begin + int(rng.choice([1, 1, 2, 9])))
        if rng.random() < 0.2:
            end, some = begin + 1, np.sort(rng.permutation(size)[: size // 2])
            given = {name: values[begin, some] for name, values in conditions.items()}
            p, q = (one.track(X[begin, some], Y[begin, some], ids=some, **given) for one in (gpu, cores))
            scale = unit[some]
        else:
            part = slice(begin, end)
            given = {name: values[part] for name, values in conditions.items()}
            p, q = (one.track(X[part], Y[part], **given) for one in (gpu, cores))
            scale = unit
        worst = max(worst, _apart(p, q, scale))
        begin = end
        if rng.random() < 0.1:
            worst = max(worst, _apart(gpu.predict_many(X[0]), cores.predict_many(X[0]), unit))
    same = np.array_equal(gpu.rows_seen, cores.rows_seen) and gpu.health.total.fill_values == (
        cores.health.total.fill_values
    )
    return worst if same else np.inf


def _apart(p: Any, q: Any, unit: np.ndarray) -> float:
    """The largest difference of two predictions; infinite ones have to be the same."""
    worst = 0.0
    for one, other in zip(_told(p), _told(q), strict=True):
        alike = np.isfinite(one) & np.isfinite(other)
        if not np.array_equal(one[~alike], other[~alike], equal_nan=True):
            return np.inf
        with np.errstate(invalid="ignore"):
            apart = np.abs(one - other) / (unit + np.abs(other))
        worst = max(worst, float(np.max(np.where(alike, apart, 0.0), initial=0.0)))
    return worst


def _told(p: Any) -> list[np.ndarray]:
    with np.errstate(invalid="ignore"):
        bounds = [*p.interval(), p.quantile(0.001), p.quantile(0.6)] if hasattr(p, "lower") else []
        return [p.mean, np.sqrt(p.variance), np.sqrt(p.noise), *bounds]

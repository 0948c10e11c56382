"""A fleet on a GPU: time of kernels and whole calls, accuracy in single precision, JAX and torch on the same work.

    python benchmarks/fleet.py --device cuda [kernel whole wrapped loops rivals accuracy updates]

adds the part "cuda" to benchmarks/results/fleet.json.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import streamgp as sg
from streamgp.cuda.gpu import cuda, kernel
from streamgp.cuda.record import CHANGE, COUNTED, POINTS
from streamgp.evaluate.metrics import rmse
from streamgp.fleet.fleet import is_bare
from timing import figures

D, NOISE, NOVELTY, FORGETTING = 8, 0.01, 0.01, 0.999
MILLION = 1_000_000
SHAPES = [(50, MILLION), (50, 100_000), (50, 10_000), (32, MILLION), (32, 100_000), (100, 100_000), (100, 10_000)]
FUSED = 16  # rows of a launch
DIFFERENT = 4096  # models with rows of their own; the others repeat them
PRECISIONS = "single", "double"
STREAMS, LENGTH, NOISES, NOVELTIES = 250, 4000, (1e-2, 1e-3, 1e-4), (0.01, 0.05)
WARMUP = 100  # rows of Standardize by default
UPDATED, UPDATES = 1000, 10_000


def recipe(m: int, noise: float = NOISE, novelty: float = NOVELTY) -> sg.OnlineGP:
    """Forgets, admits novel rows, lets the point go whose loss changes the mean least."""
    return sg.OnlineGP(
        sg.Basis(sg.SquaredExponential(float(np.sqrt(D)))),
        noise=noise,
        budget=sg.Budget(m, novelty=novelty, evict="error"),
        forgetting=sg.BackToPrior(FORGETTING),
    )


class Rows:
    """Rows on the GPU: absorbed ones near one place, replacing ones far from each other with growing targets."""

    def __init__(self, size: int, number: type) -> None:
        self._rng, self._size, self._number, self._level = np.random.default_rng(0), size, number, 1.0

    def take(self, count: int, absorbed: bool) -> tuple[Any, Any]:
        X = self._rng.normal(size=(DIFFERENT * count, D)) * (0.02 if absorbed else 3.0)
        y = self._rng.normal(size=(DIFFERENT, count))
        if not absorbed:  # each new point weighs more than all before, so that it stays
            levels = self._level * 1.1 ** np.arange(1, count + 1)
            self._level = 1.0 if levels[-1] > 1e6 else levels[-1]
            y = np.broadcast_to(levels, y.shape)
        n = self._size * count
        X, y = (np.ascontiguousarray(array, self._number) for array in (X, y.ravel()))
        return cuda.to_device(np.resize(X, (n, D))), cuda.to_device(np.resize(y, n))


def kernels() -> dict[str, Any]:
    return {
        f"m = {m}, {size:,} models, {precision}": timed(m, size, precision)
        for m, size in SHAPES
        for precision in PRECISIONS
    }


def timed(m: int, size: int, precision: str) -> dict[str, Any]:
    """Milliseconds in which each model takes one row, medians."""
    fleet = sg.Fleet(recipe(m), size=size, device="cuda", precision=precision)
    fleet.learn_many(np.zeros((1, size, D)), np.zeros((1, size)))
    memory: Any = fleet._engine._memory  # type: ignore[union-attr]
    rows, found = Rows(size, np.float64), {}

    models, records = cuda.to_device(np.arange(size)), memory._records.reshape(memory._records.size)
    compiled, nothing = kernel(memory._shape, memory._number, False), cuda.device_array(1, np.float64)

    def launch(count: int, absorbed: bool) -> float:
        """Two launches one after the other, of which the second is timed: what the host does is then hidden."""
        starts = cuda.to_device(count * np.arange(size + 1))
        arguments = [
            (*rows.take(count, absorbed), nothing, cuda.device_array((2, size * count), np.float64)) for _ in range(2)
        ]
        begin, end = cuda.event(), cuda.event()
        cuda.synchronize()
        for k, argument in enumerate(arguments):
            if k:
                begin.record(memory._stream)
            state = records, *memory._arrays[1:]
            shared = memory._shared_by_all, memory._found, 0, COUNTED
            memory._launch(compiled, size, *state, models, starts, *argument, *shared)
        end.record(memory._stream)
        end.synchronize()
        return float(cuda.event_elapsed_time(begin, end)) / count

    for _ in range(m // FUSED // 2 + 1):
        launch(FUSED, False)
    for name, count, absorbed, repeats in (
        ("replace", 1, False, 5),
        ("replace, 16 rows", FUSED, False, 1),
        ("absorb", 1, True, 9),
        ("absorb, 16 rows", FUSED, True, 2),
    ):
        launch(count, absorbed)
        found[name] = figures(np.median([launch(count, absorbed) for _ in range(repeats)]))
        change = memory._counts[:1000].copy_to_host()
        found[f"{name}, share"] = figures(np.mean(change[:, CHANGE] == (1 if absorbed else 3)))
        found["points"] = figures(np.mean(change[:, POINTS]))
    return found | {"bytes a model": memory._shape.numbers * memory._shape.bytes}


def whole_calls(m: int = 50) -> dict[str, Any]:
    return {
        f"{size:,} models, {precision}": whole(precision, size, m)
        for precision in PRECISIONS
        for size in (MILLION, 100_000, 10_000, 1000, 100)
    }


def whole(precision: str, size: int, m: int) -> dict[str, Any]:
    """fleet.track of one absorbed row of each model, from memory of several kinds; milliseconds."""
    import torch

    fleet = sg.Fleet(recipe(m), size=size, device="cuda", precision=precision)
    rng = np.random.default_rng(0)
    for _ in range(m // FUSED + 1):
        X = np.resize(3 * rng.normal(size=(FUSED, DIFFERENT, D)), (FUSED, size, D))
        fleet.learn_many(X, np.ones((FUSED, size)))
    for weight in (100.0, 50.0, 25.0):  # a point near the rows below, which stays
        fleet.learn_many(np.zeros((size, D)), np.full(size, weight))
    X, Y = np.resize(0.02 * rng.normal(size=(DIFFERENT, D)), (size, D)), rng.normal(size=size)
    there = torch.tensor(X).cuda(), torch.tensor(Y).cuda()
    found = {
        "device arrays": clocked(lambda: fleet.track(*there)),
        "NumPy": clocked(lambda: fleet.track(X, Y)),
        "NumPy, predict_many": clocked(lambda: fleet.predict_many(X)),
    }
    change = fleet._engine._memory.counts()[:, CHANGE]  # type: ignore[union-attr]
    found["share of rows absorbed"] = figures(np.mean(change == 1))
    if size <= MILLION // 10:
        many = np.resize(X, (FUSED, size, D)), np.resize(Y, (FUSED, size))
        found[f"NumPy, {FUSED} rows in a call"] = clocked(lambda: fleet.track(*many))
    return found


def clocked(work: Callable[[], object], repeats: int = 40) -> dict[str, float]:
    """Milliseconds of a call: median and the 95th percentile."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - begin))
    return {"median": figures(np.median(times[5:])), "p95": figures(np.quantile(times[5:], 0.95))}


def wrapped_calls(m: int = 50, size: int = MILLION // 10) -> dict[str, Any]:
    kinds = {"absorb": recipe(m), "replace": sg.KRLST(capacity=m)}
    return {f"{size:,} models, {name}": wrapped(model, size) for name, model in kinds.items()}


def wrapped(within: sg.OnlineGP, size: int) -> dict[str, Any]:
    """fleet.track within Calibrated(Standardize(...)); milliseconds."""
    model = sg.Calibrated(sg.Standardize(within, warmup=WARMUP))
    for models in (100, size):  # the small one compiles what is missing
        rng = np.random.default_rng(0)
        fleet = sg.Fleet(model, size=models, device="cuda")
        rows = np.resize(rng.normal(size=(8, DIFFERENT, D)), (8, models, D))
        Y = rng.normal(size=(8, models))
        begin = time.perf_counter()
        for t in range(WARMUP):
            fleet.learn_many(rows[t % 8], Y[t % 8])
        taken = time.perf_counter() - begin
        fleet.track(rows[0], Y[0])
    turns = itertools.cycle(range(8))
    row = clocked(lambda: fleet.track(rows[(t := next(turns))], Y[t]))
    return {"warm-up, all of it": figures(1e3 * taken), "a row": row}


def kernels_of_loops() -> dict[str, Any]:
    """fleet.track of one row of each model, by recipes that kernels of the cores' own loops run; milliseconds."""
    return {f"{name}, {size:,} models": beside_the_cores(make(), size) for name, (make, size) in KINDS.items()}


KINDS: dict[str, tuple[Callable[[], sg.StreamModel], int]] = {
    "TimeGP, 12 numbers": (lambda: sg.TimeGP(sg.Matern(2.5, lengthscale=20.0) + sg.Periodic(24.0)), MILLION),
    "ISSGPR": (lambda: sg.ISSGPR(features=16), MILLION // 10),
    "SOGP, Student-t": (lambda: sg.SOGP(capacity=30, likelihood=sg.StudentT(0.1)), MILLION // 10),
    "OIESGP": (lambda: sg.OIESGP(depth=3, capacity=30), MILLION // 10),
    "window": (lambda: sg.SOGP(capacity=30, depth=3), MILLION // 10),
    "QKLMS": (lambda: sg.filters.QKLMS(capacity=50), MILLION // 10),
    "KRLS": (lambda: sg.KRLS(capacity=30), MILLION // 10),
    "LWPR": (lambda: sg.LWPR(), MILLION // 100),
    "LocalGP": (lambda: sg.LocalGP(), MILLION // 100),
}


def of_turns(fleet: sg.Fleet, turns: Iterator[int], rows: Sequence[tuple[Any, Any]]) -> None:
    fleet.track(*rows[next(turns)])


def beside_the_cores(recipe: sg.StreamModel, size: int) -> dict[str, Any]:
    """Milliseconds of a call on a GPU and on all cores, for one row of each model."""
    import torch

    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0))}
    rng, d = np.random.default_rng(0), 0 if isinstance(recipe, sg.TimeGP) else D
    X = np.resize(rng.normal(size=(DIFFERENT, 32, d)), (size, 32, d)).transpose(1, 0, 2).copy()
    Y = X.sum(axis=2) + rng.normal(size=(32, 1))
    for device in ("cuda", "cpu"):
        fleet = sg.Fleet(recipe, size=size, device=device, pending=1)
        begin = time.perf_counter()
        fleet.track(X[:1], Y[:1])
        found[f"{device}, first call"] = figures(1e3 * (time.perf_counter() - begin))
        turns = itertools.cycle(range(32))
        for _ in range(32):
            fleet.learn_many(X[(t := next(turns))], Y[t])
        found[device] = clocked(partial(of_turns, fleet, turns, list(zip(X, Y, strict=True))), 12)
        if device == "cuda" and is_bare(recipe):
            there = [(torch.tensor(x).cuda(), torch.tensor(y).cuda()) for x, y in zip(X, Y, strict=True)]
            found["cuda, device arrays"] = clocked(partial(of_turns, fleet, turns, there), 12)
    return found


# What one would write instead: the textbook's alpha, C and Q, full squares, single precision.


def rivals(size: int = MILLION, m: int = 50) -> dict[str, Any]:
    """Milliseconds in which every model absorbs a row."""
    return {"jax, vmap": jax_absorbing(size, m), "torch": torch_absorbing(size, m), "models": size, "m": m}


def jax_absorbing(size: int, m: int) -> float:
    import jax
    import jax.numpy as jnp

    def absorb(X: Any, alpha: Any, C: Any, Q: Any, x: Any, y: Any) -> Any:
        k = jnp.exp(-0.5 / D * jnp.sum((X - x) ** 2, axis=1))
        h, a = C @ k, Q @ k
        s, mean = 1.0 + k @ h + NOISE, k @ alpha
        d = h + a
        return alpha + d * (y - mean) / s, C - jnp.outer(d, d) / s, mean, s

    step = jax.jit(jax.vmap(absorb), donate_argnums=(1, 2))
    X, alpha, C, Q, x, y = (
        jax.random.normal(jax.random.PRNGKey(i), shape, jnp.float32)
        for i, shape in enumerate([(size, m, D), (size, m), (size, m, m), (size, m, m), (size, D), (size,)])
    )
    C, times = 1e-3 * C, []
    for _ in range(8):
        begin = time.perf_counter()
        alpha, C, *_ = jax.block_until_ready(step(X, alpha, C, Q, x, y))
        times.append(1e3 * (time.perf_counter() - begin))
    return figures(np.median(times[3:]))


def torch_absorbing(size: int, m: int) -> float:
    import torch

    with torch.no_grad():
        X, alpha, C, Q, x, y = (
            torch.randn(*shape, device="cuda")
            for shape in [(size, m, D), (size, m), (size, m, m), (size, m, m), (size, D), (size,)]
        )
        times = []
        for _ in range(8):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            k = torch.exp(-0.5 / D * ((X - x[:, None]) ** 2).sum(2))[:, :, None]
            h, a = torch.bmm(C, k), torch.bmm(Q, k)
            s, mean = 1.0 + (k * h).sum((1, 2)) + NOISE, (k[:, :, 0] * alpha).sum(1)
            d = h + a
            alpha.addcmul_(d[:, :, 0], ((y - mean) / s)[:, None])
            C.baddbmm_(d / s[:, None, None], d.transpose(1, 2), alpha=-1.0)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - begin))
    return figures(np.median(times[3:]))


# Accuracy.


def kinds(rows: int, count: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Four kinds of streams, (rows, count, D) and (rows, count)."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None, None]
    f = lambda X: np.sin(X[..., 0]) + X[..., 1] * np.cos(X[..., 2]) + 0.5 * np.tanh(X[..., 3:].sum(-1))  # noqa: E731
    independent = rng.uniform(-2, 2, (rows, count, D))
    arm = 1.5 * np.sin(t * rng.uniform(0.002, 0.05, (1, count, D)) + rng.uniform(0, 6, (1, count, D)))
    jumps = np.repeat(rng.uniform(-2, 2, (rows // 50 + 1, count, D)), 50, axis=0)[:rows]
    jumps = jumps + 0.05 * np.sin(0.1 * t)
    series = np.ravel(sg.data.mackey_glass(rows + D * 6 + count).truth)
    lags = np.stack([np.stack([series[i + 6 * j : i + 6 * j + rows] for j in range(D)], -1) for i in range(count)], 1)
    ahead = np.stack([series[i + 6 * D : i + 6 * D + rows] for i in range(count)], 1)
    scale = series.std()
    return {
        "independent": (independent, f(independent)),
        "smooth arm": (arm, f(arm)),
        "Mackey-Glass": ((lags - series.mean()) / scale, (ahead - series.mean()) / scale),
        "jumps and near repeats": (jumps, f(jumps)),
    }


def accuracy() -> dict[str, Any]:
    return {
        f"{kind}, noise {noise:g}, novelty {novelty:g}": single_to_double(*data, noise, novelty)
        for kind, data in kinds(LENGTH, STREAMS, 1).items()
        for noise in NOISES
        for novelty in NOVELTIES
    }


def single_to_double(X: np.ndarray, clean: np.ndarray, noise: float, novelty: float) -> dict[str, Any]:
    """The error in single precision over that in double, on each stream; means of the two differ at the share given."""
    Y = clean + np.sqrt(noise) * np.random.default_rng(2).normal(size=clean.shape)
    errors = []
    for precision in PRECISIONS:
        fleet = sg.Fleet(recipe(50, noise, novelty), size=STREAMS, device="cuda", precision=precision)
        said = np.concatenate([fleet.track(X[i : i + 500], Y[i : i + 500]).mean for i in range(0, LENGTH, 500)])
        errors.append(np.array([rmse(Y[500:, j], said[500:, j]) for j in range(STREAMS)]))
    ratio = errors[0] / errors[1]
    return {
        "streams": STREAMS,
        "more than 5% worse": int(np.sum(~(ratio <= 1.05))),
        "more than 5% better": int(np.sum(ratio < 1 / 1.05)),
        "median": figures(np.median(ratio)),
        "least": figures(np.min(ratio)),
        "largest": figures(np.max(ratio)),
    }


def updates() -> dict[str, Any]:
    """Ten million rows in double precision: twice the same, and beside the cores."""
    X, clean = kinds(UPDATES, UPDATED, 3)["smooth arm"]
    Y = clean + 0.1 * np.random.default_rng(4).normal(size=clean.shape)
    said, checked = [], 20
    for _ in range(2):
        fleet = sg.Fleet(recipe(50), size=UPDATED, device="cuda")
        said.append(np.concatenate([fleet.track(X[i : i + 500], Y[i : i + 500]).mean for i in range(0, UPDATES, 500)]))
    cores = sg.Fleet(recipe(50), size=checked).track(X[:, :checked], Y[:, :checked]).mean
    difference = np.abs(said[0][:, :checked] - cores)
    return {
        "updates": UPDATED * UPDATES,
        "bits that differ between two runs": int(np.sum(said[0] != said[1])),
        "largest difference from the cores, first thousand rows": figures(difference[:1000].max()),
        "largest difference from the cores, last thousand rows": figures(difference[-1000:].max()),
        "rmse on the GPU over that on the cores": figures(
            rmse(Y[:, :checked].ravel(), said[0][:, :checked].ravel()) / rmse(Y[:, :checked].ravel(), cores.ravel())
        ),
        "broken models": len(fleet.broken()),
        "repairs": fleet.health.total.repairs,
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "accuracy": accuracy,
    "updates": updates,
    "kernel": kernels,
    "whole": whole_calls,
    "wrapped": wrapped_calls,
    "loops": kernels_of_loops,
    "rivals": rivals,
}

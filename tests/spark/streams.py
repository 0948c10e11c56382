"""Rows of many keys, and what one model for each key makes of them: the slow definition."""

from __future__ import annotations

import numpy as np

import streamgp as sg
from streamgp.spark.plan import Plan
from streamgp.spark.rows import Batch

RECIPES = {
    "KRLST": lambda: sg.KRLST(capacity=6, forgetting=0.99),
    "OIESGP": lambda: sg.OIESGP(depth=3, capacity=5),
    "Calibrated Standardize": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=5), warmup=8), warmup=3),
    "DriftAware": lambda: sg.DriftAware(sg.KRLST(capacity=5), warmup=3, false_alarm_rate=0.3, trial=5),
}


def plan(model, **others):
    settings = {"key": "sensor", "target": "y", "inputs": ("a", "b"), "time": "t", "shards": 4}
    return Plan(model, **settings | others)


def rows(seed, n, keys=5, missing=0.1):
    """n rows of some keys at different times, some without a target."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    Y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    Y[rng.random(n) < missing] = np.nan
    chosen = [f"key {i}" for i in rng.integers(0, keys, n)]
    return Batch(chosen, np.arange(n) * 10, X, Y)


def some(batch, which):
    """Some of the rows, in this order."""
    return Batch(
        [batch.keys[i] for i in which],
        *(None if part is None else part[which] for part in batch[1:]),
    )


def one_by_one(model, batch):
    """(key, time) -> mean, lower, upper, std, row: a loop over single models, row after row."""
    models, found, counts = {}, {}, {}
    for key, time, x, y in zip(batch.keys, batch.time.tolist(), batch.X, batch.Y, strict=True):
        single = models.setdefault(key, model.clone())
        p = single.predict_one(x)
        single.learn_one(x, y)
        counts[key] = counts.get(key, 0) + 1
        found[key, time] = (p.mean, *p.interval(), p.std, counts[key])
    return found, models


def as_found(predictions):
    """The same of what a shard predicted."""
    p = predictions
    parts = (part.tolist() for part in (p.time, p.mean, p.lower, p.upper, p.std, p.row))
    return {(key, time): numbers for key, (time, *numbers) in zip(p.key, zip(*parts, strict=True), strict=True)}

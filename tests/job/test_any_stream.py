"""Auto on streams and times of any kind: rows at once, in parts, one by one, copied and reloaded give the same."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.streams import TARGETS, TIMES

QUICK, ALL = 3, 12  # seeds
N = 70


def stream(seed):
    """Rows, targets and times of the kinds that a seed stands for, and how to make a model for them."""
    rng = np.random.default_rng(seed)
    kind, when = list(TARGETS)[(5 * seed) % len(TARGETS)], list(TIMES)[(4 * seed + 3) % len(TIMES)]
    X = rng.normal(size=(N, rng.integers(0, 6)))
    settings = {
        "warmup": int(rng.choice([10, 25, 40])),
        "lags": rng.choice([None, 0, 2]),
        "seasons": [[], [7], [5, 24]][rng.integers(3)],
        "drift": bool(rng.random() < 0.7),
        "screen": bool(rng.random() < 0.8),
        "tune": False,
        "candidates": {"capacity": 8, "features": 8},
    }
    horizon = int(rng.choice([0, 0, 1, 3]))

    def make():
        model = sg.Auto(**settings)
        return sg.Ahead(model, horizon=horizon) if horizon else model

    return X, TARGETS[kind](rng, N), TIMES[when](rng, N), make, f"{kind}, times {when}, {horizon} ahead, {settings}"


def parts_of(p):
    return [
        np.asarray(getattr(p, name)) for name in ("mean", "variance", "noise", "lower", "upper") if hasattr(p, name)
    ]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.more if seed >= QUICK else ()) for seed in range(ALL)]
)
def test_auto_says_the_same_however_rows_come(seed):
    X, y, times, make, what = stream(seed)
    rng = np.random.default_rng(seed)
    one = [{} if times is None else {"time": times[t]} for t in range(N)]
    whole, model = make().track(X, y, time=times), make()
    cuts = [0, *np.sort(rng.choice(np.arange(1, N), 5, replace=False)).tolist(), N]
    in_parts = []
    for k in range(len(cuts) - 1):
        rows = slice(cuts[k], cuts[k + 1])
        in_parts.append(parts_of(model.track(X[rows], y[rows], time=None if times is None else times[rows])))
        model = [model.copy, lambda: sg.from_bytes(model.to_bytes())][k % 2]()  # noqa: B023  it is called at once
    single, one_by_one = make(), []
    for t in range(N):
        one_by_one.append([np.atleast_1d(part) for part in parts_of(single.predict_one(X[t], **one[t]))])
        single.learn_one(X[t], y[t], **one[t])
    expected = parts_of(whole)
    for said in (in_parts, one_by_one):
        for wanted, *parts in zip(expected, *said, strict=True):
            np.testing.assert_array_equal(np.concatenate(parts), wanted, what)
    assert single.to_bytes() == model.to_bytes()
    assert np.isfinite(whole.mean).all()
    assert (whole.variance >= 0).all()

"""Evidence that errors have grown beside those of another prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.wrappers import drift


def watch(mean, other, y, stop, fading=0.97, first=0):
    """The row of the alarm, and the evidence there or at the end; the first rows only make the unit."""
    unit, counts, evidence = np.zeros(2), np.zeros(drift.BINS), np.zeros(1)
    drift.watch_beside(mean[:first], other[:first], y[:first], 0, fading, unit, False, stop, counts, evidence)
    assert not counts.any()
    at = drift.watch_beside(mean, other, y, first, fading, unit, True, stop, counts, evidence)
    return at, float(evidence[0])


def plain_path(mean, other, y, fading, first):
    """The evidence after each row, from sums over all rows before and ranks counted one by one."""
    known = [t for t in range(len(y)) if math.isfinite(mean[t] + other[t] + y[t])]
    bins, evidence, path = [], 0.0, dict.fromkeys(range(len(y)), 0.0)
    for i, t in enumerate(known):
        if t < first:
            continue
        weights = [fading ** (i - j) for j in range(i + 1)]
        squares = [(y[s] - other[s]) ** 2 for s in known[: i + 1]]
        unit2 = sum(w * s for w, s in zip(weights, squares, strict=True)) / sum(weights)
        here = math.floor((math.log(abs(y[t] - mean[t]) / math.sqrt(unit2)) + 20) * 1024 / 40)
        p = (1 + sum(old >= here for old in bins)) / (1 + len(bins))
        bins.append(here)
        evidence = (1 + evidence) * min(3.0, (3.0 - math.sqrt(6.0)) / math.sqrt(p))
        path[t] = evidence
    return path


def explained(rows, seed, noise=0.5):
    """Targets that inputs explain but for noise: predictions, the previous values, targets."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=rows)
    y = mean + noise * rng.normal(size=rows)
    return mean, np.r_[np.nan, y[:-1]], y


@pytest.mark.parametrize("fading", [0.97, 1.0])
def test_the_evidence_is_that_of_ranks_counted_one_by_one(fading):
    mean, other, y = explained(200, 0)
    y[150:] += 2.0 * (y - mean)[150:]
    y[7], mean[110], other[120] = np.nan, np.inf, np.nan
    first = 60
    path = plain_path(mean, other, y, fading, first)
    for stop in (10.0, 1000.0, np.inf):
        expected = next((t for t, evidence in path.items() if evidence >= stop), -1)
        at, evidence = watch(mean, other, y, stop, fading, first)
        assert at == expected
        assert evidence == pytest.approx(path[at] if at >= 0 else path[len(y) - 1], rel=1e-8)
    assert max(path.values()) > 1000.0


def test_errors_are_ranked_in_any_scale_but_not_where_the_other_never_errs():
    mean, other, y = explained(200, 1)
    assert watch(mean, y, y, 1.5) == (-1, 0.0)
    expected = watch(mean, other, y, np.inf)
    for scale in (1e-9, 1e9):
        at, evidence = watch(scale * mean, scale * other, scale * y, np.inf)
        assert (at, evidence) == (-1, pytest.approx(expected[1], rel=1e-8))

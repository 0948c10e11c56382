"""The comparison with rivals: scores equal slow formulas, nobody sees a target early."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

import rivals
import rivals_contestants
from rivals_scores import FEWEST_ERRORS, OfErrors, blocks, compared, crps, scored
from rivals_streams import PROTOCOL, Stream, with_gaps

pytestmark = pytest.mark.more

# Scores


def test_crps_is_the_integral_of_the_squared_distance_of_the_distribution_functions():
    rng = np.random.default_rng(0)
    for y in (-3.0, 0.2, 0.9, 4.0):
        atoms = np.sort(rng.normal(size=7))
        ends = np.sort(np.append(atoms, y))
        integral = 0.0
        for left, right in pairwise(ends):  # both are constant in between
            middle = 0.5 * (left + right)
            integral += (right - left) * (np.mean(atoms <= middle) - (y <= middle)) ** 2
        np.testing.assert_allclose(crps(atoms[:, None], np.array([y])), [integral], rtol=1e-10)


def test_the_distribution_of_errors_is_that_of_the_last_ones_known():
    rng = np.random.default_rng(1)
    n, window = 60, 25
    mean, y = rng.normal(size=n), rng.normal(size=n)
    y[[5, 30, 31]] = np.nan
    found = OfErrors(mean, y, window)
    for t in range(n):
        before = [y[s] - mean[s] for s in range(t) if not np.isnan(y[s])][-window:]
        if len(before) < FEWEST_ERRORS:
            assert np.isnan(found.quantile(0.3)[t])
            continue
        ordered, at = sorted(before), 0.3 * (len(before) + 1) - 1  # Weibull: the i-th of n lies at i / (n + 1)
        low = math.floor(at)
        expected = ordered[low] + (at - low) * (ordered[low + 1] - ordered[low])
        np.testing.assert_allclose(found.quantile(0.3)[t], mean[t] + expected, rtol=1e-9)
        if np.isnan(y[t]):
            continue
        quartiles = np.quantile(before, [0.25, 0.75], method="weibull")
        sd = np.std(before)
        width = 0.9 * min(sd, (quartiles[1] - quartiles[0]) / 1.34) * len(before) ** -0.2
        error = y[t] - mean[t]
        parts = [stats.norm.pdf(error, e, width) for e in before] + [stats.cauchy.pdf(error, 0.0, sd)]
        np.testing.assert_allclose(found.log_density(y)[t], math.log(np.mean(parts)), rtol=1e-8)


def test_blocks_and_wins_by_hand():
    assert blocks(np.array([1.0, 3.0, 2.0, 4.0, 10.0]), 2) == [2.0, 7.0]
    # differences -1, -2, -3: mean -2, standard error 1 / sqrt 3, ratio 3.46
    assert compared([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], 3.4) == "win"
    assert compared([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], 3.5) == "tie"
    assert compared([2.0, 3.0, 4.0], [1.0, 1.0, 1.0], 3.4) == "loss"
    assert compared([1.0, 2.0], [1.0, 2.0], 2.0) == "tie"


def test_scores_are_those_of_known_rows_from_the_first_scored_one_on():
    rng = np.random.default_rng(2)
    mean, deviation, y = rng.normal(size=80), rng.uniform(0.5, 2.0, 80), rng.normal(size=80)
    y[[3, 50]] = np.nan
    found = scored(y, rivals_contestants.gaussian(mean, deviation), 30, PROTOCOL)
    rows = [t for t in range(30, 80) if t != 50]
    assert found["rows"] == len(rows)
    np.testing.assert_allclose(found["rmse"], math.sqrt(sum((y[t] - mean[t]) ** 2 for t in rows) / len(rows)))
    np.testing.assert_allclose(found["mae"], sum(abs(y[t] - mean[t]) for t in rows) / len(rows))
    density = sum(math.log(NormalDist(mean[t], deviation[t]).pdf(y[t])) for t in rows) / len(rows)
    np.testing.assert_allclose(found["log density"], density, rtol=1e-9)
    inside = sum(abs(y[t] - mean[t]) <= 1.2815515655446004 * deviation[t] for t in rows) / len(rows)
    np.testing.assert_allclose(found["coverage 0.8"], inside)
    assert [len(losses) for losses in found["blocks"].values()] == [20, 20]
    mean[40] = np.inf
    assert scored(y, rivals_contestants.gaussian(mean, deviation), 30, PROTOCOL) is None


# Contestants


@pytest.fixture(scope="module")
def little():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(130, 2))
    return with_gaps(Stream(X, np.sin(X[:, 0]) + 0.1 * np.cumsum(rng.normal(size=130)), ()))


# Quick ones that need no package of their own; the same functions feed the others.
QUICK = {
    "previous value": rivals_contestants.by_previous,
    "KRLST, level": partial(rivals_contestants.by_krlst, change=False),
    "KRLST, change": partial(rivals_contestants.by_krlst, change=True),
    "SGD": partial(rivals_contestants.by_sgd, change=True),
    "GP": partial(rivals_contestants.by_sklearn_gp, change=False, window=20, optimized=50),
}


@pytest.mark.filterwarnings("ignore")  # of the other libraries
@pytest.mark.parametrize("name", QUICK)
def test_nobody_sees_a_target_before_it_was_predicted(name, little, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(rivals_contestants, "FIRST", 100)
    later = little._replace(y=np.where(np.arange(130) >= 120, little.y + 5.0, little.y))
    with rivals_contestants.quiet():
        first, second = (QUICK[name](data).said for data in (little, later))
    np.testing.assert_array_equal(first.mean[:121], second.mean[:121])
    np.testing.assert_array_equal(first.quantile(0.9)[:121], second.quantile(0.9)[:121])
    assert first.mean[121] != second.mean[121]
    assert np.isfinite(first.mean[100:]).all()


# Runs and pages


def cell(**changed):
    return {"stream": "water flow", "quick": False, "protocol": rivals.protocol_hash()} | changed


def test_results_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="holds no results; first: python benchmarks/rivals.py run"):
        rivals.gathered(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(cell(quick=True)))
    with pytest.raises(SystemExit, match="results of a quick run"):
        rivals.gathered(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(cell(protocol="other")))
    with pytest.raises(SystemExit, match="results of another protocol"):
        rivals.gathered(tmp_path)

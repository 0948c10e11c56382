from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamgp.evaluate.paired import BlockSums


def test_the_interval_is_that_of_the_differences_of_block_means():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, 640), rng.normal(1.1, 1.0, 640)
    sums = BlockSums(64)
    for start in range(0, 640, 37):
        sums.add({"a": a[start : start + 37], "b": b[start : start + 37]})
    best, other = sums.ranking(0.9)
    assert (best.name, best.excess, best.low, best.high) == ("a", 0.0, 0.0, 0.0)
    # 640 rows are 40 blocks of 16 after four joins.
    differences = (b - a).reshape(40, 16).mean(1)
    low, high = stats.t.interval(0.9, 39, differences.mean(), stats.sem(differences))
    assert other.loss == pytest.approx(b.mean(), abs=1e-12)
    assert (other.low, other.high) == pytest.approx((low, high), abs=1e-12)


def test_rows_that_one_model_misses_count_for_none():
    sums = BlockSums(4)
    sums.add({"a": np.array([1.0, np.nan, 3.0]), "b": np.array([2.0, 5.0, np.nan])})
    assert [(rank.name, rank.loss) for rank in sums.ranking()] == [("a", 1.0), ("b", 2.0)]
    assert sums.ranking()[1].high == np.inf


def test_what_cannot_be_ranked_is_refused():
    with pytest.raises(ValueError, match="buckets must be even, because they are merged in pairs; got 5"):
        BlockSums(5)
    sums = BlockSums(4)
    sums.add({"a": np.zeros(2), "b": np.zeros(2)})
    with pytest.raises(ValueError, match="losses must come under the names"):
        sums.add({"a": np.zeros(2)})
    with pytest.raises(ValueError, match="level must be above 0 and below 1; got 1.0"):
        sums.ranking(1.0)

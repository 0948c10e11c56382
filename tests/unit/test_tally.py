from __future__ import annotations

import numpy as np
import pytest

from streamgp.contract.tally import Buckets, counted, scored
from streamgp.evaluate import metrics


def test_scores_are_the_means_over_rows_with_a_target_and_a_mean():
    rng = np.random.default_rng(0)
    y, mean, density = rng.normal(size=(3, 50))
    width = rng.uniform(0.5, 2.0, size=50)
    y[3], mean[7], mean[8] = np.nan, np.nan, np.inf
    known = [t for t in range(50) if t not in (3, 7, 8)]
    found = scored(counted(y, mean, mean - width, mean + width, density).sum(axis=0))
    errors = [mean[t] - y[t] for t in known]
    expected = (
        len(known),
        sum(e * e for e in errors) / len(known),
        sum(map(abs, errors)) / len(known),
        sum(abs(e) <= width[t] for e, t in zip(errors, known, strict=True)) / len(known),
        sum(2.0 * width[t] for t in known) / len(known),
        sum(density[t] for t in known) / len(known),
    )
    np.testing.assert_allclose([found.rows, found.rmse**2, *found[2:]], expected, rtol=1e-12)


def test_scores_of_no_rows_and_of_missing_parts_are_nan():
    assert np.isnan(scored(np.zeros(6))[1:]).all()
    found = scored(counted(np.array([1.0]), np.array([2.0])).sum(axis=0))
    assert (found.rows, found.rmse, found.coverage) == (1.0, 1.0, 0.0)
    assert np.isnan([found.width, found.log_density]).all()


def test_a_metric_of_a_mean_that_is_missing_is_missing():
    assert np.isnan(metrics.rmse([1.0, 2.0], [1.0, np.nan]))


@pytest.mark.parametrize("rows", [7, 8, 9, 100])
def test_buckets_join_what_their_rows_have(rows):
    values = np.random.default_rng(1).normal(size=(rows, 2))
    buckets = Buckets(8, total=np.add, lowest=np.fmin, highest=np.fmax)
    for start in range(0, rows, 3):
        part = values[start : start + 3]
        buckets.add(total=part, lowest=part[:, 0], highest=part[:, 1])
    assert buckets.stride == {7: 1, 8: 1, 9: 2, 100: 16}[rows]
    parts = [values[start : start + buckets.stride] for start in range(0, rows, buckets.stride)]
    assert buckets.used == len(parts)
    np.testing.assert_allclose(buckets["total"], [part.sum(axis=0) for part in parts], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(buckets["lowest"], [part[:, 0].min() for part in parts])
    np.testing.assert_array_equal(buckets["highest"], [part[:, 1].max() for part in parts])

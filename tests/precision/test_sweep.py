"""No stream breaks a model: hard settings beside the quad-precision reference, with no allowance."""

from __future__ import annotations

import os

import pytest

from tests.precision import sweep
from tests.precision.quad import load

SAMPLE = range(24)


def assert_sound(result):
    where = f"setting {result['setting']}, {result['rows']} rows: {result}"
    assert "refused" not in result, where
    assert not result["reference_failure"], where
    assert result["not_finite"] == 0, where
    assert result["largest_mean"] <= sweep.largest_mean_allowed(result), where
    assert result["least_variance"] >= 0, where
    assert result["most_variance"] <= 1 + 1e-9, where
    assert not result["silent"], where
    # Where the noise is lost in the rounding of gamma2 the promise is to say so before: docs/numerics.md.
    if result["setting"]["noise"] > 1e-12 * result["setting"]["variance"]:
        assert result["error"] <= sweep.LIMIT, where


def test_the_sample_has_every_recipe_and_stream():
    chosen = [sweep.setting(index) for index in SAMPLE]
    for name in ("recipe", "stream", "kernel", "novelty", "noise", "variance"):
        assert {one[name] for one in chosen} >= set(sweep.GRID[name])


@pytest.mark.parametrize("index", SAMPLE)
def test_a_hard_setting_stays_within_the_promise(index):
    assert_sound(sweep.measure(sweep.setting(index), 600))


@pytest.mark.soak
def test_the_whole_sweep_stays_within_the_promise():
    load()  # compile before the processes start, or skip
    results = list(sweep.run(list(range(600)), 5000, os.cpu_count() or 1))
    print(sweep.summary(results))
    for result in results:
        assert_sound(result)

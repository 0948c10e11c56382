"""The scores of the competitions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import competitions

pytestmark = pytest.mark.more


def test_scores_are_those_of_the_competitions():
    y, truth = np.array([1.0, 2.0, 4.0, 3.0, 5.0]), np.array([4.0, 7.0])
    found = competitions.scores(y, truth, lambda level: np.full(2, 4.0 + 10.0 * (level - 0.5)), lag=2)
    assert found["mase"] == pytest.approx(1.5 / np.mean([3.0, 1.0, 1.0]))
    assert found["smape"] == pytest.approx(100.0 * 3.0 / 11.0)
    pinball = []
    for level in np.arange(1, 10) / 10:
        errors = truth - (4.0 + 10.0 * (level - 0.5))
        pinball.append(np.sum(np.where(errors > 0, level * errors, (level - 1) * errors)))
    assert found["wql"] == pytest.approx(2 * np.mean(pinball) / 11.0)
    # 50%: 1.5 to 6.5; 80%: 0 to 8; 95%: -0.75 to 8.75.
    assert [found[f"coverage {level}"] for level in (0.5, 0.8, 0.95)] == [0.5, 1.0, 1.0]

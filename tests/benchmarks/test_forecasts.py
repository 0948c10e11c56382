"""Forecasts of series that follow the process which the model supposes."""

from __future__ import annotations

import numpy as np
import pytest

import forecasts


@pytest.mark.more
def test_forecasts_cover_what_they_say_if_the_prior_is_right():
    covered = []
    for seed in range(20):
        model, truth = forecasts.learned_supposed(seed)
        covered.append(forecasts.scored(model, 2, truth)[0].mean())
    # Steps of one forecast err together: the error is that of independent series.
    assert abs(np.mean(covered) - 0.9) < 3 * np.std(covered) / np.sqrt(len(covered))

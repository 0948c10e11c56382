"""Table 3 of [alshedivat2017] in other ways: both units, and the windows of the public example."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from reproductions.alshedivat2017 import table3_public, units
from reproductions.framework import Reference

PAPER = {"Drives regression LSTM": Reference(0.3, 0.1), "Actuator regression LSTM": Reference(0.3, 0.1)}
FOUND = {("Drives", "regression", "LSTM"): {0: 0.5, 1: 0.7}, ("Actuator", "regression", "LSTM"): {0: 0.2, 1: 0.2}}
SPREADS = {("Drives", 0): 0.5, ("Drives", 1): 0.5, ("Actuator", 0): 2.0, ("Actuator", 1): 1.0}


def test_errors_stand_in_both_units_and_are_compared_in_one():
    columns = [("Drives", "regression"), ("Actuator", "regression")]
    standard, own = units.lines(FOUND, SPREADS, columns, ("LSTM", "RNN"), PAPER, units.UNITS[1], " twice")
    assert standard == ["LSTM twice, standard deviations", "0.600 (0.100) [0.300] ▲", "0.200 (0.000) [0.300]"]
    assert own[0] == "LSTM twice, the data's units"
    assert [value.key for value in own[1:]] == ["Drives regression LSTM twice", "Actuator regression LSTM twice"]
    assert [value.ours for value in own[1:]] == pytest.approx([0.3, 0.3])


def test_fits_say_how_far_each_unit_is_from_the_paper():
    near, wanted = units.fits(FOUND, SPREADS, PAPER, "Ours")
    # Factors of 2 and 1.5 in standard deviations, whose geometric mean is 1.73; none in the data's units.
    assert "in standard deviations 1 of 2 are at or below the paper's, 0 within one" in near
    assert "the paper's is 1.73; in the data's units 2 of 2 are at or below the paper's, 2 within one" in near
    assert near.endswith("the paper's is 1.00.")
    assert "Drives regression 0.50, Actuator regression 1.50" in wanted
    assert wanted.endswith("0.50 for Drives and 1.50 for Actuator.")
    assert units.fits(FOUND, SPREADS, {}, "Ours") == []


@pytest.mark.parametrize("mode", table3_public.MODES)
@pytest.mark.parametrize("model", ["LSTM", "GP-NARX"])
def test_windows_are_those_of_the_public_example(model, mode):
    rng = np.random.default_rng(0)
    U, Y = rng.normal(size=(60, 1)), rng.normal(size=60)
    cell = {"data": "Drives", "mode": mode, "model": model, "units": 4, "seed": 0}
    fitted = table3_public.build(cell, 1).fit(U[:50], Y[:50], starts=[0, 40], validation=40)
    seen = []
    fitted._network.network.register_forward_pre_hook(lambda _, given: seen.append(given[0].numpy()))
    fitted.predict(U[50:], Y[50:])
    depth = table3_public.LAGS[mode]
    columns = U if mode == "regression" else np.column_stack([U, Y])
    rows = (columns - columns[:40].mean(axis=0)) / columns[:40].std(axis=0, ddof=1)
    for i, window in enumerate(np.concatenate(seen)):  # it ends at row i of the part that is tested
        expected = np.zeros((depth + 1, columns.shape[1]))
        for back in range(min(depth, i + 1)):
            expected[depth - 1 - back] = rows[50 + i - back]
        np.testing.assert_allclose(window, expected, atol=1e-6)
    assert len(np.concatenate(seen)) == 9  # the first row of a part has no window

"""Table 3 of [alshedivat2017]: the windows of the public example."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from reproductions.alshedivat2017 import table3_public


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

"""The plain NumPy versions that we compare our speed with do the same work: they give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import contestants
import plain

pytestmark = pytest.mark.more


def test_every_contestant_has_a_plain_version():
    assert set(plain.PLAIN) == set(contestants.MODELS)


@pytest.mark.parametrize("m", [8, 20])
@pytest.mark.parametrize("name", contestants.MODELS)
def test_plain_numpy_gives_what_the_model_gives(name, m):
    X, y = contestants.Rows(7).take(200)
    expected = contestants.MODELS[name](m).track(X, y)
    mean, variance = plain.track(plain.PLAIN[name](m), X, y)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", contestants.MODELS)
def test_contestants_do_to_every_row_what_their_names_say(name):
    rows = contestants.Rows()
    model = contestants.full(name, 10, rows)
    for x, y in zip(*rows.take(60), strict=True):
        model.learn_one(x, y)
        change = model.last_change
        if "pruning" in name:
            assert change.admitted
            assert change.evicted >= 0
        elif name != "KLMS":
            assert change.absorbed
            assert change.evicted == -1
    assert np.isfinite(model.predict_one(rows.take(1)[0][0]).mean)

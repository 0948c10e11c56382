"""Changes of a stream that are told, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.job.changes import Changes


def stream(rows, seed, factor=1.0, at=0):
    """Inputs, targets that a curve explains, and what a model predicts that adapts within a block."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    curve = 10 + X[:, 0] + X[:, 1] * X[:, 2]
    curve[at:] *= factor
    noise = 0.3 * (1.5 + np.sin(np.arange(rows) / 30)) * rng.normal(size=rows)
    return X, curve + noise, curve + 0.1 * rng.normal(size=rows)


def watched(X, y, mean, cuts=()):
    changes = Changes(X.shape[1], True)
    rows = np.arange(1, len(y) + 1)
    for part in np.split(np.arange(len(y)), cuts):
        changes.add(X[part], y[part], mean[part], rows[part], rows[part] * 60.0)
    return changes


def test_a_change_is_told_with_its_place_and_its_size():
    X, y, mean = stream(5000, 0, 1.18, 3050)
    (change,) = watched(X, y, mean).found
    assert 2951 <= change.row <= 3151
    assert change.moment == 60.0 * change.row
    assert 3050 < change.noticed <= 4500
    assert change.shift / change.level == pytest.approx(0.18, abs=0.03)
    assert change.times > 2


def test_a_change_is_told_by_the_same_rule_whatever_the_model():
    X, y, mean = stream(5000, 0, 1.18, 3050)
    rng = np.random.default_rng(9)
    rows = [watched(X, y, mean + 0.3 * k * rng.normal(size=5000)).found[0].row for k in range(3)]
    assert max(rows) - min(rows) <= 50
    assert all(3000 <= row <= 3100 for row in rows)


def test_a_model_that_gets_better_is_no_change():
    X, y, mean = stream(5000, 4)
    mean[:2500] += 0.6 * np.random.default_rng(5).normal(size=2500)
    assert watched(X, y, mean).found == []


def test_the_sign_of_a_change_is_that_of_the_targets_beside_those_of_the_same_inputs():
    X, y, mean = stream(5000, 6, 1.12, 3000)
    X[3000:, 0] -= 3.0  # inputs move at the same time: targets fall, but less than these inputs would let them
    y[3000:] -= 3.0 * 1.12
    mean[3000:] -= 3.0 * 1.12
    y[3500] = -1e6  # a broken reading has no say
    (change,) = watched(X, y, mean).found
    assert y[3000:3400].mean() < y[:3000].mean()
    assert change.shift > 0
    X, y, mean = stream(5000, 7)
    y[3000:] += 3 * X[3000:, 2]  # both signs
    mean[3000:] += 3 * X[3000:, 2]
    (change,) = watched(X, y, mean).found
    assert change.shift == 0.0


def test_streams_that_stay_the_same_are_not_told_of():
    assert [len(watched(*stream(4000, seed)).found) for seed in range(1, 9)] == [0] * 8


def test_blocks_do_not_depend_on_how_rows_are_cut():
    X, y, mean = stream(2050, 2, 1.3, 1200)
    y[::50] = np.nan
    whole, cut = (watched(X, y, mean, cuts) for cuts in ((), (1, 2, 150, 151, 1999)))
    assert whole.arrays().keys() == cut.arrays().keys()
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, cut.arrays()[name])
    again = Changes(3, True)
    again.restore(whole.arrays())
    assert again.found == whole.found


def test_constant_and_huge_inputs_are_taken():
    X, y, mean = stream(1200, 3)
    X[:, 0], X[:, 1], X[5, 2] = 7.0, 1e9 + 1e-3 * X[:, 1], 1e300
    assert watched(X, y * 1e9, mean * 1e9).found == []
    assert watched(np.zeros((800, 1)), np.ones(800), np.ones(800)).found == []
    off = Changes(3, False)
    off.add(X, y, mean, np.arange(len(y)), y)
    assert not off.on
    assert len(off.found) == 0

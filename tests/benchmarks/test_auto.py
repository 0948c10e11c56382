"""The benchmark of auto is fair: nobody sees a target early, and scores equal slow formulas."""

from __future__ import annotations

import numpy as np
import pytest

import auto
import auto_streams

pytestmark = pytest.mark.more


@pytest.fixture
def little():
    rng = np.random.default_rng(0)
    y = rng.normal(size=900)
    y[[300, 301]] = np.nan
    return auto_streams.Stream(rng.normal(size=(900, 2)), y, (24,))


# Contestants


@pytest.mark.parametrize("horizon", [0, 1, 6, 24, 30])
def test_nothing_is_known_of_rows_after_the_one_from_which_is_predicted(little, horizon):
    F = auto.known_then(little, horizon, 3, before=True)
    first = max(horizon, 1)
    np.testing.assert_array_equal(F[horizon:, :2], little.X[: 900 - horizon])
    np.testing.assert_array_equal(F[horizon + 1 :, 2:4], little.X[: 899 - horizon])
    np.testing.assert_array_equal(F[310 + first :, 4], little.y[310:-first])
    later = np.arange(900) >= 700
    again = auto.known_then(little._replace(X=little.X + later[:, None], y=little.y + later), horizon, 3, before=True)
    np.testing.assert_array_equal(F[: 700 + horizon], again[: 700 + horizon])
    assert np.any(F[700 + horizon] != again[700 + horizon])
    back = -(-first // 24) * 24
    season = 4 if back == first else -1  # where it is a lag anyway
    np.testing.assert_array_equal(F[310 + back :, season], little.y[310:-back])


@pytest.mark.parametrize("horizon", [0, 6])
@pytest.mark.parametrize("factor", [1.0, 0.999])
def test_least_squares_are_those_of_all_rows_whose_targets_are_known(little, horizon, factor):
    F = auto.known_then(little, horizon, 3)
    said = auto.least_squares(F, little.y, horizon, factor)
    Z = np.column_stack([np.ones(900), (F - F[:50].mean(axis=0)) / F[:50].std(axis=0)])
    offset, unit = little.y[:50].mean(), little.y[:50].std()
    for t in (1, 40, 500, 899):
        rows = [row for row in range(max(0, t - max(horizon, 1) + 1)) if not np.isnan(little.y[row])]
        weights = factor ** np.arange(len(rows))[::-1]
        A = (Z[rows].T * weights) @ Z[rows] + factor ** len(rows) * np.eye(Z.shape[1]) / auto.LARGEST
        w = np.linalg.solve(A, (Z[rows].T * weights) @ ((little.y[rows] - offset) / unit))
        np.testing.assert_allclose(said[t], offset + unit * (Z[t] @ w), rtol=1e-6)


def test_lightgbm_sees_no_target_before_it_has_predicted_it(little):
    pytest.importorskip("lightgbm")
    later = little._replace(y=np.where(np.arange(900) >= 520, little.y + 5.0, little.y))
    for horizon in (0, 6):
        for name, said in auto.by_lightgbm(little, horizon).items():
            again = auto.by_lightgbm(later, horizon)[name]
            np.testing.assert_array_equal(said.mean[: 520 + horizon], again.mean[: 520 + horizon])


# Scores


def test_scores_equal_their_slow_formulas(little):
    rng = np.random.default_rng(1)
    mean = rng.normal(size=900)
    data = little._replace(broken=np.array([600, 601]), changes=(700,))
    scores = auto.scored(data, 6, auto.Said(mean, mean - 1.0, mean + 1.0, {"seconds": 1.23456789}))
    rows = [t for t in range(500, 900) if t not in (600, 601)]
    errors = np.array([little.y[t] - mean[t] for t in rows])
    assert scores["rmse after 500"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    assert scores["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)
    assert scores["coverage"] == pytest.approx(np.mean(np.abs(errors) <= 1.0), rel=1e-5)
    misses = np.maximum(np.abs(errors) - 1.0, 0.0)
    assert scores["interval score"] == pytest.approx(2.0 + 20.0 * misses.mean(), rel=1e-5)
    early = [t for t in range(26, 900) if t not in (300, 301, 600, 601)]
    assert scores["rmse from 20"] == pytest.approx(np.sqrt(np.mean((little.y - mean)[early] ** 2)), rel=1e-5)
    assert scores["seconds"] == 1.23457
    assert scores["rows to recover"] == [200]
    assert auto.recovered(np.append(np.full(30, 1.0), np.zeros(200))) == 28  # two such errors in a hundred are allowed
    assert auto.scored(data, 0, auto.Said(np.full(900, np.nan)))["rmse after 500"] is None

"""How a committee weighs its members, against plain Python written from the papers' formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.contract.lanes import ISSUE, LEARN, TRACK, listed
from streamgp.wrappers import aggregation
from streamgp.wrappers.aggregation import (
    ISSUED,
    ML_POLY,
    PREDICTION,
    RANGE,
    RECENT,
    ROOM,
    RULES,
    SPOKEN,
    STACKED,
    VOICES,
)

NO_LINES = np.empty((0, ISSUED))  # of rows that wait


def state(K):
    return (
        np.zeros((3, 3, max(K, VOICES))),
        np.zeros((6, K)),
        np.stack([0.09 * np.eye(K)] * 3),
        np.zeros((3, K)),
        np.zeros(6),
    )


def whole(rule, y, said, kept=None, reach=0.0, seen=None, kind=TRACK, lines=NO_LINES):
    """What is said of each row, the weights, those of the members with a variance, and the mixture."""
    K, kept, seen = said.shape[2], kept or state(said.shape[2]), np.zeros(RANGE) if seen is None else seen
    spoken, mixed, (judged, weights, heard) = (
        np.empty((len(y), SPOKEN)),
        np.empty((3, len(y))),
        np.empty((3, len(y), K)),
    )
    out = judged, spoken, weights, heard, mixed, aggregation.work_room(K)
    ops, numbers = listed(len(y), kind), np.arange(K)
    aggregation.combine(rule, np.array([0.99]), reach, ops, y, numbers, said, lines, seen, *kept, *out)
    return spoken, weights, heard, mixed


def combined(rule, y, means, kept=None):
    spoken, weights, *_ = whole(rule, y, np.stack([means, *np.full((2, *means.shape), np.nan)]), kept)
    return spoken[:, PREDICTION], weights


def late(rule, y, means, rows, judged):
    """Predictions where each target comes so many rows later."""
    K = means.shape[1]
    kept, spoken, issued = state(K), np.empty((len(y), SPOKEN)), np.full((len(y), ISSUED), np.nan)
    for t in range(len(y)):
        one = slice(t, t + 1)
        said = np.stack([means[one], *np.full((2, 1, K), np.nan)])
        spoken[one], *_ = whole(rule, y[one], said, kept, kind=ISSUE, lines=issued[one])
        issued[one, ROOM : ROOM + K] = judged[one]
        if t >= rows:
            due = slice(t - rows, t - rows + 1)
            whole(rule, y[due], said, kept, kind=LEARN, lines=issued[due])
    return spoken[:, PREDICTION]


# The oracle: dictionaries and lists, one member after the other.


class Regret:
    def __init__(self, discount=1.0):
        self.discount, self.kept = discount, {}

    def weights(self, row):
        awake = [k for k, value in enumerate(row) if not math.isnan(value)]
        kept = {k: self.kept[k] for k in awake if k in self.kept and self.kept[k][0] > 0}
        found = {k: regret / (squares + largest) for k, (regret, squares, largest) in kept.items()}
        total = sum(found.values())
        if total > 0:
            return {k: found.get(k, 0.0) / total for k in awake}
        order = sorted(awake, key=lambda k: (row[k], k))
        middle = order[(len(order) - 1) // 2], order[len(order) // 2]
        return {k: middle.count(k) / 2 for k in awake}

    def learn(self, row, said, y, limit, square):
        for k, value in enumerate(row):
            if not math.isnan(value):
                r = 2 * np.clip(said - y, -limit, limit) * np.clip(said - value, -limit, limit) / square
                regret, squares, largest = (self.discount * old for old in self.kept.get(k, (0.0, 0.0, 0.0)))
                self.kept[k] = regret + r, squares + r * r, max(largest, r * r)


class Recent:
    def __init__(self):
        self.kept = {}

    def weights(self, row):
        awake = [k for k, value in enumerate(row) if not math.isnan(value)]
        known = {k: self.kept[k][0] / self.kept[k][1] for k in awake if k in self.kept}
        if not known:
            return {k: 1.0 / len(awake) for k in awake}
        best = min(known.values())
        found = {k: (best / mse) ** (self.kept[k][1] / 2) for k, mse in known.items()}
        return {k: found.get(k, 0.0) / sum(found.values()) for k in awake}

    def learn(self, row, said, y, limit, square):
        for k, value in enumerate(row):
            if not math.isnan(value):
                squares, rows = self.kept.get(k, (0.0, 0.0))
                self.kept[k] = 0.99 * squares + (y - value) ** 2, 0.99 * rows + 1.0


class Regression:
    """All rows kept, each with its own weight and prior: the batch solution of discounted ridge regression."""

    def __init__(self, K, factor):
        self.factor, self.K = factor, K
        self.mean, self.covariance = np.zeros(K), 0.09 * np.eye(K)

    def learn(self, x, error):
        prior = self.factor * self.covariance + (1 - self.factor) * 0.09 * np.eye(self.K)
        mean = math.sqrt(self.factor) * self.mean
        precision = np.linalg.inv(prior) + np.outer(x, x)
        self.covariance = np.linalg.inv(precision)
        self.mean = self.covariance @ (np.linalg.inv(prior) @ mean + x * error)


def spoken(weights, row):
    return sum(w * row[k] for k, w in weights.items())


def oracle(y, means, rule, late=0, judged=None):
    """What a rule says of each row; the target of one comes so many rows later."""
    K = means.shape[1]
    voices, outer = [Regret(1.0), Regret(0.999), Recent()], Regret(1.0)
    regressions = [Regression(K, factor) for factor in (0.9999, 0.999, 0.99)]
    squares, own_squares, rows, said, issued = 0.0, 0.0, 0.0, [], []
    short, all_short, short_rows = {}, 0.0, 0.0  # squared errors over the last ten rows or so
    for t in range(len(y)):
        row = means[t].tolist()
        each = [spoken(voice.weights(row), row) for voice in voices]
        unit = math.sqrt(squares / rows) if rows else 0.0
        x = np.zeros(K)
        if unit:
            x = np.array([0.0 if math.isnan(v) else np.clip((v - each[0]) / unit, -10, 10) for v in row])
        each += [each[0] + unit * float(one.mean @ x) for one in regressions]
        last = spoken(outer.weights(each), each)
        said.append((each[2], each[0], last)[rule])
        if rule == STACKED and short_rows > 7:
            # Who erred less than a quarter of what all did together is followed alone.
            able = {k: e / n for k, (e, n) in short.items() if n > 7 and not math.isnan(row[k])}
            best = min(able, key=able.__getitem__, default=None)
            if best is not None and able[best] < all_short / short_rows / 16:
                said[-1] = row[best]
        issued.append((row, each, unit, x, last))
        if t < late or math.isnan(target := y[t - late]):
            continue
        row, each, unit, x, last = issued[t - late]
        limit = 20 * unit if unit else math.inf
        squares = 0.99 * squares + np.clip(target - each[0], -10 * limit, 10 * limit) ** 2
        own_squares = 0.99 * own_squares + np.clip(target - said[t - late], -10 * limit, 10 * limit) ** 2
        rows = 0.99 * rows + 1.0
        all_short = 0.9 * all_short + np.clip(target - last, -10 * limit, 10 * limit) ** 2
        short_rows = 0.9 * short_rows + 1.0
        for k, value in enumerate(row if judged is None else judged[t - late].tolist()):
            if not math.isnan(value):
                e, n = short.get(k, (0.0, 0.0))
                short[k] = 0.9 * e + (target - value) ** 2, 0.9 * n + 1.0
        square = own_squares / rows
        outer.learn(each, last, target, limit, square)
        if unit:
            for one in regressions:
                one.learn(x, float(np.clip((target - each[0]) / unit, -20, 20)))
        for voice, own in zip(voices, each[:3], strict=True):
            voice.learn(row if judged is None else judged[t - late].tolist(), own, target, limit, square)
    return np.array(said)


def stream(n=400, seed=0):
    """Members that are good in turn; one is born late, one is away now and then, some targets are missing."""
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.normal(size=n))
    noise = rng.normal(size=(n, 5)) * [0.3, 1.0, 3.0, 0.5, 0.2]
    noise[: n // 2, 0] *= 20
    noise[300, 1], y[333] = 1e9, 1e7  # a wild member, a wild target
    means = y[:, None] + noise
    means[333] = y[332] + noise[333]
    means[:150, 3], means[::7, 4], y[::11] = np.nan, np.nan, np.nan
    return y, means


@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_each_rule_says_what_its_formula_says(rule):
    y, means = stream()
    np.testing.assert_allclose(combined(rule, y, means)[0], oracle(y, means, rule), rtol=1e-8)


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_late_targets_are_compared_with_what_was_said_when_the_row_was_issued(rule, rows):
    y, means = stream()
    judged = means.copy()
    means[100:300:3, 2] = np.nan  # no say, but judged
    np.testing.assert_allclose(late(rule, y, means, rows, judged), oracle(y, means, rule, rows, judged), rtol=1e-8)


@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_blocks_of_rows_and_single_rows_are_the_same(rule):
    y, means = stream()
    whole, weights = combined(rule, y, means)
    kept = state(means.shape[1])
    parts = [combined(rule, y[a:b], means[a:b], kept) for a, b in ((0, 1), (1, 7), (7, 200), (200, 400))]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), whole)
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), weights)


@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_weights_are_shares_of_those_who_are_awake(rule):
    y, means = stream()
    weights = combined(rule, y, means)[1]
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-12)
    assert weights[np.isnan(means)].max() == 0


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_units_do_not_matter(rule, unit):
    y, means = stream()
    np.testing.assert_allclose(combined(rule, unit * y, unit * means)[0], unit * combined(rule, y, means)[0], rtol=1e-6)


def test_regret_stays_below_its_bound():
    """Against the best member in hindsight, where the best one changes and the others try to mislead."""
    rng = np.random.default_rng(1)
    n, K = 4000, 6
    y = rng.uniform(-1, 1, n)
    means = rng.uniform(-1, 1, (n, K))
    means[np.arange(n), (np.arange(n) // 500) % K] = y  # each is right in turn
    said, _ = combined(ML_POLY, y, means)
    loss, single = (said - y) ** 2, (means - y[:, None]) ** 2
    largest = 2 * 2 * 2  # slopes of the loss times differences of predictions
    assert loss.sum() - single.sum(0).min() <= largest * math.sqrt(K * (1 + math.log(n)) * n)


@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_all_asleep_say_nothing_and_learn_nothing(rule):
    y, means = stream()
    kept = state(means.shape[1])
    combined(rule, y, means, kept)
    before = [array.copy() for array in kept]
    out, weights = combined(rule, np.ones(3), np.full((3, means.shape[1]), np.nan), kept)
    assert np.isnan(out).all()
    assert not weights.any()
    for array, old in zip(kept, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("rule", [RECENT, ML_POLY, STACKED], ids=RULES)
def test_constant_and_perfect_members_leave_no_nan(rule):
    y = np.concatenate([np.zeros(50), np.full(50, 3.0), np.linspace(0, 1, 50)])
    means = np.column_stack([y, np.zeros(150), np.r_[0.0, y[:-1]], np.full(150, 1e70)])
    said, weights = combined(rule, y, means)
    assert np.isfinite(said[1:]).all()
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(said[-1], y[-1], atol=0.1)


@pytest.mark.parametrize("rule", [ML_POLY, STACKED], ids=RULES[1:])
def test_a_member_that_is_a_million_times_better_is_soon_alone(rule):
    """What all have gained while errors were large must not outweigh what is plain now."""
    rng = np.random.default_rng(0)
    y = rng.gamma(2, 60, 600)
    means = y[:, None] + rng.normal(size=(600, 8)) * [1e-4, 2, 2, 3, 5, 20, 80, 110]
    means[:20, 0], means[:100, 1:5] = np.nan, np.nan
    assert np.abs(combined(rule, y, means)[0] - y)[400:].max() < 0.01


@pytest.mark.parametrize("rule", range(len(RULES)))
def test_the_mixture_is_that_of_the_members_with_their_recent_errors_where_they_have_no_variance(rule):
    y, means = stream()
    r = np.random.default_rng(1)
    variance, noise = r.uniform(0.1, 2.0, (2, *means.shape))
    variance[:, 0], noise[:, 1] = np.nan, np.inf
    _, weights, heard, mixed = whole(rule, y, np.stack([means, variance, noise]))
    squares, rows, expected = np.zeros(means.shape[1]), np.zeros(means.shape[1]), []
    for t, row in enumerate(means):
        recent = np.array([s / n if n else np.nan for s, n in zip(squares, rows, strict=True)])
        own = np.array([0.0, 0.0, *variance[t, 2:]]), np.array([*recent[:2], *noise[t, 2:]])
        left = np.where(np.isfinite(own[1]), weights[t], 0.0)
        left = left / left.sum() if left.any() else np.full_like(left, np.nan)
        np.testing.assert_allclose(heard[t], left, rtol=1e-12)
        if np.isnan(left).all():
            expected.append((np.nan, np.nan))
        else:
            spread = sum(w * (m - mixed[0, t]) ** 2 for w, m in zip(weights[t], row, strict=True) if w > 0)
            inside, outside = (sum(w * v for w, v in zip(left, part, strict=True) if w > 0) for part in own)
            expected.append((inside + spread, outside))
        if not np.isnan(y[t]):
            awake = ~np.isnan(row)
            squares[awake], rows[awake] = 0.99 * squares[awake] + (y[t] - row[awake]) ** 2, 0.99 * rows[awake] + 1
    np.testing.assert_allclose(mixed[1:].T, expected, rtol=1e-8)

"""Benchmark series against direct recursions."""

import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from streamgp import data
from streamgp.data import series

REPOSITORY = Path(__file__).parents[2]


AUTONOMOUS = {"mackey_glass": data.mackey_glass, "henon": data.henon, "ikeda": data.ikeda, "lorenz": data.lorenz}
DRIVEN = {"np2": data.np2, "narma10": data.narma10}
ALL = AUTONOMOUS | DRIVEN | {"np1": data.np1}
every_series = pytest.mark.parametrize("generate", ALL.values(), ids=ALL)

# ---- what all series promise ----


@every_series
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(generate):
    first, again, other = generate(50, seed=3, irrelevant=1), generate(50, seed=3, irrelevant=1), generate(50, seed=4)
    for a, b in zip(first[:3], again[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.any(first.Y == other.Y)


@every_series
def test_the_first_rows_do_not_depend_on_how_many_are_asked_for(generate):
    short, long = generate(40, irrelevant=2), generate(90, irrelevant=2)
    for a, b in zip(short[:3], long[:3], strict=True):
        np.testing.assert_array_equal(a, b[:40])


@every_series
def test_irrelevant_columns_are_appended_and_change_nothing_else(generate):
    plain, one, two = generate(2000), generate(2000, irrelevant=1), generate(2000, irrelevant=2)
    d = plain.X.shape[1]
    np.testing.assert_array_equal(two.X[:, :d], plain.X)
    np.testing.assert_array_equal(two.X[:, : d + 1], one.X)
    np.testing.assert_array_equal(two.Y, plain.Y)
    assert two.inputs == (*plain.inputs, "irrelevant1", "irrelevant2")
    extra = two.X[:, d:]
    assert -1 <= extra.min() < -0.99
    assert 0.99 < extra.max() <= 1
    assert abs(np.corrcoef(extra.T)[0, 1]) < 0.08  # 3.5 standard errors of 2000 rows
    np.testing.assert_allclose(extra.var(axis=0), 1 / 3, atol=0.03)


@every_series
def test_noise_is_a_standard_deviation_and_leaves_the_truth_as_it_was(generate):
    clean, noisy = generate(4000, noise_std=0.0), generate(4000, noise_std=0.2)
    np.testing.assert_array_equal(clean.Y, clean.truth)
    np.testing.assert_array_equal(noisy.truth, clean.truth)
    np.testing.assert_allclose((noisy.Y - noisy.truth).std(axis=0), 0.2, rtol=0.05)


@every_series
def test_shapes_and_names_agree(generate):
    s = generate(30)
    assert s.X.shape == (30, len(s.inputs))
    assert s.Y.shape == s.truth.shape == ((30,) if len(s.targets) == 1 else (30, len(s.targets)))
    assert s.X.flags.owndata
    assert s.Y.flags.owndata


@pytest.mark.parametrize("generate", AUTONOMOUS.values(), ids=AUTONOMOUS)
def test_a_target_is_the_next_input_seen_through_the_same_noise(generate):
    s = generate(200)
    np.testing.assert_array_equal(s.Y[:-1], s.X[1:].reshape(s.Y[:-1].shape))
    errors = s.X[1:].reshape(s.Y[:-1].shape) - s.truth[:-1]
    assert abs(errors.std() / 0.05 - 1) < 0.2


@pytest.mark.parametrize("generate", DRIVEN.values(), ids=DRIVEN)
def test_the_input_of_a_driven_system_is_known_without_noise(generate):
    np.testing.assert_array_equal(generate(100, noise_std=0.0).X, generate(100, noise_std=3.0).X)


@pytest.mark.parametrize(
    ("name", "mnae", "rmse"),
    [  # [soh2014] Table I, OIESGP
        ("mackey_glass", 0.0802, 0.0218),
        ("henon", 0.2541, 0.0739),
        ("ikeda", 0.3825, 0.2288),
        ("lorenz", 0.1379, 0.0375),
        ("np1", 0.0159, 0.0147),
        ("np2", 0.1454, 0.0866),
        ("narma10", 0.1792, 0.0235),
    ],
)
def test_the_spread_is_what_the_published_scores_imply(name, mnae, rmse):
    assert_spread_is_implied(ALL[name](10_000).truth, mnae, rmse)


def assert_spread_is_implied(truth, mnae, rmse):
    # MNAE = mean|e| / sd(truth), and mean|e| = RMSE sqrt(2/pi) where errors are Gaussian, less where they are not.
    implied = rmse * math.sqrt(2 / math.pi) / mnae
    spread = truth.std() if truth.ndim == 1 else truth[:, 0].std()
    assert abs(spread / implied - 1) < 0.15


def test_100_000_rows_of_every_system_stay_finite():
    for generate in ALL.values():
        s = generate(100_000)
        assert np.all(np.isfinite(s.X))
        assert np.all(np.abs(s.truth) < 10)


# ---- each system against its definition ----


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mackey_glass", [0.19801471439289214, -0.22186193541280355, 0.22888076649457514]),
        ("henon", [-0.24716210305443712, 0.13064173553331376, 0.1827555548705907]),
        ("ikeda", [0.7081281259150614, 0.7107511036113779, -0.4834882440515421]),
        ("lorenz", [-0.14963075681823068, 0.0396002395765022, -0.07483362105450089]),
        ("np1", [-0.05770527728738879, 0.1777517922009062, -1.0202894690314233]),
        ("np2", [-0.2088823329929842, -0.3303863527440229, -0.1710983344372432]),
        ("narma10", [0.1, 0.1639897009651232, 0.2995547673180401]),
    ],
)
def test_a_series_is_what_it_was_when_its_formula_was_checked(name, rows):
    truth = np.column_stack([ALL[name](300, noise_std=0.0).truth])[:, -1]
    np.testing.assert_allclose(truth[[0, 9, 299]], rows, atol=1e-12 if name in ("henon", "lorenz") else 1e-6)


def test_henon_starts_with_the_textbook_orbit():
    x = list(islice(series._henon(0.0, 0.0), 4))
    np.testing.assert_allclose(x, [1.0, -0.4, 1.076, 1 - 1.4 * 1.076**2 + 0.3 * -0.4], atol=1e-15)


def test_henon_obeys_its_recurrence_in_unscaled_units():
    x = data.henon(20_000, noise_std=0.0).truth / 0.2175 * 0.7210
    np.testing.assert_allclose(x[2:], 1 - 1.4 * x[1:-1] ** 2 + 0.3 * x[:-2], atol=1e-12)
    assert abs(x.std() - 0.7210) < 0.01
    assert abs(x.min() + 1.2847) < 1e-2
    assert abs(x.max() - 1.2730) < 1e-2


def test_ikeda_obeys_its_recurrence_in_complex_numbers():
    s = data.ikeda(5000, noise_std=0.0)
    re, im = (np.arctanh(s.truth) + np.array([0.6300, -0.4203])).T
    z = re + 1j * im
    np.testing.assert_allclose(z[1:], 1 + 0.9 * z[:-1] * np.exp(1j * (0.4 - 6 / (1 + np.abs(z[:-1]) ** 2))), atol=1e-10)
    assert abs(z.mean() - (0.6300 - 0.4203j)) < 0.03


def lorenz_slope(state):
    x, y, z = np.moveaxis(state, -1, 0)
    return np.stack([10 * (y - x), 28 * x - x * z - y, x * y - 8 * z / 3], axis=-1)


def test_lorenz_with_fine_steps_meets_an_adaptive_integrator():
    start = [10.0, 7.0, 35.0]
    fine = list(islice(series._lorenz(*start, step=1e-3), 1000))
    exact = solve_ivp(lambda _, state: lorenz_slope(state), (0, 1), start, "DOP853", rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fine[-1], exact.y[:, -1], atol=1e-7)


def test_np1_inputs_and_targets_share_one_noise():
    s = data.np1(100)
    np.testing.assert_array_equal(s.X[1:, 0], s.X[:-1, 1])
    np.testing.assert_array_equal(s.Y[:-1], s.X[1:, 1])


def test_narma10_halves_the_few_inputs_that_would_make_it_diverge():
    changed, diverged = 0, 0
    for seed in range(10):
        drawn = np.random.default_rng([seed, 2]).uniform(0.0, 0.5, 20_000)
        s = data.narma10(20_000, seed=seed)
        used = (s.X[:, 0] + 1) / 4
        other = np.abs(used - drawn) > 1e-12
        changed += other.sum()
        diverged += any(other)
        halvings = np.log2(drawn[other] / used[other])
        np.testing.assert_allclose(halvings, np.round(halvings), atol=1e-9)
        assert np.all(halvings > 0.5)
        assert s.truth.max() <= 1
    assert 0 < changed < 20
    assert 0 < diverged < 10


def test_channel_switches_between_two_random_channels_with_a_first_coefficient_of_1():
    s = data.channel_switch(seed=2)
    response = np.arctanh(s.truth)
    before, *_ = np.linalg.lstsq(s.X[:500], response[:500], rcond=None)
    after, *_ = np.linalg.lstsq(s.X[500:], response[500:], rcond=None)
    np.testing.assert_allclose(s.X[:500] @ before, response[:500], atol=1e-9)
    np.testing.assert_allclose(s.X[500:] @ after, response[500:], atol=1e-9)
    np.testing.assert_allclose([before[0], after[0]], 1, atol=1e-9)
    assert np.abs(before - after)[1:].min() > 1e-3
    assert abs(s.X[500] @ before - response[500]) > 1e-3


def test_channel_rows_hold_the_last_inputs_newest_first():
    s = data.channel_switch(300, embedding=4)
    np.testing.assert_array_equal(s.X[1:, 1:], s.X[:-1, :-1])
    assert 0 <= s.X.min() < s.X.max() <= 1
    assert s.inputs == ("u[t]", "u[t-1]", "u[t-2]", "u[t-3]")


def test_channel_noise_has_the_asked_ratio():
    s = data.channel_switch(20_000, switch=10_000, snr_db=20)
    assert abs(s.truth.var() / (s.Y - s.truth).var() / 100 - 1) < 0.05


def test_huber_function_is_its_formula_with_noise_of_variance_0_1():
    s = data.huber_function(5000)
    direct = [x / 2 + 25 * x / (1 + x * x) * math.cos(x) for x in s.X[:, 0]]
    np.testing.assert_allclose(s.truth, direct, atol=1e-12)
    assert abs((s.Y - s.truth).var() - 0.1) < 0.008
    assert -10 <= s.X.min() < -9.9
    assert 9.9 < s.X.max() <= 10


def cross_formula(a, b):
    return max(math.exp(-10 * a * a), math.exp(-50 * b * b), 1.25 * math.exp(-5 * (a * a + b * b)))


def test_cross_is_its_formula():
    s = data.cross(400)
    np.testing.assert_allclose(s.truth, [cross_formula(a, b) for a, b in s.X], atol=1e-14)
    assert abs((s.Y - s.truth).std() - 0.1) < 0.015
    assert np.abs(s.X).max() <= 1


def test_cross_grid_covers_the_square_without_noise():
    s = data.cross_grid()
    assert s.X.shape == (1681, 2)
    assert len({tuple(row) for row in np.round(s.X / 0.05).astype(int)}) == 1681
    assert np.abs(s.X).max() == 1
    np.testing.assert_array_equal(s.Y, s.truth)
    assert s.truth.max() == 1.25


def test_cross_in_10_dimensions_is_a_rotation_of_the_plane():
    plane, turned = data.cross(100, seed=7), data.cross(100, dimensions=10, seed=7)
    np.testing.assert_allclose(turned.X @ turned.X.T, plane.X @ plane.X.T, atol=1e-12)
    assert np.linalg.matrix_rank(turned.X, tol=1e-9) == 2
    np.testing.assert_array_equal(turned.truth, plane.truth)


def test_cross_grid_is_turned_by_the_rotation_of_its_seed():
    back, *_ = np.linalg.lstsq(data.cross_grid(dimensions=10, seed=7).X, data.cross_grid().X, rcond=None)
    np.testing.assert_allclose(data.cross(50, 10, seed=7).X @ back, data.cross(50, seed=7).X, atol=1e-10)
    assert np.abs(data.cross(50, 10, seed=8).X @ back - data.cross(50, seed=8).X).max() > 0.1


def test_the_rotation_turns_and_does_not_mirror():
    from streamgp.data.functions import _rotation

    for seed in range(4):
        R = _rotation(10, np.random.default_rng(seed))
        np.testing.assert_allclose(R @ R.T, np.eye(10), atol=1e-12)
        assert abs(np.linalg.det(R) - 1) < 1e-10


def test_cross_in_20_dimensions_adds_ten_columns_of_small_noise():
    ten, twenty = data.cross(1000, 10), data.cross(1000, 20)
    np.testing.assert_array_equal(twenty.X[:, :10], ten.X)
    np.testing.assert_allclose(twenty.X[:, 10:].std(axis=0), 0.05, rtol=0.1)
    assert not np.any(data.cross_grid(dimensions=20).X[:1000, 10:] == twenty.X[:, 10:])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: data.henon(0), ValueError, "n must be a whole number of at least 1; got 0"),
        (lambda: data.np1(2.5), TypeError, "n must be a whole number"),
        (lambda: data.narma10(5, seed=-1), ValueError, "seed must be a whole number of at least 0"),
        (lambda: data.lorenz(5, noise_std=-0.1), ValueError, "noise_std must be a finite number at least 0"),
        (lambda: data.np2(5, noise_std=-0.1), ValueError, "noise_std must be a finite number at least 0"),
        (lambda: data.ikeda(5, irrelevant=-1), ValueError, "irrelevant must be a whole number of at least 0"),
        (lambda: data.cross(dimensions=3), ValueError, "dimensions must be 2, 10 or 20, .* got 3"),
        (lambda: data.cross_grid(points=1), ValueError, "points must be a whole number of at least 2"),
        (lambda: data.channel_switch(snr_db=math.inf), ValueError, "snr_db must be a finite number"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_every_generator_is_documented():
    page = (REPOSITORY / "docs" / "data.md").read_text()
    for name in set(data.__all__) - {"Series"}:
        assert f"`{name}" in page, name

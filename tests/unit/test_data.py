"""Benchmark series against direct recursions, real tables against their published facts."""

import datetime as dt
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from streamgp import data
from streamgp.data import catalogue, series

REPOSITORY = Path(__file__).parents[2]


def table(name: str) -> data.Table:
    try:
        return data.load(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def laser(n: int | None = None, **settings: object) -> data.Series:
    try:
        return data.laser(n, **settings)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


AUTONOMOUS = {"mackey_glass": data.mackey_glass, "henon": data.henon, "ikeda": data.ikeda, "lorenz": data.lorenz}
AUTONOMOUS |= {"laser": laser}
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
        ("laser", 0.1913, 0.0481),
        ("ikeda", 0.3825, 0.2288),
        ("lorenz", 0.1379, 0.0375),
        ("np1", 0.0159, 0.0147),
        ("np2", 0.1454, 0.0866),
        ("narma10", 0.1792, 0.0235),
    ],
)
def test_the_spread_is_what_the_published_scores_imply(name, mnae, rmse):
    truth = ALL[name](10_000).truth
    # MNAE = mean|e| / sd(truth), and mean|e| = RMSE sqrt(2/pi) where errors are Gaussian, less where they are not.
    implied = rmse * math.sqrt(2 / math.pi) / mnae
    spread = truth.std() if truth.ndim == 1 else truth[:, 0].std()
    assert abs(spread / implied - 1) < 0.15


def test_100_000_rows_of_every_system_stay_finite():
    for generate in set(ALL.values()) - {laser}:
        s = generate(100_000)
        assert np.all(np.isfinite(s.X))
        assert np.all(np.abs(s.truth) < 10)


# ---- each system against its definition ----


def test_mackey_glass_equals_eulers_rule_written_out():
    n, seed = 60, 5
    path = list(1.2 + np.random.default_rng([seed, 1]).uniform(-0.1, 0.1, 171))
    for _ in range(10 * (1000 + n + 1)):
        delayed = path[-171]
        path.append(path[-1] + 0.1 * (0.2 * delayed / (1 + delayed**10) - 0.1 * path[-1]))
    kept = np.tanh(np.array(path[170:][10::10])[1000:] - 1)
    s = data.mackey_glass(n, seed=seed, noise_std=0.0)
    np.testing.assert_allclose(s.X[:, 0], kept[:-1], atol=1e-10)
    np.testing.assert_allclose(s.truth, kept[1:], atol=1e-10)


def test_mackey_glass_with_fine_steps_meets_the_public_series_of_delay_30():
    reference = table("chaotic_reference/mg30")
    step = 1e-3
    kept = np.empty(25)
    series._mackey_glass(np.full(int(30 / step) + 1, 0.89), step, int(6 / step), kept)
    # The file has one value each 6 units of time; its first five stand for the constant history.
    np.testing.assert_allclose(kept, reference.Y[5:30], atol=2e-3)


def test_henon_starts_with_the_textbook_orbit():
    x = np.empty(4)
    series._henon(0.0, 0.0, x)
    np.testing.assert_allclose(x, [1.0, -0.4, 1.076, 1 - 1.4 * 1.076**2 + 0.3 * -0.4], atol=1e-15)


@pytest.mark.parametrize("name", ["henon", "lorenz"])
def test_a_chaotic_orbit_is_the_same_on_every_processor(name):
    """One fused multiplication and the orbit is another after 100 rows; what Python computes, nothing fuses."""
    out = np.empty(500) if name == "henon" else np.empty((5000, 3))
    orbit = getattr(series, f"_{name}")
    arguments = (0.05, -0.03) if name == "henon" else (np.array([1.0, 2.0, 20.0]), 0.01)
    orbit(*arguments, out)
    expected = np.empty_like(out)
    getattr(orbit, "py_func", orbit)(*arguments, expected)
    np.testing.assert_array_equal(out, expected)


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


def lorenz_step(state, h):
    k1 = lorenz_slope(state)
    k2 = lorenz_slope(state + h / 2 * k1)
    k3 = lorenz_slope(state + h / 2 * k2)
    k4 = lorenz_slope(state + h * k3)
    return state + h * (k1 / 6 + k2 / 3 + k3 / 3 + k4 / 6)


def test_lorenz_steps_are_the_runge_kutta_rule_in_unscaled_units():
    s = data.lorenz(20_000, noise_std=0.0)
    mean, sd = np.array([0, 0, 22.975]), np.array([7.804, 8.963, 8.798])
    states = s.truth / 0.2175 * sd + mean
    np.testing.assert_allclose(states[1:], lorenz_step(states[:-1], 0.1), atol=1e-10)
    np.testing.assert_allclose(states.std(axis=0), sd, rtol=0.02)
    np.testing.assert_allclose(states.mean(axis=0), mean, atol=0.6)


def test_lorenz_starts_near_5_5_20():
    states = np.empty((3, 3))
    series._lorenz(np.array([5.0, 5.0, 20.0]), 0.1, states)
    first = lorenz_step(np.array([5.0, 5.0, 20.0]), 0.1)
    np.testing.assert_allclose(states[:2], [first, lorenz_step(first, 0.1)], atol=1e-12)


def test_lorenz_with_fine_steps_meets_an_adaptive_integrator():
    start = np.array([10.0, 7.0, 35.0])
    fine = np.empty((1000, 3))
    series._lorenz(start, 1e-3, fine)
    exact = solve_ivp(lambda _, state: lorenz_slope(state), (0, 1), start, "DOP853", rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fine[-1], exact.y[:, -1], atol=1e-7)


def test_the_public_lorenz_series_is_the_z_axis_by_eulers_rule():
    state, z = np.array([10.0, 7.0, 35.0]), []
    for _ in range(200):
        z.append(state[2])
        state = state + 0.01 * lorenz_slope(state)
    np.testing.assert_allclose(table("chaotic_reference/lorenz").X[:200, 0], z, atol=2e-6)  # six decimals


def test_np1_equals_its_recursion_written_out():
    d = [0.1, 0.1]
    for _ in range(50):
        a, b = d[-1], d[-2]
        d.append(
            (0.8 - 0.5 * math.exp(-(a**2))) * a - (0.3 + 0.9 * math.exp(-(a**2))) * b + 0.1 * math.sin(math.pi * a)
        )
    s = data.np1(50, noise_std=0.0)
    np.testing.assert_allclose(s.X, np.column_stack([d[:-2], d[1:-1]]), atol=1e-10)
    np.testing.assert_allclose(s.truth, d[2:], atol=1e-10)
    assert s.inputs == ("d[t-2]", "d[t-1]")


def test_np1_inputs_and_targets_share_one_noise():
    s = data.np1(100)
    np.testing.assert_array_equal(s.X[1:, 0], s.X[:-1, 1])
    np.testing.assert_array_equal(s.Y[:-1], s.X[1:, 1])


def test_np2_is_the_squared_state_that_the_input_of_the_row_drives():
    s = data.np2(3000, noise_std=0.0)
    v, d = 0.5, []
    for u in s.X[:, 0]:
        v = 1.1 * math.exp(-abs(v)) + u
        d.append(v**2)
    np.testing.assert_allclose(s.truth, np.array(d) - 0.4764, atol=1e-12)
    assert abs(s.X.std() - 0.25) < 0.01
    assert abs(s.truth.mean()) < 0.04


def test_narma10_answers_the_input_of_the_row_and_the_one_nine_before():
    s = data.narma10(500, noise_std=0.0)
    u = np.concatenate([np.zeros(9), (s.X[:, 0] + 1) / 4])
    y = np.zeros(10)  # y[-1] is y_t, y[-10] is y_{t-9}
    for t in range(500):
        y = np.append(y, 0.3 * y[-1] + 0.05 * y[-1] * y[-10:].sum() + 1.5 * u[t] * u[t + 9] + 0.1)
    np.testing.assert_allclose(s.truth, y[10:], atol=1e-12)
    assert s.X.min() >= -1
    assert s.X.max() <= 1


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


def test_laser_is_the_recorded_series_over_its_maximum_centred():
    recorded = np.append(table("santafe_laser").X[:, 0], table("santafe_laser").Y[-1])
    s = laser(noise_std=0.0)
    assert recorded.shape == (10_093,)
    np.testing.assert_allclose(s.X[:, 0], (recorded / 255)[:-1] - np.mean(recorded / 255), atol=1e-14)
    np.testing.assert_allclose(s.truth, (recorded / 255)[1:] - np.mean(recorded / 255), atol=1e-14)


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
        (lambda: laser(10_093), ValueError, "n must be at most 10092"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


# ---- tables ----

# rows, inputs, targets, first row of X (beginning), first target, sum of all targets
FACTS = {
    "sarcos/test": (4449, 21, 7, [0.019478, -0.134218], 50.292652, 136853.025441),
    "sarcos/first5800": (5800, 21, 7, [0.019478, -0.134218], 50.292652, 157420.388874),
    "sarcos/torques": (44483, 7, 7, [50.292652, -36.971897], 44.104164, 1368369.95006),
    "sarcos/ias": (19491, 21, 7, [0.019478], 50.292652 / 3, 176367.926632),
    "barrett_wam": (15000, 21, 7, [-0.000918301254], 1.02972997, 373110.835855),
    "barrett_wam/hyper": (1200, 21, 7, [-0.000918301254], 1.02972997, 29831.813077),
    "baxter_dynamics/inverse": (19295, 21, 7, [0.07823302], 1.668, -104045.32),
    "baxter_dynamics/forward": (19295, 21, 14, [0.07823302], 0.07823302, 23884.117224),
    "kin40k": (40000, 8, 1, [1.5519641, 0.58877295], 0.57637391, 615.694453),
    "actuator": (1024, 1, 1, [-0.0068164], -0.000262404, 5.927949),
    "drives/1": (500, 1, 1, [1.0], 0.03174603, 662.070818),
    "drives/2": (500, 1, 1, [1.5], 0.01709402, 1490.354090),
    "drives/3": (500, 1, 1, [0.5], 0.03174603, 243.604396),
    "gefcom2012_load": (38064, 11, 20, [46, 38, 44, 45], 16853, 62697783543),
    "gefcom2012_wind": (130963, 16, 1, [2.91, -2.16], 0.201, 37295.93),
    "gefcom2012_wind/7": (18709, 16, 1, [2.29, -2.34], 0.0, 5449.365),
    "santafe_laser": (10092, 1, 1, [86], 141, 603794),
    "silverbox": (131072, 1, 1, [0.00577562], 0.00939780342, 106.954101),
    "bike_hourly": (17379, 12, 1, [1, 0, 1, 0, 0, 6, 0, 1, 0.24, 0.2879, 0.81, 0], 16, 3292679),
    "pm10_germany_2005": (23230, 4, 1, [538708.583, 5947029.695, 1, 8], 16.696, 415499.33),
    "lasa_handwriting/Angle": (6993, 2, 2, [-43.79310345, -3.10344828], 0.0, 111238.928895),
    "hr_limit_cycles/infinity": (1407, 2, 2, [11.28536515, -5.57818382], 0.75089916, 139.009792),
    "driving_udacity/round2": (33808, 2, 1, [0.375, 23.00443135], 0.00103893906, -286.644968),
    "driving_udacity/round1": (10294, 2, 1, [1.1875, 1.07380002], 0.11261331, -30.758831),
    "comma2k19_segment/speed": (4967, 6, 1, [2.93562588], 7.97430556, 83150.116667),
    "comma2k19_segment/yaw": (6244, 6, 1, [-0.100494385], 0.00372314453, -2.7878723),
    "uci_elevators": (16599, 18, 1, [-294.2, -27.201], -0.041959, -0.0020789),
    "uci_pumadyn32nm": (8192, 32, 1, [-0.85451, -0.36712], -0.86927, 0.00337468),
    "co2_mauna_loa": (2284, 1, 1, [1958 + 87 / 365], 316.1, 756816.5),
    "mcycle": (133, 1, 1, [2.4], 0.0, -3397.6),
    "sysid_classics/dryer": (1000, 1, 1, [6.41], 4.7660989, 4890.10004),
    "sysid_classics/ballbeam": (1000, 1, 1, [-0.001963499], -0.004885198, -20.157547),
    "sysid_classics/flutter": (1024, 1, 1, [6.6556145e-08], 4.3539883e-08, -2.24971933e-07),
    "sysid_classics/gas_furnace": (296, 1, 1, [-0.109], 53.8, 15838.7),
    "sysid_classics/tank": (2500, 1, 2, [0.85964003], 0.38085938, 19450.278320),
    "chaotic_reference/lorenz": (10000, 1, 1, [35.0], 34.766667, 249073.688715),
    "chaotic_reference/mg30": (4999, 1, 1, [0.89], 0.89, 4471.740921),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_table_has_its_published_rows_columns_and_values(name):
    rows, d, p, x, y, total = FACTS[name]
    t = table(name)
    assert t.name == name
    assert t.X.shape == (rows, d) == (rows, len(t.inputs))
    assert t.Y.shape == ((rows,) if p == 1 else (rows, p))
    assert len(t.targets) == p
    np.testing.assert_allclose(t.X[0, : len(x)], x, rtol=1e-6)
    np.testing.assert_allclose(np.ravel(t.Y)[0], y, rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(np.nansum(t.Y), total, rtol=1e-7, atol=1e-8)
    assert np.all(np.isfinite(t.X))
    assert t.X.dtype == t.Y.dtype == np.float64


def test_every_table_loads_and_its_sequences_are_in_order():
    table("lasa_handwriting")
    there = data.available()
    for name in there:
        if name.startswith(("lasa_handwriting/", "hr_limit_cycles/", "gefcom2012_wind/")):
            t = data.load(name)
            assert t.starts[0] == 0
            assert np.all(np.diff(t.starts) > 0)
            assert t.starts[-1] < len(t.X)
            assert np.all(np.isfinite(t.X))
            assert np.all(np.isfinite(t.Y))
            if name.startswith("lasa"):
                np.testing.assert_array_equal(t.starts, 999 * np.arange(7))


def test_demonstrations_of_the_curves_are_as_many_as_published():
    published = {"apple": 15, "arrow": 18, "bean": 17, "coam": 20, "heart": 19, "hourglass": 19, "infinity": 11}
    published |= {"pickplace": 12, "puzzle": 19, "ringedring": 15, "spiral": 20, "square": 14, "star": 17}
    published |= {"triangle": 16, "vase": 17}
    assert sum(published.values()) == 249
    assert {curve: len(table(f"hr_limit_cycles/{curve}").starts) for curve in published} == published


def test_sarcos_test_rows_are_every_tenth_of_the_full_rate_rows():
    test, full = table("sarcos/test"), table("sarcos/first5800")
    np.testing.assert_allclose(test.X[:580], full.X[::10], atol=2e-6)
    np.testing.assert_array_equal(test.Y[:580], full.Y[::10])


def test_sarcos_ias_is_the_full_rate_interpolated_with_a_third_of_the_torque():
    ias, torques = table("sarcos/ias"), table("sarcos/torques").X
    times = 0.4166217720792 * np.arange(ias.split)
    for j in range(7):
        expected = np.interp(times, np.arange(len(torques)), torques[:, j]) / 3
        np.testing.assert_allclose(ias.Y[: ias.split, j], expected, atol=2e-6)


def test_published_splits():
    expected = {"kin40k": 10_000, "barrett_wam": 12_000, "actuator": 512, "drives/1": 250, "sarcos/ias": 13_922}
    assert {name: catalogue.CATALOGUE[name].split for name in expected} == expected
    kin = table("kin40k")
    np.testing.assert_allclose(kin.X[: kin.split].std(axis=0), 0.99995, atol=1e-5)
    assert abs(kin.Y[: kin.split].mean()) < 1e-9


@pytest.mark.parametrize(("name", "correlation"), [("actuator", 0.7995), ("drives/1", 0.0939)])
def test_input_and_target_correlate_as_published(name, correlation):
    t = table(name)
    assert abs(abs(np.corrcoef(t.X[:, 0], t.Y)[0, 1]) - correlation) < 1e-4


def test_baxter_predicts_the_next_state_within_a_run():
    forward, inverse = table("baxter_dynamics/forward"), table("baxter_dynamics/inverse")
    inner = np.setdiff1d(np.arange(len(forward.X)), forward.starts)[:5000]
    np.testing.assert_array_equal(forward.X[inner, :14], forward.Y[inner - 1])
    np.testing.assert_array_equal(inverse.Y, forward.X[:, 14:])
    np.testing.assert_allclose(inverse.X[:, 14:], forward.Y[:, 7:] - forward.X[:, 7:14], atol=1e-14)
    assert len(forward.starts) == 10


def test_wind_rows_are_the_four_forecasts_valid_at_their_hour():
    t = table("gefcom2012_wind/3")
    with np.load(Path(os.environ["STREAMGP_DATA"]) / "gefcom2012_wind" / "gef_wind.npz") as file:
        raw = dict(file)

    def moment(stamp):
        s = str(stamp)
        return dt.datetime(int(s[:4]), int(s[4:6]), int(s[6:8]), int(s[8:]))

    issues = {moment(stamp): i for i, stamp in enumerate(raw["issue"])}
    hours = [int(h) for h in np.flatnonzero(raw["in_kaggle_train"])[48:]]
    for row in (0, 1, 11, 12, 13, 13_129, 13_200, 18_708):
        now = moment(raw["power_stamp"][hours[row]])
        valid = []
        for lead in range(1, 49):
            issue = issues.get(now - dt.timedelta(hours=lead))
            if issue is not None:
                valid.append(raw["forecast_hundredths"][2, issue, lead - 1] / 100)
        np.testing.assert_array_equal(t.X[row], np.concatenate(valid))
        assert t.Y[row] == raw["power_thousandths"][hours[row], 2] / 1000
    np.testing.assert_allclose(np.hypot(t.X[:, 0], t.X[:, 1]), t.X[:, 2], atol=0.02)


def test_load_rows_are_complete_days_and_sequences_end_at_the_gaps():
    t = table("gefcom2012_load")
    assert t.X.min() > -100
    assert t.Y.min() >= 0
    assert np.all(t.starts % 24 == 0)
    assert len(t.starts) == 9  # eight weeks were held out


def test_lasa_velocity_leads_to_the_next_position():
    t = table("lasa_handwriting/Sine")
    with np.load(Path(os.environ["STREAMGP_DATA"]) / "lasa_handwriting" / "lasa.npz") as file:
        steps = np.diff(file["Sine_t"][2])
        np.testing.assert_array_equal(t.X[2 * 999 : 3 * 999], file["Sine_pos"][2].T[:-1])
    rows = slice(2 * 999, 3 * 999 - 1)
    np.testing.assert_allclose(t.X[rows] + t.Y[rows] * steps[:-1, None], t.X[2 * 999 + 1 : 3 * 999], atol=1e-9)


def test_driving_sequences_end_with_their_segments():
    t = table("driving_udacity")
    np.testing.assert_array_equal(t.starts, np.cumsum([0, 4401, 15796, 1974, 4235]))


def test_comma_speed_agrees_with_the_length_of_the_velocity():
    t = table("comma2k19_segment/speed")
    assert np.abs(np.linalg.norm(t.X[:, :3], axis=1) - t.Y).max() < 1.0


def test_co2_keeps_missing_weeks_as_nan_and_dates_as_years():
    t = table("co2_mauna_loa")
    assert np.isnan(t.Y).sum() == 59
    assert np.all(np.diff(t.X[:, 0]) > 0)
    last = dt.date(2001, 12, 29)
    expected = 2001 + (last - dt.date(2001, 1, 1)).days / 365
    assert abs(t.X[-1, 0] - expected) < 1e-9


def test_pm10_is_sorted_by_day_in_its_range():
    t = table("pm10_germany_2005")
    assert t.inputs[2] == "day_of_2005"
    assert np.all(np.diff(t.X[:, 2]) >= 0)
    assert (t.X[0, 2], t.X[-1, 2], t.Y.min(), t.Y.max()) == (1, 365, 0, 177)


def test_elevators_and_pumadyn_regress_linearly_as_published():
    for name, nmse in (("uci_elevators", 0.216), ("uci_pumadyn32nm", 0.9996)):
        t = table(name)
        A = np.column_stack([t.X, np.ones(len(t.X))])
        A /= np.abs(A).max(axis=0)
        w, *_ = np.linalg.lstsq(A, t.Y, rcond=None)
        assert abs(np.mean((t.Y - A @ w) ** 2) / t.Y.var() - nmse) < 5e-3


def test_a_folder_alone_means_its_first_table():
    assert table("drives").name == "drives/1"
    assert table("hr_limit_cycles").name == "hr_limit_cycles/infinity"
    assert table("sarcos").name == "sarcos/test"


# ---- how tables are found ----


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("sarcoss", "sarcos"), ("lasa_handwriting/Angel", "lasa_handwriting/Angle"), ("kin4k", "kin40k")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, suggestion):
    with pytest.raises(ValueError, match=f"there is no table '{name}'. Did you mean '{suggestion}'"):
        data.load(name)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="the name of a table must be text"):
        data.load(7)


def test_without_a_folder_the_variable_the_file_and_the_source_are_named(monkeypatch):
    monkeypatch.delenv("STREAMGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"STREAMGP_DATA.*actuator/actuator\.mat.*zhenwendai/RGP"):
        data.load("actuator")
    with pytest.raises(FileNotFoundError, match="STREAMGP_DATA"):
        data.available()
    with pytest.raises(FileNotFoundError, match=r"santafe_laser/santafe\.dat.*steven2358/kafbox"):
        data.laser()


def test_a_folder_that_does_not_exist_is_named(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere, named by root=, does not exist.*mcycle/mcycle\.csv"):
        data.load("mcycle", tmp_path / "nowhere")
    monkeypatch.setenv("STREAMGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="named by the environment variable STREAMGP_DATA"):
        data.available()


def test_a_missing_file_is_named_with_its_source(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        data.load("mcycle", tmp_path)
    sentence = str(missing.value)
    assert "'mcycle'" in sentence
    assert "mcycle/mcycle.csv" in sentence
    assert str(tmp_path) in sentence
    assert "AaltoML/BayesNewton" in sentence


def test_available_lists_the_tables_whose_files_are_there(monkeypatch, tmp_path):
    assert data.available(tmp_path) == ()
    (tmp_path / "mcycle").mkdir()
    (tmp_path / "mcycle" / "mcycle.csv").write_text("1,2.4,0\n2,2.6,-1.3\n")
    assert data.available(tmp_path) == ("mcycle",)
    monkeypatch.setenv("STREAMGP_DATA", str(tmp_path))
    assert data.available() == ("mcycle",)
    np.testing.assert_array_equal(data.load("mcycle").X, [[2.4], [2.6]])


def test_an_empty_cell_is_a_missing_target(tmp_path):
    (tmp_path / "mcycle").mkdir()
    (tmp_path / "mcycle" / "mcycle.csv").write_text("1,2.4,\n2,2.6,-1.3\n")
    np.testing.assert_array_equal(data.load("mcycle", tmp_path).Y, [np.nan, -1.3])


@pytest.mark.parametrize("name", ["mcycle", "kin40k", "actuator", "bike_hourly", "hr_limit_cycles/star"])
def test_a_damaged_file_is_refused_with_its_source(tmp_path, name):
    entry = catalogue.CATALOGUE[name]
    path = tmp_path / entry.file
    path.parent.mkdir()
    path.write_bytes(b"\x80 this is no data \x00\x01")
    with pytest.raises(ValueError, match=r"does not hold the table .* Fetch the file again\. It "):
        data.load(name, tmp_path)


def test_a_file_with_other_columns_is_refused(tmp_path):
    (tmp_path / "sarcos").mkdir()
    np.savez(tmp_path / "sarcos" / "sarcos_first5800.npz", X=np.zeros((40, 20)), Y=np.zeros((40, 7)))
    with pytest.raises(ValueError, match=r"21 inputs and 7 targets: the columns are \(40, 20\) and \(40, 7\)"):
        data.load("sarcos/first5800", tmp_path)


def test_wind_forecasts_that_are_missing_are_refused(tmp_path):
    (tmp_path / "gefcom2012_wind").mkdir()
    np.savez(
        tmp_path / "gefcom2012_wind" / "gef_wind.npz",
        in_kaggle_train=np.ones(60, dtype=bool),
        forecast_hundredths=np.full((7, 5, 48, 4), -99999),
        power_thousandths=np.zeros((60, 7)),
    )
    with pytest.raises(ValueError, match="forecasts are missing for some of the hours"):
        data.load("gefcom2012_wind", tmp_path)


def test_every_generator_and_table_is_documented():
    page = (REPOSITORY / "docs" / "data.md").read_text()
    generators = {name for name in data.__all__ if name not in ("Series", "Table", "available", "load", "names")}
    for name in generators | {full.partition("/")[0] for full in data.names()}:
        assert f"`{name}" in page, name


def test_every_entry_says_where_its_file_comes_from():
    for name, entry in catalogue.CATALOGUE.items():
        assert entry.where.startswith("It "), name
        assert entry.where.endswith("."), name
        assert entry.file.startswith(name.partition("/")[0] + "/"), name

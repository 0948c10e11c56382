"""The evidence engine, and tuning a stream model before it goes online."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import streamgp as sg
from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import Evidence, Objective
from streamgp.process.features import Linear
from streamgp.process.memory import remembered
from streamgp.tuning.tune import fit_prefix, tune

TARGET = np.array([0.3, -0.7])


def hill(start=(1.0, 1.0), names=("a", "b")):
    """-|theta - TARGET|^2 over two logarithms."""
    return Objective(
        lambda t: (-float(np.sum((t - TARGET) ** 2)), -2.0 * (t - TARGET)),
        np.array(start, dtype=float),
        names,
        np.array([True, True]),
    )


def draw(n, d, lengthscale, variance, noise, seed, outputs=1):
    """Inputs and targets drawn from a squared exponential prior, by a formula that is not the library's."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, d))
    r2 = sum(((X[:, None, j] - X[None, :, j]) / lengthscale[j]) ** 2 for j in range(d))
    K = variance * np.exp(-0.5 * r2) + noise * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.standard_normal((n, outputs))


def exact_log_evidence(X, y, lengthscale, variance, noise):
    r2 = sum(((X[:, None, j] - X[None, :, j]) / lengthscale[j]) ** 2 for j in range(X.shape[1]))
    K = variance * np.exp(-0.5 * r2) + noise * np.eye(len(X))
    return multivariate_normal(np.zeros(len(X)), K).logpdf(y)


# The engine.


def test_the_maximum_is_found_and_no_point_is_evaluated_twice_from_stage_to_stage():
    seen = []
    far = hill(start=(9.0, -9.0))

    def evaluate(t):
        seen.append(tuple(t))
        return far(t)

    maximum = Evidence(restarts=0).maximize(Objective(evaluate, far.start, far.names, far.logs))
    assert len(seen) == len(set(seen)) > 4
    np.testing.assert_allclose(maximum.coordinates, TARGET, atol=1e-8)
    assert maximum.value == pytest.approx(0.0, abs=1e-12)
    assert maximum.converged == (True,)
    assert maximum.at_bounds == ()
    assert maximum.failures == 0


def test_bounds_hold_and_are_reported():
    maximum = Evidence(restarts=1, bounds={"a": (2.0, 5.0)}).maximize(hill())
    assert maximum.at_bounds == ("a",)
    np.testing.assert_allclose(np.exp(maximum.coordinates), [2.0, np.exp(-0.7)], rtol=1e-7)

    maximum = Evidence(restarts=0, bounds=(1.5, 4.0)).maximize(hill())
    assert maximum.at_bounds == ("a", "b")
    np.testing.assert_allclose(np.exp(maximum.coordinates), [1.5, 1.5], rtol=1e-7)

    maximum = Evidence(restarts=0, bounds={"a": (0.1, 1.2)}).maximize(hill(start=(0.0, 0.0)))
    assert maximum.at_bounds == ("a",)


def test_restarts_find_the_higher_of_two_hills_and_the_seed_repeats_them():
    def two_hills(t):
        low, high = np.exp(-((t[0] - 2.0) ** 2)), 3.0 * np.exp(-((t[0] + 1.0) ** 2))
        return float(low + high), np.array([-2.0 * (t[0] - 2.0) * low - 2.0 * (t[0] + 1.0) * high])

    objective = Objective(two_hills, np.array([2.5]), ("a",), np.array([True]))
    assert Evidence(restarts=0).maximize(objective).value < 1.1
    many = Evidence(restarts=20).maximize(objective)
    assert many.value == pytest.approx(3.0, abs=1e-3)
    again = Evidence(restarts=20).maximize(objective)
    np.testing.assert_array_equal(many.coordinates, again.coordinates)
    assert not np.array_equal(many.history[1][0], Evidence(restarts=20, seed=1).maximize(objective).history[1][0])


def test_coordinates_that_are_not_logarithms_are_unbounded_and_redrawn():
    drawn = []

    def redraw(rng):
        drawn.append(rng.standard_normal(1))
        return drawn[-1]

    objective = Objective(
        lambda t: (-float(t[0] ** 2 + (t[1] + 1e7) ** 2 / 1e14), np.array([-2.0 * t[0], -2.0 * (t[1] + 1e7) / 1e14])),
        np.array([1.0, -1e7 + 1.0]),
        ("a", "points"),
        np.array([True, False]),
        redraw,
    )
    maximum = Evidence(restarts=3).maximize(objective)
    assert len(drawn) == 3
    assert maximum.value == pytest.approx(0.0, abs=1e-9)


def test_the_search_turns_back_where_a_covariance_is_not_positive():
    def guarded(t):
        if t[0] > 0.5:
            raise np.linalg.LinAlgError
        return -float((t[0] - 0.4) ** 2), np.array([-2.0 * (t[0] - 0.4)])

    maximum = Evidence(restarts=0).maximize(Objective(guarded, np.array([-3.0]), ("a",), np.array([True])))
    assert maximum.failures > 0
    np.testing.assert_allclose(maximum.coordinates, [0.4], atol=1e-5)


def test_a_start_that_cannot_be_computed_is_refused_but_an_unlucky_restart_is_not():
    def fails_away_from_zero(t):
        if abs(t[0]) > 1e-3:
            raise np.linalg.LinAlgError
        return 0.0, np.zeros(1)

    def fails(_):
        raise np.linalg.LinAlgError

    lucky = Evidence(restarts=2).maximize(Objective(fails_away_from_zero, np.zeros(1), ("a",), np.array([True])))
    assert lucky.failures == 2
    assert lucky.value == 0.0
    with pytest.raises(ValueError, match=r"cannot be computed at the given hyperparameters.*Raise the noise"):
        Evidence().maximize(Objective(fails, np.zeros(1), ("a",), np.array([True])))


def test_progress_true_prints_lines(capsys):
    Evidence(restarts=1, progress=True).maximize(hill())
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tune: start 1 of 2, iteration 0, log evidence -3.38\n")
    assert "tune: start 2 of 2, iteration 0, log evidence" in said.err


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"restarts": -1}, ValueError, "restarts must be a whole number of at least 0"),
        ({"iterations": 0}, ValueError, "iterations must be a whole number of at least 1"),
        ({"iterations": 1.5}, TypeError, "iterations must be a whole number"),
        ({"bounds": (1.0, 0.1)}, ValueError, "exchange the two"),
        ({"bounds": (0.0, 1.0)}, ValueError, "each of bounds must be a finite number above 0"),
        ({"bounds": 3.0}, TypeError, "must be a pair"),
        ({"bounds": {"noise": (1.0,)}}, TypeError, r"bounds\['noise'\] must be a pair"),
        ({"progress": "yes"}, TypeError, "progress must be True, False or a function; got 'yes'"),
        ({"restart": 2}, TypeError, "Did you mean 'restarts'"),
    ],
)
def test_bad_settings_of_the_engine_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        Evidence(**settings)


def test_bounds_that_do_not_fit_the_model_are_refused():
    for name, message in (
        ("nois", r"'nois', which is no hyperparameter here\. Did you mean 'noise'"),
        ("noise", r"noise starts at 0.01, outside its bounds \(0.1, 1\)"),
        ("factors", "bounds name 'factors', which has no bounds: it may have any sign"),
    ):
        with pytest.raises(ValueError, match=message):
            FullGP(sg.SquaredExponential(factors=1)).fit([0.0, 1.0], [0.0, 1.0], Evidence(bounds={name: (0.1, 1.0)}))


# Known hyperparameters come back.


def test_full_gp_recovers_the_hyperparameters_of_its_data():
    X, Y = draw(300, 2, [0.7, 2.0], 1.5, 0.05, seed=0, outputs=4)
    model = FullGP(sg.SquaredExponential([1.0, 1.0]), noise=0.5).fit(X, Y, Evidence(restarts=1))
    found = model.hyperparameters
    np.testing.assert_allclose(np.log(found["lengthscale"]), np.log([0.7, 2.0]), atol=0.1)
    assert np.log(found["noise"]) == pytest.approx(np.log(0.05), abs=0.1)
    assert np.log(found["variance"]) == pytest.approx(np.log(1.5), abs=0.4)
    value, gradient = model.objective(X, Y)(model.maximum.coordinates)
    assert value == model.maximum.value == model.log_marginal_likelihood()
    assert np.max(np.abs(gradient)) < 0.05  # of a value of about 500


def test_a_start_with_too_little_noise_does_not_end_where_all_data_are_noise():
    X, Y = draw(150, 4, [2.0] * 4, 1.0, 0.01, seed=20)
    model = FullGP(sg.SquaredExponential([10.0] * 4), noise=0.001).fit(X, Y, Evidence(restarts=0))
    assert model.hyperparameters["noise"] == pytest.approx(0.01, rel=0.3)
    truth = exact_log_evidence(X, Y[:, 0], [2.0] * 4, 1.0, 0.01)
    assert truth < model.log_marginal_likelihood() < truth + 10.0


def test_the_limit_of_iterations_holds_over_all_stages():
    X, Y = draw(60, 2, [1.0, 1.0], 1.0, 0.01, seed=21)
    maximum = FullGP(sg.SquaredExponential([9.0, 9.0])).fit(X, Y, Evidence(restarts=0, iterations=13)).maximum
    assert len(maximum.history[0]) == 14
    assert maximum.converged == (False,)


def across(n, seed):
    """A function of one direction that lies across four inputs."""
    rng = np.random.default_rng(seed)
    a = np.array([0.5, -0.5, 0.5, 0.5])
    X = rng.standard_normal((n, 4))
    return X, np.sin(2.0 * X @ a) + 0.1 * rng.standard_normal(n), a


def test_factors_find_a_direction_that_lengthscales_cannot_express():
    X, y, a = across(80, 31)
    new, target, _ = across(400, 32)
    errors = {}
    for k in (None, 1, 2):
        kernel = sg.SquaredExponential([2.0] * 4, factors=k)
        model = FullGP(kernel, noise=0.1).fit(X, y, Evidence(restarts=0))
        errors[k] = np.sqrt(np.mean((model.predict(new).mean - target) ** 2))
        if k:
            loadings = model.hyperparameters["factors"]
            assert loadings.shape == (4, k)
            along = np.linalg.svd(loadings)[0][:, 0]
            assert abs(along @ a) > np.cos(np.radians(3.0))
            np.testing.assert_array_equal(model.kernel.factors, loadings)
    assert max(errors[1], errors[2]) < 0.15  # the noise is 0.1
    assert errors[None] > 2 * errors[1]


def test_tuned_frequencies_find_those_of_the_data():
    rng = np.random.default_rng(6)
    x = rng.uniform(-3.0, 3.0, 200)
    y = np.cos(2.0 * x) + 0.7 * np.sin(5.0 * x) + 0.1 * rng.standard_normal(200)
    start = SSGPR(frequencies=[[1.7], [5.4]], noise=0.1, tune_frequencies=True)
    tuned = start.fit(x, y, Evidence(restarts=0))
    np.testing.assert_allclose(tuned.frequencies, [[2.0], [5.0]], atol=0.03)
    assert tuned.hyperparameters["noise"] == pytest.approx(0.01, rel=0.15)
    fixed = SSGPR(frequencies=[[1.7], [5.4]], noise=0.1).fit(x, y, Evidence(restarts=0))
    assert tuned.log_marginal_likelihood() > fixed.log_marginal_likelihood() + 100.0


# Before going online.


@pytest.mark.parametrize(
    "model",
    [
        sg.SOGP(sg.SquaredExponential([0.3, 3.0]), noise=1.0, capacity=30),
        sg.KRLST(sg.SquaredExponential([0.3, 3.0]), noise=1.0, capacity=30, jitter=0.0),
        sg.OnlineGP(sg.Basis(sg.SquaredExponential([0.3, 3.0])), noise=1.0),
        sg.RecursiveGP(np.zeros((1, 2)), kernel=sg.SquaredExponential([0.3, 3.0]), noise=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tune_returns_an_unlearned_model_of_the_recipe_at_the_maximum_of_the_evidence(model):
    X, Y = draw(80, 2, [0.7, 2.0], 1.0, 0.05, seed=8)
    tuned = tune(model, X, Y[:, 0], Evidence(restarts=0))
    assert type(tuned) is type(model)
    assert tuned.rows_seen == model.rows_seen == 0
    changed = {name for name in model.get_params() if repr(tuned.get_params()[name]) != repr(model.get_params()[name])}
    assert changed in ({"kernel", "noise"}, {"features", "noise"})
    tuned.learn_one(X[0], Y[0, 0])
    found = tuned.hyperparameters
    batch = FullGP(sg.SquaredExponential([0.3, 3.0]), noise=1.0).fit(X, Y[:, 0], Evidence(restarts=0))
    for name, value in batch.hyperparameters.items():
        np.testing.assert_array_equal(found[name], value)
    best = exact_log_evidence(X, Y[:, 0], found["lengthscale"], found["variance"], found["noise"])
    assert best == pytest.approx(batch.log_marginal_likelihood(), abs=1e-8)
    assert best > exact_log_evidence(X, Y[:, 0], [0.3, 3.0], 1.0, 1.0) + 10.0


@pytest.mark.parametrize("tune_frequencies", [False, True])
def test_tuned_issgpr_learns_row_by_row_what_tuned_ssgpr_learned_at_once(tune_frequencies):
    X, Y = draw(60, 2, [1.0, 2.0], 1.0, 0.05, seed=9, outputs=2)
    model = sg.ISSGPR(features=10, lengthscale=[1.0, 1.0], noise=1.0, seed=3)
    evidence = Evidence(restarts=1, iterations=30)
    tuned = tune(model, X, Y, evidence, tune_frequencies=tune_frequencies)
    batch = fit_prefix(model, X, Y, evidence, tune_frequencies=tune_frequencies)
    assert type(tuned) is sg.ISSGPR
    assert tuned.rows_seen == 0
    fixed = SSGPR(features=10, lengthscale=[1.0, 1.0], noise=1.0, seed=3).fit(X, Y)
    assert batch.log_marginal_likelihood() > fixed.log_marginal_likelihood() + 10.0
    tuned.learn_many(X, Y)
    fresh = np.random.default_rng(1).uniform(-3, 3, (7, 2))
    expected, got = batch.predict(fresh), tuned.predict_many(fresh)
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(got.variance, expected.variance, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(got.noise, expected.noise, rtol=1e-12)


@pytest.mark.parametrize(
    "memory",
    [sg.Window(1), sg.Window(4), sg.Reservoir(6, retention=0.3), sg.Reservoir(5, feedback=0.7, augment=False)],
    ids=repr,
)
def test_the_prefix_is_remembered_as_the_stream_model_remembers_it(memory):
    rng = np.random.default_rng(13)
    X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 1))
    model = sg.OnlineGP(sg.Basis(sg.SquaredExponential(0.5)), memory=memory, budget=sg.Budget(capacity=12, novelty=0.0))
    model.learn_many(X, Y)
    np.testing.assert_allclose(remembered(memory, X, Y).reshape(12, -1), model.basis, rtol=1e-13, atol=1e-13)


def test_rows_without_a_target_pass_the_memory_but_do_not_count():
    X = np.random.default_rng(14).standard_normal((30, 1))
    Y = np.sin(X[:, 0])
    Y[[3, 17]] = np.nan
    evidence = Evidence(restarts=0, iterations=15)
    batch = fit_prefix(sg.SOGP(depth=2), X, Y, evidence)
    windows = np.stack([np.vstack([[[0.0]], X])[i : i + 2] for i in range(30)])
    expected = FullGP(sg.SquaredExponential()).fit(windows[~np.isnan(Y)], Y[~np.isnan(Y)], evidence)
    assert batch.hyperparameters == expected.hyperparameters


def test_no_more_rows_count_than_asked_for():
    X, Y = draw(50, 1, [1.0], 1.0, 0.1, seed=15)
    evidence = Evidence(restarts=0, iterations=5, seed=4)
    batch = fit_prefix(sg.SOGP(), X, Y[:, 0], evidence, rows=20)
    chosen = np.sort(np.random.default_rng(4).choice(50, 20, replace=False))
    assert batch.hyperparameters == FullGP().fit(X[chosen], Y[chosen, 0], evidence).hyperparameters


def test_the_models_jitter_is_part_of_the_tuned_prior():
    X, Y = draw(30, 1, [1.0], 1.0, 0.1, seed=16)
    batch = fit_prefix(sg.KRLST(jitter=0.05), X, Y[:, 0], Evidence(restarts=0, iterations=5))
    found = batch.hyperparameters
    noise = found["noise"] + 0.05 * found["variance"]  # the jitter is relative to the variance
    expected = exact_log_evidence(X, Y[:, 0], [found["lengthscale"]], found["variance"], noise)
    assert batch.log_marginal_likelihood() == pytest.approx(expected, abs=1e-8)


def test_what_cannot_be_tuned_is_refused():
    X, Y, model = np.zeros((3, 1)), np.zeros(3), sg.SOGP()
    for call, error, message in (
        (lambda: tune(FullGP(), X, Y), TypeError, "must be a stream model such as SOGP"),
        (lambda: tune(sg.OnlineGP(Linear()), X, Y), TypeError, "OnlineGP has neither a kernel nor Fourier features"),
        (lambda: tune(model, X, Y, tune_frequencies=True), ValueError, "SOGP has no frequencies to tune"),
        (lambda: tune(model, np.empty((0, 1)), np.empty(0)), ValueError, "X has no rows"),
        (lambda: tune(model, X, np.full(3, np.nan)), ValueError, "every row of Y misses a target"),
        (lambda: tune(model, [[0.0], [np.nan]], [0.0, 1.0]), ValueError, "X has NaN or inf in row 1"),
        (lambda: tune(model, [[0.0], [1.0]], [np.inf, 1.0]), ValueError, "Y has inf in row 0"),
        (lambda: tune(model, X, Y, rows=0), ValueError, "rows must be a whole number"),
        (lambda: tune(model, X, Y, evidence="yes"), TypeError, "evidence must be, for example"),
        (SSGPR().stream_settings, ValueError, "has learned nothing yet"),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("filter", [sg.filters.KLMS, sg.filters.QKLMS, sg.filters.KNLMS, sg.filters.NORMA])
def test_a_tuned_filter_takes_steps_in_units_of_the_kernel(filter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1))
    Y = 50.0 * np.sin(X[:, 0]) + rng.normal(size=100)
    recipe = filter(lengthscale=0.5, variance=2.0)
    tuned = sg.tune(recipe, X, Y)
    kernel = tuned.get_params()["kernel"]
    assert kernel.variance > 100.0
    alike = filter(lengthscale=kernel.lengthscale.item(), variance=2.0)
    np.testing.assert_allclose(tuned.track(X, Y).mean, alike.track(X, Y).mean, rtol=1e-8, atol=1e-8)


def test_targets_without_noise_are_tuned_to_a_noise_that_rounding_leaves_visible():
    y = np.sin(0.3 * np.arange(3000))
    X, Y = np.column_stack([y[1:-1], y[:-2]]), y[2:]
    model = sg.tune(sg.KRLST(sg.SquaredExponential([1.0, 1.0]), forgetting=1.0), X[:100], Y[:100])
    assert model.hyperparameters["noise"] >= 1e-5 * model.get_params()["kernel"].get_params()["variance"] * (1 - 1e-12)
    p = model.track(X, Y)
    assert np.sqrt(np.mean((p.mean - Y)[2000:] ** 2)) < 2e-4


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_a_kernel_is_searched_up_to_ten_variances_of_the_targets_unless_bounds_are_given(unit):
    y = np.sin(0.3 * np.arange(102))
    X, Y = np.column_stack([y[1:-1], y[:-2]]), unit * y[2:]
    model = sg.SOGP(sg.SquaredExponential([1.0, 1.0], variance=unit**2), noise=0.1 * unit**2)
    evidence = Evidence(restarts=0)
    found = fit_prefix(model, X, Y, evidence).hyperparameters["variance"]
    assert found == pytest.approx(10.0 * np.var(Y), rel=1e-6)
    wide = fit_prefix(model, X, Y, evidence.replaced(bounds=(1e-6, 1e12))).hyperparameters["variance"]
    assert wide > 100.0 * found
    beyond = model.replaced(kernel__variance=50.0 * unit**2)
    assert fit_prefix(beyond, X, Y, evidence).hyperparameters["variance"] <= 50.0 * unit**2 * (1 + 1e-6)


# Units: a model that is tuned in other units predicts the same in those units.

UNITS = {
    "linear": sg.LinearKernel() + sg.Constant(),
    "periodic": sg.Periodic(4.0) + sg.LinearKernel(),
}
SLOW = ("periodic",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.more if name in SLOW else ()) for name in UNITS])
def test_a_tuned_model_predicts_the_same_in_all_units(name):
    kernel = UNITS[name]
    rng = np.random.default_rng(23)
    x = rng.uniform(-2.0, 2.0, 80)
    y = 3.0 * x + np.sin(np.pi / 2 * x) + 0.1 * rng.standard_normal(80)
    grid = np.linspace(-1.5, 1.5, 7)
    expected = None
    for input_unit, target_unit in [
        (1.0, 1.0),
        (1e-3, 1.0),
        (1e3, 1.0),
        (1.0, 1e-6),
        (1.0, 1e6),
        (1e-3, 1e6),
        (1e3, 1e-6),
    ]:
        model = tune(sg.SOGP(kernel, capacity=80), input_unit * x, target_unit * y)
        model.learn_many(input_unit * x, target_unit * y)
        p = model.predict_many(input_unit * grid)
        got = np.stack([p.mean / target_unit, np.sqrt(p.noise) / target_unit, np.sqrt(p.variance) / target_unit])
        expected = got if expected is None else expected
        np.testing.assert_allclose(got, expected, atol=2e-3)
    if name != "linear":
        assert expected[1] == pytest.approx(0.1, rel=0.3)


def test_ssgpr_recovers_the_noise_and_lengthscales_of_its_data():
    X, Y = draw(400, 2, [1.0, 3.0], 1.0, 0.05, seed=5, outputs=2)
    start = SSGPR(features=60, lengthscale=[2.0, 2.0], noise=0.3)
    found = start.fit(X, Y, Evidence(restarts=0)).hyperparameters
    np.testing.assert_allclose(np.log(found["lengthscale"]), np.log([1.0, 3.0]), atol=0.4)
    assert np.log(found["noise"]) == pytest.approx(np.log(0.05), abs=0.15)


def test_separate_outputs_take_one_noise():
    X, Y = draw(40, 1, [1.0], 1.0, 0.1, seed=17, outputs=2)
    tuned = tune(sg.SOGP(noise=[0.5, 1.5], outputs="separate"), X, Y, Evidence(restarts=0, iterations=10))
    batch = FullGP(noise=1.0).fit(X, Y, Evidence(restarts=0, iterations=10))
    assert tuned.get_params()["noise"] == batch.hyperparameters["noise"]


def test_small_inputs_of_a_linear_kernel_do_not_raise_the_noise():
    rng = np.random.default_rng(24)
    x = 1e-3 * rng.standard_normal(200)
    y = 3000.0 * x + 0.1 * rng.standard_normal(200)
    tuned = tune(sg.SOGP(sg.LinearKernel() + sg.Constant()), x, y)
    assert tuned.get_params()["noise"] == pytest.approx(0.01, rel=0.2)
    assert tuned.get_params()["kernel"].left.variance > 1e6
    wide = tune(sg.SOGP(sg.LinearKernel() + sg.Constant()), x, y, Evidence(bounds=(1e-8, 1e9)))
    assert wide.get_params()["noise"] == pytest.approx(0.01, rel=0.2)

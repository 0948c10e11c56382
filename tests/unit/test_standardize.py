from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp import evaluate
from streamgp.contract.within import all_arrays

rng = np.random.default_rng(3)
N, D = 300, 3
SHIFTS, SCALES = np.array([1e5, -3.0, 0.01]), np.array([2e3, 1e-4, 7.0])
X = SHIFTS + SCALES * rng.normal(size=(N, D))
Y = 40.0 + 500.0 * np.sin((X[:, 0] - 1e5) / 2e3) + 5.0 * rng.normal(size=N)


def by_hand(build, rows, targets, learned, resets=()):
    """The model within, fed with rows and targets in units taken from them by textbook formulas."""
    n = len(rows)
    mean, std = rows.sum(0) / n, np.sqrt(((rows - rows.sum(0) / n) ** 2).sum(0) / (n - 1))
    centre, spread = targets.sum() / n, np.sqrt(((targets - targets.sum() / n) ** 2).sum() / (n - 1))
    model = build()
    for t, (x, y) in enumerate(learned):
        if t in resets:
            model.reset_memory()
        model.learn_one((x - mean) / std, float((y - centre) / spread))
    return lambda x: np.array(
        [
            centre + spread * (p := model.predict_one((x - mean) / std)).mean,
            spread**2 * p.variance,
            spread**2 * p.noise,
        ]
    )


def said(model, x):
    p = model.predict_one(x)
    return np.array([p.mean, p.variance, p.noise])


MODELS = {
    "KRLST": lambda: sg.KRLST(capacity=30),
    "SOGP": lambda: sg.SOGP(capacity=30, depth=2),
    "ISSGPR": lambda: sg.ISSGPR(features=20),
    "OESGP": lambda: sg.OESGP(units=8, capacity=20, feedback=0.3),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [4, 37, 64, 100, 200])
def test_it_is_the_model_on_rows_in_the_units_of_the_warm_up(name, rows):
    model = sg.Standardize(MODELS[name](), warmup=100)
    model.learn_many(X[:rows], Y[:rows])
    # During the warm-up the units are renewed when the number of rows has doubled.
    counted = {4: 4, 37: 32, 64: 64, 100: 100, 200: 100}[rows]
    expected = by_hand(MODELS[name], X[:counted], Y[:counted], zip(X[:rows], Y[:rows], strict=True))
    for x in X[200:205]:
        np.testing.assert_allclose(said(model, x), expected(x), rtol=1e-8)


def test_the_model_within_is_bit_for_bit_the_native_one():
    model, native = sg.Standardize(sg.KRLST(capacity=30), warmup=50), sg.KRLST(capacity=30)
    model.learn_many(X, Y)
    s = model.scaling
    native.learn_many((X - s.input_shift) / s.input_scale, ((Y - s.target_shift) / s.target_scale)[:, None])
    arrays = all_arrays(model)
    for key, array in native._arrays().items():
        np.testing.assert_array_equal(arrays[f"inner.{key}"], array, err_msg=key)


def test_the_units_are_those_of_the_warm_up_and_stay():
    model = sg.Standardize(sg.KRLST(capacity=10), warmup=100)
    model.learn_many(X[:99], Y[:99])
    assert not model.frozen
    model.learn_one(X[99], Y[99])
    assert model.frozen
    frozen = model.scaling
    np.testing.assert_allclose(frozen.input_shift, X[:100].mean(0), rtol=1e-12)
    np.testing.assert_allclose(frozen.input_scale, X[:100].std(0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(frozen.target_shift, Y[:100].mean(), rtol=1e-12)
    np.testing.assert_allclose(frozen.target_scale, Y[:100].std(ddof=1), rtol=1e-12)
    model.learn_many(1e3 * X[100:], 1e3 * Y[100:])
    model.scaling.input_shift[:] = 7.0  # a copy
    for before, after in zip(frozen, model.scaling, strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_units_of_the_data_do_not_matter():
    plain, moved = sg.Standardize(sg.KRLST()), sg.Standardize(sg.KRLST())
    Z = (X - SHIFTS) / SCALES
    a, b = plain.track(Z, Y), moved.track(X, 3.0 - 1e6 * Y)
    later = slice(2, None)  # one row has no spread
    np.testing.assert_allclose(b.mean[later], 3.0 - 1e6 * a.mean[later], rtol=1e-6)
    np.testing.assert_allclose(b.std[later], 1e6 * a.std[later], rtol=1e-6)


@pytest.mark.parametrize("build", [sg.KRLST, sg.SOGP, sg.ISSGPR, sg.KRLS])
def test_defaults_work_on_raw_data(build):
    raw, wrapped = build(), sg.Standardize(build())
    errors = [np.sqrt(np.mean((m.track(X, Y).mean - Y)[150:] ** 2)) / Y.std() for m in (raw, wrapped)]
    assert errors[1] < 0.15 < errors[0]
    assert wrapped.scaling.input_scale == pytest.approx(SCALES, rel=0.2)


def test_default_lengthscales_grow_with_the_square_root_of_the_inputs():
    for d in (1, 4, 9):
        model = sg.Standardize(sg.KRLST())
        model.learn_one(np.ones(d), 1.0)
        assert model.hyperparameters["lengthscale"] == pytest.approx(np.sqrt(d))


# Columns without a spread.


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e300, 5e-324])
def test_a_constant_column_is_safe_and_counts_for_nothing(value):
    with_column = sg.Standardize(sg.KRLST(sg.SquaredExponential(1.5)), warmup=50)
    without = with_column.clone()
    constant = np.column_stack([X, np.full(N, value)])
    np.testing.assert_allclose(with_column.track(constant, Y).mean, without.track(X, Y).mean, rtol=1e-8)
    assert with_column.scaling.input_shift[-1] == value
    assert with_column.scaling.input_scale[-1] == 1.0


def test_rounding_is_no_spread():
    tenths = np.where(np.arange(N) % 2, 0.3, 0.1 + 0.2)
    model = sg.Standardize(sg.KRLST(), warmup=50)
    model.learn_many(np.column_stack([X, tenths]), Y)
    assert model.scaling.input_scale[-1] == 1.0


def test_a_column_that_changes_after_the_warm_up_does_so_in_its_own_units():
    flag = (np.arange(N) >= 150).astype(float)
    model = sg.Standardize(sg.KRLST(), warmup=100)
    p = model.track(np.column_stack([X, flag]), Y + 300.0 * flag)
    assert np.all(np.isfinite(p.mean))
    assert np.sqrt(np.mean((p.mean - Y - 300.0 * flag)[250:] ** 2)) < 60.0


def test_constant_targets_are_safe():
    model = sg.Standardize(sg.KRLST(), warmup=50)
    p = model.track(X, np.full(N, 12.5))
    np.testing.assert_array_equal(p.mean[1:], 12.5)
    assert np.all(np.isinf(p.std))  # no scale is known


@pytest.mark.parametrize("unit", [1.0, 1e9, 1e-9])
def test_after_constant_targets_the_first_that_differs_tells_the_unit(unit):
    targets = np.where(np.arange(N) < 80, 12.5, 12.5 + np.sin(np.arange(N)))
    model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=20), warmup=50))
    p = model.track(X, unit * targets)
    assert np.all(np.isinf(p.upper[:81]))  # of the first that differs the prediction claims nothing yet
    assert np.all(np.isfinite(p.upper[81:]))
    assert model.inner.scaling.target_scale[0] == pytest.approx(unit * abs(np.sin(80.0)))
    plain = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=20), warmup=50)).track(X, targets)
    np.testing.assert_allclose(p.upper[81:] / unit, plain.upper[81:], rtol=1e-5)
    single = model.clone()
    for x, y in zip(X, unit * targets, strict=True):
        single.learn_one(x, y)
    assert single.to_bytes() == model.to_bytes()


def test_models_of_a_fleet_tell_their_units_as_single_ones_do():
    t = np.arange(60)
    targets = np.column_stack([np.full(60, 3.0), np.where(t < 35, 3.0, 3.0 + 0.1 * t), np.sin(t), np.full(60, np.nan)])
    fleet = sg.Fleet(sg.Standardize(sg.KRLST(capacity=10), warmup=20), size=4)
    rows = np.random.default_rng(4).uniform(-1, 1, (60, 4, 1))
    p = fleet.track(rows, targets)
    for i in range(4):
        alone = sg.Standardize(sg.KRLST(capacity=10), warmup=20).track(rows[:, i], targets[:, i])
        np.testing.assert_allclose(p.mean[:, i], alone.mean, rtol=1e-12)
        np.testing.assert_allclose(p.variance[:, i], alone.variance, rtol=1e-12)
    assert np.isinf(p.variance[:, 0]).all()


def test_before_two_targets_differ_the_variance_is_infinite():
    model = sg.Standardize(sg.KRLST(outputs="separate"))
    targets = np.column_stack([[3.0, 3.0, 4.0, 5.0, 6.0], [np.nan, 2.0, np.nan, 1.0, 0.0]])
    p = model.track(np.arange(5.0), targets)
    np.testing.assert_array_equal(np.isinf(p.variance), [[1, 1], [1, 1], [1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(p.mean[:4], [[0, 0], [3, 0], [3, 2], [3, 2]])
    np.testing.assert_array_equal(p.noise[:4], 0.0)
    scores = evaluate.scores_of(p, targets)
    assert scores.rows == 1
    assert np.isfinite(scores.nlpd)


def test_numbers_of_any_size_are_safe():
    for scale in (1e-310, 1e-200, 1e140, 1e300):
        values = scale * np.linspace(-1, 1, 60)
        p = sg.Standardize(sg.KRLST(), warmup=30).track(values, np.linspace(-1, 1, 60))
        assert np.all(np.isfinite(p.mean))
    model = sg.Standardize(sg.KRLST(), warmup=30)
    model.learn_many(1e-290 * np.arange(40.0), np.arange(40.0))
    assert model.predict_one(1e300).mean == pytest.approx(model.scaling.target_shift[0])


# Missing targets, several outputs, sequences.


def test_a_row_without_a_target_counts_for_the_inputs_only():
    missing = Y.copy()
    missing[::3] = np.nan
    model = sg.Standardize(sg.KRLST(), warmup=60)
    model.learn_many(X, missing)
    known = missing[:60][~np.isnan(missing[:60])]
    np.testing.assert_allclose(model.scaling.input_shift, X[:60].mean(0), rtol=1e-12)
    np.testing.assert_allclose(model.scaling.target_shift, known.mean(), rtol=1e-12)
    np.testing.assert_allclose(model.scaling.target_scale, known.std(ddof=1), rtol=1e-12)


@pytest.mark.parametrize("rows", [5, 40])
def test_rows_may_come_before_it_is_known_how_many_targets_there_are(rows):
    model, twin = sg.Standardize(sg.SOGP(depth=2), warmup=20), sg.Standardize(sg.SOGP(depth=2), warmup=20)
    Y2 = np.column_stack([Y, -Y])
    for x in X[:rows]:
        model.observe_one(x)
    twin.learn_many(X[:rows], np.full((rows, 2), np.nan))
    for m in (model, twin):
        m.learn_many(X[rows:60], Y2[rows:60])
    assert model.to_bytes() == twin.to_bytes()
    if rows == 40:  # no target during the warm-up
        assert model.scaling.target_scale.tolist() == [abs(Y[40])] * 2  # the first one tells the unit


def test_outputs_have_units_of_their_own():
    Y2 = np.column_stack([Y, 1e-3 * Y + 7.0])
    together = sg.Standardize(sg.KRLST(capacity=30), warmup=50)
    together.learn_many(X, Y2)
    alone = [sg.Standardize(sg.KRLST(capacity=30), warmup=50) for _ in range(2)]
    # One output alone keeps the same points, because both have the same targets in standard units.
    for j, model in enumerate(alone):
        model.learn_many(X, Y2[:, j].copy())
        a, b = together.predict_many(X[:9]), model.predict_many(X[:9])
        np.testing.assert_allclose(a.mean[:, j], b.mean, rtol=1e-7)
        np.testing.assert_allclose(a.std[:, j], b.std, rtol=1e-7)


def test_any_target_may_be_missing_with_separate_outputs():
    Y2 = np.column_stack([Y, 2.0 * Y])
    Y2[::2, 1] = np.nan
    model = sg.Standardize(sg.KRLST(outputs="separate"), warmup=50)
    model.learn_many(X, Y2)
    assert model.scaling.target_scale[1] == pytest.approx(np.nanstd(Y2[:50, 1], ddof=1), rel=1e-12)
    with pytest.raises(ValueError, match="Make the whole row missing"):
        sg.Standardize(sg.KRLST(), warmup=50).learn_many(X, Y2)


@pytest.mark.parametrize("warmup", [20, 50, 90])
def test_a_new_sequence_begins_where_it_did_also_when_rows_are_learned_anew(warmup):
    def build():
        return sg.SOGP(capacity=30, depth=3)

    model = sg.Standardize(build(), warmup=warmup)
    resets = (1, 7, 16, 33)
    for t in range(60):
        if t in resets:
            model.reset_memory()
        model.learn_one(X[t], Y[t])
    counted = {20: 20, 50: 50, 90: 32}[warmup]
    expected = by_hand(build, X[:counted], Y[:counted], zip(X[:60], Y[:60], strict=True), resets)
    np.testing.assert_allclose(said(model, X[99]), expected(X[99]), rtol=1e-7)


# What can be read.


def test_basis_points_have_the_units_of_the_inputs():
    model = sg.Standardize(sg.KRLST(capacity=40), warmup=20)
    model.learn_many(X[:40], Y[:40])
    np.testing.assert_allclose(model.basis, X[:40], rtol=1e-12)
    window = sg.Standardize(sg.SOGP(capacity=40, novelty=0, depth=2), warmup=20)
    window.learn_many(X[:40], Y[:40])
    np.testing.assert_allclose(window.basis[1:], np.hstack([X[:39], X[1:40]]), rtol=1e-10)
    reservoir = sg.Standardize(sg.OESGP(units=5, capacity=40, novelty=0), warmup=20)
    reservoir.learn_many(X[:40], Y[:40])
    np.testing.assert_allclose(reservoir.basis[:, 5:], X[:40], rtol=1e-10)
    assert np.all(np.abs(reservoir.basis[:, :5]) <= 1.0)
    assert sg.Standardize(sg.KRLST()).basis.size == 0
    for within in (sg.Lagged(sg.KRLST(), lags=X.shape[1]), sg.Columns(sg.KRLST(), columns=[0])):
        others = sg.Standardize(within)
        others.learn_many(X[:40], Y[:40])
        np.testing.assert_array_equal(others.basis, others.inner.basis)  # of other columns, as they are


def test_the_last_row_has_the_units_of_the_data():
    model = sg.Standardize(sg.KRLST(), warmup=20)
    model.learn_many(X, Y)
    x, y = model._last_row()
    np.testing.assert_allclose(x, X[-1], rtol=1e-10)
    np.testing.assert_allclose(y, Y[-1:], rtol=1e-10)


def test_a_forecast_of_a_level_far_from_zero_goes_on():
    t = np.arange(400)
    series = 5000.0 + 100.0 * np.sin(0.2 * t)
    lags = np.column_stack([series[1:-1], series[:-2]])
    model = sg.Standardize(sg.KRLST(sg.SquaredExponential(2.0), forgetting=1.0, noise=1e-4))
    model.learn_many(lags, series[2:])
    p = model.forecast(20, feedback=[0, 1], trajectories=5)
    np.testing.assert_allclose(p.mean, 5000.0 + 100.0 * np.sin(0.2 * (400 + np.arange(20))), atol=15.0)


def test_relevance_and_health_are_those_of_the_model_within():
    model = sg.Standardize(sg.KRLST(sg.SquaredExponential([1.0, 2.0, 4.0])))
    model.learn_many(X, Y)
    np.testing.assert_allclose(model.relevance().inputs, [4 / 7, 2 / 7, 1 / 7])
    assert model.health.repairs == 0
    assert model.last_change.admitted or model.last_change.absorbed
    inner = model.inner
    assert inner.to_bytes() == model.inner.to_bytes()
    before = model.to_bytes()
    inner.learn_one(X[0], [0.0])
    assert model.to_bytes() == before
    with pytest.raises(ValueError, match="the units are known once the first row has come"):
        _ = sg.Standardize(sg.KRLST()).scaling


# Settings.


def test_settings_reach_into_the_model_within():
    model = sg.Standardize(sg.KRLST()).set_params(model__capacity=7, warmup=9, model__kernel=sg.Matern(1.5))
    assert repr(model) == "Standardize(model=KRLST(kernel=Matern(order=1.5), capacity=7), warmup=9)"
    model.set_params(model__kernel__lengthscale=2.0)
    assert model.get_params(deep=True)["model__kernel__lengthscale"] == 2.0
    model.learn_many(X, Y)
    assert model.size == 7


def test_nobody_else_holds_the_model_within():
    given = sg.KRLST(capacity=5)
    model = sg.Standardize(given, warmup=10)
    given.set_params(capacity=50)
    model.get_params()["model"].set_params(capacity=60)
    model.get_params(deep=True)["model"].learn_one(X[0], Y[0])
    model.learn_many(X, Y)
    assert model.size == 5
    assert model.clone().get_params()["model"].get_params()["capacity"] == 5
    assert given.rows_seen == 0


def test_bad_settings_are_refused():
    learned = sg.KRLST()
    learned.learn_one(1.0, 1.0)
    with pytest.raises(ValueError, match="must have learned nothing.*has seen 1 rows. Hand over model.clone()"):
        sg.Standardize(learned)
    with pytest.raises(TypeError, match="model must be a stream model such as"):
        sg.Standardize(sg.SquaredExponential())
    with pytest.raises(ValueError, match="warmup must be a whole number of at least 2; got 1"):
        sg.Standardize(sg.KRLST(), warmup=1)
    with pytest.raises(TypeError, match="warmup must be a whole number"):
        sg.Standardize(sg.KRLST(), warmup=10.5)


# Failures and snapshots.


def steep(rows):
    return 3.0 * rows[:, 0]


def picky(rows):
    return np.where(np.abs(rows[:, 0]) > 1.7, np.nan, 0.0)


@pytest.mark.parametrize("rows", [1, 3, 7, 15])
def test_a_failure_during_the_warm_up_changes_nothing(rows):
    points = sg.grid([-1.0], [1.0], [5])
    x = np.array([0.0, 1.0] * 10)
    model = sg.Standardize(sg.RecursiveGP(points, mean=picky), warmup=17)
    model.learn_many(x[:rows], x[:rows])
    before = model.to_bytes()
    x[rows + 3] = 40.0
    with pytest.raises(ValueError, match="mean must return one finite number"):
        model.learn_many(x[rows:], x[rows:])
    assert model.to_bytes() == before


def test_a_prior_mean_within_is_asked_for_by_name(tmp_path):
    model = sg.Standardize(sg.RecursiveGP(sg.grid(-2.0, 2.0, 9), mean=steep), warmup=20)
    model.learn_many(X[:50, 0], Y[:50])
    model.save(tmp_path / "model.sgp")
    with pytest.raises(sg.SnapshotError, match=r"needs model__mean=.*load\(path, model__mean=f\)"):
        sg.load(tmp_path / "model.sgp")
    loaded = sg.load(tmp_path / "model.sgp", model__mean=steep)
    assert loaded.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(loaded.predict_many(X[:9, 0]).mean, model.predict_many(X[:9, 0]).mean)


def test_a_standardized_model_within_another_is_a_model_too():
    model = sg.Standardize(sg.Standardize(sg.KRLST(capacity=10), warmup=20), warmup=30)
    model.learn_many(X, Y)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    assert model.copy().predict_one(X[0]).mean == model.predict_one(X[0]).mean


@pytest.mark.parametrize("kept", [-1, 21])
def test_a_damaged_count_of_kept_rows_is_refused(kept):
    from tests.unit.test_snapshot import header_and_tensors, repacked

    model = sg.Standardize(sg.KRLST(capacity=5), warmup=20)
    model.learn_many(X[:10], Y[:10])
    header, tensors = header_and_tensors(model.to_bytes())
    tensors["state.kept"] = np.array([kept])
    with pytest.raises(sg.SnapshotError, match=f"kept must be .* of at most 20; it has {kept}"):
        sg.from_bytes(repacked(header, tensors))


STACKS = {
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=15), warmup=50),
    "Calibrated": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=15), warmup=50)),
    "DriftAware": lambda: sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=15), warmup=50))),
    "Committee": lambda: sg.Calibrated(
        sg.Committee([sg.Standardize(sg.KRLST(capacity=15)), sg.Differenced(sg.Standardize(sg.ISSGPR(features=10)))])
    ),
    "Delayed": lambda: sg.Delayed(sg.Columns(sg.Standardize(sg.SOGP(capacity=15)), columns=[0, 2]), pending=3),
}


def without_screen(model):
    """The state, without that of the screens and the counts."""
    return {name: array for name, array in all_arrays(model).items() if not name.endswith("screen")}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("value", [-1e7, 1e30, 3.4e38, 1e140])
def test_a_fill_value_is_a_missing_target_for_all_that_is_within(stack, value):
    filled, missing = Y.copy(), Y.copy()
    filled[[120, 200, 201]], missing[[120, 200, 201]] = value, np.nan
    models = [STACKS[stack]() for _ in range(2)]
    p, q = (model.track(X, y) for model, y in zip(models, (filled, missing), strict=True))
    np.testing.assert_array_equal(p.mean, q.mean)
    np.testing.assert_array_equal(p.interval()[0], q.interval()[0])
    for name, array in without_screen(models[0]).items():
        np.testing.assert_array_equal(array, without_screen(models[1])[name], err_msg=name)
    health = models[0].health
    assert (health.fill_values, models[1].health.fill_values) == (3, 0)
    assert health.repairs == models[1].health.repairs


@pytest.mark.parametrize("stack", STACKS)
def test_the_screen_is_the_same_row_by_row_and_after_loading(stack):
    y = Y.copy()
    y[[2, 120, 200]] = 1e30
    y[230:] += 1e9
    whole, parts = STACKS[stack](), STACKS[stack]()
    whole.learn_many(X, y)
    for t in range(N):
        parts.learn_one(X[t], y[t])
        if t in (60, 125, 235):
            parts = sg.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()
    assert whole.health.fill_values == 3 + 9  # nine, until the new level is known


def test_a_fill_value_in_the_warm_up_does_not_spoil_the_units():
    filled, missing = Y.copy(), Y.copy()
    filled[[0, 5, 30]], missing[[0, 5, 30]] = 1e30, np.nan
    models = [sg.Standardize(sg.KRLST(capacity=15), warmup=100) for _ in range(2)]
    for model, y in zip(models, (filled, missing), strict=True):
        model.learn_many(X, y)
    np.testing.assert_array_equal(models[0].scaling.target_scale, models[1].scaling.target_scale)
    assert said(models[0], X[0]).tolist() == said(models[1], X[0]).tolist()
    assert models[0].health.fill_values == 3


def test_screening_can_be_switched_off():
    y = Y.copy()
    y[200] = 1e6
    model, plain = sg.Standardize(sg.KRLST(capacity=15), screen=False), sg.Standardize(sg.KRLST(capacity=15))
    model.learn_many(X[:201], y[:201])
    plain.learn_many(X[:201], y[:201])
    assert (model.health.fill_values, plain.health.fill_values) == (0, 1)
    assert model.predict_one(X[200]).mean > 1e5 > plain.predict_one(X[200]).mean
    with pytest.raises(TypeError, match="screen must be True or False; got 'off'"):
        sg.Standardize(sg.KRLST(), screen="off")


def test_counts_and_classes_are_not_screened():
    model = sg.Standardize(sg.SOGP(capacity=8, likelihood=sg.Poisson(), outputs="separate"))
    counts = np.random.default_rng(0).poisson(2.0, size=300).astype(float)
    counts[250] = 1e6
    model.learn_many(X, counts)
    assert model.health.fill_values == 0


@pytest.mark.parametrize(("outputs", "missing"), [("shared", [True, True]), ("separate", [False, True])])
def test_of_several_outputs_the_one_is_missing_or_all(outputs, missing):
    both = np.column_stack([Y, -2.0 * Y])
    gaps = both.copy()
    both[200, 1] = 1e30
    gaps[200, missing] = np.nan
    models = [sg.Standardize(sg.SOGP(capacity=15, outputs=outputs)) for _ in range(2)]
    for model, targets in zip(models, (both, gaps), strict=True):
        model.learn_many(X, targets)
    for name, array in without_screen(models[0]).items():
        np.testing.assert_array_equal(array, without_screen(models[1])[name], err_msg=name)

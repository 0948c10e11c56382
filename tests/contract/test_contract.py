"""What every stream model promises. No model is skipped; a new export without an example fails the first test."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.within import family
from tests.contract.models import CLASSES_AND_COUNTS, EXAMPLES, KINDS, SLOW, D, stack
from tests.same import assert_same

N = 60
STACKS = 12  # that make test builds


class Example(NamedTuple):
    make: Callable[[], sg.StreamModel]
    outputs: tuple[int, ...]  # of the streams that it is tested on

    def __call__(self):
        return self.make()


def examples(more):
    """All models; make test-more has those whose names are given, and all that are not of KINDS with other outputs."""
    for name, make in (EXAMPLES | CLASSES_AND_COUNTS).items():
        first = (1, 2) if name in KINDS else (1,) if name in SLOW else (2,)
        yield pytest.param(Example(make, first), id=name, marks=pytest.mark.more if name in more else ())
        for p in {1, 2}.difference(first):
            yield pytest.param(Example(make, (p,)), id=f"{name}, outputs: {p}", marks=pytest.mark.more)


def stacks():
    """Random models in layers, by their seeds."""
    for seed in range(4 * STACKS):
        marks = pytest.mark.more if seed >= STACKS else ()
        yield pytest.param(Example(partial(stack, seed), (1, 2)), id=f"stack-{seed}", marks=marks)


# A law that models in layers may break although their parts keep it.
law_of_layers = pytest.mark.parametrize("build", [*examples(more=()), *stacks()], indirect=True)
# The others are kept by code that models share: one of each kind shows it.
ALIKE = (EXAMPLES | CLASSES_AND_COUNTS).keys() - KINDS


@pytest.fixture(params=list(examples(more=ALIKE)))
def build(request):
    return request.param


def of_one_and_two_outputs(test):
    """A test of (build, data) that runs on a stream of one output, then on one of two."""

    def both(build):
        for p in build.outputs:
            try:
                test(build, stream_for(build(), p))
            except BaseException as error:
                error.add_note(f"{build()!r} with {p} output{'s' * (p - 1)}")
                raise

    both.__name__ = test.__name__
    return both


def stream_for(model, p, n=N):
    X, Y = stream(p, n)
    as_classes, as_counts = (Y > 0).astype(float), np.floor(2.0 * np.exp(Y))
    return X, {"numbers": Y, "classes": as_classes, "counts": as_counts}[model._observes]


def stream(p, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    Y = np.sin(X[:, :p]) + 0.1 * rng.normal(size=(n, p))
    return X, (Y[:, 0].copy() if p == 1 else Y)


def after_stream(build, p):
    model = build()
    model.learn_many(*stream_for(model, p))
    return model


after_stream_once = cache(after_stream)
COPIED = [EXAMPLES[name] for name in SLOW]


def learned(build, Y):
    """A model that has learned its stream; where that takes long, a copy of one."""
    return after_stream_once(build, Y.ndim).copy() if build.make in COPIED else after_stream(build, Y.ndim)


def state(model):
    return model.to_bytes()


def values(prediction):
    return [np.asarray(v) for v in (prediction.mean, prediction.variance, prediction.noise)]


def test_every_exported_model_has_an_example():
    exported = {
        name
        for module in (sg, sg.filters)
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name))
        and issubclass(kind, sg.StreamModel)
        and not inspect.isabstract(kind)
    }
    without_inputs = {"TimeGP"}  # its own tests are in tests/unit/test_timegp.py
    assert exported - without_inputs == {type(make()).__name__ for make in EXAMPLES.values()}


@law_of_layers
@of_one_and_two_outputs
def test_predicting_changes_nothing(build, data):
    X, Y = data
    model = learned(build, Y)
    before = state(model)
    model.predict_one(X[0])
    model.predict_many(X)
    repr(model), model.basis, model.size, model.hyperparameters, model.health, model.last_change, model.rows_seen
    assert state(model) == before


def test_before_any_data_it_returns_the_prior(build):
    model = build()
    before = state(model)
    p = model.predict_one(np.ones(D))
    # Without a model there is nothing to say yet, but for those who repeat an input.
    said = {"SeasonalValue": np.nan, "RunningMean": np.nan, "InputValue": 1.0, "Differenced": 1.0}
    prior = said.get(type(model).__name__, 0.0)
    if model._observes != "numbers":
        assert p.latent.mean == 0.0
        prior = p.mean
    np.testing.assert_equal(p.mean, prior)
    assert isinstance(p.mean, float)
    if model.has_variance:
        assert p.variance > 0
        assert p.noise >= 0
        assert p.std > 0  # inf for LWPR, which claims nothing where it has no field
    else:
        assert np.isnan(p.std)
    np.testing.assert_array_equal(model.predict_many(np.ones((4, D))).mean, [prior] * 4)
    assert model.rows_seen == 0
    assert state(model) == before


@law_of_layers
@of_one_and_two_outputs
def test_learn_many_equals_the_loop_of_learn_one(build, data):
    X, Y = data
    many, one = learned(build, Y), build()
    for x, y in zip(X, Y, strict=True):
        one.learn_one(x, y)
    assert state(many) == state(one)
    assert many.rows_seen == N


@of_one_and_two_outputs
def test_predict_many_equals_the_loop_of_predict_one(build, data):
    X, Y = data
    model = learned(build, Y)
    together = model.predict_many(X[:10])
    assert together.mean.shape == Y[:10].shape
    for t in range(10):
        alone = model.predict_one(X[t])
        for u, v in zip(values(alone), values(together), strict=True):
            np.testing.assert_array_equal(u, v[t])


@law_of_layers
@of_one_and_two_outputs
def test_track_equals_predict_then_learn(build, data):
    X, Y = data
    tracking, loop = build(), build()
    tracked = tracking.track(X, Y)
    assert tracked.mean.shape == tracked.variance.shape == tracked.noise.shape == Y.shape
    for t in range(N):
        alone = loop.predict_one(X[t])
        # Before the first target the number of outputs is not known: the prior of one output stands for all.
        for u, v in zip(values(alone), values(tracked), strict=True):
            np.testing.assert_array_equal(np.broadcast_to(u, v[t].shape), v[t])
        loop.learn_one(X[t], Y[t])
    assert state(tracking) == state(loop)


@of_one_and_two_outputs
def test_track_without_targets_predicts_and_advances_the_memory(build, data):
    X, Y = data
    tracking, loop = learned(build, Y), learned(build, Y)
    tracked = tracking.track(X[:10])
    for t in range(10):
        alone = loop.predict_one(X[t])
        np.testing.assert_array_equal(np.asarray(alone.mean), tracked.mean[t])
        loop.observe_one(X[t])
    assert state(tracking) == state(loop)
    assert tracking.rows_seen == N + 10


@law_of_layers
@of_one_and_two_outputs
def test_splitting_a_stream_anywhere_changes_nothing(build, data):
    X, Y = data
    whole, parts = learned(build, Y), build()
    parts.learn_many(X[:17], Y[:17])
    parts.track(X[17:18], Y[17:18])
    parts.learn_many(X[18:18], Y[18:18])
    parts.learn_many(X[18:], Y[18:])
    assert state(whole) == state(parts)


@of_one_and_two_outputs
def test_state_bytes_are_constant_from_the_first_row_on(build, data):
    X, Y = data
    model = build()
    if any(isinstance(one, sg.Auto | sg.Tuned) for one in family(model)):
        return  # they say in their docstrings when it changes
    model.learn_one(X[0], Y[0])
    size = len(state(model))
    for t in range(1, N):
        model.learn_one(X[t], Y[t])
        assert len(state(model)) == size


@law_of_layers
def test_save_load_and_go_on_is_bit_identical(build, tmp_path):
    for p in build.outputs:
        X, Y = stream_for(build(), p)
        straight, stopped = learned(build, Y), build()
        stopped.learn_many(X[:23], Y[:23])
        stopped.save(tmp_path / "model.sgp")
        resumed = sg.load(tmp_path / "model.sgp")
        assert type(resumed) is type(stopped)
        assert state(resumed) == state(stopped)
        resumed.learn_many(X[23:], Y[23:])
        assert state(resumed) == state(straight)
        assert_same(resumed.predict_many(X), straight.predict_many(X))
    assert state(sg.from_bytes(build().to_bytes())) == state(build())


@of_one_and_two_outputs
def test_inputs_are_never_kept_nor_changed(build, data):
    X, Y = data
    model, twin = build(), learned(build, Y)
    A, B = X.copy(), Y.copy()
    model.learn_many(A, B)
    np.testing.assert_array_equal(A, X)
    np.testing.assert_array_equal(B, Y)
    A[:] = 7.0
    B[:] = 7.0
    x = X[0].copy()
    model.learn_one(x, Y[0])
    twin.learn_one(X[0], Y[0])
    x[:] = 7.0
    model.basis[:] = 7.0
    assert state(model) == state(twin)
    params = model.get_params()
    for value in params.values():
        if isinstance(value, np.ndarray):
            value[:] = 7.0
    assert repr(model.clone()) == repr(twin.clone())
    assert state(model.clone()) == state(twin.clone())


BAD_ROWS = [
    ("too wide", lambda X, Y: (np.ones(D + 1), Y[0]), "must have 3 columns, as the first row had; got 4"),
    ("too narrow", lambda X, Y: (np.ones(D - 1), Y[0]), "must have 3 columns, as the first row had; got 2"),
    ("text", lambda X, Y: (["a", "b", "c"], Y[0]), "x must be numbers; got text"),
    ("objects", lambda X, Y: ([1.0, {}, 2.0], Y[0]), "x must be numbers"),
    ("ragged", lambda X, Y: ([1.0, [2.0, 3.0], 2.0], Y[0]), "x must be numbers of one length"),
    ("complex", lambda X, Y: ([1.0, 2j, 2.0], Y[0]), "x must be real numbers"),
    ("empty", lambda X, Y: ([], Y[0]), "x is empty"),
    ("matrix", lambda X, Y: (X[:2], Y[0]), "x must be one row"),
    ("NaN in x", lambda X, Y: ([1.0, np.nan, 2.0], Y[0]), "x has NaN or inf: inputs must be finite"),
    ("None in x", lambda X, Y: ([1.0, None, 2.0], Y[0]), "x has NaN or inf: inputs must be finite"),
    ("inf in x", lambda X, Y: ([1.0, np.inf, 2.0], Y[0]), "x has NaN or inf: inputs must be finite"),
    ("inf in y", lambda X, Y: (X[0], Y[0] + np.inf), "y has inf: targets must be finite"),
    ("text in y", lambda X, Y: (X[0], "high"), "y must be numbers; got text"),
    ("y too long", lambda X, Y: (X[0], [1.0, 2.0, 3.0]), "y must be .* as the first target was; got 3 numbers"),
    ("y a matrix", lambda X, Y: (X[0], [[1.0], [2.0]]), "y must be a number or a list of numbers"),
    ("y empty", lambda X, Y: (X[0], []), "y must be a number or a list of numbers"),
]


@of_one_and_two_outputs
def test_a_bad_row_gets_a_sentence_and_changes_nothing(build, data):
    X, Y = data
    model = learned(build, Y)
    before = state(model)
    for name, make, message in BAD_ROWS:
        x, y = make(X, Y)
        with pytest.raises((ValueError, TypeError), match=message):
            pytest.fail(f"{name} was taken: {model.learn_one(x, y)}")
        if y is Y[0] or np.array_equal(y, Y[0]):
            for call in (model.predict_one, model.observe_one):
                with pytest.raises((ValueError, TypeError)):
                    pytest.fail(f"{name} was taken: {call(x)}")
        assert state(model) == before, name


@of_one_and_two_outputs
def test_a_bad_last_row_of_many_changes_nothing(build, data):
    X, Y = data
    X = X.copy()
    for model in (build(), learned(build, Y)):
        before = state(model)
        for bad in (np.nan, np.inf, -np.inf):
            X[-1, 1] = bad
            for call in (model.learn_many, model.track):
                with pytest.raises(ValueError, match=f"X has NaN or inf in row {N - 1}"):
                    pytest.fail(f"{bad} was taken: {call(X, Y)}")
                assert state(model) == before, bad
            for call in (model.track, model.predict_many):
                with pytest.raises(ValueError, match="X has NaN or inf"):
                    pytest.fail(f"{bad} was taken: {call(X)}")
            assert state(model) == before, bad


@of_one_and_two_outputs
def test_bad_targets_of_many_change_nothing(build, data):
    X, Y = data
    infinite = Y.copy()
    infinite[-1] = np.inf
    for model in (build(), learned(build, Y)):
        before = state(model)
        for targets, message in [
            (infinite, f"Y has inf in row {N - 1}: targets must be finite"),
            (Y[:-1], f"Y must have one target for each of the {N} rows of X"),
            (np.ones((N, 2, 2)), f"Y must have one target for each of the {N} rows of X"),
            (["high"] * N, "Y must be numbers; got text"),
        ]:
            with pytest.raises((ValueError, TypeError), match=message):
                model.learn_many(X, targets)
            with pytest.raises((ValueError, TypeError), match=message):
                model.track(X, targets)
            assert state(model) == before, message
        if model.rows_seen:
            with pytest.raises(ValueError, match="columns, one for each output; got 5"):
                model.learn_many(X, np.ones((N, 5)))
        with pytest.raises(ValueError, match=r"X must have shape \(n, d\)"):
            model.learn_many(X[None], Y)
        assert state(model) == before


@law_of_layers
@of_one_and_two_outputs
def test_a_missing_target_only_advances_the_memory(build, data):
    X, Y = data
    twin, fresh = learned(build, Y), learned(build, Y)
    twin.observe_one(X[0])
    after = state(twin)
    fresh.reset_memory()
    for missing in (None, Y[0] * np.nan):
        model = learned(build, Y)
        assert model.predict_many(X).mean.shape == Y.shape
        model.learn_one(X[0], missing)
        assert state(model) == after, missing
        assert model.rows_seen == N + 1
        model.reset_memory()
        if not model._sees_time:  # to which a row without a target is one more moment
            assert_same(model.predict_many(X), fresh.predict_many(X))


@of_one_and_two_outputs
def test_a_row_has_a_noise_of_its_own_or_the_model_says_why_not(build, data):
    X, Y = data
    p = 1 if Y.ndim == 1 else Y.shape[1]
    noise = 10.0 ** np.random.default_rng(2).uniform(-3, 1, N)
    many, one = build(), build()
    before = state(many)
    if why := many._cannot("weigh", p):
        for call in (lambda: many.learn_many(X, Y, noise=noise), lambda: many.learn_one(X[0], Y[0], noise=0.1)):
            with pytest.raises(ValueError, match=re.escape(why)):
                call()
        assert state(many) == before
        return
    many.learn_many(X, Y, noise=noise)
    for x, y, one_noise in zip(X, Y, noise, strict=True):
        one.learn_one(x, y, noise=one_noise)
    assert state(many) == state(one) != state(learned(build, Y))
    assert_same(one.track(X, Y, noise=noise), many.track(X, Y, noise=noise))


@of_one_and_two_outputs
def test_a_model_that_forgets_by_rows_takes_no_notice_of_the_time(build, data):
    X, Y = data
    timed, plain = build(), learned(build, Y)
    timed.learn_many(X, Y, time=np.arange(N)[::-1])
    timed.learn_one(X[0], Y[0], time=np.datetime64("2024-03-01"))
    plain.learn_one(X[0], Y[0])
    if not timed._sees_time:
        assert_same(timed.predict_many(X), plain.predict_many(X))
    with pytest.raises(TypeError, match="time must be numbers, datetimes or datetime64; got 'noon'"):
        timed.learn_one(X[0], Y[0], time="noon")
    with pytest.raises(ValueError, match="time must be one time for each of the 60 rows"):
        timed.track(X, Y, time=[1.0, 2.0])
    assert timed.rows_seen == N + 1


@of_one_and_two_outputs
def test_missing_targets_may_come_first(build, data):
    X, Y = data
    model, twin = build(), build()
    model.observe_one(X[0])
    model.learn_one(X[1], None)
    twin.learn_many(X[:2], Y[:2] * np.nan)
    for m in (model, twin):
        m.learn_many(X[2:], Y[2:])
    assert state(model) == state(twin)
    assert model.rows_seen == N


def test_partly_missing_targets_are_learned_or_refused_with_advice(build):
    X, Y = stream_for(build(), 2)
    model = learned(build, Y)
    before = state(model)
    if not model._shared:
        model.learn_one(X[0], [np.nan, 1.0])
        assert state(model) != before
    else:
        with pytest.raises(ValueError, match="Make the whole row missing"):
            model.learn_one(X[0], [np.nan, 1.0])
        for call in (model.learn_many, model.track):
            with pytest.raises(ValueError, match="some targets of a row are missing in row 1"):
                call(X[:2], [[1.0, 1.0], [np.nan, 1.0]])
        assert state(model) == before


@of_one_and_two_outputs
def test_same_settings_and_seed_give_the_same_bits(build, data):
    X, Y = data
    one, two = build(), build()
    assert_same(one.track(X, Y), two.track(X, Y))
    assert state(one) == state(two)


@of_one_and_two_outputs
def test_copy_is_independent_and_clone_has_learned_nothing(build, data):
    X, Y = data
    assert state(build().copy()) == state(build())
    model = learned(build, Y)
    before = state(model)
    twin, fresh = model.copy(), model.clone()
    assert state(twin) == before
    twin.learn_many(X, Y)
    assert state(model) == before
    assert state(twin) != before
    assert fresh.rows_seen == 0
    fresh.learn_many(X, Y)
    assert state(fresh) == before


@of_one_and_two_outputs
def test_settings_can_be_read_and_changed_before_the_first_row_only(build, data):
    _, Y = data
    model = build()
    params = model.get_params()
    assert set(params) == set(type(model).setting_names())
    assert state(type(model)(**params)) == state(model)
    assert state(build().set_params(**params)) == state(model)
    model = learned(build, Y)
    before = state(model)
    with pytest.raises(ValueError, match="only before the first row"):
        model.set_params(**params)
    assert state(model) == before


def test_repr_names_the_class_and_what_differs_from_the_defaults():
    for name, make in (EXAMPLES | CLASSES_AND_COUNTS).items():
        model = make()
        text = repr(model)
        assert text.startswith(type(model).__name__ + "("), name
        assert len(text) < 400, name


def test_unknown_settings_are_refused_with_the_nearest_name():
    for example, make in (EXAMPLES | CLASSES_AND_COUNTS).items():
        model = make()
        kind, name = type(model), type(model).setting_names()[-1]
        typo = {name[:-1] + ("x" if name[-1] != "x" else "z"): 1}
        message = f"{kind.__name__} has no setting '{next(iter(typo))}'. Did you mean '{name}'"
        with pytest.raises(TypeError, match=message):
            pytest.fail(f"{example} was built: {kind(**model.get_params(), **typo)}")
        with pytest.raises(TypeError, match=message):
            pytest.fail(f"{example} was changed: {model.set_params(**typo)}")


@of_one_and_two_outputs
def test_rows_may_be_lists_float32_readonly_strided_or_integers(build, data):
    X, Y = data
    model = learned(build, Y)
    x = np.array([1.0, 2.0, -1.0])
    expected = model.predict_one(x)
    readonly = x.copy()
    readonly.flags.writeable = False
    for other in (list(x), tuple(x), x.astype(np.float32), x.astype(int), readonly, np.repeat(x, 2)[::2], x[None]):
        assert_same(model.predict_one(other), expected)
    many = np.asfortranarray(X)
    many.flags.writeable = False
    assert_same(model.predict_many(many), model.predict_many(X))
    twin = build()
    twin.learn_many(many, np.asfortranarray(Y))
    assert state(twin) == state(model)


@of_one_and_two_outputs
def test_no_rows_are_no_change(build, data):
    X, Y = data
    model = learned(build, Y)
    before = state(model)
    model.learn_many(X[:0], Y[:0])
    assert model.track(X[:0], Y[:0]).mean.shape == Y[:0].shape
    assert model.track(X[:0]).mean.shape == Y[:0].shape
    assert model.predict_many(X[:0]).mean.shape == Y[:0].shape
    assert state(model) == before


@of_one_and_two_outputs
def test_what_can_be_read_is_there(build, data):
    _, Y = data
    assert build().health.repairs == 0
    model = learned(build, Y)
    assert model.size >= 1
    assert model.basis.ndim == 2
    assert isinstance(model.has_variance, bool)
    assert all(isinstance(v, float | np.ndarray) for v in model.hyperparameters.values())
    assert model.last_change.evicted >= -1


@of_one_and_two_outputs
def test_free_running_learns_nothing_and_repeats(build, data):
    X, Y = data
    model = learned(build, Y)
    before = state(model)
    columns = [0] if Y.ndim == 1 else [0, 1]
    if model._observes != "numbers":
        with pytest.raises(ValueError, match="simulate and forecast feed a model with numbers"):
            model.simulate(X[:5], feedback=columns, trajectories=4)
        assert state(model) == before
        return
    simulated = model.simulate(X[:5], feedback=columns, trajectories=4)
    assert simulated.mean.shape == simulated.variance.shape == Y[:5].shape
    assert_same(simulated, model.simulate(X[:5], feedback=columns, trajectories=4))
    forecast = model.forecast(3, feedback=columns, X=X[:3, len(columns) :], trajectories=4)
    assert forecast.mean.shape == Y[:3].shape
    assert np.all(np.isfinite(forecast.mean))
    assert np.all(np.isnan(forecast.std)) == (not model.has_variance)
    assert state(model) == before


@of_one_and_two_outputs
def test_a_row_that_was_predicted_is_learned_as_one_that_was_not(build, data):
    X, Y = data
    model = build()
    for t in range(N):
        if t % 3:
            model.predict_one(X[t])
        if t % 5 == 0:
            model.predict_many(X[: t + 1])  # the last of them is the next row
        model.learn_one(X[t], Y[t])
    assert state(model) == state(learned(build, Y))


# Models without a joint posterior; a Committee takes those without a variance by their means, but stacks none.
APART = (
    sg.filters.KLMS,
    sg.filters.QKLMS,
    sg.filters.KNLMS,
    sg.filters.BetaKLMS,
    sg.filters.NORMA,
    sg.filters.SGDESN,
    sg.LWPR,
    sg.LocalGP,
    sg.IRFRR,
)
APART += (sg.SeasonalValue, sg.InputValue, sg.RunningMean, sg.Ahead, sg.Auto)


def has_joint(model):
    """Whether a model is to have a joint posterior."""
    if isinstance(model, sg.Committee):
        kept = model.has_variance and model.get_params()["rule"] != "stacked"
        return kept and all(has_joint(member) or not member.has_variance for member in model.members)
    return not isinstance(model, APART) and all(has_joint(child) for child in getattr(model, "_models", []))


@law_of_layers
@of_one_and_two_outputs
def test_joint_predictions_are_those_of_many_with_the_covariance_or_refused(build, data):
    X, Y = data
    for rows_learned in (0, N):
        model = learned(build, Y) if rows_learned else build()
        model.learn_many(X[:0], Y[:0])
        before = state(model)
        if not has_joint(model):
            with pytest.raises(ValueError, match=r"joint posterior.*predict_(many|joint)"):
                model.predict_joint(X[:7])
            continue
        rows = np.vstack([X[:6], X[:1]])
        joint, many = model.predict_joint(rows), model.predict_many(rows)
        many = getattr(many, "latent", many)  # of classes and counts it is the function's
        shape = Y[:7].shape if rows_learned else (7,)
        assert joint.mean.shape == joint.noise.shape == shape
        assert joint.covariance.shape == (*shape[1:], 7, 7)
        known = ~np.isinf(many.variance)  # where no scale is known, draws take it as 1
        for got, expected in zip(values(joint.marginal), values(many), strict=True):
            np.testing.assert_allclose(got[known], expected[known], rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(joint.covariance, np.swapaxes(joint.covariance, -1, -2))
        assert np.linalg.eigvalsh(joint.covariance).min() >= -1e-9 * many.variance.max()
        draws = joint.sample(5, seed=3)
        assert draws.shape == (5, *shape)
        np.testing.assert_array_equal(draws, model.predict_joint(rows).sample(5, seed=3))
        jitter = 1e-6 * max(1.0, np.max(model.hyperparameters.get("variance", 1.0)))  # adapt= moves it
        np.testing.assert_allclose(draws[:, 0], draws[:, 6], atol=10.0 * np.sqrt(jitter))  # the same row
        assert state(model) == before

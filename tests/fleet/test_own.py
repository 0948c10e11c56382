"""Hyperparameters of each model of a fleet, given or learned from all."""

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet.prior import learned

SIZE = 5
LENGTHSCALES = np.array([0.3, 0.5, 1.0, 2.0, 2.0])
NOISES = np.array([0.001, 0.01, 0.1, 0.01, 0.01])


def recipe(**settings):
    return sg.KRLST(**({"capacity": 12, "forgetting": 1.0} | settings))


def rows(n=60, seed=0, size=SIZE):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, size, 2))
    return X, np.sin(X[..., 0] / np.resize(LENGTHSCALES, size)) + 0.1 * X[..., 1] + 0.1 * rng.normal(size=(n, size))


def own_fleet(**settings):
    return sg.Fleet(recipe(), size=SIZE, lengthscale=LENGTHSCALES, noise=NOISES, **settings)


def single(i):
    return recipe(lengthscale=LENGTHSCALES[i], noise=NOISES[i])


@pytest.mark.parametrize("make", [sg.SOGP, sg.KRLST, lambda **settings: sg.ISSGPR(6, **settings)])
def test_each_model_is_the_single_one_with_its_hyperparameters(make):
    X, Y = rows()
    scales = np.stack([LENGTHSCALES, LENGTHSCALES[::-1]], axis=1)
    variances = np.array([1.0, 2.0, 3.0, 4.0, 0.5])
    fleet = sg.Fleet(make(), size=SIZE, lengthscale=scales, noise=NOISES, variance=variances)
    first, p = fleet.predict_many(X[0]), fleet.track(X, Y)
    np.testing.assert_allclose(first.variance, variances, rtol=1e-5)  # jitter
    for i in range(SIZE):
        alone = make(lengthscale=scales[i].tolist(), noise=NOISES[i], variance=variances[i])
        q = alone.track(X[:, i], Y[:, i])
        np.testing.assert_array_equal(p.mean[:, i], q.mean)
        np.testing.assert_array_equal(p.variance[:, i], q.variance)
        assert fleet.model(i).hyperparameters["noise"] == pytest.approx(NOISES[i])
        assert fleet.model(i).get_params()["noise"] == NOISES[i]


def test_own_hyperparameters_beside_a_kernel_of_the_recipe_are_refused_at_once():
    model = sg.KRLST(sg.Matern(1.5))
    sentence = "of each model are those of the default kernel, but the recipe has kernel=Matern"
    for name in ("lengthscale", "variance"):
        with pytest.raises(ValueError, match=f"{name} {sentence}"):
            sg.Fleet(model, size=2, **{name: [1.0, 2.0]})
    X, Y = rows(size=2)
    with pytest.raises(ValueError, match=f"lengthscale and variance {sentence}"):
        sg.Fleet(model, size=2).tune(X, Y)
    prior = sg.Fleet(recipe(), size=2).tune(X, Y, rows=5)
    with pytest.raises(ValueError, match=f"lengthscale and variance {sentence}"):
        sg.Fleet(model, size=2, prior=prior)
    noises = sg.Fleet(model, size=2, noise=[0.1, 0.2])
    noises.learn_many(X[0], Y[0])
    assert noises.model(1).get_params()["noise"] == 0.2


def test_nan_stands_for_what_the_recipe_has():
    X, Y = rows()
    fleet = sg.Fleet(recipe(), size=2, noise=[np.nan, 0.5])
    p = fleet.track(X[:, :2], Y[:, :2])
    np.testing.assert_array_equal(p.mean[:, 0], recipe().track(X[:, 0], Y[:, 0]).mean)
    np.testing.assert_array_equal(p.mean[:, 1], recipe(noise=0.5).track(X[:, 1], Y[:, 1]).mean)


def test_models_that_come_have_those_of_the_recipe_and_models_that_go_take_theirs_along():
    X, Y = rows()
    fleet = own_fleet()
    fleet.learn_many(X, Y)
    fleet.add(1)
    fleet.remove([0, 1])
    wide = sg.Fleet(recipe(), size=1, lengthscale=[[1.0, 2.0]])
    wide.add(1)
    alone = recipe()
    np.testing.assert_allclose(
        wide.track(X[:, :2], Y[:, :2]).mean[:, 1], alone.track(X[:, 1], Y[:, 1]).mean, atol=1e-12
    )
    assert fleet.model(3).get_params()["noise"] == recipe().get_params()["noise"]
    assert fleet.model(0).get_params()["lengthscale"] == LENGTHSCALES[2]
    alone = recipe()
    np.testing.assert_array_equal(fleet.track(X[:, :4], Y[:, :4]).mean[:, 3], alone.track(X[:, 3], Y[:, 3]).mean)


def test_a_model_moves_to_another_place_with_its_hyperparameters():
    X, Y = rows()
    fleet = own_fleet()
    fleet.learn_many(X, Y)
    fleet.replace(0, fleet.model(3))
    p = fleet.predict_many(np.stack([X[0, 3]] * 2), ids=[0, 3])
    assert p.mean[0] == p.mean[1]
    for one in (fleet, sg.from_bytes(fleet.to_bytes())):
        assert one.model(0).get_params()["lengthscale"] == LENGTHSCALES[3]
    before = fleet.to_bytes()
    for other, why in (
        (recipe(capacity=3), "must have the settings of all"),
        (recipe(lengthscale=np.array([1.0, 2.0])), "have 1 lengthscale each; got a model with 2. Build the fleet with"),
    ):
        with pytest.raises(ValueError, match=why):
            fleet.replace(0, other)
    assert fleet.to_bytes() == before


def test_what_cannot_be_hyperparameters_is_refused():
    for given, why in (
        ({"noise": NOISES[:3]}, r"one row for each of the 5 models: shape \(5,\); got \(3,\)"),
        ({"noise": -NOISES}, "noise must be positive and finite"),
        ({"lengthscale": np.full(SIZE, np.inf)}, "lengthscale must be positive and finite"),
        ({"variance": np.ones((SIZE, 2))}, "variance must have one row"),
    ):
        with pytest.raises(ValueError, match=why):
            sg.Fleet(recipe(), size=SIZE, **given)
    with pytest.raises(ValueError, match="bare recipes that have this setting.*got Standardize"):
        sg.Fleet(sg.Standardize(recipe()), size=SIZE, noise=NOISES)


def test_shares_are_those_that_make_all_rows_most_likely():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(40, 3)) + np.array([1.0, 0.0, -1.0])
    tried = {"noise": np.array([[0.1], [0.2], [0.3]])}
    prior, own = learned(tried, scores)
    total = lambda shares: np.log(np.exp(scores) @ shares).sum()  # noqa: E731
    for _ in range(200):
        other = prior.shares + 0.01 * rng.dirichlet(np.ones(3))
        assert total(other / other.sum()) <= total(prior.shares) + 1e-9
    np.testing.assert_allclose(own.mean(axis=0), prior.shares, atol=1e-8)


def test_a_tuned_fleet_predicts_better_than_one_recipe_and_new_models_begin_with_the_prior(tmp_path):
    X, Y = rows(160, size=12)
    begin = recipe(noise=1.0, capacity=100)
    fleet = sg.Fleet(begin, size=12)
    prior = fleet.tune(X[:40], Y[:40], models=6)
    nlpd = lambda p: -np.mean(p.log_density(Y[40:]))  # noqa: E731
    own, shared, default = (
        nlpd(one.track(X[40:], Y[40:]))
        for one in (fleet, sg.Fleet(prior.applied(begin), size=12), sg.Fleet(begin, size=12))
    )
    assert own < shared - 0.1
    assert shared < default - 0.1
    fleet.add(1)
    assert fleet.model(12).hyperparameters["noise"] == pytest.approx(prior.start["noise"][0])
    prior.save(tmp_path / "arm.prior")
    assert sg.Prior.load(tmp_path / "arm.prior") == prior
    twins = recipe(capacity=100, prior=prior), prior.applied(recipe(capacity=100))
    np.testing.assert_array_equal(*(one.track(X[:, 0], Y[:, 0]).mean for one in twins))
    assert sg.from_bytes(twins[0].to_bytes()).hyperparameters == twins[0].hyperparameters
    given = recipe(prior=prior, noise=0.3, lengthscale=2.0)
    given.learn_one(X[0, 0], Y[0, 0])
    assert given.hyperparameters["noise"] == 0.3
    assert given.hyperparameters["lengthscale"] == 2.0
    assert given.hyperparameters["variance"] == prior.start["variance"][0]
    with pytest.raises(TypeError, match=r"prior must be, for example, Prior.load\(path\)"):
        recipe(prior="arm.prior")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no prior that streamgp wrote"):
        sg.Prior.load(tmp_path / "other")
    with pytest.raises(ValueError, match="before its first row"):
        fleet.tune(X, Y)
    with pytest.raises(ValueError, match=r"X \(rows, 12, d\) and Y \(rows, 12\)"):
        sg.Fleet(begin, size=12).tune(X[0], Y[0])
    with pytest.raises(ValueError, match="bare recipes"):
        sg.Fleet(sg.Standardize(begin), size=12).tune(X, Y)


def test_some_models_are_given_hyperparameters_before_their_first_row():
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 3, 2))
    fresh, begun = (sg.Fleet(sg.KRLST(capacity=6), size=3) for _ in range(2))
    begun.learn_many(X[:1, 1], Y[:1, 1, 0], ids=[1])
    for fleet, lengthscales in ((fresh, [[0.5, 2.0], [3.0, 1.0]]), (begun, [0.5, 2.0])):
        fleet.set([2, 0], lengthscale=lengthscales, noise=[0.1, 0.3])
        for i, lengthscale, noise in zip((2, 0), lengthscales, (0.1, 0.3), strict=True):
            p = sg.KRLST(capacity=6, lengthscale=lengthscale, noise=noise).track(X[:, i], Y[:, i, 0])
            np.testing.assert_array_equal(fleet.track(X[:, i], Y[:, i, 0], ids=np.full(20, i)).mean, p.mean)
    for given, reason in (
        ({"ids": [0, 1], "noise": [0.1, 0.1]}, "model 0 has seen rows: hyperparameters are given"),
        ({"ids": begun.add(1), "lengthscale": [[1.0, 2.0]]}, "the models of this fleet have 1 lengthscale each; got 2"),
        ({"ids": [0, 1], "noise": [0.1]}, "noise must have one row for each of the 2 models"),
    ):
        with pytest.raises(ValueError, match=reason):
            begun.set(**given)

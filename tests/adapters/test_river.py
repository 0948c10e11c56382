from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest
from river import checks, conf, proba

import streamgp as sg
from streamgp.adapters.given import fresh
from streamgp.adapters.river import StreamClassifier, StreamRegressor

RECENT = tuple(map(int, version("river").split(".")[:2])) >= (0, 22)  # 0.21 has fewer checks of its own
NAMES = ("north", "east", "south")
rng = np.random.default_rng(0)
X = rng.normal(size=(150, 3))
Y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
ROWS = [dict(zip(NAMES, map(float, x), strict=True)) for x in X]
ORDER = [1, 0, 2]  # the columns are in the order of their names

REGRESSORS = {
    "default": StreamRegressor,
    "KRLST": lambda: StreamRegressor(sg.KRLST(capacity=20)),
    "Standardize": lambda: StreamRegressor(sg.Standardize(sg.ISSGPR(features=20), warmup=50)),
    "OESGP": lambda: StreamRegressor(sg.OESGP(units=6, capacity=20)),
    "QKLMS": lambda: StreamRegressor(sg.filters.QKLMS(capacity=20), warmup=5),
}
CHECKS = [
    pytest.param(
        name, check, id=f"{name}-{check.__name__}", marks=() if name in ("default", "QKLMS") else pytest.mark.more
    )
    for name, build in REGRESSORS.items()
    for check in checks.yield_checks(build())
]


@pytest.mark.parametrize(("name", "check"), CHECKS)
def test_river_is_content(name, check):
    check(REGRESSORS[name]())


def test_no_check_of_river_is_left_out():
    assert len(list(checks.yield_checks(StreamRegressor()))) >= (25 if RECENT else 15)
    assert StreamRegressor()._unit_test_skips() == set()


@pytest.mark.parametrize("name", REGRESSORS)
def test_it_equals_the_native_model_to_the_last_bit(name):
    regressor = REGRESSORS[name]()
    native = fresh(regressor.model)
    for x, row, y in zip(X[:, ORDER], ROWS, Y, strict=True):
        expected = native.predict_one(x)
        assert regressor.predict_one(row) == expected.mean
        assert isinstance(regressor.predict_one(row), float)
        if native.has_variance:
            said = regressor.predict_one(row, with_dist=True)
            assert isinstance(said, proba.Gaussian)
            assert said.mu == expected.mean
            assert said.sigma == pytest.approx(expected.std, rel=1e-15)
            bounds = regressor.predict_one(row, with_interval=True)
            assert isinstance(bounds, conf.Interval)
            assert (bounds.lower, bounds.upper) == expected.interval()
        regressor.learn_one(row, float(y))
        native.learn_one(x, float(y))
    assert regressor._native.to_bytes() == native.to_bytes()
    assert regressor.columns == ("east", "north", "south")


@pytest.mark.parametrize("more", ["with_dist", "with_interval"])
def test_a_model_without_a_variance_says_so(more):
    with pytest.raises(
        ValueError, match="QKLMS has no variance, only a mean: ask for no distribution, or wrap the model in Calibrated"
    ):
        StreamRegressor(sg.filters.QKLMS()).predict_one(ROWS[0], **{more: True})
    bounds = StreamRegressor(sg.Calibrated(sg.filters.QKLMS())).predict_one(ROWS[0], with_interval=True)
    assert bounds.lower < bounds.upper


# Features that appear and vanish.


def test_a_feature_that_appears_early_has_been_0_all_along():
    regressor, native = StreamRegressor(sg.KRLST(capacity=20), warmup=60), sg.KRLST(capacity=20)
    for t, (row, y) in enumerate(zip(ROWS, Y, strict=True)):
        known = {name: row[name] for name in NAMES if t >= {"north": 0, "east": 20, "south": 59}[name]}
        regressor.learn_one(known, y)
        native.learn_one([known.get(name, 0.0) for name in sorted(NAMES)], y)
    assert regressor._native.to_bytes() == native.to_bytes()
    assert regressor.ignored == 0
    assert regressor._kept is None


def test_a_feature_that_appears_late_is_left_out_and_counted():
    regressor, native = StreamRegressor(sg.KRLST(capacity=20), warmup=40), sg.KRLST(capacity=20)
    for t, (row, y) in enumerate(zip(ROWS, Y, strict=True)):
        known = row if t >= 100 else {"north": row["north"], "south": row["south"]}
        regressor.learn_one(known, y)
        native.learn_one([row["north"], row["south"]], y)
    assert regressor._native.to_bytes() == native.to_bytes()
    assert regressor.ignored == 50
    before = pickle.dumps(regressor)
    assert regressor.predict_one(ROWS[0]) == native.predict_one([ROWS[0]["north"], ROWS[0]["south"]]).mean
    assert pickle.dumps(regressor) == before


# Failures.


def test_bad_settings_are_refused():
    learned = sg.KRLST()
    learned.learn_one(1.0, 1.0)
    with pytest.raises(ValueError, match="must have learned nothing.*has seen 1 rows. Hand over model.clone()"):
        StreamRegressor(learned)
    with pytest.raises(TypeError, match="model must be a stream model such as KRLST"):
        StreamRegressor(sg.SquaredExponential())
    with pytest.raises(ValueError, match="warmup must be a whole number of at least 1; got 0"):
        StreamRegressor(warmup=0)


# In River's company.


@pytest.mark.parametrize("warmup", [5, 100], ids=["settled", "warming up"])
def test_bad_rows_and_targets_are_refused_and_change_nothing(warmup):
    regressor = StreamRegressor(sg.KRLST(capacity=20), warmup=warmup)
    for row, y in zip(ROWS[:20], Y[:20], strict=True):
        regressor.learn_one(row, float(y))
    before = pickle.dumps(regressor)
    for change, y, message in (
        ({"north": np.ma.masked}, 1.0, "x has NaN or inf"),
        ({"north": None}, 1.0, "x has NaN or inf"),
        ({"north": float("inf")}, 1.0, "x has NaN or inf"),
        ({"north": np.datetime64("2020-01-01")}, 1.0, "x must be numbers; got dates or durations"),
        ({"north": 10**400}, 1.0, "x has a whole number beyond the largest float"),
        ({"north": "high"}, 1.0, "x must be numbers; got text"),
        ({}, np.timedelta64(5, "s"), "y must be numbers; got dates or durations"),
        ({}, 10**400, "y has a whole number beyond the largest float"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            regressor.learn_one(ROWS[0] | change, y)
        if change:
            with pytest.raises((ValueError, TypeError), match=message):
                regressor.predict_one(ROWS[0] | change)
    assert pickle.dumps(regressor) == before


def test_a_second_thread_is_refused_during_the_warm_up():
    regressor = StreamRegressor(sg.KRLST(capacity=20))
    regressor.learn_one(ROWS[0], 1.0)

    class Slow(dict):
        def get(self, name, default=None):
            with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="in use by another thread"):
                pool.submit(regressor.learn_one, ROWS[1], 2.0).result()
            return super().get(name, default)

    regressor.learn_one(Slow(ROWS[1], west=1.0), 2.0)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(regressor.learn_one, ROWS[2], 3.0).result()
    assert regressor._native.rows_seen == 3
    assert regressor.columns == ("east", "north", "south", "west")


def test_a_weight_divides_the_noise_of_the_model():
    weights = np.resize([0.5, 1.0, 2.0, 0.0, 7.0], 150)
    regressor, model = StreamRegressor(sg.KRLST(capacity=20, noise=0.04)), sg.KRLST(capacity=20, noise=0.04)
    for x, row, y, w in zip(X[:, ORDER], ROWS, Y, weights, strict=True):
        regressor.learn_one(row, y, w=w)
        model.learn_one(x, y if w else None, noise=0.04 / w if w else None)
    for x, row in zip(X[:5, ORDER], ROWS, strict=False):
        assert regressor.predict_one(row) == pytest.approx(model.predict_one(x).mean, rel=1e-12)
    with pytest.raises(ValueError, match="w must be a finite number at least 0; got -1"):
        regressor.learn_one(ROWS[0], 1.0, w=-1)
    with pytest.raises(ValueError, match="QKLMS cannot weigh a row by its noise"):
        StreamRegressor(sg.filters.QKLMS()).learn_one(ROWS[0], 1.0, w=2.0)


# Classes.


def test_a_classifier_gives_the_probability_of_the_model_itself():
    model = sg.SOGP(capacity=20, likelihood=sg.Probit())
    classifier, native = StreamClassifier(model, features=NAMES), model.clone()
    for row, y in zip(ROWS, Y, strict=True):
        said = classifier.predict_proba_one(row)
        assert said[True] == native.predict_one([row[name] for name in NAMES]).probability
        assert said[False] == 1.0 - said[True]
        assert classifier.predict_one(row) in (False, True)
        classifier.learn_one(row, bool(y > 0))
        native.learn_one([row[name] for name in NAMES], y > 0)
    assert model.rows_seen == 0
    twin = classifier.clone()
    assert twin.predict_proba_one(ROWS[0])[True] == 0.5


def test_a_classifier_needs_a_model_of_classes():
    with pytest.raises(ValueError, match="model must be one of classes, such as SOGP"):
        StreamClassifier(sg.KRLST())
    with pytest.raises(TypeError, match="model must be a stream model"):
        StreamClassifier("probit")

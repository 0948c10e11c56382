"""skpro's own checks pass, and the numbers are those of the native model."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import pytest

import streamgp as sg

pd = pytest.importorskip("pandas")
pytest.importorskip("skpro")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

from skpro.utils import check_estimator  # noqa: E402

from streamgp.adapters.skpro import StreamRegressor  # noqa: E402

COPIES = find_spec("skbase.base._clone_plugins") is not None


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 10, (120, 2)), columns=["a", "b"], index=np.arange(120) + 7)
    y = pd.DataFrame({"y": 100 + 10 * np.sin(X["a"]) + rng.standard_normal(120)})
    return X, y


def test_checks_of_skpro_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the suite itself
        results = check_estimator(StreamRegressor, raise_exceptions=True, verbose=False)
    assert len(results) > 50
    assert set(results.values()) == {"PASSED"}


def test_predictions_are_those_of_the_native_model_and_update_goes_on(rows):
    X, y = rows
    model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=30)))
    native = model.clone()
    native.learn_many(X[:100].to_numpy(), y["y"][:100].to_numpy())
    regressor = StreamRegressor(model).fit(X[:60], y[:60]).update(X[60:100], y[60:100])
    expected = native.predict_many(X[100:].to_numpy())
    said = regressor.predict_proba(X[100:])
    assert np.array_equal(said.mean().to_numpy()[:, 0], expected.mean)
    np.testing.assert_allclose(said.var().to_numpy()[:, 0], expected.std**2, rtol=1e-12)
    assert list(said.index) == list(X[100:].index)
    assert np.array_equal(regressor.predict(X[100:])["y"], expected.mean)
    for level in (0.9, 0.5):
        low, high = expected.interval(level)
        bounds = regressor.predict_interval(X[100:], coverage=[0.9, 0.5])["y"][level]
        assert np.array_equal(bounds["lower"], low)
        assert np.array_equal(bounds["upper"], high)
    assert model.rows_seen == 0


def test_several_targets_have_a_column_each(rows):
    X, y = rows
    both = y.assign(z=-y["y"] + X["b"])
    regressor = StreamRegressor(sg.Standardize(sg.KRLST(outputs="separate"))).fit(X, both)
    assert list(regressor.predict_proba(X[:3]).columns) == ["y", "z"]
    quantiles = regressor.predict_quantiles(X[:3], alpha=[0.1, 0.5, 0.9])
    low, high = regressor.model_.predict_many(X[:3].to_numpy()).interval(0.8)
    for j, name in enumerate(both):
        np.testing.assert_allclose(quantiles[name][0.1], low[:, j], rtol=1e-12)
        np.testing.assert_allclose(quantiles[name][0.9], high[:, j], rtol=1e-12)
        assert (quantiles[name][0.5] == regressor.predict(X[:3])[name]).all()


@pytest.mark.more
@pytest.mark.skipif(not COPIES, reason="before scikit-base 0.12 skpro copies no wrapped models")
def test_pipelines_and_searches_copy_wrapped_models(rows):
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import StandardScaler
    from skpro.metrics import CRPS
    from skpro.model_selection import GridSearchCV
    from skpro.regression.compose import Pipeline

    X, y = rows
    regressor = StreamRegressor(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=20))))
    pipeline = Pipeline([("scale", StandardScaler()), ("gp", regressor)]).fit(X, y)
    assert pipeline.predict(X[:2]).shape == (2, 1)
    search = GridSearchCV(regressor, KFold(2), {"model__model__model__capacity": [5, 20]}, CRPS()).fit(X, y)
    assert search.best_params_["model__model__model__capacity"] in (5, 20)
    clone = regressor.clone()
    assert repr(clone.model) == repr(regressor.model)
    assert clone.model is not regressor.model


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        (
            sg.filters.KLMS(),
            ValueError,
            "KLMS has no variance, only a mean: ask for no distribution, or wrap the model in Calibrated",
        ),
        ("KRLST", TypeError, "model must be a stream model such as KRLST\\(\\) or None; got 'KRLST'"),
    ],
)
def test_other_models_are_refused(rows, model, kind, message):
    with pytest.raises(kind, match=message):
        StreamRegressor(model).fit(*rows)

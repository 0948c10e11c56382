"""sktime's own checks pass, and the numbers are those of the native forecaster and the native alarms."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import streamgp as sg

pd = pytest.importorskip("pandas")
pytest.importorskip("sktime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

from streamgp.adapters.sktime import StreamDetector, StreamForecaster  # noqa: E402

HOURS = np.arange(24 * 8)
LOAD = 50 + 10 * np.sin(2 * np.pi * HOURS / 24) + np.random.default_rng(0).normal(0, 0.5, len(HOURS))


@pytest.mark.more
@pytest.mark.parametrize("estimator", [StreamForecaster, StreamDetector])
def test_checks_of_sktime_pass(estimator):
    from sktime.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the suite itself
        results = check_estimator(estimator, raise_exceptions=True, verbose=False)
    assert len(results) > 50
    assert set(results.values()) == {"PASSED"}


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(5, 5 + len(HOURS)),
        pd.date_range("2026-01-01", periods=len(HOURS), freq="h"),
        pd.period_range("2026-01-01", periods=len(HOURS), freq="h"),
    ],
    ids=["rows", "dates", "periods"],
)
def test_forecasts_are_those_of_the_native_forecaster_and_update_goes_on(index):
    y = pd.Series(LOAD, index=index, name="load")
    native = sg.Forecaster(LOAD[:150], HOURS[:150].astype(float), seasons=[24], trend=False, log=False)
    native.learn(LOAD[150:], HOURS[150:].astype(float))
    expected = native.forecast(len(HOURS) - 1 + np.array([1.0, 5.0]))
    forecaster = StreamForecaster(seasons=[24], trend=False, log=False).fit(y[:150])
    forecaster.update(y[140:], update_params=False)  # ten rows are known
    said = forecaster.predict(fh=[1, 5])
    np.testing.assert_allclose(said, expected.median, rtol=1e-8)
    assert said.name == "load"
    bounds = forecaster.predict_interval(fh=[1, 5], coverage=0.8)["load"][0.8]
    np.testing.assert_allclose(bounds.to_numpy().T, expected.interval(0.8), rtol=1e-8)


def test_a_forecast_uses_inputs_that_are_known_ahead():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"weather": rng.normal(size=110)})
    y = pd.Series(5 + 3 * X["weather"] + 0.1 * rng.normal(size=110))
    forecaster = (
        StreamForecaster(seasons=[], trend=False, log=False).fit(y[:90], X=X[:90]).update(y[90:100], X=X[90:100])
    )
    said = forecaster.predict(fh=np.arange(1, 11), X=X[100:])
    assert np.abs(said - y[100:]).max() < 1.0


def test_alarms_are_those_of_the_native_model_and_rows_that_were_learned_stay_as_they_were_judged():
    x = pd.DataFrame({"x": LOAD.copy()}, index=pd.date_range("2026-01-01", periods=len(HOURS), freq="h"))
    x.iloc[160] += 40
    native = sg.Alarms(sg.Lagged(sg.Standardize(sg.KRLST(capacity=20)), lags=3), rate=1e-2, warmup=50)
    told = native.track(np.empty((len(x), 0)), x["x"].to_numpy())
    detector = StreamDetector(sg.Standardize(sg.KRLST(capacity=20)), lags=3, rate=1e-2, warmup=50).fit(x[:120])
    expected = np.flatnonzero(told.alarm[120:] != "")
    assert 40 in expected
    for _ in range(2):  # nothing is learned
        assert detector.predict(x[120:])["ilocs"].tolist() == expected.tolist()
    detector.update(x[120:])
    for part in (slice(120, None), slice(150, 170)):
        assert detector.predict(x[part])["ilocs"].tolist() == np.flatnonzero(told.alarm[part] != "").tolist()
        scores = detector.transform_scores(x[part]).to_numpy().ravel()
        np.testing.assert_allclose(scores, told.surprise[part], rtol=1e-12)
    assert len(detector.predict(x[::-1].reset_index(drop=True))) >= 1


@pytest.mark.parametrize("kind", ["series", "frame", "array"])
def test_a_detector_is_updated_with_what_it_was_fitted_with_and_stays_as_large(kind):
    whole = pd.Series(np.tile(LOAD, 4))
    x = {"series": whole, "frame": whole.to_frame("x"), "array": whole.to_numpy()}[kind]
    detector = StreamDetector(sg.Standardize(sg.KRLST(capacity=5)), lags=2, warmup=20).fit(x[:200])
    sizes = []
    for at in range(200, 600, 100):
        part = x[at : at + 100]
        detector.update(part)
        sizes.append(len(pickle.dumps(detector)))
        assert len(detector.transform_scores(part)) == 100
    assert detector.model_.rows_seen == 600
    assert max(sizes) - min(sizes) < 100  # bytes; the values of a hundred rows take 800


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="model must be a stream model such as KRLST\\(\\) or None; got 'KRLST'"):
        StreamDetector("KRLST").fit(pd.Series(LOAD))

"""Forecaster: what the evidence supports is chosen, seasons are found, and forecasts are in the units of the series."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import streamgp as sg
from streamgp.tuning.series import candidates, choose
from streamgp.tuning.time import Series

HOURS = np.arange(24.0 * 20)


def seasonal(seed=0, period=24.0, noise=0.5):
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * HOURS / period
    return 50 + 6 * np.sin(angle) + 2 * np.cos(2 * angle) + noise * rng.standard_normal(len(HOURS))


def test_the_season_is_found_and_continued():
    forecaster = sg.Forecaster(seasonal(noise=0.2))
    assert forecaster.chosen.structure.seasons == (24.0,)
    truth = 50 + 6 * np.sin(2 * np.pi * np.arange(20, 21, 1 / 24)) + 2 * np.cos(4 * np.pi * np.arange(20, 21, 1 / 24))
    ahead = forecaster.forecast(24)
    np.testing.assert_array_equal(ahead.times, HOURS[-1] + np.arange(1.0, 25.0))
    assert np.abs(ahead.median - truth).max() < 0.5


def test_noise_has_no_season():
    y = np.random.default_rng(3).standard_normal(300)
    assert choose(y, np.arange(300.0)).structure.seasons == ()


def test_a_day_that_is_found_in_dates_is_a_day():
    minutes = np.cumsum(np.full(900, 17))  # rows that do not divide a day
    y = np.sin(2 * np.pi * minutes / 1440) + 0.05 * np.random.default_rng(0).standard_normal(900)
    series = Series(60.0 * minutes, y[:, None], 900)
    assert candidates(series, (86400.0,))[0] == 86400.0
    assert candidates(series)[0] == pytest.approx(86400.0, rel=0.02)


def test_logarithms_are_modeled_where_the_noise_grows_with_the_level():
    rng = np.random.default_rng(1)
    y = np.exp(0.01 * HOURS + np.sin(2 * np.pi * HOURS / 24) + 0.2 * rng.standard_normal(len(HOURS)))
    forecaster = sg.Forecaster(y, seasons=[24.0])
    assert forecaster.chosen.structure.log
    ahead = forecaster.forecast(24)
    low, high = ahead.interval(0.9)
    assert np.all(low > 0)
    assert np.all((low < ahead.median) & (ahead.median < high))
    np.testing.assert_allclose(np.log(high) - np.log(ahead.median), np.log(ahead.median) - np.log(low), rtol=1e-9)
    product = np.prod(list(ahead.components.values()), axis=0) * np.exp(forecaster.chosen.center)
    np.testing.assert_allclose(product, ahead.median, rtol=1e-9)


def test_a_trend_is_chosen_where_there_is_one():
    y = 0.5 * HOURS[:200] + np.random.default_rng(2).standard_normal(200)
    forecaster = sg.Forecaster(y, seasons=[], log=False)
    assert forecaster.chosen.structure.trend
    np.testing.assert_allclose(forecaster.forecast(20).median, 0.5 * np.arange(200, 220), atol=3.0)


def test_forecasts_are_in_the_units_of_the_series():
    y = seasonal()
    small, large = (sg.Forecaster(k * y, seasons=[24.0], log=False, trend=False).forecast(12) for k in (1.0, 1e6))
    np.testing.assert_allclose(large.median, 1e6 * small.median, rtol=1e-4)
    np.testing.assert_allclose(large.quantile(0.9), 1e6 * small.quantile(0.9), rtol=1e-4)


def test_rows_learned_later_are_rows_learned_at_once():
    y = seasonal()
    some = sg.Forecaster(y, HOURS, seasons=[24.0], log=False, trend=False)
    again = some.fresh()
    again.learn(y[:100], HOURS[:100])
    again.learn(y[100:], HOURS[100:])
    np.testing.assert_allclose(again.forecast(30).median, some.forecast(30).median, rtol=1e-9)


def test_gaps_and_dates_are_taken_as_they_are():
    y = seasonal()
    times = np.datetime64("2026-01-05") + HOURS.astype("timedelta64[h]")
    keep = np.ones(len(y), dtype=bool)
    keep[[50, 51, 52, 53, 120]] = False
    y[200] = np.nan
    forecaster = sg.Forecaster(y[keep], times[keep], seasons=["1d"], log=False, trend=False)
    ahead = forecaster.forecast(times[-1] + np.arange(1, 25).astype("timedelta64[h]"))
    assert list(ahead.components)[-1] == "day"
    assert np.abs(ahead.median - seasonal(noise=0.0)[:24]).max() < 1.5


def test_what_is_no_series_is_refused():
    for y, settings, message in (
        (np.ones((30, 2)), {}, "y must be one series"),
        ([1.0, 2.0, np.inf, 3.0], {}, "Y has inf in row 2"),
        (np.arange(30.0) - 5, {"log": True}, "log=True needs targets above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            sg.Forecaster(y, **settings)


def test_issued_forecasts_are_judged_by_the_targets_at_their_times():
    y, rng = seasonal(), np.random.default_rng(7)
    missing = np.flatnonzero(rng.random(len(y)) < 0.2)
    missing = missing[missing >= 400]
    first = sg.Forecaster(y[:400], HOURS[:400], seasons=[24.0], log=False, trend=False)
    first.calibrate(y[:400], HOURS[:400], steps=8)
    plain = first.fresh()
    plain.learn(y[:400], HOURS[:400])
    plain.spread = first.spread
    first.spread = copy.deepcopy(first.spread)
    judged = []
    for t in range(400, len(y)):
        ahead = first.issue_forecast(8)
        if not judged or ahead.times[0] - judged[-1].times[0] >= 2:  # a quarter of its length after the last one
            judged.append(ahead)
        if t not in missing:
            first.learn(y[t : t + 1], HOURS[t : t + 1])
    assert len(judged) < 40
    for ahead in judged:
        rows = ahead.times.astype(int)
        known = (rows < len(y)) & ~np.isin(rows, missing)
        plain.judge(ahead, np.where(known, y[np.minimum(rows, len(y) - 1)], np.nan))
    steps = np.arange(1.0, 9.0)
    for part in (0.3, 0.8, 0.95):
        np.testing.assert_allclose(first.spread.size(steps, part), plain.spread.size(steps, part), rtol=1e-9)


SHORT = {"seasons": [24.0], "log": False, "trend": False}
DATES = np.datetime64("2026-01-05T00") + HOURS[:120].astype("timedelta64[h]")


def test_rows_without_a_time_follow_at_the_usual_distance():
    y = seasonal()[:120]
    timed, untimed = (sg.Forecaster(y[:96], DATES[:96], seasons=["1d"], log=False, trend=False) for _ in range(2))
    timed.learn(y[96:], DATES[96:])
    untimed.learn(y[96:100])
    untimed.learn(y[100:])
    np.testing.assert_allclose(untimed.forecast(5).times, timed.forecast(5).times, rtol=0)
    np.testing.assert_allclose(untimed.forecast(5).median, timed.forecast(5).median, rtol=1e-8)
    again = timed.fresh()
    again.learn(y)
    assert again.forecast(1).times == pytest.approx(120 * 3600.0)
    np.testing.assert_allclose(timed.calibrate(y, steps=3), timed.calibrate(y, DATES, steps=3), rtol=1e-6)


@pytest.mark.parametrize("settings", [SHORT, {}])
def test_of_rows_of_the_same_time_the_last_counts(settings):
    y = seasonal()[:120]
    twice = np.column_stack([y + 100.0, y]).ravel()
    once, repeated = (
        sg.Forecaster(y, HOURS[:120], **settings),
        sg.Forecaster(twice, np.repeat(HOURS[:120], 2), **settings),
    )
    assert (repeated.step, repeated.repeated, once.repeated) == (1.0, 120, 0)
    assert repeated.chosen.structure == once.chosen.structure
    np.testing.assert_allclose(repeated.forecast(3).times, [120.0, 121.0, 122.0], rtol=0)
    np.testing.assert_allclose(repeated.forecast(3).median, once.forecast(3).median, rtol=1e-8)
    repeated.learn([70.0, 60.0, 50.0], [119.0, 120.0, 120.0])  # the first repeats a time that was learned
    once.learn([50.0], [120.0])
    assert repeated.repeated == 122
    np.testing.assert_allclose(repeated.forecast(3).median, once.forecast(3).median, rtol=1e-8)


def test_a_kernel_is_chosen_where_times_repeat_or_one_is_wrong():
    y = seasonal()[:300]
    assert choose(np.repeat(y, 2), np.repeat(HOURS[:300], 2), log=False, trend=False).structure.seasons == (24.0,)
    seconds = np.append(np.arange(149.0), 82 * 31557600.0)  # a grid of them would have 2.6e9 points
    series = Series(seconds, y[:150, None], 150)
    assert candidates(series)[0] == 24.0
    bursts = np.cumsum(np.where(np.arange(150) % 5 == 0, 3600.0, 1e-3))
    assert candidates(Series(bursts, y[:150, None], 150)) == []


def test_a_few_rows_are_forecast_and_calibrated_by_nothing():
    for y, time in (([3.0], None), ([3.0, 4.0], None), ([3.0, 4.0, 5.0], [7.0, 7.0, 7.0])):
        forecaster = sg.Forecaster(y, time)
        assert forecaster.calibrate(y, time, steps=2).shape == (0, 2)
        assert np.isfinite(forecaster.forecast(2).quantile(0.9)).all()


@pytest.mark.parametrize(("fill_value", "row"), [(-9999.0, 3), (3.4e38, 0)])
def test_fill_values_count_as_missing_and_are_counted(fill_value, row):
    y = seasonal()[:120]
    missing, filled = y.copy(), y.copy()
    missing[row], filled[row] = np.nan, fill_value
    expected, found = (sg.Forecaster(one, **SHORT) for one in (missing, filled))
    assert (found.fill_values, expected.fill_values) == (1, 0)
    np.testing.assert_array_equal(found.targets, missing)
    np.testing.assert_allclose(found.forecast(12).quantile(0.9), expected.forecast(12).quantile(0.9), rtol=1e-8)
    parts = (one.calibrate(of, steps=4) for one, of in ((expected, missing), (found, filled)))
    np.testing.assert_allclose(*parts, rtol=1e-8)
    for one, of in ((expected, [50.0, np.nan, 51.0]), (found, [50.0, fill_value, 51.0])):
        one.learn(of)
    assert found.fill_values == 2
    np.testing.assert_allclose(found.forecast(12).median, expected.forecast(12).median, rtol=1e-8)
    again = found.fresh()
    again.learn(filled)
    assert again.fill_values == 1
    assert np.isnan(again.targets[row])


def test_without_screening_every_target_is_believed(capsys):
    y = seasonal()[:120]
    y[60] = -9999.0
    believed = sg.Forecaster(y, screen=False, **SHORT)
    assert believed.fill_values == 0
    assert believed.chosen.center == pytest.approx(y.mean())
    sg.Forecaster(y, np.maximum(HOURS[:120] - 1, 0), verbose=True, **SHORT)
    told = capsys.readouterr().err
    assert "Forecaster: targets that look like fill values, which count as missing: 1\n" in told
    assert "Forecaster: rows that repeat a time, the last of which counts: 1\n" in told


def test_a_call_that_is_refused_changes_nothing():
    y = np.exp(np.random.default_rng(0).standard_normal(60))
    forecaster = sg.Forecaster(y, seasons=[], log=True, trend=False)
    before = forecaster.forecast(3).median
    with pytest.raises(ValueError, match="a target is not above 0"):
        forecaster.learn([1.0, -1e9, 0.0])
    with pytest.raises(ValueError, match="time is missing or goes backwards in row 1"):
        forecaster.learn([1.0, 1.0], [61.0, 60.0])
    assert forecaster.fill_values == 0
    np.testing.assert_array_equal(forecaster.forecast(3).median, before)


def test_the_dates_of_a_series_of_pandas_are_its_times():
    pd = pytest.importorskip("pandas")
    y, index = seasonal()[:120], pd.DatetimeIndex(DATES)
    named = {"seasons": ["1d"], "log": False, "trend": False}
    expected = sg.Forecaster(y[:100], DATES[:100], **named)
    expected.learn(y[100:], DATES[100:])
    for dates in (index, index.tz_localize("UTC").tz_convert("Europe/Berlin")):
        found = sg.Forecaster(pd.Series(y[:100], index=dates[:100]), **named)
        found.learn(pd.Series(y[100:], index=dates[100:]))
        np.testing.assert_array_equal(found.forecast(3).times, expected.forecast(3).times)
        np.testing.assert_allclose(found.forecast(3).median, expected.forecast(3).median, rtol=1e-8)
        assert list(found.forecast(3).components)[-1] == "day"
    given = sg.Forecaster(pd.Series(y, index=index), HOURS[:120], **SHORT)
    other = sg.Forecaster(pd.Series(y, index=np.arange(120) + 7), **SHORT)
    for one in (given, other):
        np.testing.assert_array_equal(one.forecast(1).times, [120.0])
    with pytest.raises(ValueError, match="time is missing or goes backwards in row 1; sort the rows by time"):
        sg.Forecaster(pd.Series(y, index=index[::-1]), **named)

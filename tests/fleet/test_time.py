"""A fleet of processes over time alone, against single ones."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet.cpu import CpuEngine

SIZE = 4


def build():
    return sg.TimeGP(sg.Matern(1.5, lengthscale=5.0) + sg.Periodic(7.0), noise=0.1)


def stream(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((rows, SIZE))
    Y[rng.uniform(size=Y.shape) < 0.1] = np.nan
    times = np.cumsum(rng.choice([1.0, 1.0, 0.3], (rows, SIZE)), axis=0)
    times[30:] = times[30] + np.arange(rows - 30.0)[:, None]  # regular rows
    return np.empty((rows, SIZE, 0)), Y, times


def assert_same(a, b):
    for part in ("mean", "variance", "noise"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


def test_a_fleet_over_time_equals_single_models_bit_for_bit():
    X, Y, times = stream()
    fleet, models = sg.Fleet(build(), size=SIZE, threads=2), [build() for _ in range(SIZE)]
    p = fleet.track(X[:40], Y[:40], time=times[:40])
    for i, model in enumerate(models):
        assert_same(p[:, i], model.track(X[:40, i], Y[:40, i], time=times[:40, i]))
    for t in range(40, 60):
        p = fleet.track(X[t], Y[t], noise=0.2, time=times[t])
        for i, model in enumerate(models):
            assert_same(p[i], model.track(X[t, i : i + 1], Y[t, i : i + 1], noise=0.2, time=times[t, i : i + 1])[0])
    assert isinstance(fleet._engine, CpuEngine)
    later = times[-1] + np.array([0.0, 0.5, 3.0, 40.0])
    p = fleet.predict_many(X[0], time=later)
    for i, model in enumerate(models):
        assert_same(p[i], model.predict_one(time=later[i]))
        assert fleet.model(i).to_bytes() == model.to_bytes()
        assert p.components["7"].mean[i] == model.predict_one(time=later[i]).components["7"].mean
    assert (fleet.rows_seen == 60).all()
    assert fleet.broken().size == 0


def test_rows_without_times_come_one_after_the_last():
    X, Y, _ = stream()
    fleet, model = sg.Fleet(build(), size=SIZE), build()
    fleet.learn_many(X, Y)
    model.learn_many(X[:, 2], Y[:, 2])
    assert fleet.model(2).to_bytes() == model.to_bytes()
    assert fleet.predict_many(X[0]).mean[2] == model.predict_one().mean


def test_each_model_of_a_fleet_may_have_its_own_noise():
    X, Y, times = stream()
    noise = np.array([0.01, 0.1, 1.0, 3.0])
    fleet = sg.Fleet(build(), size=SIZE, noise=noise)
    p = fleet.track(X, Y, time=times)
    for i in range(SIZE):
        assert_same(p[:, i], build().replaced(noise=noise[i]).track(X[:, i], Y[:, i], time=times[:, i]))


def test_a_stopped_fleet_over_time_resumes_bit_for_bit(tmp_path):
    X, Y, times = stream()
    fleet = sg.Fleet(build(), size=SIZE)
    fleet.learn_many(X[:30], Y[:30], time=times[:30])
    fleet.save(tmp_path / "fleet.sgp")
    resumed = sg.load(tmp_path / "fleet.sgp")
    for one in (fleet, resumed):
        one.learn_many(X[30:], Y[30:], time=times[30:])
    assert fleet.to_bytes() == resumed.to_bytes()


def test_times_that_go_back_are_refused_and_change_nothing():
    X, _, times = stream()
    fleet = sg.Fleet(build(), size=SIZE)
    fleet.learn_many(X[:5], np.ones((5, SIZE)), time=times[:5])
    before = fleet.to_bytes()
    back = times[5].copy()
    back[2] = times[0, 2]
    for call in (lambda: fleet.learn_many(X[0], np.ones(SIZE), time=back), lambda: fleet.predict_many(X[0], time=back)):
        with pytest.raises(ValueError, match="model 2: time goes backwards"):
            call()
    assert fleet.to_bytes() == before

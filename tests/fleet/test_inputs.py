"""Bad input gets a sentence and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.fleet.recipes import D, dense

NAN, INF = np.nan, np.inf


def started(recipe=None):
    fleet = sg.Fleet(recipe or sg.KRLST(capacity=4), size=3)
    fleet.track(*dense(np.random.default_rng(0), 6, 3))
    return fleet


def filled(shape, at=None, value=0.0):
    array = np.ones(shape)
    if at is not None:
        array[at] = value
    return array


X2, X3, Y1, Y2 = (3, D), (2, 3, D), (3,), (2, 3)

BAD = [
    ((filled((2, 4, D)), filled((2, 4))), ValueError, r"shape \(rows, 3, d\), or \(3, d\).*got \(2, 4, 2\)"),
    ((filled((4,)), filled((4,))), ValueError, r"shape \(rows, 3, d\)"),
    ((filled((2, 3, 5)), filled(Y2)), ValueError, "X must have 2 columns, as the first rows had; got 5"),
    ((filled(X3), filled((2, 2))), ValueError, r"one target for each row of X: shape \(2, 3\) or \(2, 3, p\)"),
    ((filled(X2), filled((4,))), ValueError, r"shape \(3,\) or \(3, p\); got \(4,\)"),
    ((filled(X3), filled((2, 3, 2))), ValueError, "Y must have 1 targets in each row"),
    ((filled(X3, (1, 2, 0), NAN), filled(Y2)), ValueError, "model 2: X has NaN or inf in row 1"),
    ((filled(X2, (1, 0), INF), filled(Y1)), ValueError, "model 1: x has NaN or inf: inputs"),
    ((filled(X3), filled(Y2, (0, 1), -INF)), ValueError, "model 1: Y has inf in row 0"),
    ((filled(X3, (0, 0, 0), 1e200), filled(Y2)), ValueError, "model 0: X has a number beyond 1e"),
    (([["a", "b"]] * 3, filled(Y1)), TypeError, "X must be numbers; got text"),
    ((filled((2, D)), filled((3,)), [0, 1]), ValueError, r"shape \(2,\) or \(2, p\); got \(3,\)"),
    ((filled((3, D)), filled((3,)), [0, 1]), ValueError, "one row for each of the 2 ids"),
    ((filled((2, D)), filled((2,)), [0, 3]), IndexError, "the models 0 to 2; got the id 3"),
    ((filled((2, D)), filled((2,)), [0, -1]), IndexError, "got the id -1"),
    ((filled((2, D)), filled((2,)), [0.0, 1.0]), TypeError, "ids must be whole numbers"),
    ((filled((2, D)), filled((2,)), [[0, 1]]), TypeError, "ids must be whole numbers"),
    ((filled((2, D)), filled((2,)), [True, False]), TypeError, "ids must be whole numbers"),
    ((filled((3, D), (2, 1), NAN), filled((3,)), [2, 0, 2]), ValueError, "model 2: X has NaN or inf in row 1"),
]


def test_rows_that_cannot_be_taken():
    fleet = started()
    before = fleet.to_bytes()
    for (X, Y, *ids), error, reason in BAD:
        some = {"ids": ids[0]} if ids else {}
        for call in (fleet.track, fleet.learn_many):
            with pytest.raises(error, match=reason):
                call(X, Y, **some)
        assert fleet.to_bytes() == before, reason


def test_only_track_goes_without_targets():
    fleet = started()
    with pytest.raises(TypeError, match="learn_many needs targets"):
        fleet.learn_many(filled(X2), None)
    assert fleet.track(filled((1, D)), ids=[1]).mean.shape == (1,)


def test_a_refused_first_call_leaves_a_fleet_without_rows():
    fleet = sg.Fleet(sg.SOGP(noise=[0.1, 0.2], outputs="separate"), size=3)
    before = fleet.to_bytes()
    for rows in ((filled((3, 1), 0, NAN), filled(Y1)), (filled((2, 3, D)), filled((2, 3, 3)))):
        with pytest.raises(ValueError, match=r"model 0: x has NaN|noise has 2 values, but there are 3 outputs"):
            fleet.track(*rows)
        assert fleet.to_bytes() == before


def test_no_rows_are_no_rows():
    fleet = started()
    before = fleet.to_bytes()
    assert fleet.track(np.zeros((0, 3, D)), np.zeros((0, 3))).mean.shape == (0, 3)
    assert fleet.track(np.zeros((0, D)), [], ids=[]).mean.shape == (0,)
    assert fleet.predict_many(np.zeros((0, D)), ids=[]).std.shape == (0,)
    assert fleet.learn_many(np.zeros((0, D)), [], ids=[]) is None
    assert fleet.to_bytes() == before


def test_classes_and_counts():
    fleet = sg.Fleet(sg.SOGP(likelihood=sg.Probit(), capacity=4), size=3)
    fleet.learn_many(filled(X2), [0.0, 1.0, NAN])
    with pytest.raises(ValueError, match=r"model 1: Y has 0\.5 in row 1: with Probit"):
        fleet.learn_many(filled((3, D)), [1.0, 0.0, 0.5], ids=[1, 0, 1])
    assert isinstance(fleet.predict_many(filled(X2)), sg.ClassPrediction)


def test_partly_missing_targets_of_shared_outputs():
    fleet = sg.Fleet(sg.SOGP(capacity=4), size=3)
    with pytest.raises(ValueError, match="model 1: some targets of a row are missing"):
        fleet.learn_many(filled(X2), filled((3, 2), (1, 0), NAN))


def test_noise_and_time_that_cannot_be():
    fleet = started()
    before = fleet.to_bytes()
    for said, reason in (
        ({"noise": -1.0}, "model 0: noise must be finite and above 0 in row 0"),
        (
            {"noise": filled((3, 2))},
            r"one variance, or one for each target: shape \(2, 3\); got \(3, 2\)",
        ),
        ({"time": np.zeros(3)}, r"time must be one time for each row: shape \(2, 3\); got \(3,\)"),
    ):
        with pytest.raises(ValueError, match=reason):
            fleet.learn_many(filled(X3), filled(Y2), **said)
    assert fleet.to_bytes() == before


def test_times_that_go_back():
    fleet = sg.Fleet(sg.KRLST(capacity=4, half_life=2.0), size=3)
    fleet.learn_many(filled(X2), filled(Y1), time=[5.0, 6.0, 7.0])
    before = fleet.to_bytes()
    for time, reason in (
        ([6.0, 7.0, 6.5], "model 2: time goes backwards: 6.5 after 7"),
        ([6.0, NAN, 8.0], "model 1: time is missing or not finite"),
    ):
        with pytest.raises(ValueError, match=reason):
            fleet.learn_many(filled(X2), filled(Y1), time=time)
    with pytest.raises(ValueError, match="model 1: time goes backwards in row 1: 8 after 9"):
        fleet.learn_many(filled((3, D)), filled((3,)), ids=[1, 0, 1], time=[9.0, 8.0, 8.0])
    with pytest.raises(ValueError, match="model 0: KRLST has a half_life"):
        fleet.learn_many(filled(X2), filled(Y1))
    assert fleet.to_bytes() == before
    fleet.learn_many(filled(X2), [NAN, 1.0, 1.0], time=[0.0, 8.0, 8.0])  # no target: the time does not count


@pytest.mark.parametrize(
    ("settings", "error", "reason"),
    [
        ({"model": "KRLST"}, TypeError, "model must be a stream model such as KRLST"),
        (
            {"model": sg.Auto(), "device": "cuda"},
            ValueError,
            "rows are compiled, bare or within wrappers such as Standardize; got Auto",
        ),
        ({"size": -1}, ValueError, "size must be a whole number of at least 0"),
        ({"size": 2.5}, TypeError, "size must be a whole number"),
        ({"threads": 0}, ValueError, "threads must be a whole number of at least 1"),
        ({"device": "gpu"}, ValueError, "device must be one of 'cpu', 'cuda'"),
        ({"precision": "half"}, ValueError, "precision must be one of"),
        ({"precision": "single"}, ValueError, 'precision="single" is for device="cuda"'),
    ],
)
def test_settings_that_cannot_be(settings, error, reason):
    with pytest.raises(error, match=reason):
        sg.Fleet(**({"model": sg.KRLST(), "size": 2} | settings))


def test_a_recipe_that_has_learned_is_refused():
    model = sg.KRLST()
    model.learn_one(1.0, 2.0)
    with pytest.raises(ValueError, match=r"must have learned nothing.*fleet\.replace"):
        sg.Fleet(model, size=2)


@pytest.mark.parametrize(("i", "error"), [(3, IndexError), (-1, IndexError), (1.0, TypeError), ("a", TypeError)])
def test_models_that_do_not_exist(i, error):
    fleet = started()
    for call in (fleet.model, fleet.remove, lambda i: fleet.replace(i, sg.KRLST(capacity=4))):
        with pytest.raises(error, match="ids must be whole numbers|the models 0 to 2"):
            call(i)
    with pytest.raises(TypeError, match="n must be a whole number"):
        fleet.add(1.5)
    with pytest.raises(IndexError, match="the fleet has no models"):
        sg.Fleet(sg.KRLST(), size=0).model(0)

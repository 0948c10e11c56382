from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import oracles

pytestmark = pytest.mark.interpreted

rng = np.random.default_rng(2)


def reservoir_states(X, W, Win, bias, Wb, Y, retention):
    """[soh2014] Eq. (1), row by row."""
    s, y, states = np.zeros(len(W)), np.zeros(Wb.shape[1]), []
    for x, target in zip(X, Y, strict=True):
        s = (1 - retention) * np.tanh(W @ s + Win @ x + bias + Wb @ y) + retention * s
        states.append(s)
        y = target
    return np.array(states)


def test_window_hands_over_the_last_inputs_oldest_first():
    X = rng.normal(size=(7, 2))
    model = sg.SOGP(capacity=10, novelty=0, depth=3)
    model.learn_many(X, X[:, 0])
    np.testing.assert_array_equal(model.basis, oracles.windows(X, 3))


@pytest.mark.parametrize("retention", [0.0, 0.7])
def test_reservoir_equals_its_equation_with_feedback_and_augmented_state(retention):
    units, d, p, n = 6, 2, 2, 12
    W, Win, Wb = rng.normal(size=(units, units)), rng.normal(size=(units, d)), rng.normal(size=(units, p))
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(n, p))
    reservoir = sg.Reservoir(units, retention=retention, recurrent=W, input=Win, feedback=Wb)
    model = sg.OnlineGP(sg.Basis(), memory=reservoir, budget=sg.Budget(20, novelty=0))
    model.learn_many(X, Y)
    expected = reservoir_states(X, W, Win, np.zeros(units), Wb, Y, retention)
    np.testing.assert_allclose(model.basis, np.hstack([expected, X]), atol=1e-14)


def test_reservoir_without_augmentation_hands_over_the_state_alone():
    model = sg.OnlineGP(sg.Basis(), memory=sg.Reservoir(5, augment=False), budget=sg.Budget(20, novelty=0))
    model.learn_many(rng.normal(size=(4, 3)), rng.normal(size=4))
    assert model.basis.shape == (4, 5)


def test_feedback_is_the_models_own_mean_where_the_target_was_missing():
    units = 4
    W, Win, Wb = rng.normal(size=(units, units)), rng.normal(size=(units, 1)), rng.normal(size=(units, 1))
    X, Y = rng.normal(size=(10, 1)), rng.normal(size=10)
    Y[5] = np.nan
    model = sg.OnlineGP(
        sg.Basis(), memory=sg.Reservoir(units, recurrent=W, input=Win, feedback=Wb), budget=sg.Budget(20, novelty=0)
    )
    p = model.track(X, Y)
    fed = np.where(np.isnan(Y), p.mean, Y)
    expected = reservoir_states(X, W, Win, np.zeros(units), Wb, fed[:, None], 0.0)
    np.testing.assert_allclose(model.basis[:, :units], np.delete(expected, 5, axis=0), atol=1e-13)


def test_spectral_radius_is_the_true_one_of_the_non_symmetric_matrix():
    W = sg.Reservoir(40, spectral_radius=0.8, connectivity=0.2, seed=3).weights(2, 1).recurrent
    assert np.max(np.abs(np.linalg.eigvals(W))) == pytest.approx(0.8, abs=1e-12)
    assert not np.allclose(W, W.T)
    # Neither the largest singular value nor the radius of the symmetric part.
    assert np.linalg.norm(W, 2) > 0.85
    assert abs(np.max(np.abs(np.linalg.eigvalsh((W + W.T) / 2))) - 0.8) > 1e-3


def test_connectivity_scales_and_seed_shape_the_weights():
    one, two = sg.Reservoir(60, connectivity=0.1, seed=1), sg.Reservoir(60, connectivity=0.1, seed=2)
    W = one.weights(2, 1)
    assert 0.05 < np.mean(W.recurrent != 0) < 0.15
    assert np.max(np.abs(sg.Reservoir(60, input_scale=0.3).weights(2, 1).input)) <= 0.3
    assert np.max(np.abs(sg.Reservoir(60, bias_scale=0.0).weights(2, 1).bias)) == 0.0
    np.testing.assert_array_equal(W.recurrent, one.weights(2, 1).recurrent)
    assert not np.array_equal(W.recurrent, two.weights(2, 1).recurrent)


def test_a_given_matrix_says_how_many_units_there_are():
    W, W_i, W_b = rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), rng.normal(size=(4, 1))
    for given in ({"recurrent": W}, {"input": W_i}, {"feedback": W_b}, {"recurrent": W, "input": W_i, "feedback": W_b}):
        reservoir = sg.Reservoir(**given)
        assert reservoir.units == 4
        assert reservoir.width(2) == 6
        weights = reservoir.weights(2, 1)
        assert [array.shape for array in weights] == [(4, 4), (4, 2), (4,), (4, 1)]
        for name, matrix in given.items():
            np.testing.assert_array_equal(getattr(weights, name), matrix)
    assert sg.Reservoir().units == sg.Reservoir(feedback=0.3).units == 100
    assert sg.Reservoir(4, recurrent=W).units == 4


@pytest.mark.parametrize("memory", [sg.Window(3), sg.Reservoir(5, feedback=0.5)])
def test_reset_memory_begins_a_new_sequence_and_keeps_what_was_learned(memory):
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=8)
    model = sg.OnlineGP(sg.Basis(), memory=memory, budget=sg.Budget(20, novelty=0))
    model.learn_many(X, Y)
    basis = model.basis
    model.reset_memory()
    np.testing.assert_array_equal(model.basis, basis)
    fresh = sg.OnlineGP(sg.Basis(), memory=memory, budget=sg.Budget(20, novelty=0))
    first = rng.normal(size=2)
    fresh.learn_one(first, Y[0])
    model.learn_one(first, Y[0])
    np.testing.assert_array_equal(model.basis[-1], fresh.basis[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sg.Window(0), "depth must be a whole number of at least 1; got 0"),
        (lambda: sg.Window(1.5), "depth must be a whole number of at least 1; got 1.5"),
        (lambda: sg.Reservoir(5, retention=1.0), "retention must be at least 0 and below 1"),
        (lambda: sg.Reservoir(5, connectivity=0.0), "connectivity must be a finite number above 0 and at most 1"),
        (
            lambda: sg.Reservoir(5, recurrent=np.eye(4)),
            r"units is 5, but recurrent has shape \(4, 4\): leave units out, or give a \(5, 5\) matrix",
        ),
        (lambda: sg.Reservoir(recurrent=np.ones((4, 3))), r"recurrent must be square, \(units, units\); got \(4, 3\)"),
        (lambda: sg.Reservoir(recurrent=np.eye(4), input=np.ones((5, 2))), "input must have 4 rows, one for each unit"),
        (lambda: sg.Reservoir(5, input=np.ones((4, 2))), "input must have 5 rows, one for each unit"),
        (lambda: sg.Reservoir(5, feedback=np.ones((4, 1))), "feedback must have 5 rows, one for each unit"),
        (lambda: sg.Reservoir(5, recurrent=np.full((5, 5), np.nan)), "recurrent must hold finite numbers only"),
        (
            lambda: sg.Reservoir(5, recurrent="random"),
            r"recurrent must be an array of numbers of shape \(units, units\)",
        ),
        (lambda: sg.Reservoir(5, input=np.ones((5, 2))).weights(3, 1), "input has 2 columns, but the rows have 3"),
        (lambda: sg.Reservoir(5, feedback=np.ones((5, 2))).weights(3, 1), "feedback has 2 columns"),
        (lambda: sg.OnlineGP(sg.Basis(), memory=3), r"memory must be, for example, Window\(3\)"),
    ],
)
def test_bad_memories_are_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()

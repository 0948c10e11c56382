"""Scores against their definitions, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import streamgp as sg
from streamgp import evaluate

Y = np.array([1.0, 2.0, 4.0, 7.0])
MEAN = np.array([1.5, 2.0, 3.0, 9.0])


def test_errors_are_those_of_the_definitions():
    assert evaluate.rmse(Y, MEAN) == pytest.approx(math.sqrt((0.25 + 0 + 1 + 4) / 4), rel=1e-15)
    assert evaluate.mnae(Y, MEAN) == pytest.approx((0.5 + 0 + 1 + 2) / 4 / Y.std(), rel=1e-15)
    assert evaluate.nmse(Y, MEAN) == pytest.approx(5.25 / 4 / Y.var(), rel=1e-15)


def test_nmse_averages_over_outputs():
    both = np.column_stack([Y, 10 * Y[::-1]])
    means = np.column_stack([MEAN, 10 * Y[::-1]])
    assert evaluate.nmse(both, means) == pytest.approx(0.5 * 5.25 / 4 / Y.var(), rel=1e-15)


def test_missing_targets_do_not_count():
    y, mean = np.append(Y, np.nan), np.append(MEAN, 0.0)
    p = sg.Prediction(mean, np.full(5, 0.5), np.full(5, 0.5))
    low, high = p.interval(0.9)
    assert evaluate.rmse(y, mean) == evaluate.rmse(Y, MEAN)
    assert evaluate.mnae(y, mean) == evaluate.mnae(Y, MEAN)
    assert evaluate.coverage(y, low, high) == evaluate.coverage(Y, low[:4], high[:4]) == 0.75
    assert evaluate.interval_score(y, low, high, 0.9) == pytest.approx(
        evaluate.interval_score(Y, low[:4], high[:4], 0.9), rel=1e-15
    )
    assert evaluate.nlpd(y, p) == pytest.approx(evaluate.nlpd(Y, p[:4]), rel=1e-15)


def test_a_prediction_that_is_not_a_number_is_not_forgiven():
    mean = np.append(MEAN[:3], np.nan)
    assert math.isnan(evaluate.rmse(Y, mean))
    assert math.isnan(evaluate.mnae(Y, mean))


def test_interval_score_is_width_plus_penalty():
    assert evaluate.interval_score([3.0, 0.0], [1.0, 1.0], [2.0, 2.0], 0.8) == pytest.approx((1 + 10 * 1.0) * 1.0)


def test_pit_is_the_predictive_distribution_function():
    p = sg.Prediction(np.array([0.0, 1.0]), np.array([0.75, 3.0]), np.array([0.25, 1.0]))
    expected = [0.5 * (1 + math.erf(1.0 / math.sqrt(2))), 0.5]
    assert evaluate.pit([1.0, 1.0], p) == pytest.approx(expected, rel=1e-14)

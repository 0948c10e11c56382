"""A scalar is a row when there is one input."""

from __future__ import annotations

import numpy as np

import streamgp as sg


def test_scalars_are_rows_when_there_is_one_input():
    x, y = np.linspace(0, 3, 30), np.sin(np.linspace(0, 3, 30))
    one, two, three = sg.SOGP(), sg.SOGP(), sg.SOGP()
    one.learn_many(x, y)
    two.learn_many(x[:, None], y)
    for a, b in zip(x, y, strict=True):
        three.learn_one(float(a), float(b))
    assert one.to_bytes() == two.to_bytes() == three.to_bytes()
    assert one.predict_one(1.0).mean == two.predict_one([1.0]).mean


def test_targets_of_one_number_in_a_list_give_arrays_of_one():
    model = sg.SOGP()
    model.learn_one([1.0, 2.0], [3.0])
    assert model.predict_one([1.0, 2.0]).mean.shape == (1,)
    assert model.predict_many([[1.0, 2.0]]).mean.shape == (1, 1)


def test_many_outputs_of_few_weights():
    model = sg.RecursiveGP([[0.0], [1.0]])
    model.learn_many([[0.1], [0.5]], np.ones((2, 7)))
    assert model.predict_one(0.3).mean.shape == (7,)

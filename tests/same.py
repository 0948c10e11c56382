"""Whether two predictions say the same."""

from __future__ import annotations

import numpy as np

import streamgp as sg


def assert_same(p, q):
    """Two predictions of one kind, bit for bit; tickets are numbered by whoever issues them."""
    assert type(p) is type(q)
    assert p.law == q.law
    assert vars(p).keys() == vars(q).keys()
    for name, mine in vars(p).items():
        theirs = vars(q)[name]
        if isinstance(mine, sg.Prediction):
            assert_same(mine, theirs)
        elif isinstance(mine, dict):
            assert mine.keys() == theirs.keys()
            for part, its in mine.items():
                assert_same(its, theirs[part])
        elif name != "ticket":
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


def assert_close(p, q):
    """Two predictions of one kind, to rounding."""
    assert type(p) is type(q)
    for name in ("mean", "variance", "noise"):
        np.testing.assert_allclose(getattr(p, name), getattr(q, name), rtol=1e-8, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(p.interval(), q.interval(), rtol=1e-8, atol=1e-8)

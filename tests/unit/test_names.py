"""What ``import streamgp as sg`` shows, and where names are that have moved."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp import names


def test_the_namespace_shows_public_names_only():
    assert dir(sg) == sorted([*names.MODULES, "__version__"])
    assert not {"Any", "TYPE_CHECKING", "arrays", "compiled", "annotations"} & set(dir(sg))
    assert {"Auto", "Fleet", "batch", "data", "filters", "load", "tune"} <= set(dir(sg))
    for name in dir(sg):
        assert getattr(sg, name) is not None


@pytest.mark.parametrize("name", sorted(names.MOVED))
def test_a_name_that_has_moved_is_found_and_tells_where_it_is_now(name):
    place = names.MOVED[name].removeprefix("streamgp.")
    with pytest.warns(FutureWarning, match=rf"sg\.{name} has moved: write sg\.{place}\.{name}\."):
        kind = getattr(sg, name)
    assert kind is getattr(getattr(sg, place), name)
    assert name not in dir(sg)


def test_snapshots_name_models_that_have_moved():
    model = sg.filters.QKLMS()
    model.learn_many(np.arange(5.0), np.arange(5.0))
    assert type(sg.from_bytes(model.to_bytes())) is sg.filters.QKLMS


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(AttributeError, match="has no attribute 'KRSLT'. Did you mean 'KRLST'?"):
        sg.KRSLT  # noqa: B018

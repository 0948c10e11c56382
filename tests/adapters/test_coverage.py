"""The intervals of the adapters' defaults: 90% means 90%, on the streams of the page for River's users."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

pytest.importorskip("sklearn")
script = pytest.importorskip("river_streams", reason="needs River")

from streamgp.adapters import river, sklearn  # noqa: E402

ROWS, SKIP = 1300, 200


def rows_of(stream):
    try:
        return list(islice(script.STREAMS[stream](), ROWS))
    except (FileNotFoundError, KeyError) as error:
        pytest.skip(str(error))


def bounds_by_river(rows):
    regressor = river.StreamRegressor()
    for x, y in rows:
        said = regressor.predict_one(x, with_interval=True)
        yield said.lower, said.upper
        regressor.learn_one(x, y)


def bounds_by_sklearn(rows):
    regressor = sklearn.StreamRegressor()
    for x, y in rows:
        x = [list(x.values())]
        if hasattr(regressor, "model_"):
            yield regressor.model_.predict_many(x)[0].interval()
        else:
            yield -np.inf, np.inf
        regressor.partial_fit(x, [y])


@pytest.mark.parametrize("bounds", [bounds_by_river, bounds_by_sklearn])
@pytest.mark.parametrize(
    "stream",
    [
        "trump_approval",
        "chick_weights",
        *(pytest.param(name, marks=pytest.mark.more) for name in ("water_flow", "bike_hourly")),
    ],
)
def test_the_default_covers_as_often_as_it_says(stream, bounds):
    rows = rows_of(stream)
    lower, upper = np.array(list(bounds(rows))).T
    y = np.array([y for _, y in rows])
    coverage = np.mean(((lower <= y) & (y <= upper))[SKIP:])
    assert 0.85 <= coverage <= 0.95

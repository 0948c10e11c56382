"""What a run needs is compiled before it starts: nothing that takes long is met later, and nothing in vain."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp import compiled
from streamgp.job import Pipeline
from streamgp.job.ahead import needed
from streamgp.tables.columns import Column, EncodedRows, Schema


@pytest.mark.parametrize("model", ["auto", "KRLST", "ISSGPR", "KLMS"])
def test_a_run_calls_what_was_compiled_ahead(model, monkeypatch):
    loaded = []
    load = compiled._is_cached
    monkeypatch.setattr(compiled, "_is_cached", lambda function: loaded.append(function) or load(function))
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    pipeline = Pipeline(schema, model=model, lags=1, settings={"warmup": 100})
    ahead = needed(model)
    assert loaded[: len(ahead)] == ahead
    del loaded[: len(ahead)]
    x = np.linspace(0, 20, 120)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).normal(size=120)
    pipeline.take(EncodedRows(x[:, None], y, None, list(range(120)), []))
    later = {function.py_func.__qualname__ for function in loaded} - {"log_densities"}
    names = {function.py_func.__qualname__ for function in ahead}
    if model == "KLMS":
        assert later - names == {"run", "predict"}
    else:
        assert later <= names
        assert names - later <= {"watch"}


def test_a_wrong_request_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "_is_cached", lambda function: pytest.fail("compiles"))
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    with pytest.raises(ValueError, match="capasity"):
        Pipeline(schema, model="KRLST", settings={"capasity": 3})

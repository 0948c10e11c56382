"""Forecasts of single series by other packages: statsforecast and skaters."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any

import numpy as np


def statsforecast(name: str, *arguments: Any, **settings: Any) -> Any:
    """A model of statsforecast. Its package imports what spreads work over clusters, its models need none of it."""
    if "statsforecast" not in sys.modules:
        spec = importlib.util.find_spec("statsforecast")
        if spec is None:
            raise ModuleNotFoundError("this rival needs statsforecast: pip install statsforecast")
        package = types.ModuleType("statsforecast")
        package.__path__ = list(spec.submodule_search_locations or [])
        sys.modules["statsforecast"] = package
    return getattr(importlib.import_module("statsforecast.models"), name)(*arguments, **settings)


def one_step_ahead(y: np.ndarray, first: int) -> dict[str, float]:
    """The mean log density of skaters for the targets from one on, each given those before it.

    As it ships, it puts sharp peaks at values that have come before ("sticky"), whose density can be as high as one
    likes; without, its densities are smooth.
    """
    from skaters import laplace

    found = {}
    for name, sticky in (("skaters", True), ("skaters, not sticky", False)):
        predict, state, ahead, total = laplace(k=1, sticky=sticky), None, None, 0.0
        for i, value in enumerate(y.tolist()):
            if i >= first:
                total += ahead[0].logpdf(value)
            ahead, state = predict(value, state)
        found[name] = total / (len(y) - first)
    return found

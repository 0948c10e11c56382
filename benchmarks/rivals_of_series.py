"""Forecasts of single series by other packages: statsforecast and skaters."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any


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

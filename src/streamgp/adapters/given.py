"""The stream model of an estimator: the one it was given, or the default."""

from __future__ import annotations

from typing import Any

from streamgp.contract.model import StreamModel
from streamgp.recipes.vanvaerenbergh2016 import KRLST
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.standardize import Standardize


def fresh(model: Any) -> StreamModel:
    """Return a model like the given one that has learned nothing; without any, one that takes unscaled data."""
    if model is not None and not isinstance(model, StreamModel):
        raise TypeError(f"model must be a stream model such as KRLST() or None; got {model!r}")
    return Calibrated(Standardize(KRLST())) if model is None else model.clone()

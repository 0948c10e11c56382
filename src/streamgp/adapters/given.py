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


def refuse_without_variance(model: StreamModel) -> None:
    """Refuse to tell a distribution where there is none."""
    if not model.has_variance:
        name = type(model).__name__
        raise ValueError(
            f"{name} has no variance, only a mean: ask for no distribution, or wrap the model in Calibrated"
        )

"""What a model knows of itself, whichever of the models within it knows it."""

from __future__ import annotations

from typing import Any

from streamgp.contract.model import StreamModel


def model_with(model: StreamModel, name: str) -> Any:
    """The first of a model and those within it that has something of this name; None: none has.

    Args:
        model: the outermost one.
        name: of what can be read of models, such as "chosen", "weights" or "upcoming".
    """
    return next((one for one in model._family() if hasattr(type(one), name)), None)


def asked(model: StreamModel, name: str) -> Any:
    """What the first of a model and those within it that has something of this name says; None: none has."""
    found = model_with(model, name)
    return None if found is None else getattr(found, name)


def uses_time(model: StreamModel) -> bool:
    """Whether a model uses the times of rows."""
    return model._needs_time or model._sees_time

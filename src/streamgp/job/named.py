"""Models by name, for inputs and targets in standard units."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from streamgp.auto.auto import Auto
from streamgp.auto.candidates import scales
from streamgp.contract.model import StreamModel
from streamgp.names import EVERYWHERE
from streamgp.recipes.naive import Naive
from streamgp.settings import nearest


def model_names() -> list[str]:
    """The models that can be asked for by name."""
    return sorted(_models())


def _models() -> dict[str, type[StreamModel]]:
    kinds = {name: getattr(importlib.import_module(module), name) for name, module in EVERYWHERE.items()}
    return {
        name: kind
        for name, kind in kinds.items()
        if inspect.isclass(kind)
        and issubclass(kind, StreamModel)
        and not issubclass(kind, Auto | Naive)
        and not inspect.isabstract(kind)
        and not kind._without_inputs
        and not {"model", "models"}.intersection(kind.setting_names())
    }


def kind_by_name(name: str) -> type[StreamModel]:
    """The class of a model; a name that none has is refused."""
    kinds = _models()
    if name not in kinds:
        names = ["auto", *sorted(kinds)]
        raise ValueError(f"there is no model {name!r}.{nearest(name, names)} Models: {', '.join(names)}")
    return kinds[name]


def model_by_name(name: str, d: int, settings: dict[str, Any]) -> StreamModel:
    """A model with these settings, otherwise its own defaults, but one lengthscale for each input or a prior's."""
    kind = kind_by_name(name)
    parameters = inspect.signature(kind).parameters
    defaults: dict[str, Any] = {}
    if "lengthscale" in parameters and "units" not in parameters:
        if any(key.startswith("kernel__") for key in settings):
            defaults["kernel"] = parameters["kernel"].default.replaced(lengthscale=scales(d))
        elif "kernel" not in settings and settings.get("prior") is None:
            defaults["lengthscale"] = scales(d)
    outer = {key: value for key, value in settings.items() if "__" not in key}
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in outer]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}: give `{missing[0]}=...`, or use it from Python")
    model = kind(**(defaults | outer))
    return model.replaced(**{key: value for key, value in settings.items() if "__" in key})

"""What auto chooses from, and models by name; all for inputs and targets in standard units."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.kernels import Kernel, LinearKernel, SquaredExponential
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.features import Linear
from streamgp.process.forgetting import Injection
from streamgp.process.likelihood import StudentT
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.gijsberts2013 import ISSGPR
from streamgp.recipes.naive import Naive
from streamgp.recipes.soh2014 import SOGP
from streamgp.recipes.vanvaerenbergh2016 import FACTOR, KRLST
from streamgp.settings import Configured, nearest
from streamgp.wrappers.wrapper import Wrapper

NOISE = 0.1  # where the search for hyperparameters starts, in variances of the target


class Candidate(NamedTuple):
    """A model that auto may take.

    Args:
        settings: the settings that users may change.
        family: candidates of one family have the same prior, and so the same hyperparameters.
        build: makes one for d inputs.
    """

    settings: tuple[str, ...]
    family: str
    build: Callable[[int], StreamModel]


def _scales(d: int) -> list[float]:
    """The distance of two rows in standard units grows with sqrt(d)."""
    return [float(np.sqrt(d))] * d


def _bent(d: int) -> Kernel:
    """Extrapolates like a straight line and bends like the squared exponential."""
    return SquaredExponential(_scales(d)) + LinearKernel()


def _settings(kind: type[Configured]) -> tuple[str, ...]:
    """What users may change: candidates have a kernel of their own, so it cannot be given in short."""
    return tuple(name for name in kind.setting_names() if name not in ("lengthscale", "variance"))


# They differ in what they hold on to: the last hundred rows, the last thousand, what is worth keeping of all, all; of
# the last thousand those that are no outliers.
CANDIDATES = {
    "fast KRLST": Candidate(
        _settings(KRLST), "kernel", lambda d: KRLST(_bent(d), capacity=100, forgetting=0.99, noise=NOISE)
    ),
    "KRLST": Candidate(
        _settings(KRLST), "kernel", lambda d: KRLST(_bent(d), capacity=200, forgetting=0.999, noise=NOISE)
    ),
    "SOGP": Candidate(_settings(SOGP), "kernel", lambda d: SOGP(_bent(d), capacity=100, noise=NOISE, adapt=SNGD())),
    "ISSGPR": Candidate(
        ISSGPR.setting_names(), "spectrum", lambda d: ISSGPR(200, lengthscale=_scales(d), noise=NOISE, adapt=SNGD())
    ),
    "robust KRLST": Candidate(
        tuple(name for name in _settings(KRLST) if name not in ("noise", "likelihood")),
        "robust kernel",
        lambda d: KRLST(_bent(d), capacity=100, forgetting=0.999, likelihood=StudentT(NOISE**0.5)),
    ),
}
ROBUST = ("robust KRLST",)  # those that only join where there are outliers
LEAST_SQUARES = (1.0, 0.999, 0.99)  # forgetting factors


def least_squares(forgetting: float) -> StreamModel:
    """A straight line through rows of which older ones count less."""
    fading = None if forgetting == 1 else Injection(forgetting)
    return OnlineGP(Linear(0.01), noise=1.0, forgetting=fading, form="cholesky")


def candidate(name: str, d: int, settings: dict[str, Any]) -> StreamModel:
    """A candidate, with those of the settings that it has."""
    entry = CANDIDATES[name]
    own = {key: value for key, value in settings.items() if key.partition("__")[0] in entry.settings}
    if own.get("half_life") is not None:  # in place of the candidate's own forgetting by rows
        own = {"forgetting": FACTOR} | own
    return entry.build(d).replaced(**own)  # type: ignore[no-any-return]


def model_names() -> list[str]:
    """The models that can be asked for by name."""
    from streamgp import api

    kinds = {name: getattr(api, name) for name in api.__all__}
    return sorted(
        name
        for name, kind in kinds.items()
        if inspect.isclass(kind)
        and issubclass(kind, StreamModel)
        and not issubclass(kind, Wrapper | Naive)
        and not inspect.isabstract(kind)
        and "models" not in kind.setting_names()
    )


def model_by_name(name: str, d: int, settings: dict[str, Any]) -> StreamModel:
    """A model with these settings, otherwise its own defaults, but one lengthscale for each input."""
    if name not in model_names():
        raise ValueError(
            f"there is no model {name!r}.{nearest(name, ['auto', *model_names()])} Models: auto, "
            f"{', '.join(model_names())}"
        )
    kind = Configured.registry[name]
    parameters = inspect.signature(kind).parameters
    defaults: dict[str, Any] = {}
    if "lengthscale" in parameters and "units" not in parameters:
        if any(key.startswith("kernel__") for key in settings):
            defaults["kernel"] = parameters["kernel"].default.replaced(lengthscale=_scales(d))
        elif "kernel" not in settings:
            defaults["lengthscale"] = _scales(d)
    outer = {key: value for key, value in settings.items() if "__" not in key}
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in outer]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}: give --set {missing[0]}=..., or use it from Python")
    model: StreamModel = kind(**(defaults | outer))  # type: ignore[assignment]
    return model.replaced(**{key: value for key, value in settings.items() if "__" in key})  # type: ignore[no-any-return]

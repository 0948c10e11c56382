"""Settings that several recipes have, in groups, and the parts that they describe: ``OESGP(units=50)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from streamgp.kernels.temporal import BesideInputs
from streamgp.process.likelihood import DEFAULT_NOISE, LikelihoodSetting
from streamgp.process.mean import MeanSetting
from streamgp.process.memory import Reservoir
from streamgp.process.onlinegp import Adapt
from streamgp.settings import Configured
from streamgp.vocabulary import (
    Connectivity,
    Feedback,
    InputScale,
    Noise,
    Outputs,
    Retention,
    Seed,
    SpectralRadius,
    Units,
)


class Targets(TypedDict, total=False):
    """How targets come about."""

    noise: Annotated[Noise, DEFAULT_NOISE]
    likelihood: LikelihoodSetting
    outputs: Annotated[Outputs, "shared"]
    time: BesideInputs
    mean: MeanSetting


class Observed(Targets, total=False):
    """The same, and whether hyperparameters follow them."""

    adapt: Adapt


class EchoState(TypedDict, total=False):
    """A reservoir; those of Reservoir(100)."""

    units: Annotated[Units, 100]
    spectral_radius: Annotated[SpectralRadius, 0.9]
    retention: Annotated[Retention, 0.0]
    connectivity: Annotated[Connectivity, 0.1]
    input_scale: Annotated[InputScale, 1.0]
    feedback: Feedback
    seed: Annotated[Seed, 0]


def those_of(kind: type[Configured], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a part, or the process, has by the same names."""
    return {name: settings[name] for name in kind.setting_names() if name in settings}


def reservoir_of(reservoir: Reservoir | None, settings: Mapping[str, Any]) -> Reservoir:
    """The reservoir that is given, or the one with these settings; both at once are refused."""
    described = Reservoir(**those_of(Reservoir, settings))
    if reservoir is None:
        return described
    if described != Reservoir(100):
        raise ValueError(
            f"the reservoir is given twice: as reservoir={reservoir!r} and by its settings, {described!r}; "
            "put the settings into the Reservoir"
        )
    return reservoir

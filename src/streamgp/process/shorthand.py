"""Settings in place of a part: ``OESGP(units=50)`` for ``OESGP(Reservoir(50))``."""

from __future__ import annotations

from typing import Any

from streamgp.process.memory import Reservoir


def reservoir_of(
    reservoir: Reservoir | None,
    units: int,
    spectral_radius: float,
    retention: float,
    connectivity: float,
    input_scale: float,
    feedback: Any,
    seed: int,
) -> Reservoir:
    """The reservoir that is given, or the one with these settings; both at once are refused."""
    described = Reservoir(
        units,
        spectral_radius=spectral_radius,
        retention=retention,
        connectivity=connectivity,
        input_scale=input_scale,
        feedback=feedback,
        seed=seed,
    )
    if reservoir is None:
        return described
    if not isinstance(reservoir, Reservoir):
        raise TypeError(f"reservoir must be a Reservoir, for example Reservoir(100); got {reservoir!r}")
    if described != Reservoir(100):
        raise ValueError(
            f"the reservoir is given twice: as reservoir={reservoir!r} and by its settings, {described!r}; "
            "put the settings into the Reservoir"
        )
    return reservoir

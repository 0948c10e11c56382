"""Settings in place of a part: ``OESGP(units=50)`` for ``OESGP(Reservoir(50))``, ``SOGP(variance=2.0)`` likewise."""

from __future__ import annotations

from dataclasses import field

from streamgp.kernels import Kernel, KernelSetting, SquaredExponential, described_kernel
from streamgp.process.memory import Reservoir, ReservoirSetting
from streamgp.settings import Declared, Given
from streamgp.vocabulary import (
    Connectivity,
    Feedback,
    InputScale,
    Retention,
    Seed,
    ShortLengthscale,
    ShortVariance,
    SpectralRadius,
    Units,
)


class ShortKernel(Declared):
    """A kernel, or the hyperparameters of the default one."""

    kernel: KernelSetting = field(default=SquaredExponential(), kw_only=False)
    lengthscale: ShortLengthscale = None
    variance: ShortVariance = None

    def _kernel_of(self, given: Given) -> Kernel:
        default = self._declared["kernel"].default
        return described_kernel(given.kernel, default, **given.of(type(default)))


class FlatReservoir(Declared):
    """A reservoir, or the settings that describe it; both at once are refused."""

    reservoir: ReservoirSetting = field(default=None, kw_only=False)
    units: Units = 100
    spectral_radius: SpectralRadius = 0.9
    retention: Retention = 0.0
    connectivity: Connectivity = 0.1
    input_scale: InputScale = 1.0
    feedback: Feedback = None
    seed: Seed = 0

    def _reservoir_of(self, given: Given) -> Reservoir:
        described, reservoir = Reservoir(**given.of(Reservoir)), given.reservoir
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

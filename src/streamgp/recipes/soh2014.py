"""The models of Soh and Demiris, Spatio-Temporal Learning with the Online Finite and Infinite Echo-state GPs."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

from streamgp.kernels import KernelSetting, RecursiveSquaredExponential, SquaredExponential
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Linear
from streamgp.process.forgetting import Injection, forgetting_of
from streamgp.process.mean import MeanSetting
from streamgp.process.memory import Window
from streamgp.process.shorthand import FlatReservoir, ShortKernel
from streamgp.recipes.recipe import Posterior, Recipe
from streamgp.settings import Given, Setting
from streamgp.vocabulary import (
    Absorb,
    Capacity,
    Depth,
    Evict,
    Forgetting,
    HalfLife,
    Jitter,
    Novelty,
    OneNoise,
    Outputs,
    Removal,
    StateLengthscale,
    TemporalLengthscale,
    positive,
)


class Sparse(Posterior, ShortKernel, Recipe):
    """A sparse online GP, whatever it remembers [soh2014 III]."""

    capacity: Capacity = 100
    novelty: Novelty = 1e-3
    jitter: Jitter = 0.0
    absorb: Absorb = "fitc"
    evict: Evict = "paper"
    removal: Removal = "marginal"

    def _parts(self, given: Given) -> dict[str, Any]:
        return {
            "features": Basis(self._kernel_of(given), jitter=given.jitter),
            "memory": self._reservoir_of(given) if isinstance(self, FlatReservoir) else Window(given.depth),
            "budget": Budget(**given.of(Budget)),
        }


class SOGP(Sparse):
    """Sparse online Gaussian process [soh2014 III; Csato and Opper 2002].

    A row that is novel becomes a basis point, any other is absorbed into the posterior; when there are too many basis
    points the one with the lowest score leaves.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SOGP(sg.SquaredExponential(1.0), capacity=50, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> round(model.predict_one([0.5, 1.0]).mean, 2)
        1.98
    """

    depth: Depth = 1


class OESGP(Sparse, FlatReservoir):
    """Online echo-state Gaussian process: a sparse online GP on the state of a reservoir and the input [soh2014 III].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.OESGP(units=20, lengthscale=2.0, noise=1e-4).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    kernel: KernelSetting = SquaredExponential()
    lengthscale: StateLengthscale = None


class OIESGP(Sparse):
    """Online infinite echo-state Gaussian process: a sparse online GP with a recursive kernel [soh2014 IV].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.OIESGP(depth=5, lengthscale=1.0, noise=1e-4).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    depth: Depth = field(default=20, kw_only=False)
    kernel: KernelSetting = RecursiveSquaredExponential()
    temporal_lengthscale: Annotated[
        TemporalLengthscale | None,
        Setting(
            "sigma_rho of the default kernel, in place of a kernel of your own; the nearer to 1 from above, the "
            "longer the memory; None: 1.2"
        ),
    ] = None


class RLSESN(FlatReservoir, Recipe):
    """Echo-state network with a linear readout on [state; x; 1], learned by recursive least squares [soh2014 II].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.RLSESN(units=30).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    delta: Annotated[
        float,
        Setting("P starts as I / delta: small follows the first rows closely, large regularizes", check=positive),
    ] = 1e-2
    forgetting: Forgetting = 1.0
    half_life: HalfLife = None
    noise: Annotated[
        OneNoise, Setting("variance of the observation noise; it scales the error bars, not the means")
    ] = 1.0
    outputs: Outputs = "shared"
    mean: MeanSetting = None

    def _parts(self, given: Given) -> dict[str, Any]:
        # [soh2014] Eq. (6) has noise 1; with noise s and P = s I / delta the means are the same.
        return {
            "features": Linear(given.delta / given.noise, constant=True),
            "memory": self._reservoir_of(given),
            "forgetting": forgetting_of(Injection, given.forgetting, given.half_life, default=1.0),
        }

"""The models of Soh and Demiris, Spatio-Temporal Learning with the Online Finite and Infinite Echo-state GPs."""

from __future__ import annotations

from typing import Annotated, Any, Unpack

from streamgp.kernels import Kernel, KernelSetting, RecursiveSquaredExponential, SquaredExponential, described_kernel
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Linear
from streamgp.process.forgetting import Injection, forgetting_of
from streamgp.process.mean import MeanSetting
from streamgp.process.memory import Memory, ReservoirSetting, Window
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.shorthand import EchoState, Observed, reservoir_of, those_of
from streamgp.settings import Setting
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
    ShortLengthscale,
    ShortVariance,
    StateLengthscale,
    TemporalLengthscale,
    positive,
)


class Sparse(Observed, total=False):
    """What the sparse online processes have in common: which rows become basis points, and which of these leave."""

    variance: ShortVariance
    capacity: Annotated[Capacity, 100]
    novelty: Annotated[Novelty, 1e-3]
    jitter: Annotated[Jitter, 0.0]
    absorb: Annotated[Absorb, "fitc"]
    evict: Annotated[Evict, "paper"]
    removal: Annotated[Removal, "marginal"]


class SparseEchoState(Sparse, EchoState):
    """The same on a reservoir."""


class SOGP(OnlineGP):
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

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        depth: Depth = 1,
        **settings: Unpack[Sparse],
    ) -> None:
        _compose(self, Window(depth), settings, kernel, lengthscale=lengthscale)


class OESGP(OnlineGP):
    """Online echo-state Gaussian process: a sparse online GP on the state of a reservoir and the input [soh2014 III].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.OESGP(units=20, lengthscale=2.0, noise=1e-4).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    def __init__(
        self,
        reservoir: ReservoirSetting = None,
        *,
        kernel: KernelSetting = SquaredExponential(),
        lengthscale: StateLengthscale = None,
        **settings: Unpack[SparseEchoState],
    ) -> None:
        _compose(self, reservoir_of(reservoir, settings), settings, kernel, lengthscale=lengthscale)


class OIESGP(OnlineGP):
    """Online infinite echo-state Gaussian process: a sparse online GP with a recursive kernel [soh2014 IV].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.OIESGP(depth=5, lengthscale=1.0, noise=1e-4).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    def __init__(
        self,
        depth: Depth = 20,
        *,
        kernel: KernelSetting = RecursiveSquaredExponential(),
        lengthscale: ShortLengthscale = None,
        temporal_lengthscale: Annotated[
            TemporalLengthscale | None,
            Setting(
                "sigma_rho of the default kernel, in place of a kernel of your own; the nearer to 1 from above, the "
                "longer the memory; None: 1.2"
            ),
        ] = None,
        **settings: Unpack[Sparse],
    ) -> None:
        short = {"lengthscale": lengthscale, "temporal_lengthscale": temporal_lengthscale}
        _compose(self, Window(depth), settings, kernel, RecursiveSquaredExponential(), **short)


def _compose(
    model: OnlineGP, memory: Memory, settings: Any, kernel: Kernel, default: Kernel = SquaredExponential(), **short: Any
) -> None:
    prior = described_kernel(kernel, default, variance=settings["variance"], **short)
    features, budget = Basis(prior, jitter=settings["jitter"]), Budget(**those_of(Budget, settings))
    OnlineGP.__init__(model, features, memory=memory, budget=budget, **those_of(OnlineGP, settings))


class RLSESN(OnlineGP):
    """Echo-state network with a linear readout on [state; x; 1], learned by recursive least squares [soh2014 II].

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = sg.RLSESN(units=30).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-50:].max() < 0.05)
        True
    """

    def __init__(
        self,
        reservoir: ReservoirSetting = None,
        *,
        delta: Annotated[
            float,
            Setting("P starts as I / delta: small follows the first rows closely, large regularizes", check=positive),
        ] = 1e-2,
        forgetting: Forgetting = 1.0,
        half_life: HalfLife = None,
        noise: Annotated[
            OneNoise, Setting("variance of the observation noise; it scales the error bars, not the means")
        ] = 1.0,
        outputs: Outputs = "shared",
        mean: MeanSetting = None,
        **settings: Unpack[EchoState],
    ) -> None:
        # [soh2014] Eq. (6) has noise 1; with noise s and P = s I / delta the means are the same.
        features = Linear(delta / noise, constant=True)
        fading = forgetting_of(Injection, forgetting, half_life, default=1.0)
        memory = reservoir_of(reservoir, settings)
        super().__init__(features, memory=memory, noise=noise, forgetting=fading, outputs=outputs, mean=mean)

"""The models of Soh and Demiris, Spatio-Temporal Learning with the Online Finite and Infinite Echo-state GPs."""

from __future__ import annotations

from typing import Annotated

from streamgp.kernels import KernelSetting, RecursiveSquaredExponential, SquaredExponential, described_kernel
from streamgp.kernels.temporal import BesideInputs
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Linear
from streamgp.process.forgetting import Injection, forgetting_of
from streamgp.process.likelihood import DEFAULT_NOISE, LikelihoodSetting
from streamgp.process.mean import MeanSetting
from streamgp.process.memory import ReservoirSetting, Window
from streamgp.process.onlinegp import Adapt, OnlineGP
from streamgp.process.shorthand import reservoir_of
from streamgp.settings import Setting
from streamgp.vocabulary import (
    Absorb,
    Capacity,
    Connectivity,
    Depth,
    Evict,
    Feedback,
    Forgetting,
    HalfLife,
    InputScale,
    Jitter,
    Noise,
    Novelty,
    OneNoise,
    Outputs,
    Removal,
    Retention,
    Seed,
    ShortLengthscale,
    ShortVariance,
    SpectralRadius,
    StateLengthscale,
    TemporalLengthscale,
    Units,
    positive,
)


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
        variance: ShortVariance = None,
        noise: Noise = DEFAULT_NOISE,
        likelihood: LikelihoodSetting = None,
        outputs: Outputs = "shared",
        adapt: Adapt = None,
        time: BesideInputs = None,
        mean: MeanSetting = None,
        capacity: Capacity = 100,
        novelty: Novelty = 1e-3,
        jitter: Jitter = 0.0,
        absorb: Absorb = "fitc",
        evict: Evict = "paper",
        removal: Removal = "marginal",
        depth: Depth = 1,
    ) -> None:
        features = Basis(described_kernel(kernel, lengthscale=lengthscale, variance=variance), jitter=jitter)
        budget = Budget(capacity, novelty=novelty, absorb=absorb, evict=evict, removal=removal)
        self._compose(features, Window(depth), noise, budget, None, adapt, outputs, None, likelihood, time, mean)


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
        units: Units = 100,
        spectral_radius: SpectralRadius = 0.9,
        retention: Retention = 0.0,
        connectivity: Connectivity = 0.1,
        input_scale: InputScale = 1.0,
        feedback: Feedback = None,
        seed: Seed = 0,
        kernel: KernelSetting = SquaredExponential(),
        lengthscale: StateLengthscale = None,
        variance: ShortVariance = None,
        noise: Noise = DEFAULT_NOISE,
        likelihood: LikelihoodSetting = None,
        outputs: Outputs = "shared",
        adapt: Adapt = None,
        time: BesideInputs = None,
        mean: MeanSetting = None,
        capacity: Capacity = 100,
        novelty: Novelty = 1e-3,
        jitter: Jitter = 0.0,
        absorb: Absorb = "fitc",
        evict: Evict = "paper",
        removal: Removal = "marginal",
    ) -> None:
        features = Basis(described_kernel(kernel, lengthscale=lengthscale, variance=variance), jitter=jitter)
        memory = reservoir_of(reservoir, units, spectral_radius, retention, connectivity, input_scale, feedback, seed)
        budget = Budget(capacity, novelty=novelty, absorb=absorb, evict=evict, removal=removal)
        self._compose(features, memory, noise, budget, None, adapt, outputs, None, likelihood, time, mean)


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
        variance: ShortVariance = None,
        noise: Noise = DEFAULT_NOISE,
        likelihood: LikelihoodSetting = None,
        outputs: Outputs = "shared",
        adapt: Adapt = None,
        time: BesideInputs = None,
        mean: MeanSetting = None,
        capacity: Capacity = 100,
        novelty: Novelty = 1e-3,
        jitter: Jitter = 0.0,
        absorb: Absorb = "fitc",
        evict: Evict = "paper",
        removal: Removal = "marginal",
        temporal_lengthscale: Annotated[
            TemporalLengthscale | None,
            Setting(
                "sigma_rho of the default kernel, in place of a kernel of your own; the nearer to 1 from above, the "
                "longer the memory; None: 1.2"
            ),
        ] = None,
    ) -> None:
        short = {"lengthscale": lengthscale, "variance": variance, "temporal_lengthscale": temporal_lengthscale}
        features = Basis(described_kernel(kernel, RecursiveSquaredExponential(), **short), jitter=jitter)
        budget = Budget(capacity, novelty=novelty, absorb=absorb, evict=evict, removal=removal)
        self._compose(features, Window(depth), noise, budget, None, adapt, outputs, None, likelihood, time, mean)


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
        units: Units = 100,
        spectral_radius: SpectralRadius = 0.9,
        retention: Retention = 0.0,
        connectivity: Connectivity = 0.1,
        input_scale: InputScale = 1.0,
        feedback: Feedback = None,
        seed: Seed = 0,
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
    ) -> None:
        # [soh2014] Eq. (6) has noise 1; with noise s and P = s I / delta the means are the same.
        features = Linear(delta / noise, constant=True)
        memory = reservoir_of(reservoir, units, spectral_radius, retention, connectivity, input_scale, feedback, seed)
        fading = forgetting_of(Injection, forgetting, half_life, default=1.0)
        self._compose(features, memory, noise, forgetting=fading, outputs=outputs, mean=mean)

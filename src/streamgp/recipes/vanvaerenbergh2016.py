"""The recursive least-squares models of Van Vaerenbergh et al., online GP regression and kernel adaptive filters."""

from __future__ import annotations

from typing import Annotated, TypedDict, Unpack

from streamgp.kernels import Kernel, KernelSetting, SquaredExponential, described_kernel
from streamgp.process.budget import Budget
from streamgp.process.features import Basis
from streamgp.process.forgetting import BackToPrior, Injection, forgetting_of
from streamgp.process.mean import MeanSetting
from streamgp.process.memory import Window
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import PriorSetting
from streamgp.process.shorthand import Observed
from streamgp.settings import Setting, one_of
from streamgp.vocabulary import (
    Absorb,
    Capacity,
    Depth,
    HalfLife,
    Jitter,
    Novelty,
    OneNoise,
    ShortLengthscale,
    ShortVariance,
    not_negative,
)
from streamgp.vocabulary import Forgetting as Factor

MODES: dict[str, type[BackToPrior | Injection]] = {"back-to-prior": BackToPrior, "injection": Injection}
FACTOR = 0.9995


class Kept(TypedDict, total=False):
    """What the exact Gaussian processes on some rows have in common."""

    lengthscale: ShortLengthscale
    variance: ShortVariance
    capacity: Annotated[Capacity, Setting("rows kept", "rows"), 100]
    noise: Annotated[OneNoise, Setting("variance of the observation noise, the regularization"), 0.01]
    depth: Annotated[Depth, 1]
    mean: MeanSetting


class KRLS(OnlineGP):
    """Kernel recursive least squares with approximate linear dependency [vanvaerenbergh2016 3.1; Engel et al. 2004].

    A novel row joins the dictionary, any other is folded in. With noise 0 it is least squares on the dictionary.

    Example:
        >>> import streamgp as sg
        >>> model = sg.KRLS(sg.SquaredExponential(1.0), noise=0.0)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.predict_one([0.5, 1.0]).mean
        2.0
    """

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        novelty: Annotated[Novelty, Setting("a row joins the dictionary when gamma2 >= novelty * k(x, x)")] = 1e-3,
        noise: Annotated[
            OneNoise, Setting("variance of the observation noise; 0: plain least squares", check=not_negative)
        ] = 0.01,
        capacity: Annotated[Capacity, Setting("most basis points; a full dictionary folds every row in")] = 100,
        depth: Depth = 1,
        absorb: Annotated[
            Absorb,
            Setting(
                'how a row that is not admitted is learned: "dtc" (the paper\'s) drops its residual gamma2, "fitc" '
                "counts it as noise, so that a full dictionary does not become sure of what it cannot express"
            ),
        ] = "dtc",
        mean: MeanSetting = None,
    ) -> None:
        features = Basis(described_kernel(kernel, lengthscale=lengthscale, variance=variance))
        budget = Budget(capacity, novelty=novelty, absorb=absorb, evict="never")
        super().__init__(features, memory=Window(depth), noise=noise, budget=budget, mean=mean)


class KRLST(OnlineGP):
    """Kernel recursive least squares tracker [vanvaerenbergh2016 2.2].

    Forgets, admits every row, and prunes the basis point whose loss changes the mean least.

    Example:
        >>> import streamgp as sg
        >>> model = sg.KRLST(forgetting=0.99, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.size
        1
    """

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        capacity: Capacity = 100,
        forgetting: Factor = FACTOR,
        half_life: HalfLife = None,
        mode: Annotated[
            str, Setting('of forgetting: "back-to-prior" or "injection" (of uncertainty)', check=one_of(*MODES))
        ] = "back-to-prior",
        jitter: Jitter = 1e-6,
        depth: Depth = 1,
        estimate_power: Annotated[
            bool,
            Setting(
                "noise and the kernel's variance count only as a ratio; the power of the signal is estimated from the "
                "errors, discounted as the posterior is, and scales the error bars; the means do not change"
            ),
        ] = False,
        prior: PriorSetting = None,
        **settings: Unpack[Observed],
    ) -> None:
        if prior is not None:
            lengthscale, variance, settings["noise"] = prior.begun(lengthscale, variance, settings["noise"])
        self._estimate_power = bool(estimate_power)
        features = Basis(described_kernel(kernel, lengthscale=lengthscale, variance=variance), jitter=jitter)
        budget = Budget(capacity, novelty=0.0, evict="error")
        fading = forgetting_of(MODES[mode], forgetting, half_life, FACTOR)
        super().__init__(features, memory=Window(depth), budget=budget, forgetting=fading, **settings)


class SWKRLS(OnlineGP):
    """Sliding-window kernel recursive least squares: the exact GP on the last ``capacity`` rows.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SWKRLS(capacity=2)
        >>> model.learn_many([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
        >>> model.basis.tolist()
        [[1.0], [2.0]]
    """

    def __init__(self, kernel: KernelSetting = SquaredExponential(), **settings: Unpack[Kept]) -> None:
        _keep(self, "oldest", kernel, settings)


class FBKRLS(OnlineGP):
    """Fixed-budget kernel recursive least squares: the exact GP on rows of which the best predicted leaves.

    Example:
        >>> import streamgp as sg
        >>> model = sg.FBKRLS(capacity=2)
        >>> model.learn_many([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
        >>> model.size
        2
    """

    def __init__(self, kernel: KernelSetting = SquaredExponential(), **settings: Unpack[Kept]) -> None:
        _keep(self, "error", kernel, settings)


def _keep(model: OnlineGP, evict: str, kernel: Kernel, settings: Kept) -> None:
    prior = described_kernel(kernel, lengthscale=settings["lengthscale"], variance=settings["variance"])
    budget = Budget(settings["capacity"], novelty=0.0, evict=evict, removal="discard")
    noise, mean = settings["noise"], settings["mean"]
    OnlineGP.__init__(model, Basis(prior), memory=Window(settings["depth"]), noise=noise, budget=budget, mean=mean)

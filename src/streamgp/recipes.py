"""The published models, each a composition of the parts with the paper's settings."""

from __future__ import annotations

from typing import Any

from streamgp.budget import Budget
from streamgp.features import Basis, Fourier
from streamgp.forgetting import BackToPrior, Forgetting, Injection, NoForgetting
from streamgp.kernels import Kernel
from streamgp.memory import Window
from streamgp.model import OnlineGP
from streamgp.settings import FloatArray, choice

Noise = float | list[float] | FloatArray


class SOGP(OnlineGP):
    """Sparse online Gaussian process [soh2014 III; Csato and Opper 2002].

    A row that is novel becomes a basis point, any other is absorbed into the posterior; when there are too many basis
    points the one with the lowest score leaves.

    Args:
        kernel: covariance function; None: SquaredExponential().
        capacity: most basis points.
        novelty: a row is admitted when gamma2 >= novelty * k(x, x); 0 admits every row while there is room.
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, part of the prior.
        depth: inputs in the window, the present one included; 1 is no memory.
        absorb: "fitc" (as printed: the residual counts as noise) or "dtc" (Csato and Opper's projection).
        evict: score of a basis point: "paper" |alpha| / (Q + C), "kl" alpha^2 / (Q + C), "error" |alpha| / Q.
        removal: "marginal", Eqs. (26)-(28), or "kl", the other direction of the divergence.
        outputs: "shared" or "separate" covariance of several outputs.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SOGP(sg.SquaredExponential(1.0), capacity=50, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> round(model.predict_one([0.5, 1.0]).mean, 2)
        1.98
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        capacity: int = 100,
        novelty: float = 1e-3,
        noise: Noise = 0.01,
        jitter: float = 0.0,
        depth: int = 1,
        absorb: str = "fitc",
        evict: str = "paper",
        removal: str = "marginal",
        outputs: str = "shared",
    ) -> None:
        self._compose(
            features=Basis(kernel, jitter),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty, absorb, evict, removal),
            outputs=outputs,
        )


class KRLST(OnlineGP):
    """Kernel recursive least squares tracker [vanvaerenbergh2016 2.2].

    Forgets, admits every row, and prunes the basis point whose loss changes the mean least.

    Args:
        kernel: covariance function; None: SquaredExponential().
        capacity: most basis points.
        forgetting: factor in (0, 1]; 1 forgets nothing.
        mode: "back-to-prior" or "injection" (of uncertainty).
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, part of the prior; a row with gamma2 below it is absorbed.
        depth: inputs in the window, the present one included; 1 is no memory.
        outputs: "shared" or "separate" covariance of several outputs.

    Example:
        >>> import streamgp as sg
        >>> model = sg.KRLST(forgetting=0.99, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.size
        1
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        capacity: int = 100,
        forgetting: float = 1.0,
        mode: str = "back-to-prior",
        noise: Noise = 0.01,
        jitter: float = 1e-6,
        depth: int = 1,
        outputs: str = "shared",
    ) -> None:
        self._compose(
            features=Basis(kernel, jitter),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty=0.0, evict="error", admit_untested=False),
            forgetting=forgetting_of(mode, forgetting),
            outputs=outputs,
        )


class RecursiveGP(OnlineGP):
    """Recursive Gaussian process regression on basis points that are given and stay [huber2013].

    Args:
        basis: (m, d) basis points.
        kernel: covariance function; None: SquaredExponential().
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, part of the prior.
        outputs: "shared" or "separate" covariance of several outputs.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> model = sg.RecursiveGP(np.linspace(-3, 3, 13)[:, None], sg.SquaredExponential(1.0), noise=0.01)
        >>> model.learn_one(0.2, 1.0)
        >>> model.size
        13
    """

    def __init__(
        self,
        basis: Any,
        kernel: Kernel | None = None,
        noise: Noise = 0.01,
        jitter: float = 0.0,
        outputs: str = "shared",
    ) -> None:
        self._compose(features=Basis(kernel, jitter, points=basis), memory=None, noise=noise, outputs=outputs)


class ISSGPR(OnlineGP):
    """Incremental sparse spectrum Gaussian process regression [gijsberts2013].

    Args:
        features: D, the number of frequencies; there are 2 D weights.
        lengthscale: one, or one for each input (ARD), in the units of the inputs; None: sqrt(d).
        variance: prior variance of the function, in squared units of the target.
        noise: variance of the observation noise, in squared units of the target.
        seed: of the frequencies.
        frequencies: a (D, d) matrix of frequencies, already divided by the lengthscales, in place of random ones.
        form: "cholesky" (a triangular factor, updated by rotations, as in the paper) or "covariance".
        depth: inputs in the window, the present one included; 1 is no memory.
        outputs: "shared" or "separate" covariance of several outputs.

    Example:
        >>> import streamgp as sg
        >>> model = sg.ISSGPR(features=50, lengthscale=1.0, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> round(model.predict_one([0.5, 1.0]).mean, 2)
        1.98
    """

    def __init__(
        self,
        features: int = 100,
        lengthscale: Any = None,
        variance: float = 1.0,
        noise: Noise = 0.01,
        seed: int = 0,
        frequencies: Any = None,
        form: str = "cholesky",
        depth: int = 1,
        outputs: str = "shared",
    ) -> None:
        self._compose(
            features=Fourier(features, lengthscale, variance, seed, frequencies),
            memory=Window(depth),
            noise=noise,
            form=form,
            outputs=outputs,
        )


def forgetting_of(mode: str, factor: float) -> Forgetting:
    """The forgetting of that name."""
    kind = (BackToPrior, Injection)[choice("mode", mode, ("back-to-prior", "injection"))]
    return NoForgetting() if factor == 1 else kind(factor)

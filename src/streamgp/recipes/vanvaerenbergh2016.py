"""The recursive least-squares models of Van Vaerenbergh et al., online GP regression and kernel adaptive filters."""

from __future__ import annotations

from streamgp.kernels import Kernel
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import Budget
from streamgp.process.features import Basis
from streamgp.process.forgetting import BackToPrior, Forgetting, Injection, NoForgetting
from streamgp.process.memory import Window
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray, choice

Noise = float | list[float] | FloatArray


class KRLS(OnlineGP):
    """Kernel recursive least squares with approximate linear dependency [vanvaerenbergh2016 3.1; Engel et al. 2004].

    A novel row joins the dictionary, any other is folded in. With noise 0 it is least squares on the dictionary.

    Args:
        kernel: covariance function; None: SquaredExponential().
        novelty: a row joins the dictionary when gamma2 >= novelty * k(x, x).
        noise: variance of the observation noise, in squared units of the target; 0: plain least squares.
        capacity: most basis points; a full dictionary folds every row in.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> import streamgp as sg
        >>> model = sg.KRLS(sg.SquaredExponential(1.0), noise=0.0)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.predict_one([0.5, 1.0]).mean
        2.0
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        novelty: float = 1e-3,
        noise: float = 0.01,
        capacity: int = 100,
        depth: int = 1,
    ) -> None:
        self._compose(
            features=Basis(kernel),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty, absorb="dtc", evict="never"),
        )


class KRLST(OnlineGP):
    """Kernel recursive least squares tracker [vanvaerenbergh2016 2.2].

    Forgets, admits every row, and prunes the basis point whose loss changes the mean least.

    Args:
        kernel: covariance function; None: SquaredExponential().
        capacity: most basis points.
        forgetting: factor in (0, 1]; 1 forgets nothing, as a stream that never changes wants it (docs/drift.md).
        mode: "back-to-prior" or "injection" (of uncertainty).
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, relative to its prior variance and part of the prior.
        depth: inputs in the window, the present one included; 1 is no memory.
        outputs: "shared" or "separate" covariance of several outputs.
        estimate_power: noise and the kernel's variance count only as a ratio; the power of the signal is estimated from
            the errors, discounted as the posterior is, and scales the error bars. The means do not change.
        adapt: SNGD() keeps learning the hyperparameters; None: they stay.

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
        forgetting: float = 0.9995,
        mode: str = "back-to-prior",
        noise: Noise = 0.01,
        jitter: float = 1e-6,
        depth: int = 1,
        outputs: str = "shared",
        estimate_power: bool = False,
        adapt: SNGD | None = None,
    ) -> None:
        self._estimate_power = bool(estimate_power)
        self._compose(
            features=Basis(kernel, jitter),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty=0.0, evict="error"),
            forgetting=forgetting_of(mode, forgetting),
            adapt=adapt,
            outputs=outputs,
        )


class SWKRLS(OnlineGP):
    """Sliding-window kernel recursive least squares: the exact GP on the last ``capacity`` rows.

    Args:
        kernel: covariance function; None: SquaredExponential().
        capacity: rows in the window.
        noise: variance of the observation noise, in squared units of the target (the regularisation).
        depth: inputs in the window of each row, the present one included; 1 is no memory.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SWKRLS(capacity=2)
        >>> model.learn_many([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
        >>> model.basis.tolist()
        [[1.0], [2.0]]
    """

    def __init__(self, kernel: Kernel | None = None, capacity: int = 100, noise: float = 0.01, depth: int = 1) -> None:
        self._compose(
            features=Basis(kernel),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty=0.0, evict="oldest", removal="discard"),
        )


class FBKRLS(OnlineGP):
    """Fixed-budget kernel recursive least squares: the exact GP on rows of which the best predicted leaves.

    Args:
        kernel: covariance function; None: SquaredExponential().
        capacity: rows kept.
        noise: variance of the observation noise, in squared units of the target (the regularisation).
        depth: inputs in the window of each row, the present one included; 1 is no memory.

    Example:
        >>> import streamgp as sg
        >>> model = sg.FBKRLS(capacity=2)
        >>> model.learn_many([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
        >>> model.size
        2
    """

    def __init__(self, kernel: Kernel | None = None, capacity: int = 100, noise: float = 0.01, depth: int = 1) -> None:
        self._compose(
            features=Basis(kernel),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty=0.0, evict="error", removal="discard"),
        )


def forgetting_of(mode: str, factor: float) -> Forgetting:
    """The forgetting of that name."""
    kind = (BackToPrior, Injection)[choice("mode", mode, ("back-to-prior", "injection"))]
    return NoForgetting() if factor == 1 else kind(factor)

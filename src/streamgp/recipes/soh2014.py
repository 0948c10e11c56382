"""The models of Soh and Demiris, Spatio-Temporal Learning with the Online Finite and Infinite Echo-state GPs."""

from __future__ import annotations

from typing import Any

from streamgp.kernels import Kernel, RecursiveSquaredExponential, SquaredExponential
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Linear
from streamgp.process.forgetting import Injection, NoForgetting
from streamgp.process.memory import Reservoir, Window, described_reservoir
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray, number

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
        jitter: independent variance of every function value, relative to its prior variance and part of the prior.
        depth: inputs in the window, the present one included; 1 is no memory.
        absorb: "fitc" (as printed: the residual counts as noise) or "dtc" (Csato and Opper's projection).
        evict: who leaves: the lowest "paper" score |alpha| / (Q + C), "kl" alpha^2 / (Q + C) or "error" |alpha| / Q,
            the "oldest", or "never" anyone.
        removal: "marginal", Eqs. (26)-(28), or "kl", the other direction of the divergence.
        outputs: "shared" or "separate" covariance of several outputs.
        adapt: SNGD() keeps learning the hyperparameters; None: they stay.

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
        adapt: SNGD | None = None,
    ) -> None:
        self._compose(
            features=Basis(kernel, jitter),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty, absorb, evict, removal),
            adapt=adapt,
            outputs=outputs,
        )


class OESGP(OnlineGP):
    """Online echo-state Gaussian process: a sparse online GP on the state of a reservoir and the input [soh2014 III].

    Args:
        reservoir: a Reservoir(...); None: one of the settings that follow.
        units: number of units.
        spectral_radius: largest modulus of the eigenvalues of the recurrent weights; below 1 the past fades.
        retention: the part of the old state that is kept, in [0, 1).
        connectivity: the part of the recurrent weights that is not zero, in (0, 1].
        input_scale: input weights are uniform in [-input_scale, input_scale].
        feedback: None, a scale of random weights, or a (units, p) matrix fed with the last target.
        seed: of the random weights.
        lengthscale: one, or one for each unit and input; None: sqrt(units + d).
        variance: prior variance of the function, in squared units of the target.
        capacity: most basis points.
        novelty: a row is admitted when gamma2 >= novelty * k(x, x); 0 admits every row while there is room.
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, relative to its prior variance and part of the prior.
        absorb: "fitc" or "dtc"; see SOGP.
        evict: "paper", "kl", "error", "oldest" or "never"; see SOGP.
        removal: "marginal" or "kl"; see SOGP.
        outputs: "shared" or "separate" covariance of several outputs.
        adapt: SNGD() keeps learning the hyperparameters; None: they stay.

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
        reservoir: Reservoir | None = None,
        units: int = 100,
        spectral_radius: float = 0.9,
        retention: float = 0.0,
        connectivity: float = 0.1,
        input_scale: float = 1.0,
        feedback: Any = None,
        seed: int = 0,
        lengthscale: Any = None,
        variance: float = 1.0,
        capacity: int = 100,
        novelty: float = 1e-3,
        noise: Noise = 0.01,
        jitter: float = 0.0,
        absorb: str = "fitc",
        evict: str = "paper",
        removal: str = "marginal",
        outputs: str = "shared",
        adapt: SNGD | None = None,
    ) -> None:
        self._compose(
            features=Basis(SquaredExponential(lengthscale, variance), jitter),
            memory=described_reservoir(
                reservoir, units, spectral_radius, retention, connectivity, input_scale, feedback, seed
            ),
            noise=noise,
            budget=Budget(capacity, novelty, absorb, evict, removal),
            adapt=adapt,
            outputs=outputs,
        )


class OIESGP(OnlineGP):
    """Online infinite echo-state Gaussian process: a sparse online GP with a recursive kernel [soh2014 IV].

    Args:
        depth: inputs in the window, the present one included.
        lengthscale: one, or one for each input (ARD), in the units of the inputs; None: sqrt(d).
        temporal_lengthscale: sigma_rho, without unit; the nearer to 1 from above, the longer the memory.
        variance: prior variance of the function, in squared units of the target.
        capacity: most basis points.
        novelty: a row is admitted when gamma2 >= novelty * k(x, x); 0 admits every row while there is room.
        noise: variance of the observation noise, in squared units of the target.
        jitter: independent variance of every function value, relative to its prior variance and part of the prior.
        absorb: "fitc" or "dtc"; see SOGP.
        evict: "paper", "kl", "error", "oldest" or "never"; see SOGP.
        removal: "marginal" or "kl"; see SOGP.
        outputs: "shared" or "separate" covariance of several outputs.
        adapt: SNGD() keeps learning the hyperparameters; None: they stay.

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
        depth: int = 20,
        lengthscale: Any = None,
        temporal_lengthscale: float = 1.2,
        variance: float = 1.0,
        capacity: int = 100,
        novelty: float = 1e-3,
        noise: Noise = 0.01,
        jitter: float = 0.0,
        absorb: str = "fitc",
        evict: str = "paper",
        removal: str = "marginal",
        outputs: str = "shared",
        adapt: SNGD | None = None,
    ) -> None:
        self._compose(
            features=Basis(RecursiveSquaredExponential(lengthscale, temporal_lengthscale, variance), jitter),
            memory=Window(depth),
            noise=noise,
            budget=Budget(capacity, novelty, absorb, evict, removal),
            adapt=adapt,
            outputs=outputs,
        )


class RLSESN(OnlineGP):
    """Echo-state network with a linear readout on [state; x; 1], learnt by recursive least squares [soh2014 II].

    Args:
        reservoir: a Reservoir(...); None: one of the settings that follow.
        units: number of units.
        delta: P starts as I / delta: small follows the first rows closely, large regularises.
        forgetting: lambda in (0, 1]; the memory of the readout is about 1 / (1 - forgetting) rows long.
        noise: variance of the observation noise, in squared units of the target; it scales the error bars only.
        spectral_radius: largest modulus of the eigenvalues of the recurrent weights; below 1 the past fades.
        retention: the part of the old state that is kept, in [0, 1).
        connectivity: the part of the recurrent weights that is not zero, in (0, 1].
        input_scale: input weights are uniform in [-input_scale, input_scale].
        feedback: None, a scale of random weights, or a (units, p) matrix fed with the last target.
        seed: of the random weights.
        outputs: "shared" or "separate" covariance of several outputs.

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
        reservoir: Reservoir | None = None,
        units: int = 100,
        delta: float = 1e-2,
        forgetting: float = 1.0,
        noise: float = 1.0,
        spectral_radius: float = 0.9,
        retention: float = 0.0,
        connectivity: float = 0.1,
        input_scale: float = 1.0,
        feedback: Any = None,
        seed: int = 0,
        outputs: str = "shared",
    ) -> None:
        # [soh2014] Eq. (6) has noise 1; with noise s and P = s I / delta the means are the same.
        delta, noise = number("delta", delta, above=0), number("noise", noise, above=0)
        self._compose(
            features=Linear(delta / noise, constant=True),
            memory=described_reservoir(
                reservoir, units, spectral_radius, retention, connectivity, input_scale, feedback, seed
            ),
            noise=noise,
            forgetting=NoForgetting() if forgetting == 1 else Injection(forgetting),
            outputs=outputs,
        )

"""The models of Gijsberts and Metta, Real-time model learning using Incremental Sparse Spectrum GP Regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamgp.process.adapt.sngd import SNGD
from streamgp.process.features import Fourier
from streamgp.process.memory import Window
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

if TYPE_CHECKING:
    from streamgp.batch import SSGPR

Noise = float | list[float] | FloatArray


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
        order: None for the squared exponential; 0.5, 1.5 or 2.5 for the Matern kernel of that order.
        orthogonal: draw the frequencies in orthogonal blocks.
        adapt: SNGD() keeps learning variance and noise (the lengthscales are in the frequencies); None: they stay.

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
        order: float | None = None,
        orthogonal: bool = False,
        adapt: SNGD | None = None,
    ) -> None:
        self._compose(
            features=Fourier(features, lengthscale, variance, seed, frequencies, order, orthogonal),
            memory=Window(depth),
            noise=noise,
            form=form,
            adapt=adapt,
            outputs=outputs,
        )

    @classmethod
    def from_batch(cls, batch: SSGPR, **settings: Any) -> ISSGPR:
        """Return a model that has learnt nothing, with the tuned settings of a fitted SSGPR.

        Args:
            batch: a fitted :class:`streamgp.batch.SSGPR`; its lengthscales, frequencies, variance and noise are taken.
            settings: the other settings of the model, such as ``form``.
        """
        return cls(**(batch.stream_settings() | settings))


class IRFRR(OnlineGP):
    """Incremental random-features ridge regression: the mean of I-SSGPR, its ancestor, no variance [gijsberts2013].

    Args:
        features: D, the number of frequencies; there are 2 D weights.
        lengthscale: one, or one for each input (ARD), in the units of the inputs; None: sqrt(d).
        variance: prior variance of the function, in squared units of the target.
        noise: the ridge: the weight of |w|^2 against the squared errors.
        seed: of the frequencies.
        frequencies: a (D, d) matrix of frequencies, already divided by the lengthscales, in place of random ones.
        form: "cholesky" (a triangular factor, updated by rotations, as in the paper) or "covariance".
        depth: inputs in the window, the present one included; 1 is no memory.
        outputs: "shared" or "separate" covariance of several outputs.
        order: None for the squared exponential; 0.5, 1.5 or 2.5 for the Matern kernel of that order.
        orthogonal: draw the frequencies in orthogonal blocks.

    Example:
        >>> import streamgp as sg
        >>> model = sg.IRFRR(features=50, lengthscale=1.0, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> round(model.predict_one([0.5, 1.0]).mean, 2)
        1.98
    """

    has_variance = False

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
        order: float | None = None,
        orthogonal: bool = False,
    ) -> None:
        self._compose(
            features=Fourier(features, lengthscale, variance, seed, frequencies, order, orthogonal),
            memory=Window(depth),
            noise=noise,
            form=form,
            outputs=outputs,
        )

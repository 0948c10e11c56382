"""The models of Gijsberts and Metta, Real-time model learning using Incremental Sparse Spectrum GP Regression."""

from __future__ import annotations

from typing import Annotated, Any, Self

from streamgp.kernels.temporal import BesideInputs
from streamgp.process.features import Fourier
from streamgp.process.likelihood import DEFAULT_NOISE, LikelihoodSetting
from streamgp.process.mean import LinearMean, MeanSetting
from streamgp.process.memory import Window
from streamgp.process.onlinegp import Adapt, OnlineGP
from streamgp.settings import Setting
from streamgp.vocabulary import (
    Depth,
    Form,
    Frequencies,
    FrequencySeed,
    GivenFrequencies,
    Lengthscale,
    Noise,
    Orthogonal,
    Outputs,
    SpectralOrder,
    Variance,
)


class ISSGPR(OnlineGP):
    """Incremental sparse spectrum Gaussian process regression [gijsberts2013].

    Example:
        >>> import streamgp as sg
        >>> model = sg.ISSGPR(features=50, lengthscale=1.0, noise=0.01)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> round(model.predict_one([0.5, 1.0]).mean, 2)
        1.98
    """

    def __init__(
        self,
        features: Frequencies = 100,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        noise: Noise = DEFAULT_NOISE,
        seed: FrequencySeed = 0,
        frequencies: GivenFrequencies = None,
        form: Form = "cholesky",
        depth: Depth = 1,
        outputs: Outputs = "shared",
        order: SpectralOrder = None,
        orthogonal: Orthogonal = False,
        mean: MeanSetting = None,
        likelihood: LikelihoodSetting = None,
        adapt: Annotated[
            Adapt,
            Setting(
                "SNGD() keeps learning variance and noise (the lengthscales are in the frequencies); None: they stay"
            ),
        ] = None,
        time: BesideInputs = None,
    ) -> None:
        parts = Fourier(
            features,
            lengthscale=lengthscale,
            variance=variance,
            seed=seed,
            frequencies=frequencies,
            order=order,
            orthogonal=orthogonal,
        )
        # Coordinates beside the features need a covariance.
        form = "covariance" if isinstance(mean, LinearMean) or time is not None else form
        self._compose(parts, Window(depth), noise, None, None, adapt, outputs, form, likelihood, time, mean)

    @classmethod
    def from_batch(cls, batch: Any, **settings: Any) -> Self:
        """Return a model that has learned nothing, with the tuned settings of a fitted SSGPR.

        Args:
            batch: a fitted :class:`streamgp.batch.SSGPR`; its lengthscales, frequencies, variance and noise are taken.
            settings: the other settings of the model, such as ``form``.
        """
        return cls(**(batch.stream_settings() | settings))


class IRFRR(OnlineGP):
    """Incremental random-features ridge regression: the mean of I-SSGPR, its ancestor, no variance [gijsberts2013].

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
        features: Frequencies = 100,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        noise: Annotated[Noise, Setting("the ridge: the weight of |w|^2 against the squared errors")] = 0.01,
        seed: FrequencySeed = 0,
        frequencies: GivenFrequencies = None,
        form: Form = "cholesky",
        depth: Depth = 1,
        outputs: Outputs = "shared",
        order: SpectralOrder = None,
        orthogonal: Orthogonal = False,
        mean: MeanSetting = None,
    ) -> None:
        parts = Fourier(
            features,
            lengthscale=lengthscale,
            variance=variance,
            seed=seed,
            frequencies=frequencies,
            order=order,
            orthogonal=orthogonal,
        )
        form = "covariance" if isinstance(mean, LinearMean) else form
        self._compose(parts, Window(depth), noise, outputs=outputs, form=form, mean=mean)

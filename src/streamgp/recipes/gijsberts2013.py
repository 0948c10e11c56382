"""The models of Gijsberts and Metta, Real-time model learning using Incremental Sparse Spectrum GP Regression."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypedDict, Unpack

from streamgp.process.features import Fourier
from streamgp.process.mean import LinearMean, MeanSetting
from streamgp.process.memory import Window
from streamgp.process.onlinegp import Adapt, OnlineGP
from streamgp.process.shorthand import Targets, those_of
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


class Ridge(TypedDict, total=False):
    """What both models have in common: Fourier features, and how their weights are learned."""

    lengthscale: Lengthscale
    variance: Annotated[Variance, 1.0]
    seed: Annotated[FrequencySeed, 0]
    frequencies: GivenFrequencies
    form: Annotated[Form, "cholesky"]
    depth: Annotated[Depth, 1]
    order: SpectralOrder
    orthogonal: Annotated[Orthogonal, False]


class Process(Ridge, Targets):
    """What a Gaussian process has beside."""


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
        adapt: Annotated[
            Adapt,
            Setting(
                "SNGD() keeps learning variance and noise (the lengthscales are in the frequencies); None: they stay"
            ),
        ] = None,
        **settings: Unpack[Process],
    ) -> None:
        _compose(self, features, {**settings, "adapt": adapt})

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
        noise: Annotated[Noise, Setting("the ridge: the weight of |w|^2 against the squared errors")] = 0.01,
        outputs: Outputs = "shared",
        mean: MeanSetting = None,
        **settings: Unpack[Ridge],
    ) -> None:
        _compose(self, features, {**settings, "noise": noise, "outputs": outputs, "mean": mean})


def _compose(model: OnlineGP, features: int, settings: dict[str, Any]) -> None:
    if isinstance(settings["mean"], LinearMean) or settings.get("time") is not None:
        settings["form"] = "covariance"  # coordinates beside the features need one
    parts = Fourier(features, **those_of(Fourier, settings))
    OnlineGP.__init__(model, parts, memory=Window(settings["depth"]), **those_of(OnlineGP, settings))

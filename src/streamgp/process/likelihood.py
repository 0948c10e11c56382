"""The likelihood: how an observation scatters about the function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np

from streamgp.contract.prediction import NUMBERS, Prediction
from streamgp.process import observation
from streamgp.process.predictive import (
    MOST_COUNTS,
    ClassPrediction,
    CountPrediction,
    StudentTPrediction,
    variance_ratio,
)
from streamgp.settings import FloatArray, Part, Setting, instance, number, optional, positive_vector
from streamgp.vocabulary import Noise

DEFAULT_NOISE = 0.01  # of every recipe that takes a likelihood


class Likelihood(Part):
    """How an observation scatters about the function.

    See :class:`Gaussian`, :class:`StudentT`, :class:`Probit` and :class:`Poisson`.
    """

    kind: int = observation.GAUSSIAN
    targets: str = "numbers"
    dof: float = 1.0
    noise: Any = 1.0  # what stands for a noise in the state: a variance, a squared scale
    noise_ratio: float = 1.0  # the variance of the noise over that; NaN where trajectories cannot be drawn with it

    names: tuple[str, ...] = NUMBERS  # of the columns of a prediction of observations

    def columns(self, function: FloatArray) -> FloatArray:
        """The columns of predictions, by their mean and variance as those of the function, and what stands for noise.

        Args:
            function: (3, n, p), or more rows, which stay as they are where noise is Gaussian.
        """
        return function

    def predicted(self, columns: Sequence[Any]) -> Prediction:
        """The prediction that has these columns."""
        return Prediction(*columns)

    def possible(self, Y: FloatArray) -> Any:
        """Which numbers are targets of this likelihood."""
        return np.ones(Y.shape, dtype=bool)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        """Those in place of the noise."""
        return {}


class Gaussian(Likelihood):
    """Gaussian noise, the default: ``likelihood=Gaussian(noise)`` is ``noise=noise``."""

    def __init__(self, noise: Noise = DEFAULT_NOISE) -> None:
        self.noise = noise


class StudentT(Likelihood):
    """Student-t noise: an observation that is far off counts for little.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SOGP(likelihood=sg.StudentT(scale=0.1))
        >>> model.learn_many([0.0, 0.1, 0.2, 0.1], [1.0, 1.0, 1.0, 1000.0])
        >>> round(model.predict_one(0.1).mean, 1)
        1.0
    """

    kind = observation.STUDENT_T

    def __init__(
        self,
        scale: Annotated[
            float | list[float] | FloatArray,
            Setting(
                "of the noise, about the standard deviation of the good targets; one for each output with "
                'outputs="separate"',
                "unit of the target",
            ),
        ] = 0.1,
        *,
        dof: Annotated[
            float,
            Setting(
                "degrees of freedom, at most 1000: the fewer, the more outliers are expected; the noise has a variance "
                "above 2",
                check=partial(number, above=0, at_most=1000),
            ),
        ] = 4.0,
    ) -> None:
        self._scale, self.dof = positive_vector("scale", scale), dof
        self.noise = self._scale**2
        self.noise_ratio = variance_ratio(self.dof)

    names = (*NUMBERS, "scale")

    def columns(self, function: FloatArray) -> FloatArray:
        mean, variance, noise = function
        scale = np.sqrt(noise)
        return np.stack([mean, variance, self.noise_ratio * scale**2, scale])

    def predicted(self, columns: Sequence[Any]) -> Prediction:
        mean, variance, _, scale = columns
        return StudentTPrediction(mean, variance, scale, self.dof)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return {"scale": float(self._scale[0]) if self._scale.size == 1 else self._scale.copy(), "dof": self.dof}


class _Latent(Likelihood):
    """Observations that are not numbers on the scale of the function."""

    noise_ratio = math.nan
    names = *NUMBERS, "latent.mean", "latent.variance"
    prediction: type[ClassPrediction] | type[CountPrediction]

    def __init__(self) -> None:
        pass

    def columns(self, function: FloatArray) -> FloatArray:
        p = self.prediction.of(*function[:2])
        return np.stack([p.mean, p.variance, p.noise, p.latent.mean, p.latent.variance])

    def predicted(self, columns: Sequence[Any]) -> Prediction:
        mean, variance, noise, latent, spread = columns
        return self.prediction(mean, variance, noise, Prediction(latent, spread, 0.0 * spread))

    def possible(self, Y: FloatArray) -> Any:
        return self.prediction.kind.possible(Y)


class Probit(_Latent):
    """Two classes, targets of 0 and 1: the probability of 1 is Phi(f), the normal distribution function.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SOGP(likelihood=sg.Probit(), variance=4.0)
        >>> model.learn_many([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
        >>> round(model.predict_one(1.5).probability, 2)
        0.88
    """

    kind = observation.PROBIT
    targets = "classes"
    prediction = ClassPrediction


class Poisson(_Latent):
    """Counts, targets of 0, 1, 2, ...: their rate is e^f.

    Example:
        >>> import streamgp as sg
        >>> model = sg.SOGP(likelihood=sg.Poisson())
        >>> model.learn_many([0.0, 0.1, 0.0, 0.1], [5, 7, 6, 6])
        >>> 5 < model.predict_one(0.0).mean < 7
        True
    """

    kind = observation.POISSON
    targets = "counts"
    prediction = CountPrediction


WANTED = {"classes": "0 or 1", "counts": f"whole numbers from 0 to {MOST_COUNTS:g}"}

LikelihoodSetting = Annotated[
    Likelihood | None,
    Setting(
        "StudentT(scale) for outliers, Probit() for classes, Poisson() for counts; None: Gaussian(noise)",
        check=optional(instance(Likelihood, "StudentT(scale=0.1) or Probit()")),
    ),
]


def chosen(noise: Any, likelihood: Likelihood | None) -> Likelihood:
    """The likelihood of these two settings."""
    if likelihood is None:
        return Gaussian(noise)
    if np.ndim(noise) > 0 or noise != DEFAULT_NOISE:
        raise ValueError(
            f"noise={noise!r} and likelihood={likelihood!r} both say how targets scatter; leave one of them out"
        )
    return likelihood


def refuse(likelihood: Likelihood, Y: FloatArray, *, many: bool) -> None:
    """Refuse targets that a likelihood cannot have."""
    wrong = np.isfinite(Y) & ~likelihood.possible(Y)  # inf is refused by all models
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise ValueError(
            f"{'Y' if many else 'y'} has {Y[tuple(at)]:g}{f' in row {at[0]}' if many else ''}: with {likelihood!r} "
            f"targets must be {WANTED[likelihood.targets]}, or NaN where missing; nothing was learned"
        )

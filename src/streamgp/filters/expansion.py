"""Kernel adaptive filters: a growing sum of kernel functions, followed by stochastic gradient steps."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, Unpack

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.lanes import ONE, PREDICT
from streamgp.filters import rules
from streamgp.filters.model import Filter
from streamgp.kernels import KernelSetting, SquaredExponential
from streamgp.settings import Setting
from streamgp.vocabulary import (
    INPUTS,
    Depth,
    OneNoise,
    ShortLengthscale,
    ShortVariance,
    Step,
    Terms,
    not_negative,
    part_of_one,
    positive,
)


class Expansion(TypedDict, total=False):
    """What all of them have in common."""

    lengthscale: ShortLengthscale
    variance: ShortVariance
    capacity: Annotated[Terms, 500]
    depth: Annotated[Depth, 1]


class KLMS(Filter):
    """Kernel least mean squares: every row becomes a term with the coefficient step * error [vanvaerenbergh2016 3.2.1].

    A full filter drops its oldest term for each new one. On smooth streams much longer than the capacity that can make
    the error grow without bound: QKLMS, KNLMS or NORMA do not need this many terms.

    Example:
        >>> from streamgp.filters import KLMS
        >>> model = KLMS(step=0.5)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.predict_one([0.5, 1.0]).mean
        1.0
    """

    _units_of_variance = (("step", -1),)

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        step: Step = 0.5,
        **expansion: Unpack[Expansion],
    ) -> None:
        self._expand(rules.KLMS, kernel, expansion, step=step)


class QKLMS(Filter):
    """Quantized kernel least mean squares: a row near a term moves that term's coefficient [vanvaerenbergh2016 3.2.1].

    A full filter drops its oldest term for each new one.

    Example:
        >>> from streamgp.filters import QKLMS
        >>> model = QKLMS(quantization=0.1)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    _units_of_variance = (("step", -1),)

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        step: Step = 0.5,
        quantization: Annotated[
            float,
            Setting(
                "a row at most this far (Euclidean distance of the windows) from the nearest term is merged into it; 0 "
                "merges exact repetitions only",
                INPUTS,
                not_negative,
            ),
        ] = 0.1,
        **expansion: Unpack[Expansion],
    ) -> None:
        self._expand(rules.QKLMS, kernel, expansion, step=step, quantization=quantization)


class KNLMS(Filter):
    """Kernel normalized least mean squares: every row moves all coefficients [vanvaerenbergh2016 3.2.2].

    A full filter drops its oldest term for each new one.

    Example:
        >>> from streamgp.filters import KNLMS
        >>> model = KNLMS(coherence=0.9)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    _units_of_variance = (("regularization", 2),)

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        step: Annotated[
            float,
            Setting(
                "a row makes good about this part of its own error; keep it below 2, usually below 1", check=positive
            ),
        ] = 0.5,
        coherence: Annotated[
            float,
            Setting(
                "a row becomes a term when |k(b, x)| / sqrt(k(b, b) k(x, x)) is below this for every term b; in (0, 1]",
                check=part_of_one,
            ),
        ] = 0.9,
        regularization: Annotated[
            float,
            Setting(
                "epsilon, added to the squared norm of the kernel vector; keeps steps small where no term reaches",
                "squared unit of the kernel",
                not_negative,
            ),
        ] = 1e-2,
        **expansion: Unpack[Expansion],
    ) -> None:
        tuning = {"step": step, "coherence": coherence, "regularization": regularization}
        self._expand(rules.KNLMS, kernel, expansion, **tuning)


class BetaKLMS(Filter):
    """The family between KLMS and KNLMS that a Gaussian process with a fixed covariance implies [vanvaerenbergh2016 4].

    Every row becomes a term and moves all coefficients; a full filter then drops its oldest term.

    Example:
        >>> from streamgp.filters import BetaKLMS
        >>> model = BetaKLMS(beta=1.0, noise=1.0)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        beta: Annotated[
            float,
            Setting(
                "how much of the error goes to the old terms; 0 is KLMS with step 1 / (noise + k(x, x))",
                "1 / unit of the kernel",
                not_negative,
            ),
        ] = 1.0,
        noise: OneNoise = 0.01,
        **expansion: Unpack[Expansion],
    ) -> None:
        self._expand(rules.BETA_KLMS, kernel, expansion, beta=beta, noise=noise)

    def implied_variance(self, x: Any) -> float:
        """Return the variance of the function that the update assumes at a row that would come next, Eq. (14).

        It explains the filter and is not an error bar: it never falls below the prior's, and for beta > 0 it grows
        where there are data.

        Args:
            x: d numbers.

        Example:
            >>> from streamgp.filters import BetaKLMS
            >>> model = BetaKLMS(beta=1.0)
            >>> before = model.implied_variance(0.5)
            >>> model.learn_one(0.5, 2.0)
            >>> before, model.implied_variance(0.5)
            (1.0, 2.0)
        """
        X = inputs.row(x, self._d)
        model = passing.started_for(self, X)
        columns = np.empty((4, 1, model._p or 1))
        model._do(ONE[PREDICT], X, None, None, None, columns)
        return float(columns[3, 0, 0])


class NORMA(Filter):
    """Kernel least mean squares with forgetting: all coefficients decay at every row [Kivinen, Smola, Williamson 2004].

    A full filter drops its oldest term, which has decayed longest, for each new one.

    Example:
        >>> from streamgp.filters import NORMA
        >>> model = NORMA(step=0.5, regularization=0.1)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    _units_of_variance = (("step", -1), ("regularization", 1))

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        step: Step = 0.5,
        regularization: Annotated[
            float,
            Setting(
                "each learned row multiplies the coefficients by 1 - step * regularization, which must stay above 0; 0 "
                "is KLMS",
                "unit of the kernel",
                not_negative,
            ),
        ] = 1e-3,
        **expansion: Unpack[Expansion],
    ) -> None:
        if step * regularization >= 1:
            raise ValueError(
                "step * regularization must be below 1, or every row forgets all; got "
                f"{step!r} * {regularization!r}. Use a smaller regularization."
            )
        self._expand(rules.NORMA, kernel, expansion, step=step, regularization=regularization)

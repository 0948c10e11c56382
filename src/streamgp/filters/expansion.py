"""Kernel adaptive filters: a growing sum of kernel functions, followed by stochastic gradient steps."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.lanes import ONE, PREDICT
from streamgp.filters import rules
from streamgp.filters.model import Filter
from streamgp.process.memory import Window
from streamgp.process.shorthand import ShortKernel
from streamgp.settings import Given, Setting
from streamgp.vocabulary import INPUTS, Depth, OneNoise, Step, Terms, not_negative, part_of_one, positive


class Expansion(ShortKernel, Filter):
    """A filter whose terms are kernel functions; its other settings are the numbers of its rule."""

    capacity: Terms = 500
    depth: Depth = 1

    def _from_settings(self, given: Given) -> None:
        tuning = {name: value for name, value in vars(given).items() if name not in Expansion.setting_names()}
        self._compose(self._rule, Window(given.depth), tuning, self._kernel_of(given), given.capacity)


class KLMS(Expansion):
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

    step: Step = 0.5

    _rule = rules.KLMS
    _units_of_variance = (("step", -1),)


class QKLMS(Expansion):
    """Quantized kernel least mean squares: a row near a term moves that term's coefficient [vanvaerenbergh2016 3.2.1].

    A full filter drops its oldest term for each new one.

    Example:
        >>> from streamgp.filters import QKLMS
        >>> model = QKLMS(quantization=0.1)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    step: Step = 0.5
    quantization: Annotated[
        float,
        Setting(
            "a row at most this far (Euclidean distance of the windows) from the nearest term is merged into it; 0 "
            "merges exact repetitions only",
            INPUTS,
            not_negative,
        ),
    ] = 0.1

    _rule = rules.QKLMS
    _units_of_variance = (("step", -1),)


class KNLMS(Expansion):
    """Kernel normalized least mean squares: every row moves all coefficients [vanvaerenbergh2016 3.2.2].

    A full filter drops its oldest term for each new one.

    Example:
        >>> from streamgp.filters import KNLMS
        >>> model = KNLMS(coherence=0.9)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    step: Annotated[
        float,
        Setting("a row makes good about this part of its own error; keep it below 2, usually below 1", check=positive),
    ] = 0.5
    coherence: Annotated[
        float,
        Setting(
            "a row becomes a term when |k(b, x)| / sqrt(k(b, b) k(x, x)) is below this for every term b; in (0, 1]",
            check=part_of_one,
        ),
    ] = 0.9
    regularization: Annotated[
        float,
        Setting(
            "epsilon, added to the squared norm of the kernel vector; keeps steps small where no term reaches",
            "squared unit of the kernel",
            not_negative,
        ),
    ] = 1e-2

    _rule = rules.KNLMS
    _units_of_variance = (("regularization", 2),)


class BetaKLMS(Expansion):
    """The family between KLMS and KNLMS that a Gaussian process with a fixed covariance implies [vanvaerenbergh2016 4].

    Every row becomes a term and moves all coefficients; a full filter then drops its oldest term.

    Example:
        >>> from streamgp.filters import BetaKLMS
        >>> model = BetaKLMS(beta=1.0, noise=1.0)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    beta: Annotated[
        float,
        Setting(
            "how much of the error goes to the old terms; 0 is KLMS with step 1 / (noise + k(x, x))",
            "1 / unit of the kernel",
            not_negative,
        ),
    ] = 1.0
    noise: OneNoise = 0.01

    _rule = rules.BETA_KLMS

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


class NORMA(Expansion):
    """Kernel least mean squares with forgetting: all coefficients decay at every row [Kivinen, Smola, Williamson 2004].

    A full filter drops its oldest term, which has decayed longest, for each new one.

    Example:
        >>> from streamgp.filters import NORMA
        >>> model = NORMA(step=0.5, regularization=0.1)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    step: Step = 0.5
    regularization: Annotated[
        float,
        Setting(
            "each learned row multiplies the coefficients by 1 - step * regularization, which must stay above 0; 0 "
            "is KLMS",
            "unit of the kernel",
            not_negative,
        ),
    ] = 1e-3

    _rule = rules.NORMA
    _units_of_variance = (("step", -1), ("regularization", 1))

    def _from_settings(self, given: Given) -> None:
        if given.step * given.regularization >= 1:
            raise ValueError(
                "step * regularization must be below 1, or every row forgets all; got "
                f"{given.step!r} * {given.regularization!r}. Use a smaller regularization."
            )
        super()._from_settings(given)

"""Kernel adaptive filters: a growing sum of kernel functions, followed by stochastic gradient steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import inputs
from streamgp.filters import rules
from streamgp.filters.model import Filter
from streamgp.kernels import Kernel
from streamgp.process.features import checked_kernel
from streamgp.process.memory import Window
from streamgp.settings import number, whole


class KLMS(Filter):
    """Kernel least mean squares: every row becomes a term with the coefficient step * error [vanvaerenbergh2016 3.2.1].

    A full filter drops its oldest term for each new one. On smooth streams much longer than the capacity that can make
    the error grow without bound: QKLMS, KNLMS or NORMA do not need so many terms.

    Args:
        kernel: k(x, z); None: SquaredExponential().
        step: the coefficient over the error, in inverse units of the kernel: a row makes good the part step * k(x, x)
            of its own error; keep that below 1.
        capacity: most terms.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> from streamgp.filters import KLMS
        >>> model = KLMS(step=0.5)
        >>> model.learn_one([0.5, 1.0], 2.0)
        >>> model.predict_one([0.5, 1.0]).mean
        1.0
    """

    def __init__(self, kernel: Kernel | None = None, step: float = 0.5, capacity: int = 500, depth: int = 1) -> None:
        tuning = {"step": number("step", step, above=0)}
        self._compose(rules.KLMS, Window(depth), tuning, checked_kernel(kernel), whole("capacity", capacity))


class QKLMS(Filter):
    """Quantized kernel least mean squares: a row near a term moves that term's coefficient [vanvaerenbergh2016 3.2.1].

    A full filter drops its oldest term for each new one.

    Args:
        kernel: k(x, z); None: SquaredExponential().
        step: the coefficient over the error, in inverse units of the kernel: a row makes good the part step * k(x, x)
            of its own error; keep that below 1.
        quantization: a row at most this far from the nearest term is merged into it: Euclidean distance of the
            windows, in the units of the inputs; 0 merges exact repetitions only.
        capacity: most terms.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> from streamgp.filters import QKLMS
        >>> model = QKLMS(quantization=0.1)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        step: float = 0.5,
        quantization: float = 0.1,
        capacity: int = 500,
        depth: int = 1,
    ) -> None:
        tuning = {
            "step": number("step", step, above=0),
            "quantization": number("quantization", quantization, at_least=0),
        }
        self._compose(rules.QKLMS, Window(depth), tuning, checked_kernel(kernel), whole("capacity", capacity))


class KNLMS(Filter):
    """Kernel normalized least mean squares: every row moves all coefficients [vanvaerenbergh2016 3.2.2].

    A full filter drops its oldest term for each new one.

    Args:
        kernel: k(x, z); None: SquaredExponential().
        step: a row makes good about this part of its own error, without unit; keep it below 2, usually below 1.
        coherence: a row becomes a term when |k(b, x)| / sqrt(k(b, b) k(x, x)) is below this for every term b; in
            (0, 1], without unit.
        regularization: epsilon, added to the squared norm of the kernel vector, in squared units of the kernel.
        capacity: most terms.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> from streamgp.filters import KNLMS
        >>> model = KNLMS(coherence=0.9)
        >>> model.learn_many([0.0, 0.05, 1.0], [1.0, 1.0, 1.0])
        >>> model.basis.tolist()
        [[0.0], [1.0]]
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        step: float = 0.5,
        coherence: float = 0.9,
        regularization: float = 1e-2,
        capacity: int = 500,
        depth: int = 1,
    ) -> None:
        tuning = {
            "step": number("step", step, above=0),
            "coherence": number("coherence", coherence, above=0, at_most=1),
            "regularization": number("regularization", regularization, at_least=0),
        }
        self._compose(rules.KNLMS, Window(depth), tuning, checked_kernel(kernel), whole("capacity", capacity))


class BetaKLMS(Filter):
    """The family between KLMS and KNLMS that a Gaussian process with a fixed covariance implies [vanvaerenbergh2016 4].

    Every row becomes a term and moves all coefficients; a full filter then drops its oldest term.

    Args:
        kernel: k(x, z); None: SquaredExponential().
        beta: how much of the error goes to the old terms; 0 is KLMS with step 1 / (noise + k(x, x)).
        noise: variance of the observation noise, in squared units of the target.
        capacity: most terms.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> from streamgp.filters import BetaKLMS
        >>> model = BetaKLMS(beta=1.0, noise=1.0)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        beta: float = 1.0,
        noise: float = 0.01,
        capacity: int = 500,
        depth: int = 1,
    ) -> None:
        tuning = {
            "beta": number("beta", beta, at_least=0),
            "noise": number("noise", noise, above=0),
        }
        self._compose(rules.BETA_KLMS, Window(depth), tuning, checked_kernel(kernel), whole("capacity", capacity))

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
        model = self._started_for(X)
        implied = np.empty((1, 1))
        model._fill(X, np.empty((1, model._p or 1)), implied)
        return float(implied[0, 0])


class NORMA(Filter):
    """Kernel least mean squares with forgetting: all coefficients decay at every row [Kivinen, Smola, Williamson 2004].

    A full filter drops its oldest term, which has decayed longest, for each new one.

    Args:
        kernel: k(x, z); None: SquaredExponential().
        step: the coefficient over the error, in inverse units of the kernel: a row makes good the part step * k(x, x)
            of its own error; keep that below 1.
        regularization: each row multiplies the coefficients by 1 - step * regularization, which must stay above 0.
        capacity: most terms.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> from streamgp.filters import NORMA
        >>> model = NORMA(step=0.5, regularization=0.1)
        >>> model.learn_one(0.5, 2.0)
        >>> model.predict_one(0.5).mean
        1.0
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        step: float = 0.5,
        regularization: float = 1e-3,
        capacity: int = 500,
        depth: int = 1,
    ) -> None:
        tuning = {
            "step": number("step", step, above=0),
            "regularization": number("regularization", regularization, at_least=0),
        }
        if tuning["step"] * tuning["regularization"] >= 1:
            raise ValueError(
                f"step * regularization must be below 1, or every row forgets all; got {step!r} * {regularization!r}. "
                "Use a smaller regularization."
            )
        self._compose(rules.NORMA, Window(depth), tuning, checked_kernel(kernel), whole("capacity", capacity))

"""The echo-state Gaussian process: a batch GP on the states of a reservoir."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamgp.batch.evidence import Evidence
from streamgp.batch.exact import FullGP
from streamgp.contract import inputs
from streamgp.contract.prediction import Prediction
from streamgp.kernels import SquaredExponential
from streamgp.process.memory import Reservoir, described_reservoir, remembered
from streamgp.settings import Configured, FloatArray


class ESGP(Configured):
    """Echo-state Gaussian process, offline: the exact GP on reservoir states and inputs [soh2014 III].

    What OESGP learns row by row with a bounded basis, at once and with every row: O(n^3).

    Args:
        reservoir: a Reservoir(...) without feedback; None: one of the settings that follow.
        units: number of units.
        spectral_radius: largest modulus of the eigenvalues of the recurrent weights; below 1 the past fades.
        retention: the part of the old state that is kept, in [0, 1).
        connectivity: the part of the recurrent weights that is not zero, in (0, 1].
        input_scale: input weights are uniform in [-input_scale, input_scale].
        seed: of the random weights.
        lengthscale: one, or one for each unit and input; None: sqrt(units + d).
        variance: prior variance of the function, in squared units of the target.
        noise: variance of the observation noise, in squared units of the target.

    Example:
        >>> import numpy as np
        >>> from streamgp.batch import ESGP
        >>> x = np.sin(0.3 * np.arange(200))
        >>> model = ESGP(units=20, noise=1e-4).fit(x[:150], x[1:151])
        >>> p = model.predict(x[150:-1])  # the rows that follow
        >>> bool(np.abs(p.mean - x[151:]).max() < 0.05)
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
        seed: int = 0,
        lengthscale: Any = None,
        variance: float = 1.0,
        noise: float = 0.01,
    ) -> None:
        self._memory = described_reservoir(
            reservoir, units, spectral_radius, retention, connectivity, input_scale, None, seed
        )
        if self._memory.feeds_back:
            raise ValueError("ESGP learns all rows at once and cannot feed targets back; use OESGP for that")
        self.gp = FullGP(SquaredExponential(lengthscale, variance), noise)
        self._rows: FloatArray | None = None

    def fit(self, X: Any, Y: Any, evidence: Evidence | None = None) -> Self:
        """Learn a sequence of rows.

        Args:
            X: (n, d) rows in order.
            Y: (n,) or (n, p) targets.
            evidence: maximise the evidence over lengthscale, variance and noise; None: as they are.
        """
        rows = inputs.rows(X, None)
        self.gp.fit(remembered(self._memory, rows, np.zeros((len(rows), 1))), Y, evidence)
        self._rows = rows
        return self

    def predict(self, X: Any, follows: bool = True) -> Prediction:
        """Predict a sequence of rows.

        Args:
            X: (n, d) rows in order.
            follows: they come after the rows that were learnt; False: a new sequence begins.
        """
        if self._rows is None:
            raise ValueError("this ESGP has learnt nothing yet: call fit(X, Y) first")
        rows = inputs.rows(X, self._rows.shape[1])
        before = self._rows if follows else self._rows[:0]
        whole = np.vstack([before, rows])
        return self.gp.predict(remembered(self._memory, whole, np.zeros((len(whole), 1)))[len(before) :])

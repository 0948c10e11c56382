"""The echo-state Gaussian process: a batch GP on the states of a reservoir."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np

from streamgp.batch.evidence import Evidence
from streamgp.batch.exact import FullGP
from streamgp.contract import inputs
from streamgp.contract.prediction import Prediction
from streamgp.kernels import KernelSetting, SquaredExponential
from streamgp.process.memory import ReservoirSetting, described_reservoir, remembered
from streamgp.settings import Configured, FloatArray, Setting
from streamgp.vocabulary import (
    Connectivity,
    InputScale,
    OneNoise,
    Retention,
    Seed,
    ShortVariance,
    SpectralRadius,
    StateLengthscale,
    Units,
)


class ESGP(Configured):
    """Echo-state Gaussian process, offline: the exact GP on reservoir states and inputs [soh2014 III].

    What OESGP learns row by row with a bounded basis, at once and with every row: O(n^3).

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
        reservoir: Annotated[
            ReservoirSetting, Setting("a Reservoir(...) without feedback; None: one of the settings that describe it")
        ] = None,
        *,
        units: Units = 100,
        spectral_radius: SpectralRadius = 0.9,
        retention: Retention = 0.0,
        connectivity: Connectivity = 0.1,
        input_scale: InputScale = 1.0,
        seed: Seed = 0,
        kernel: KernelSetting = SquaredExponential(),
        lengthscale: StateLengthscale = None,
        variance: ShortVariance = None,
        noise: OneNoise = 0.01,
    ) -> None:
        self._memory = described_reservoir(
            reservoir,
            units=units,
            spectral_radius=spectral_radius,
            retention=retention,
            connectivity=connectivity,
            input_scale=input_scale,
            seed=seed,
        )
        if self._memory.feeds_back:
            raise ValueError("ESGP learns all rows at once and cannot feed targets back; use OESGP for that")
        self.gp = FullGP(kernel, lengthscale=lengthscale, variance=variance, noise=noise)
        self._rows: FloatArray | None = None

    def fit(self, X: Any, Y: Any, evidence: Evidence | None = None) -> Self:
        """Learn a sequence of rows.

        Args:
            X: (n, d) rows in order.
            Y: (n,) or (n, p) targets.
            evidence: maximize the evidence over lengthscale, variance and noise; None: as they are.
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

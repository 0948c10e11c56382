"""An echo-state network whose readout follows the stochastic gradient."""

from __future__ import annotations

from typing import Any

from streamgp.filters import rules
from streamgp.filters.model import Filter
from streamgp.process.memory import Reservoir, described_reservoir
from streamgp.settings import number


class SGDESN(Filter):
    """Echo-state network with a linear readout on [state; x; 1], learnt by stochastic gradient [soh2014 II].

    Args:
        reservoir: a Reservoir(...); None: one of the settings below.
        units: number of units.
        step: learning rate: a row makes good the part step * |[state; x; 1]|^2 of its own error; keep that below 1.
        spectral_radius: largest modulus of the eigenvalues of the recurrent weights; below 1 the past fades.
        retention: the part of the old state that is kept, in [0, 1).
        connectivity: the part of the recurrent weights that is not zero, in (0, 1].
        input_scale: input weights are uniform in [-input_scale, input_scale].
        feedback: None, a scale of random weights, or a (units, p) matrix fed with the last target.
        seed: of the random weights.

    Example:
        >>> import numpy as np
        >>> from streamgp.filters import SGDESN
        >>> x = np.sin(0.3 * np.arange(2000))
        >>> p = SGDESN(units=50, step=0.02).track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[-100:].max() < 0.05)
        True
    """

    def __init__(
        self,
        reservoir: Reservoir | None = None,
        units: int = 100,
        step: float = 0.01,
        spectral_radius: float = 0.9,
        retention: float = 0.0,
        connectivity: float = 0.1,
        input_scale: float = 1.0,
        feedback: Any = None,
        seed: int = 0,
    ) -> None:
        memory = described_reservoir(
            reservoir, units, spectral_radius, retention, connectivity, input_scale, feedback, seed
        )
        tuning = {"step": number("step", step, above=0)}
        self._compose(rules.SGD, memory, tuning)

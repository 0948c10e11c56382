"""An echo-state network whose readout follows the stochastic gradient."""

from __future__ import annotations

from typing import Annotated, Unpack

from streamgp.filters import rules
from streamgp.filters.model import Filter
from streamgp.process.memory import ReservoirSetting
from streamgp.process.shorthand import EchoState, reservoir_of
from streamgp.settings import Setting
from streamgp.vocabulary import positive


class SGDESN(Filter):
    """Echo-state network with a linear readout on [state; x; 1], learned by stochastic gradient [soh2014 II].

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
        reservoir: ReservoirSetting = None,
        *,
        step: Annotated[
            float,
            Setting(
                "learning rate: a row makes good the part step * |[state; x; 1]|^2 of its own error; keep that below 1",
                check=positive,
            ),
        ] = 0.01,
        **settings: Unpack[EchoState],
    ) -> None:
        self._compose(rules.SGD, reservoir_of(reservoir, settings), step=step)

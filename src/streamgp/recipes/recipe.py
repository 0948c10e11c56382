"""What the published models share: settings, and that each is a composition of parts."""

from __future__ import annotations

import abc
from typing import Any

from streamgp.kernels.temporal import BesideInputs
from streamgp.process.likelihood import DEFAULT_NOISE, LikelihoodSetting
from streamgp.process.mean import MeanSetting
from streamgp.process.onlinegp import Adapt, OnlineGP
from streamgp.settings import Declared, Given
from streamgp.vocabulary import Noise, Outputs


class Recipe(Declared, OnlineGP):
    """An OnlineGP whose parts are described by settings; those that OnlineGP has, too, are its."""

    def _from_settings(self, given: Given) -> None:
        self._compose(**given.of(OnlineGP) | self._parts(given))

    @abc.abstractmethod
    def _parts(self, given: Given) -> dict[str, Any]:
        """What OnlineGP is called with beside those."""


class Posterior(Declared):
    """What is observed of the function, and what is known of it beside the rows."""

    noise: Noise = DEFAULT_NOISE
    likelihood: LikelihoodSetting = None
    outputs: Outputs = "shared"
    adapt: Adapt = None
    time: BesideInputs = None
    mean: MeanSetting = None

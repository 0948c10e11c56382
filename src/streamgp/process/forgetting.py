"""Forgetting: how fast the world changes. Each is a scaling of the posterior, fused into the next update."""

from __future__ import annotations

from streamgp.settings import Part
from streamgp.vocabulary import Forgetting as Factor


class Forgetting(Part):
    """How what was learnt fades, S <- covariance_scale S + covariance_fresh I and mu <- mean_scale mu, at every row.

    See :class:`BackToPrior` and :class:`Injection`.
    """

    covariance_scale: float = 1.0
    covariance_fresh: float = 0.0
    mean_scale: float = 1.0
    factor: float = 1.0
    injects: bool = False


class NoForgetting(Forgetting):
    """Everything counts for ever."""

    def __init__(self) -> None:
        pass


class BackToPrior(Forgetting):
    """Every row the posterior moves towards the prior [vanvaerenbergh2016].

    S <- factor S + (1 - factor) I, mu <- sqrt(factor) mu.
    """

    def __init__(self, factor: Factor = 0.999) -> None:
        self.factor = factor
        self.covariance_scale = self.factor
        self.covariance_fresh = 1.0 - self.factor
        self.mean_scale = self.factor**0.5


class Injection(Forgetting):
    """Every row the covariance grows: S <- S / factor; the mean stays (exponential forgetting of RLS).

    Directions that no row excites would grow without bound; the covariance is capped at the prior's, and
    ``model.health`` counts how often.
    """

    injects = True

    def __init__(self, factor: Factor = 0.999) -> None:
        self.factor = factor
        self.covariance_scale = 1.0 / self.factor

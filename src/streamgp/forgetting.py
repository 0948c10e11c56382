"""Forgetting: how fast the world changes. Each is a scaling of the posterior, fused into the next update."""

from __future__ import annotations

from streamgp.settings import Part, number


class Forgetting(Part):
    """How what was learnt fades; see :class:`BackToPrior` and :class:`Injection`.

    ``relative_to_prior`` says what the stored matrix holds, so that forgetting only has to scale it: C itself (the
    change from the prior) when the posterior goes back to the prior, P + C when uncertainty is injected.
    """

    covariance_scale: float = 1.0
    mean_scale: float = 1.0
    relative_to_prior: bool = True
    factor: float = 1.0


class NoForgetting(Forgetting):
    """Everything counts for ever."""

    def __init__(self) -> None:
        pass


class BackToPrior(Forgetting):
    """Every row the posterior moves towards the prior: C <- factor C, alpha <- sqrt(factor) alpha [vanvaerenbergh2016].

    Args:
        factor: in (0, 1]; the memory is about 1 / (1 - factor) rows long.
    """

    def __init__(self, factor: float = 0.999) -> None:
        self.factor = number("forgetting", factor, above=0, at_most=1)
        self.covariance_scale = self.factor
        self.mean_scale = self.factor**0.5


class Injection(Forgetting):
    """Every row the covariance grows: P + C <- (P + C) / factor; the mean stays (exponential forgetting of RLS).

    Directions that no row excites would grow without bound; the covariance is capped at the prior's, and
    ``model.health`` counts how often.

    Args:
        factor: in (0, 1]; the memory is about 1 / (1 - factor) rows long.
    """

    def __init__(self, factor: float = 0.999) -> None:
        self.factor = number("forgetting", factor, above=0, at_most=1)
        self.covariance_scale = 1.0 / self.factor
        self.relative_to_prior = False

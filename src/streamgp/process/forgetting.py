"""Forgetting: how fast the world changes. Each is a scaling of the posterior, fused into the next update."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.settings import Part
from streamgp.vocabulary import Forgetting as Factor
from streamgp.vocabulary import HalfLife

FACTOR = 0.999  # of parts, where none is given


class Forgetting(Part):
    """How what was learned fades, S <- covariance_scale S + covariance_fresh I and mu <- mean_scale mu, at every row.

    See :class:`BackToPrior` and :class:`Injection`. With a half-life the scales are those of the time since the last
    learned row, with 0.5 ** (time / half_life) for the factor.
    """

    covariance_scale: float = 1.0
    covariance_fresh: float = 0.0
    mean_scale: float = 1.0
    factor: float = 1.0
    half_life: float = 0.0  # 0: rows count, not time
    injects: bool = False

    @property
    def forgets(self) -> bool:
        return self.factor < 1 or self.half_life > 0

    @property
    def check_every(self) -> int:
        """After how many rows injection may have doubled the covariance: then it is compared with the prior's."""
        return max(1, int(np.log(0.5) / np.log(self.factor))) if self.injects and self.factor < 1 else 0


class BackToPrior(Forgetting):
    """Every row the posterior moves towards the prior [vanvaerenbergh2016].

    S <- factor S + (1 - factor) I, mu <- sqrt(factor) mu.
    """

    def __init__(self, factor: Factor = FACTOR, *, half_life: HalfLife = None) -> None:
        self.factor, self.half_life = rows_or_time(factor, half_life, FACTOR)
        self.covariance_scale = self.factor
        self.covariance_fresh = 1.0 - self.factor
        self.mean_scale = self.factor**0.5


class Injection(Forgetting):
    """Every row the covariance grows: S <- S / factor; the mean stays (exponential forgetting of RLS).

    Directions that no row excites would grow without bound; the covariance is capped at the prior's, and
    ``model.health`` counts how often.
    """

    injects = True

    def __init__(self, factor: Factor = FACTOR, *, half_life: HalfLife = None) -> None:
        self.factor, self.half_life = rows_or_time(factor, half_life, FACTOR)
        self.covariance_scale = 1.0 / self.factor


def rows_or_time(factor: float, half_life: Any, default: float) -> tuple[float, float]:
    """The factor and the half-life of which one counts: (factor, 0) or (1, half_life)."""
    if half_life is None:
        return factor, 0.0
    if factor != default:
        raise ValueError(
            f"forgetting is by rows, a factor of {factor:g}, or by time, a half_life of {half_life:g}; give one of them"
        )
    return 1.0, half_life


def forgetting_of(kind: type[BackToPrior | Injection], factor: float, half_life: Any, default: float) -> Forgetting:
    """Forgetting of a kind, by rows or by time; none where nothing is forgotten."""
    factor, half_life = rows_or_time(factor, half_life, default)
    if half_life:
        return kind(half_life=half_life)
    return BackToPrior(1.0) if factor == 1 else kind(factor)

"""What can be read of a model beside its numbers: its health, the last change of its basis, the relevance of inputs."""

from __future__ import annotations

from typing import NamedTuple, Self

from streamgp.arrays import Numbers
from streamgp.settings import FloatArray

# The kinds of Health that are repairs of rounding.
REPAIRS = ("skipped_rows", "unresolved_rows", "negative_residuals", "floored_pivots", "resets")


class Health(NamedTuple):
    """What arithmetic did so far that exact numbers would not need, and targets that were not learned.

    Args:
        skipped_rows: rows that were not learned because rounding left no gain between 0 and 1.
        unresolved_rows: rows learned with a noise so small against the prior variance that rounding may show in the
            mean (docs/numerics.md).
        indistinct_points: basis points that left, at a move of hyperparameters or though the budget never evicts,
            because the others explain them as well as arithmetic can tell; no repair.
        negative_residuals: rows whose residual gamma2 came out below 0 by more than rounding and was taken as 0.
        capped_directions: directions in which injected uncertainty had grown above the prior and was cut back to it,
            which is part of forgetting by injection, and gaps after which a Trend starts anywhere; no repair.
        reduced_steps: moves of hyperparameters that had to be halved because they could not be solved well, or because
            points would have left that the others do not replace; no repair.
        floored_pivots: points of a LocalGP that arithmetic could not tell from the span of the others.
        limited_rows: rows for which a member of a Committee with a ``reach`` predicted what no target so far makes
            plausible, and had no weight.
        fill_values: targets so far beyond all others that they cannot be observations, and counted as missing (see
            Standardize), and single broken readings of targets and inputs (see Auto). They are in the data, so they are
            not among the ``repairs``.
        late_rows: rows whose targets came too late for ``Delayed`` to learn them in the order of their times: they were
            learned at the time of the last row; no repair.
        resets: times that a model of a fleet in single precision had to start again.
    """

    skipped_rows: int = 0
    unresolved_rows: int = 0
    indistinct_points: int = 0
    negative_residuals: int = 0
    capped_directions: int = 0
    reduced_steps: int = 0
    floored_pivots: int = 0
    limited_rows: int = 0
    fill_values: int = 0
    late_rows: int = 0
    resets: int = 0

    @classmethod
    def of(cls, numbers: Numbers) -> Self:
        """What the counters of a model say."""
        return cls(**{name: numbers.count(name) for name in cls._fields if name in numbers.counted})

    @property
    def repairs(self) -> int:
        """How often rounding had to be made good; 0 is the normal case."""
        return sum(getattr(self, kind) for kind in REPAIRS)


class Change(NamedTuple):
    """What the last row did to the basis.

    Args:
        absorbed: the row was learned on the basis as it is.
        admitted: the row became a basis point.
        evictions: indices of the points that left, in order, each counted at its own moment.
    """

    absorbed: bool = False
    admitted: bool = False
    evictions: tuple[int, ...] = ()

    @property
    def evicted(self) -> int:
        """The index of the first point that left; -1: none."""
        return self.evictions[0] if self.evictions else -1


class Relevance(NamedTuple):
    """What the lengthscales imply.

    Args:
        inputs: the weight of each input, 1 / lengthscale, normalized to sum 1.
        memory: length of the memory in steps, for a kernel or a window that has one; 1 without memory.
    """

    inputs: FloatArray
    memory: float

"""Budget: what is worth keeping. Admit a row by its novelty; evict the basis point with the lowest score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.settings import Part, choice, number, whole

Array = NDArray

ABSORB = ("fitc", "dtc")
EVICT = ("paper", "kl", "error", "oldest", "never")
REMOVAL = ("marginal", "kl", "discard")
FITC, DTC = range(2)
PAPER, KL, ERROR, OLDEST, NEVER = range(5)
MARGINAL, OTHER_KL, DISCARD = range(3)

# Below sqrt(eps) of the prior variance, gamma2 = k(x,x) - k'Qk has lost half its digits: such a point is in the span of
# the basis as far as arithmetic can tell.
GAMMA2_FLOOR = 1e-8


class Budget(Part):
    """How many basis points are kept, which rows become one, and which leaves when there are too many.

    Args:
        capacity: most basis points.
        novelty: a row is admitted when gamma2 >= novelty * k(x, x); 0 admits every row while there is room.
        absorb: how a row that is not admitted is learnt: "fitc" counts its residual gamma2 as noise, "dtc" drops it.
        evict: who leaves: the lowest "paper" score |alpha| / (Q + C), "kl" alpha^2 / (Q + C) or "error" |alpha| / Q
            (2-norm over outputs), the "oldest", or "never" anyone: then a full basis absorbs every row.
        removal: "marginal" (the others' joint distribution stays), "kl" (the other direction of the divergence), or
            "discard" (a point that leaves takes its observation with it: the exact GP on the rows that are kept).
        admit_untested: with novelty 0, admit while there is room without looking at gamma2.
    """

    def __init__(
        self,
        capacity: int = 100,
        novelty: float = 1e-3,
        absorb: str = "fitc",
        evict: str = "paper",
        removal: str = "marginal",
        admit_untested: bool = True,
    ) -> None:
        self.capacity = whole("capacity", capacity)
        self.novelty = number("novelty", novelty, at_least=0)
        self.absorb = choice("absorb", absorb, ABSORB)
        self.evict = choice("evict", evict, EVICT)
        self.removal = choice("removal", removal, REMOVAL)
        self.admit_untested = bool(admit_untested)


@compiled
def is_novel(gamma2: float, kappa: float, novelty: float, jitter: float, untested: bool) -> bool:
    """Whether a row becomes a basis point."""
    if untested and novelty == 0.0:
        return True
    return gamma2 >= max(max(novelty, GAMMA2_FLOOR) * kappa, jitter)


@compiled
def lowest_score(kind: int, alpha: Array, inverse: Array, diagonals: Array, relative: int, n: int) -> int:
    """The index of the basis point that is missed least; inverse is the diagonal of Q.

    diagonals has that of C, one for all outputs or one for each; with relative = 0 that of Q + C.
    """
    if kind == OLDEST:
        return 0
    outputs, matrices = alpha.shape[1], diagonals.shape[0]
    best, lowest = 0, np.inf
    for i in range(n):
        total = 0.0
        for j in range(outputs):
            denominator = inverse[i]
            if kind != ERROR:
                held = diagonals[j if matrices > 1 else 0, i]
                # Q + C is positive; rounding may not leave it so where the data fixed the weight almost exactly.
                denominator = max(held + inverse[i] if relative else held, 1e-12 * inverse[i])
            a = alpha[i, j]
            # [soh2014] Eq. (25) for "paper"; it is printed with |alpha|, the KL distance has alpha^2.
            total += a * a / denominator if kind == KL else (a / denominator) ** 2
        if total < lowest:
            best, lowest = i, total
    return best

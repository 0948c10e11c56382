"""Budget: what is worth keeping. Admit a row by its novelty; evict the basis point with the lowest score."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import BOOLEAN, NUMBER, VECTOR, WHOLE, compiled, entry
from streamgp.settings import Part, Setting
from streamgp.vocabulary import ABSORB, EVICT, REMOVAL, Absorb, Capacity, Evict, Novelty, Removal

Array = NDArray

FITC, DTC = range(2)
PAPER, KL, ERROR, OLDEST, NEVER = range(5)
MARGINAL, OTHER_KL, DISCARD = range(3)

# A basis point has at least this much variance given all others, relative to its own: features are rounded to about
# eps / sqrt(floor), which has to be small against the noise. The bounds and factors are measured (docs/numerics.md).
LOWEST_FLOOR, HIGHEST_FLOOR = 1e-12, 1e-5
FLOOR_BY_NOISE = 1e-14
# Points that stay, given or never evicted, are asked about the function far from them, where features round worse.
LOWEST_STAYING = 1e-10
ADAPTING = 100.0  # every move of hyperparameters rounds once more


class Budget(Part):
    """How many basis points are kept, which rows become one, and which leaves when there are too many.

    A point that the others explain almost wholly leaves in any case: arithmetic could not tell it apart.
    """

    def __init__(
        self,
        capacity: Capacity = 100,
        *,
        novelty: Annotated[
            Novelty,
            Setting(
                "a row is admitted when gamma2 >= novelty * k(x, x); 0 admits all that arithmetic can tell apart, and "
                "so does a model as long as its hyperparameters adapt"
            ),
        ] = 1e-3,
        absorb: Absorb = "fitc",
        evict: Evict = "paper",
        removal: Removal = "marginal",
    ) -> None:
        self.capacity, self.novelty = capacity, novelty
        self.absorb, self.evict, self.removal = ABSORB.index(absorb), EVICT.index(evict), REMOVAL.index(removal)


@compiled
def floor(kappa: float, noise: float, adapting: bool, stays: bool = False) -> float:
    """The least variance, relative to its own kappa, that a basis point has given all others; stays: never evicted."""
    factor = ADAPTING if adapting else 1.0
    lowest = LOWEST_STAYING if stays else LOWEST_FLOOR
    return factor * min(max(FLOOR_BY_NOISE * kappa / max(noise, 1e-300), lowest), HIGHEST_FLOOR)


@entry(VECTOR, VECTOR, WHOLE, NUMBER, BOOLEAN, BOOLEAN)
def least_distinct(inverse: Array, prior: Array, n: int, noise: float, adapting: bool, stays: bool) -> int:
    """The basis point that the others explain best, if better than its floor allows; otherwise -1."""
    # The variance of point i given all others is 1 / Q_ii.
    worst, largest = -1, 1.0
    for i in range(n):
        excess = inverse[i] * prior[i] * floor(prior[i], noise, adapting, stays)
        if not excess <= largest:
            worst, largest = i, excess
    return worst


@compiled
def lowest_score(kind: int, alpha: Array, inverse: Array, weight_variance: Array, n: int) -> int:
    """The index of the basis point that is missed least.

    alpha are the weights of the kernel functions, inverse is the diagonal of Q; weight_variance has that of Q + C, one
    for all outputs or one for each.
    """
    if kind == OLDEST:
        return 0
    outputs, matrices = alpha.shape[1], weight_variance.shape[0]
    best, lowest = 0, np.inf
    for i in range(n):
        total = 0.0
        for j in range(outputs):
            denominator = inverse[i]
            if kind != ERROR:
                # Q + C is positive; rounding may not leave it so where the data fixed the weight almost exactly.
                denominator = max(weight_variance[j if matrices > 1 else 0, i], 1e-12 * inverse[i])
            a = alpha[i, j]
            # [soh2014] Eq. (25) for "paper"; it is printed with |alpha|, the KL distance has alpha^2.
            total += a * a / denominator if kind == KL else (a / denominator) ** 2
        if total < lowest:
            best, lowest = i, total
    return best

"""The exact GP on the rows that are kept: a row that leaves takes its observation with it.

The factor is that of K + noise I here, and alpha = (K + noise I)^-1 y is solved anew from the kept targets. The noise
of a row is on the diagonal, and leaves with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.linalg import triangular
from streamgp.linalg.vector import fill
from streamgp.process import budget, features, posterior
from streamgp.process.growing import grow, take_out
from streamgp.process.state import ADMITTED, REPLACED

Array = NDArray

# The mean k'alpha is known to about eps k'|alpha|, which is large where neighbors have targets that differ by more than
# the noise allows. A row is unresolved where it is more than this part of the largest target.
UNRESOLVED = 1e-8

# Of kappa, for each row that is kept: with less noise rounding may leave K + noise I without a factor.
ROUNDING = 1e-15


@compiled
def predict(m: Model) -> tuple[float, float]:
    """Mean and latent variance of the input seen; returns kappa and the variance, which is the residual here."""
    n, phi, k = m.counters.points, m.phi, m.k
    kappa = features.kernel_values(m, m.seen, n)
    # [vanvaerenbergh2016] Eq. (2)
    posterior.means(m.mu, k, n, m.mean_now)
    gamma2 = max(features.whiten(m.factor, k, n, kappa, phi), 0.0)
    m.variance_now[0] = gamma2
    return kappa, gamma2


@compiled
def learn(m: Model, kappa: float, gamma2: float) -> None:
    """Keep the row that predict() has just seen, and let one go if there are too many."""
    triangular.solve(m.factor, m.phi, m.counters.points, m.a)
    noise, least = m.noise_now[0], ROUNDING * m.plan.capacity * kappa
    grow(m, kappa, gamma2 + max(noise, least))
    m.counters.change = ADMITTED
    n = m.counters.points
    if n > m.plan.capacity:
        r = 0
        if m.plan.evict == budget.ERROR:
            solve_weights(m, n)
            # The leave-one-out error of row i is alpha_i / [(K + noise I)^-1]_ii.
            r = budget.lowest_score(budget.ERROR, m.mu, m.inverse_diagonal, m.weight_variance, n)
        take_out(m, r)
        fill(m.mu[n - 1], m.plan.outputs, 0.0)
        m.counters.change = REPLACED
    solve_weights(m, m.counters.points)
    m.counters.unresolved_rows += 0 if noise >= least and is_resolved(m) else 1


@compiled
def solve_weights(m: Model, n: int) -> None:
    # [vanvaerenbergh2016] Eq. (7)
    one = m.score
    for o in range(m.plan.outputs):
        for i in range(n):
            one[i] = m.targets[i, o]
        triangular.solve_transposed(m.factor, one, n, one)
        triangular.solve(m.factor, one, n, one)
        for i in range(n):
            m.mu[i, o] = one[i]


@compiled
def is_resolved(m: Model) -> bool:
    """Whether the means of all outputs are known well enough."""
    for o in range(m.plan.outputs):
        total = largest = 0.0
        for i in range(m.counters.points):
            total += m.prior[i] * np.abs(m.mu[i, o])
            largest = max(largest, np.abs(m.targets[i, o]))
        if np.finfo(np.float64).eps * total > UNRESOLVED * largest:
            return False
    return True

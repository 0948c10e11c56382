"""The exact GP on the rows that are kept: a row that leaves takes its observation with it.

The factor is that of K + noise I here, and alpha = (K + noise I)^-1 y is solved anew from the kept targets.
"""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp import budget, features, posterior
from streamgp.compiled import compiled
from streamgp.core.dictionary import compare, grow, shrink
from streamgp.core.layout import (
    ADMITTED,
    CAPACITY,
    CHANGE,
    EVICT,
    EVICTED,
    OUTPUTS,
    REPLACED,
    SIZE,
    Scratch,
    State,
)
from streamgp.linalg import triangular, vector

Array = NDArray


@compiled
def predict_kept(plan: Array, n: int, state: State, w: Scratch) -> float:
    """Mean and latent variance of the input seen into w.mean and w.variance; returns kappa."""
    kappa = compare(plan, state, n, w)
    posterior.means(state.mean, w.k, n, w.mean)
    # [vanvaerenbergh2016] Eq. (2b)
    w.variance[0] = features.whiten(state.factor, w.k, n, kappa, w.another)
    return kappa


@compiled
def solve_weights(state: State, n: int, p: int, w: Scratch) -> None:
    # [vanvaerenbergh2016] Eq. (7)
    for j in range(p):
        for i in range(n):
            w.one[i] = state.targets[i, j]
        triangular.solve_transposed(state.factor, w.one, n, w.one)
        triangular.solve(state.factor, w.one, n, w.one)
        for i in range(n):
            state.mean[i, j] = w.one[i]


@compiled
def learn_kept(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """Keep the row that predict_kept() has just predicted, and let one go if there are too many."""
    n, p = counters[SIZE], plan[OUTPUTS]
    triangular.solve(state.factor, w.another, n, w.psi)
    grow(state, n, w.variance[0] + state.noise[0], w)
    vector.copy(w.y, p, state.targets[n])
    n += 1
    counters[CHANGE] = ADMITTED
    counters[EVICTED] = -1
    if n > plan[CAPACITY]:
        r = 0
        if plan[EVICT] == budget.ERROR:
            solve_weights(state, n, p, w)
            # The leave-one-out error of row i is alpha_i / [(K + noise I)^-1]_ii.
            r = budget.lowest_score(budget.ERROR, state.mean, state.inverse_diagonal, w.diagonals, 1, n)
        triangular.inverse_column(state.factor, r, n, w.phi)
        shrink(state, w.phi, r, n, w)
        vector.fill(state.mean[n - 1], p, 0.0)
        n -= 1
        counters[CHANGE] = REPLACED
        counters[EVICTED] = r
    solve_weights(state, n, p, w)
    counters[SIZE] = n

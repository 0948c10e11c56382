"""Forgetting once, between two rows: what was learnt fades as far as it is told to."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from streamgp import posterior
from streamgp.core import layout


def fade(plan: np.ndarray, size: int, state: layout.State, factor: float) -> None:
    """Keep ``factor`` of what was learnt, in the form in which the posterior is held; see forgetting.py for the forms.

    Injected uncertainty is cut back to the prior's at once, since one step may go far beyond it.
    """
    growing = plan[layout.ENGINE] == layout.DICTIONARY
    n = size if growing else int(plan[layout.WEIGHTS])
    prior, several = state.scalars[layout.PRIOR], len(state.covariance) > 1
    for j, M in enumerate(state.covariance):
        mean = state.mean[:, j : j + 1] if several else state.mean
        if plan[layout.FACTORED]:
            posterior.scale_factor(M, mean, factor**0.5, n)
            posterior.cap_information(M, mean, state.noise[j] / prior, n)
        elif plan[layout.RELATIVE]:
            M[:n, :n] *= factor
            mean[:n] *= factor**0.5
        elif growing:
            # The prior is (R'R)^-1: in the coordinates R w it is the identity.
            R = np.triu(state.factor[:n, :n])
            lower = np.tril(M[:n, :n]) / factor
            W = np.ascontiguousarray(R @ (lower + np.tril(lower, -1).T) @ R.T)
            posterior.cap_at_prior(W, 1.0, n)
            W = np.tril(W) + np.tril(W, -1).T
            M[:n, :n] = np.tril(solve_triangular(R, solve_triangular(R, W).T))
        else:
            M[:n, :n] /= factor
            posterior.cap_at_prior(M, prior, n)
    state.power[...] *= factor

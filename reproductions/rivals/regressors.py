"""The subset of regressors."""

from __future__ import annotations

from streamgp.batch import FITC


class SubsetOfRegressors(FITC):
    """A finite linear model in the kernel functions of some points (SoR) [smola2001].

    FITC without the residual of the points, with the same settings. Its variance vanishes far from the points: it is
    too sure there.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from reproductions.rivals import SubsetOfRegressors
        >>> X = np.linspace(0.0, 6.0, 200)
        >>> model = SubsetOfRegressors(sg.SquaredExponential(1.0), noise=0.01, points=15).fit(X, np.sin(X))
        >>> round(float(model.predict([1.5]).mean[0]), 1)
        1.0
    """

    _residual_counts = False

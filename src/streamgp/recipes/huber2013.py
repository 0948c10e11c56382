"""The model of Huber, Recursive Gaussian Process Regression, and where to put its basis."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Unpack

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.contract.saved import Shape
from streamgp.kernels import KernelSetting, SquaredExponential, described_kernel
from streamgp.process.composed import place_points
from streamgp.process.features import Basis
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.shorthand import Observed
from streamgp.process.state import LAYOUT
from streamgp.settings import FloatArray, Setting, real_matrix, whole
from streamgp.vocabulary import INPUTS, Jitter, ShortLengthscale, ShortVariance

SLACK = 1e-6  # of a variance in [0, 1] that is taken over: rounding leaves far less


class RecursiveGP(OnlineGP):
    """Recursive Gaussian process regression on basis points that are given and stay [huber2013].

    Example:
        >>> import streamgp as sg
        >>> model = sg.RecursiveGP(sg.grid(-3, 3, 13), kernel=sg.SquaredExponential(1.0), mean=lambda X: 2 * X[:, 0])
        >>> model.learn_one(0.2, 1.0)
        >>> round(model.predict_one(0.2).mean, 2), model.predict_one(100.0).mean
        (0.99, 200.0)
    """

    def __init__(
        self,
        basis: Annotated[
            Any, Setting("(m, d) basis points; see grid and kmeans", INPUTS, partial(real_matrix, shape="(m, d)"))
        ],
        *,
        kernel: KernelSetting = SquaredExponential(),
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        jitter: Jitter = 0.0,
        batch: Annotated[
            int,
            Setting(
                "rows learned together by learn_many and track: b rows are predicted, then learned; learn_one is a "
                "batch of one; rows of a batch share their residual, so that other batches give slightly other results",
                "rows",
                whole,
            ),
        ] = 1,
        **settings: Unpack[Observed],
    ) -> None:
        self._batch = batch
        prior = described_kernel(kernel, lengthscale=lengthscale, variance=variance)
        super().__init__(Basis(prior, jitter=jitter, points=basis), **settings)

    def insert(self, points: Any) -> None:
        """Add basis points where the function is needed more finely; all that was learned stays [huber2013 4].

        Args:
            points: (k, d) new points; they become part of the setting ``basis``.
        """
        old = self._features.points
        assert old is not None
        new = real_matrix("points", points, f"(k, {old.shape[1]})")
        if new.shape[1] != old.shape[1]:
            raise ValueError(f"points must have {old.shape[1]} columns, as the basis has; got {new.shape[1]}")
        grown = type(self)(**(self.get_params() | {"basis": np.vstack([old, new])}))
        if self._d is not None:
            grown._prepare(self._shape)
            after = grown._state
            # The joint prior of old and new values given the old ones: in coordinates in which the prior is the
            # identity the new ones are independent of all that was learned.
            for name in LAYOUT.state:
                known = getattr(self._state, name)
                getattr(after, name)[tuple(map(slice, known.shape))] = known
            place_points(grown._features, after, 1, adapting=self._adapt is not None, known=len(old))
            grown._numbers.counters[:] = self._numbers.counters
            grown._numbers.counters["points"] = len(old) + len(new)
        self.__dict__.update(grown.__dict__)

    def start_from(self, mean: Any, covariance: Any) -> None:
        """Take over what is known of the function at the basis points, in place of all that was learned.

        Args:
            mean: (m,) means of the function there.
            covariance: (m, m) their covariance.
        """
        points = self._features.points
        assert points is not None
        if self._terms:
            raise ValueError("a kernel over time (time=) shares the posterior with the basis points: leave it out")
        if self._linear is not None:
            raise ValueError("mean=LinearMean(...) shares the posterior with the basis points: use another mean")
        m = len(points)
        known, S = np.asarray(mean, dtype=np.float64), real_matrix("covariance", covariance, f"({m}, {m})")
        if known.shape != (m,) or S.shape != (m, m):
            raise ValueError(
                f"mean must have shape ({m},) and covariance ({m}, {m}), as there are {m} basis points; got "
                f"{known.shape} and {S.shape}"
            )
        fresh = self.clone()
        fresh._prepare(Shape(points.shape[1], 1, scalar=True, certain=True))
        prior, R = fresh._prior_mean(points), fresh._state.factor
        # Whitened values w = R^-T f(B).
        fresh._state.mu[:, 0] = solve_triangular(R, known if prior is None else known - prior[:, 0], trans="T")
        half = solve_triangular(R, S, trans="T")
        S = solve_triangular(R, half.T, trans="T")
        values, vectors = np.linalg.eigh(0.5 * (S + S.T))
        if values[0] < -SLACK or values[-1] > 1.0 + SLACK:
            raise ValueError(
                "covariance must lie between 0 and the prior's, which data can only narrow; in units of the prior its "
                f"variances are from {values[0]:.3g} to {values[-1]:.3g}"
            )
        fresh._state.covariance[0] = np.tril(vectors * np.clip(values, 0.0, 1.0) @ vectors.T)
        self.__dict__.update(fresh.__dict__)


def grid(low: Any, high: Any, points: Any) -> FloatArray:
    """Return basis points on a regular grid, the ends included.

    Example:
        >>> import streamgp as sg
        >>> sg.grid([0, 0], [1, 2], [2, 3]).tolist()
        [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]
    """
    low, high, points = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high), np.atleast_1d(points))
    counts = [whole("points", count) for count in points.tolist()]
    if not np.all(np.isfinite(low)) or not np.all(np.isfinite(high)) or not np.all(low < high):
        raise ValueError(f"low must be below high along every input; got low={low.tolist()}, high={high.tolist()}")
    axes = [np.linspace(a, b, count) for a, b, count in zip(low, high, counts, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def kmeans(X: Any, count: int, seed: int = 0) -> FloatArray:
    """Return basis points at the centers of clusters of rows, for example of a prefix of the stream.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> sg.kmeans(np.random.default_rng(0).normal(size=(200, 2)), 10).shape
        (10, 2)
    """
    from scipy.cluster.vq import kmeans2  # imports that few need and that take long

    rows = real_matrix("X", X, "(n, d)")
    distinct = np.unique(rows, axis=0)
    if len(distinct) < whole("count", count):
        raise ValueError(f"X must have at least {count} different rows for {count} basis points; got {len(distinct)}")
    # Start from rows: an empty cluster cannot arise at the first step, and a later one keeps its center.
    start = distinct[np.random.default_rng(whole("seed", seed, at_least=0)).permutation(len(distinct))[:count]]
    centers, _ = kmeans2(rows, start, minit="matrix", missing="raise" if len(distinct) == count else "warn")
    return np.ascontiguousarray(centers)

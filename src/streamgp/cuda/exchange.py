"""Between a single model and its record on a GPU: the same posterior in other coordinates.

A record has any L with L K L' = I, a single model the triangle R with K = R'R. Weights in the coordinates of L are Q'
times those of R, where Q' = L R' is orthogonal; in single precision only nearly, and the nearest orthogonal matrix is
taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
from scipy.linalg import LinAlgError, cholesky, inv, qr, solve_triangular

from streamgp.compiled import uncompiled
from streamgp.contract.model import StreamModel
from streamgp.cuda import covariance
from streamgp.cuda.record import CHANGE, COUNTS, POINTS, REFRESHED, RESETS, SCALES, SINGLE_FLOOR, UNIT
from streamgp.cuda.whitened import BasisShape
from streamgp.kernels import Matern, SquaredExponential
from streamgp.process import budget, observation
from streamgp.process import features as feature_kinds
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.rare import weights_in_use
from streamgp.settings import FloatArray

NUMBERS = {"double": np.float64, "single": np.float32}

# Single precision: the least novelty, and the least noise relative to the variance that goes with it. Below, streams
# were seen to be predicted more than 5% worse, or were not tried (docs/fleet.md).
SAFE = ((0.01, 1e-2), (0.05, 1e-4))
# Of kappa: a residual that rounding cannot tell from 0, and one that shows that more than rounding is wrong.
ROUNDING = {"double": (2e-15, -1e-12), "single": (2e-6, -1e-4)}
UNRESOLVED = {"double": 1e-9, "single": 1e-4}


def fits(model: StreamModel) -> TypeGuard[OnlineGP]:
    """Whether records have all of a model: a bare growing basis of one output as most have it."""
    if not isinstance(model, OnlineGP):
        return False
    parts, kernel, spent = model._features, model._features.kernel, model._budget
    return (
        parts.kind == feature_kinds.DICTIONARY
        and isinstance(kernel, SquaredExponential | Matern)
        and kernel.factors is None
        and spent.absorb == budget.FITC
        and spent.removal == budget.MARGINAL
        and spent.evict in (budget.PAPER, budget.KL, budget.ERROR)
        and not (model._memory.recalls or model._forgetting.injects or model._terms or model._estimate_power)
        and not model._needs_time
        and model._p in (None, 1)
        and model._mean is None
        and model._likelihood.kind == observation.GAUSSIAN
    )


def refuse_single(model: StreamModel, own: dict[str, FloatArray]) -> None:
    """Refuse single precision where it was not shown to be safe; NaN of own hyperparameters: the recipe's."""
    if not fits(model):
        why = (
            "it is for a bare growing basis of one output with SquaredExponential or Matern alone, without a memory, a "
            "half_life, a kernel over time, a mean or a likelihood of its own"
        )
    elif (relative := _least_relative_noise(model, own)) >= least_noise(model, "single"):
        return
    else:
        pairs = ", or ".join(f"novelty={novelty:g} and a noise of {noise:g} of the variance" for novelty, noise in SAFE)
        why = f"it needs at least {pairs}; got novelty={model._budget.novelty:g} and {relative:g}"
    raise ValueError(f'precision="single" is not safe here: {why}. Use precision="double"')


def _least_relative_noise(model: OnlineGP, own: dict[str, FloatArray]) -> float:
    """Of all models, over their variances."""
    recipe = {"noise": model._noise.min(), "variance": getattr(model._features.kernel, "variance", 1.0)}
    values = [
        np.where(np.isnan(own[name]), recipe[name], own[name]) if name in own else recipe[name] for name in recipe
    ]
    return float(np.min(values[0] / values[1], initial=np.inf))


def least_noise(model: OnlineGP, precision: str) -> float:
    """Of a row, over the variance: below it a GPU would lose digits that the cores keep."""
    if precision == "double":
        return 0.0
    return min((noise for novelty, noise in SAFE if model._budget.novelty >= novelty), default=np.inf)


def refuse_large(shape: BasisShape, shared: int) -> None:
    """Refuse models whose records do not fit into the shared memory that a GPU has for each."""
    needed = shape.scratch["end"] * shape.bytes
    if needed > shared:
        raise ValueError(
            f"a model of this recipe takes {needed:,} bytes of shared memory in precision="
            f'"{"single" if shape.bytes == 4 else "double"}", and this GPU has {shared:,} for each; use fewer basis '
            'points, or device="cpu"'
        )


class Kept(NamedTuple):
    """What a GPU keeps of a model, or of several with one more axis in front."""

    record: np.ndarray  # its numbers, in units of the kernel
    origin: np.ndarray  # of its inputs
    counts: np.ndarray  # in the order of record.COUNTS
    own: np.ndarray  # its noise and its units, as record.py has them


class Root(NamedTuple):
    """A posterior on a basis, in units of the kernel."""

    K: FloatArray  # prior covariance of the points, jitter included
    R: FloatArray  # its root, K = R'R
    inverse: FloatArray  # of R
    S: FloatArray  # covariance of the whitened weights
    mu: FloatArray  # their mean

    @property
    def weight_variance(self) -> FloatArray:
        """The diagonal of R^-1 S R^-T."""
        found: FloatArray = np.einsum("ij,jk,ik->i", self.inverse, self.S, self.inverse)
        return found


class Exchange:
    """Writes records for models of one recipe, prepared for its rows, and reads them."""

    def __init__(self, model: OnlineGP, precision: str) -> None:
        assert model._d is not None
        self._model, self._precision, self.number = model, precision, NUMBERS[precision]
        d, size = model._d, np.dtype(self.number).itemsize
        self._kernel = cast(Any, model._features.kernel)
        kernel, evict = int(self._kernel.program(d, 1).operations[0, 0]), model._budget.evict
        self.shape = BasisShape(model._budget.capacity, d, kernel, evict, size)
        self.least_noise = least_noise(model, precision)
        self._own = self._own_of(model)
        self._own_scales = self._own[SCALES : SCALES + d]
        self._places = covariance.places(self.shape.coordinates)

    def _own_of(self, model: OnlineGP) -> FloatArray:
        """What a model has of its own, in the order of record.py."""
        named = self._kernel.hyperparameters(model._state.parameters, self.shape.width, 1)
        variance, scales = np.array([named["variance"]], dtype=float), np.asarray(named["lengthscale"])
        own: FloatArray = self.own(model._state.noise[:1], variance, scales)[0]
        return own

    def own(self, noise: FloatArray, variance: FloatArray, lengthscale: FloatArray) -> FloatArray:
        """The same of models with these noises and variances, (n,), and lengthscales, (n, 1) or (n, d)."""
        kappa, novelty = 1.0 + self._model._features.jitter, self._model._budget.novelty
        noise, unit = noise / variance, np.sqrt(variance)
        if self._precision == "single":
            floor = np.full(len(noise), SINGLE_FLOOR)
        else:
            floor = np.array([uncompiled(budget.floor)(kappa, value, False) for value in noise.tolist()])
        scales = np.broadcast_to(lengthscale, (len(noise), self.shape.width))
        learned_with = noise, np.maximum(novelty, floor) * kappa, 1.0 / (kappa * floor)
        return np.column_stack([*learned_with, unit, 1.0 / unit, scales, 1.0 / scales])

    @property
    def shared(self) -> np.ndarray:
        """What all models share, in the order of record.SHARED."""
        model, precision = self._model, self._precision
        forgetting, kappa = model._forgetting, 1.0 + model._features.jitter
        rounding, negative = ROUNDING[precision]
        shared = [
            forgetting.covariance_scale,
            forgetting.covariance_fresh,
            forgetting.mean_scale,
            kappa,
            rounding * kappa,
            negative * kappa,
            UNRESOLVED[precision] * kappa,
            model._budget.novelty,
        ]
        return np.array(shared).astype(self.number)

    @property
    def blank(self) -> Kept:
        """A model that has learned nothing."""
        record = np.zeros(self.shape.numbers, self.number)
        record[: self.shape.coordinates] = 1.0  # the main diagonal of W comes first
        return Kept(record, np.zeros(self.shape.width), np.zeros(len(COUNTS), np.int64), self._own.copy())

    # A single model.

    def write(self, model: StreamModel) -> Kept:
        """What a GPU keeps of a single model."""
        assert isinstance(model, OnlineGP)
        _, origin, counts, own = kept = self.blank
        state, n, d = model._state, weights_in_use(model._numbers), self.shape.width
        own[:] = self._own_of(model)
        for k, name in enumerate(COUNTS[:RESETS]):
            counts[k] = model._numbers.count(name)
        unit, scales = own[UNIT], own[SCALES : SCALES + d]
        inverse = unit * solve_triangular(state.factor[:n, :n], np.eye(n))
        if n:
            origin[:] = np.median(state.basis[:n], axis=0)
        S, variances = _symmetric(state.covariance[0], n), unit * unit * state.weight_variance[:1, :n].ravel()
        points = (state.basis[:n] - origin) / scales
        return kept._replace(record=self._filled(points, inverse.T, S, state.mu[:n, 0], variances))

    def _filled(
        self, points: FloatArray, L: FloatArray, S: FloatArray, mu: FloatArray, variances: FloatArray
    ) -> np.ndarray:
        """The record of a posterior on points; variances are those of the weights of kernel functions."""
        record, at, n = self.blank.record, self.shape.at, len(mu)
        basis, rows = self._basis(record)
        basis[:, :n], rows[:n, :n] = points.T, L
        record[at["W"] + self._places[:n, :n]] = S
        record[at["beta"] : at["beta"] + n] = mu
        if self.shape.scored:
            record[at["held"] : at["held"] + n] = variances
        return record

    def _basis(self, record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points, (d, capacity), and L in a record."""
        shape = self.shape
        basis, L = shape.at["basis"], shape.at["L"]
        return (
            record[basis : basis + shape.width * shape.points].reshape(shape.width, shape.points),
            record[L : L + shape.points * shape.stride].reshape(shape.points, shape.stride),
        )

    def read(self, kept: Kept, model: StreamModel) -> None:
        """Write what a GPU keeps into a single model of the same recipe and shape.

        In double precision R follows from L, also where K is too near to a singular matrix to be factored again.
        """
        assert isinstance(model, OnlineGP)
        record, origin, counts, own = kept
        numbers, state, shape, d = model._numbers, model._state, self.shape, self.shape.width
        f = record.astype(float)
        for k, name in enumerate(COUNTS[:RESETS]):  # a single model never starts again
            numbers.counters[name] = counts[k]
        numbers.counters["evictions"] = 0
        numbers.work.last_prediction[:] = 0.0
        n, unit = int(counts[POINTS]), own[UNIT]
        points = self._basis(f)[0][:, :n].T
        found = self._root(f, points, trusted=self._precision == "double")
        for array in (state.basis, state.prior, state.factor, state.inverse_diagonal, state.covariance, state.mu):
            array[...] = 0.0
        state.basis[:n] = points * own[SCALES : SCALES + d] + origin
        state.prior[:n], state.factor[:n, :n] = unit * unit * np.diag(found.K), unit * found.R
        state.inverse_diagonal[:n] = np.einsum("ij,ij->i", found.inverse, found.inverse) / (unit * unit)
        state.covariance[0, :n, :n], state.mu[:n] = np.tril(found.S), found.mu[:, None]
        if shape.scored:
            state.weight_variance[0] = 0.0
            state.weight_variance[0, :n] = found.weight_variance / (unit * unit)

    def _root(self, f: FloatArray, points: FloatArray, trusted: bool) -> Root:
        """The posterior of a record in the coordinates of the triangle R."""
        n = len(points)
        L, K = self._basis(f)[1][:n, :n], self._prior(points)
        R, Q = _from_root(L) if trusted else _from_prior(L, K)
        beta = self.shape.at["beta"]
        S, mu = f[self.shape.at["W"] + self._places[:n, :n]], f[beta : beta + n]
        return Root(K, R, solve_triangular(R, np.eye(n)), _within_prior(Q @ S @ Q.T), Q @ mu)

    def _prior(self, points: FloatArray) -> FloatArray:
        """The covariance of points, both in units of the kernel."""
        variance = self._own[UNIT] ** 2
        K = self._kernel(points * self._own_scales) / variance if len(points) else np.zeros((0, 0))
        return np.asarray(K * (1.0 + self._model._features.jitter * np.eye(len(points))))

    # Repairs.

    def refreshed(self, kept: Kept) -> Kept:
        """A record made anew in double precision from its basis; a model that starts again where it is past that."""
        counts = kept.counts.copy()
        counts[CHANGE], counts[REFRESHED] = 0, 0
        try:
            if not np.isfinite(kept.record).all():
                raise LinAlgError("numbers that are not finite")
            f = kept.record.astype(float)
            points = self._basis(f)[0][:, : counts[POINTS]].T
            found = self._root(f, points, trusted=False)
        except LinAlgError:
            counts[POINTS] = 0
            counts[RESETS] += 1
            return self.blank._replace(counts=counts, own=kept.own)
        record = self._filled(points, found.inverse.T, found.S, found.mu, found.weight_variance)
        return kept._replace(record=record, counts=counts)


def _symmetric(lower: FloatArray, n: int) -> FloatArray:
    full: FloatArray = np.tril(lower[:n, :n])
    return full + np.tril(full, -1).T


def _from_root(L: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R with R'R = K and a positive diagonal, and Q', for L K L' = I; K itself is not factored."""
    Q, R = qr(inv(L).T)
    signs = np.where(np.diag(R) < 0.0, -1.0, 1.0)
    return np.triu(signs[:, None] * R), (Q * signs).T


def _from_prior(L: FloatArray, K: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same where L is only nearly a root of K^-1."""
    R = cholesky(K)
    return R, _orthogonal(L @ R.T).T


def _orthogonal(A: FloatArray) -> FloatArray:
    """The orthogonal matrix nearest to A."""
    U, _, Vt = np.linalg.svd(A)
    nearest: FloatArray = U @ Vt
    return nearest


def _within_prior(S: FloatArray) -> FloatArray:
    """S with eigenvalues in [0, 1] where rounding left them outside."""
    S = 0.5 * (S + S.T)
    values = np.linalg.eigvalsh(S)
    if len(values) == 0 or (values[0] >= 0.0 and values[-1] <= 1.0):
        return S
    values, vectors = np.linalg.eigh(S)
    bounded: FloatArray = (vectors * np.clip(values, 0.0, 1.0)) @ vectors.T
    return bounded

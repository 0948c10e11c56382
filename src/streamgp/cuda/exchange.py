"""Between a single model and its record on a GPU: the same posterior in other coordinates.

A record has any L with L K L' = I, a single model the triangle R with K = R'R. Weights in the coordinates of L are Q'
times those of R, where Q' = L R' is orthogonal; in single precision only nearly, and the nearest orthogonal matrix is
taken.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, inv, qr, solve_triangular

from streamgp.contract.model import StreamModel
from streamgp.cuda import covariance
from streamgp.cuda.record import CHANGE, COUNTS, POINTS, REFRESHED, RESETS
from streamgp.cuda.spectral import SpectralShape
from streamgp.cuda.whitened import BasisShape
from streamgp.kernels import Matern, SquaredExponential
from streamgp.process import budget, observation
from streamgp.process import features as feature_kinds
from streamgp.process.features import Fourier
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.posterior import COVARIANCE_NOISE
from streamgp.settings import FloatArray

NUMBERS = {"double": np.float64, "single": np.float32}

# Single precision: the least novelty, and the least noise relative to the variance that goes with it. Below, streams
# were seen to be predicted more than 5% worse, or were not tried (docs/fleet.md).
SAFE = ((0.01, 1e-2), (0.05, 1e-4))
# A basis point has at least this part of its variance given all others: features are rounded to eps / sqrt(floor).
SINGLE_FLOOR = 1e-5
# Of kappa: a residual that rounding cannot tell from 0, and one that shows that more than rounding is wrong.
ROUNDING = {"double": (2e-15, -1e-12), "single": (2e-6, -1e-4)}
UNRESOLVED = {"double": 1e-9, "single": 1e-4}


def refuse_unfit(model: StreamModel, precision: str) -> None:
    """Refuse a recipe that a GPU does not run, with the reason."""
    if not isinstance(model, OnlineGP):
        raise ValueError(
            f'device="cuda" runs bare recipes with a posterior; got {type(model).__name__}. Scale rows before they '
            'come, or use device="cpu"'
        )
    parts, kernel, spent = model._features, model._features.kernel, model._budget
    growing = parts.kind == feature_kinds.DICTIONARY
    cannot = {
        "features other than a basis that grows and Fourier": not (growing or isinstance(parts, Fourier)),
        "kernels other than SquaredExponential and Matern": growing
        and not (isinstance(kernel, SquaredExponential | Matern) and kernel.factors is None),
        "a memory (depth above 1, a reservoir)": model._memory.width(1) != 1,
        'budgets other than absorb="fitc", removal="marginal", evict="paper", "kl" or "error"': growing
        and (
            spent.absorb != budget.FITC
            or spent.removal != budget.MARGINAL
            or spent.evict not in (budget.PAPER, budget.KL, budget.ERROR)
        ),
        "forgetting other than by rows and back to the prior": model._needs_time or model._forgetting.injects,
        "adapt=": model._adapt is not None,
        "estimate_power=True": model._estimate_power,
        "mean=": model._mean is not None,
        "a likelihood that is not Gaussian": model._likelihood.kind != observation.GAUSSIAN,
        "noise=0": model._least_squares,
        f"Fourier features with a noise below {COVARIANCE_NOISE:g} of the variance": (
            isinstance(parts, Fourier) and model._noise.min() < COVARIANCE_NOISE * parts.variance
        ),  # they are held in covariance form there
    }
    for what, asked in cannot.items():
        if asked:
            raise ValueError(f'device="cuda" does not run {what}; use device="cpu"')
    if precision == "single":
        relative = model._noise[0] / getattr(kernel, "variance", 1.0)
        if not growing:
            why = "Fourier features were not shown to be safe in it"
        elif any(spent.novelty >= novelty and relative >= noise for novelty, noise in SAFE):
            return
        else:
            pairs = ", or ".join(
                f"novelty={novelty:g} and a noise of {noise:g} of the variance" for novelty, noise in SAFE
            )
            why = f"it needs at least {pairs}; got novelty={spent.novelty:g} and {relative:g}"
        raise ValueError(f'precision="single" is not safe here: {why}. Use precision="double"')


def refuse_large(shape: BasisShape | SpectralShape, shared: int) -> None:
    """Refuse models whose records do not fit into the shared memory that a GPU has for each."""
    needed = shape.scratch["end"] * shape.bytes
    if needed > shared:
        raise ValueError(
            f"a model of this recipe takes {needed:,} bytes of shared memory in precision="
            f'"{"single" if shape.bytes == 4 else "double"}", and this GPU has {shared:,} for each; use fewer basis '
            'points or frequencies, or device="cpu"'
        )


class Kept(NamedTuple):
    """What a GPU keeps of a model, or of several with one more axis in front.

    Args:
        record: its numbers, in units of the kernel.
        origin: of its inputs.
        counts: in the order of record.COUNTS.
    """

    record: np.ndarray
    origin: np.ndarray
    counts: np.ndarray


class Exchange:
    """Writes records for models of one recipe and reads them.

    Args:
        model: of the recipe, prepared for its rows.
        precision: "double" or "single".
    """

    def __init__(self, model: OnlineGP, precision: str) -> None:
        assert model._d is not None
        self._model, self._precision, self.number = model, precision, NUMBERS[precision]
        parts, d, size = model._features, model._d, np.dtype(self.number).itemsize
        self._kernel, self._forms = parts.kernel, model._factored
        self.shape: BasisShape | SpectralShape
        if isinstance(parts, Fourier):
            self.shape, self._scales = SpectralShape(parts.features, d, size), np.ones(d)
        else:
            assert parts.kernel is not None
            program = parts.kernel.program(d, 1)
            self.shape = BasisShape(model._budget.capacity, d, int(program.operations[0, 0]), model._budget.evict, size)
            named = parts.kernel.hyperparameters(program.parameters, d, 1)
            self._scales = np.resize(np.asarray(named["lengthscale"], dtype=float), d)
        self._unit = math.sqrt(self._variance)
        self._places = covariance.places(self.shape.coordinates)

    @property
    def _variance(self) -> float:
        """Of the prior."""
        values = self._model._state.parameters
        if self._kernel is None:
            return float(values[0])
        return float(np.asarray(self._kernel.hyperparameters(values, self.shape.width, 1)["variance"]))

    @property
    def units(self) -> FloatArray:
        """(2, 1 + d): the unit of targets, then those of inputs; and what they are divided into 1."""
        units = np.array([self._unit, *self._scales])
        return np.stack([units, 1.0 / units])

    @property
    def parameters(self) -> np.ndarray:
        """What all models share, in the order of record.PARAMETERS."""
        model, precision = self._model, self._precision
        state, forgetting = model._state, model._forgetting
        noise, kappa = float(state.noise[0]) / self._variance, 1.0 + model._features.jitter
        floor = budget.floor(kappa, noise, False) if precision == "double" else SINGLE_FLOOR
        rounding, negative = ROUNDING[precision]
        shared = [
            forgetting.covariance_scale,
            forgetting.covariance_fresh,
            forgetting.mean_scale,
            noise,
            kappa,
            max(model._budget.novelty, floor) * kappa,
            1.0 / (kappa * floor),
            rounding * kappa,
            negative * kappa,
            UNRESOLVED[precision] * kappa,
        ]
        return np.concatenate([shared, state.frequencies.ravel()]).astype(self.number)

    @property
    def blank(self) -> Kept:
        """A model that has learned nothing."""
        record = np.zeros(self.shape.numbers, self.number)
        record[: self.shape.coordinates] = 1.0  # the main diagonal of W comes first
        return Kept(record, np.zeros(self.shape.width), np.zeros(len(COUNTS), np.int64))

    # A single model.

    def write(self, model: StreamModel) -> Kept:
        """What a GPU keeps of a single model."""
        assert isinstance(model, OnlineGP)
        record, origin, counts = kept = self.blank
        at, shape, state, n = self.shape.at, self.shape, model._state, model._weights_in_use()
        for k, name in enumerate(COUNTS[:RESETS]):
            counts[k] = model._numbers.count(name)
        if isinstance(shape, SpectralShape):
            S, mu = self._moments(state)
        else:
            R = state.factor[:n, :n]
            S, mu = _symmetric(state.covariance[0], n), state.mu[:n, 0]
            L = record[at["L"] : at["L"] + shape.points * shape.stride].reshape(shape.points, shape.stride)
            L[:n, :n] = self._unit * solve_triangular(R, np.eye(n), trans="T")
            basis = record[at["basis"] : at["basis"] + shape.width * shape.points].reshape(shape.width, shape.points)
            if n:
                origin[:] = np.median(state.basis[:n], axis=0)
            basis[:, :n] = ((state.basis[:n] - origin) / self._scales).T
            if shape.scored:
                record[at["held"] : at["held"] + n] = self._variance * state.weight_variance[0, :n]
        record[at["W"] + self._places[:n, :n]] = S
        record[at["beta"] : at["beta"] + n] = mu
        return kept

    def read(self, kept: Kept, model: StreamModel, *, trusted: bool = True) -> None:
        """Write what a GPU keeps into a single model of the same recipe and shape.

        Args:
            kept: of the model.
            model: that takes it over.
            trusted: whether L is a root of K^-1 to rounding; in double precision R follows from it then, also where K
                is too near to a singular matrix to be factored again.
        """
        assert isinstance(model, OnlineGP)
        record, origin, counts = kept
        numbers, state, shape, at = model._numbers, model._state, self.shape, self.shape.at
        f = record.astype(float)
        for k, name in enumerate(COUNTS[:RESETS]):  # a single model never starts again
            numbers.counters[name] = counts[k]
        numbers.counters["evictions"] = 0
        numbers.work.last_prediction[:] = 0.0
        n = shape.points if isinstance(shape, SpectralShape) else int(counts[POINTS])
        S, mu = f[at["W"] + self._places[:n, :n]], f[at["beta"] : at["beta"] + n]
        if isinstance(shape, SpectralShape):
            self._write_moments(state, S, mu)
            return
        basis, L = self._basis(f, n)
        basis += origin
        K = self._prior(basis)
        R, Q = _from_root(L) if trusted and self._precision == "double" else _from_prior(L, K)
        inverse = solve_triangular(R, np.eye(n))
        for array in (state.basis, state.prior, state.factor, state.inverse_diagonal, state.covariance, state.mu):
            array[...] = 0.0
        state.basis[:n], state.prior[:n], state.factor[:n, :n] = basis, np.diag(K), R
        state.inverse_diagonal[:n] = np.einsum("ij,ij->i", inverse, inverse)
        S = _within_prior(Q @ S @ Q.T)
        state.covariance[0, :n, :n], state.mu[:n, 0] = np.tril(S), Q @ mu
        if shape.scored:
            state.weight_variance[0] = 0.0
            state.weight_variance[0, :n] = np.einsum("ij,jk,ik->i", inverse, S, inverse)

    def _basis(self, f: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        """The points and L."""
        shape = self.shape
        assert isinstance(shape, BasisShape)
        start, stride = shape.at["L"], shape.stride
        L = f[start : start + shape.points * stride].reshape(shape.points, stride)[:n, :n]
        start = shape.at["basis"]
        basis = f[start : start + shape.width * shape.points].reshape(shape.width, shape.points)
        return basis[:, :n].T * self._scales, L / self._unit

    def _prior(self, basis: FloatArray) -> FloatArray:
        assert self._kernel is not None
        K = self._kernel(basis) if len(basis) else np.zeros((0, 0))
        return np.asarray(K * (1.0 + self._model._features.jitter * np.eye(len(basis))))

    def _moments(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Covariance and mean of the weights of Fourier features."""
        n = self.shape.points
        if not self._forms:
            return _symmetric(state.covariance[0], n), state.mu[:, 0]
        root = solve_triangular(np.triu(state.covariance[0]), np.eye(n))
        return state.noise[0] * root @ root.T, root @ state.mu[:, 0]

    def _write_moments(self, state: Any, S: FloatArray, mu: FloatArray) -> None:
        if not self._forms:
            state.covariance[0], state.mu[:, 0] = np.tril(S), mu
            return
        R = cholesky(state.noise[0] * np.linalg.inv(S))
        state.covariance[0], state.mu[:, 0] = R, R @ mu

    # Repairs.

    def refreshed(self, kept: Kept) -> Kept:
        """A record made anew in double precision from its basis; a model that starts again where it is past that."""
        counts = kept.counts.copy()
        counts[CHANGE], counts[REFRESHED] = 0, 0
        try:
            if not np.isfinite(kept.record).all():
                raise LinAlgError("numbers that are not finite")
            model = self._model.clone()
            model._prepare(self._model._shape)
            self.read(kept, model, trusted=False)
            return self.write(model)._replace(counts=counts)
        except LinAlgError:
            counts[POINTS] = 0
            counts[RESETS] += 1
            return self.blank._replace(counts=counts)


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
    values, vectors = np.linalg.eigh(S)
    if len(values) == 0 or (values[0] >= 0.0 and values[-1] <= 1.0):
        return S
    bounded: FloatArray = (vectors * np.clip(values, 0.0, 1.0)) @ vectors.T
    return bounded

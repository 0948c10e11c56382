"""Features: the space in which the function is linear. Basis points, random Fourier features, or the memory itself."""

from __future__ import annotations

import abc
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import NUMBER, VECTOR, WHOLE, apart, compiled
from streamgp.kernels import Kernel, KernelSetting, SquaredExponential, program
from streamgp.linalg import triangular
from streamgp.linalg.vector import dot
from streamgp.process.state import LAYOUT
from streamgp.settings import FloatArray, Part, Setting, optional, positive_vector, real_matrix, whole
from streamgp.vocabulary import (
    INPUTS,
    Frequencies,
    FrequencySeed,
    GivenFrequencies,
    Jitter,
    Lengthscale,
    Orthogonal,
    SpectralOrder,
    Variance,
    positive,
)

Array = NDArray

DICTIONARY, POINTS, FOURIER, LINEAR = range(4)


class Features(Part, abc.ABC):
    """The space in which the function is linear; see :class:`Basis`, :class:`Fourier` and :class:`Linear`."""

    kind: int
    jitter: float = 0.0
    kernel: Kernel | None = None
    points: FloatArray | None = None
    delta: float = 1.0

    @abc.abstractmethod
    def sizes(self, width: int, capacity: int) -> dict[str, int]:
        """How many points, frequencies and weights there are.

        Args:
            width: numbers that the memory hands over.
            capacity: points that a growing basis has room for.
        """

    def program(self, width: int, depth: int) -> program.Program:
        """The kernel as compiled code reads it; without a kernel its parameters are the variance of the features."""
        return program.Program(np.zeros((0, 5), np.int64), np.array([]))


class Basis(Features):
    """Kernel functions on basis points: a dictionary that grows and shrinks, or given points that stay."""

    kernel: Kernel

    def __init__(
        self,
        kernel: KernelSetting = SquaredExponential(),
        *,
        jitter: Jitter = 0.0,
        points: Annotated[
            Any,
            Setting(
                "an (m, d) array: the basis stays on these points; None: rows of the stream become points",
                INPUTS,
                optional(partial(real_matrix, shape="(m, d)")),
            ),
        ] = None,
    ) -> None:
        self.kernel, self.jitter, self.points = kernel, jitter, points
        self.kind = DICTIONARY if points is None else POINTS

    def sizes(self, width: int, capacity: int) -> dict[str, int]:
        points = capacity + 1 if self.points is None else len(self.points)
        return {"frequencies": 0, "points": points, "weights": points}

    def program(self, width: int, depth: int) -> program.Program:
        if self.points is not None and self.points.shape[1] != width:
            raise ValueError(f"the basis points have {self.points.shape[1]} columns, but the inputs have {width}")
        return self.kernel.program(width, depth)


class Fourier(Features):
    """Random Fourier features of a stationary kernel: sqrt(variance / D) [cos(Ox); sin(Ox)] [gijsberts2013]."""

    kind = FOURIER

    def __init__(
        self,
        features: Frequencies = 100,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        seed: FrequencySeed = 0,
        frequencies: GivenFrequencies = None,
        order: SpectralOrder = None,
        orthogonal: Orthogonal = False,
    ) -> None:
        if order not in (None, 0.5, 1.5, 2.5):
            raise ValueError(f"order must be None, 0.5, 1.5 or 2.5; got {order!r}")
        self.order = order
        self.orthogonal = bool(orthogonal)
        self.lengthscale = None if lengthscale is None else positive_vector("lengthscale", lengthscale)
        self.variance, self.seed = variance, seed
        self.given = None if frequencies is None else real_matrix("frequencies", frequencies, "(features, d)")
        self.features = whole("features", features) if self.given is None else self.given.shape[0]

    def sizes(self, width: int, capacity: int) -> dict[str, int]:
        return {"frequencies": self.features, "points": 0, "weights": 2 * self.features}

    def program(self, width: int, depth: int) -> program.Program:
        return program.Program(np.zeros((0, 5), np.int64), np.array([self.variance]))

    def frequencies(self, width: int, depth: int) -> FloatArray:
        """The (D, width) matrix Omega."""
        if self.given is not None:
            if self.given.shape[1] != width:
                raise ValueError(f"frequencies have {self.given.shape[1]} columns, but the inputs have {width}")
            return self.given.copy()
        scales = SquaredExponential(self.lengthscale).values(width, depth)[:-1]
        # [gijsberts2013] 3.2: omega ~ N(0, M) with M_ii = 1 / l_i^2
        rng = np.random.default_rng(self.seed)
        draws = rng.standard_normal((self.features, width))
        if self.orthogonal:
            draws = _orthogonal_blocks(draws)
        if self.order is not None:  # the spectrum of a Matern kernel is Student's t with 2 order degrees of freedom
            freedom = 2.0 * self.order
            draws *= np.sqrt(freedom / rng.chisquare(freedom, (self.features, 1)))
        return draws / np.resize(scales, width)


class Linear(Features):
    """The function is linear in what the memory hands over, with independent weights of prior variance 1 / delta."""

    kind = LINEAR

    def __init__(
        self,
        delta: Annotated[float, Setting("precision of the weights' prior", check=positive)] = 1.0,
        *,
        constant: Annotated[bool, Setting("add a feature that is always 1")] = True,
    ) -> None:
        self.delta = delta
        self.constant = bool(constant)

    def sizes(self, width: int, capacity: int) -> dict[str, int]:
        return {"frequencies": 0, "points": 0, "weights": width + int(self.constant)}


def _orthogonal_blocks(draws: FloatArray) -> FloatArray:
    """Directions orthogonal within blocks of as many rows as there are columns; the lengths stay."""
    width = draws.shape[1]
    for start in range(0, len(draws), width):
        block = draws[start : start + width]
        directions = np.linalg.qr(block.T)[0].T
        block[:] = directions * np.linalg.norm(block, axis=1, keepdims=True)
    return draws


@compiled
def whiten(R: Array, k: Array, n: int, kappa: float, phi: Array) -> float:
    """phi = R^-T k: features of unit prior on basis points with K = R'R; returns the residual gamma2."""
    triangular.solve_transposed(R, k, n, phi)
    # [soh2014] Eq. (23)
    return kappa - dot(phi, phi, n)


@compiled
def fourier(frequencies: Array, variance: float, x: Array, phi: Array) -> None:
    # [gijsberts2013] Eq. (6)
    D = frequencies.shape[0]
    amplitude = np.sqrt(variance / D)
    for i in range(D):
        angle = dot(frequencies[i], x, x.size)
        phi[i] = amplitude * np.cos(angle)
        phi[D + i] = amplitude * np.sin(angle)


@compiled
def weights_in_use(m: Model) -> int:
    return m.counters.points if m.plan.features == DICTIONARY else m.plan.weights  # type: ignore[no-any-return]


@compiled
def featurize(m: Model) -> tuple[float, float]:
    """Fill phi for the input seen; return kappa = k(x, x) and the residual gamma2, which rounding may leave below 0."""
    seen, phi = m.seen, m.phi[m.plan.temporal :]
    if m.plan.features == FOURIER:
        fourier(m.frequencies, m.parameters[0], seen, phi)
        return m.parameters[0], 0.0
    if m.plan.features == LINEAR:
        linear(seen, m.plan.weight_scale, phi)
        return dot(phi, phi, phi.size), 0.0
    n = weights_in_use(m)
    kappa = kernel_values(m, seen, n)
    return kappa, whiten(m.factor, m.k, n, kappa, phi)


def fourier_features(frequencies: FloatArray, variance: float, X: FloatArray) -> FloatArray:
    """phi of rows, (n, 2D), as fourier() has it of one."""
    angles = X @ frequencies.T
    return np.sqrt(variance / len(frequencies)) * np.hstack([np.cos(angles), np.sin(angles)])  # type: ignore[no-any-return]


@compiled
def linear(x: Array, scale: float, phi: Array) -> None:
    """What the memory hands over and, where there is room for it, a constant, times the scale of a weight."""
    for j in range(x.size):
        phi[j] = scale * x[j]
    for j in range(x.size, phi.size):
        phi[j] = scale


@apart(NUMBER, LAYOUT.model, VECTOR, WHOLE)
def kernel_values(m: Model, x: Array, n: int) -> float:
    """Fill k = k(B, x) on the first n basis points; return kappa = (1 + jitter) k(x, x)."""
    operations, theta = m.operations, m.parameters
    scratch = m.kernel_scratch
    program.cross(operations, theta, m.basis, n, x, m.k, scratch)
    variance: float = program.diagonal(operations, theta, x, scratch)
    return variance + variance * float(m.plan.jitter)

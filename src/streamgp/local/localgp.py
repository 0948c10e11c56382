"""Local Gaussian processes: a few small exact GPs, each for the rows near its center, averaged."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, Numbers, fields
from streamgp.compiled import compile_now, compiled
from streamgp.contract.checks import FINE, check
from streamgp.contract.lanes import PREDICT
from streamgp.contract.model import Ability
from streamgp.kernels import KernelSetting, SquaredExponential, described_kernel, program
from streamgp.linalg import triangular
from streamgp.linalg.vector import copy, dot, fill
from streamgp.process import growing, loop, memory
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.memory import Window
from streamgp.process.row import noise_of
from streamgp.settings import FloatArray, Setting, number, one_of, optional, whole
from streamgp.vocabulary import Capacity, Depth, OneNoise, ShortLengthscale, ShortVariance

Array = NDArray

# Fixed when the first row arrives: what the memory, a window, and the loop read, and settings.
PLAN = fields("shared feedback neighbors drops_oldest", "retention noise threshold")

# What changes row by row: among it the experts in use, and the point, from 1 on, that has left its expert.
COUNTERS = fields("rows_seen experts absorbed admitted left floored_pivots")

STATE = memory.ARRAYS | {
    "centers": "experts width",
    "center_variances": "experts",  # k(c, c)
    "counts": "experts",  # of the points
    "points": "experts room width",  # oldest first
    "targets": "experts room outputs",
    "factors": "experts room room",  # R with K + noise I = R'R, upper triangle
    "inverse_diagonals": "experts room",  # of (R'R)^-1
    "weights": "experts room outputs",  # (R'R)^-1 y
}

WORK = {
    "operations": "steps 5 integers",  # of the kernel's program
    "parameters": "parameters",  # its hyperparameters
    "kernel_scratch": "kernel_scratch",
    "seen": "width",
    "first": "outputs",  # mean of the most similar expert
    **dict.fromkeys(("y", "mean_now", "variance_now"), "outputs"),
    **dict.fromkeys(("similarity", "rank"), "experts"),
    **dict.fromkeys(("k", "column", "psi", "cosine", "sine", "carried"), "room"),
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK, {"experts": (0, "experts"), "counts": (0, "capacity")})

# Points as redundant as each other to this relative precision are told apart by age.
TIE = 1e-6
# A center less similar than this is not similar at all: sums weighted with less would lose their digits.
FAINTEST = 1e-200


class LocalGP(CompiledModel):
    """Local Gaussian process regression [nguyentuong2009].

    A row goes to the expert whose center, the mean of its points, is most similar by the kernel, or begins a new
    expert. Each expert is an exact GP on its points; a full one drops a point. Predictions average the experts with
    the similarities of their centers as weights, and the variance is that of the mixture.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.local import LocalGP
        >>> model = LocalGP(sg.SquaredExponential(1.0), noise=0.01, experts=10, capacity=20)
        >>> x = np.random.default_rng(0).uniform(0.0, 10.0, 400)
        >>> model.learn_many(x, np.sin(x))
        >>> bool(abs(model.predict_one(5.0).mean - np.sin(5.0)) < 0.1)
        True
    """

    def __init__(
        self,
        kernel: Annotated[
            KernelSetting, Setting("covariance function, also the measure of similarity")
        ] = SquaredExponential(),
        *,
        lengthscale: ShortLengthscale = None,
        variance: ShortVariance = None,
        noise: OneNoise = 0.01,
        experts: Annotated[int, Setting("most experts", "experts", whole)] = 20,
        capacity: Annotated[Capacity, Setting("most points of an expert")] = 50,
        threshold: Annotated[
            float,
            Setting(
                "a row whose similarity k(x, c) / sqrt(k(x, x) k(c, c)) to every center is below this begins a new "
                "expert while there is room; in [0, 1]",
                check=partial(number, at_least=0, at_most=1),
            ),
        ] = 0.5,
        neighbors: Annotated[
            int | None,
            Setting(
                "experts averaged in a prediction, the most similar ones; None: all; few predict better",
                "experts",
                optional(whole),
            ),
        ] = 2,
        drop: Annotated[
            str,
            Setting(
                'the point a full expert drops: "redundant" (the one that the others predict with the smallest '
                'variance; of equals the oldest) or "oldest"',
                check=one_of("redundant", "oldest"),
            ),
        ] = "redundant",
        depth: Depth = 1,
    ) -> None:
        self._kernel = described_kernel(kernel, lengthscale=lengthscale, variance=variance)
        self._experts, self._capacity, self._memory = experts, capacity, Window(depth)
        self._plan = {"shared": True, "noise": noise, "threshold": threshold, "neighbors": neighbors or experts}
        self._plan["drops_oldest"] = drop == "oldest"
        self._run = run
        compile_now(run, check)

    # The state.

    def _start(self, d: int, p: int) -> None:
        width, room = self._memory.width(d), self._capacity + 1  # a point is dropped after the new one has come
        kernel = self._kernel.program(width, self._memory.depth)
        sizes = memory.sizes(self._memory, d, p) | {
            "width": width,
            "experts": self._experts,
            "capacity": self._capacity,
            "room": room,
            "steps": len(kernel.operations),
            "parameters": kernel.parameters.size,
            "kernel_scratch": kernel.scratch(max(self._experts, room), width),
        }
        numbers = Numbers(LAYOUT, sizes, self._plan)
        numbers.work.operations[:] = kernel.operations
        numbers.work.parameters[:] = kernel.parameters
        self._place(numbers)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return "" if what == "weigh" else super()._cannot(what, p)

    # What can be read.

    @property
    def size(self) -> int:
        """Experts in use."""
        return 0 if self._d is None else self._numbers.count("experts")

    @property
    def basis(self) -> FloatArray:
        """The centers of the experts, (size, width)."""
        return np.empty((0, 0)) if self._d is None else self._state.centers[: self.size].copy()

    @property
    def points(self) -> list[FloatArray]:
        """The points of each expert, oldest first: arrays (n, width)."""
        if self._d is None:
            return []
        points, counts = self._state.points, self._state.counts
        return [points[e, : int(counts[e])].copy() for e in range(self.size)]

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        named: dict[str, float | FloatArray] = {}
        if self._d is not None:
            width, depth = self._memory.width(self._d), self._memory.depth
            named |= self._kernel.hyperparameters(self._numbers.work.parameters, width, depth)
        return named | {"noise": self._plan["noise"]}


@compiled
def compare(m: Model) -> float:
    """Similarities of the input seen to the centers; returns kappa = k(x, x)."""
    n, similarity, variances = m.counters.experts, m.similarity, m.center_variances
    kappa = program.diagonal(m.operations, m.parameters, m.seen, m.kernel_scratch)
    program.cross(m.operations, m.parameters, m.centers, n, m.seen, similarity, m.kernel_scratch)
    for i in range(n):
        scale = np.sqrt(kappa * variances[i])
        # A squared exponential gives exp(-1/2 (x - c)'W(x - c)), the published weight.
        similarity[i] = similarity[i] / scale if scale > 0.0 else 0.0
    return kappa


@compiled
def predict(
    m: Model, _x: Array, _t: int, _conditions: Array, _i: int, kind: int, _learned: bool
) -> tuple[float, float]:
    """Mean and latent variance of the mixture; returns kappa = k(x, x)."""
    kappa = compare(m)
    if kind & PREDICT == 0:
        return kappa, 0.0
    experts, counts = m.counters.experts, m.counts
    similarity, rank, k, column, first = m.similarity, m.rank, m.k, m.column, m.first
    mean, variance = m.mean_now, m.variance_now
    copy(similarity, experts, rank)
    fill(mean, mean.size, 0.0)
    fill(variance, mean.size, 0.0)
    total = 0.0
    for _ in range(min(m.plan.neighbors, experts)):
        e = 0
        for i in range(1, experts):
            if rank[i] > rank[e]:
                e = i
        rank[e] = -np.inf
        weight, n, weights = similarity[e], int(counts[e]), m.weights[e]
        if not weight > FAINTEST:
            if total > 0.0:
                break
            weight = 1.0  # no center is similar: the nearest expert answers alone
        program.cross(m.operations, m.parameters, m.points[e], n, m.seen, k, m.kernel_scratch)
        triangular.solve_transposed(m.factors[e], k, n, column)
        v = max(kappa - dot(column, column, n), 0.0)
        # Sums of differences from the first expert's mean: a common offset does not cancel digits.
        for j in range(mean.size):
            own = 0.0
            for i in range(n):
                own += k[i] * weights[i, j]
            if total == 0.0:
                first[j] = own
            mean[j] += weight * (own - first[j])
            variance[j] += weight * (v + (own - first[j]) * (own - first[j]))
        total += weight
    for j in range(mean.size):
        if experts == 0:
            variance[j] = kappa
            continue
        shift = mean[j] / total
        # Mixture: sum w (v + m^2) - mean^2, which no shift changes
        mean[j] = first[j] + shift
        variance[j] = max(variance[j] / total - shift * shift, 0.0)
    return kappa, 0.0


@compiled
def learn(m: Model, conditions: Array, t: int, learned: bool, kappa: float, _gamma2: float) -> int:
    """Hand the input seen and its targets to the most similar expert, or to a new one."""
    loop.forget_change(m)
    if not learned:
        return FINE
    # [nguyentuong2009] partitioning of the data
    experts, counts, similarity = m.counters.experts, m.counts, m.similarity
    e = 0
    for i in range(1, experts):
        if similarity[i] > similarity[e]:
            e = i
    if experts == 0 or (similarity[e] < m.plan.threshold and experts < counts.size):
        e = experts
        m.counters.experts += 1
    points, targets, weights = m.points[e], m.targets[e], m.weights[e]
    R, k, center = m.factors[e], m.k, m.centers[e]
    n = int(counts[e])
    admit(m, e, n, kappa, noise_of(m.plan.noise, conditions, t, 0))
    n += 1
    m.counters.admitted = 1
    if n == points.shape[0]:
        r = 0 if m.plan.drops_oldest else redundant(m.inverse_diagonals[e], n)
        drop(m, e, r, n)
        m.counters.left = r + 1
        n -= 1
    counts[e] = n
    for j in range(targets.shape[1]):
        for i in range(n):
            k[i] = targets[i, j]
        triangular.solve_transposed(R, k, n, k)
        triangular.solve(R, k, n, k)
        for i in range(n):
            weights[i, j] = k[i]
    for j in range(center.size):
        center[j] = 0.0
        for i in range(n):
            center[j] += points[i, j]
        center[j] /= n
    m.center_variances[e] = program.diagonal(m.operations, m.parameters, center, m.kernel_scratch)
    return FINE


@compiled
def admit(m: Model, e: int, n: int, kappa: float, noise: float) -> None:
    """The input seen becomes point n of expert e; pivots in which arithmetic had lost the noise are counted."""
    points, R, seen, k = m.points[e], m.factors[e], m.seen, m.k
    column, psi, diagonal = m.column, m.psi, m.inverse_diagonals[e]
    program.cross(m.operations, m.parameters, points, n, seen, k, m.kernel_scratch)
    triangular.solve_transposed(R, k, n, column)
    triangular.solve(R, column, n, psi)
    gamma2 = kappa + noise - dot(column, column, n)
    m.counters.floored_pivots += 1 if gamma2 < noise else 0
    gamma2 = max(gamma2, noise)
    triangular.append(R, column, np.sqrt(gamma2), n)
    # The diagonal of the inverse of a bordered matrix, [vanvaerenbergh2016] Eq. (4).
    for i in range(n):
        diagonal[i] += psi[i] * psi[i] / gamma2
    diagonal[n] = 1.0 / gamma2
    copy(seen, seen.size, points[n])
    copy(m.y, m.y.size, m.targets[e][n])


@compiled
def redundant(inverse_diagonal: Array, n: int) -> int:
    """The point that the others predict best: 1 / Q_ii is the variance of its target given all the others."""
    r = 0
    for i in range(1, n):
        if inverse_diagonal[i] > inverse_diagonal[r] * (1.0 + TIE):
            r = i
    return r


@compiled
def drop(m: Model, e: int, r: int, n: int) -> None:
    """Take point r out of the n points of expert e."""
    R, column, psi, diagonal = m.factors[e], m.column, m.psi, m.inverse_diagonals[e]
    triangular.inverse_root(R, r, n, psi)
    triangular.solve(R, psi, n, psi)
    for i in range(n):
        diagonal[i] = max(diagonal[i] - psi[i] * psi[i] / psi[r], TIE * diagonal[i])
    triangular.delete(R, r, n, column, m.cosine, m.sine, m.carried)
    growing.drop(diagonal, r, n)
    growing.drop_row(m.points[e], r, n)
    growing.drop_row(m.targets[e], r, n)


run = loop.of(
    *(__name__, "run", LAYOUT), is_overdue=loop.never, predict=predict, report=loop.report_moments, learn=learn
)

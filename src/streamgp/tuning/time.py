"""Hyperparameters of a kernel over time: the exact evidence, and log-normal priors around where it starts."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.batch.evidence import WIDEST, Evidence, Maximum, Objective
from streamgp.compiled import compile_now
from streamgp.contract.spacing import usual_gap
from streamgp.kernels import Kernel, Matern, Periodic
from streamgp.kernels.algebra import LeafKernel
from streamgp.kernels.temporal import COORDINATES, TREND, WIDE, Block, components, harmonic_weights
from streamgp.process import temporal_evidence
from streamgp.settings import FloatArray

# Standard deviations of the logarithms around the start: a variance may well be 20 times off, a length 7 times, the
# lengthscale of a season, of which few periods tell little, 3 times. The starts are in series.py.
SPREAD = {"noise": 1.5, "variance": 1.5, "lengthscale": 1.0, "span": 1.0, "turns": 0.5}
# Rows are equally far apart if their gaps differ by less than this part of them, or by less than times are rounded.
EQUAL = 1e-9
# Limits of the search: variances relative to that of the targets, lengths relative to one gap and to all, turns.
VARIANCES, LENGTHS, TURNS = (1e-8, 1e3), (1e-2, 1e2), (0.1, 10.0)
# Harmonics are counted once for a search; if its end asks for others, the search goes on from there, at most so often.
COUNTS = 2

Named = tuple[str, LeafKernel, str, float]  # full name, leaf, name within it, value


def refuse_unordered(times: FloatArray) -> None:
    """Refuse times that are missing, or earlier than the one before."""
    for at in np.flatnonzero(~(np.diff(times) >= 0)):
        raise ValueError(f"time is missing or goes backwards in row {at + 1}; sort the rows by time")


def scale2(Y: FloatArray) -> float:
    """The variance of targets; their mean square where they are constant, 1 where they are 0."""
    return float(np.var(Y, axis=0).max() or np.mean(Y**2) or 1.0)


class Series:
    """The last rows of a series that have their targets, at most this many, and how far they are apart."""

    def __init__(self, times: FloatArray, Y: FloatArray, rows: int) -> None:
        known = np.flatnonzero(~np.any(np.isnan(Y), axis=1))[-rows:]
        if not known.size:
            raise ValueError("every row of Y misses a target; tuning needs rows with all their targets")
        refuse_unordered(times)
        self.Y = np.ascontiguousarray(Y[known])
        self.gaps = np.diff(times[known], prepend=times[known][:1])
        steps = self.gaps[1:]
        self.step = usual_gap(times[known]) or 1.0
        largest = float(np.abs(times[known]).max(initial=0.0))
        apart = float(np.abs(steps - self.step).max(initial=0.0))
        self.is_regular = apart <= max(EQUAL * self.step, 4e-16 * largest)
        self.length = float(self.gaps.sum()) or 1.0

    def replaced(self, Y: FloatArray) -> Series:
        """The same rows with other targets."""
        other = copy.copy(self)
        other.Y = Y
        return other


class Inputs(NamedTuple):
    """Features beside a kernel over time, whose weights have a prior variance for each group."""

    features: FloatArray  # (n, k) of the rows of a series
    groups: NDArray[np.int64]  # (k,) to which group each belongs
    variances: FloatArray  # of the groups, to start from


class TimeEvidence:
    """The log evidence of a series as a function of the logarithms of hyperparameters: of a kernel, noise, and inputs.

    Periods stay as they are, and so do variances that change nothing that earlier ones do not: of a product, all but
    the first.
    """

    def __init__(self, kernel: Kernel, noise: float, series: Series, inputs: Inputs | None = None) -> None:
        compile_now(temporal_evidence.regular)
        none = Inputs(np.empty((len(series.Y), 0)), np.empty(0, dtype=np.int64), np.empty(0))
        self.series, self._inputs = series, none if inputs is None else inputs
        blocks = [block for one in components(kernel) for block in one.blocks]
        sizes = np.array([COORDINATES[block.kind] for block in blocks])
        self._starts = np.cumsum(sizes) - sizes
        self._size = int(sizes.sum())
        self._wide = np.array([WIDE if block.kind == TREND else 1.0 for block in blocks])
        self._table = np.array([(b.kind, i, b.rate, b.frequency, 0) for b, i in zip(blocks, self._starts, strict=True)])
        self._variances = np.array([block.variance for block in blocks])
        named = [
            (prefix + name, leaf, name, float(np.ravel(value)[0]))
            for prefix, leaf in kernel.leaves()
            for name, value in leaf.bound(1, 1).items()
            if name != "period"
        ]
        named = _independent(named, blocks)
        variances = self._inputs.variances
        self.names = (*(name for name, *_ in named), "noise", *(f"inputs.{g}" for g in range(len(variances))))
        self.start = np.log([*(value for *_, value in named), noise, *variances])
        kinds = np.array(
            ["turns" if name == "lengthscale" and isinstance(leaf, Periodic) else name for _, leaf, name, _ in named]
        )
        self.kinds = [*kinds, "noise", *["variance"] * len(variances)]
        has = np.column_stack([_within(leaf, blocks) for _, leaf, _, _ in named])
        self._scales = has * (kinds == "variance")
        self._turns = [
            (b, i, j)
            for i, (_, leaf, _, _) in enumerate(named)
            if kinds[i] == "turns"
            for b, block in enumerate(blocks)
            for one, j in block.factors
            if one is leaf
        ]
        own = np.array(
            [
                (2.0 * leaf.order) ** 0.5 / value if isinstance(leaf, Matern) else 1.0 / value
                for _, leaf, _, value in named
            ]
        )
        self._rates = has * np.where(np.isin(kinds, ("lengthscale", "span")), own, 0.0)
        self._constant_rates = self._table[:, 2] - self._rates.sum(axis=1)

    def limits(self) -> dict[str, tuple[float, float]]:
        """How far each hyperparameter is searched."""
        lengths = LENGTHS[0] * self.series.step, LENGTHS[1] * self.series.length
        scale = scale2(self.series.Y)
        among = {"turns": TURNS, "lengthscale": lengths, "span": lengths}
        variances = VARIANCES[0] * scale, VARIANCES[1] * scale
        return {name: among.get(kind, variances) for name, kind in zip(self.names, self.kinds, strict=True)}

    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """The log evidence and its gradient."""
        of_time, of_inputs = np.split(logs, [len(logs) - len(self._inputs.variances)])
        table, features, slopes, parts = self._blocks(of_time)
        rates, own = table[:, 2], features[self._starts]
        for_features, for_rates = np.zeros(self._size), np.zeros(len(rates))
        noise, series, Y = float(np.exp(of_time[-1])), self.series, self.series.Y
        F = self._inputs.features * np.exp(0.5 * of_inputs)[self._inputs.groups]
        value, for_inputs = np.nan, np.empty(0)
        if series.is_regular and not F.size:
            out = for_features, for_rates, *temporal_evidence.room_of(table, len(Y), Y.shape[1], features.size)
            value, slope = temporal_evidence.regular(table, features, noise, series.step, Y, *out)
        if np.isnan(value):
            for_features[:], for_rates[:] = 0.0, 0.0
            value, slope, for_inputs = temporal_evidence.dense(
                table, features, noise, series.gaps, Y, F, for_features, for_rates
            )
        gradient = slopes.T @ (0.5 * own * for_features[self._starts])
        gradient -= parts.T @ (for_rates / np.where(rates > 0, rates, 1.0))
        groups = np.bincount(self._inputs.groups, for_inputs, len(of_inputs))
        return value, np.concatenate([gradient, [slope * noise], groups])

    def _blocks(self, logs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The table of blocks, the features, the slopes of the logarithms of the blocks' variances, parts of rates."""
        change = logs[:-1] - self.start[: len(logs) - 1]
        log_variance = np.log(self._variances) + self._scales @ change
        slopes = self._scales.copy()
        for b, i, j in self._turns:
            (before, _), (z, now) = (self._weight(j, at) for at in (self.start[i], logs[i]))
            log_variance[b] += np.log(z / before)
            slopes[b, i] = now
        parts = self._rates * np.exp(-change)
        table = self._table.copy()
        table[:, 2] = self._constant_rates + parts.sum(axis=1)
        features = np.zeros(self._size)
        features[self._starts] = np.exp(0.5 * log_variance) * self._wide
        return table, features, slopes, parts

    @staticmethod
    def _weight(j: int, log_turns: float) -> tuple[float, float]:
        """The weight of a harmonic, and the slope of its logarithm."""
        z = np.exp(-2.0 * log_turns)
        weight, slope = harmonic_weights(j, z)
        return float(weight), float(-2.0 * z * slope / weight)


def _within(leaf: LeafKernel, blocks: list[Block]) -> FloatArray:
    """1 for each block that the leaf is a factor of."""
    return np.array([float(any(leaf is one for one, _ in block.factors)) for block in blocks])


def _independent(named: list[Named], blocks: list[Block]) -> list[Named]:
    """All but those variances of which the others make the same kernels."""
    columns: list[FloatArray] = []
    found = []
    for one in named:
        if one[2] == "variance":
            among = [*columns, _within(one[1], blocks)]
            if np.linalg.matrix_rank(np.array(among)) == len(columns):
                continue
            columns = among
        found.append(one)
    return found


def fit_time(
    kernel: Kernel, noise: float, series: Series, evidence: Evidence, inputs: Inputs | None = None
) -> tuple[Kernel, float, Maximum]:
    """The kernel and the noise of the largest evidence times prior, and how the search went.

    The prior of each hyperparameter is log-normal around the given one. Those of inputs come last among coordinates.
    """
    kernel = kernel.with_values(kernel.values(1), 1)
    likelihood = TimeEvidence(kernel, noise, series, inputs)
    limits = likelihood.limits()
    low, high = np.log([limits[name] for name in likelihood.names]).T
    middle = start = np.clip(likelihood.start, low, high)
    spread = np.array([SPREAD[kind] for kind in likelihood.kinds])
    search = evidence.replaced(bounds=limits) if evidence.bounds == WIDEST else evidence

    def posterior(logs: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood(logs)
        apart = (logs - middle) / spread
        return value - 0.5 * float(apart @ apart), gradient - apart / spread

    for _ in range(COUNTS):
        found = search.maximize(Objective(posterior, start, likelihood.names, np.ones(len(start), dtype=bool)))
        start = np.clip(found.coordinates, low, high)
        values = dict(zip(likelihood.names, np.exp(found.coordinates).tolist(), strict=True))
        noise = values["noise"]
        counted = sum(len(one.blocks) for one in components(kernel))
        own = likelihood.names[: likelihood.names.index("noise")]
        kernel = kernel.replaced(**{name.replace(".", "__"): values[name] for name in own})
        if counted == sum(len(one.blocks) for one in components(kernel)):
            break
        likelihood = TimeEvidence(kernel, noise, series, inputs)
    return kernel, noise, found

"""Hyperparameters of a kernel over time: the exact evidence, and log-normal priors around where it starts."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from typing import Any

import numpy as np

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
# Rows whose gaps differ by less than this part of them, or than times are rounded, are equally far apart.
EQUAL = 1e-9
# As far as the search goes: variances relative to that of the targets, lengths to one gap and to all, turns.
VARIANCES, LENGTHS, TURNS = (1e-8, 1e3), (1e-2, 1e2), (0.1, 10.0)
# Harmonics are counted once for a search; if its end asks for others, it starts again there, at most so often.
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


class SeriesEvidence(abc.ABC):
    """The log evidence of a series as a function of the logarithms of hyperparameters."""

    series: Series
    names: tuple[str, ...]
    kinds: list[str]  # noise, variance, span, a lengthscale in time or one in turns
    start: FloatArray

    @abc.abstractmethod
    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """The log evidence and its gradient."""

    def limits(self) -> dict[str, tuple[float, float]]:
        """How far each hyperparameter is searched."""
        lengths = LENGTHS[0] * self.series.step, LENGTHS[1] * self.series.length
        scale = scale2(self.series.Y)
        among = {"turns": TURNS, "lengthscale": lengths, "span": lengths}
        variances = VARIANCES[0] * scale, VARIANCES[1] * scale
        return {name: among.get(kind, variances) for name, kind in zip(self.names, self.kinds, strict=True)}


class TimeEvidence(SeriesEvidence):
    """The log evidence of a series as a function of the logarithms of a kernel's hyperparameters, and of the noise.

    Periods stay as they are, and so do variances that change nothing that earlier ones do not: of a product, all but
    the first.
    """

    def __init__(self, kernel: Kernel, noise: float, series: Series) -> None:
        compile_now(temporal_evidence.regular)
        self.series = series
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
            for name, value in leaf._hyperparameters(1, 1)
            if name != "period"
        ]
        named = _independent(named, blocks)
        self.names = (*(name for name, *_ in named), "noise")
        self.start = np.log([value for *_, value in named] + [noise])
        self.kinds = [
            "turns" if name == "lengthscale" and isinstance(leaf, Periodic) else name for _, leaf, name, _ in named
        ]
        self.kinds.append("noise")
        has = np.column_stack([_within(leaf, blocks) for _, leaf, _, _ in named])
        kinds = np.array(self.kinds[:-1])
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

    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        return self.at(logs, self.series.Y)

    def at(self, logs: FloatArray, Y: FloatArray) -> tuple[float, FloatArray]:
        """The log evidence of other targets (n, p) of the same rows, and its gradient."""
        table, features, slopes, parts = self._blocks(logs)
        rates, own = table[:, 2], features[self._starts]
        for_features, for_rates = np.zeros(self._size), np.zeros(len(rates))
        noise, series = float(np.exp(logs[-1])), self.series
        value = slope = np.nan
        if series.is_regular:
            out = for_features, for_rates, *temporal_evidence.room_of(table, len(Y), Y.shape[1], features.size)
            value, slope = temporal_evidence.regular(table, features, noise, series.step, Y, *out)
        if np.isnan(value):
            for_features[:], for_rates[:] = 0.0, 0.0
            value, slope = temporal_evidence.irregular(table, features, noise, series.gaps, Y, for_features, for_rates)
        gradient = slopes.T @ (0.5 * own * for_features[self._starts])
        gradient -= parts.T @ (for_rates / np.where(rates > 0, rates, 1.0))
        return value, np.append(gradient, slope * noise)

    def innovations(self, logs: FloatArray, Y: FloatArray) -> tuple[FloatArray, float]:
        """What the rows before do not tell of each of (n, p) targets, over its deviation; the sum of log variances."""
        table, features, _, _ = self._blocks(logs)
        return temporal_evidence.innovations(table, features, float(np.exp(logs[-1])), self.series.gaps, Y)

    def _blocks(self, logs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The table of blocks, the features, the slopes of the logarithms of the blocks' variances, parts of rates."""
        change = (logs - self.start)[:-1]
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
    kernel: Kernel,
    noise: float,
    series: Series,
    evidence: Evidence,
    beside: Callable[[TimeEvidence], SeriesEvidence] = lambda time: time,
) -> tuple[Kernel, float, Maximum]:
    """The kernel and the noise of the largest evidence times prior, and how the search went.

    The prior of each hyperparameter is log-normal around the given one. ``beside`` turns the evidence into that of a
    model which has more than the kernel; its coordinates come after those of the kernel and the noise.
    """
    kernel = kernel.with_values(np.concatenate([leaf.values(1, 1) for _, leaf in kernel.leaves()]), 1)
    middle: FloatArray | None = None
    start: FloatArray | None = None
    for _ in range(COUNTS):
        of_time = TimeEvidence(kernel, noise, series)
        likelihood = beside(of_time)
        limits = likelihood.limits()
        low, high = np.log([limits[name] for name in likelihood.names]).T
        start = np.clip(likelihood.start if start is None else start, low, high)
        middle = start if middle is None else middle
        spread = np.array([SPREAD[kind] for kind in likelihood.kinds])
        found = evidence.replaced(bounds=limits if evidence.bounds == WIDEST else evidence.bounds).maximize(
            Objective(_posterior(likelihood, middle, spread), start, likelihood.names, np.ones(len(start), dtype=bool))
        )
        start = found.coordinates
        *values, noise = (float(value) for value in np.exp(start[: len(of_time.names)]))
        counted = sum(len(one.blocks) for one in components(kernel))
        kernel = kernel.replaced(
            **{name.replace(".", "__"): value for name, value in zip(of_time.names, values, strict=False)}
        )
        if counted == sum(len(one.blocks) for one in components(kernel)):
            break
    return kernel, noise, found


def _posterior(likelihood: SeriesEvidence, middle: FloatArray, spread: FloatArray) -> Any:
    def evaluate(logs: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood(logs)
        apart = (logs - middle) / spread
        return value - 0.5 * float(apart @ apart), gradient - apart / spread

    return evaluate

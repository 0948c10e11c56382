"""A kernel over time for a series: its seasons are found, and what the evidence supports is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.batch.evidence import Evidence
from streamgp.contract.spacing import LONGEST, usual_gap
from streamgp.kernels import Kernel, Matern, Periodic
from streamgp.kernels.temporal import WIDE, Trend
from streamgp.settings import FloatArray
from streamgp.tuning.inputs import INPUTS
from streamgp.tuning.time import Inputs, Series, fit_time

# The medians of the priors for targets of variance 1; lengths in the shortest season (of a trend the longest) or rows.
# They are medians of what was found on the monthly series of M1 and on hours of load (GEFCom2012) and of rented bikes.
LEVEL, LEVEL_SEASONS = 0.5, 3.0
MEMORY, MEMORY_ROWS = 0.06, 4.0
SEASON, TURNS, LASTING = 0.3, 0.6, 30.0  # how long a season stays as it is, in seasons
SECOND, BANDS, BAND_TURNS = 0.05, 0.15, 0.4
TREND, TREND_SEASONS = 0.3, 20.0
NOISE = 0.02
ROWS_WITHOUT_SEASON = 10.0  # what counts as a season where there is none
# Both coordinates of a trend start anywhere, with a prior that is WIDE times too wide: the evidence pays for each.
DIFFUSE = 2.0 * float(np.log(WIDE))
# By how much the logarithm of the evidence has to grow for one more season or a trend.
WORTH = 2.0
# A season must repeat REPEATS times in the series, and the autocorrelation of the differenced series must be at least
# LEAST standard deviations of white noise there; at most TRIED of them are tried.
REPEATS, LEAST, TRIED = 2.5, 2.0, 3
# A peak is the highest value within 1 / AROUND of its lag. Try the shortest peak of at least ALIKE times the highest
# first, then those that are HIGHER times as high; others may be its multiples.
AROUND, ALIKE, HIGHER = 8, 0.8, 1.02
MOST_SEASONS = 2
# A day, a week and a year in seconds. A season found within 2% of one, or within one row of it, is that one.
CALENDAR, NEAR = (86400.0, 604800.0, 31557600.0), 0.02
# Rows with gaps are tuned on the longest stretch without any, if it has STRETCH rows, else on the last IRREGULAR rows.
# Two gaps are equal if they differ by less than the part EVEN of them.
STRETCH, IRREGULAR, EVEN = 200, 300, 1e-6
# Iterations for the hyperparameters of kernel, noise and inputs together, from what was found without inputs.
BESIDE = 12


class Structure(NamedTuple):
    """What a series is made of."""

    seasons: tuple[float, ...]  # periods, the shortest first
    trend: bool  # whether a slope lasts
    log: bool  # whether the logarithms of the targets are modeled: seasons and noise grow with the level

    def described(self) -> str:
        """In words."""
        seasons = f"seasons {', '.join(f'{period:g}' for period in self.seasons)}" if self.seasons else "no seasons"
        return f"{seasons}{', a trend' * self.trend}{', logarithms' * self.log}"


class Chosen(NamedTuple):
    """A kernel over time with the structure that the evidence supports, for targets or their logarithms less center."""

    structure: Structure
    kernel: Kernel
    noise: float
    center: float
    evidence: float
    variances: FloatArray | None = None  # of the weights of each group of features, where there are inputs


def series_kernel(structure: Structure, step: float, variance: float) -> Kernel:
    """The medians of the priors for rows that are a step apart and targets of that variance."""
    seasons = structure.seasons
    season, longest = (seasons[0], seasons[-1]) if seasons else (ROWS_WITHOUT_SEASON * step,) * 2
    kernel: Kernel = Matern(1.5, lengthscale=LEVEL_SEASONS * season, variance=LEVEL * variance)
    kernel = kernel + Matern(0.5, lengthscale=MEMORY_ROWS * step, variance=MEMORY * variance)
    if structure.trend:
        kernel = kernel + Trend(TREND_SEASONS * longest, variance=TREND * variance)
    for i, period in enumerate(seasons):
        shape = Periodic(period, lengthscale=TURNS, variance=(SECOND if i else SEASON) * variance)
        kernel = kernel + shape * Matern(0.5, lengthscale=LASTING * period)
    if len(seasons) > 1:  # the shorter season differs along the longer one
        first, second = seasons[:2]
        bands = Periodic(first, lengthscale=BAND_TURNS, variance=BANDS * variance) * Periodic(second, lengthscale=1.0)
        kernel = kernel + bands * Matern(0.5, lengthscale=LASTING * second)
    return kernel


def choose(
    y: FloatArray,
    times: FloatArray,
    seasons: Sequence[float] | None = None,
    *,
    calendar: tuple[float, ...] = (),
    log: bool | None = None,
    trend: bool | None = None,
    rows: int = 1000,
    iterations: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Chosen:
    """The kernel for a series by the evidence with and without each part; other arguments are those of a Forecaster.

    Args:
        calendar: lengths that a season has exactly if it is found near one of them.
        iterations: of each search for them; None: as many as it takes.
        tell: takes a sentence on each structure that is tried.
    """
    series = _tuned_on(y, times, rows)[0]
    positive = bool(np.all(series.Y > 0))
    if log and not positive:
        raise ValueError("log=True needs targets above 0; leave it out, or shift the targets")
    found: dict[Structure, Chosen] = {}
    search = Evidence(restarts=0) if iterations is None else Evidence(restarts=0, iterations=iterations)

    def best(*structures: Structure) -> Structure:
        for one in structures:
            if one not in found:
                found[one] = _fit(one, series, search)
                tell(f"{one.described()}: log evidence {found[one].evidence:.4g}")
        return max(structures, key=lambda one: found[one].evidence - WORTH * (len(one.seasons) + one.trend))

    logs = (False, True) if log is None and positive and np.ptp(series.Y) > 0 else (bool(log),)
    if seasons is None:
        now = Structure((), bool(trend), logs[0])
        for period in candidates(series, calendar):
            both = now._replace(seasons=tuple(sorted((*now.seasons, period))))
            now = best(now, now._replace(seasons=(period,)), *[both] * (len(both.seasons) <= MOST_SEASONS))
    else:
        now = Structure(tuple(sorted(float(period) for period in seasons)), bool(trend), logs[0])
    now = best(*(now._replace(log=one) for one in logs))
    if trend is None:
        now = best(now, now._replace(trend=True))
    return found[best(now)]


def candidates(series: Series, calendar: tuple[float, ...] = ()) -> list[float]:
    """Periods that the autocorrelation of the differenced series suggests, the likeliest first."""
    step, gaps = series.step, series.gaps
    if gaps.sum() > LONGEST * step * len(gaps):  # most of a grid would be empty
        if LONGEST * np.count_nonzero(gaps > LONGEST * step) > len(gaps):
            return []  # rows come in bursts
        gaps = np.minimum(gaps, LONGEST * step)  # a wrong time stamp
    times = np.cumsum(gaps)
    y = np.interp(np.arange(0.0, times[-1] + 0.5 * step, step), times, series.Y[:, 0])
    d = np.diff(y)
    n = len(d)
    most = int(n / REPEATS)
    if most < 3 or not (d := d - d.mean()).any():
        return []
    power = np.abs(np.fft.rfft(d, 2 * n)) ** 2
    correlation = np.fft.irfft(power)[: most + 2]
    correlation /= correlation[0]
    # Fewer products are summed at longer lags; a smooth series resembles itself until its correlation has fallen once.
    height = correlation * n / (n - np.arange(most + 2))
    fallen = int(np.argmax(height < 0)) or most + 2
    peaks = [
        lag
        for lag in range(max(2, fallen), most + 1)
        if height[lag] > LEAST / np.sqrt(n)
        and height[lag] == height[lag - lag // AROUND - 1 : lag + lag // AROUND + 2].max()
    ]
    if not peaks:
        return []
    first = next(lag for lag in peaks if height[lag] >= ALIKE * height[peaks].max())
    others = sorted((lag for lag in peaks if height[lag] > HIGHER * height[first]), key=lambda lag: -height[lag])
    found = [_sharpened(correlation, lag, step) for lag in [first, *others][:TRIED]]
    return [next((one for one in calendar if abs(period - one) <= max(step, NEAR * one)), period) for period in found]


def _sharpened(correlation: FloatArray, lag: int, step: float) -> float:
    """The period of a peak between rows; whole rows where they are as good."""
    left, middle, right = correlation[lag - 1 : lag + 2]
    bend = left - 2.0 * middle + right
    offset = 0.0 if bend == 0 else 0.5 * (left - right) / bend
    return step * (lag + (offset if abs(offset) > 0.25 else 0.0))


def _tuned_on(y: FloatArray, times: FloatArray, rows: int) -> tuple[Series, NDArray[np.int64]]:
    """The rows that count for hyperparameters, and which they are."""
    known = np.flatnonzero(~np.isnan(y))
    gaps, step = np.diff(times[known]), usual_gap(times[known])
    stretches = np.split(known, 1 + np.flatnonzero(np.abs(gaps - step) > EVEN * step))
    longest = max(stretches, key=len)
    at = (longest if len(longest) >= STRETCH else known[-IRREGULAR:])[-rows:]
    return Series(times[at], y[at, None], rows), at


def _fit(structure: Structure, series: Series, search: Evidence) -> Chosen:
    Y = np.log(series.Y) if structure.log else series.Y
    center, variance = float(Y.mean()), float(Y.var()) or 1.0
    shifted = series.replaced(Y - center)
    kernel, noise, found = fit_time(series_kernel(structure, series.step, variance), NOISE * variance, shifted, search)
    evidence = found.value + (DIFFUSE if structure.trend else 0.0)
    if structure.log:  # the density of the targets themselves
        evidence -= float(Y.sum())
    return Chosen(structure, kernel, noise, center, evidence)


def beside(
    chosen: Chosen, y: FloatArray, times: FloatArray, rows: int, features: FloatArray, groups: NDArray[np.int64]
) -> Chosen:
    """The same structure beside (n, k) features of inputs: all hyperparameters are tuned together."""
    series, at = _tuned_on(y, times, rows)
    Y = (np.log(series.Y) if chosen.structure.log else series.Y) - chosen.center
    count = int(groups[-1]) + 1
    variances = np.full(count, INPUTS / count * (float(Y.var()) or 1.0))
    search = Evidence(restarts=0, iterations=BESIDE)
    own = Inputs(features[at], groups, variances)
    kernel, noise, found = fit_time(chosen.kernel, chosen.noise, series.replaced(Y), search, own)
    return chosen._replace(kernel=kernel, noise=noise, variances=np.exp(found.coordinates[-count:]))

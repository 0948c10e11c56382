"""Kernels over time as a filter runs them: a few coordinates with prior N(0, I) that rotate, decay and are renewed.

Between two rows that are dt apart, mu <- A mu and S <- A S A' + I - A A', where A is made of one block for each term of
the kernel [hartikainen2010; solin2014]. Sums join blocks; products of decays and of harmonics are decays and harmonics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np
from scipy import special

from streamgp.kernels.algebra import Constant, Kernel, LeafKernel, Product, Sum, refuse_overrides
from streamgp.kernels.stationary import Matern, Periodic
from streamgp.settings import FloatArray, Setting, duration, instance, optional
from streamgp.vocabulary import Variance

# Kinds of blocks, and how many coordinates each has.
DECAY, HARMONIC, MATERN32, MATERN52, TREND = range(5)
COORDINATES = {DECAY: 1, HARMONIC: 2, MATERN32: 2, MATERN52: 3, TREND: 2}

KEPT = 0.999  # of the variance of a periodic kernel: harmonics beyond are left out
MOST_HARMONICS = 500
# A trend starts anywhere: its level and its slope have this many standard deviations of what it does within its span.
WIDE = 10.0
# After so many spans the slope is as uncertain again as at the start, 3 s / WIDE^2 = 1, and the level more so: a trend
# then starts anywhere, and no longer gap adds to that.
LONGEST_GAP = WIDE * WIDE / 3.0
SECONDS = {86400.0: "day", 604800.0: "week", 3600.0: "hour", 31557600.0: "year", 31536000.0: "year"}


_KERNEL = (
    "kernel over time: sums of Matern, Periodic, Trend and Constant, and products of Matern(0.5), Periodic and "
    'Constant; lengths and periods as numbers in the unit of ``time=``, or "3h", "1d", "1w" where that is dates'
)
_IS_KERNEL = instance(Kernel, "Matern(1.5, lengthscale='3h') + Periodic('1d')")
TimeKernel = Annotated[Kernel, Setting(_KERNEL, check=_IS_KERNEL)]
BesideInputs = Annotated[
    Kernel | None,
    Setting(
        'kernel over time, such as Matern(0.5, lengthscale="3h") + Periodic("1d"); None: inputs alone',
        check=optional(_IS_KERNEL),
    ),
]


class Trend(LeafKernel):
    """A level that moves with a slope which itself moves: an integrated Wiener process, for ``time=`` only.

    Left alone, the level strays by a standard deviation of sqrt(variance) within ``span``; it starts anywhere, and so
    it does after a gap of more than 33 spans, which counts as one of 33.
    """

    own = lengths = ("span",)

    def __init__(
        self,
        span: Annotated[float | str, Setting("within which the slope changes", "unit of the time", duration)] = 1.0,
        *,
        variance: Variance = 1.0,
    ) -> None:
        self.span, self.variance = duration("span", span), variance

    @property
    def operation(self) -> NoReturn:  # type: ignore[override]  # inputs have none
        raise ValueError("Trend is a kernel over time: use it in time=, as in TimeGP(Trend('90d'))")


class Block(NamedTuple):
    """One block: coordinates that move together.

    Args:
        kind: DECAY, HARMONIC, MATERN32, MATERN52 or TREND.
        variance: of what the block adds to the function; of a trend within its span.
        rate: of the decay, 1 / time; 1 / span of a trend.
        frequency: in radians over time.
        factors: the leaves that it is a product of, each with the number of its harmonic.
    """

    kind: int
    variance: float
    rate: float = 0.0
    frequency: float = 0.0
    factors: tuple[tuple[LeafKernel, int], ...] = ()

    @property
    def feature(self) -> list[float]:
        """What the block's coordinates are multiplied with in the function."""
        first = np.sqrt(self.variance) * (WIDE if self.kind == TREND else 1.0)
        return [float(first)] + [0.0] * (COORDINATES[self.kind] - 1)


class Component(NamedTuple):
    """A term of the sum that a kernel over time is."""

    name: str
    blocks: list[Block]


def components(kernel: Kernel) -> list[Component]:
    """The terms of a kernel over time, each with a name of its own; a kernel without a finite state is refused."""
    refuse_overrides(kernel)
    found: dict[str, list[Block]] = {}
    for term in _terms(kernel):
        name = _name(term)
        names = (name if count == 1 else f"{name} {count}" for count in itertools.count(1))
        found[next(one for one in names if one not in found)] = _blocks(term)
    return [Component(*one) for one in found.items()]


def _terms(kernel: Kernel) -> Iterator[Kernel]:
    if isinstance(kernel, Sum):
        yield from _terms(kernel.left)
        yield from _terms(kernel.right)
    else:
        yield kernel


def _name(kernel: Kernel) -> str:
    """What a term is called among the components: by its seasons, or by its kind."""
    leaves = [leaf for _, leaf in kernel.leaves()]
    seasons = [f"{SECONDS.get(leaf.period, f'{leaf.period:g}')}" for leaf in leaves if isinstance(leaf, Periodic)]
    if seasons:
        return " x ".join(seasons)
    kinds = {Matern: "level", Trend: "trend", Constant: "constant"}
    return next((kinds[type(leaf)] for leaf in leaves if type(leaf) in (Trend, Matern)), "constant")


def _blocks(kernel: Kernel) -> list[Block]:
    if isinstance(kernel, Product):
        return _product(_blocks(kernel.left), _blocks(kernel.right))
    if isinstance(kernel, Sum):
        return [*_blocks(kernel.left), *_blocks(kernel.right)]
    if isinstance(kernel, Constant):
        return [Block(DECAY, kernel.variance, factors=((kernel, 0),))]
    if isinstance(kernel, Trend):
        return [Block(TREND, kernel.variance, 1.0 / kernel.span, factors=((kernel, 0),))]
    if isinstance(kernel, Matern):
        kind, scale = {0.5: (DECAY, 1.0), 1.5: (MATERN32, 3.0**0.5), 2.5: (MATERN52, 5.0**0.5)}[kernel.order]
        return [Block(kind, kernel.variance, scale / _lengthscale(kernel), factors=((kernel, 0),))]
    if isinstance(kernel, Periodic):
        return _harmonics(kernel)
    raise ValueError(
        f"{type(kernel).__name__} has no finite state, so it cannot be a kernel over time; the nearest that can is "
        "Matern(2.5, lengthscale=...), which is almost as smooth"
    )


def _lengthscale(kernel: Matern | Periodic) -> float:
    if kernel.lengthscale is None:
        return 1.0
    if kernel.lengthscale.size != 1:
        raise ValueError(f"a kernel over time has one lengthscale; got {kernel.lengthscale.tolist()}")
    return float(kernel.lengthscale[0])


def _harmonics(kernel: Periodic) -> list[Block]:
    """exp(-2 sin^2(pi dt / period) / l^2) as a sum of cosines: as many as carry KEPT of the variance."""
    z = _lengthscale(kernel) ** -2.0
    weights = harmonic_weights(np.arange(MOST_HARMONICS + 1), z)[0]
    enough = np.flatnonzero(np.cumsum(weights) >= KEPT)
    if not enough.size:
        raise ValueError(
            f"a lengthscale of {z**-0.5:g} turns needs more than {MOST_HARMONICS} harmonics; use a longer one"
        )
    turn = 2.0 * np.pi / kernel.period
    return [
        Block(HARMONIC if j else DECAY, kernel.variance * float(weights[j]), 0.0, j * turn, ((kernel, j),))
        for j in range(int(enough[0]) + 1)
    ]


def harmonic_weights(j: Any, z: Any) -> tuple[FloatArray, FloatArray]:
    """The variance of the harmonics j of exp(-2 sin^2 / l^2), z = 1 / l^2, and its derivative for z."""
    # [solin2014]: e^-z I_0(z) + sum_j 2 e^-z I_j(z) cos(j w dt).
    twice = np.where(np.asarray(j) > 0, 2.0, 1.0)
    below, at, above = (special.ive(np.abs(np.asarray(j) + shift), z) for shift in (-1, 0, 1))
    return twice * at, twice * (0.5 * (below + above) - at)


def _product(left: list[Block], right: list[Block]) -> list[Block]:
    """The product of sums of decays and harmonics: cos a cos b = (cos(a + b) + cos(a - b)) / 2, with both decays.

    Of the side bands of two seasons those are left out that carry least, together up to 1 - KEPT of the variance.
    """
    found: list[Block] = []
    bands: list[Block] = []
    for a in left:
        for b in right:
            plain, other = (a, b) if a.kind == DECAY and a.rate == 0.0 else (b, a)
            if plain.kind == DECAY and plain.rate == 0.0:  # a constant scales whatever there is
                factors = plain.factors + other.factors
                found.append(other._replace(variance=plain.variance * other.variance, factors=factors))
                continue
            if not {a.kind, b.kind} <= {DECAY, HARMONIC}:
                raise ValueError(
                    "over time, products are of Matern(0.5), Periodic and Constant, which stay decays and harmonics; "
                    "Matern(1.5), Matern(2.5) and Trend can be added, or scaled by a constant"
                )
            variance, rate, factors = a.variance * b.variance, a.rate + b.rate, a.factors + b.factors
            if DECAY in (a.kind, b.kind):
                frequency = a.frequency + b.frequency
                found.append(Block(HARMONIC if frequency else DECAY, variance, rate, frequency, factors))
                continue
            for frequency in (a.frequency + b.frequency, abs(a.frequency - b.frequency)):
                kind = HARMONIC if frequency > 1e-12 * a.frequency else DECAY
                bands.append(Block(kind, 0.5 * variance, rate, frequency if kind == HARMONIC else 0.0, factors))
    spare = (1.0 - KEPT) * sum(block.variance for block in (*found, *bands))
    for band in sorted(bands, key=lambda one: one.variance):
        spare -= band.variance
        if spare < 0.0:
            found.append(band)
    return found

"""What Auto chooses from: models for inputs and targets in standard units, in three sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.kernels import Kernel, LinearKernel, SquaredExponential
from streamgp.process.features import Linear
from streamgp.process.forgetting import Injection
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior
from streamgp.recipes.gijsberts2013 import ISSGPR
from streamgp.recipes.soh2014 import SOGP
from streamgp.recipes.vanvaerenbergh2016 import FACTOR, KRLST
from streamgp.settings import Configured, duration

NOISE = 0.1  # where the search for hyperparameters starts, in variances of the target
DEFAULT = "300us"


class Sizes(NamedTuple):
    """How large the Gaussian processes are, and how many stay.

    Args:
        capacity: most basis points of KRLST.
        fewer: most basis points of SOGP.
        features: frequencies of ISSGPR.
        stay: how many stay at the end of the warm-up, after twice and after four times as many rows.
    """

    capacity: int
    fewer: int
    features: int
    stay: tuple[int, int, int]


# By the least budget in seconds a row. A row takes about that, in blocks on an idle core of a server.
SIZES = {
    1e-3: Sizes(400, 200, 200, (8, 6, 6)),
    200e-6: Sizes(200, 100, 150, (6, 5, 4)),
    0.0: Sizes(50, 30, 50, (3, 2, 2)),
}
LARGEST = SIZES[1e-3]
ROUNDING = 1.0 + 1e-9  # 200 millionths are a little less than 0.0002


def seconds(value: Any) -> float:
    """A budget in seconds."""
    try:
        return duration("budget", value)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"budget must be a time for each row such as '200us', '1ms', 0.0002 (seconds) or a timedelta; got {value!r}"
        ) from None


def sizes_of(budget: Any) -> Sizes:
    """The sizes that a budget pays for; None: the largest."""
    time = np.inf if budget is None else seconds(budget)
    return next(sizes for least, sizes in SIZES.items() if time * ROUNDING >= least)


class Candidate(NamedTuple):
    """A process that Auto may take.

    Args:
        settings: the settings that users may change.
        spectral: whether it is made of Fourier features.
        build: makes one for d inputs.
    """

    settings: tuple[str, ...]
    spectral: bool
    build: Callable[[int, Sizes], OnlineGP]


def scales(d: int) -> list[float]:
    """The distance of two rows in standard units grows with sqrt(d)."""
    return [float(np.sqrt(d))] * d


def _bent(d: int) -> Kernel:
    """Extrapolates like a straight line and bends like the squared exponential."""
    return SquaredExponential(scales(d)) + LinearKernel()


def _settings(kind: type[Configured]) -> tuple[str, ...]:
    """What users may change: candidates have a kernel of their own, so it cannot be given in short."""
    return tuple(name for name in kind.setting_names() if name not in ("lengthscale", "variance", "prior"))


# They differ in what they hold on to: the last thousand rows, what is worth keeping of all, all.
CANDIDATES = {
    "KRLST": Candidate(
        _settings(KRLST), False, lambda d, s: KRLST(_bent(d), capacity=s.capacity, forgetting=0.999, noise=NOISE)
    ),
    "SOGP": Candidate(_settings(SOGP), False, lambda d, s: SOGP(_bent(d), capacity=s.fewer, noise=NOISE, adapt=None)),
    "ISSGPR": Candidate(
        ISSGPR.setting_names(), True, lambda d, s: ISSGPR(s.features, lengthscale=scales(d), noise=NOISE)
    ),
}
LEAST_SQUARES = (1.0, 0.999, 0.99)  # forgetting factors


def least_squares(forgetting: float, precision: float) -> OnlineGP:
    """A straight line through rows of which older ones count less.

    Args:
        forgetting: factor a row.
        precision: of the prior of its weights, in units of the noise.
    """
    fading = None if forgetting == 1 else Injection(forgetting)
    return OnlineGP(Linear(precision), noise=1.0, forgetting=fading, form="cholesky")


def candidate(
    name: str,
    d: int,
    settings: dict[str, Any],
    sizes: Sizes = LARGEST,
    prior: Prior | None = None,
    own: int = 0,
) -> OnlineGP:
    """A candidate of some size, with those of the settings that it has.

    Args:
        name: of the candidate.
        d: inputs.
        settings: by name.
        sizes: what the budget pays for.
        prior: of a fleet, where the hyperparameters begin.
        own: the first inputs, for which the prior's lengthscales are; 0: all of them.
    """
    entry = CANDIDATES[name]
    given = {key: value for key, value in settings.items() if key.partition("__")[0] in entry.settings}
    if given.get("half_life") is not None:  # in place of the candidate's own forgetting by rows
        given = {"forgetting": FACTOR} | given
    built = entry.build(d, sizes)
    return (built if prior is None else _begun(built, entry.spectral, d, prior, own or d)).replaced(**given)


def _begun(model: OnlineGP, spectral: bool, d: int, prior: Prior, own: int) -> OnlineGP:
    """A candidate with the hyperparameters with which a new model of a fleet begins."""
    start, lengths = prior.start, np.array(scales(d))
    if "lengthscale" in start:
        lengths[:own] = start["lengthscale"]
    variance = float(start["variance"][0]) if "variance" in start else 1.0
    noise = {"noise": float(start["noise"][0])} if "noise" in start else {}
    if spectral:
        return model.replaced(lengthscale=lengths.tolist(), variance=variance, **noise)
    return model.replaced(kernel=SquaredExponential(lengths.tolist(), variance=variance) + LinearKernel(), **noise)

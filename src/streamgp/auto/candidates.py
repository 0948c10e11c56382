"""What Auto chooses from: models for inputs and targets in standard units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto.budget import LARGEST, Sizes
from streamgp.contract.model import StreamModel
from streamgp.kernels import Kernel, LinearKernel, SquaredExponential
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.features import Linear
from streamgp.process.forgetting import Injection
from streamgp.process.likelihood import StudentT
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.gijsberts2013 import ISSGPR
from streamgp.recipes.soh2014 import SOGP
from streamgp.recipes.vanvaerenbergh2016 import FACTOR, KRLST
from streamgp.settings import Configured

NOISE = 0.1  # where the search for hyperparameters starts, in variances of the target


class Candidate(NamedTuple):
    """A model that auto may take.

    Args:
        settings: the settings that users may change.
        family: candidates of one family have the same prior, and so the same hyperparameters.
        build: makes one for d inputs.
    """

    settings: tuple[str, ...]
    family: str
    build: Callable[[int, Sizes], StreamModel]


def scales(d: int) -> list[float]:
    """The distance of two rows in standard units grows with sqrt(d)."""
    return [float(np.sqrt(d))] * d


def _bent(d: int) -> Kernel:
    """Extrapolates like a straight line and bends like the squared exponential."""
    return SquaredExponential(scales(d)) + LinearKernel()


def _settings(kind: type[Configured]) -> tuple[str, ...]:
    """What users may change: candidates have a kernel of their own, so it cannot be given in short."""
    return tuple(name for name in kind.setting_names() if name not in ("lengthscale", "variance"))


# They differ in what they hold on to: the last hundred rows, the last thousand, what is worth keeping of all, all; of
# the last thousand those that are no outliers.
CANDIDATES = {
    "fast KRLST": Candidate(
        _settings(KRLST), "kernel", lambda d, s: KRLST(_bent(d), capacity=s.fewer, forgetting=0.99, noise=NOISE)
    ),
    "KRLST": Candidate(
        _settings(KRLST), "kernel", lambda d, s: KRLST(_bent(d), capacity=s.capacity, forgetting=0.999, noise=NOISE)
    ),
    "SOGP": Candidate(
        _settings(SOGP),
        "kernel",
        lambda d, s: SOGP(_bent(d), capacity=s.fewer, noise=NOISE, adapt=None if s.rest is None else SNGD(rest=s.rest)),
    ),
    "ISSGPR": Candidate(
        ISSGPR.setting_names(),
        "spectrum",
        lambda d, s: ISSGPR(s.features, lengthscale=scales(d), noise=NOISE, adapt=SNGD() if s.adapts else None),
    ),
    "robust KRLST": Candidate(
        tuple(name for name in _settings(KRLST) if name not in ("noise", "likelihood")),
        "robust kernel",
        lambda d, s: KRLST(_bent(d), capacity=s.fewer, forgetting=0.999, likelihood=StudentT(NOISE**0.5)),
    ),
}
ROBUST = ("robust KRLST",)  # those that only join where there are outliers
LEAST_SQUARES = (1.0, 0.999, 0.99)  # forgetting factors


def least_squares(forgetting: float) -> StreamModel:
    """A straight line through rows of which older ones count less."""
    fading = None if forgetting == 1 else Injection(forgetting)
    return OnlineGP(Linear(0.01), noise=1.0, forgetting=fading, form="cholesky")


def candidate(name: str, d: int, settings: dict[str, Any], sizes: Sizes = LARGEST) -> StreamModel:
    """A candidate of some size, with those of the settings that it has."""
    entry = CANDIDATES[name]
    own = {key: value for key, value in settings.items() if key.partition("__")[0] in entry.settings}
    if own.get("half_life") is not None:  # in place of the candidate's own forgetting by rows
        own = {"forgetting": FACTOR} | own
    return entry.build(d, sizes).replaced(**own)

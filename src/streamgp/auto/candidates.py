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
from streamgp.process.prior import Prior
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
    return tuple(name for name in kind.setting_names() if name not in ("lengthscale", "variance", "prior"))


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
LOGARITHMIC = (0.999, 0.99)  # those of lines for the logarithm of the target
WEAK = 0.01  # precision of the weights of a line that has rows enough


def least_squares(forgetting: float, precision: float = WEAK) -> StreamModel:
    """A straight line through rows of which older ones count less.

    Args:
        forgetting: factor a row.
        precision: of the prior of its weights, in standard units; d of them for d inputs say that the inputs together
            explain about as much as the noise.
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
) -> StreamModel:
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
    return (built if prior is None else begun(built, entry.family, d, prior, own or d)).replaced(**given)


def begun(model: StreamModel, family: str, d: int, prior: Prior, own: int) -> StreamModel:
    """A candidate with the hyperparameters with which a new model of a fleet begins."""
    start, lengths = prior.start, np.array(scales(d))
    if "lengthscale" in start:
        lengths[:own] = start["lengthscale"]
    variance = float(start["variance"][0]) if "variance" in start else 1.0
    noise = {"noise": float(start["noise"][0])} if "noise" in start else {}
    if family == "spectrum":
        return model.replaced(lengthscale=lengths.tolist(), variance=variance, **noise)
    kernel = SquaredExponential(lengths.tolist(), variance=variance) + LinearKernel()
    return model.replaced(kernel=kernel, **(noise if family == "kernel" else {}))

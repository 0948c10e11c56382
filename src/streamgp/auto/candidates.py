"""What Auto chooses from: models for inputs and targets in standard units, in three sizes, and models over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.spacing import usual_gap
from streamgp.kernels import Kernel, LinearKernel, SquaredExponential
from streamgp.process.features import Linear
from streamgp.process.forgetting import Injection
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior
from streamgp.recipes.gijsberts2013 import ISSGPR
from streamgp.recipes.soh2014 import SOGP
from streamgp.recipes.time import TimeGP
from streamgp.recipes.vanvaerenbergh2016 import FACTOR, KRLST
from streamgp.settings import Configured, FloatArray, duration
from streamgp.tuning.series import NOISE, REPEATS, Structure, choose, series_kernel
from streamgp.wrappers.units import center_and_spread

USUAL = {"variance": 1.0, "noise": 0.1}  # where the search for hyperparameters starts, in variances of the target
TIME_ROWS, TIME_ITERATIONS = 400, 8  # the last rows that count for a kernel over time, and of its search
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


def scales(d: int) -> list[float]:
    """The distance of two rows in standard units grows with sqrt(d)."""
    return [float(np.sqrt(d))] * d


def _settings(kind: type[Configured]) -> tuple[str, ...]:
    """What users may change: candidates have a kernel of their own, so it cannot be given in short."""
    return tuple(name for name in kind.setting_names() if name not in ("lengthscale", "variance", "prior"))


# The settings of each that users may change. They differ in what they hold on to: the last thousand rows, what is worth
# keeping of all, all. Without SOGP errors in rows 501 to 3,000 are 1.02 (barrett_wam) and 1.76 times as large (tank).
CANDIDATES = {"KRLST": _settings(KRLST), "SOGP": _settings(SOGP), "ISSGPR": ISSGPR.setting_names()}
LEAST_SQUARES = (1.0, 0.999, 0.99)  # forgetting factors


def least_squares(forgetting: float, precision: float) -> OnlineGP:
    """A straight line through rows, with a prior precision of its weights in units of the noise."""
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
    """A candidate of some size for d inputs, with those of the settings that it has.

    Args:
        name: of the candidate.
        d: inputs.
        settings: by name.
        sizes: what the budget pays for.
        prior: of a fleet, where the hyperparameters begin.
        own: the first inputs, for which the prior's lengthscales are; 0: all of them.
    """
    given = {key: value for key, value in settings.items() if key.partition("__")[0] in CANDIDATES[name]}
    if given.get("half_life") is not None:  # in place of the candidate's own forgetting by rows
        given = {"forgetting": FACTOR} | given
    known, lengths = {} if prior is None else prior.start, np.array(scales(d))
    if "lengthscale" in known:
        lengths[: own or d] = known["lengthscale"]
    variance, noise = (float(known[one][0]) if one in known else usual for one, usual in USUAL.items())
    if name == "ISSGPR":
        return ISSGPR(sizes.features, lengthscale=lengths.tolist(), variance=variance, noise=noise).replaced(**given)
    # It extrapolates like a straight line and bends like the squared exponential.
    bent = SquaredExponential(lengths.tolist(), variance=variance) + LinearKernel()
    if name == "SOGP":
        return SOGP(bent, capacity=sizes.fewer, noise=noise, adapt=None).replaced(**given)
    return KRLST(bent, capacity=sizes.capacity, forgetting=0.999, noise=noise).replaced(**given)


def over_time(kernel: Kernel, noise: float, inputs: int) -> OnlineGP:
    """y = g(t) + noise, or, where there are inputs, y = f(x) + g(t) + noise with a straight line f."""
    if not inputs:
        return TimeGP(kernel, noise=noise)
    return OnlineGP(Linear(1.0, constant=False), noise=noise, time=kernel)


def kernel_over_time(
    y: FloatArray, times: FloatArray, seasons: Sequence[int], tune: bool
) -> tuple[Kernel, float] | None:
    """A level, short memory and seasons (tuning/series.py) in standard units, and the noise; None: too little is known.

    Args:
        y: (n,) targets, NaN where missing.
        times: (n,) their times, which do not go back.
        seasons: rows of those that are known; the rows have to show one often enough.
        tune: whether hyperparameters are tuned, and seasons found where none is known.
    """
    known = ~np.isnan(y)
    step = usual_gap(times[known])
    shift, scale = center_and_spread(y[known])
    if not step or not scale > 0:
        return None
    shown = [step * season for season in seasons if REPEATS * step * season <= times[known][-1] - times[known][0]]
    if not tune:
        return series_kernel(Structure(tuple(sorted(shown)), False, False), step, 1.0), NOISE
    y, about = (y - shift) / scale, shown if seasons else None
    chosen = choose(y, times, about, log=False, trend=False, rows=TIME_ROWS, iterations=TIME_ITERATIONS)
    return chosen.kernel, chosen.noise

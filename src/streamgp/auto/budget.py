"""Budget: how much of the processor's time a row may take, and what that pays for.

Times come from a fixed table, not from the machine: the same setting gives the same members, and so the same numbers,
everywhere. The table is rounded from rows in blocks on one idle core of an x86 server; an ARM server takes 0.9 to 1.12
times as long. Rows that come one by one take about half a millisecond more, whatever the members.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.kernels.temporal import COORDINATES, components
from streamgp.settings import duration
from streamgp.wrappers.wrapper import Wrapper

DEFAULT = "300us"
MICROSECOND = 1e-6


class Sizes(NamedTuple):
    """How large the Gaussian processes are.

    Args:
        capacity: most basis points of a KRLST that remembers about a thousand rows.
        fewer: most basis points of the others.
        features: frequencies of ISSGPR.
        adapts: whether ISSGPR moves its hyperparameters, which costs as much as three others.
        rest: rows between two moves of the hyperparameters of SOGP; None: it has none.
    """

    capacity: int
    fewer: int
    features: int
    adapts: bool
    rest: int | None


# Microseconds a row from which sizes are affordable.
LADDER = {
    1000.0: Sizes(200, 100, 200, True, 50),
    200.0: Sizes(200, 100, 200, False, 50),
    100.0: Sizes(100, 50, 100, False, 450),
    0.0: Sizes(50, 30, 50, False, None),
}
LARGEST = LADDER[1000.0]
# Of one row: what is done around the members, for a committee of K members (three regressions on each other), and a
# naive member.
AROUND, PAIR, NAIVE = 20.0, 0.04, 1.0


class Budget(NamedTuple):
    """Time for a row, and the sizes that it affords.

    Args:
        microseconds: a row, of one output; inf: no limit.
        sizes: of the Gaussian processes.
    """

    microseconds: float
    sizes: Sizes

    @classmethod
    def of(cls, value: Any) -> Budget:
        """A budget from a length of time such as "200us", 0.0002 or a timedelta; None: no limit."""
        time = np.inf if value is None else round(seconds(value) / MICROSECOND, 6)
        return cls(time, next(sizes for least, sizes in LADDER.items() if time >= least))

    def left(self, others: list[StreamModel]) -> float:
        """Microseconds that are left for Gaussian processes beside this many other members."""
        return self.microseconds - AROUND - PAIR * len(others) ** 2 - sum(cost(member) for member in others)


def seconds(value: Any) -> float:
    """A budget in seconds."""
    try:
        return duration("budget", value)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"budget must be a time for each row such as '200us', '1ms', 0.0002 (seconds) or a timedelta; got {value!r}"
        ) from None


def cost(model: StreamModel) -> float:
    """Microseconds for a row of a model that is ready to learn."""
    while isinstance(model, Wrapper):
        model = model._within
    settings, d = model.get_params(), model._d or 1
    adapts = settings.get("adapt") is not None
    if (kernel := settings.get("time")) is not None and settings.get("capacity") is None:
        return 1.0 + 0.1 * d + 0.45 * sum(COORDINATES[block.kind] for one in components(kernel) for block in one.blocks)
    if (capacity := settings.get("capacity")) is not None:
        moves = settings["adapt"].interval / (settings["adapt"].interval + settings["adapt"].rest) if adapts else 0.0
        return float(4.0 + 0.05 * capacity + 0.0015 * capacity**2 + moves * capacity * (0.007 * capacity + 0.045 * d))
    if (features := settings.get("features")) is not None and not hasattr(features, "kernel"):
        return float(2.0 + 0.04 * features + 0.0026 * features**2 + (4.6e-5 * features**3 if adapts else 0.0))
    return NAIVE if not model.has_variance else 0.5 + 0.1 * d + 0.0013 * d * d

"""Data: seeded generators of the papers' benchmark series."""

from streamgp.data.functions import cross, cross_grid, huber_function
from streamgp.data.series import (
    Series,
    channel_switch,
    henon,
    ikeda,
    lorenz,
    mackey_glass,
    narma10,
    np1,
    np2,
)

__all__ = [
    "Series",
    "channel_switch",
    "cross",
    "cross_grid",
    "henon",
    "huber_function",
    "ikeda",
    "lorenz",
    "mackey_glass",
    "narma10",
    "np1",
    "np2",
]

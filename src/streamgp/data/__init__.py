"""Data: seeded generators of the papers' benchmark series, and loaders of real tables."""

from streamgp.data.functions import cross, cross_grid, huber_function
from streamgp.data.series import (
    Series,
    channel_switch,
    henon,
    ikeda,
    laser,
    lorenz,
    mackey_glass,
    narma10,
    np1,
    np2,
)
from streamgp.data.tables import Table, available, load, names

__all__ = [
    "Series",
    "Table",
    "available",
    "channel_switch",
    "cross",
    "cross_grid",
    "henon",
    "huber_function",
    "ikeda",
    "laser",
    "load",
    "lorenz",
    "mackey_glass",
    "names",
    "narma10",
    "np1",
    "np2",
]

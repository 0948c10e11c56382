"""The Santa Fe laser as a benchmark series of [soh2014]."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reproductions.data.tables import load
from streamgp.data.series import Series, one_step
from streamgp.settings import whole


def laser(
    n: int | None = None,
    seed: int = 0,
    noise_std: float = 0.05,
    irrelevant: int = 0,
    root: str | Path | None = None,
) -> Series:
    """Santa Fe laser A, intensity one step ahead, divided by its maximum and centred [soh2014 VI].

    The series is measured: ``truth`` is the next value as recorded, to which the benchmark adds noise.

    Args:
        n: rows from the beginning, at most 10 092; None: all.
        seed: of the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the noise that is added to inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.
        root: the folder of data; None: the environment variable STREAMGP_DATA.
    """
    table = load("santafe_laser", root)
    rows = len(table.X)
    n = rows if n is None else whole("n", n)
    if n > rows:
        raise ValueError(f"n must be at most {rows}, the length of the laser series less one; got {n}")
    x = np.append(table.X[:, 0], table.Y[-1])
    x /= x.max()
    return one_step((x - x.mean())[: n + 1, None], ("intensity",), seed, noise_std, irrelevant)

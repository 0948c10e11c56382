"""Kept: what is kept of a stream in arrays, to go on from them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from streamgp.contract.saved import refuse_unlike


class Kept:
    """Something whose whole state is arrays: those of the attributes that it names, each without its underscore."""

    state: ClassVar[tuple[str, tuple[str, ...]]]  # what their names in a file begin with, and the names
    grows: ClassVar[frozenset[str]] = frozenset()  # those that have any number of rows

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        head, names = self.state
        return {f"{head}.{name}": getattr(self, f"_{name}") for name in names}

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Go on from saved arrays."""
        head, names = self.state
        for name in names:
            full, grows = f"{head}.{name}", name in self.grows
            array, saved = getattr(self, f"_{name}"), tensors[full]
            refuse_unlike({full: saved[:0] if grows else saved}, {full: array[:0] if grows else array})
            if grows:
                setattr(self, f"_{name}", saved.copy())
            else:
                array[...] = saved

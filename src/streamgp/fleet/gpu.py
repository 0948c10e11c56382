"""GpuEngine: processes on a GPU, run by kernels made of the cores' own loops; wrappers around them on the cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.contract.stackable import stack_of
from streamgp.cuda.columns import Columns, Place
from streamgp.fleet.cpu import CpuEngine


class GpuEngine(CpuEngine):
    """One model that stands for all, as on the cores, whose innermost numbers are elsewhere.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        threads: that run wrappers at the same time.
        place: the memory of the GPU.
    """

    def __init__(self, model: StreamModel, size: int, threads: int, place: Place) -> None:
        self._place = place
        *around, _ = model._family()
        super().__init__(model, size, threads if around else 1)

    def _places_of(self, one: Any) -> Any:
        *_, process = self._model._family()
        if one is not process:
            return super()._places_of(one)
        columns = Columns(self._blank_process()._numbers, self._place, process._run)
        process._run, process._direct = columns, False  # what else is compiled cannot call it
        return columns

    def _blank_process(self) -> Any:
        *_, process = self._blank._family()
        return process

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        cores = CpuEngine(self._blank, self.size, 1)
        cores.restore(saved)
        for mine, theirs in zip(stack_of(self._model), stack_of(cores._model), strict=True):
            mine[...] = theirs

    def check_restored(self) -> None:
        self._on_the_cores().check_restored()

    def broken(self) -> np.ndarray:
        return self._on_the_cores().broken()

    def _on_the_cores(self) -> CpuEngine:
        """A copy."""
        cores = CpuEngine(self._blank, self.size, 1)
        cores.restore(self.arrays())
        return cores

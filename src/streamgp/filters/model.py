"""What the filters share as stream models: their state, and how calls reach the compiled layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract.checks import check
from streamgp.filters import rules
from streamgp.kernels import Kernel, described_kernel
from streamgp.kernels.program import Program
from streamgp.process import memory as memory_part
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.memory import Memory, Window
from streamgp.settings import FloatArray

NO_KERNEL = Program(np.zeros((0, 5), np.int64), np.zeros(0))


class Filter(CompiledModel):
    """A filter: it follows the targets by steps along the error, and knows no variance.

    It forecasts a mean only: ``has_variance`` is False and ``variance`` is NaN. Several outputs share the terms.
    """

    has_variance = False
    # Settings with a unit: with the kernel times v, and these times v to the power given, it is the same filter.
    _units_of_variance: tuple[tuple[str, int], ...] = ()
    _may_overflow = ("alpha", "units", "last_target")  # with too large a step the errors grow without bound

    def _expand(self, rule: int, kernel: Kernel, expansion: Any, **tuning: float) -> None:
        """Be a sum of kernel functions, with the settings that all of these have."""
        kernel = described_kernel(kernel, lengthscale=expansion["lengthscale"], variance=expansion["variance"])
        self._compose(rule, Window(expansion["depth"]), kernel, expansion["capacity"], **tuning)

    def _compose(
        self, rule: int, memory: Memory, kernel: Kernel | None = None, capacity: int = 0, **tuning: float
    ) -> None:
        """Keep the parts and compile the loop; without a kernel the terms are what the memory hands over and a 1."""
        self._memory, self._kernel, self._capacity, self._run = memory, kernel, capacity, rules.run
        read = {"rule": rule, "shared": True, "retention": memory.retention, "feedback": memory.feeds_back}
        self._plan: dict[str, float] = read | tuning
        compile_now(rules.run, check)

    # The state.

    def _start(self, d: int, p: int) -> None:
        memory, kernel, points = self._memory, self._kernel, self._capacity
        width = memory.width(d)
        terms = points or width + 1
        program = NO_KERNEL if kernel is None else kernel.program(width, memory.depth)
        sizes = memory_part.sizes(memory, d, p) | {
            "width": width,
            "parameters": program.parameters.size,
            "points": points,
            "powers": points if self._plan["rule"] == rules.KNLMS else 0,
            "terms": terms,
            "last": terms - 1,
            "steps": len(program.operations),
            "kernel_scratch": program.scratch(points, width),
        }
        numbers = Numbers(rules.LAYOUT, sizes, self._plan)
        numbers.counters["terms"] = 0 if points else terms  # a readout has all of them from the start
        numbers.work.operations[:] = program.operations
        numbers.state.parameters[:] = program.parameters
        self._place(numbers)

    def _pass(self, *given: Any) -> FloatArray:
        columns = super()._pass(*given)
        columns[2] = self._plan.get("noise", np.nan)
        return columns

    # What can be read.

    @property
    def size(self) -> int:
        return 0 if self._d is None else self._numbers.count("terms")

    @property
    def basis(self) -> FloatArray:
        """The inputs of the terms, (size, width), the oldest first; a readout has none."""
        if self._d is None:
            return np.empty((0, 0))
        return np.roll(self._state.basis[: self.size], -self._numbers.count("oldest"), axis=0)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        # Before the first row only those that do not depend on its width.
        named: dict[str, float | FloatArray] = {}
        if self._kernel is not None and self._d is not None:
            width, depth = self._memory.width(self._d), self._memory.depth
            named = self._kernel.hyperparameters(self._state.parameters, width, depth)
        return named | {name: value for name, value in self._plan.items() if name == "noise"}

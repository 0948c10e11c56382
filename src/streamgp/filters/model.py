"""What the filters share as stream models: their state, and how calls reach the compiled layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamgp import inputs
from streamgp.compiled import INTEGERS, MATRIX, VECTOR, compile_now
from streamgp.core import layout
from streamgp.filters import rules
from streamgp.kernels import Kernel
from streamgp.memory import Memory
from streamgp.model import Change, MemoryModel
from streamgp.prediction import Prediction
from streamgp.settings import FloatArray


class Filter(MemoryModel):
    """A filter: it follows the targets by steps along the error, and knows no variance.

    It forecasts a mean only: ``has_variance`` is False and ``variance`` is NaN. Several outputs share the terms.
    """

    has_variance = False

    _plan: np.ndarray
    _floats: FloatArray
    _state: rules.State

    def _compose(
        self,
        rule: int,
        memory: Memory,
        tuning: Mapping[int, float],
        kernel: Kernel | None = None,
        capacity: int = 0,
    ) -> None:
        """Keep the parts and compile the loop; without a kernel the terms are what the memory hands over and a 1."""
        self._rule, self._memory, self._kernel, self._capacity = rule, memory, kernel, capacity
        self._tuning = dict(tuning)
        compile_now(rules.run, INTEGERS, INTEGERS, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)
        compile_now(rules.predict, INTEGERS, INTEGERS, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)

    # The state.

    def _start(self, d: int, p: int) -> None:
        memory, kernel = self._memory, self._kernel
        width = memory.width(d)
        plan = np.zeros(rules.PLAN_SIZE, dtype=np.int64)
        counters = np.zeros(rules.COUNTERS_SIZE, dtype=np.int64)
        counters[rules.EVICTED] = -1
        if kernel is None:
            capacity, points, parameters, kernel_scratch = width + 1, 0, np.zeros(0), 0
            counters[rules.SIZE] = capacity
        else:
            capacity = points = self._capacity
            program = kernel.program(width, memory.depth)
            parameters, kernel_scratch = program.parameters, program.scratch(points, width)
            plan = np.concatenate([plan, program.operations.ravel()])
            plan[rules.STEPS] = len(program.operations)
        for index, value in (
            (rules.RULE, self._rule),
            (rules.INPUTS, d),
            (rules.OUTPUTS, p),
            (rules.DEPTH, memory.depth),
            (rules.UNITS, memory.units),
            (rules.FEEDBACK, memory.feeds_back),
            (rules.WIDTH, width),
            (rules.CAPACITY, capacity),
            (rules.POINTS, points),
            (rules.POWERS, points if self._rule == rules.KNLMS else 0),
            (rules.PARAMETERS, parameters.size),
        ):
            plan[index] = value
        floats = np.zeros(rules.float_size(plan))
        state = rules.state_of(plan, floats)
        for index, number in self._tuning.items():
            state.tuning[index] = number
        state.tuning[rules.RETENTION] = memory.retention
        state.parameters[:] = parameters
        self._place_memory(state, counters, d, p)
        self._plan, self._counters, self._floats, self._state = plan, counters, floats, state
        self._work = np.zeros(rules.work_size(plan, kernel_scratch))
        self._no_targets, self._no_implied = np.empty((0, p)), np.empty((0, 1))

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        nothing = self._no_targets
        mean = np.empty((len(X), nothing.shape[1])) if report else nothing
        targets = nothing if Y is None else Y
        status, at = rules.run(self._plan, self._counters, self._floats, self._work, X, targets, mean)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return self._with_no_variance(mean) if report else None

    def _foresee(self, X: FloatArray) -> Prediction:
        mean = np.empty((len(X), self._no_targets.shape[1]))
        self._predict(X, mean, self._no_implied)
        return self._with_no_variance(mean)

    def _predict(self, X: FloatArray, mean: FloatArray, implied: FloatArray) -> None:
        status, at = rules.predict(self._plan, self._counters, self._floats, self._work, X, mean, implied)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)

    def _with_no_variance(self, mean: FloatArray) -> Prediction:
        variance, noise = np.empty((len(mean), 1)), np.empty((len(mean), 1))
        variance.fill(np.nan)
        noise.fill(self._tuning.get(rules.NOISE, np.nan))
        return Prediction(mean, variance, noise)

    def _check_restored(self) -> None:
        size, head, most = (int(i) for i in (*self._counters[[rules.SIZE, rules.HEAD]], self._plan[rules.CAPACITY]))
        if not (most if self._kernel is None else 0) <= size <= most:
            raise ValueError(f"the snapshot says {size} terms, the model has room for {most}")
        if not 0 <= head < (most if size == most else 1):
            raise ValueError(f"the snapshot says the oldest of {size} terms is number {head}")

    # What can be read.

    @property
    def size(self) -> int:
        return 0 if self._d is None else int(self._counters[rules.SIZE])

    @property
    def basis(self) -> FloatArray:
        """The inputs of the terms, (size, width), the oldest first; a readout has none."""
        if self._d is None:
            return np.empty((0, 0))
        return np.roll(self._state.basis[: self.size], -int(self._counters[rules.HEAD]), axis=0)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        # Before the first row only those that do not depend on its width.
        named: dict[str, float | FloatArray] = {}
        if self._kernel is not None and self._d is not None:
            width = int(self._plan[rules.WIDTH])
            named |= self._kernel.hyperparameters(self._state.parameters, width, self._memory.depth)
        if rules.NOISE in self._tuning:
            named["noise"] = self._tuning[rules.NOISE]
        return named

    @property
    def last_change(self) -> Change:
        if self._d is None:
            return Change()
        change = int(self._counters[rules.CHANGE])
        return Change(
            absorbed=change == layout.ABSORBED,
            admitted=change in (layout.ADMITTED, layout.REPLACED),
            evicted=int(self._counters[rules.EVICTED]),
        )

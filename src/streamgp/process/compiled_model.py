"""CompiledModel: the base of all models whose rows a compiled loop takes. What it has follows from its layout."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract import inputs
from streamgp.contract.checks import LARGEST
from streamgp.contract.lanes import PREDICTED, TAKEN
from streamgp.contract.model import Change, Health, Row, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.process.memory import Memory, place
from streamgp.settings import FloatArray


class CompiledModel(StreamModel):
    """A stream model whose numbers compiled code reads by name, a memory among them."""

    _stacks = True
    _numbers: Numbers
    _largest = LARGEST
    _one_step = True
    _memory: Memory
    _state: SimpleNamespace  # the arrays of the numbers
    _run: Any  # the compiled loop (process/loop.py)
    _columns = 3  # of a prediction, for each output: mean, variance, noise
    _direct = False  # whether predictions of one output are these columns, with nothing to add

    def _place(self, numbers: Numbers) -> None:
        """Take fresh numbers; what a model without any target yet has remembered is carried over."""
        place(self._memory, numbers)
        if self._d is not None:
            numbers.state.window[:] = self._state.window
            numbers.state.units[:] = self._state.units
            numbers.counters["rows_seen"] = self._numbers.counters["rows_seen"]
        self._numbers, self._state, self._one = numbers, numbers.state, Row.empty()
        self._room = self._one.columns[: self._columns]

    def _place_at(self, records: np.ndarray, buffers: np.ndarray) -> None:
        """Go on with a copy of the numbers in another place, (1, ...) each."""
        self._numbers = self._numbers.at(records, buffers)
        self._state = self._numbers.state

    # Rows.

    def _pass(
        self,
        kinds: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        out: FloatArray,
    ) -> None:
        """Let the loop take rows of these kinds; their predictions go into out, (numbers, n)."""
        given = X, X[:0] if Y is None else Y, X[:0] if conditions is None else conditions
        lanes = self._numbers.records, self._numbers.buffers, *self._lanes
        status, _, at = self._run(*lanes, kinds, *given, out, 0, 0)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        out = np.empty((self._columns * self._state.last_target.size, len(X) if report else 0))
        self._pass(TAKEN[report, Y is not None], X, Y, conditions, out)
        return self._prediction(out) if report else None

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        out = np.empty((self._columns * self._state.last_target.size, len(X)))
        self._pass(PREDICTED, X, None, conditions, out)
        return self._prediction(out)

    def _quick(self) -> bool:
        return self._direct and self._shape.p == 1 and not self._needs_time

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        self._pass(PREDICTED if Y is None else TAKEN[True, True], X, Y, None, self._room)
        if not self.has_variance:
            self._one.out[1:] = np.nan
        return self._one

    def _take_row(self, X: FloatArray, Y: FloatArray | None) -> None:
        if Y is None:  # it is refused where it is predicted
            self._row(X, None)
        else:
            super()._take_row(X, Y)

    def _prediction(self, out: FloatArray) -> Prediction:
        """What the loop said, means, variances, noises, (numbers, n)."""
        mean, variance, noise = np.split(out, 3)
        return Prediction(mean.T, variance.T, noise.T)

    # The state.

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays()

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        limits = self._numbers.limits
        for name, array in named.items():
            own = name.removeprefix("counters.")
            if own in limits:
                require(own, array, at_least=limits[own][0], at_most=limits[own][1])
            else:
                require(name, array, finite=name not in self._may_overflow)

    def reset_memory(self) -> None:
        if self._d is not None:
            for array in self._memory_arrays():
                array[...] = 0.0

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._state.window, self._state.units, self._state.last_target]

    def _remember(self, X: FloatArray) -> None:
        counters, models = self._numbers.records["counters"], self._lanes.models
        before = counters[models]
        self._advance(X, None, report=False)
        counters[models] = before

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._state.window[-1], self._state.last_target

    def _recall(self, y: FloatArray) -> None:
        self._state.last_target[:] = y

    def _units(self) -> int:
        return self._memory.units

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else self._numbers.count("rows_seen")

    @property
    def last_change(self) -> Change:
        """Whether the last row was absorbed or admitted, and which part of the model left."""
        if self._d is None:
            return Change()
        absorbed, admitted, left = (self._numbers.count(name) for name in ("absorbed", "admitted", "left"))
        return Change(bool(absorbed), bool(admitted), (left - 1,) if left else ())

    @property
    def health(self) -> Health:
        return Health() if self._d is None else Health.of(self._numbers)

"""CompiledModel: the base of all models whose rows a compiled loop takes. What it has follows from its layout."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract import inputs
from streamgp.contract.checks import DUE_AFTER, DUE_BEFORE, LARGEST
from streamgp.contract.model import Change, Health, StreamModel
from streamgp.process import rare
from streamgp.process.memory import Memory, place
from streamgp.settings import FloatArray, Maybe

DUE = DUE_BEFORE, DUE_AFTER
NONE = np.empty((0, 1))  # of targets, of conditions, or of lines


class CompiledModel(StreamModel):
    """A stream model whose numbers compiled code reads by name, a memory among them."""

    _stacks = True
    _numbers: Numbers
    _largest = LARGEST
    _one_step = True
    _memory: Memory
    _state: SimpleNamespace  # the arrays of the numbers
    _run: Any  # the compiled loop (process/loop.py)
    _needs_cores = ""  # what of it a GPU could not run

    def _place(self, numbers: Numbers) -> None:
        """Take fresh numbers; what a model without any target yet has remembered is carried over."""
        place(self._memory, numbers)
        if self._d is not None:
            numbers.state.window[:] = self._state.window
            numbers.state.units[:] = self._state.units
            numbers.counters["rows_seen"] = self._numbers.counters["rows_seen"]
        self._numbers, self._state = numbers, numbers.state

    def _place_at(self, records: np.ndarray, buffers: np.ndarray) -> None:
        """Go on with a copy of the numbers in another place, (1, ...) each."""
        self._numbers = self._numbers.at(records, buffers)
        self._state = self._numbers.state

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        columns = self._room((len(self._columns), len(X), self._state.last_target.size))
        self._do(ops, X, Y, conditions, kept, columns)
        if not self.has_variance:
            columns[1:] = np.nan
        return columns

    def _room(self, shape: tuple[int, ...]) -> FloatArray:
        """For predictions; where a loop of another kind takes them from there fastest (cuda/columns.py)."""
        room: FloatArray = getattr(self._run, "room", np.zeros)(shape)
        return room

    def _do(
        self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe, columns: FloatArray
    ) -> None:
        """Let the loop do operations; predictions go into columns, (columns, n, p)."""
        numbers = self._numbers
        given = (
            *(numbers.records, numbers.buffers, *self._lanes, ops, X, NONE if Y is None else Y),
            *(NONE if conditions is None else conditions, NONE if kept is None else kept, columns),
        )
        status, lane, at = self._run(*given, 0, 0)
        if status in DUE:
            status, at = rare.go_on(self._run, numbers, self._lanes, given, status, lane, at)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return 1 + int(self._numbers.work.seen.size)

    # The state.

    def reset_memory(self) -> None:
        if self._d is not None:
            for array in (self._state.window, self._state.units, self._state.last_target):
                array[...] = 0.0

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._state.window[-1], self._state.last_target

    @property
    def _units(self) -> int:  # type: ignore[override]
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

"""Panels: members of a committee that are alike, through all of which one row goes in a few compiled calls.

Each member stays a model of its own. Its numbers lie side by side with those of the others, as those of a fleet do
(contract/lanes.py), so that all are reached by one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import inputs
from streamgp.contract.checks import MOVE_IS_DUE
from streamgp.contract.lanes import ALONE, Lanes
from streamgp.contract.model import StreamModel
from streamgp.process.adapt import sngd
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.wrappers import scaling
from streamgp.wrappers.mapped import Mapped
from streamgp.wrappers.standardize import Standardize


class Seat(NamedTuple):
    """A member that fits into a panel: a process in standard units, of some columns or of a change.

    Args:
        place: of the member in its committee.
        around: what maps its rows, the outermost first.
        units: the wrapper in whose units the process learns.
        process: the process.
    """

    place: int
    around: list[Mapped]
    units: Standardize
    process: OnlineGP

    @classmethod
    def of(cls, place: int, member: StreamModel) -> Seat | None:
        """The seat of a member; None: it does not fit into any panel."""
        around: list[Mapped] = []
        shifted = False
        while isinstance(member, Mapped) and not isinstance(member, Standardize):
            affine = member._affine(np.zeros((1, member._d or 0)))
            if not _follows(member, Mapped, "_advance", "_predict", "_issue", "_resolve") or (
                affine is not None and (shifted or affine.factor != 1.0)
            ):
                return None
            shifted = shifted or affine is not None
            around.append(member)
            member = member._within
        if not (isinstance(member, Standardize) and member.frozen and member._lanes is ALONE):
            return None
        process = member._within
        if not (isinstance(process, OnlineGP) and process._quick() and process.has_variance):
            return None
        fits = _follows(process, OnlineGP, "_advance", "_predict", "_row")
        return cls(place, around, member, process) if fits else None

    @property
    def kind(self) -> tuple[object, ...]:
        """What the members of a panel have in common."""
        return self.process._run, self.process._numbers.buffers.shape, self.process._d


class Panel:
    """Members of one kind, whose numbers are moved side by side.

    Args:
        seats: of the members.
    """

    def __init__(self, seats: Sequence[Seat]) -> None:
        k, process, d = len(seats), seats[0].process, seats[0].process._d or 0
        self._places, self._run = np.array([seat.place for seat in seats]), process._run
        self._lanes = Lanes(np.arange(k), np.arange(k + 1))
        self._records, self._buffers = (
            _side_by_side([getattr(seat.process._numbers, name) for seat in seats]) for name in ("records", "buffers")
        )
        units = [_side_by_side(arrays) for arrays in zip(*(seat.units._unit_arrays for seat in seats), strict=True)]
        for i, seat in enumerate(seats):
            own = slice(i, i + 1)
            seat.process._place_at(self._records[own], self._buffers[own])
            seat.units._restack([*(array[own] for array in units), *seat.units._stack()[len(units) :]])
        input_shift, input_scale, target_shift, target_scale = units
        self._input_units, self._target_units = (input_shift, input_scale), (target_shift, target_scale)
        self._mapped = [(i, seat.around) for i, seat in enumerate(seats) if seat.around]
        self._inputs, self._standard_inputs = np.empty((2, k, d))
        self._targets, self._standard_targets, self._shift = np.zeros((3, k, 1))
        self._raw, self._told = np.empty((2, 3, k, 1))
        self._out, self._no_targets, self._no_conditions = self._raw[:, :, 0], np.empty((0, 1)), process._no_conditions
        self._bare = np.array([i for i, seat in enumerate(seats) if not seat.around], dtype=np.int64)

    def row(self, X: FloatArray, Y: FloatArray | None, said: FloatArray, *, advance: bool, late: bool) -> None:
        """Predict a row, (1, d), into said, (3, members of the committee); when advancing, learn its target, too.

        Args:
            late: whether other rows have been learned since this one was issued.
        """
        self._see(X, Y, advance=advance, late=late)
        scaling.to_standard(*self._lanes, self._inputs, *self._input_units, self._standard_inputs)
        targets = self._no_targets
        if Y is not None:
            np.subtract(Y, self._shift, out=self._targets)
            scaling.to_standard(*self._lanes, self._targets, *self._target_units, self._standard_targets)
            targets = self._standard_targets
        numbers = self._records, self._buffers, *self._lanes
        given = self._standard_inputs, targets, self._no_conditions, self._out
        status, lane, at = self._run(*numbers, *given, 0, 0, advance)
        while status == MOVE_IS_DUE:
            sngd.finish_interval(self._records, self._buffers, lane)
            status, lane, at = self._run(*numbers, *given, lane, at + 1, advance)
        if status:
            inputs.refuse(status, at, many=False)
        mean, variance, noise = self._raw
        scaling.from_standard(*self._lanes, mean, variance, noise, *self._target_units, self._told)
        self._told[0] += self._shift
        said[:, self._places] = self._told[:, :, 0]

    def _see(self, X: FloatArray, Y: FloatArray | None, *, advance: bool, late: bool) -> None:
        """What each member sees of a row."""
        if self._bare.size:
            self._inputs[self._bare] = X
        for i, around in self._mapped:
            x = X
            for wrapper in around:
                if (affine := wrapper._affine(x)) is not None:
                    self._shift[i] = affine.offset
                within = wrapper._inputs(x)
                if advance and (wrapper._notes_late or not late):
                    wrapper._note(x, Y)
                x = within
            self._inputs[i] = x


class Panels:
    """All members of a committee with one output: those that are alike in panels, the others one by one.

    Args:
        members: of the committee; what they hold stays theirs, in other places.
    """

    def __init__(self, members: Sequence[StreamModel]) -> None:
        kinds: dict[tuple[object, ...], list[Seat]] = {}
        self._alone: list[tuple[int, StreamModel]] = []
        self._size = len(members)
        for place, member in enumerate(members):
            if (seat := Seat.of(place, member)) is None:
                self._alone.append((place, member))
            else:
                kinds.setdefault(seat.kind, []).append(seat)
        self._panels = [Panel(seats) for seats in kinds.values()]

    def predict(self, X: FloatArray) -> FloatArray:
        """What the members say of a row, (1, d): means, variances and noises, (1, 3, 1, members)."""
        said = np.empty((1, 3, 1, self._size))
        for panel in self._panels:
            panel.row(X, None, said[0, :, 0], advance=False, late=False)
        for place, member in self._alone:
            prediction = member._predict(X)
            said[0, :, 0, place] = prediction.mean[0, 0], prediction.variance[0, 0], prediction.noise[0, 0]
        return said

    def advance(self, X: FloatArray, Y: FloatArray | None) -> FloatArray:
        """The same, and the members take the row."""
        said = np.empty((1, 3, 1, self._size))
        for panel in self._panels:
            panel.row(X, Y, said[0, :, 0], advance=True, late=False)
        for place, member in self._alone:
            prediction = member._advance(X, Y, True)
            if prediction is not None:
                said[0, :, 0, place] = prediction.mean[0, 0], prediction.variance[0, 0], prediction.noise[0, 0]
        return said

    def resolve(self, X: FloatArray, Y: FloatArray, issued: Sequence[FloatArray]) -> None:
        """Learn a row whose target comes late; what each member has kept of it since it was issued is (1, ...)."""
        said = np.empty((3, self._size))
        for panel in self._panels:
            panel.row(X, Y, said, advance=True, late=True)
        for place, member in self._alone:
            member._resolve(X, Y, issued[place], None)


def _side_by_side(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of single models, (1, ...) each, as one, (models, ...), of the same type."""
    first = arrays[0]
    result = np.empty_like(first, shape=(len(arrays), *first.shape[1:]))
    for i, array in enumerate(arrays):
        result[i] = array[0]
    return result


def _follows(model: StreamModel, kind: type[Any], *names: str) -> bool:
    """Whether a model does as all of its kind do."""
    return all(getattr(type(model), name) is getattr(kind, name) for name in names)

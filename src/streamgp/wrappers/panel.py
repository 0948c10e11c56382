"""Panels: members of a committee that are alike, through all of which rows go in a few compiled calls.

Each member stays a model of its own. Its numbers lie side by side with those of the others, as those of a fleet do
(contract/lanes.py), so that all are reached by one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import address_of
from streamgp.contract import inputs
from streamgp.contract.checks import DUE_AFTER
from streamgp.contract.lanes import ALONE, IN_TURN, PREDICTED, TAKEN, Lanes
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.process import rare
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.wrappers import scaling, seats
from streamgp.wrappers.columns import Columns
from streamgp.wrappers.mapped import Mapped, Picked
from streamgp.wrappers.standardize import Standardize


class Kind(NamedTuple):
    """What the members of a panel have in common: their compiled loop, how many inputs, and how many numbers."""

    run: Any
    inputs: int
    numbers: int


class Seat(NamedTuple):
    """A member that fits into a panel: a process in standard units, of some columns or of a change.

    Args:
        place: of the member in its committee.
        picked: what it sees of a row.
        noting: what it has around it that remembers rows.
        units: the wrapper in whose units the process learns.
        process: the process.
    """

    place: int
    picked: Picked
    noting: list[Mapped]
    units: Standardize
    process: OnlineGP

    @classmethod
    def of(cls, place: int, member: StreamModel, d: int) -> Seat | None:
        """The seat of a member that sees d columns; None: it does not fit into any panel."""
        whole, noting = np.arange(d), []
        picked: Picked | None = Picked(whole)
        while isinstance(member, Mapped) and not isinstance(member, Standardize):
            same = _follow(member, Mapped, "_advance", "_predict", "_issue", "_resolve")
            if not _follow(member, Mapped, "_note"):
                same = same and picked is not None and np.array_equal(picked.columns, whole)
                noting.append(member)
            picked = None if picked is None or not same else member._picked(picked)
            if picked is None:
                return None
            member = member._within
        if picked is None or not (isinstance(member, Standardize) and member._settled and member._lanes is ALONE):
            return None
        process = member._within
        if not (isinstance(process, OnlineGP) and process._batch == 1 and process._quick() and process.has_variance):
            return None
        same = _follow(process, OnlineGP, "_advance", "_predict", "_row")
        return cls(place, picked, noting, member, process) if same else None

    @property
    def kind(self) -> Kind:
        """What the members of a panel have in common."""
        return Kind(self.process._run, self.process._d or 0, self.process._numbers.buffers.shape[1])


class Panel(NamedTuple):
    """Members of one kind, whose numbers lie side by side.

    Args:
        run: their compiled loop.
        numbers: theirs, among those of all panels.
        members: which of all that sit in panels they are.
        inputs: which of the inputs of all of these are theirs.
    """

    run: Any
    numbers: Numbers
    members: slice
    inputs: slice


class Panels:
    """All members of a committee with one output: those that are alike in panels, the others one by one.

    Args:
        members: of the committee; what they hold stays theirs, in other places.
        d: columns of a row.
    """

    def __init__(self, members: Sequence[StreamModel], d: int) -> None:
        self._size = len(members)
        self._alone: list[tuple[int, Any]] = []  # place and member
        widths = [member._issued_width(1) for member in members]
        self._issued_from, self.issued_width = np.cumsum([0, *widths]).tolist(), sum(widths)
        kinds: dict[Kind, list[Seat]] = {}
        for place, member in enumerate(members):
            if (seat := Seat.of(place, member, d)) is None:
                self._alone.append((place, member))
            else:
                kinds.setdefault(seat.kind, []).append(seat)
        within = (one for _, member in self._alone for one in member._family())
        self._warming_up = [one for one in within if isinstance(one, Standardize) and not one._settled]
        seated = [seat for alike in kinds.values() for seat in alike]
        self._places = np.array([seat.place for seat in seated], dtype=np.int64)
        self._may_sleep = [(k, member) for k, member in enumerate(members) if _may_sleep(member)]
        self._dozing = [(i, one) for i, seat in enumerate(seated) for one in seat.noting if _may_sleep(one)]
        self._remember_together([wrapper for seat in seated for wrapper in seat.noting], d)
        self._find_columns(seated, d)
        self._move_units(seated)
        self._panels = self._side_by_side(kinds) if kinds else []
        # Whether rows may go in turn: members keep nothing of rows that wait, and remember none.
        remembering = self._remembered_at or self._noting_more or self._may_sleep
        self.may_take_turns = not (self.issued_width or remembering)

    def _remember_together(self, wrappers: list[Mapped], d: int) -> None:
        """Lay the last rows of wrappers that remember nothing else side by side."""
        alike = [one for one in wrappers if isinstance(one, Columns) and _follow(one, Columns, "_note")]
        self._noting_more = [one for one in wrappers if not _follow(one, Columns, "_note")]
        self._last_rows = np.empty((len(alike), d))
        for last, wrapper in zip(self._last_rows, alike, strict=True):
            last[:] = wrapper._x
            wrapper._x = last

    def _find_columns(self, seated: list[Seat], d: int) -> None:
        """Where the members find their inputs: in the row, and behind it 0 and what wrappers remember."""
        columns, origins, size = [], [], d + 1
        remembered: list[tuple[slice, Mapped]] = []
        for seat in seated:
            seen, count = seat.picked.columns, int(np.count_nonzero(seat.picked.columns < 0))
            columns.append(np.where(seen < 0, size - 1 - seen, seen))
            origins.append(d if seat.picked.origin < 0 else seat.picked.origin)
            if count:
                remembered.append((slice(size, size + count), seat.noting[0]))
            size += count
        self._d, self._source = d, np.zeros(size)
        self._remembered = [(self._source[part], wrapper) for part, wrapper in remembered]
        self._remembered_at = remembered
        self._columns = np.concatenate([np.empty(0, dtype=np.int64), *columns])
        self._origins = np.array(origins, dtype=np.int64)

    def _move_units(self, seated: list[Seat]) -> None:
        """Lay the units of all members side by side."""
        self._input_units = np.empty((2, len(self._columns), 1))
        self._target_units = np.empty((2, len(seated), 1))
        start = 0
        for i, seat in enumerate(seated):
            stop = start + seat.picked.columns.size
            own = [*self._input_units[:, start:stop].reshape(2, 1, -1), *self._target_units[:, i : i + 1]]
            for place, array in zip(own, seat.units._unit_arrays, strict=True):
                place[:] = array
            seat.units._restack([*own, *seat.units._stack()[len(own) :]])
            start = stop

    def _side_by_side(self, kinds: dict[Kind, list[Seat]]) -> list[Panel]:
        """Lay the numbers of all members side by side, and those of one kind into one panel."""
        sizes = [(len(alike), kind.inputs, kind.numbers) for kind, alike in kinds.items()]
        n, d, width = np.array(sizes).T
        first, before, behind = (np.cumsum(count) - count for count in (n, n * d, n * width))
        like = next(iter(kinds.values()))[0].process._numbers.records
        records, buffers, panels = np.empty_like(like, shape=n.sum()), np.empty(np.sum(n * width)), []
        for kind, k, i, j, at in zip(kinds, n, first, before, behind, strict=True):
            own = records[i : i + k], buffers[at : at + k * kind.numbers].reshape(k, kind.numbers)
            for m, seat in enumerate(kinds[kind]):
                moved = own[0][m : m + 1], own[1][m : m + 1]
                moved[0][:], moved[1][:] = seat.process._numbers.records, seat.process._numbers.buffers
                seat.process._place_at(*moved)
            numbers = kinds[kind][0].process._numbers.at(*own)
            panels.append(Panel(kind.run, numbers, slice(i, i + k), slice(j, j + k * kind.inputs)))
        self._asleep = np.zeros(len(self._places), dtype=bool)
        self._for_one = (
            *(self._source, self._asleep, self._columns, self._input_units[..., 0], self._origins),
            *(self._target_units[..., 0], self._places, np.array([address_of(panel.run) for panel in panels])),
            *(np.column_stack([first, n, before, d, behind, width]), records, buffers),
            *(np.arange(len(self._places) + 1), np.empty(3 * len(self._places))),
        )
        return panels

    # Rows.

    @property
    def outdated(self) -> bool:
        """Whether a member may fit by now that did not because its units were not known."""
        return bool(self._warming_up) and any(one._settled for one in self._warming_up)

    @property
    def sleepers(self) -> list[int]:
        """Members that have no say in the row that comes next."""
        return [k for k, member in self._may_sleep if member._sleeps]

    @property
    def quick(self) -> bool:
        """Whether one row goes quickly through those that are in no panel, too."""
        return all(member._quick() for _, member in self._alone)

    def predict(self, X: FloatArray) -> FloatArray:
        """What the members say of a row, (1, d): means, variances and noises, (1, 3, 1, members)."""
        predicted = np.empty((1, 3, 1, self._size))
        self._row(X, None, predicted[0, :, 0])
        self._others(X, None, predicted[0, :, 0])
        return predicted

    def advance(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """The same, and the members learn the row's target, (1, 1)."""
        predicted = np.empty((1, 3, 1, self._size))
        self._row(X, Y, predicted[0, :, 0])
        self._others(X, Y, predicted[0, :, 0])
        return predicted

    def advance_many(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """The same of rows that follow each other, (n, d), with targets, (n, 1): (1, 3, n, members)."""
        n, source = len(X), np.zeros((len(X), len(self._source)))
        source[:, : self._d] = X
        for part, wrapper in self._remembered_at:
            source[:, part] = wrapper._remembered_of(X)
        seen, origins = source.take(self._columns, axis=1), source.take(self._origins, axis=1)
        targets = Y - origins
        for i, wrapper in self._dozing:
            if wrapper._sleeps:
                targets[0, i] = np.nan
        self._note(X, Y)
        predicted = np.empty((1, 3, n, self._size))
        for panel in self._panels:
            told = self._run_many(panel, TAKEN[True, True], seen[:, panel.inputs], targets[:, panel.members])
            told[0] += origins[:, panel.members]  # rounded apart, as for one row
            predicted[0][..., self._places[panel.members]] = told
        self._ask_others(lambda member: member._advance(X, Y, True), predicted)
        return predicted

    def in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray) -> FloatArray:
        """Learn rows, (n, d), whose targets come late, each before a row is issued; what the members say of the latter.

        Shape (1, 3, n, members).
        """
        if len(X) == 1:
            self.resolve(learned, Y, np.empty((1, 0)))
            return self.predict(X)
        n, predicted = len(X), np.empty((1, 3, len(X), self._size))
        rows = np.zeros((2 * n, self._d + 1))
        rows[::2, : self._d], rows[1::2, : self._d] = learned, X
        seen, origins = rows.take(self._columns, axis=1), rows.take(self._origins, axis=1)
        for panel in self._panels:
            own = origins[:, panel.members]
            targets = np.full(own.shape, np.nan)
            targets[::2] = Y - own[::2]
            told = self._run_many(panel, IN_TURN, seen[:, panel.inputs], targets)[:, 1::2]
            told[0] += own[1::2]
            predicted[0][..., self._places[panel.members]] = told
        self._ask_others(lambda member: member._in_turn(learned, Y, X, np.empty((n, 0))), predicted)
        return predicted

    def _ask_others(self, ask: Callable[[Any], Prediction], predicted: FloatArray) -> None:
        """Let those that are in no panel take rows."""
        for place, member in self._alone:
            p = ask(member)
            predicted[0, 0, :, place], predicted[0, 1, :, place] = p.mean[:, 0], p.variance[:, 0]
            predicted[0, 2, :, place] = p.noise[:, 0]

    def resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray) -> None:
        """Learn a row whose target comes late, by what the members have kept of it, (1, issued width)."""
        self._row(X, Y, np.empty((3, self._size)), late=True)
        for place, member in self._alone:
            start, stop = self._issued_from[place : place + 2]
            member._resolve(X, Y, issued[:, start:stop], None)

    def _run_many(self, panel: Panel, kinds: np.ndarray, seen: FloatArray, targets: FloatArray) -> FloatArray:
        """Let the members of a panel take rows.

        Args:
            panel: of k members.
            kinds: of the rows.
            seen: (n, k d) their inputs, those of one member after those of the other.
            targets: (n, k).

        Returns:
            (3, n, k) means, variances and noises.
        """
        n, k = len(seen), targets.shape[1]
        lanes = Lanes(np.arange(k), np.arange(0, k * n + 1, n))
        X = np.ascontiguousarray(seen.reshape(n, k, -1).transpose(1, 0, 2)).reshape(k * n, -1)
        Y = np.ascontiguousarray(targets.T).reshape(-1, 1)
        out, told = np.empty((3, k * n)), np.empty((3, k * n, 1))
        shift, scale = self._input_units[:, panel.inputs].reshape(2, k, -1)
        target_shift, target_scale = self._target_units[:, panel.members]
        scaling.to_standard(*lanes, X, shift, scale, X)
        scaling.to_standard(*lanes, Y, target_shift, target_scale, Y)
        status, at = rare.pass_rows(panel.run, panel.numbers, lanes, kinds, X, Y, Y[:0], out)
        if status:
            inputs.refuse(status, at % n, many=True)
        mean, variance, noise = out[..., None]
        scaling.from_standard(*lanes, mean, variance, noise, target_shift, target_scale, told)
        return told.reshape(3, k, n).transpose(0, 2, 1)

    def _note(self, X: FloatArray, Y: FloatArray, *, late: bool = False) -> None:
        """Let wrappers remember rows that are taken; late: others were learned since they were issued."""
        if not late:
            self._last_rows[:] = X[-1]
        for wrapper in self._noting_more:
            if wrapper._notes_late or not late:
                wrapper._note(X, Y)

    def _others(self, X: FloatArray, Y: FloatArray | None, predicted: FloatArray) -> None:
        """Predict a row with those that are in no panel; with a target they learn it, too."""
        for place, member in self._alone:
            if member._quick():
                predicted[:, place] = member._row(X, Y).out[:, 0, 0]
            else:
                told = member._predict(X) if Y is None else member._advance(X, Y, True)
                predicted[:, place] = told.mean[0, 0], told.variance[0, 0], told.noise[0, 0]

    def _row(self, X: FloatArray, Y: FloatArray | None, predicted: FloatArray, *, late: bool = False) -> None:
        """Predict a row with all panels; with a target learn it, too; late: others were learned since it was issued."""
        self._source[: self._d] = X[0]
        for part, wrapper in self._remembered:
            part[:] = wrapper._remembered(X)
        if Y is not None:
            for i, wrapper in self._dozing:
                self._asleep[i] = wrapper._sleeps
            self._note(X, Y, late=late)
        if not self._panels:
            return
        given = np.nan if Y is None else Y.item(), *self._for_one, predicted
        kinds = PREDICTED if Y is None else TAKEN[True, True]
        status, k, lane, at = seats.take(*given, 0, 0, 0, kinds)
        while status == DUE_AFTER:
            rare.settle(self._panels[-1 - k].numbers.one(lane))
            status, k, lane, at = seats.take(*given, k, lane, at + 1, kinds)
        if status:
            inputs.refuse(status, at, many=False)


def _may_sleep(model: StreamModel) -> bool:
    """Whether a model is of a kind that may have no say in a row."""
    return type(model)._sleeps is not False


def _follow(model: StreamModel, kind: type[Any], *names: str) -> bool:
    """Whether a model does as all of its kind do."""
    return all(getattr(type(model), name) is getattr(kind, name) for name in names)

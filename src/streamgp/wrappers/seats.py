"""One row through all members of a committee that sit in panels (wrappers/panel.py), in one compiled call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, MATRIX, NUMBER, SWITCHES, VECTOR, WHOLE, WHOLES, compiled, entry
from streamgp.contract.checks import FINE
from streamgp.contract.lanes import ADVANCE
from streamgp.process.stream import ARGUMENTS, run_at
from streamgp.wrappers.scaling import standard

Array = NDArray

# Of a panel: its first member, how many it has, its first input, how many each member has, its first number among
# those of all panels, and how many each member has.
MEMBER, MEMBERS, INPUT, INPUTS, BUFFER, NUMBERS = range(6)


@compiled
def to_seats(
    row: Array, columns: Array, units: Array, origins: Array, y: float, target_units: Array, asleep: Array
) -> tuple[Array, Array, Array]:
    """The inputs of members in their own units, (k,), at which numbers their targets are 0, and these, (members, 1)."""
    inputs, origin, targets = np.empty(columns.size), np.empty(origins.size), np.empty((origins.size, 1))
    for i in range(columns.size):
        inputs[i] = standard(row[columns[i]], units[0, i], units[1, i])
    for k in range(origins.size):
        origin[k] = row[origins[k]]
        targets[k, 0] = np.nan if asleep[k] else standard(y - origin[k], target_units[0, k], target_units[1, k])
    return inputs, origin, targets


@compiled
def from_seats(told: Array, panels: Array, units: Array, origin: Array, places: Array, out: Array) -> None:
    """What members predict in their own units, (3, members) one panel after the other, in the units of the target."""
    for panel in panels:
        first, size = panel[MEMBER], panel[MEMBERS]
        said = told[3 * first : 3 * (first + size)].reshape(3, size)
        for i in range(size):
            shift, scale, place = units[0, first + i], units[1, first + i], places[first + i]
            out[0, place] = shift + scale * said[0, i]
            out[1, place] = scale * scale * said[1, i]
            out[2, place] = scale * scale * said[2, i]
    for k in range(places.size):  # rounded apart, as for many rows
        out[0, places[k]] += origin[k]


@entry(
    *(NUMBER, VECTOR, SWITCHES, INDICES, MATRIX, INDICES, MATRIX, INDICES, INDICES, WHOLES),
    *(ARGUMENTS[0], VECTOR, INDICES, VECTOR, MATRIX, WHOLE, WHOLE, WHOLE, INDICES),
)
def take(
    y: float,
    row: Array,
    asleep: Array,
    columns: Array,
    input_units: Array,
    origins: Array,
    target_units: Array,
    places: Array,
    loops: Array,
    panels: Array,
    records: Array,
    buffers: Array,
    lanes: Array,
    told: Array,
    predicted: Array,
    panel: int,
    lane: int,
    at: int,
    kinds: Array,
) -> tuple[int, int, int, int]:
    """Predict one row with all members, or let them learn it, too.

    Args:
        y: the target, NaN where there is none.
        row: (width,) the numbers that members may see.
        asleep: (members,) who does not learn the target.
        columns: (k,) which of the numbers the members see, one member after the other.
        input_units: (2, k) shifts and scales.
        origins: (members,) at which of the numbers the target of a member is 0.
        target_units: (2, members) shifts and scales.
        places: (members,) of the members in the committee.
        loops: (panels,) addresses of their compiled loops.
        panels: (panels, 6) where each has its numbers.
        records: of all members.
        buffers: (n,) the numbers of all members.
        lanes: 0, 1, ..., as many as members, and one more.
        told: (3 * members,) room for what the members predict in their own units.
        predicted: (3, size of the committee) receives means, variances and noises.
        panel: at which to begin, later than the first where a loop had stopped.
        lane: of this panel, in the same way.
        at: row of this panel, in the same way.
        kinds: of the row, one.

    Returns:
        A status, and the panel, the lane and the row at which it arose, as the loops return it.
    """
    advance = kinds[0] & ADVANCE != 0
    inputs, origin, targets = to_seats(row, columns, input_units, origins, y, target_units, asleep)
    for k in range(panel, panels.shape[0]):
        # A row is learned in the opposite order: what was predicted last is still in the processor's cache.
        i = panels.shape[0] - 1 - k if advance else k
        first, size, d, width = panels[i, MEMBER], panels[i, MEMBERS], panels[i, INPUTS], panels[i, NUMBERS]
        status, lane, at = run_at(
            loops[i],
            records[first : first + size],
            buffers[panels[i, BUFFER] : panels[i, BUFFER] + size * width].reshape(size, width),
            lanes[:size],
            lanes[: size + 1],
            kinds,
            inputs[panels[i, INPUT] : panels[i, INPUT] + size * d].reshape(size, d),
            targets[first : first + size] if advance else targets[:0],
            targets[:0],  # no conditions
            told[3 * first : 3 * (first + size)].reshape(3, size),
            lane,
            at,
        )
        if status != FINE:
            return status, k, lane, at
        lane, at = 0, 0
    from_seats(told, panels, target_units, origin, places, predicted)
    return FINE, -1, -1, -1

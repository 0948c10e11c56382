"""Rows of one process in one compiled call: checked, screened, in standard units, through its loop, and calibrated."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from streamgp.arrays import opened
from streamgp.compiled import CUBE, LINES, MATRIX, NOTHING, NUMBER, WHOLE, WHOLES, borrowed, caller, entry
from streamgp.contract.checks import FINE, check
from streamgp.contract.lanes import LANES, SCREEN
from streamgp.process.stream import ARGUMENTS as RUN
from streamgp.process.stream import run_at
from streamgp.wrappers import conformal
from streamgp.wrappers.outliers import screen
from streamgp.wrappers.scaling import from_standard, to_standard

Array = NDArray

# The calibration is compiled already, and large: it is called where it is.
calibrate_at = caller(NOTHING, conformal.CALIBRATE)

# The loop and the calibration, by their addresses; what a loop takes, up to its prediction; the largest number that is
# not refused; the state of the screen (none: all targets count); shift and scale of inputs and targets; records and
# buffers of the calibration, and by how much bounds are wider (no records: there is none); how many numbers of a line
# are those of the calibration; the prediction; room for rows and targets in standard units; where to begin. Every array
# costs as much as a hundred multiplications: there are no more than needed.
ARGUMENTS = (
    *(WHOLE, WHOLE, *RUN[:2], *LANES, WHOLES, MATRIX, MATRIX, MATRIX, LINES),
    *(NUMBER, CUBE, MATRIX, MATRIX, MATRIX, MATRIX),
    *(conformal.LAYOUT.type, MATRIX, MATRIX, WHOLE, CUBE, MATRIX, MATRIX, WHOLE, WHOLE),
)


@entry(*ARGUMENTS)
def take(
    loop: Any,
    calibration: Any,
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    ops: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    kept: Array,
    largest: float,
    screens: Array,
    input_shift: Array,
    input_scale: Array,
    target_shift: Array,
    target_scale: Array,
    calibrated_records: Array,
    calibrated_buffers: Array,
    wider: Array,
    width: int,
    out: Array,
    x: Array,
    y: Array,
    lane: int,
    op: int,
) -> tuple[int, int, int]:
    """Do operations in order, with targets in the units of the rows; a status, a lane and an operation as the loop."""
    X, Y, kept, out = borrowed(X), borrowed(Y), borrowed(kept), borrowed(out)
    if op == 0 and lane == 0 and models.size > 0 and ops.shape[0] > 0 and ops[0, 1] & SCREEN:
        shared = bool(opened(records, buffers, models[0]).plan.shared)
        status, at = check(X, Y, shared, largest)
        if status != FINE:
            return status, -1, at
        if screens.shape[0] > 0 and Y.shape[0] > 0:
            screen(models, starts, screens, Y, shared, False)
    to_standard(models, starts, X, input_shift, input_scale, x)
    if Y.shape[0] > 0:
        to_standard(models, starts, Y, target_shift, target_scale, y)
    calibrated = calibrated_records.shape[0] > 0
    raw = out[out.shape[0] - 3 :] if calibrated else out
    result = run_at(loop, records, buffers, models, starts, ops, x, y, conditions, kept[:, width:], raw, lane, op)
    if result[0] != FINE:
        return result  # type: ignore[no-any-return]
    from_standard(models, starts, target_shift, target_scale, raw)
    if calibrated:
        own = kept[:, :width]
        calibrate_at(calibration, calibrated_records, calibrated_buffers, models, starts, ops, Y, own, wider, out)
    return result  # type: ignore[no-any-return]

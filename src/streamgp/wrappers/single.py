"""One row of one model in one compiled call: checked, screened, in standard units, through its loop, and calibrated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import CUBE, INDICES, MATRIX, NOTHING, NUMBER, WHOLE, caller, entry
from streamgp.contract.checks import FINE, check
from streamgp.contract.lanes import ADVANCE, LANES
from streamgp.process.stream import ARGUMENTS as RUN
from streamgp.process.stream import run_at
from streamgp.wrappers import conformal
from streamgp.wrappers.outliers import screen
from streamgp.wrappers.scaling import from_standard, to_standard

Array = NDArray

# The calibration is compiled already, and large: it is called where it is.
calibrate_at = caller(NOTHING, conformal.CALIBRATE)

# The loop and the calibration, by their addresses; lanes; the row, its target, the largest number that is not refused;
# the state of the screen (none: all targets count); shift and scale of inputs and target; the numbers of the loop; its
# prediction, and the same in the units of the target; what the calibration takes (no records: there is none); the
# kind of the row. Every array costs as much as a hundred multiplications: there are no more than needed.
ARGUMENTS = (
    *(WHOLE, WHOLE, *LANES, MATRIX, MATRIX, NUMBER, CUBE, MATRIX, MATRIX, MATRIX, MATRIX),
    *(*RUN[:2], CUBE, CUBE, conformal.LAYOUT.type, MATRIX, CUBE, INDICES),
)


@entry(*ARGUMENTS)
def take(
    loop: Any,
    calibration: Any,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    largest: float,
    screens: Array,
    input_shift: Array,
    input_scale: Array,
    target_shift: Array,
    target_scale: Array,
    records: Array,
    buffers: Array,
    raw: Array,
    out: Array,
    calibrated_records: Array,
    calibrated_buffers: Array,
    bounds: Array,
    kinds: Array,
) -> int:
    """Predict a row, (1, d), with one output, and learn its target, (1, 1), as its kind says; a status of check()."""
    advance = kinds[0] & ADVANCE != 0
    status, _ = check(X, Y if advance else Y[:0], True, largest)
    if status != FINE:
        return status
    x, y, learned = np.empty(X.shape), np.empty((1, 1)), np.empty((1, 1))
    learned[0, 0] = Y[0, 0] if advance else np.nan
    if advance and screens.shape[0] > 0:
        screen(models, starts, screens, learned, True)
    to_standard(models, starts, X, input_shift, input_scale, x)
    to_standard(models, starts, learned, target_shift, target_scale, y)
    target, none, parts = y if advance else y[:0], X[:0], raw.reshape(3, 1)
    result: int = run_at(loop, records, buffers, models, starts, kinds, x, target, none, parts, 0, 0)[0]
    if result != FINE:
        return result
    from_standard(models, starts, raw[0], raw[1], raw[2], target_shift, target_scale, out)
    if calibrated_records.shape[0] > 0:
        calibrate_at(
            calibration,
            calibrated_records,
            calibrated_buffers,
            models,
            starts,
            out[0],
            out[1],
            out[2],
            learned,
            False,
            bounds,
        )
    return result

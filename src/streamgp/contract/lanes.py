"""What a call is: a list of operations, each of a model on a row.

One model can stand for many of its kind, each with numbers of its own in the same arrays. Compiled loops take the
arrays of all models and say which rows are whose: models[k] owns the rows starts[k] to starts[k + 1]. A single model is
the first of one, and owns all rows. The kind of a row says what is done with it; kinds repeat, so that one stands for
all rows, and two for rows in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, inlined

Array = NDArray

# The types of Lanes in compiled code.
LANES = INDICES, INDICES

# Of a row: predict it, as if it came next; advance the memory by it; learn its target. A kind is a sum of these.
PREDICT, ADVANCE, LEARN = 1, 2, 4


class Lanes(NamedTuple):
    """Which rows of a call belong to which models.

    Args:
        models: (k,) different numbers of models.
        starts: (k + 1,): the rows of models[j] are starts[j] to starts[j + 1]; empty: one model owns all.
    """

    models: Array
    starts: Array


ALONE = Lanes(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))


def kinds(*of_rows: int) -> Array:
    """The kinds of rows, which repeat."""
    return np.array(of_rows)


PREDICTED = kinds(PREDICT)
IN_TURN = kinds(ADVANCE + LEARN, PREDICT)  # a row is learned whose target comes late, another one is predicted
TAKEN = {  # rows of a stream, by whether they are predicted before, and whether they have targets
    (report, learned): kinds(PREDICT * report + ADVANCE + LEARN * learned)
    for report in (False, True)
    for learned in (False, True)
}


@inlined
def first_of(starts: Array, k: int) -> int:
    """The first row of models[k]."""
    return starts[k] if starts.size > 0 else 0


@inlined
def end_of(starts: Array, k: int, rows: int) -> int:
    """The row after the last of models[k]."""
    return starts[k + 1] if starts.size > 0 else rows

"""What a call is: a list of operations on rows.

An operation is the number of a row and a kind, a sum of the constants below; a list is an array of them, (k, 2). All
that users call builds such a list, and every model and every layer around one takes it (``StreamModel._pass``).

One model can stand for many of its kind, each with numbers of its own in the same arrays. Compiled loops take the
arrays of all models and say which operations are whose: models[k] owns the operations starts[k] to starts[k + 1], where
operation t is on row t. A single model is the first of one, and owns all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, compiled

Array = NDArray

# The types of Lanes in compiled code.
LANES = INDICES, INDICES

# Of a row: predict it, as if it came next; advance the memory by it; learn its target; remember its target, which is
# not learned, or is one without a row; check it and screen its target, which come from outside. A row that advances
# without a target waits for it, and has a line in which to keep what it takes to learn it; then the target is learned
# without advancing.
PREDICT, ADVANCE, LEARN, TELL, SCREEN = 1, 2, 4, 8, 16
ISSUE, TAKE, TRACK = PREDICT | ADVANCE, ADVANCE | LEARN, PREDICT | ADVANCE | LEARN


class Lanes(NamedTuple):
    """Which operations of a call belong to which models.

    Args:
        models: (k,) different numbers of models.
        starts: (k + 1,): the operations of models[j] are starts[j] to starts[j + 1]; empty: one model owns all.
    """

    models: Array
    starts: Array


ALONE = Lanes(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))

MANY = 10_000  # rows of a call from which their list is kept for the next one
ONE = [np.array([[0, kind]]) for kind in range(2 * SCREEN)]  # the list of one operation on one row, by its kind


def listed(n: int, kind: int) -> Array:
    """The same operation on each of n rows, in order; nobody writes into the list."""
    if n == 1:
        return ONE[kind]
    return _listed_once(n, kind) if n >= MANY else _listed(n, kind)


def _listed(n: int, kind: int) -> Array:
    ops = np.empty((n, 2), dtype=np.int64)
    ops[:, 0], ops[:, 1] = np.arange(n), kind
    return ops


_listed_once = lru_cache(maxsize=4)(_listed)  # fleets of a million models do the same at every call


def with_kinds(ops: Array, kinds: Array) -> Array:
    """The same rows with other kinds, (k,); 0: left out."""
    changed = np.stack([ops[:, 0], kinds], axis=1)
    return changed if kinds.all() else np.ascontiguousarray(changed[kinds != 0])


def predicted_too(ops: Array) -> Array:
    """The same operations, of which those that advance and learn predict, too."""
    if len(ops) == 1 and not ops.item(0):
        kind = ops.item(1)
        return ONE[kind | PREDICT] if kind & TAKE == TAKE else ops
    silent = (ops[:, 1] & TAKE == TAKE) & (ops[:, 1] & PREDICT == 0)
    return with_kinds(ops, ops[:, 1] | PREDICT * silent) if silent.any() else ops


def any_of(ops: Array, kind: int) -> bool:
    """Whether an operation is of a kind, or of one of a sum of them."""
    return bool(ops.item(1) & kind) if len(ops) == 1 else bool((ops[:, 1] & kind).any())


@compiled
def first_of(starts: Array, k: int) -> int:
    """The first operation of models[k]."""
    return starts[k] if starts.size > 0 else 0


@compiled
def end_of(starts: Array, k: int, rows: int) -> int:
    """The operation after the last of models[k]."""
    return starts[k + 1] if starts.size > 0 else rows


@compiled
def waited(kind: int) -> bool:
    """Whether the row of an operation has advanced the memory before, and now has its target."""
    return kind & (ADVANCE | LEARN) == LEARN


@compiled
def waits(kind: int) -> bool:
    """Whether the row of an operation advances the memory, and its target comes later."""
    return kind & (ADVANCE | LEARN | TELL) == ADVANCE

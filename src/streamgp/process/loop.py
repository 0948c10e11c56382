"""The loop over models and their rows: see a row, predict it, learn it. One text for all kinds of models.

What a kind of model does at a row are four compiled functions of it. The way to a prediction is the same machine code
whether a row is learned afterwards or not, so that what was predicted last need not be predicted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, opened
from streamgp.compiled import CUBE, LINES, MATRIX, WHOLE, WHOLES, borrowed, compiled, entry
from streamgp.contract.checks import DUE_BEFORE, FINE, LARGEST, check
from streamgp.contract.lanes import ADVANCE, LANES, LEARN, PREDICT, TRACK, end_of, first_of
from streamgp.process.memory import arrive, remember_target

Array = NDArray


def arguments(layout: Layout) -> tuple[Any, ...]:
    """The types of what a loop takes; where there are no targets, conditions or lines, these have no rows."""
    return layout.type, MATRIX, *LANES, WHOLES, MATRIX, MATRIX, MATRIX, LINES, CUBE, WHOLE, WHOLE


def of(
    module: str,
    name: str,
    layout: Layout,
    *,
    is_overdue: Callable[[Model, Array, int, Array, int, int], bool],
    predict: Callable[[Model, Array, int, Array, int, int, bool], tuple[float, float]],
    report: Callable[[Model, float, int, Array], None],
    learn: Callable[[Model, Array, int, bool, float, float], int],
) -> Any:
    """The loop of a kind of model, compiled from the text of run() with functions of its own.

    These see operation i, on row t: ``is_overdue`` says whether something has to be done before it; ``predict`` returns
    two numbers that the others get; ``report`` writes the prediction; ``learn`` returns a status.
    """
    made = with_functions(run, {"is_overdue": is_overdue, "predict": predict, "report": report, "learn": learn})
    made.__module__, made.__name__ = module, name
    made.__qualname__ = f"{module.removeprefix('streamgp.')}.{name}"  # names the file in Numba's cache
    return entry(*arguments(layout))(made)


def with_functions(text: Any, functions: Mapping[str, Any]) -> Any:
    """A function of this text, in which these names stand for these functions."""
    return FunctionType(text.__code__, {**text.__globals__, **functions}, text.__name__)


@compiled
def never(*_: Any) -> bool:
    return False


@compiled
def report_moments(m: Model, _gamma2: float, t: int, out: Array) -> None:
    """Write means, variances and the noise of row t."""
    for j in range(m.mean_now.size):
        out[0, t, j], out[1, t, j], out[2, t, j] = m.mean_now[j], m.variance_now[j], m.plan.noise


@compiled
def forget_change(m: Model) -> None:
    """The row has not changed anything yet."""
    m.counters.absorbed, m.counters.admitted, m.counters.left = 0, 0, 0


# What stands for the functions of a kind in the text.
is_overdue: Any = None
predict: Any = None
report: Any = None
learn: Any = None


def run(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    ops: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    kept: Array,
    out: Array,
    lane: int,
    op: int,
) -> tuple[int, int, int]:
    """Do operations in order, from one of a lane on, where the loop had stopped.

    The operations are those of contract/lanes.py. Each row that waits for its target has a line in ``kept``; out is
    (columns, n, p). Returns a status; where rows are refused, before anything has changed, -1 and the row; where
    something is to be done before an operation, or after it, its lane and its number.
    """
    records, buffers, X, Y = borrowed(records), borrowed(buffers), borrowed(X), borrowed(Y)
    conditions, kept, out = borrowed(conditions), borrowed(kept), borrowed(out)
    if op == 0 and models.size > 0:
        status, at = check(X, Y, opened(records, buffers, models[0]).plan.shared, LARGEST)
        if status != FINE:
            return status, -1, at
    for k in range(lane, models.size):
        m = opened(records, buffers, models[k])
        for i in range(max(first_of(starts, k), op), end_of(starts, k, ops.shape[0])):
            t, kind = ops[i, 0], ops[i, 1]
            if kind & TRACK == 0:  # a target without a row
                continue
            if is_overdue(m, Y, t, conditions, i, kind):
                return DUE_BEFORE, k, i
            learned = arrive(m, X, Y, kept, t, kind)
            kappa, gamma2 = predict(m, X, t, conditions, i, kind, learned)
            if kind & PREDICT:
                report(m, gamma2, t, out)
            if kind & (ADVANCE | LEARN):
                remember_target(m, X, kept, t, kind)
                status = learn(m, conditions, i, learned, kappa, gamma2)
                if status != FINE:
                    return status, k, i
    return FINE, -1, -1

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
from streamgp.compiled import INDICES, MATRIX, WHOLE, borrowed, compiled, entry, inlined
from streamgp.contract.checks import DUE_BEFORE, FINE, LARGEST, check
from streamgp.contract.lanes import ADVANCE, LANES, LEARN, PREDICT, end_of, first_of
from streamgp.process.memory import arrive, remember_target

Array = NDArray


def arguments(layout: Layout) -> tuple[Any, ...]:
    """The types of what a loop takes.

    These are: the records and the buffers of all models; which rows are whose, and their kinds (contract/lanes.py); X;
    Y (no rows: no targets), conditions (no rows: none), out, (numbers, n), of rows that are predicted; the lane and the
    row at which to begin, later than the first where the loop had stopped.
    """
    return layout.type, MATRIX, *LANES, INDICES, MATRIX, MATRIX, MATRIX, MATRIX, WHOLE, WHOLE


def of(
    module: str,
    name: str,
    layout: Layout,
    *,
    is_overdue: Callable[[Model, Array, Array, int, int], bool],
    predict: Callable[[Model, Array, Array, int, int, bool], tuple[float, float]],
    report: Callable[[Model, float, int, Array], None],
    learn: Callable[[Model, Array, int, bool, float, float], int],
) -> Any:
    """The loop of a kind of model, compiled from the text of run() with functions of its own.

    Args:
        module: in which the loop is.
        name: of the loop there.
        layout: of the models.
        is_overdue: (m, Y, conditions, t, kind): whether something has to be done before row t.
        predict: (m, X, conditions, t, kind, learned): predict row t, if need be; two numbers that the others get.
        report: (m, gamma2, t, out): write the prediction into column t.
        learn: (m, conditions, t, learned, kappa, gamma2): learn the row, if it has a target; a status.
    """
    made = with_functions(run, {"is_overdue": is_overdue, "predict": predict, "report": report, "learn": learn})
    made.__module__, made.__name__, made.__qualname__ = module, name, name  # by which Numba's cache tells loops apart
    return entry(*arguments(layout))(made)


def with_functions(text: Any, functions: Mapping[str, Any]) -> Any:
    """A function of this text, in which these names stand for these functions."""
    return FunctionType(text.__code__, {**text.__globals__, **functions}, text.__name__)


@compiled
def never(*_: Any) -> bool:
    return False


@inlined
def report_moments(m: Model, _gamma2: float, t: int, out: Array) -> None:
    """Write means, variances and the noise into column t."""
    p = m.mean_now.size
    for j in range(p):
        out[j, t], out[p + j, t], out[2 * p + j, t] = m.mean_now[j], m.variance_now[j], m.plan.noise


@inlined
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
    kinds: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    lane: int,
    row: int,
) -> tuple[int, int, int]:
    """Take rows.

    Returns:
        A status, and the lane and the row at which it arose: rows that are refused, before anything has changed, or
        something that is to be done before the row, or after it.
    """
    records, buffers, X, Y = borrowed(records), borrowed(buffers), borrowed(X), borrowed(Y)
    conditions, out = borrowed(conditions), borrowed(out)
    if row == 0 and models.size > 0:
        status, at = check(X, Y, opened(records, buffers, models[0]).plan.shared, LARGEST)
        if status != FINE:
            return status, -1, at
    for k in range(lane, models.size):
        m = opened(records, buffers, models[k])
        for t in range(max(first_of(starts, k), row), end_of(starts, k, X.shape[0])):
            kind = kinds[t % kinds.size]
            if is_overdue(m, Y, conditions, t, kind):
                return DUE_BEFORE, k, t
            learned = arrive(m, X, Y, t, kind)
            kappa, gamma2 = predict(m, X, conditions, t, kind, learned)
            if kind & PREDICT:
                report(m, gamma2, t, out)
            if kind & ADVANCE:
                remember_target(m)
            if kind & (ADVANCE | LEARN):
                status = learn(m, conditions, t, learned, kappa, gamma2)
                if status != FINE:
                    return status, k, t
    return FINE, -1, -1

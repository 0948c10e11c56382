"""How an online process takes a row: the functions of its loop (loop.py), and the loops of its three kinds."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import WHOLE_TRIPLE, caller, compiled
from streamgp.contract.checks import DUE_AFTER, FINE
from streamgp.contract.lanes import ADVANCE, PREDICT
from streamgp.linalg.vector import copy
from streamgp.process import features, fixed, growing, kept, loop, time
from streamgp.process.adapt import sngd
from streamgp.process.row import AT, is_overdue, meet
from streamgp.process.state import LAYOUT, NOTHING

Array = NDArray

ARGUMENTS = loop.arguments(LAYOUT)  # X has the features of a LinearMean behind the inputs
# The loops are large, and compiled once: what takes a row through more than the loop calls them where they are.
run_at = caller(WHOLE_TRIPLE, ARGUMENTS)


@compiled
def is_predicted(m: Model) -> bool:
    """Whether the row seen was the last to be predicted, and nothing has been learned since."""
    seen, predicted, last = m.seen, m.predicted, m.last_prediction
    same = bool(last[0] == 1.0) and (m.plan.temporal == 0 or bool(last[3] == m.now[AT]))
    for j in range(seen.size):
        same = same and seen[j] == predicted[j]
    return same


@compiled
def note_predicted(m: Model, kappa: float, gamma2: float) -> None:
    """Nothing but the work space remembers a prediction: the model is as it was."""
    last = m.last_prediction
    copy(m.seen, m.seen.size, m.predicted)
    last[0], last[1], last[2] = 1.0, kappa, gamma2
    if m.plan.temporal > 0:
        last[3] = m.now[AT]


@compiled
def report(m: Model, gamma2: float, t: int, out: Array) -> None:
    """Write the prediction of row t: means, variances, noises; components where there is room for them.

    An estimated signal power scales variances and noises.
    """
    power = m.power
    for o in range(m.plan.outputs):
        j = o if m.plan.covariances > 1 else 0
        scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
        out[0, t, o], out[1, t, o], out[2, t, o] = m.mean_now[o], scale * m.variance_now[j], scale * m.noise[j]
    if out.shape[0] > 3:
        time.report_components(m, features.weights_in_use(m), gamma2, t, out)


# What stands for the functions of a kind in the text.
predict_seen: Any = None
learn_seen: Any = None


def predict(m: Model, X: Array, t: int, conditions: Array, i: int, kind: int, learned: bool) -> tuple[float, float]:
    """Predict what was seen of row t, at its time, unless that was predicted last; kappa = k(x, x) and gamma2."""
    if m.plan.temporal > 0:
        time.arrive(m, X[t], conditions, i, kind & ADVANCE != 0)
    if not (learned or kind & PREDICT or m.plan.feedback):
        return 0.0, 0.0
    if kind != PREDICT and is_predicted(m):
        return m.last_prediction[1], m.last_prediction[2]
    kappa, gamma2 = predict_seen(m)
    note_predicted(m, kappa, gamma2)
    return kappa, gamma2


def learn(m: Model, conditions: Array, i: int, learned: bool, kappa: float, gamma2: float) -> int:
    """Learn the targets of the row that predict() has seen, under the conditions of operation i."""
    m.counters.change = NOTHING
    m.counters.evictions = 0
    if not learned:
        return FINE
    m.last_prediction[0] = 0.0
    meet(m, conditions, i)
    if m.plan.theta > 0:
        sngd.before_learning(m)
    learn_seen(m, kappa, gamma2)
    if m.plan.check_every > 0:
        m.counters.rows_since_check += 1
    due = 0 < m.plan.check_every <= m.counters.rows_since_check
    if m.plan.theta > 0:
        due = sngd.after_learning(m) or due
    return DUE_AFTER if due else FINE


def _of(kind: Any) -> dict[str, Any]:
    """The functions of the loop over processes with features of one kind, whose predict() and learn() these are."""
    own = {"predict_seen": kind.predict, "learn_seen": kind.learn}
    around = {one.__name__: compiled(loop.with_functions(one, own)) for one in (predict, learn)}
    return {"is_overdue": is_overdue, "report": report} | around


run_growing = loop.of(__name__, "run_growing", LAYOUT, **_of(growing))
run_fixed = loop.of(__name__, "run_fixed", LAYOUT, **_of(fixed))
run_kept = loop.of(__name__, "run_kept", LAYOUT, **_of(kept))

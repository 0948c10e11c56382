"""Intervals that cover what they say: quantiles of the errors, tracked along the stream and averaged by how they did.

Both ends of the interval are learned alike, each from the errors on its side. A tracker holds the log of a distance
from the mean, in units of the model's standard deviation or in a fixed unit, and moves up when the error lay beyond it
and down when it did not, at its own rate [Gibbs and Candes 2021; Angelopoulos, Candes and Tibshirani 2023]. The
trackers of all rates are averaged with weights that fall with their discounted losses [Zaffran et al. 2022], and a last
correction of the average sees to it that it covers, too.

Where errors have become larger or smaller by more than a factor of e, the fastest trackers follow at once: at a level
of 0.9 when three in a row on one side all lay as far beyond the bound, or twenty all lay as far within it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Record, block, matrix, vector
from streamgp.compiled import BOOLEAN, CUBE, MATRIX, borrowed, compiled, entry
from streamgp.contract.lanes import LANES, end_of, first_of

Array = NDArray

# In what a tracker measures distances: the model's standard deviation, or a unit of the errors' own.
RELATIVE, ABSOLUTE = range(2)

# The mean of log |z| of a standard Gaussian z, (digamma(1/2) + log 2) / 2, with the sign turned.
MEAN_LOG = 0.6351814227307391
# At the start the scale of the errors is their geometric mean over about so many rows.
START = 10.0
# Steps begin at this over the number of rows and shrink to a tracker's own rate.
FIRST_STEP = 3.0
# Few errors say little of their tails: at n rows the share that is to lie beyond an end is n / (n + CAUTION) of the one
# asked for.
CAUTION = 40.0
# No tracker goes farther than e^20 from the raw interval, or it would take long to come back; only those that follow
# errors at once do.
FARTHEST = 20.0
# How far the log of every error in a row must be from that of the bound for it to follow them at once.
GROSS = 1.0
# The bounds whose errors are watched for that: of the fastest tracker of each kind, and the one that is issued.
ISSUED, WATCHED = 2, 3
# One row counts at most as so many average losses.
WORST = 100.0
# Errors beyond this are as large as any; their squares are still numbers.
FAR, LOG_FAR = 1e150, 345.4
TINY = 1e-300  # no distance is less


PLAN = np.dtype(
    [
        ("tail", np.float64),  # what is to lie beyond each end
        ("log_z", np.float64),
        ("sharpness", np.float64),
        ("discount", np.float64),
        ("correction", np.float64),
        ("warmup", np.int64),
        ("beyond", np.int64),  # errors in a row on one side that are many enough to follow
        ("within", np.int64),
    ]
)

COUNTERS = np.dtype([("rows", np.int64)])  # targets of all outputs

# The raw tracker comes first, then those over the deviation, then those over the unit.
STATE = {
    "trackers": "outputs ends trackers",  # log distances
    "losses": "outputs ends trackers",  # discounted sums, the least one 0
    "corrected": "outputs ends",
    "loss": "outputs ends",
    "streaks": "outputs ends watched",  # how many errors in a row lay beyond a bound, or, below 0, within it
    "nearest": "outputs ends watched",  # of these the one nearest to it: the log of the ratio
    "log_unit": "outputs",
    "log_start": "outputs kinds",  # mean log size of the errors, where trackers start
    "kind_rows": "outputs kinds",  # rows that could be measured so
    "inside": "outputs",
    "width": "outputs",
    "raw_rows": "outputs",
    "raw_inside": "outputs",
    "raw_width": "outputs",
    "recent_rows": "outputs",
    "recent_inside": "outputs",
    "recent_width": "outputs",
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, {"rates": "rates"})


@entry(LAYOUT.type, MATRIX, *LANES, MATRIX, MATRIX, MATRIX, MATRIX, BOOLEAN, CUBE)
def calibrate(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    Y: Array,
    issued: bool,
    out: Array,
) -> None:
    """Lower and upper bounds, variances and noises of predictions into out, (4, n, p); then their errors count.

    The bounds of predictions that were issued earlier are read from out, not written.
    """
    records, buffers = borrowed(records), borrowed(buffers)
    lower, upper, total_variance, total_noise = out[0], out[1], out[2], out[3]
    several = variance.shape[1] > 1
    for k in range(models.size):
        m, f = records[models[k]], buffers[models[k]]
        kind_rows, recent_rows = matrix(f, m.at.kind_rows), vector(f, m.at.recent_rows)
        for t in range(first_of(starts, k), end_of(starts, k, mean.shape[0])):
            for j in range(mean.shape[1]):
                mu, v, w = mean[t, j], variance[t, j if several else 0], noise[t, j if several else 0]
                s = v + w
                usable = np.isfinite(s) and s > 0.0
                log_deviation = 0.5 * np.log(min(s, FAR * FAR)) if usable else 0.0
                if issued:
                    below, above = mu - lower[t, j], upper[t, j] - mu
                else:
                    below = distance(m, f, j, 0, usable, log_deviation)
                    above = distance(m, f, j, 1, usable, log_deviation)
                    lower[t, j], upper[t, j] = mu - below, mu + above
                # Two halves of Gaussians, each with half of the mass: the mean of their variances.
                z2 = np.exp(2.0 * m.plan.log_z)
                total = 0.5 * (below * below + above * above) / z2
                total_variance[t, j] = total * (v / s) if usable else total
                total_noise[t, j] = total * (w / s) if usable else 0.0
                if np.isnan(Y[t, j]) or not np.isfinite(mu):
                    continue
                error = min(max(Y[t, j] - mu, -FAR), FAR)
                tally_row(m, f, j, error, below, above, usable, log_deviation)
                known = usable or kind_rows[j, ABSOLUTE] > 0.0  # or else the bounds were in no unit at all
                start(m, f, j, error, usable, log_deviation)
                if known and kind_rows[j, ABSOLUTE] > 0.0:
                    learn(m, f, j, 0, -error, below, usable, log_deviation)
                    learn(m, f, j, 1, error, above, usable, log_deviation)
                recent_rows[j] = m.plan.discount * recent_rows[j] + 1.0


@compiled
def distance(m: Record, f: Array, j: int, side: int, usable: bool, log_deviation: float) -> float:
    """How far the bound lies from the mean: the trackers' weighted geometric mean, corrected."""
    trackers, losses = block(f, m.at.trackers, j)[side], block(f, m.at.losses, j)[side]
    log_unit, corrected = vector(f, m.at.log_unit)[j], matrix(f, m.at.corrected)[j, side]
    relative = (trackers.size + 1) // 2  # the raw one and those over the deviation come first
    absolute = matrix(f, m.at.kind_rows)[j, ABSOLUTE] > 0.0 or not usable
    least = np.inf
    for k in range(trackers.size):
        if (usable if k < relative else absolute) and losses[k] < least:
            least = losses[k]
    total, weights = 0.0, 0.0
    for k in range(trackers.size):
        if usable if k < relative else absolute:
            weight = np.exp(-m.plan.sharpness * (losses[k] - least))
            weights += weight
            total += weight * (trackers[k] + (log_deviation if k < relative else log_unit))
    result: float = np.exp(min(total / weights + corrected, LOG_FAR))
    return result


@compiled
def tally_row(
    m: Record, f: Array, j: int, error: float, below: float, above: float, usable: bool, log_deviation: float
) -> None:
    """Add a row to the counts and sums that users read."""
    recent_inside, recent_width = vector(f, m.at.recent_inside), vector(f, m.at.recent_width)
    inside = 1.0 if -below <= error <= above else 0.0
    m.counters.rows += 1
    vector(f, m.at.inside)[j] += inside
    vector(f, m.at.width)[j] += below + above
    recent_inside[j] = m.plan.discount * recent_inside[j] + inside
    recent_width[j] = m.plan.discount * recent_width[j] + below + above
    if usable:
        half = np.exp(m.plan.log_z + log_deviation)
        vector(f, m.at.raw_rows)[j] += 1.0
        vector(f, m.at.raw_inside)[j] += 1.0 if -half <= error <= half else 0.0
        vector(f, m.at.raw_width)[j] += 2.0 * half


@compiled
def start(m: Record, f: Array, j: int, error: float, usable: bool, log_deviation: float) -> None:
    """While there are few rows, place the trackers by the geometric mean of the errors' sizes."""
    if error == 0.0:
        return
    trackers, count = block(f, m.at.trackers, j), vector(f, m.at.rates).size
    log_unit, log_start, kind_rows = (
        vector(f, m.at.log_unit),
        matrix(f, m.at.log_start)[j],
        matrix(f, m.at.kind_rows)[j],
    )
    size = np.log(abs(error))
    if kind_rows[ABSOLUTE] == 0.0:
        log_unit[j] = size
    for kind in (RELATIVE, ABSOLUTE):
        if kind == RELATIVE and not usable:
            continue
        kind_rows[kind] += 1.0
        if kind_rows[kind] > m.plan.warmup:
            continue
        reached = size - (log_deviation if kind == RELATIVE else log_unit[j])
        log_start[kind] += (reached - log_start[kind]) / min(kind_rows[kind], START)
        place = log_start[kind] + MEAN_LOG + m.plan.log_z
        for side in range(2):
            for k in range(count):
                trackers[side, 1 + kind * count + k] = min(max(place, -FARTHEST), FARTHEST)


@compiled
def learn(m: Record, f: Array, j: int, side: int, x: float, h: float, usable: bool, log_deviation: float) -> None:
    """Learn from the error x on one side of the mean, at which the bound lay h away."""
    trackers, losses = block(f, m.at.trackers, j)[side], block(f, m.at.losses, j)[side]
    corrected, own_loss = matrix(f, m.at.corrected)[j], matrix(f, m.at.loss)[j]
    kind_rows, log_unit = matrix(f, m.at.kind_rows)[j], vector(f, m.at.log_unit)[j]
    rates, a, discount = vector(f, m.at.rates), m.plan.tail, m.plan.discount
    aim = a * kind_rows[ABSOLUTE] / (kind_rows[ABSOLUTE] + CAUTION)
    # The loss of a quantile, in the form in which both ends add up to the interval score [Gneiting and Raftery 2007].
    mine = h + max(x - h, 0.0) / a
    average = own_loss[side] / vector(f, m.at.recent_rows)[j] if own_loss[side] > 0.0 else mine
    streaks, nearest = block(f, m.at.streaks, j)[side], block(f, m.at.nearest, j)[side]
    fastest, least = np.argmax(rates), np.inf
    for k in range(trackers.size):
        kind = RELATIVE if k <= rates.size else ABSOLUTE
        if kind == RELATIVE and not usable:
            losses[k] = discount * losses[k] + min(mine / average, WORST)
        else:
            bound = np.exp(trackers[k] + (log_deviation if kind == RELATIVE else log_unit))
            loss = bound + max(x - bound, 0.0) / a
            losses[k] = discount * losses[k] + min(loss / average, WORST)
            if k > 0 and kind_rows[kind] > m.plan.warmup:
                rate = max(rates[(k - 1) % rates.size], FIRST_STEP / kind_rows[kind])
                moved = trackers[k] + rate * ((1.0 if x > bound else 0.0) - aim)
                farthest = FARTHEST
                if (k - 1) % rates.size == fastest:
                    moved += leap(m, streaks, nearest, kind, x, bound)
                    farthest = 2.0 * LOG_FAR
                trackers[k] = min(max(moved, -farthest), farthest)
        if losses[k] < least:
            least = losses[k]
    for k in range(losses.size):
        losses[k] -= least
    moved = corrected[side] + m.plan.correction * ((1.0 if x > h else 0.0) - aim)
    corrected[side] = min(max(moved, -FARTHEST), FARTHEST)
    # One error, however large, does not change what losses are compared with; three in a row do.
    own_loss[side] = discount * own_loss[side] + min(mine, WORST * average)
    change = leap(m, streaks, nearest, ISSUED, x, h)
    if change != 0.0:  # what was lost among errors of another size says nothing of these
        own_loss[side] = vector(f, m.at.recent_rows)[j] * h * np.exp(change)
        for k in range(losses.size):
            behind = change > 0.0 and (k == 0 or (k - 1) % rates.size != fastest)  # it did not follow
            losses[k] = WORST if behind else 0.0


@compiled
def leap(m: Record, streaks: Array, nearest: Array, which: int, x: float, bound: float) -> float:
    """By how much the log of a bound is to change at once, because errors are of another size; mostly 0."""
    if x <= 0.0:  # an error on the other side
        return 0.0
    beyond = x > bound
    ratio = np.log(x) - np.log(max(bound, TINY))
    if streaks[which] == 0.0 or (streaks[which] > 0.0) != beyond:
        streaks[which], nearest[which] = 0.0, ratio
    streaks[which] += 1.0 if beyond else -1.0
    nearest[which] = min(nearest[which], ratio) if beyond else max(nearest[which], ratio)
    if -m.plan.within < streaks[which] < m.plan.beyond:
        return 0.0
    streaks[which] = 0.0
    change: float = nearest[which] if abs(nearest[which]) > GROSS else 0.0
    return change

"""Intervals that cover what they say: quantiles of the errors, tracked along the stream and averaged by how they did.

Both ends of the interval are learned alike, each from the errors on its side. A tracker holds the log of a distance
from the mean, in units of the model's standard deviation or in a fixed unit, and moves up when the error lay beyond it
and down when it did not, at its own rate [Gibbs and Candes 2021; Angelopoulos, Candes and Tibshirani 2023]. The
trackers of all rates are averaged with weights that fall with their discounted losses [Zaffran et al. 2022], and a last
correction of the average sees to it that it covers, too.

Where errors have become larger or smaller by more than a factor of e, the fastest trackers follow at once: at a level
of 0.9 when three in a row on one side all lay as far beyond the bound, or 18 on either side all lay as far within.

The other quantiles are learned as ratios, in units of the distance of the bound on their side, so that what changes
quickly is in the bounds and what is left is nearly constant: a ladder of quantiles at fixed levels, each moved by every
error, and beyond it generalized Pareto tails, from the moments of the errors beyond the bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, opened
from streamgp.compiled import CUBE, LINES, MATRIX, WHOLES, borrowed, compiled, entry
from streamgp.contract.lanes import ADVANCE, LANES, LEARN, PREDICT, end_of, first_of, waited

Array = NDArray

# In what a tracker measures distances: the model's standard deviation, or a unit of the errors' own.
RELATIVE, ABSOLUTE = range(2)

# The mean of the root of |z| of a standard Gaussian z, 2^(1/4) gamma(3/4) / sqrt(pi).
MEAN_ROOT = 0.8222089612166868
# At the start the scale of the errors is the square of the mean of their roots over about this many rows: neither a few
# errors of nearly 0 nor a wild one decide it. After n errors bounds lie e^(1 / n) times as far out: it is not certain.
START = 10.0
# The model's own interval, which no error has placed, begins this many average losses behind.
OWN_LOSS = 10.0
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
# Before this many rows errors are often small for a while, and no bound follows them at once, unless they are smaller
# by more than a factor of 100: then it was placed by no error of ours, such as a fill value that nobody could tell yet.
SETTLED, GROSS_AT_FIRST = 100.0, 4.6
# The bounds whose errors are watched for that: of the fastest tracker of each kind, and the one that is issued.
ISSUED, WATCHED = 2, 3
# Of a row that waits for its target: the model's mean, variance and noise, and how far both bounds lie from the mean.
KEPT = 5
# One row counts at most as this many average losses.
WORST = 100.0
# By how much the steps of quantiles beyond a bound are longer than suits a Gaussian: errors have heavier tails.
OUTER_GAIN = 3.0
# This many rows the quantiles at the start count for.
FIRST_ROWS = 10.0
# No error moves a quantile farther, in units of the bound, or in the log where it lies beyond the bound.
LONGEST_STEP = 0.5
# Errors beyond a bound that the tails at the start count for; one counts at most as this many times their mean.
TAIL_START, TAIL_WORST = 20.0, 20.0
# Quantiles and tails beyond a bound have a memory this many times as long.
TAIL_MEMORY = 10.0
# The heaviest tail: its variance is finite.
HEAVIEST = 0.45
# Numbers of the tails: how heavy and how wide, below and above.
TAILS = 4
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
        ("within", np.int64),  # errors in a row on either side
        ("memory", np.float64),
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
    "ratios": "outputs rungs",  # quantiles of the errors over the distance of the bound on their side
    "ratio_rows": "outputs",
    "excess": "outputs ends",  # mean of how far errors lay beyond a bound, as a ratio
    "excess2": "outputs ends",
    "excess_rows": "outputs ends",
    "log_unit": "outputs",
    "root_size": "outputs kinds",  # mean of the roots of the errors' sizes, where trackers start
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

WORK = {
    "rates": "rates",
    "levels": "rungs",
    "gains": "rungs",
    "told": "told",  # what is said of a row beside its mean
    "errors": "outputs",  # rows that could be measured when a call began
    "as_issued": "ends trackers",  # log distances when the row was issued whose target comes late
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK)


# What of a prediction comes before its quantiles and tails: mean, variance, noise and both bounds.
MOMENTS = 5

CALIBRATE = (LAYOUT.type, MATRIX, *LANES, WHOLES, MATRIX, LINES, MATRIX, CUBE)


@entry(*CALIBRATE)
def calibrate(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    ops: Array,
    Y: Array,
    kept: Array,
    wider: Array,
    out: Array,
) -> None:
    """Calibrate predictions, and learn from targets; operations are done in order (contract/lanes.py).

    Bounds are infinite while neither the model nor an error has told in what unit they would be. A target that comes
    late is compared with the bounds that were issued. Where errors overlap, trackers are judged by what each said when
    the row was issued: since then they have learned from the neighbors of its target, and asked again, the fastest
    would look best.

    Args:
        records: of the models, and below which operations are whose.
        ops: the operations.
        Y: (n, p) targets.
        kept: of each row that waits, for each output the mean, the variance, the noise and the distances of both bounds
            from the mean; then, if errors overlap, what the trackers said.
        wider: (p, errors + 1) by how much bounds are wider after so many more errors; empty if errors do not overlap.
        out: (columns, n, p): mean, variance, noise, bounds, quantiles and tails, and then what the model within
            predicts, which begins with its mean, variance and noise.
    """
    records, buffers, Y, kept = borrowed(records), borrowed(buffers), borrowed(Y), borrowed(kept)
    wider, out = borrowed(wider), borrowed(out)
    for k in range(models.size):
        m = opened(records, buffers, models[k])
        rungs, p, overlap = m.ratios.shape[1] + TAILS, m.ratios.shape[0], wider.shape[0] > 0
        told, first, errors = m.told, MOMENTS + rungs, m.errors
        width = KEPT + (m.trackers[0].size if overlap else 0)
        for j in range(p):
            errors[j] = m.kind_rows[j, ABSOLUTE]
        for i in range(first_of(starts, k), end_of(starts, k, ops.shape[0])):
            t, kind = ops[i, 0], ops[i, 1]
            for j in range(p):
                said = m.trackers[j]
                if kind & PREDICT:
                    mean, variance, noise = out[first, t, j], out[first + 1, t, j], out[first + 2, t, j]
                    below, above = tell(m, j, variance, noise, told)
                    if kind & LEARN and kind & ADVANCE:
                        learn(m, j, mean, variance + noise, below, above, Y[t, j], said)
                    if overlap:
                        factor = wider[j, int(m.kind_rows[j, ABSOLUTE] - errors[j])]
                        below, above = factor * below, factor * above
                        told[0] *= factor * factor
                        told[1] *= factor * factor
                    out[0, t, j], out[1, t, j], out[2, t, j] = mean, told[0], told[1]
                    out[3, t, j], out[4, t, j] = mean - below, mean + above
                    for i_rung in range(rungs):
                        out[MOMENTS + i_rung, t, j] = told[2 + i_rung]
                    if kind & LEARN == 0 and kept.shape[0] > 0:
                        line = kept[t, j * width : (j + 1) * width]
                        line[0], line[1], line[2], line[3], line[4] = mean, variance, noise, below, above
                        for tracker in range(width - KEPT):
                            line[KEPT + tracker] = said.flat[tracker]
                if waited(kind):
                    line = kept[t, j * width : (j + 1) * width]
                    if overlap:
                        said = m.as_issued
                        for tracker in range(width - KEPT):
                            said.flat[tracker] = line[KEPT + tracker]
                    if line[3] + line[4] > 0.0:  # else it is a row from before the outputs were known
                        learn(m, j, line[0], line[1] + line[2], line[3], line[4], Y[t, j], said)


@compiled
def log_of(variance: float) -> float:
    """The log of the model's standard deviation; NaN: it has none."""
    return 0.5 * np.log(min(variance, FAR * FAR)) if np.isfinite(variance) and variance > 0.0 else np.nan


@compiled
def tell(m: Model, j: int, variance: float, noise: float, out: Array) -> tuple[float, float]:
    """How far the bounds lie below and above the mean; variance, noise, quantiles and tails go into out."""
    log_deviation = log_of(variance + noise)
    below = distance(m, j, 0, log_deviation)
    above = distance(m, j, 1, log_deviation)
    # Two halves of Gaussians, each with half of the mass: the mean of their variances.
    total = 0.5 * (below * below + above * above) / np.exp(2.0 * m.plan.log_z)
    usable = not np.isnan(log_deviation)
    out[0] = total * (variance / (variance + noise)) if usable else total
    out[1] = total * (noise / (variance + noise)) if usable else 0.0
    tell_shape(m, j, out[2:])
    return below, above


@compiled
def learn(m: Model, j: int, mean: float, s: float, below: float, above: float, y: float, said: Array) -> None:
    """Learn one target of a row, of which the model's variance with noise is s; said: trackers when it was issued."""
    if np.isnan(y) or not np.isfinite(mean):
        return
    error, bounded, log_deviation = min(max(y - mean, -FAR), FAR), np.isfinite(below + above), log_of(s)
    if bounded:
        tally_row(m, j, error, below, above, log_deviation)
    elif np.isinf(s):  # the model knew as little: how it errs later, this error does not tell
        return
    start(m, j, error, log_deviation, said)
    if not bounded:
        return
    if m.kind_rows[j, ABSOLUTE] > 0.0:
        learn_shape(m, j, error / max(below if error < 0.0 else above, TINY))
        learn_side(m, j, 0, -error, below, log_deviation, said[0])
        learn_side(m, j, 1, error, above, log_deviation, said[1])
    recent_rows = m.recent_rows
    recent_rows[j] = m.plan.discount * recent_rows[j] + 1.0


@compiled
def distance(m: Model, j: int, side: int, log_deviation: float) -> float:
    """How far the bound lies from the mean: the trackers' weighted geometric mean, corrected; infinite without unit."""
    trackers, losses = m.trackers[j][side], m.losses[j][side]
    log_unit = m.log_unit[j] if m.kind_rows[j, ABSOLUTE] > 0.0 else np.nan
    relative = (trackers.size + 1) // 2  # the raw one and those over the deviation come first
    least = np.inf
    for k in range(trackers.size):
        if not np.isnan(log_deviation if k < relative else log_unit) and losses[k] < least:
            least = losses[k]
    if least == np.inf:
        return np.inf
    total, weights = 0.0, 0.0
    for k in range(trackers.size):
        unit = log_deviation if k < relative else log_unit
        if not np.isnan(unit):
            weight = np.exp(-m.plan.sharpness * (losses[k] - least))
            weights += weight
            total += weight * (trackers[k] + unit)
    result: float = np.exp(min(total / weights + m.corrected[j, side], LOG_FAR))
    return result


@compiled
def tally_row(m: Model, j: int, error: float, below: float, above: float, log_deviation: float) -> None:
    """Add a row to the counts and sums that users read."""
    recent_inside, recent_width = m.recent_inside, m.recent_width
    inside = 1.0 if -below <= error <= above else 0.0
    m.counters.rows += 1
    m.inside[j] += inside
    m.width[j] += below + above
    recent_inside[j] = m.plan.discount * recent_inside[j] + inside
    recent_width[j] = m.plan.discount * recent_width[j] + below + above
    if not np.isnan(log_deviation):
        half = np.exp(m.plan.log_z + log_deviation)
        m.raw_rows[j] += 1.0
        m.raw_inside[j] += 1.0 if -half <= error <= half else 0.0
        m.raw_width[j] += 2.0 * half


@compiled
def start(m: Model, j: int, error: float, log_deviation: float, said: Array) -> None:
    """While there are few rows, place the trackers by the errors' sizes."""
    if error == 0.0:
        return
    trackers, count = m.trackers[j], m.rates.size
    log_unit, root_size, kind_rows = m.log_unit, m.root_size[j], m.kind_rows[j]
    size = np.log(abs(error))
    if kind_rows[ABSOLUTE] == 0.0:
        log_unit[j] = size
    for kind in (RELATIVE, ABSOLUTE):
        reached = size - (log_deviation if kind == RELATIVE else log_unit[j])
        if np.isnan(reached):
            continue
        kind_rows[kind] += 1.0
        if kind_rows[kind] > m.plan.warmup:
            continue
        root = np.exp(0.5 * min(reached, 2.0 * LOG_FAR))
        root_size[kind] += (root - root_size[kind]) / min(kind_rows[kind], START)
        place = 2.0 * np.log(root_size[kind] / MEAN_ROOT) + m.plan.log_z + 1.0 / kind_rows[kind]
        for side in range(2):
            for k in range(1 + kind * count, 1 + (kind + 1) * count):
                said[side, k] = trackers[side, k] = min(max(place, -FARTHEST), FARTHEST)


@compiled
def learn_side(m: Model, j: int, side: int, x: float, h: float, log_deviation: float, said: Array) -> None:
    """Learn from the error x on one side of the mean, at which the bound lay h away.

    Trackers lose by what they said when the row was issued, and move from where they are.
    """
    trackers, losses = m.trackers[j][side], m.losses[j][side]
    corrected, own_loss = m.corrected[j], m.loss[j]
    kind_rows, log_unit = m.kind_rows[j], m.log_unit[j]
    rates, a, discount = m.rates, m.plan.tail, m.plan.discount
    aim = a * kind_rows[ABSOLUTE] / (kind_rows[ABSOLUTE] + CAUTION)
    # The loss of a quantile, in the form in which both ends add up to the interval score [Gneiting and Raftery 2007].
    mine = h + max(x - h, 0.0) / a
    average = own_loss[side] / m.recent_rows[j] if own_loss[side] > 0.0 else mine
    streaks, nearest = m.streaks[j][side], m.nearest[j][side]
    fastest, least, settled = np.argmax(rates), np.inf, kind_rows[ABSOLUTE] > SETTLED
    for k in range(trackers.size):
        kind = RELATIVE if k <= rates.size else ABSOLUTE
        unit = log_deviation if kind == RELATIVE else log_unit
        if np.isnan(unit):
            losses[k] = discount * losses[k] + min(mine / average, WORST)
        else:
            bound = np.exp(trackers[k] + unit)
            issued = bound if said[k] == trackers[k] else np.exp(said[k] + unit)
            loss = issued + max(x - issued, 0.0) / a
            losses[k] = discount * losses[k] + min(loss / average, WORST)
            if k > 0 and kind_rows[kind] > m.plan.warmup:
                rate = max(rates[(k - 1) % rates.size], FIRST_STEP / kind_rows[kind])
                moved = trackers[k] + rate * ((1.0 if x > bound else 0.0) - aim)
                farthest = FARTHEST
                if (k - 1) % rates.size == fastest:
                    moved += leap(m, streaks, nearest, kind, x, bound, settled)
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
    change = leap(m, streaks, nearest, ISSUED, x, h, settled)
    if change != 0.0:  # what was lost among errors of another size says nothing of these
        own_loss[side] = m.recent_rows[j] * h * np.exp(change)
        for k in range(losses.size):
            behind = change > 0.0 and (k == 0 or (k - 1) % rates.size != fastest)  # it did not follow
            losses[k] = WORST if behind else 0.0


@compiled
def leap(m: Model, streaks: Array, nearest: Array, which: int, x: float, bound: float, settled: bool) -> float:
    """By how much the log of a bound is to change at once, because errors are of another size; mostly 0.

    Far beyond it only errors on its side can lie; that errors are small, those on both sides show.
    """
    if x == 0.0:
        return 0.0
    ratio = np.log(abs(x)) - np.log(max(bound, TINY))
    if x > bound:
        if streaks[which] <= 0.0:
            streaks[which], nearest[which] = 0.0, ratio
        streaks[which] += 1.0
        nearest[which] = min(nearest[which], ratio)
        if streaks[which] < m.plan.beyond:
            return 0.0
    elif ratio < -(GROSS if settled else GROSS_AT_FIRST):
        if streaks[which] >= 0.0:
            if x < 0.0 and streaks[which] > 0.0:  # a small one on the other side
                return 0.0
            streaks[which], nearest[which] = 0.0, ratio
        streaks[which] -= 1.0
        nearest[which] = max(nearest[which], ratio)
        if streaks[which] > -m.plan.within:
            return 0.0
    else:
        if x > 0.0 or streaks[which] < 0.0:
            streaks[which] = 0.0
        return 0.0
    streaks[which] = 0.0
    change: float = nearest[which] if abs(nearest[which]) > GROSS else 0.0
    return change


@compiled
def tell_shape(m: Model, j: int, out: Array) -> None:
    """The quantiles, in units of the bounds, and the tails beyond them; how wide these are, too."""
    ratios = m.ratios[j]
    mean, mean2 = m.excess[j], m.excess2[j]
    for k in range(ratios.size):
        out[k] = ratios[k]
    for side in range(2):
        last = ratios[side * (ratios.size - 1)]
        # The two moments of a generalized Pareto [Hosking and Wallis 1987].
        xi = 0.5 - 0.5 * mean[side] * mean[side] / max(mean2[side] - mean[side] * mean[side], TINY)
        xi = min(max(xi, 0.0), HEAVIEST)
        out[ratios.size + 2 * side] = xi
        out[ratios.size + 2 * side + 1] = (1.0 - xi) * mean[side] + xi * (abs(last) - 1.0)


@compiled
def learn_shape(m: Model, j: int, r: float) -> None:
    """Learn from an error in units of the bound on its side."""
    ratios, rows = m.ratios[j], m.ratio_rows
    levels, gains, a = m.levels, m.gains, m.plan.tail
    rows[j] += 1.0
    inner = 1.0 / min(rows[j] + FIRST_ROWS, m.plan.memory)
    outer = 1.0 / min(rows[j] + CAUTION, TAIL_MEMORY * m.plan.memory)
    middle = ratios.size // 2
    for k in range(ratios.size):
        if gains[k] == 0.0:  # a bound
            continue
        level, q = levels[k], ratios[k]
        if a < level < 1.0 - a:
            step = min(gains[k] * inner, LONGEST_STEP)
            ratios[k] = min(max(q + step * (level - (1.0 if r <= q else 0.0)), -1.0), 1.0)
        else:
            beyond, share = (r < q, level) if k < middle else (r > q, 1.0 - level)
            step = min(gains[k] * outer, LONGEST_STEP) * ((1.0 if beyond else 0.0) - share)
            ratios[k] = np.copysign(np.exp(min(max(np.log(abs(q)) + step, 0.0), FARTHEST)), q)
    for k in range(middle + 1, ratios.size):
        ratios[k] = max(ratios[k], ratios[k - 1])
        opposite = ratios.size - 1 - k
        ratios[opposite] = min(ratios[opposite], ratios[opposite + 1])
    if abs(r) > 1.0:
        side = 1 if r > 0.0 else 0
        mean, mean2 = m.excess[j], m.excess2[j]
        seen = m.excess_rows[j]
        seen[side] += 1.0
        excess = min(abs(r) - 1.0, TAIL_WORST * mean[side])
        weight = 1.0 / min(seen[side] + TAIL_START, max(2.0 * TAIL_START, a * TAIL_MEMORY * m.plan.memory))
        mean[side] += weight * (excess - mean[side])
        mean2[side] += weight * (excess * excess - mean2[side])

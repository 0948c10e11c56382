"""Surprise: how improbable each error is among those before it, and evidence that errors have changed.

The score of an error of z standard deviations is s = -log P(|Z| >= |z|) of a Gaussian: exponential with mean 1 where
predictions are Gaussian and right, and whatever it is elsewhere. Scores are counted in bins, which fade. Beyond a high
quantile u their excesses are generalized Pareto, P(s - u > x) = (1 + shape x / scale)^(-1 / shape), whatever their
distribution [Pickands 1975], so that the p-value of a score is that of a rank below u, and of the fitted tail above.
Where predictions are calibrated, z is the lesser of the error by the calibrated deviation and by the model's own.

A spike is one row with a p-value below its share of the budget. A change is told by the sum over its possible first
rows of products of e-values (drift.py), one for errors that have grown, one for errors that lie higher and one for
errors that lie lower than before, averaged: each is a fair game while nothing changes, and so is the average.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, fields, opened
from streamgp.compiled import INDICES, MATRIX, NUMBER, VECTOR, compiled, entry
from streamgp.contract import spacing
from streamgp.contract.spacing import elapsed, note, usual
from streamgp.linalg.vector import dot
from streamgp.wrappers.drift import MOST_REFUTED, wager

Array = NDArray

NONE, SPIKE, LEVEL, RELATION = range(4)

# Scores are counted in bins of their logarithm, for errors below and above 0 apart: those below come first, the largest
# score first, so that bins are in the order of the errors.
SIDE = 1024
LEAST, LARGEST = 1e-3, 1e9
WIDTH = math.log(LARGEST / LEAST) / SIDE
LEAST_P = 1e-300

# The shares of the budget. What a change needs more of evidence costs few rows, because evidence grows exponentially.
SPIKES, CHANGES = 0.85, 0.15
# A level has changed, not the relation, where evidence for one side is at least this share of that for both: errors of
# both signs divide the evidence for one side by MOST / wager(1) = 5 each.
ONE_SIDED = 0.1
# A spike divides the budget of those after it by e^PAID, and rows without one earn it back, so that in the long run
# spikes come at their rate whatever the tail was taken for; at most by a factor of 10 either way.
PAID, MOST_PAID = 0.3, math.log(10.0)
# A spike of more than twice the surprise that makes one is not counted among the scores: it is broken, and no tail.
BROKEN = 2.0

# The tail: this share of the scores, or this many of them as long as they are few, at most a fifth.
TAIL, FEWEST, MOST_TAIL = 0.05, 30.0, 0.2
# Of the fit [Zhang and Stephens 2009]: points at which the likelihood is taken, and the spread of their prior.
POINTS, SPREAD = 20, 3.0
# The prior of the shape, worth this many scores: between that of Gaussian and that of heavy-tailed errors.
PRIOR_SHAPE, PRIOR_ROWS = 0.1, 10.0
# The tail is fitted anew after a sixteenth of the rows that count, and at the latest after this many rows.
FIT_AFTER, FIT_AT_LATEST = 16.0, 64.0

# What is kept of each output beside the counts and the evidence: the counts' sum, rows since the start or the last
# change, rows since the fit, changes so far, those that count against the next one, and the log of the budget's factor.
TOTAL, ROWS, UNFITTED, CHANGED, REFUTED, PACE = range(6)
PROGRESS = 6
THRESHOLD, SHARE, SCALE, SHAPE = range(4)
FITTED = 4
GROWN, HIGHER, LOWER = range(3)
WATCHED = 3


# Where a model is calibrated, an error has two sizes: in standard deviations of the calibrated prediction, which follow
# errors in time, and in those that the model itself claims, which follow the inputs. Each is taken in units of its
# geometric mean over about LATELY rows, for which no size counts as farther than a factor of NEAR from those before.
LATELY, NEAR = 200.0, math.log(10.0)
LEAST_SIZE = 1e-12
MEAN_LOG = -0.5 * (np.euler_gamma + math.log(2.0))  # of the absolute value of a standard Gaussian
CALIBRATED_ROWS, CALIBRATED_UNIT, OWN_ROWS, OWN_UNIT = range(4)
UNITS = 4

# A clock: the time up to which gaps are counted, how many rows had a time, and the gaps (contract/spacing.py).
LATEST, TIMED, GAPS = range(3)
CLOCK = GAPS + spacing.NUMBERS
EVENT = 8  # numbers of an event: those of Alarm but the id

# Work space: sums of counts, or excesses and their weights; then points and their likelihoods.
ROOM = 2 * SIDE + 2 * POINTS

PLAN = fields(
    "stopping", "memory warmup"
)  # whether to stop after a spike; rows over which counts fade; rows only counted
# The row after the last that was judged, and how many events there were, in all and by kind.
COUNTERS = fields("judged noted spike level relation")
STATE = {
    "counts": f"outputs {2 * SIDE}",  # of the scores
    "tails": f"outputs {FITTED}",
    "evidence": f"outputs {WATCHED}",
    "progress": f"outputs {PROGRESS}",
    "units": f"outputs {UNITS}",
    "last": "2 outputs",  # surprise and kind of the row that was judged last
    "clock": f"{CLOCK}",
    "usual": "2 inputs",  # mean of each input, and of how many rows
    "events": f"history {EVENT}",  # a ring
}
LAYOUT = Layout(PLAN, COUNTERS, STATE, {"room": f"{ROOM}"})


@entry(LAYOUT.type, MATRIX, *[MATRIX] * 4, VECTOR, MATRIX, MATRIX)
def judge(
    records: Array,
    buffers: Array,
    X: Array,
    Z: Array,
    own: Array,
    refused: Array,
    budgets: Array,
    surprise: Array,
    kinds: Array,
) -> int:
    """Judge rows in order; return how many were: all, or as far as the first spike that is not refused.

    Args:
        records: of the numbers, and below their buffers.
        X: (n, d) inputs.
        Z: (n, p) errors in standard deviations; NaN where there is none.
        own: (n, p) the same in those that the model itself claims, where Z is calibrated; otherwise (0, p).
        refused: (n, p) 1 where the model does not take the target: a spike, and no error to compare others with.
        budgets: (n,) alarms that each row may raise on average, over all outputs.
        surprise: (n, p), the result: -log of the p-values; of an alarm, of what was compared with the budget: the
            p-value of a spike over the factor that the budget had then, 1 over the evidence of a change.
        kinds: (n, p), the result: which alarm there is.
    """
    m = opened(records, buffers, 0)
    n: int = Z.shape[0]
    p: int = Z.shape[1]
    beyond, memory, warmup = m.room[: 2 * SIDE], m.plan.memory, m.plan.warmup
    usual = m.usual
    for t in range(n):
        missing = 0
        for j in range(p):
            missing += 1 if np.isnan(Z[t, j]) else 0
        for i in range(0 if missing == p else X.shape[1]):
            usual[1, i] = min(usual[1, i] + 1.0, memory)
            usual[0, i] += (X[t, i] - usual[0, i]) / usual[1, i]
        spike = False
        for j in range(p):
            counts, tail, progress, evidence = m.counts[j], m.tails[j], m.progress[j], m.evidence[j]
            surprise[t, j], kinds[t, j] = np.nan, NONE
            if np.isnan(Z[t, j]):
                continue
            budget, z = budgets[t] / p, Z[t, j]
            if own.shape[0] > 0:
                z = lesser(z, own[t, j], m.units[j])
            progress[ROWS] += 1.0 - refused[t, j]
            if progress[ROWS] > warmup:
                fit_when_due(counts, tail, progress, m.room)
            add_up(counts, beyond)
            surprise[t, j] = -math.log(p_value(nats(z), beyond, tail, progress))
            if refused[t, j] > 0.0:
                kinds[t, j] = SPIKE
                continue
            pace = progress[PACE]
            if progress[ROWS] > warmup:
                bet(z, beyond, counts, progress, evidence)
                kinds[t, j] = alarm_of(surprise[t, j], budget, evidence, progress)
            if kinds[t, j] > SPIKE:
                surprise[t, j] = math.log(of_change(evidence))
                start_again(counts, evidence, progress)
            elif kinds[t, j] == NONE or surprise[t, j] <= -BROKEN * math.log(SPIKES * budget):
                fade(1.0 - 1.0 / memory, counts, progress)
                count(z, counts, progress)
            if kinds[t, j] == SPIKE:
                surprise[t, j] += pace
                spike = True
        if spike and m.plan.stopping:
            return t + 1
    return n


@entry(VECTOR, VECTOR, VECTOR)
def mean_gaps(clock: Array, times: Array, means: Array) -> None:
    """The mean time between rows so far, at each of the next ones; no pause or wrong time stamp rules it.

    Args:
        clock: (CLOCK,), zeros before the first row; it goes on.
        times: (n,) of the rows, NaN where there is none.
        means: (n,), the result.
    """
    gaps = clock[GAPS:]
    total = elapsed(gaps)
    for t in range(times.size):
        if np.isfinite(times[t]):
            gap = 0.0 if clock[TIMED] == 0.0 else times[t] - clock[LATEST]
            if gap > 0.0:
                note(gaps, gap)
                total = elapsed(gaps)
            # Rows that are a little late leave the clock as it is. One far back ends a wrong time stamp ahead of it.
            if clock[TIMED] == 0.0 or gap > 0.0 or gap < -spacing.LONGEST * usual(gaps):
                clock[LATEST] = times[t]
            clock[TIMED] += 1.0
        means[t] = total / max(clock[TIMED] - 1.0, 1.0)


@compiled
def lesser(z: float, own: float, units: Array) -> float:
    """An error in units of errors of late, by the calibrated and by the model's own deviation, whichever is less."""
    size = in_units(abs(z), units[CALIBRATED_ROWS : CALIBRATED_UNIT + 1])
    if np.isfinite(own):
        size = min(size, in_units(abs(own), units[OWN_ROWS : OWN_UNIT + 1]))
    return math.copysign(size, z)


@compiled
def in_units(size: float, unit: Array) -> float:
    """A size over those before it, so that sizes of Gaussian errors stay as they are; then it joins them."""
    if size < LEAST_SIZE:  # no error, as of a sensor that stands still, tells nothing of errors
        return size
    rows, mean, log = unit[0], unit[1], math.log(size)
    known = log if rows < 1.0 else mean
    unit[0] = min(rows + 1.0, LATELY)
    unit[1] += (min(max(log, known - NEAR), known + NEAR) - mean) / unit[0]
    return size * math.exp(MEAN_LOG - known)


@compiled
def nats(z: float) -> float:
    """The score of an error, -log P(|Z| >= |z|)."""
    x = min(abs(z), 1e150) / math.sqrt(2.0)
    if x < 25.0:
        return -math.log(math.erfc(x))
    return x * x + math.log(x * math.sqrt(math.pi))  # to 1 / (2 x^2)


@compiled
def bin_of(score: float) -> int:
    """The bin of a score, counted from 0 on its side."""
    return int(min(max(math.log(max(score, LEAST) / LEAST) / WIDTH, 0.0), SIDE - 1.0))


@compiled
def counted(counts: Array, k: int) -> float:
    """Scores in bin k, of both sides."""
    return counts[SIDE - 1 - k] + counts[SIDE + k]  # type: ignore[no-any-return]


@compiled
def add_up(counts: Array, beyond: Array) -> None:
    """How many scores there are in each bin and those of larger scores on its side."""
    below, above = 0.0, 0.0
    for k in range(SIDE):
        below += counts[k]
        above += counts[2 * SIDE - 1 - k]
        beyond[k], beyond[2 * SIDE - 1 - k] = below, above


@compiled
def p_value(score: float, beyond: Array, tail: Array, progress: Array) -> float:
    """How probable a score is that is at least as large."""
    if progress[UNFITTED] >= 0.0 and score > tail[THRESHOLD]:
        x = (score - tail[THRESHOLD]) / tail[SCALE]
        if tail[SHAPE] < 1e-6:
            return float(max(tail[SHARE] * math.exp(-x), LEAST_P))
        return float(max(tail[SHARE] * (1.0 + tail[SHAPE] * x) ** (-1.0 / tail[SHAPE]), LEAST_P))
    larger = counted(beyond, bin_of(score))
    return float(min(1.0, (1.0 + larger) / (1.0 + progress[TOTAL])))  # the sum was rounded otherwise


@compiled
def fade(kept: float, counts: Array, progress: Array) -> None:
    for k in range(counts.size):
        counts[k] *= kept
    progress[TOTAL] *= kept


@compiled
def count(z: float, counts: Array, progress: Array) -> None:
    """Count the score of an error."""
    place = bin_of(nats(z))
    counts[SIDE - 1 - place if z < 0.0 else SIDE + place] += 1.0
    progress[TOTAL] += 1.0


@compiled
def start_again(counts: Array, evidence: Array, progress: Array) -> None:
    """After a change errors are compared with those that come."""
    counts[:], evidence[:] = 0.0, 0.0
    progress[TOTAL], progress[ROWS], progress[UNFITTED], progress[PACE] = 0.0, 0.0, -1.0, 0.0


@compiled
def bet(z: float, beyond: Array, counts: Array, progress: Array, evidence: Array) -> None:
    """Accumulate evidence that errors have grown, or lie higher, or lower, than those that are counted."""
    place = bin_of(nats(z))
    own, larger = SIDE + place, beyond[SIDE + place]
    if z < 0.0:
        own, larger = SIDE - 1 - place, beyond[SIDE - 1 - place]
    of_both = counted(beyond, place)
    total = max(progress[TOTAL], of_both)
    grown = (1.0 + of_both) / (1.0 + total)
    # As extreme on the side of z, and seen from the other side all that are not more extreme than z. Errors that are no
    # larger than before are no evidence: after a change a model learns, and its errors return to 0.
    here = max((1.0 + larger) / (1.0 + total), 0.5 * grown)
    there = max((1.0 + total - larger + counts[own]) / (1.0 + total), 0.5 * grown)
    evidence[GROWN] = (1.0 + evidence[GROWN]) * wager(grown)
    evidence[HIGHER] = (1.0 + evidence[HIGHER]) * wager(there if z < 0.0 else here)
    evidence[LOWER] = (1.0 + evidence[LOWER]) * wager(here if z < 0.0 else there)


@compiled
def alarm_of(surprise: float, budget: float, evidence: Array, progress: Array) -> int:
    """Which alarm a row raises."""
    if budget <= 0.0:
        return NONE
    kind, allowed, rate = NONE, SPIKES * budget, CHANGES * budget
    if surprise > -math.log(allowed) - progress[PACE]:
        kind = SPIKE
    paid = PAID * allowed - (PAID if kind == SPIKE else 0.0)
    progress[PACE] = min(max(progress[PACE] + paid, -MOST_PAID), MOST_PAID)
    if math.log(of_change(evidence)) < -math.log(rate) * 2.0 ** progress[REFUTED]:
        return kind
    # One that comes sooner than the rate allows was likely none, or that before it: the next one needs more.
    if progress[CHANGED] > 0.0:
        sooner = progress[ROWS] < 1.0 / rate
        progress[REFUTED] = min(progress[REFUTED] + 1.0, MOST_REFUTED) if sooner else progress[REFUTED] // 2.0
    progress[CHANGED] += 1.0
    return change_of(evidence)


@compiled
def of_change(evidence: Array) -> float:
    """The evidence of any change: that of larger errors and that of either side count half each."""
    found: float = 0.5 * evidence[GROWN] + 0.25 * (evidence[HIGHER] + evidence[LOWER])
    return found


@compiled
def change_of(evidence: Array) -> int:
    """Which change there is."""
    return LEVEL if max(evidence[HIGHER], evidence[LOWER]) >= ONE_SIDED * evidence[GROWN] else RELATION


@compiled
def fit_when_due(counts: Array, tail: Array, progress: Array, room: Array) -> None:
    """Fit the tail, if enough rows have come since."""
    unfitted = progress[UNFITTED]
    if 0.0 <= unfitted < min(progress[TOTAL] / FIT_AFTER, FIT_AT_LATEST):
        progress[UNFITTED] = unfitted + 1.0
        return
    fit(counts, progress[TOTAL], tail, room)
    progress[UNFITTED] = 0.0


@compiled
def fit(counts: Array, total: float, tail: Array, room: Array) -> None:
    """Fit a generalized Pareto distribution to the largest scores, as [Zhang and Stephens 2009] do.

    Given theta = -shape / scale the most likely shape is known; theta is the mean of a few points, weighted by their
    likelihoods.
    """
    wanted, n, first = max(TAIL * total, min(FEWEST, MOST_TAIL * total)), 0.0, SIDE
    while first > 0 and n < wanted:
        first -= 1
        n += counted(counts, first)
    threshold = LEAST * math.exp(first * WIDTH)
    quartile, largest, seen = 0.0, 0.0, 0.0
    excesses, weights, used = room[:SIDE], room[SIDE : 2 * SIDE], 0
    for k in range(first, SIDE):
        weight = counted(counts, k)
        if weight > 0.0:
            excess = LEAST * math.exp((k + 0.5) * WIDTH) - threshold
            excesses[used], weights[used] = excess, weight / n
            used += 1
            quartile = excess if seen < 0.25 * n else quartile
            seen += weight
            largest = excess
    thetas, likelihoods, best = room[2 * SIDE : 2 * SIDE + POINTS], room[2 * SIDE + POINTS :], -np.inf
    for i in range(POINTS):
        thetas[i] = 1.0 / largest + (1.0 - math.sqrt(POINTS / (i + 0.5))) / (SPREAD * quartile)
        shape = shape_at(thetas[i], excesses[:used], weights[:used])
        ratio = -thetas[i] / shape
        likelihoods[i] = n * (math.log(ratio) - shape - 1.0) if ratio > 0.0 else -np.inf
        best = max(best, likelihoods[i])
    theta, together = 0.0, 0.0
    for i in range(POINTS):
        weight = math.exp(likelihoods[i] - best)
        theta += weight * thetas[i]
        together += weight
    theta /= together
    shape = shape_at(theta, excesses[:used], weights[:used])
    tail[THRESHOLD], tail[SHARE], tail[SCALE] = threshold, min(1.0, (1.0 + n) / (1.0 + total)), -shape / theta
    tail[SHAPE] = (n * shape + PRIOR_ROWS * PRIOR_SHAPE) / (n + PRIOR_ROWS)
    if tail[SHAPE] < 0.0:  # no score is impossible: exponential
        tail[SHAPE], tail[SCALE] = 0.0, dot(excesses, weights, used)


@compiled
def shape_at(theta: float, excesses: Array, weights: Array) -> float:
    """The shape that is most likely where shape / scale is -theta."""
    shape = 0.0
    for i in range(excesses.size):
        shape += weights[i] * math.log(max(1.0 - theta * excesses[i], 1e-12))
    return shape


# Many streams that are judged together share the counts and the tail of their scores. Each has a unit of its own, its
# mean absolute error over that of a Gaussian; what is known of it counts more than the prior after this many rows.
PRIOR_UNIT = 10.0
MEAN_ABSOLUTE = math.sqrt(2.0 / math.pi)
MOST_UNITS = 10.0  # by which an error counts for the unit


@entry(VECTOR, INDICES, *[NUMBER] * 3, *[VECTOR] * 3, MATRIX, MATRIX, *[VECTOR] * 4)
def judge_together(
    Z: Array,
    streams: Array,
    memory: float,
    warmup: float,
    enough: float,
    counts: Array,
    tail: Array,
    progress: Array,
    units: Array,
    evidence: Array,
    surprise: Array,
    found: Array,
    kinds: Array,
    room: Array,
) -> None:
    """Judge one error of each of some streams.

    Args:
        Z: (n,) errors in standard deviations, NaN where there is none; replaced by errors in units of their streams.
        streams: (n,) different numbers of streams.
        memory: rows over which units are taken.
        warmup: rows of a stream before which it is not judged.
        enough: scores of all streams that must be counted before any is.
        counts: (2 SIDE,) of all streams, with tail (FITTED,) and progress (PROGRESS,).
        units: (streams, 2) rows and mean absolute error of each stream.
        evidence: (streams, WATCHED).
        surprise: (n,), the result: -log of the p-values; NaN of streams that are not judged.
        found: (n,), the result: the evidence of a change.
        kinds: (n,), the result: which change it would be.
        room: (ROOM,) work space.
    """
    beyond = room[: 2 * SIDE]
    ready = progress[TOTAL] >= enough
    if ready:
        fit_when_due(counts, tail, progress, room)
        add_up(counts, beyond)
    for k in range(Z.size):
        i, z = streams[k], Z[k]
        surprise[k], found[k], kinds[k] = np.nan, 0.0, NONE
        if np.isnan(z):
            continue
        rows, mean = units[i, 0], units[i, 1]
        unit = (PRIOR_UNIT * MEAN_ABSOLUTE + rows * mean) / ((PRIOR_UNIT + rows) * MEAN_ABSOLUTE)
        Z[k] = z / unit
        units[i, 0] = min(rows + 1.0, memory)
        units[i, 1] += (min(abs(z), MOST_UNITS * unit) - mean) / units[i, 0]
        if ready and rows >= warmup:
            surprise[k] = -math.log(p_value(nats(Z[k]), beyond, tail, progress))
            bet(Z[k], beyond, counts, progress, evidence[i])
            found[k], kinds[k] = of_change(evidence[i]), change_of(evidence[i])


@entry(VECTOR, NUMBER, VECTOR, VECTOR)
def count_together(Z: Array, kept: float, counts: Array, progress: Array) -> None:
    """Count the scores of errors of many streams, after those before them have faded."""
    fade(kept, counts, progress)
    for z in Z:
        if not np.isnan(z):
            count(z, counts, progress)

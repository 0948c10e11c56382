"""How a committee makes one prediction of many, row by row; no rule has anything to tune.

Three kinds of voices, for one output at a time. NaN is a member that sleeps: not born yet, or not defined at this row.

- **Regret.** A member's weight is its regret, positive part, over the sum of the squares: ML-Poly with the gradient
  trick [Gaillard et al. 2014]. Squared errors count in units of the recent ones, so that what was gained while all
  erred a thousand times as much does not decide now. With K members and n rows their mean exceeds that of the best
  convex combination by O(sqrt(K log n / n)), as long as no error is bounded (FAR below). Members that sleep neither
  gain nor lose.
- **Recent errors.** The likelihood of a member's last hundred or so errors under a Gaussian of their mean square.
- **Regression.** Bayesian least squares of the first voice's error on the deviations of the members from it, so that
  weights may be negative and need not sum to one; back-to-prior forgetting as in process/forgetting.py.

The rule "stacked" weighs six such voices by regret once more. A target that comes late is compared with what members
and voices predicted when its row was issued: asked again, those who forget fastest would know the answer's neighbors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import CUBE, INDICES, LINES, MATRIX, NUMBER, VECTOR, WHOLE, WHOLES, compiled, entry
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT, waited
from streamgp.linalg import vector

Array = NDArray

RULES = ("recent", "ml-poly", "stacked")
RECENT, ML_POLY, STACKED = range(3)

DISCOUNTS = (1.0, 0.999)  # of regret, for the two voices of that kind
FORGETTING = (0.9999, 0.999, 0.99)  # of the regressions
VOICES = len(DISCOUNTS) + 1 + len(FORGETTING)
PREDICTION, UNIT, FIRST = range(3)  # what is kept of a row beside the members' means; the voices come last
SPOKEN = FIRST + VOICES + 1
MIXTURE = SPOKEN - 1  # of a row, what the voices said together, where a member was followed
# Of a row that waits for its target: the numbers and means of this many members, and what was predicted.
ROOM = 48
ISSUED = 2 * ROOM + SPOKEN
# A mean beyond this is no prediction: its square would not be a number.
NO_PREDICTION = 1e75
PRIOR = 0.3  # standard deviation of a regression's coefficients
# One wild row must not decide for thousands: in units of the first voice's recent error, errors and deviations of
# members count as no more than FAR, half of that in the regressions, and the unit itself grows at most ten times FAR.
FAR = 20.0  # better than 10 on CHOSEN_ON of benchmarks/auto_streams.py
LONG = 0.999  # discount of the errors by which members are compared in the long run
SCALE = 0.99  # discount of the mean squared errors that are units
# Of the targets of an output the lowest, the highest, the last, the largest step from one to the next, how many there
# were, and for how many rows a member was beyond the limits.
LOWEST, HIGHEST, LAST, STEP, COUNT, LIMITED = range(6)
RANGE = LIMITED + 1
# Work space, a number for each member: shares in three voices, means and those to judge by, deviations, a gain; and the
# shares of the voices.
MEANS, JUDGED, DEVIATIONS, GAIN, SHARE = range(3, 8)
# A member speaks alone while all voices together make this many times its error over the last ten rows or so, of which
# there have to be enough.
FOLLOWED, SHORT, ENOUGH = 4.0, 0.9, 7.0
MARGIN = 0.1  # of the range, by which it is widened
FEWEST = 8  # targets before which there are no limits, as there is no screen (outliers.py)
LARGEST = np.finfo(float).max


@entry(
    *(WHOLE, VECTOR, NUMBER, WHOLES, VECTOR, INDICES, CUBE, LINES, VECTOR),
    *(CUBE, MATRIX, CUBE, MATRIX, VECTOR),
    *(MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX),
)
def combine(
    rule: int,
    discount: Array,
    reach: float,
    ops: Array,
    y: Array,
    numbers: Array,
    predicted: Array,
    kept: Array,
    seen: Array,
    regrets: Array,
    errors: Array,
    covariances: Array,
    slopes: Array,
    scale: Array,
    judged: Array,
    spoken: Array,
    weights: Array,
    variance_weights: Array,
    mixed: Array,
    room: Array,
) -> None:
    """One output: combine what the members say, and learn from targets; operations are done in order.

    Args:
        rule: one of RULES.
        discount: (1,) of the recent errors.
        reach: see ``limits``.
        ops: the operations (contract/lanes.py).
        y: (n,) targets; NaN: nothing is learned from this row.
        numbers: (K,) by which the members are known among rows that wait.
        predicted: (3, n, K) the members' means, variances and noises. Means become NaN where a member has no say; a
            member without a variance has its recent mean squared error for a noise, NaN before the first.
        kept: (n, ISSUED) of each row that waits for ROOM members 1 + their numbers, negative for one that had no say,
            then the means by which they are judged, then ``spoken``. Those who joined since were asleep.
        seen: (RANGE,) what is known of the targets.
        regrets: (3, 3, K or VOICES at least): by discount, then for the voices; of each the regret, the sum of squares
            and the largest square.
        errors: (6, K) discounted squared errors of each member, and rows: of late, over about the last thousand, and
            over the last ten.
        covariances: (3, K, K) of the regressions' coefficients.
        slopes: (3, K) their means.
        scale: (6,) discounted squared errors of the first voice, and rows; the same of the predictions, and of what all
            voices said together.
        judged: (n, K) the means within the limits, by which members are judged, also those who have no say.
        spoken: (n, SPOKEN) the prediction, NaN where all sleep, the unit of deviations, and the voices.
        weights: (n, K) with which the members speak, none negative; a regression speaks through the voice below it.
        variance_weights: (n, K) the weights of those with a variance.
        mixed: (3, n) mean, variance and noise of the mixture.
        room: of work_room().
    """
    known = regrets, errors, covariances, slopes, scale
    for i in range(ops.shape[0]):
        t, kind = ops[i, 0], ops[i, 1]
        if kind & PREDICT:
            learned = kind & LEARN != 0 and kind & ADVANCE != 0
            target = y[t] if learned else np.nan
            low, high = limits(reach, target, seen)
            if restrain(predicted[0, t], low, high, judged[t]) and kind & ADVANCE != 0:
                seen[LIMITED] += 1.0
            say(rule, predicted[:, t], regrets, errors, slopes, scale, spoken[t], weights[t], room)
            judge(rule, discount, target, judged[t], spoken[t], room, *known)
            conclude(low, high, predicted[:, t], spoken[t], weights[t], variance_weights[t], mixed[:, t])
            if kept.shape[0] > 0 and kind & LEARN == 0:
                keep(numbers, predicted[0, t], judged[t], spoken[t], kept[t])
        if waited(kind):
            recall(numbers, kept[t], room)
            judge(rule, discount, y[t], room[JUDGED, : numbers.size], kept[t, 2 * ROOM :], room, *known)
            limits(reach, y[t], seen)


@compiled
def keep(numbers: Array, means: Array, judged: Array, spoken: Array, line: Array) -> None:
    """What a row that waits keeps of what was said of it."""
    vector.fill(line, line.size, np.nan)
    for k in range(min(numbers.size, ROOM)):
        line[k] = (-1.0 if np.isnan(means[k]) else 1.0) * (1.0 + numbers[k])
        line[ROOM + k] = judged[k]
    vector.copy(spoken, spoken.size, line[2 * ROOM :])


def work_room(K: int) -> Array:
    """Work space for K members."""
    return np.empty((SHARE + 1, max(K, VOICES)))


@compiled
def say(
    rule: int,
    predicted: Array,
    regrets: Array,
    errors: Array,
    slopes: Array,
    scale: Array,
    spoken: Array,
    weights: Array,
    room: Array,
) -> None:
    """What the voices make of what the members say of one row, (3, K); see ``combine``."""
    K, row, each = predicted.shape[1], predicted[0], spoken[FIRST:MIXTURE]
    share, deviations = room[SHARE, :VOICES], room[DEVIATIONS, :K]
    for k in range(K):
        if not np.isfinite(predicted[1, k] + predicted[2, k]):
            predicted[1, k] = 0.0
            predicted[2, k] = errors[0, k] / errors[1, k] if errors[1, k] > 0.0 else np.nan
    recent_weights(errors, row, room[2, :K])
    for v in range(2):
        regret_weights(regrets[v], row, room[v, :K])
    for v in range(3):
        each[v] = speak(room[v, :K], row)
    unit = np.sqrt(scale[0] / scale[1]) if scale[1] > 0.0 else 0.0
    deviate(row, each[0], unit, deviations)
    for v in range(3):
        each[3 + v] = each[0] + unit * vector.dot(slopes[v], deviations, K)
    regret_weights(regrets[2], each, share)
    if rule == STACKED:
        prediction = speak(share, each)
        for k in range(K):
            own = share[0] + share[3] + share[4] + share[5]
            weights[k] = own * room[0, k] + share[1] * room[1, k] + share[2] * room[2, k]
    else:
        v = 2 if rule == RECENT else 0
        prediction = each[v]
        vector.copy(room[v], K, weights)
    spoken[PREDICTION], spoken[UNIT], spoken[MIXTURE] = prediction, unit, prediction
    if rule == STACKED and scale[5] > ENOUGH:
        k = follow(errors, row, scale[4] / scale[5])
        if k >= 0:
            spoken[PREDICTION] = row[k]
            vector.fill(weights, K, 0.0)
            weights[k] = 1.0


@compiled
def follow(errors: Array, row: Array, square: float) -> int:
    """The member that is followed alone, because all together erred so many times as much of late; -1: none."""
    best, found = square / FOLLOWED**2, -1
    for k in range(row.size):
        if errors[5, k] > ENOUGH and not np.isnan(row[k]) and errors[4, k] / errors[5, k] < best:
            best, found = errors[4, k] / errors[5, k], k
    return found


@compiled
def conclude(
    low: float, high: float, predicted: Array, spoken: Array, weights: Array, variance_weights: Array, mixed: Array
) -> None:
    """Keep what is said of one row within the limits, and mix what the members say around it."""
    if not np.isnan(spoken[PREDICTION]):
        spoken[PREDICTION] = min(max(spoken[PREDICTION], low), high)
    mixed[0] = spoken[PREDICTION]
    mixed[1], mixed[2] = mix(mixed[0], predicted[0], predicted[1], predicted[2], weights, variance_weights)


@compiled
def recall(numbers: Array, issued: Array, room: Array) -> None:
    """What the members said when a row was issued, and by how much they deviated."""
    K, spoken = numbers.size, issued[2 * ROOM :]
    means, judged = room[MEANS, :K], room[JUDGED, :K]
    for k in range(K):
        means[k] = judged[k] = np.nan
        for i in range(ROOM):
            if abs(issued[i]) == 1.0 + numbers[k]:
                judged[k] = issued[ROOM + i]
                means[k] = judged[k] if issued[i] > 0.0 else np.nan
    deviate(means, spoken[FIRST], spoken[UNIT], room[DEVIATIONS, :K])


@compiled
def limits(reach: float, y: float, seen: Array) -> tuple[float, float]:
    """Between which numbers a target is to be expected before it comes; then it is taken into account.

    Args:
        reach: how many of the largest steps a target may be from the last one, if it is not near the range of all; 0:
            it may be anywhere.
        y: the target; NaN: missing.
        seen: (RANGE,) what is known of the targets.
    """
    low, high = -np.inf, np.inf
    if reach == 0.0:
        return low, high
    if seen[COUNT] >= FEWEST:
        margin, far = MARGIN * (seen[HIGHEST] - seen[LOWEST]), reach * seen[STEP]
        low = min(seen[LOWEST] - margin, seen[LAST] - far)
        high = max(seen[HIGHEST] + margin, seen[LAST] + far)
    if np.isnan(y):
        return low, high
    if seen[COUNT] == 0.0:
        seen[LOWEST] = seen[HIGHEST] = seen[LAST] = y
    seen[STEP] = max(seen[STEP], min(abs(y - seen[LAST]), LARGEST))
    seen[LOWEST], seen[HIGHEST] = min(seen[LOWEST], y), max(seen[HIGHEST], y)
    seen[LAST] = y
    seen[COUNT] += 1.0
    return low, high


@compiled
def restrain(row: Array, low: float, high: float, judged: Array) -> bool:
    """Members beyond the limits sleep, or are brought back to them where all are; whether any is."""
    beyond, within = False, False
    for k in range(row.size):
        judged[k] = np.nan
        if not abs(row[k]) < NO_PREDICTION:
            row[k] = np.nan
            continue
        judged[k] = min(max(row[k], low), high)
        if judged[k] == row[k]:
            within = True
        else:
            beyond = True
    if beyond:
        for k in range(row.size):
            if judged[k] != row[k]:
                row[k] = np.nan if within else judged[k]
    return beyond


@compiled
def mix(
    mean: float, row: Array, variances: Array, noises: Array, weights: Array, variance_weights: Array
) -> tuple[float, float]:
    """Variance and noise of the mixture around its mean; NaN where no one who counts has any variance yet."""
    total, spread, variance, noise = 0.0, 0.0, 0.0, 0.0
    for k in range(row.size):
        variance_weights[k] = weights[k] if np.isfinite(noises[k]) else 0.0
        total += variance_weights[k]
    for k in range(row.size):
        variance_weights[k] = variance_weights[k] / total if total > 0.0 else np.nan
        if weights[k] > 0.0:
            spread += weights[k] * (row[k] - mean) ** 2
        if variance_weights[k] > 0.0:
            variance += variance_weights[k] * variances[k]
            noise += variance_weights[k] * noises[k]
    if not total > 0.0:
        return np.nan, np.nan
    return variance + spread, noise


@compiled
def deviate(row: Array, first: float, unit: float, deviations: Array) -> None:
    """By how much the members deviate from the first voice, in units of its recent error; 0 for those who sleep."""
    for k in range(row.size):
        awake = unit > 0.0 and not np.isnan(row[k])
        deviations[k] = bounded((row[k] - first) / unit, 0.5 * FAR) if awake else 0.0


@compiled
def judge(
    rule: int,
    discount: Array,
    y: float,
    row: Array,
    spoken: Array,
    room: Array,
    regrets: Array,
    errors: Array,
    covariances: Array,
    slopes: Array,
    scale: Array,
) -> None:
    """Learn from a target what members and voices are worth."""
    prediction, unit, each = spoken[PREDICTION], spoken[UNIT], spoken[FIRST:MIXTURE]
    deviations, gain = room[DEVIATIONS, : row.size], room[GAIN, : row.size]
    if np.isnan(y) or np.isnan(each[0]):
        return
    limit = FAR * unit if unit > 0.0 else np.inf
    for pair, mean in ((0, each[0]), (2, prediction), (4, spoken[MIXTURE])):
        factor = SCALE if pair < 4 else SHORT
        scale[pair] = factor * scale[pair] + bounded(y - mean, 10.0 * limit) ** 2
        scale[pair + 1] = factor * scale[pair + 1] + 1.0
    square = scale[2] / scale[3]
    if rule == STACKED:
        regret_learn(regrets[2], each, spoken[MIXTURE], y, 1.0, limit, square)
        if unit > 0.0:
            error = bounded((y - each[0]) / unit, FAR)
            for v in range(3):
                regress(covariances[v], slopes[v], deviations, error, FORGETTING[v], gain)
    for v in range(2):
        regret_learn(regrets[v], row, each[v], y, DISCOUNTS[v], limit, square)
    for k in range(row.size):
        if not np.isnan(row[k]):
            for pair, factor in ((0, discount[0]), (2, LONG), (4, SHORT)):
                errors[pair, k] = factor * errors[pair, k] + (y - row[k]) ** 2
                errors[pair + 1, k] = factor * errors[pair + 1, k] + 1.0


@compiled
def regret_weights(regret: Array, row: Array, weights: Array) -> None:
    """Proportional to regret, positive part, over the sum of its squares; where no one has any the median speaks."""
    total = 0.0
    for k in range(row.size):
        weights[k] = 0.0
        if not np.isnan(row[k]) and regret[0, k] > 0.0:
            weights[k] = regret[0, k] / (regret[1, k] + regret[2, k])
            total += weights[k]
    if total > 0.0:
        for k in range(row.size):
            weights[k] /= total
    else:  # also where squares overflowed
        median_weights(row, weights)


@compiled
def median_weights(row: Array, weights: Array) -> None:
    """All weight on the middle one of those who are awake, or half on each of the two."""
    awake = 0
    for k in range(row.size):
        awake += 0 if np.isnan(row[k]) else 1
    for k in range(row.size):
        below = 0  # those before k in the order of values
        for j in range(row.size):
            below += 1 if row[j] < row[k] or (row[j] == row[k] and j < k) else 0
        middle = not np.isnan(row[k]) and (below == awake // 2 or below == (awake - 1) // 2)
        weights[k] = (1.0 if awake % 2 else 0.5) if middle else 0.0


@compiled
def regret_learn(
    regret: Array, row: Array, predicted: float, y: float, discount: float, limit: float, square: float
) -> None:
    """The loss is the slope of the squared error at the prediction, in units of the recent ones, this row's included.

    A member that sleeps has no regret of this row.
    """
    if square == 0.0:  # all predictions were right
        return
    for k in range(row.size):
        if np.isnan(row[k]):
            continue
        r = 2.0 * bounded(predicted - y, limit) * bounded(predicted - row[k], limit) / square
        regret[0, k] = discount * regret[0, k] + r
        regret[1, k] = discount * regret[1, k] + r * r
        regret[2, k] = max(discount * regret[2, k], r * r)


@compiled
def recent_weights(errors: Array, row: Array, weights: Array) -> None:
    """The likelihood of each member's last errors, relative to the best's; who has none yet waits for some."""
    best, awake = np.inf, 0
    for k in range(row.size):
        weights[k] = 0.0
        if not np.isnan(row[k]):
            awake += 1
            if errors[1, k] > 0.0:
                best = min(best, errors[0, k] / errors[1, k])
    total = 0.0
    for k in range(row.size):
        if np.isnan(row[k]):
            continue
        if best == np.inf:
            weights[k] = 1.0
        elif errors[1, k] > 0.0:
            mse = errors[0, k] / errors[1, k]
            weights[k] = 1.0 if mse <= best else np.exp(-0.5 * errors[1, k] * np.log(mse / best)) if best > 0.0 else 0.0
        total += weights[k]
    for k in range(row.size):
        if total > 0.0:
            weights[k] /= total


@compiled
def regress(covariance: Array, slopes: Array, x: Array, error: float, factor: float, gain: Array) -> None:
    """Forget back to the prior N(0, PRIOR^2 I), then learn error = slopes'x with noise 1."""
    m = x.size
    for i in range(m):
        slopes[i] *= np.sqrt(factor)
        for j in range(m):
            covariance[i, j] *= factor
        covariance[i, i] += (1.0 - factor) * PRIOR**2
    for i in range(m):
        gain[i] = vector.dot(covariance[i], x, m)
    s = vector.dot(x, gain, m) + 1.0
    innovation = error - vector.dot(slopes, x, m)
    for i in range(m):
        slopes[i] += gain[i] * innovation / s
        for j in range(m):
            covariance[i, j] -= gain[i] * gain[j] / s


@compiled
def bounded(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


@compiled
def speak(weights: Array, row: Array) -> float:
    """The weighted mean of those who are awake; NaN if no one is."""
    total, awake = 0.0, 0
    for k in range(row.size):
        if not np.isnan(row[k]):
            awake += 1
            total += weights[k] * row[k] if weights[k] > 0.0 else 0.0
    return total if awake else np.nan

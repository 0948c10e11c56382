"""A row of a growing basis in a form that lanes can share: products and updates of matrices, no chain of rotations.

Instead of the triangle R of process/growing.py with K = R'R there is any L with L K L' = I, and the posterior of the
whitened weights is N(beta, W) with the prior N(0, I). Then

    phi = L k      gamma2 = kappa - |phi|^2      mean = phi'beta      v = phi'W phi + gamma2
    absorb:  beta += h e / s, W -= h h' / s, with h = W phi, s = v + noise, e = y - mean
    admit:   L gets the row [-psi', 1] / gamma with psi = L'phi, W the border [0, 1], then the same
    evict r: a reflection takes column r of L to the last coordinate, which is dropped

It is the same posterior in other coordinates: mean and variance are those of process/growing.py up to rounding. A
triangle would need fewer numbers, but solving with it is a chain in which every lane waits for the one before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from streamgp.compiled import uncompiled
from streamgp.cuda import covariance
from streamgp.cuda.lanes import NONE, WARP, WIDE, Lanes
from streamgp.cuda.record import (
    CHANGE,
    DISTINCT,
    FAR,
    FRESH,
    KAPPA,
    LARGEST_NUMBERS,
    LINE,
    MEAN_SCALE,
    NEGATIVE,
    NEGATIVES,
    NOISE,
    NOVEL,
    NOVELTY,
    PER_UNIT,
    POINTS,
    REFRESHED,
    ROUNDING,
    SCALE,
    SCALES,
    SHARED,
    SINGLE_FLOOR,
    SKIPPED,
    TOO_FAR,
    UNRESOLVED,
    UNRESOLVED_ROWS,
    Rows,
    rounded_up,
)
from streamgp.kernels import program
from streamgp.process import budget

Array = NDArray


class BasisShape(NamedTuple):
    """Of a model: what a compiled row is made for."""

    points: int  # capacity
    width: int  # inputs
    kernel: int  # which stationary one, by its operation
    score: int  # by which points leave (process/budget.py)
    bytes: int  # of a number

    def build(self, on: Lanes) -> Rows:
        return build(on, self)

    @property
    def scored(self) -> bool:
        """Whether the score needs the variance of the weights of kernel functions."""
        return self.score in (budget.PAPER, budget.KL)

    @property
    def coordinates(self) -> int:
        """One more than points, since a row is admitted before one leaves; odd."""
        return (self.points + 1) | 1

    @property
    def stride(self) -> int:
        """Of rows of L: odd, or an odd number of wide reads, so that lanes that read rows do not meet in one bank."""
        wide = WIDE // self.bytes
        return wide * (-(-self.coordinates // wide) | 1) if wide > 2 else self.coordinates

    @property
    def at(self) -> dict[str, int]:
        """Where the parts of a record begin; an absorbed row changes only what stands before the basis."""
        N, wide, line = self.coordinates, WIDE // self.bytes, LINE // self.bytes
        sizes = {
            "W": covariance.numbers(N),
            "beta": N,
            "held": N if self.scored else 0,  # diagonal of L'W L
            "basis": self.width * self.points,  # in lengthscales, one input after the other
            "L": self.points * self.stride,  # between two rows no more of its coordinates are in use
        }
        starts, at = {}, 0
        for name, size in sizes.items():
            at = rounded_up(at, wide) if name in ("basis", "L") else at
            starts[name] = at
            at += size
        return starts | {"end": rounded_up(at, line)}

    @property
    def scratch(self) -> dict[str, int]:
        """Where what does not outlive a row lies, behind a record; first the last rows of L."""
        N, wide = self.coordinates, WIDE // self.bytes
        sizes = {"k": self.stride, "phi": 2 * N, "h": 2 * N, "psi": N, "alpha": N}
        sizes |= {"q": N, "t": N, "x": self.width}
        sizes |= {"meeting": 3 * (self.points // WARP + 1)}
        starts, at = {}, self.at["L"] + N * self.stride
        for name, size in sizes.items():
            starts[name] = at = rounded_up(at, wide)
            at += size
        return starts | {"v": starts["phi"], "p": starts["h"], "end": at}  # one is not needed when the other is

    @property
    def numbers(self) -> int:
        """Of a record."""
        return self.at["end"]

    @property
    def absorbed(self) -> int:
        """Of those, this many at the beginning change when a row is absorbed."""
        return self.at["basis"]

    @property
    def cleared(self) -> tuple[int, int]:
        """What has to be 0 when a record has been fetched."""
        return self.at["L"] + self.points * self.stride, self.scratch["k"]


def build(on: Lanes, shape: BasisShape) -> Rows:
    """The functions that predict and learn a row of one model, and look at it.

    All take f, which holds the record and behind it the scratch, where place() puts the input into ``x``. Unused
    coordinates have zeros in L and beta and the prior in W, so that loops need not know how many are used; the rows of
    L that are no part of the record are zero before the first row.
    """
    T, U = on.number, on.index
    M, N, D, S, lanes, none, u0, u1 = map(
        U, (shape.points, shape.coordinates, shape.width, shape.stride, on.lanes, NONE, 0, 1)
    )
    X, L, W, BETA, HELD = (U(shape.at[name]) for name in ("basis", "L", "W", "beta", "held"))
    scratch = shape.scratch
    K, PHI, H, V, P, PSI, ALPHA, Q, TT, SEEN = (
        U(scratch[name]) for name in ("k", "phi", "h", "v", "p", "psi", "alpha", "q", "t", "x")
    )
    entry, write_twice, times, learn_w, bend = covariance.build(on, shape.coordinates, shape.at["W"], scratch["h"])
    jit, lane, sync, total, lowest, dot = on.jit, on.lane, on.sync, on.total, on.lowest, on.dot
    floor_of, own_noise = jit(uncompiled(budget.floor)), U(NOISE - len(SHARED))
    any_lane, largest, single = on.any, LARGEST_NUMBERS[shape.bytes], shape.bytes == 4
    scored, kernel, score_kind, first_scale = shape.scored, shape.kernel, shape.score, U(SCALES)
    zero, one, two, half, infinite, least = T(0), T(1), T(2), T(0.5), T(math.inf), T(1e-12)
    root3, root5, third, slack = T(math.sqrt(3)), T(math.sqrt(5)), T(1 / 3), T(-1e-9)
    SE, MATERN12, MATERN32, ERROR, KL = program.SE, program.MATERN12, program.MATERN32, budget.ERROR, budget.KL

    @jit
    def radial(r2: Any) -> Any:
        """The kernel of a squared distance."""
        if kernel == SE:
            return math.exp(-half * r2)
        r = math.sqrt(r2)
        if kernel == MATERN12:
            return math.exp(-r)
        if kernel == MATERN32:
            return (one + root3 * r) * math.exp(-root3 * r)
        return (one + root5 * r + root5 * root5 * r2 * third) * math.exp(-root5 * r)

    @jit
    def meet(parameters: Array, own: Array, noise: Any) -> None:
        """Write down what a row with a noise of its own is learned with, as process/row.py does; one lane does."""
        noise *= own[PER_UNIT] * own[PER_UNIT]
        kappa, least = float(parameters[KAPPA]), min(own[own_noise], noise)
        floor = SINGLE_FLOOR if single else floor_of(kappa, least, False, False)
        parameters[NOISE] = T(noise)
        parameters[NOVEL] = T(max(float(parameters[NOVELTY]), floor) * kappa)
        parameters[DISTINCT] = T(1.0 / (kappa * floor))

    @jit
    def place(f: Array, x: Array, origin: Array, own: Array, learned: Any, counts: Array) -> Any:
        """Put a row, in lengthscales from the origin, into ``x``; one that is learned may move the origin to itself.

        A stationary kernel does not notice. Each lane has inputs of its own, so that none waits for another.
        """
        free = learned and counts[POINTS] == 0  # without points any origin will do
        moved, jumped = False, False
        j = lane()
        while j < D:
            scale, per_scale = own[first_scale + j], own[first_scale + D + j]
            if free:
                origin[j] = x[j]
            z = (x[j] - origin[j]) * per_scale
            if learned and not abs(z) <= FAR:
                step = T(min(max(z, -largest), largest))
                origin[j] += step * scale
                for i in range(U(counts[POINTS])):
                    f[X + j * M + i] -= step
                moved, jumped = True, jumped or (single and not abs(z) <= TOO_FAR)
                z = (x[j] - origin[j]) * per_scale
            f[SEEN + j] = T(min(max(z, -largest), largest))
            j += lanes
        if not any_lane(moved):
            return False
        if any_lane(jumped) and lane() == u0:
            counts[UNRESOLVED_ROWS] += 1
        return True

    @jit
    def kernel_values(f: Array) -> None:
        """k(B, x), and zeros behind it."""
        i = lane()
        while i < S:
            value = zero
            if i < M:
                r2 = zero
                for j in range(D):
                    z = f[SEEN + j] - f[X + j * M + i]
                    r2 += z * z
                value = radial(r2)
            f[K + i] = value
            i += lanes
        sync()

    @jit
    def whiten(f: Array) -> None:
        """phi = L k."""
        i = lane()
        while i < N:
            write_twice(f, PHI, i, dot(f, L + i * S, K, S))
            i += lanes
        sync()

    @jit
    def columns(f: Array) -> None:
        """psi = L'phi, alpha = L'beta, q the diagonal of L'L, and with scores t = L'h."""
        j = lane()
        while j < N:
            psi, alpha, q, d = zero, zero, zero, zero
            for i in range(N):
                value = f[L + i * S + j]
                psi += value * f[PHI + i]
                alpha += value * f[BETA + i]
                q += value * value
                if scored:
                    d += value * f[H + i]
            f[PSI + j], f[ALPHA + j], f[Q + j] = psi, alpha, q
            if scored:
                f[TT + j] = d
            j += lanes
        sync()

    @jit
    def hold(f: Array, scale: Any, fresh: Any, s: Any) -> None:
        """Carry the diagonal of L'W L through an absorbed row; columns() has found L'h."""
        j = lane()
        while j < N:
            f[HELD + j] = scale * f[HELD + j] + fresh * f[Q + j] - f[TT + j] * f[TT + j] / s
            j += lanes
        sync()

    @jit
    def admit(f: Array, n: Any, gamma2: Any, rest: Any, e: Any, scale: Any, fresh: Any) -> None:
        """The input becomes point n, with a coordinate of its own; columns() has seen the others. rest = s - gamma2."""
        gamma, s = math.sqrt(gamma2), rest + gamma2
        newest, corner = gamma * e / s, rest / (gamma2 * s)
        j = lane()
        while j < n:
            psi, d = f[PSI + j], f[TT + j]
            f[L + n * S + j] = -psi / gamma
            f[entry(n, j)] = -gamma * f[H + j] / s
            if scored:  # as score_output() of process/growing.py
                f[HELD + j] = scale * f[HELD + j] + fresh * f[Q + j] + psi * psi * corner + (two * psi - d) * d / s
            f[ALPHA + j] -= psi / gamma * newest
            f[Q + j] += psi * psi / gamma2
            j += lanes
        if lane() == u0:
            f[L + n * S + n] = one / gamma
            f[W + n] = rest / s
            f[BETA + n] = newest
            f[ALPHA + n], f[Q + n] = newest / gamma, one / gamma2
            if scored:
                f[HELD + n] = corner
        if n < M:
            j = lane()
            while j < D:
                f[X + j * M + n] = f[SEEN + j]
                j += lanes
        sync()

    @jit
    def least_distinct(f: Array, n: Any, distinct: Any) -> Any:
        """The point that the others explain best, if better than they may; otherwise none."""
        value, index = infinite, none
        j = lane()
        while j < n:
            excess = f[Q + j]
            if not excess <= distinct and not -excess >= value:
                value, index = -excess, j
            j += lanes
        return lowest(f, value, index)

    @jit
    def least_missed(f: Array, n: Any) -> Any:
        """The point with the lowest score, as lowest_score() of process/budget.py."""
        value, index = infinite, none
        j = lane()
        while j < n:
            denominator = f[Q + j]
            if score_kind != ERROR:
                denominator = max(f[HELD + j], least * f[Q + j])
            missed = f[ALPHA + j] * f[ALPHA + j] / denominator
            if score_kind != KL:
                missed /= denominator
            if missed < value:
                value, index = missed, j
            j += lanes
        return lowest(f, value, index)

    @jit
    def evict(f: Array, r: Any, last: Any) -> None:
        """Take point r out of last + 1: reflect its column of L onto the last coordinate, and drop that."""
        norm2, corner = f[Q + r], f[L + last * S + r]
        norm = math.sqrt(norm2)
        tip = corner + (norm if corner >= zero else -norm)
        tau = two / (norm2 - corner * corner + tip * tip)
        i = lane()
        while i < N:
            write_twice(f, V, i, tip if i == last else f[L + i * S + r])
            i += lanes
        sync()
        along, bent = zero, zero  # v'beta and v'W v
        i = lane()
        while i < N:
            t = zero
            for j in range(N):
                t += f[V + j] * f[L + j * S + i]
            f[TT + i] = tau * t
            u = times(f, i, V)
            f[PSI + i] = u
            along += f[V + i] * f[BETA + i]
            bent += f[V + i] * u
            i += lanes
        along, bent, _ = total(f, along, bent, zero)
        i = lane()
        while i < N:
            write_twice(f, P, i, tau * f[PSI + i] - half * tau * tau * bent * f[V + i])
            f[BETA + i] -= tau * along * f[V + i]
            i += lanes
        sync()
        if scored:
            drop_held(f, last)
        i = lane()
        while i < N:
            t = f[TT + i]
            for j in range(N):
                f[L + j * S + i] -= f[V + j] * t
            bend(f, i, V, P)
            i += lanes
        sync()
        if scored:
            finish_held(f, last)
        replace(f, r, last)

    @jit
    def drop_held(f: Array, last: Any) -> None:
        """The last rows of the reflected L and W, into k and alpha: what is dropped."""
        tip, end = f[V + last], f[P + last]
        j = lane()
        while j <= last:
            f[K + j] = f[L + last * S + j] - tip * f[TT + j]
            f[ALPHA + j] = f[entry(last, j)] - tip * f[P + j] - end * f[V + j]
            j += lanes
        sync()

    @jit
    def finish_held(f: Array, last: Any) -> None:
        """Take the dropped coordinate out of the diagonal of L'W L."""
        corner = f[ALPHA + last]
        j = lane()
        while j <= last:
            crossed = zero
            for i in range(last):
                crossed += f[ALPHA + i] * f[L + i * S + j]
            f[HELD + j] -= f[K + j] * (two * crossed + corner * f[K + j])
            j += lanes
        sync()

    @jit
    def replace(f: Array, r: Any, last: Any) -> None:
        """The last point takes the place of point r; the last coordinate is empty."""
        i = lane()
        while i <= last:
            if i < last and r != last:
                f[L + i * S + r] = f[L + i * S + last]
            f[L + i * S + last] = zero
            f[L + last * S + i] = zero
            f[entry(last, i)] = one if i == last else zero
            i += lanes
        if r != last:
            j = lane()
            while j < D:
                f[X + j * M + r] = f[X + j * M + last] if last < M else f[SEEN + j]
                j += lanes
        if lane() == u0:
            f[BETA + last] = zero
            if scored:
                f[HELD + r] = f[HELD + last]
                f[HELD + last] = zero
        sync()

    @jit
    def refresh_held(f: Array, i: Any) -> None:
        """Carried diagonals drift: compute that of point i anew."""
        j = lane()
        while j < N:
            write_twice(f, V, j, f[L + j * S + i])
            j += lanes
        sync()
        sum_ = zero
        j = lane()
        while j < N:
            sum_ += f[V + j] * times(f, j, V)
            j += lanes
        sum_, _, _ = total(f, sum_, zero, zero)
        if lane() == u0:
            f[HELD + i] = sum_
        sync()

    @jit
    def shrink(f: Array, distinct: Any, counts: Array, n: Any) -> None:
        """After an admission: let points go that the others explain, and one more if there are too many."""
        r = least_distinct(f, n, distinct)
        crowded = r == none and n > M
        if crowded:
            r = least_missed(f, n)
            r = u0 if r == none else r  # no score is a number: as process/budget.py
        left = r != none
        while r != none:
            n -= u1
            if not scored and r == n and U(counts[POINTS]) == n:  # the newest: only its own coordinate expresses it
                replace(f, n, n)
                r = none
            else:
                evict(f, r, n)
                r = none
                if not crowded:
                    columns(f)
                    r = least_distinct(f, n, distinct)
        fresher = (U(counts[REFRESHED]) + u1) % n
        if crowded and scored:
            refresh_held(f, fresher)
        sync()
        if lane() == u0:
            counts[POINTS] = n
            counts[REFRESHED] = fresher
            if left:
                counts[CHANGE] = 3
        sync()

    @jit
    def predict(f: Array, parameters: Array, _: Array) -> Any:
        """Mean, latent variance, |phi|^2 and phi'W phi."""
        kernel_values(f)
        whiten(f)
        square, mean, known = zero, zero, zero
        i = lane()
        while i < N:
            phi = f[PHI + i]
            h = times(f, i, PHI)
            f[H + i] = h
            square += phi * phi
            mean += phi * f[BETA + i]
            known += phi * h
            i += lanes
        square, mean, known = total(f, square, mean, known)
        kappa = parameters[KAPPA]
        variance = min(max(known + max(kappa - square, zero), zero), kappa)
        return mean, variance, square, known

    @jit
    def learn(f: Array, parameters: Array, y: Any, mean: Any, square: Any, known: Any, counts: Array) -> Any:
        """Learn y at the input that predict() has seen; returns whether the basis has changed."""
        scale, fresh, mean_scale = parameters[SCALE], parameters[FRESH], parameters[MEAN_SCALE]
        n, kappa = U(counts[POINTS]), parameters[KAPPA]
        gamma2 = kappa - square
        first = lane() == u0
        if gamma2 < parameters[ROUNDING]:
            if first and gamma2 < parameters[NEGATIVE]:
                counts[NEGATIVES] += 1
            gamma2 = zero
        known = scale * known + fresh * square
        rest = known + parameters[NOISE]
        s = rest + gamma2
        if not (known >= slack * s and s < infinite):
            if first:
                counts[SKIPPED] += 1
                counts[CHANGE] = 0
            return False
        e, gain = y - mean_scale * mean, one / s
        i = lane()
        while i < N:
            h = scale * f[H + i] + fresh * f[PHI + i]
            write_twice(f, H, i, h)
            f[BETA + i] = mean_scale * f[BETA + i] + h * (e * gain)
            i += lanes
        sync()
        novel = kappa > zero and gamma2 >= parameters[NOVEL]
        learn_w(f, scale, fresh, gain)
        if scored or novel:
            columns(f)
        if first:
            counts[CHANGE] = 2 if novel else 1
            if s < parameters[UNRESOLVED]:
                counts[UNRESOLVED_ROWS] += 1
        if not novel:
            if scored:
                hold(f, scale, fresh, s)
            return False
        admit(f, n, gamma2, rest, e, scale, fresh)
        shrink(f, parameters[DISTINCT], counts, n + u1)
        return True

    @jit
    def off(f: Array, parameters: Array, n: Any) -> Any:
        """How far |L k(b)|^2 is from k(b, b) over the basis points b, relative; not finite if a number is not."""
        kappa, worst, b = parameters[KAPPA], zero, u0
        while b < n:
            j = lane()
            while j < D:
                f[SEEN + j] = f[X + j * M + b]
                j += lanes
            sync()
            kernel_values(f)
            if lane() == u0:
                f[K + b] = kappa  # its own jitter included
            sync()
            whiten(f)
            square, strange = zero, zero
            i = lane()
            while i < N:
                square += f[PHI + i] * f[PHI + i]
                strange += (f[BETA + i] - f[BETA + i]) + (f[W + i] - f[W + i])
                i += lanes
            square, strange, _ = total(f, square, strange, zero)
            worst = max(worst, abs(square / kappa - one)) + strange
            b += u1
        return worst

    return Rows(meet, place, predict, learn, off)

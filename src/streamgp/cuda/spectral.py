"""A row of Fourier features, as lanes share it: process/fixed.py in covariance form."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from streamgp.cuda import covariance
from streamgp.cuda.lanes import WARP, WIDE, Lanes
from streamgp.cuda.record import (
    CHANGE,
    FRESH,
    KAPPA,
    LINE,
    MEAN_SCALE,
    NOISE,
    SCALE,
    SCALES,
    SHARED,
    SKIPPED,
    Rows,
    rounded_up,
)

Array = NDArray


class SpectralShape(NamedTuple):
    """Of a model: what a compiled row is made for.

    Args:
        frequencies: half as many as weights.
        width: inputs.
        bytes: of a number.
        outputs: which share W; one beta stands behind the other.
    """

    frequencies: int
    width: int
    bytes: int
    outputs: int = 1

    def build(self, on: Lanes) -> Rows:
        return build(on, self)

    @property
    def points(self) -> int:
        """Numbers that lanes share out."""
        return 2 * self.frequencies

    @property
    def coordinates(self) -> int:
        """Odd: the last one is not used."""
        return self.points + 1

    @property
    def at(self) -> dict[str, int]:
        """Where the parts of a record begin."""
        beta = covariance.numbers(self.coordinates)
        end = rounded_up(beta + self.coordinates * self.outputs, LINE // self.bytes)
        return {"W": 0, "beta": beta, "end": end}

    @property
    def scratch(self) -> dict[str, int]:
        """Where what does not outlive a row lies, behind a record."""
        N, wide = self.coordinates, WIDE // self.bytes
        starts, at = {}, self.at["end"]
        sizes = {"phi": 2 * N, "h": 2 * N, "means": self.outputs, "targets": self.outputs, "x": self.width}
        sizes |= {"meeting": 3 * (self.points // WARP + 1)}
        for name, size in sizes.items():
            starts[name] = at = rounded_up(at, wide)
            at += size
        return starts | {"end": at}

    @property
    def numbers(self) -> int:
        """Of a record."""
        return self.at["end"]

    @property
    def absorbed(self) -> int:
        """Of those, this many change when a row is absorbed: all."""
        return self.numbers

    @property
    def cleared(self) -> tuple[int, int]:
        """What has to be 0 when a record has been fetched: nothing."""
        return 0, 0


def build(on: Lanes, shape: SpectralShape) -> Rows:
    """The functions that predict and learn a row of one model, and look at it; see whitened.build."""
    T, U, scratch = on.number, on.index, shape.scratch
    D, N, width, lanes, u0, u1, BETA, PHI, H, SEEN, OMEGA, MEANS, TARGETS, OUTPUTS = map(
        U,
        (
            shape.frequencies,
            shape.coordinates,
            shape.width,
            on.lanes,
            0,
            1,
            shape.at["beta"],
            scratch["phi"],
            scratch["h"],
            scratch["x"],
            len(SHARED),
            scratch["means"],
            scratch["targets"],
            shape.outputs,
        ),
    )
    _, write_twice, times, learn_w, _ = covariance.build(on, shape.coordinates, shape.at["W"], scratch["h"])
    jit, lane, sync, total = on.jit, on.lane, on.sync, on.total
    first_scale = U(SCALES)
    zero, one, infinite, slack, count = T(0), T(1), T(math.inf), T(-1e-9), T(shape.frequencies)

    @jit
    def place(f: Array, x: Array, origin: Array, own: Array, learned: Any, counts: Array) -> Any:
        """Put a row, in lengthscales, into ``x``: weights belong to the origin 0."""
        j = lane()
        while j < width:
            f[SEEN + j] = T(x[j] * own[first_scale + width + j])
            j += lanes
        sync()
        return False

    @jit
    def featurize(f: Array, shared: Array) -> None:
        """phi = sqrt(variance / D) [cos; sin] of the angles, [gijsberts2013] Eq. (6), with the variance 1."""
        amplitude = math.sqrt(one / count)
        i = lane()
        while i < D:
            angle, row = zero, OMEGA + i * width
            for j in range(width):
                angle += shared[row + j] * f[SEEN + j]
            write_twice(f, PHI, i, amplitude * math.cos(angle))
            write_twice(f, PHI, i + D, amplitude * math.sin(angle))
            i += lanes
        if lane() == u0:
            write_twice(f, PHI, D + D, zero)
        sync()

    @jit
    def predict(f: Array, parameters: Array, shared: Array) -> Any:
        """Mean, latent variance, |phi|^2 and phi'W phi."""
        featurize(f, shared)
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
        for o in range(u1, OUTPUTS):
            other = zero
            i = lane()
            while i < N:
                other += f[PHI + i] * f[BETA + o * N + i]
                i += lanes
            other, _, _ = total(f, other, zero, zero)
            if lane() == u0:
                f[MEANS + o] = other
            sync()
        return mean, min(max(known, zero), parameters[KAPPA]), square, known

    @jit
    def learn(f: Array, parameters: Array, y: Any, mean: Any, square: Any, known: Any, counts: Array) -> Any:
        """Learn y at the input that predict() has seen; the features stay: False."""
        scale, fresh, mean_scale = parameters[SCALE], parameters[FRESH], parameters[MEAN_SCALE]
        known = scale * known + fresh * square
        s = known + parameters[NOISE]
        fine = known >= slack * s and s < infinite
        if lane() == u0:
            counts[CHANGE] = 1 if fine else 0
            counts[SKIPPED] += 0 if fine else 1
        if fine:
            e, gain = y - mean_scale * mean, one / s
            i = lane()
            while i < N:
                h = scale * f[H + i] + fresh * f[PHI + i]
                write_twice(f, H, i, h)
                f[BETA + i] = mean_scale * f[BETA + i] + h * (e * gain)
                for o in range(u1, OUTPUTS):
                    other = f[TARGETS + o] - mean_scale * f[MEANS + o]
                    f[BETA + o * N + i] = mean_scale * f[BETA + o * N + i] + h * (other * gain)
                i += lanes
            sync()
            learn_w(f, scale, fresh, gain)
        return False

    @jit
    def off(f: Array, parameters: Array, n: Any) -> Any:
        """0; not finite if a number is not."""
        strange = zero
        i = lane()
        while i < N:
            strange += (f[BETA + i] - f[BETA + i]) + (f[i] - f[i])
            for o in range(u1, OUTPUTS):
                strange += f[BETA + o * N + i] - f[BETA + o * N + i]
            i += lanes
        strange, _, _ = total(f, strange, zero, zero)
        return strange

    return Rows(place, predict, learn, off)

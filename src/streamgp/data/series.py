"""Series: seeded generators of the benchmark series of [soh2014] and the switching channel of [vanvaerenbergh2016].

A seed opens independent streams, ``default_rng([seed, stream])``: for the start, the driving input, the observation
noise and the irrelevant columns. So the first rows do not depend on how many rows were asked for, and another noise or
more irrelevant columns leave the system's path as it was.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from streamgp.settings import FloatArray, number, whole

START, DRIVE, NOISE, IRRELEVANT, TEST = range(1, 6)  # from 1: default_rng([seed, 0]) is default_rng(seed)

BURN_IN = 1000  # [soh2014] discards the first 1000 kept samples of Mackey-Glass; the other attractors alike
SPREAD = 0.2175  # sd to which Henon and Lorenz are scaled: what RMSE / MNAE in [soh2014] Table I imply

# Means and standard deviations over 10 million steps on the attractor (NP2: of the stationary process).
HENON_SD = 0.7210
IKEDA_MEAN = np.array([0.6300, -0.4203])
LORENZ_MEAN = np.array([0.0, 0.0, 22.975])
LORENZ_SD = np.array([7.804, 8.963, 8.798])
NP2_MEAN = 0.4764


class Series(NamedTuple):
    """A stream whose truth is known.

    Attributes:
        X: (n, d) inputs, row t what is known at t.
        Y: (n,) or (n, p) targets of those rows, with observation noise.
        truth: the targets without noise.
        inputs: names of the columns of X.
        targets: names of the columns of Y.
    """

    X: FloatArray
    Y: FloatArray
    truth: FloatArray
    inputs: tuple[str, ...]
    targets: tuple[str, ...]


def mackey_glass(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """Mackey-Glass, delay 17, one step ahead [soh2014 VI].

    x' = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x by Euler's rule with step 0.1, one sample each unit of time, then
    tanh(x - 1). The history before the start is 1.2 + U(-0.1, 0.1), drawn for each step.

    Args:
        n: rows.
        seed: of the history, the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import mackey_glass
        >>> series = mackey_glass(1000, noise_std=0.0)
        >>> series.X.shape, bool(series.X[1, 0] == series.Y[0])
        ((1000, 1), True)
    """
    history = 1.2 + draws(seed, START).uniform(-0.1, 0.1, 171)
    x = _settled(_mackey_glass(history), n)
    return one_step(np.tanh(x[:, None] - 1.0), ("x",), seed, noise_std, irrelevant)


def henon(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """Henon map, a = 1.4, b = 0.3, the x coordinate one step ahead, scaled to standard deviation 0.2175 [soh2014 VI].

    Args:
        n: rows.
        seed: of the start near (0, 0), the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import henon
        >>> henon(1000, irrelevant=1).inputs
        ('x', 'irrelevant1')
    """
    x = _settled(_henon(*draws(seed, START).uniform(-0.1, 0.1, 2).tolist()), n)
    return one_step(x[:, None] * (SPREAD / HENON_SD), ("x",), seed, noise_std, irrelevant)


def ikeda(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """Ikeda map, a = 1, R = 0.9, phi = 0.4, p = 6, real and imaginary part one step ahead [soh2014 VI].

    z <- 1 + 0.9 z exp(i (0.4 - 6 / (1 + |z|^2))); both parts are centred, then tanh is taken.

    Args:
        n: rows.
        seed: of the start near 0, the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import ikeda
        >>> ikeda(1000).Y.shape
        (1000, 2)
    """
    z = _settled(_ikeda(*draws(seed, START).uniform(-0.1, 0.1, 2).tolist()), n)
    return one_step(np.tanh(z - IKEDA_MEAN), ("re", "im"), seed, noise_std, irrelevant)


def lorenz(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """Lorenz system, sigma = 10, r = 28, b = 8/3, all three axes one step ahead [soh2014 VI].

    Runge-Kutta of order 4 with step 0.1; each axis is centred and scaled to standard deviation 0.2175.

    Args:
        n: rows.
        seed: of the start near (5, 5, 20), the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import lorenz
        >>> lorenz(1000).targets
        ('x', 'y', 'z')
    """
    start = np.array([5.0, 5.0, 20.0]) + draws(seed, START).uniform(-1.0, 1.0, 3)
    states = (_settled(_lorenz(*start.tolist()), n) - LORENZ_MEAN) * (SPREAD / LORENZ_SD)
    return one_step(states, ("x", "y", "z"), seed, noise_std, irrelevant)


def np1(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """NP1, a nonlinear autoregression of order 2: d_t from (d_{t-2}, d_{t-1}) [soh2014 VI; Richard et al. 2009].

    d_t = (0.8 - 0.5 exp(-d_{t-1}^2)) d_{t-1} - (0.3 + 0.9 exp(-d_{t-1}^2)) d_{t-2} + 0.1 sin(pi d_{t-1}), from
    d = 0.1, 0.1: the system is the same for all seeds.

    Args:
        n: rows.
        seed: of the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on inputs and targets.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import np1
        >>> np1(1000).inputs
        ('d[t-2]', 'd[t-1]')
    """
    d = [0.1, 0.1]
    for _ in range(whole("n", n)):
        before, last = d[-2:]
        bump = math.exp(-last * last)
        d.append((0.8 - 0.5 * bump) * last - (0.3 + 0.9 * bump) * before + 0.1 * math.sin(math.pi * last))
    return one_step(np.array(d)[:, None], ("d",), seed, noise_std, irrelevant, lags=2)


def np2(n: int, seed: int = 0, noise_std: float = 1.0, irrelevant: int = 0) -> Series:
    """NP2, a Wiener system with feedback to be identified: d_t from u_t [soh2014 VI; Richard et al. 2009].

    v_t = 1.1 exp(-|v_{t-1}|) + u_t from v = 0.5, d_t = v_t^2 centred, u ~ N(0, 0.25^2).

    Args:
        n: rows.
        seed: of the input u, the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on the targets alone: u is known.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import np2
        >>> np2(1000).X.shape
        (1000, 1)
    """
    u = draws(seed, DRIVE).normal(0.0, 0.25, whole("n", n))
    v, d = 0.5, []
    for given in u.tolist():
        v = 1.1 * math.exp(-abs(v)) + given
        d.append(v * v)
    return noisy_response(u[:, None], ("u",), np.array(d) - NP2_MEAN, "d", seed, noise_std, irrelevant)


def narma10(n: int, seed: int = 0, noise_std: float = 0.05, irrelevant: int = 0) -> Series:
    """NARMA-10, a system of order 10 to be identified: y_{t+1} from u_t [soh2014 V-B, VI].

    y_{t+1} = 0.3 y_t + 0.05 y_t (y_t + ... + y_{t-9}) + 1.5 u_{t-9} u_t + 0.1, u ~ U(0, 0.5), both 0 before the start;
    the input column is u rescaled to [-1, 1]. (The printed Eq. (53) has shifted indices.)

    Left alone, about 4 of 10 paths of 100 000 rows diverge. An input that would lift y above 1 is therefore halved
    until it does not: 2 or 3 inputs in 100 000.

    Args:
        n: rows.
        seed: of the input u, the noise and the irrelevant columns.
        noise_std: standard deviation (not variance) of the observation noise, on the targets alone: u is known.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import narma10
        >>> narma10(1000, noise_std=0.1, irrelevant=2).X.shape
        (1000, 3)
    """
    u = draws(seed, DRIVE).uniform(0.0, 0.5, whole("n", n)).tolist()
    y: list[float] = []
    for t in range(len(u)):
        last = y[-1] if y else 0.0
        recent = 0.0
        for value in y[-10:]:
            recent += value
        free = 0.3 * last + 0.05 * last * recent + 0.1
        gain = 1.5 * u[t - 9] if t >= 9 else 0.0
        # While all y are at most 1, the free response is at most 0.3 + 0.5 + 0.1: halving ends.
        while free + gain * u[t] > 1.0:
            u[t] *= 0.5
        y.append(free + gain * u[t])
    X = 4.0 * np.array(u)[:, None] - 1.0
    return noisy_response(X, ("u",), np.array(y), "y", seed, noise_std, irrelevant)


def channel_switch(
    n: int = 1500, seed: int = 0, switch: int = 500, embedding: int = 5, snr_db: float = 20.0, irrelevant: int = 0
) -> Series:
    """A linear channel, then tanh; the channel changes abruptly [vanvaerenbergh2016 5.2, Fig. 3].

    The output is tanh(h' x_t) with x_t the last ``embedding`` inputs, newest first, u ~ U(0, 1). Both channels have a
    first coefficient of 1 and others from N(0, 1).

    Args:
        n: rows.
        seed: of the channels, the input, the noise and the irrelevant columns.
        switch: rows before the change.
        embedding: inputs in a row, also the length of the channels.
        snr_db: variance of the noise-free output over that of the observation noise, in decibels.
        irrelevant: columns of U(-1, 1) appended to the inputs.

    Example:
        >>> from streamgp.data import channel_switch
        >>> channel_switch().X.shape
        (1500, 5)
    """
    n, switch, embedding = whole("n", n), whole("switch", switch, at_least=0), whole("embedding", embedding)
    first, second = np.hstack([np.ones((2, 1)), draws(seed, START).standard_normal((2, embedding - 1))])
    u = draws(seed, DRIVE).uniform(0.0, 1.0, n + embedding - 1)
    X = np.lib.stride_tricks.sliding_window_view(u, embedding)[:, ::-1]
    truth = np.tanh(np.concatenate([X[:switch] @ first, X[switch:] @ second]))
    noise_std = float(truth.std()) * 10.0 ** (-number("snr_db", snr_db) / 20.0)
    names = tuple("u[t]" if lag == 0 else f"u[t-{lag}]" for lag in range(embedding))
    return noisy_response(X, names, truth, "y", seed, noise_std, irrelevant)


def draws(seed: int, *stream: int) -> np.random.Generator:
    """One of the independent streams that a seed opens."""
    return np.random.default_rng([whole("seed", seed, at_least=0), *stream])


def one_step(
    states: FloatArray, names: tuple[str, ...], seed: int, noise_std: float, irrelevant: int, lags: int = 1
) -> Series:
    """Of (n + lags, p) states: the next one from the last ``lags``, all seen through the same noise."""
    noise = number("noise_std", noise_std, at_least=0)
    observed = states + noise * draws(seed, NOISE).standard_normal(states.shape)
    n = len(states) - lags
    X = np.hstack([observed[lag : lag + n] for lag in range(lags)])
    lagged = names if lags == 1 else tuple(f"{name}[t-{lag}]" for lag in range(lags, 0, -1) for name in names)
    return _with_irrelevant(X, observed[lags:], states[lags:], lagged, names, seed, irrelevant)


def noisy_response(
    X: FloatArray,
    inputs: tuple[str, ...],
    truth: FloatArray,
    target: str,
    seed: int,
    noise_std: float,
    irrelevant: int = 0,
) -> Series:
    """A system's response to known inputs, seen through noise."""
    noise = number("noise_std", noise_std, at_least=0)
    Y = truth + noise * draws(seed, NOISE).standard_normal(truth.shape)
    return _with_irrelevant(X, Y[:, None], truth[:, None], inputs, (target,), seed, irrelevant)


def _with_irrelevant(
    X: FloatArray,
    Y: FloatArray,
    truth: FloatArray,
    inputs: tuple[str, ...],
    targets: tuple[str, ...],
    seed: int,
    irrelevant: int,
) -> Series:
    extra = whole("irrelevant", irrelevant, at_least=0)
    columns = [draws(seed, IRRELEVANT, i).uniform(-1.0, 1.0, (len(X), 1)) for i in range(extra)]
    if len(targets) == 1:
        Y, truth = Y[:, 0], truth[:, 0]
    names = (*inputs, *(f"irrelevant{i + 1}" for i in range(extra)))
    return Series(np.hstack([X, *columns]), Y.copy(), truth.copy(), names, targets)


# Chaotic systems in plain Python: every processor rounds each operation alike, so that all take the same path.


def _settled(orbit: Iterable[float | tuple[float, ...]], n: int) -> FloatArray:
    """The states of n rows and their targets, after the burn-in."""
    return np.array(list(islice(orbit, BURN_IN, BURN_IN + whole("n", n) + 1)))


def _mackey_glass(history: FloatArray, step: float = 0.1, keep: int = 10) -> Iterator[float]:
    """Euler steps from a history of delay + 1 values, oldest first; every ``keep``-th of them."""
    past = deque(history.tolist())
    x = past[-1]
    while True:
        for _ in range(keep):
            delayed = past.popleft()
            square = delayed * delayed
            fourth = square * square
            x += step * (0.2 * delayed / (1.0 + square * (fourth * fourth)) - 0.1 * x)
            past.append(x)
        yield x


def _henon(x: float, y: float) -> Iterator[float]:
    while True:
        x, y = 1.0 - 1.4 * x * x + y, 0.3 * x
        yield x


def _ikeda(re: float, im: float) -> Iterator[tuple[float, float]]:
    while True:
        angle = 0.4 - 6.0 / (1.0 + re * re + im * im)
        c, s = math.cos(angle), math.sin(angle)
        re, im = 1.0 + 0.9 * (re * c - im * s), 0.9 * (re * s + im * c)
        yield re, im


def _lorenz(x: float, y: float, z: float, step: float = 0.1) -> Iterator[tuple[float, float, float]]:
    """The classical Runge-Kutta rule of order 4."""
    while True:
        at_x, at_y, at_z = x, y, z
        total_x = total_y = total_z = 0.0
        for weight, length in ((1.0, 0.5 * step), (2.0, 0.5 * step), (2.0, step), (1.0, 0.0)):
            slope_x, slope_y, slope_z = (
                10.0 * (at_y - at_x),
                at_x * (28.0 - at_z) - at_y,
                at_x * at_y - 8.0 / 3.0 * at_z,
            )
            total_x += weight * slope_x
            total_y += weight * slope_y
            total_z += weight * slope_z
            at_x, at_y, at_z = x + length * slope_x, y + length * slope_y, z + length * slope_z
        x += step / 6.0 * total_x
        y += step / 6.0 * total_y
        z += step / 6.0 * total_z
        yield x, y, z

"""Memory: what of the past is an input. No memory, a window of the last inputs, or an echo-state reservoir."""

from __future__ import annotations

import abc
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model, Numbers
from streamgp.compiled import compiled
from streamgp.contract.lanes import ADVANCE, LEARN, TELL, waited, waits
from streamgp.linalg.vector import copy, dot
from streamgp.settings import FloatArray, Part, Setting, instance, number, optional, real_matrix, whole
from streamgp.vocabulary import (
    PER_INPUT,
    Connectivity,
    Depth,
    Feedback,
    InputScale,
    Retention,
    Seed,
    SpectralRadius,
    not_negative,
)

Array = NDArray


class Memory(Part, abc.ABC):
    """What of the past is an input; see :class:`Window` and :class:`Reservoir`."""

    depth: int = 1
    units: int = 0
    augment: bool = True
    retention: float = 0.0

    @abc.abstractmethod
    def width(self, d: int) -> int:
        """How many numbers the memory hands to the features for inputs of d columns."""

    @property
    def recalls(self) -> bool:
        """Whether what is handed over depends on rows before the last one."""
        return self.depth > 1 or self.units > 0

    @property
    def feeds_back(self) -> bool:
        return False


class ReservoirWeights(NamedTuple):
    recurrent: FloatArray  # (units, units)
    input: FloatArray  # (units, d)
    bias: FloatArray  # (units,)
    feedback: FloatArray  # (units, p)


class Window(Memory):
    """The last ``depth`` inputs, oldest first, zeros until it has filled.

    Example:
        >>> import streamgp as sg
        >>> sg.Window(3).width(2)
        6
    """

    def __init__(self, depth: Depth = 1) -> None:
        self.depth = depth

    def width(self, d: int) -> int:
        return self.depth * d


class Reservoir(Memory):
    """An echo-state network: a fixed random recurrent network driven by the inputs [soh2014 II].

    state <- (1 - retention) tanh(W state + W_i x + b + W_b y) + retention state, with y the last target (0 at the
    start, the model's own mean where the target was missing). Given matrices are used as they are: no rescaling, no
    bias.

    Example:
        >>> import streamgp as sg
        >>> sg.Reservoir(50).width(2)
        52
    """

    def __init__(
        self,
        units: Annotated[
            int | None,
            Setting(
                "number of units; None: as many as the given matrices have rows, 100 without any",
                "units",
                optional(whole),
            ),
        ] = None,
        *,
        spectral_radius: SpectralRadius = 0.9,
        retention: Retention = 0.0,
        connectivity: Connectivity = 0.1,
        input_scale: InputScale = 1.0,
        bias_scale: Annotated[
            float, Setting("biases are uniform in [-bias_scale, bias_scale]", check=not_negative)
        ] = 0.1,
        feedback: Feedback = None,
        seed: Seed = 0,
        recurrent: Annotated[
            Any,
            Setting(
                "a (units, units) matrix in place of the random recurrent weights, used as it is, without a bias",
                check=optional(partial(real_matrix, shape="(units, units)")),
            ),
        ] = None,
        input: Annotated[
            Any,
            Setting(
                "a (units, d) matrix in place of the random input weights, used as it is, without a bias",
                PER_INPUT,
                optional(partial(real_matrix, shape="(units, d)")),
            ),
        ] = None,
        augment: Annotated[bool, Setting("hand over [state; x] instead of the state alone, Eq. (4)")] = True,
    ) -> None:
        self.spectral_radius, self.retention, self.connectivity = spectral_radius, retention, connectivity
        self.input_scale, self.bias_scale, self.seed = input_scale, bias_scale, seed
        self.recurrent, self.input, self.augment = recurrent, input, bool(augment)
        if self.retention >= 1:
            raise ValueError(f"retention must be at least 0 and below 1; got {retention!r}")
        self.feedback: float | FloatArray | None = None
        if feedback is not None:
            scale = np.ndim(feedback) == 0
            self.feedback = (
                number("feedback", feedback, above=0) if scale else real_matrix("feedback", feedback, "(units, p)")
            )
        named = {"recurrent": self.recurrent, "input": self.input, "feedback": self.feedback}
        given = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
        self.units = next((len(rows) for rows in given.values()), 100) if units is None else units
        if self.recurrent is not None and self.recurrent.shape != (self.units, self.units):
            if units is None:
                raise ValueError(f"recurrent must be square, (units, units); got {self.recurrent.shape}")
            raise ValueError(
                f"units is {units}, but recurrent has shape {self.recurrent.shape}: leave units out, or give a "
                f"{(units, units)} matrix"
            )
        for name, rows in given.items():
            if len(rows) != self.units:
                raise ValueError(f"{name} must have {self.units} rows, one for each unit; got {rows.shape}")

    @property
    def feeds_back(self) -> bool:
        return self.feedback is not None

    def width(self, d: int) -> int:
        return self.units + (d if self.augment else 0)

    def weights(self, d: int, p: int) -> ReservoirWeights:
        """The fixed weights."""
        rng = np.random.default_rng(self.seed)
        W = _drawn(rng, self.units, self.connectivity)
        W_i = rng.uniform(-self.input_scale, self.input_scale, (self.units, d))
        b = rng.uniform(-self.bias_scale, self.bias_scale, self.units)
        W_b = rng.uniform(-1.0, 1.0, (self.units, p)) * (self.feedback if isinstance(self.feedback, float) else 0.0)
        if self.recurrent is not None or self.input is not None:
            b = np.zeros(self.units)
        if self.recurrent is not None:
            W = self.recurrent
        elif (radius := self.drawn_radius()) > 0:
            W *= self.spectral_radius / radius
        if self.input is not None:
            W_i = self.input
        if isinstance(self.feedback, np.ndarray):
            W_b = self.feedback
        if W_i.shape[1] != d:
            raise ValueError(
                f"input has {W_i.shape[1]} columns, but the rows have {d}; give a ({self.units}, {d}) matrix"
            )
        if W_b.shape[1] != p:
            raise ValueError(f"feedback has {W_b.shape[1]} columns, but the targets have {p}")
        return ReservoirWeights(W.copy(), W_i.copy(), b, W_b.copy())

    def drawn_radius(self) -> float:
        """The spectral radius of the random recurrent weights before they are scaled; seconds for 1 000 units."""
        return _radius(self.units, self.connectivity, self.seed)


def _drawn(rng: np.random.Generator, units: int, connectivity: float) -> FloatArray:
    """Recurrent weights that are not scaled yet."""
    W = rng.uniform(-1.0, 1.0, (units, units))
    W *= rng.uniform(size=W.shape) < connectivity
    return W


@lru_cache(maxsize=4096)  # a model is built again for every copy, at every load and at the end of a warm-up
def _radius(units: int, connectivity: float, seed: int) -> float:
    W = _drawn(np.random.default_rng(seed), units, connectivity)
    # The true radius of the non-symmetric matrix: complex eigenvalues count with their modulus.
    return float(np.max(np.abs(np.linalg.eigvals(W))))


ReservoirSetting = Annotated[
    Reservoir | None,
    Setting(
        "a Reservoir(...); None: one of the settings that describe it",
        check=optional(instance(Reservoir, "Reservoir(100)")),
    ),
]


# What is remembered, and the fixed weights by which it is; a model has these arrays among its own.
ARRAYS = {
    "window": "depth inputs",
    "units": "units",
    "last_target": "outputs",
    "recurrent": "units units",
    "input": "units inputs",
    "bias": "units",
    "feedback": "units outputs",
}


def sizes(memory: Memory, d: int, p: int) -> dict[str, int]:
    """What the symbols in the arrays' shapes stand for."""
    return {"depth": memory.depth, "inputs": d, "units": memory.units, "outputs": p}


def place(memory: Memory, numbers: Numbers) -> None:
    """Fill in the fixed weights, if there are any."""
    if isinstance(memory, Reservoir):
        state = numbers.state
        for name, values in memory.weights(state.window.shape[1], state.last_target.size)._asdict().items():
            getattr(state, name)[:] = values


@compiled
def look(m: Model, x: Array, seen: Array) -> None:
    """seen = what the memory would hand over if x came next."""
    d, past = x.size, m.units
    if past.size > 0:
        bias, last_target = m.bias, m.last_target
        W, W_i, W_b = m.recurrent, m.input, m.feedback
        retention = m.plan.retention
        for i in range(past.size):
            total = (
                bias[i] + dot(W[i], past, past.size) + dot(W_i[i], x, d) + dot(W_b[i], last_target, last_target.size)
            )
            # [soh2014] Eq. (1); gamma weights the old state.
            seen[i] = (1.0 - retention) * np.tanh(total) + retention * past[i]
        for j in range(seen.size - past.size):
            seen[past.size + j] = x[j]
    else:
        window, last = m.window, m.window.size - d
        for i in range(1, window.shape[0]):
            for j in range(d):
                seen[(i - 1) * d + j] = window[i, j]
        for j in range(d):
            seen[last + j] = x[j]


@compiled
def keep(m: Model, x: Array, seen: Array) -> None:
    """Advance the memory by x to what look() saw; the last row of the window is always the last input."""
    past, window, last = m.units, m.window, m.window.shape[0] - 1
    for i in range(past.size):
        past[i] = seen[i]
    for i in range(last):
        copy(window[i + 1], x.size, window[i])
    copy(x, x.size, window[last])


@compiled
def arrive(m: Model, X: Array, Y: Array, kept: Array, t: int, kind: int) -> bool:
    """Row t is seen and, when advancing, enters the memory; its targets go to y. Whether there is one to learn.

    The line of a row that waits has the number of the row, from 1 on, and what was seen of it.
    """
    x, y, seen, learned = X[t, : m.window.shape[1]], m.y, m.seen, False
    if waited(kind):
        for j in range(seen.size):
            seen[j] = kept[t, 1 + j]
    else:
        look(m, x, seen)
    if kind & ADVANCE:
        keep(m, x, seen)
        m.counters.rows_seen += 1
        if waits(kind) and kept.shape[0] > 0:
            kept[t, 0] = m.counters.rows_seen
            for j in range(seen.size):
                kept[t, 1 + j] = seen[j]
    for j in range(y.size):
        y[j] = Y[t, j] if kind & (LEARN | TELL) else np.nan
        learned = learned or (kind & LEARN != 0 and not np.isnan(y[j]))
    return learned


@compiled
def remember_target(m: Model, X: Array, kept: Array, t: int, kind: int) -> None:
    """The memory may be fed with the last target, or the mean where it is missing."""
    last = True
    if waited(kind):  # a later row, or another sequence, may have come
        newest = m.window[m.window.shape[0] - 1]
        last = kept[t, 0] == m.counters.rows_seen
        for j in range(newest.size):
            last = last and newest[j] == X[t, j]
    if last:
        for j in range(m.y.size):
            if not np.isnan(m.y[j]):
                m.last_target[j] = m.y[j]
            elif m.plan.feedback and kind & ADVANCE:
                m.last_target[j] = m.mean_now[j]


class Pasts:
    """What a memory holds, of one sequence at first; each row of the next ones goes on with its own.

    Args:
        memory: the part.
        state: has its arrays by name.
    """

    def __init__(self, memory: Memory, state: Any) -> None:
        self._memory, self._weights = memory, state
        self._window, self._units, self._last_target = state.window[None], state.units[None], state.last_target[None]

    def advance(self, X: FloatArray) -> FloatArray:
        """Advance by rows (n, d), each of a sequence of its own; what is handed over, (n, width)."""
        memory, weights, past = self._memory, self._weights, self._units
        if past.size:  # [soh2014] Eq. (1), as look() has it; a sum for each row, whatever other rows there are
            fed = zip((weights.recurrent, weights.input, weights.feedback), (past, X, self._last_target), strict=True)
            total = weights.bias + sum((W @ rows[..., None])[..., 0] for W, rows in fed)
            self._units = (1.0 - memory.retention) * np.tanh(total) + memory.retention * past
            return np.hstack([self._units, X]) if memory.augment else self._units
        before = np.broadcast_to(self._window[:, 1:], (len(X), memory.depth - 1, X.shape[1]))
        self._window = np.ascontiguousarray(np.concatenate([before, X[:, None]], axis=1))
        seen: FloatArray = self._window.reshape(len(X), -1)
        return seen

    def recall(self, targets: FloatArray) -> None:
        """Take the last targets, (n, p)."""
        self._last_target = targets


def remembered(memory: Memory, X: FloatArray, Y: FloatArray) -> FloatArray:
    """What a memory hands over at every row from its start on: (n, width), or (n, depth, d) of a window.

    A reservoir with feedback is fed the targets, and zeros, the prior's mean, where they are missing.
    """
    if not isinstance(memory, Reservoir):
        before = np.zeros((memory.depth - 1, X.shape[1]))
        windows: FloatArray = np.lib.stride_tricks.sliding_window_view(np.vstack([before, X]), memory.depth, axis=0)
        return windows.transpose(0, 2, 1).copy() if memory.depth > 1 else X.copy()
    weights, Y = memory.weights(X.shape[1], Y.shape[1]), np.nan_to_num(Y, nan=0.0)
    nothing = {"window": np.zeros((1, X.shape[1])), "units": np.zeros(memory.units), "last_target": np.zeros_like(Y[0])}
    pasts, seen = Pasts(memory, SimpleNamespace(**weights._asdict(), **nothing)), []
    for x, y in zip(X, Y, strict=True):
        seen.append(pasts.advance(x[None])[0])
        pasts.recall(y[None])
    return np.array(seen).reshape(len(X), memory.width(X.shape[1]))

"""Encoders: trained networks that turn a window of rows into one vector, run without any deep learning library."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from scipy.special import expit

from streamgp.settings import FloatArray, Part, option, whole

KINDS = ("lstm", "gru", "rnn", "feedforward")
ACTIVATIONS = ("tanh", "relu")
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class WindowEncoder(Part, abc.ABC):
    """What turns a window into an embedding; see :class:`TrainedEncoder`."""

    inputs: int  # columns of a row
    depth: int  # rows in a window
    width: int  # numbers in an embedding

    @abc.abstractmethod
    def embed(self, window: FloatArray) -> FloatArray:
        """The embedding of a window (depth, inputs), oldest row first."""


class TrainedEncoder(WindowEncoder):
    """A recurrent or feedforward network with weights that stay, as ``streamgp.deep`` trains them.

    Args:
        kind: "lstm", "gru", "rnn" (tanh units) or "feedforward" (dense layers on the whole window).
        inputs: columns of a row.
        depth: rows in a window.
        units: hidden units of each layer.
        layers: layers, one on top of the other.
        embedding: size of a linear map on top; None: the last hidden vector itself.
        weights: all weights in one vector. Of each layer: input weights, row by row (of an LSTM gates i, f, g, o, of a
            GRU r, z, n), recurrent weights, input bias, recurrent bias; of a dense layer and of the map on top:
            weights, bias.
        activation: of a feedforward network, "tanh" or "relu".

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> encoder = sg.TrainedEncoder("rnn", inputs=1, depth=2, units=1, weights=[1.0, 0.5, 0.0, 0.0])
        >>> encoder.embed(np.array([[1.0], [0.0]])).round(3)  # tanh(0.5 tanh(1))
        array([0.363])
    """

    def __init__(
        self,
        kind: str,
        *,
        inputs: int,
        depth: int,
        units: int,
        weights: Any,
        layers: int = 1,
        embedding: int | None = None,
        activation: str = "tanh",
    ) -> None:
        option("kind", kind, KINDS)
        option("activation", activation, ACTIVATIONS)
        self.kind, self.activation = kind, activation
        self.inputs, self.depth = whole("inputs", inputs), whole("depth", depth)
        self.units, self.layers = whole("units", units), whole("layers", layers)
        self.width = self.units if embedding is None else whole("embedding", embedding)
        values = np.asarray(weights, dtype=np.float64)
        shapes = self._shapes(embedding is not None)
        needed = sum(int(np.prod(shape)) for shape in shapes)
        if values.shape != (needed,) or not np.all(np.isfinite(values)):
            raise ValueError(f"weights must be {needed} finite numbers for this network; got shape {values.shape}")
        cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = [part.reshape(shape) for part, shape in zip(np.split(values, cuts), shapes, strict=True)]
        self._top = (parts[-2], parts[-1]) if embedding is not None else None
        size = 2 if kind == "feedforward" else 4
        self._layers = [parts[i * size : (i + 1) * size] for i in range(self.layers)]

    def _shapes(self, mapped: bool) -> list[tuple[int, ...]]:
        shapes: list[tuple[int, ...]] = []
        for i in range(self.layers):
            if self.kind == "feedforward":
                shapes += [(self.units, self.units if i else self.depth * self.inputs), (self.units,)]
            else:
                rows = GATES[self.kind] * self.units
                shapes += [(rows, self.units if i else self.inputs), (rows, self.units), (rows,), (rows,)]
        return [*shapes, (self.width, self.units), (self.width,)] if mapped else shapes

    def embed(self, window: FloatArray) -> FloatArray:
        h = self._feedforward(window) if self.kind == "feedforward" else self._recurrent(window)
        return h if self._top is None else self._top[0] @ h + self._top[1]

    def _feedforward(self, window: FloatArray) -> FloatArray:
        h = window.reshape(-1)
        for W, b in self._layers:
            h = np.tanh(W @ h + b) if self.activation == "tanh" else np.maximum(W @ h + b, 0.0)
        return h

    def _recurrent(self, window: FloatArray) -> FloatArray:
        step = {"lstm": _lstm, "gru": _gru, "rnn": _rnn}[self.kind]
        X = window
        for W, U, b, c in self._layers:
            states = np.empty((len(X), self.units))
            step(X @ W.T + b, U, c, states)
            X = states
        last: FloatArray = X[-1].copy()
        return last


def _lstm(driven: FloatArray, U: FloatArray, c: FloatArray, states: FloatArray) -> None:
    n = states.shape[1]
    h, cell = np.zeros(n), np.zeros(n)
    for t, drive in enumerate(driven):
        z = drive + c + U @ h
        i, f, o = expit(z[:n]), expit(z[n : 2 * n]), expit(z[3 * n :])
        cell = f * cell + i * np.tanh(z[2 * n : 3 * n])
        h = states[t] = o * np.tanh(cell)


def _gru(driven: FloatArray, U: FloatArray, c: FloatArray, states: FloatArray) -> None:
    n = states.shape[1]
    h = np.zeros(n)
    for t, drive in enumerate(driven):
        own = U @ h + c
        r, z = expit(drive[:n] + own[:n]), expit(drive[n : 2 * n] + own[n : 2 * n])
        h = states[t] = (1.0 - z) * np.tanh(drive[2 * n :] + r * own[2 * n :]) + z * h


def _rnn(driven: FloatArray, U: FloatArray, c: FloatArray, states: FloatArray) -> None:
    h = np.zeros(states.shape[1])
    for t, drive in enumerate(driven):
        h = states[t] = np.tanh(drive + U @ h + c)

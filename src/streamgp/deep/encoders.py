"""Encoders: networks that turn a window of rows into one vector, the embedding."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from streamgp.settings import Part, choice, number, whole

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class Encoder(Part, abc.ABC):
    """What a network is to look like; see :class:`LSTM`, :class:`GRU`, :class:`RNN` and :class:`NARX`."""

    units: int
    layers: int
    dropout: float
    embedding: int | None

    def _compose(self, units: int, layers: int, dropout: float, embedding: int | None) -> None:
        self.units = whole("units", units)
        self.layers = whole("layers", layers)
        self.dropout = probability("dropout", dropout)
        self.embedding = None if embedding is None else whole("embedding", embedding)

    @abc.abstractmethod
    def build(self, d: int, depth: int) -> nn.Module:
        """Return a network with random weights for windows (rows, depth, d)."""


class _RecurrentEncoder(Encoder):
    kind: str

    def __init__(
        self,
        units: int = 64,
        *,
        layers: int = 1,
        dropout: float = 0.25,
        recurrent_dropout: float = 0.05,
        embedding: int | None = None,
    ) -> None:
        self._compose(units, layers, dropout, embedding)
        self.recurrent_dropout = probability("recurrent_dropout", recurrent_dropout)

    def build(self, d: int, depth: int) -> nn.Module:
        return RecurrentNetwork(
            self.kind, d, self.units, self.layers, self.dropout, self.recurrent_dropout, self.embedding
        )


class LSTM(_RecurrentEncoder):
    """Long short-term memory; the embedding is the last hidden vector.

    Args:
        units: hidden units of each layer.
        layers: layers, one on top of the other.
        dropout: part of the outputs of a layer that is dropped in training, the same at every step.
        recurrent_dropout: part of the recurrent weights, whole columns, that is dropped in training.
        embedding: size of a linear map on top; None: the last hidden vector itself.
    """

    kind = "lstm"


class GRU(_RecurrentEncoder):
    """Gated recurrent units; the embedding is the last hidden vector.

    Args:
        units, layers, dropout, recurrent_dropout, embedding: as those of :class:`LSTM`.
    """

    kind = "gru"


class RNN(_RecurrentEncoder):
    """The plain recurrent network with tanh units; the embedding is the last hidden vector.

    Args:
        units, layers, dropout, recurrent_dropout, embedding: as those of :class:`LSTM`.
    """

    kind = "rnn"


class NARX(Encoder):
    """A feedforward network on the whole window at once.

    Args:
        units: hidden units of each layer.
        layers: layers, one on top of the other.
        dropout: part of the outputs of a layer that is dropped in training.
        activation: "relu" or "tanh".
        embedding: size of a linear map on top; None: the last hidden layer itself.
    """

    def __init__(
        self,
        units: int = 128,
        *,
        layers: int = 1,
        dropout: float = 0.5,
        activation: str = "relu",
        embedding: int | None = None,
    ) -> None:
        self._compose(units, layers, dropout, embedding)
        choice("activation", activation, tuple(ACTIVATIONS))
        self.activation = activation

    def build(self, d: int, depth: int) -> nn.Module:
        return FeedforwardNetwork(d * depth, self.units, self.layers, self.dropout, self.activation, self.embedding)


def probability(name: str, value: Any) -> float:
    """A part of something that may be dropped: at least 0 and below 1."""
    result = number(name, value, at_least=0)
    if result >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1; got {value!r}")
    return result


class RecurrentNetwork(nn.Module):
    """Recurrent layers from zero state over a window (rows, depth, d); returns (rows, width)."""

    def __init__(
        self,
        kind: str,
        d: int,
        units: int,
        layers: int,
        dropout: float,
        recurrent_dropout: float,
        embedding: int | None,
    ) -> None:
        super().__init__()
        self.kind, self.units, self.dropout, self.recurrent_dropout = kind, units, dropout, recurrent_dropout
        self.stochastic = dropout > 0 or recurrent_dropout > 0
        self.layers = nn.ModuleList([_recurrent_weights(kind, d if i == 0 else units, units) for i in range(layers)])
        self.project = None if embedding is None else nn.Linear(units, embedding)
        self.width = units if embedding is None else embedding

    def forward(self, X: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            states = self._run(layer, X)
            if i < len(self.layers) - 1:
                X = states * _mask(states[:, :1], self.dropout) if self.training else states
        h = states[:, -1]
        if self.training:
            h = h * _mask(h, self.dropout)
        return h if self.project is None else self.project(h)

    def _run(self, layer: Any, X: Tensor) -> Tensor:
        recurrent = layer["recurrent"]
        if self.training:
            # [alshedivat2017] Table 5: dropout of the recurrent weights, one mask for all steps.
            recurrent = recurrent * _mask(recurrent[:1], self.recurrent_dropout)
        weights = [layer["input"], recurrent, layer["input_bias"], layer["recurrent_bias"]]
        zero = X.new_zeros(1, len(X), self.units)
        options = (True, 1, 0.0, torch.is_grad_enabled(), False, True)
        if self.kind == "lstm":
            return torch.lstm(X, [zero, zero], weights, *options)[0]
        run = torch.gru if self.kind == "gru" else torch.rnn_tanh
        return run(X, zero, weights, *options)[0]


class FeedforwardNetwork(nn.Module):
    """Dense layers on the numbers of a window (rows, depth, d), oldest row first; returns (rows, width)."""

    def __init__(
        self, inputs: int, units: int, layers: int, dropout: float, activation: str, embedding: int | None
    ) -> None:
        super().__init__()
        self.dropout, self.activation = dropout, activation
        self.stochastic = dropout > 0
        self.layers = nn.ModuleList([nn.Linear(inputs if i == 0 else units, units) for i in range(layers)])
        self.project = None if embedding is None else nn.Linear(units, embedding)
        self.width = units if embedding is None else embedding
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, X: Tensor) -> Tensor:
        h = X.flatten(1)
        for layer in self.layers:
            h = ACTIVATIONS[self.activation](layer(h))
            if self.training:
                h = h * _mask(h, self.dropout)
        return h if self.project is None else self.project(h)


def _recurrent_weights(kind: str, inputs: int, units: int) -> nn.ParameterDict:
    """Weights of one layer, gate by gate below each other, in the order of torch."""
    gates = GATES[kind]
    layer = nn.ParameterDict()
    # One after the other: this is the order of the weights in a stream model's encoder.
    layer["input"] = torch.empty(gates * units, inputs)
    layer["recurrent"] = torch.empty(gates * units, units)
    layer["input_bias"] = torch.zeros(gates * units)
    layer["recurrent_bias"] = torch.zeros(gates * units)
    for gate in range(gates):
        rows = slice(gate * units, (gate + 1) * units)
        nn.init.xavier_uniform_(layer["input"].data[rows])
        nn.init.orthogonal_(layer["recurrent"].data[rows])
    if kind == "lstm":  # the forget gate starts open
        layer["input_bias"].data[units : 2 * units] = 1.0
    return layer


def _mask(like: Tensor, dropout: float) -> Tensor:
    """Zeros with this probability, else 1 / (1 - dropout)."""
    if dropout == 0:
        return torch.ones_like(like)
    return torch.empty_like(like).bernoulli_(1.0 - dropout) / (1.0 - dropout)

"""Encoders: networks that turn a window of rows into one vector, the embedding."""

from __future__ import annotations

import abc
from typing import Any

import torch
from torch import Tensor, nn

from streamgp.encoded.encoder import GATES
from streamgp.settings import Part, number, option, whole


class Encoder(Part, abc.ABC):
    """What a network is to look like; see :class:`LSTM`, :class:`GRU`, :class:`RNN` and :class:`NARX`."""

    kind: str  # as a stream model's TrainedEncoder calls it
    units: int
    layers: int
    dropout: float
    embedding: int | None
    activation = "tanh"

    def _compose(self, units: int, layers: int, dropout: float, embedding: int | None) -> None:
        self.units = whole("units", units)
        self.layers = whole("layers", layers)
        self.dropout = below_one("dropout", dropout)
        self.embedding = None if embedding is None else whole("embedding", embedding)

    @abc.abstractmethod
    def build(self, d: int, depth: int) -> nn.Module:
        """Return a network with random weights for windows (rows, depth, d)."""


class _RecurrentEncoder(Encoder):
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
        self.recurrent_dropout = below_one("recurrent_dropout", recurrent_dropout)

    def build(self, d: int, depth: int) -> nn.Module:
        return RecurrentNetwork(self, d)


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
    """Gated recurrent units; the embedding is the last hidden vector. Its settings are those of :class:`LSTM`."""

    kind = "gru"


class RNN(_RecurrentEncoder):
    """Plain recurrent tanh units; the embedding is the last hidden vector. Its settings are those of :class:`LSTM`."""

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

    kind = "feedforward"

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
        option("activation", activation, ("relu", "tanh"))
        self.activation = activation

    def build(self, d: int, depth: int) -> nn.Module:
        return FeedforwardNetwork(self, d * depth)


def below_one(name: str, value: Any) -> float:
    """A part of something: at least 0 and below 1."""
    result = number(name, value, at_least=0)
    if result >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1; got {value!r}")
    return result


class RecurrentNetwork(nn.Module):
    """Recurrent layers from zero state over a window (rows, depth, d); returns (rows, width)."""

    def __init__(self, encoder: _RecurrentEncoder, d: int) -> None:
        super().__init__()
        self._encoder, units = encoder, encoder.units
        self.layers = nn.ModuleList([_layer(encoder.kind, units if i else d, units) for i in range(encoder.layers)])
        self.project = _project(encoder)

    def forward(self, X: Tensor) -> Tensor:
        dropout = self._encoder.dropout
        for i, layer in enumerate(self.layers):
            X = self._run(layer, _dropped(self, X, X[:, :1], dropout) if i else X)
        h = X[:, -1]
        result: Tensor = self.project(_dropped(self, h, h, dropout))
        return result

    def _run(self, layer: Any, X: Tensor) -> Tensor:
        # [alshedivat2017] Table 5: dropout of the recurrent weights, one mask for all steps.
        recurrent = layer["recurrent"]
        recurrent = _dropped(self, recurrent, recurrent[:1], self._encoder.recurrent_dropout)
        weights = [layer["input"], recurrent, layer["input_bias"], layer["recurrent_bias"]]
        zero = X.new_zeros(1, len(X), self._encoder.units)
        options = (True, 1, 0.0, torch.is_grad_enabled(), False, True)
        if self._encoder.kind == "lstm":
            return torch.lstm(X, [zero, zero], weights, *options)[0]
        run = torch.gru if self._encoder.kind == "gru" else torch.rnn_tanh
        return run(X, zero, weights, *options)[0]


class FeedforwardNetwork(nn.Module):
    """Dense layers on the numbers of a window (rows, depth, d), oldest row first; returns (rows, width)."""

    def __init__(self, encoder: NARX, inputs: int) -> None:
        super().__init__()
        self._encoder, units = encoder, encoder.units
        layers = [nn.Linear(units if i else inputs, units) for i in range(encoder.layers)]
        self.layers = nn.ModuleList(layers)
        self.project = _project(encoder)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, X: Tensor) -> Tensor:
        h = X.flatten(1)
        for layer in self.layers:
            h = getattr(torch, self._encoder.activation)(layer(h))
            h = _dropped(self, h, h, self._encoder.dropout)
        result: Tensor = self.project(h)
        return result


def _layer(kind: str, inputs: int, units: int) -> nn.ParameterDict:
    """Weights of one recurrent layer, gate by gate below each other, in the order of torch."""
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


def _project(encoder: Encoder) -> nn.Module:
    return nn.Identity() if encoder.embedding is None else nn.Linear(encoder.units, encoder.embedding)


def _dropped(network: nn.Module, values: Tensor, like: Tensor, dropout: float) -> Tensor:
    """In training, zeros with this probability and the others larger by as much; one draw for each number of like."""
    if not network.training or dropout == 0:
        return values
    return values * (torch.empty_like(like).bernoulli_(1.0 - dropout) / (1.0 - dropout))

"""Encoders: networks that turn a window of rows into one vector, the embedding."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from streamgp.encoded.encoder import GATES
from streamgp.settings import Part, Setting, number, one_of, optional, whole


def below_one(name: str, value: Any) -> float:
    """A part of something: at least 0 and below 1."""
    result = number(name, value, at_least=0)
    if result >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1; got {value!r}")
    return result


class Encoder(Part):
    """What a network is to look like; see :class:`LSTM`, :class:`GRU`, :class:`RNN` and :class:`NARX`."""

    kind: ClassVar[str]  # as a stream model's TrainedEncoder calls it
    units: int
    layers: int
    dropout: float
    embedding: int | None
    activation = "tanh"
    recurrent_dropout = 0.0

    def build(self, d: int, depth: int) -> nn.Module:
        """Return a network with random weights for windows (rows, depth, d)."""
        return EncoderNetwork(self, d, depth)


HiddenUnits = Annotated[int, Setting("hidden units of each layer", "units", whole)]
Layers = Annotated[int, Setting("layers, one on top of the other", "layers", whole)]
Embedding = Annotated[
    int | None,
    Setting("size of a linear map on top; None: the last hidden vector itself", "numbers", optional(whole)),
]


class _Recurrent(Encoder):
    def __init__(
        self,
        units: HiddenUnits = 64,
        *,
        layers: Layers = 1,
        dropout: Annotated[
            float,
            Setting(
                "part of the outputs of a layer that is dropped in training, the same at every step", check=below_one
            ),
        ] = 0.25,
        embedding: Embedding = None,
        recurrent_dropout: Annotated[
            float,
            Setting("part of the recurrent weights, whole columns, that is dropped in training", check=below_one),
        ] = 0.05,
    ) -> None:
        self.units, self.layers, self.dropout, self.embedding = units, layers, dropout, embedding
        self.recurrent_dropout = recurrent_dropout


class LSTM(_Recurrent):
    """Long short-term memory; the embedding is the last hidden vector."""

    kind = "lstm"


class GRU(_Recurrent):
    """Gated recurrent units; the embedding is the last hidden vector."""

    kind = "gru"


class RNN(_Recurrent):
    """Plain recurrent tanh units; the embedding is the last hidden vector."""

    kind = "rnn"


class NARX(Encoder):
    """A feedforward network on the whole window at once."""

    kind = "feedforward"

    def __init__(
        self,
        units: HiddenUnits = 128,
        *,
        layers: Layers = 1,
        dropout: Annotated[
            float, Setting("part of the outputs of a layer that is dropped in training", check=below_one)
        ] = 0.5,
        embedding: Embedding = None,
        activation: Annotated[str, Setting('"relu" or "tanh"', check=one_of("relu", "tanh"))] = "relu",
    ) -> None:
        self.units, self.layers, self.dropout, self.embedding = units, layers, dropout, embedding
        self.activation = activation


class EncoderNetwork(nn.Module):
    """Layers over a window (rows, depth, d), recurrent ones from zero state; returns (rows, width).

    To dense layers a window is one row of all its numbers, the oldest first.
    """

    def __init__(self, encoder: Encoder, d: int, depth: int) -> None:
        super().__init__()
        self._encoder, units, self._dense = encoder, encoder.units, encoder.kind == "feedforward"
        sizes = [d * depth if self._dense else d, *[units] * (encoder.layers - 1)]
        layers = [nn.Linear(n, units) if self._dense else _recurrent_layer(encoder.kind, n, units) for n in sizes]
        self.layers = nn.ModuleList(layers)
        self.project = nn.Identity() if encoder.embedding is None else nn.Linear(units, encoder.embedding)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, X: Tensor) -> Tensor:
        if self._dense:
            X = X.flatten(1)[:, None]
        for i, layer in enumerate(self.layers):
            X = self._run(layer, self._dropped(X, X[:, :1], self._encoder.dropout) if i else X)
        h = X[:, -1]
        result: Tensor = self.project(self._dropped(h, h, self._encoder.dropout))
        return result

    def _run(self, layer: Any, X: Tensor) -> Tensor:
        if self._dense:
            result: Tensor = getattr(torch, self._encoder.activation)(layer(X))
            return result
        # [alshedivat2017] Table 5: dropout of the recurrent weights, one mask for all steps.
        recurrent = layer.weight_hh_l0
        kept = self._dropped(recurrent, recurrent[:1], self._encoder.recurrent_dropout)
        found = layer(X) if kept is recurrent else functional_call(layer, {"weight_hh_l0": kept}, (X,))
        return cast(Tensor, found[0])

    def _dropped(self, values: Tensor, like: Tensor, dropout: float) -> Tensor:
        """In training, zeros with this probability, the others larger by as much; one draw for each number of like."""
        if not self.training or dropout == 0:
            return values
        return values * (torch.empty_like(like).bernoulli_(1.0 - dropout) / (1.0 - dropout))


def _recurrent_layer(kind: str, inputs: int, units: int) -> Any:
    """One layer, whose gates begin as dense layers do; its weights are in the order of a stream model's encoder."""
    kinds: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
    layer = kinds[kind](inputs, units, batch_first=True, device="meta").to_empty(device="cpu")  # nothing is drawn yet
    gates = (weight.data.chunk(GATES[kind]) for weight in (layer.weight_ih_l0, layer.weight_hh_l0))
    for of_input, recurrent in zip(*gates, strict=True):
        nn.init.xavier_uniform_(of_input)
        nn.init.orthogonal_(recurrent)
    nn.init.zeros_(layer.bias_ih_l0)
    nn.init.zeros_(layer.bias_hh_l0)
    if kind == "lstm":  # the forget gate starts open
        layer.bias_ih_l0.data[units : 2 * units] = 1.0
    return layer

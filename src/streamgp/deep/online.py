"""Trained networks as the encoders of stream models."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from streamgp.deep.encoders import Encoder
from streamgp.encoded.encoder import TrainedEncoder, WindowEncoder
from streamgp.settings import FloatArray, whole


class ModuleEncoder(WindowEncoder):
    """A trained network of the user's own as an encoder of a stream model; it needs PyTorch.

    A snapshot holds the weights, but no code: ``sg.load(path, encoder__module=module)`` asks for the module.

    Args:
        module: a torch.nn.Module from (rows, depth, inputs) to (rows, width).
        inputs: columns of a row.
        depth: rows in a window.
        weights: all numbers of its state_dict, one tensor after the other; None: as they are.
    """

    def __init__(self, module: nn.Module, inputs: int, depth: int, weights: Any = None) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module; got {module!r}")
        self.inputs, self.depth = whole("inputs", inputs), whole("depth", depth)
        self._module = copy.deepcopy(module).cpu().double().eval()
        if weights is not None:
            _write(self._module, np.asarray(weights, dtype=np.float64))
        self.width = len(self.embed(np.zeros((self.depth, self.inputs))))

    def embed(self, window: FloatArray) -> FloatArray:
        with torch.no_grad():
            return np.array(self._module(torch.tensor(window)[None])[0].numpy())


def trained_encoder(architecture: Any, network: nn.Module, inputs: int, depth: int) -> WindowEncoder:
    """A network as stream models run it."""
    if not isinstance(architecture, Encoder):
        return ModuleEncoder(architecture, inputs, depth, flat_weights(network))
    return TrainedEncoder(
        architecture.kind,
        inputs=inputs,
        depth=depth,
        units=architecture.units,
        weights=flat_weights(network),
        layers=architecture.layers,
        embedding=architecture.embedding,
        activation=architecture.activation,
    )


def flat_weights(network: nn.Module) -> FloatArray:
    """All numbers of a state_dict in its order."""
    parts = [tensor.detach().double().cpu().numpy().ravel() for tensor in network.state_dict().values()]
    return np.concatenate(parts) if parts else np.empty(0)


def _write(module: nn.Module, weights: FloatArray) -> None:
    state = module.state_dict()
    needed = sum(tensor.numel() for tensor in state.values())
    if weights.shape != (needed,):
        raise ValueError(f"the module has {needed} weights, the saved one has {weights.size}: it is another network")
    parts = torch.split(torch.tensor(weights), [tensor.numel() for tensor in state.values()])
    for tensor, part in zip(state.values(), parts, strict=True):
        tensor.copy_(part.reshape(tensor.shape))

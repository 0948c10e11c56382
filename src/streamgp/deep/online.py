"""The online tail: a trained process goes on learning from a stream, row by row and in constant time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from streamgp.deep.encoders import Encoder, FeedforwardNetwork, RecurrentNetwork
from streamgp.deep.gp import Head
from streamgp.deep.windows import Units
from streamgp.encoded.encoder import TrainedEncoder, WindowEncoder
from streamgp.encoded.model import Encoded
from streamgp.kernels import SquaredExponential
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import Budget
from streamgp.process.features import Basis, Features, Fourier
from streamgp.process.forgetting import BackToPrior, Forgetting
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray, choice, whole
from streamgp.tuning.projection import place, spread_points

FEATURES = ("basis", "fourier")


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
    kind, activation = "feedforward", "tanh"
    if isinstance(network, RecurrentNetwork):
        kind = network.kind
    elif isinstance(network, FeedforwardNetwork):
        activation = network.activation
    return TrainedEncoder(
        kind,
        inputs=inputs,
        depth=depth,
        units=architecture.units,
        weights=flat_weights(network),
        layers=architecture.layers,
        embedding=architecture.embedding,
        activation=activation,
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
    at = 0
    for tensor in state.values():
        tensor.copy_(torch.tensor(weights[at : at + tensor.numel()]).reshape(tensor.shape))
        at += tensor.numel()


def stream_model(
    encoder: WindowEncoder,
    head: Head,
    units: Units,
    feeds_back: bool,
    E: FloatArray,
    Y: FloatArray,
    window: FloatArray,
    scalar: bool,
    features: str,
    capacity: int,
    novelty: float,
    forgetting: Any,
    adapt: SNGD | None,
    seed: int,
) -> Encoded:
    """The stream model of a trained process, given all embeddings E and targets Y, in standard units."""
    kind = choice("features", features, FEATURES)
    whole("capacity", capacity)
    fades = _forgetting(forgetting)
    p = Y.shape[1]
    models = []
    for j in range(p):
        kernel = SquaredExponential(head.lengthscale[j], variance=float(head.variance[j]))
        space: Features = Basis(kernel)
        if kind == 1:
            space = Fourier(capacity, lengthscale=head.lengthscale[j], variance=float(head.variance[j]), seed=seed)
        budget = Budget(capacity, novelty=novelty) if kind == 0 else None
        models.append(
            OnlineGP(space, memory=None, noise=float(head.noise[j]), budget=budget, forgetting=fades, adapt=adapt)
        )
    shift, scale = units.input_shift, units.input_scale
    if feeds_back:
        shift, scale = np.append(shift, units.target_shift), np.append(scale, units.target_scale)
    result = Encoded(
        encoder,
        model=models if p > 1 else models[0],
        input_shift=shift,
        input_scale=scale,
        target_shift=units.target_shift,
        target_scale=units.target_scale,
    )
    result._start(encoder.inputs, p)
    result._d, result._p, result._scalar, result._certain = encoder.inputs, p, scalar, True
    for j, one in enumerate(result._within):
        assert isinstance(one, OnlineGP)
        chosen = spread_points(models[j]._features.kernel, E, capacity) if models[j]._features.kernel else None
        place(one, E, Y[:, j : j + 1], chosen)
    result._window[:] = window
    result._last_y[:] = units.target_shift + units.target_scale * Y[-1]
    result._rows[0] = len(E)
    return result


def _forgetting(forgetting: Any) -> Forgetting | None:
    if forgetting is None or isinstance(forgetting, Forgetting):
        return forgetting
    return BackToPrior(forgetting)

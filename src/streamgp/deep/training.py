"""Training: how it goes, and the learners, whose epochs move the network and the hyperparameters."""

from __future__ import annotations

import abc
import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from streamgp.deep.encoders import below_one
from streamgp.deep.gp import LEAST_NOISE, Head, LinearHead, ProcessHead
from streamgp.settings import Part, Setting, number, one_of, optional, whole
from streamgp.vocabulary import not_negative, positive

METHODS = ("semi-stochastic", "alternating", "full")
CHUNK = 2048  # windows embedded at once where no gradient is needed


def _renewed(name: str, value: Any) -> int | float:
    """A part of an epoch, or a whole number of mini-batches."""
    return whole(name, value) if isinstance(value, int) else number(name, value, above=0, at_most=1)


class Training(Part):
    """How a network, and the process on top of it, are trained [alshedivat2017 4.1]."""

    def __init__(
        self,
        method: Annotated[
            str,
            Setting(
                '"semi-stochastic" (Algorithm 2: mini-batches follow a gradient of the whole likelihood that is '
                'renewed only now and then), "alternating" (Algorithm 1: renewed at every mini-batch) or "full" (one '
                'step for all rows); a plain network has no kernel to renew: "full" or mini-batches',
                check=one_of(*METHODS),
            ),
        ] = "semi-stochastic",
        *,
        epochs: Annotated[int, Setting("at most this many passes through the data", "epochs", whole)] = 100,
        batch: Annotated[int, Setting("windows in a mini-batch", "windows", whole)] = 64,
        refresh: Annotated[
            float,
            Setting(
                "when the semi-stochastic method renews the kernel matrix: after this part of an epoch (0.1: ten "
                "times in an epoch, whose time is then linear in the rows; 1.0: once, as in the paper, which diverges "
                "when an epoch has many mini-batches), or, a whole number, after this many mini-batches",
                "epochs or mini-batches",
                _renewed,
            ),
        ] = 0.1,
        kernel_steps: Annotated[int, Setting("steps on the hyperparameters at each renewal", "steps", whole)] = 1,
        rate: Annotated[float, Setting("learning rate of Adam for the network", check=positive)] = 0.01,
        kernel_rate: Annotated[
            float | None,
            Setting("learning rate of Adam for the hyperparameters; None: the same", check=optional(positive)),
        ] = None,
        decay: Annotated[
            float, Setting("in epoch t the rates are divided by 1 + decay t", "1 / epoch", not_negative)
        ] = 0.0,
        weight_decay: Annotated[float, Setting("of the network's weights", check=not_negative)] = 0.0,
        validation: Annotated[
            float,
            Setting("part of the windows, the last ones, that is kept for validation; 0: none", check=below_one),
        ] = 0.25,
        patience: Annotated[
            int | None,
            Setting(
                "epochs without a better validation error after which training stops; None: never",
                "epochs",
                optional(whole),
            ),
        ] = 20,
        pretrain: Annotated[
            int,
            Setting(
                "epochs of the network alone, with a linear output and squared errors, before the process joins",
                "epochs",
                partial(whole, at_least=0),
            ),
        ] = 0,
        finetune: Annotated[
            int,
            Setting(
                "steps of L-BFGS on the hyperparameters alone at the end, on all windows, the validation's included",
                "steps",
                partial(whole, at_least=0),
            ),
        ] = 0,
    ) -> None:
        self.method, self.epochs, self.batch, self.refresh = method, epochs, batch, refresh
        self.kernel_steps, self.rate, self.kernel_rate = kernel_steps, rate, kernel_rate
        self.decay, self.weight_decay, self.validation = decay, weight_decay, validation
        self.patience, self.pretrain, self.finetune = patience, pretrain, finetune


class Epoch(NamedTuple):
    """How training stood after an epoch."""

    phase: str  # "network" or "process"
    epoch: int  # from 0
    loss: float  # mean squared error, or negative log marginal likelihood of each row; standard units
    rmse: float  # of the validation part, standard units; NaN without one
    seconds: float  # that the epoch took, validation not included


@dataclass(frozen=True)
class Windows:
    """Windows of rows, cut out when they are needed, and their targets."""

    rows: Tensor  # (n + 1, d), the last one zeros
    ends: Tensor  # (windows,) last row of each
    began: Tensor  # (windows,) first row of the sequence of each; what lies before is zeros
    targets: Tensor  # (windows, p), double
    depth: int

    def __len__(self) -> int:
        return len(self.ends)

    def cut(self, index: Tensor | slice) -> Tensor:
        """(windows, depth, d)."""
        past = torch.arange(1 - self.depth, 1, device=self.rows.device)
        at = self.ends[index][:, None] + past
        return self.rows[torch.where(at < self.began[index][:, None], len(self.rows) - 1, at)]


class Learner(nn.Module, abc.ABC):
    """A network and what is on top of it, and how one epoch moves their weights."""

    phase: str
    head: Head
    optimizers: list[torch.optim.Adam]

    def __init__(self, encoder: nn.Module, head: Head, windows: Windows, training: Training) -> None:
        super().__init__()
        self.encoder, self.head, self._windows = encoder, head, windows
        self._batch = len(windows) if training.method == "full" else min(training.batch, len(windows))

    @abc.abstractmethod
    def epoch(self) -> float:
        """One pass through the data; returns the loss on the way."""

    def ready(self) -> Head:
        """What predicts with the weights as they are."""
        return self.head

    def batches(self) -> Sequence[Tensor]:
        """Mini-batches of indices, in an order drawn anew."""
        return torch.split(torch.randperm(len(self._windows)).to(self._windows.targets.device), self._batch)


def train(
    learner: Learner, epochs: int, training: Training, validate: Callable[[Learner], float] | None
) -> Iterator[Epoch]:
    """Epochs until they or the patience are out; then the best weights, without validation the last ones."""
    best: dict[str, Any] = {}
    errors: list[float] = []
    patience = math.inf if training.patience is None or validate is None else training.patience
    while len(errors) < epochs and _waited(errors) < patience:
        for optimizer in learner.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] / (1.0 + training.decay * len(errors))
        began = time.perf_counter()
        loss = learner.epoch()
        seconds = time.perf_counter() - began
        errors.append(math.nan if validate is None else validate(learner))
        if _waited(errors) == 0:
            best = copy.deepcopy(learner.state_dict())
        yield Epoch(learner.phase, len(errors) - 1, loss, errors[-1], seconds)
    if best:
        learner.load_state_dict(best)


def _waited(errors: list[float]) -> int:
    """Epochs since the lowest validation error; NaN is none."""
    return len(errors) - int(np.nanargmin([math.inf, *errors]))


def embed(encoder: nn.Module, windows: Windows, dropout: bool = False) -> Tensor:
    """(windows, width), without gradient."""
    encoder.train(dropout)
    with torch.no_grad():
        return torch.cat([encoder(windows.cut(slice(i, i + CHUNK))) for i in range(0, max(len(windows), 1), CHUNK)])


class NetworkLearner(Learner):
    """The network with a linear output, by squared errors."""

    phase = "network"

    def __init__(self, encoder: nn.Module, windows: Windows, training: Training) -> None:
        like = windows.rows
        width = encoder.eval()(windows.cut(slice(1))).shape[1]
        output = LinearHead(width, windows.targets.shape[1], device=like.device, dtype=like.dtype)
        super().__init__(encoder, output, windows, training)
        self._targets = windows.targets.to(like.dtype)
        self.optimizers = [torch.optim.Adam(self.parameters(), lr=training.rate, weight_decay=training.weight_decay)]

    def epoch(self) -> float:
        self.encoder.train()
        total = self._targets.new_zeros(())
        for index in self.batches():
            loss = (self.head(self.encoder(self._windows.cut(index))) - self._targets[index]).square().mean()
            self.optimizers[0].zero_grad(set_to_none=True)
            loss.backward()
            self.optimizers[0].step()
            total += loss.detach() * len(index)
        return float(total) / len(self._windows)


class ProcessLearner(Learner):
    """The network under a Gaussian process, by the marginal likelihood of all rows."""

    phase = "process"

    head: ProcessHead

    def __init__(self, encoder: nn.Module, head: ProcessHead, windows: Windows, training: Training) -> None:
        super().__init__(encoder, head, windows, training)
        every = training.refresh if training.method == "semi-stochastic" else 1
        if isinstance(every, float):
            every = max(1, round(every * math.ceil(len(windows) / self._batch)))
        self._refresh, self._kernel_steps = every, training.kernel_steps
        self._embedded: Tensor | None = None  # of the present weights
        self.optimizers = [
            torch.optim.Adam(encoder.parameters(), lr=training.rate, weight_decay=training.weight_decay),
            torch.optim.Adam([head.theta], lr=training.kernel_rate or training.rate),
        ]

    def epoch(self) -> float:
        values: list[float] = []
        for i, index in enumerate(self.batches()):
            if i % self._refresh == 0:
                value, stale = self._renew()
                values.append(value)
            self.gradient(index, stale)
            self.optimizers[0].step()
            self._embedded = None
        return values[0]

    def _renew(self) -> tuple[float, Tensor]:
        """Steps on theta for the embeddings as they are; then the gradient of the likelihood by each of them."""
        H = self._embeddings()
        for _ in range(self._kernel_steps):
            result = self.head.evaluate(H, self._windows.targets)
            if not math.isfinite(result.value):
                raise ValueError("the marginal likelihood is not finite: training has diverged. Lower the rate.")
            self.head.theta.grad = result.by_theta
            self.optimizers[1].step()
            self.head.theta[:, -1].clamp_(min=math.log(LEAST_NOISE))
        return result.value, result.by_embedding.to(H.dtype)

    def gradient(self, index: Tensor, stale: Tensor) -> None:
        """Leave the gradient of the likelihood by the weights, estimated from some of the windows, in the weights."""
        self.encoder.train()
        h = self.encoder(self._windows.cut(index))
        # [alshedivat2017] Eq. (10): the sum over i of dL/dh_i dh_i/dW, with dL/dh of the stale kernel matrix.
        along = (len(self._windows) / len(index)) * (stale[index] * h).sum()
        self.optimizers[0].zero_grad(set_to_none=True)
        along.backward()

    def _embeddings(self) -> Tensor:
        if self._embedded is None:
            self._embedded = embed(self.encoder, self._windows)
        return self._embedded

    def ready(self) -> Head:
        self.head.condition(self._embeddings(), self._windows.targets)
        return self.head

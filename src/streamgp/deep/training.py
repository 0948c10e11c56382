"""Training: epochs of steps on the network and on the hyperparameters, until validation no longer improves."""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from streamgp.deep.gp import Head
from streamgp.settings import Part, choice, number, whole

METHODS = ("semi-stochastic", "alternating", "full")
CHUNK = 2048  # windows embedded at once where no gradient is needed


class Training(Part):
    """How a network, and the process on top of it, are trained [alshedivat2017 4.1].

    Args:
        method: "semi-stochastic" (Algorithm 2: mini-batches follow a gradient of the whole likelihood that is renewed
            only now and then), "alternating" (Algorithm 1: renewed at every mini-batch) or "full" (one step for all
            rows). A plain network has no kernel to renew: "full" or mini-batches.
        epochs: at most so many passes through the data.
        batch: windows in a mini-batch.
        refresh: when the semi-stochastic method renews the kernel matrix: after such a part of an epoch (0.1: ten times
            in an epoch, whose time is then linear in the rows; 1.0: once, as in the paper, which diverges when an epoch
            has many mini-batches), or, a whole number, after so many mini-batches.
        kernel_steps: steps on the hyperparameters at each renewal.
        rate: learning rate of Adam for the network.
        kernel_rate: learning rate of Adam for the hyperparameters; None: the same.
        decay: in epoch t the rates are divided by 1 + decay t.
        weight_decay: of the network's weights.
        validation: part of the windows, the last ones, that is kept for validation; 0: none.
        patience: epochs without a better validation error after which training stops; None: never.
        pretrain: epochs of the network alone, with a linear output and squared errors, before the process joins.
        finetune: steps of L-BFGS on the hyperparameters alone at the end, on all windows, the validation's included.
    """

    def __init__(
        self,
        method: str = "semi-stochastic",
        *,
        epochs: int = 100,
        batch: int = 64,
        refresh: float = 0.1,
        kernel_steps: int = 1,
        rate: float = 0.01,
        kernel_rate: float | None = None,
        decay: float = 0.0,
        weight_decay: float = 0.0,
        validation: float = 0.25,
        patience: int | None = 20,
        pretrain: int = 0,
        finetune: int = 0,
    ) -> None:
        choice("method", method, METHODS)
        self.method = method
        self.epochs = whole("epochs", epochs)
        self.batch = whole("batch", batch)
        self.refresh = whole("refresh", refresh) if isinstance(refresh, int) else _part("refresh", refresh)
        self.kernel_steps = whole("kernel_steps", kernel_steps)
        self.rate = number("rate", rate, above=0)
        self.kernel_rate = self.rate if kernel_rate is None else number("kernel_rate", kernel_rate, above=0)
        self.decay = number("decay", decay, at_least=0)
        self.weight_decay = number("weight_decay", weight_decay, at_least=0)
        self.validation = number("validation", validation, at_least=0)
        if self.validation >= 1:
            raise ValueError(f"validation must be at least 0 and below 1; got {validation!r}")
        self.patience = None if patience is None else whole("patience", patience)
        self.pretrain = whole("pretrain", pretrain, at_least=0)
        self.finetune = whole("finetune", finetune, at_least=0)


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


class Learner(abc.ABC):
    """Weights, and how one epoch moves them."""

    phase: str
    encoder: nn.Module
    optimizers: list[torch.optim.Adam]

    @abc.abstractmethod
    def epoch(self) -> float:
        """One pass through the data; returns the loss on the way."""

    @abc.abstractmethod
    def ready(self) -> Callable[[Tensor], Tensor]:
        """Learn the rows with the weights as they are; returns what predicts embeddings, (rows, p)."""

    @abc.abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The weights by name, to be read and written in place."""

    @abc.abstractmethod
    def rates(self, training: Training, epoch: int) -> None:
        """Set the learning rates."""


Validate = Callable[[Learner], float]


def embed(encoder: nn.Module, windows: Windows) -> Tensor:
    """(windows, width), without dropout and gradient."""
    encoder.eval()
    with torch.no_grad():
        return torch.cat([encoder(windows.cut(slice(i, i + CHUNK))) for i in range(0, len(windows), CHUNK)])


def shuffled(n: int, batch: int, device: torch.device) -> Iterator[Tensor]:
    yield from torch.split(torch.randperm(n).to(device), batch)


class NetworkLearner(Learner):
    """The network with a linear output, by squared errors."""

    phase = "network"

    def __init__(self, encoder: nn.Module, output: nn.Linear, windows: Windows, training: Training) -> None:
        self.encoder, self.output, self._windows = encoder, output, windows
        self._targets = windows.targets.to(output.weight.dtype)
        self._batch = len(windows) if training.method == "full" else training.batch
        weights = [*encoder.parameters(), *output.parameters()]
        self.optimizers = [torch.optim.Adam(weights, lr=training.rate, weight_decay=training.weight_decay)]

    def epoch(self) -> float:
        self.encoder.train()
        total = self._targets.new_zeros(())
        for index in shuffled(len(self._windows), self._batch, self._targets.device):
            error = self.output(self.encoder(self._windows.cut(index))) - self._targets[index]
            loss = (error * error).mean()
            self.optimizers[0].zero_grad(set_to_none=True)
            loss.backward()
            self.optimizers[0].step()
            total += loss.detach() * len(index)
        return float(total) / len(self._windows)

    def ready(self) -> Callable[[Tensor], Tensor]:
        self.encoder.eval()
        return lambda H: self.output(H).detach().double()

    def tensors(self) -> dict[str, Tensor]:
        return _named("encoder", self.encoder) | _named("output", self.output)

    def rates(self, training: Training, epoch: int) -> None:
        _set_rate(self.optimizers[0], training.rate / (1.0 + training.decay * epoch))


class ProcessLearner(Learner):
    """The network under a Gaussian process, by the marginal likelihood of all rows."""

    phase = "process"

    def __init__(self, encoder: nn.Module, head: Head, windows: Windows, training: Training) -> None:
        self.encoder, self.head, self._windows = encoder, head, windows
        n = len(windows)
        self._batch = n if training.method == "full" else min(training.batch, n)
        every = training.refresh if training.method == "semi-stochastic" else 1
        if isinstance(every, float):
            every = max(1, round(every * math.ceil(n / self._batch)))
        self._refresh = every
        self._kernel_steps = training.kernel_steps
        self._embedded: Tensor | None = None  # of the present weights
        self.optimizers = [
            torch.optim.Adam(encoder.parameters(), lr=training.rate, weight_decay=training.weight_decay),
            torch.optim.Adam([head.theta], lr=training.kernel_rate),
        ]

    def epoch(self) -> float:
        n = len(self._windows)
        values: list[float] = []
        stale = self._windows.targets.new_empty(0)
        for i, index in enumerate(shuffled(n, self._batch, stale.device)):
            if i % self._refresh == 0:
                value, stale = self._renew()
                values.append(value)
            self.step(index, stale)
        return values[0]

    def _renew(self) -> tuple[float, Tensor]:
        """Steps on theta for the embeddings as they are; then the gradient of the likelihood by each of them."""
        H = self.embedded()
        for _ in range(self._kernel_steps):
            result = self.head.evaluate(H, self._windows.targets)
            if not math.isfinite(result.value):
                raise ValueError("the marginal likelihood is not finite: training has diverged. Lower the rate.")
            self.head.theta.grad = result.by_theta
            self.optimizers[1].step()
            self.head.floor()
        return result.value, result.by_embedding.to(H.dtype)

    def gradient(self, index: Tensor, stale: Tensor) -> None:
        """Leave the gradient of the likelihood by the weights, estimated from some of the windows, in the weights."""
        self.encoder.train()
        h = self.encoder(self._windows.cut(index))
        # [alshedivat2017] Eq. (10): the sum over i of dL/dh_i dh_i/dW, with dL/dh of the stale kernel matrix.
        along = (len(self._windows) / len(index)) * (stale[index] * h).sum()
        self.optimizers[0].zero_grad(set_to_none=True)
        along.backward()

    def step(self, index: Tensor, stale: Tensor) -> None:
        self.gradient(index, stale)
        self.optimizers[0].step()
        self._embedded = None

    def embedded(self) -> Tensor:
        if self._embedded is None:
            self._embedded = embed(self.encoder, self._windows)
        return self._embedded

    def ready(self) -> Callable[[Tensor], Tensor]:
        self.head.condition(self.embedded(), self._windows.targets)
        return lambda H: self.head.predict(H)[0]

    def tensors(self) -> dict[str, Tensor]:
        return _named("encoder", self.encoder) | self.head.tensors()

    def rates(self, training: Training, epoch: int) -> None:
        slower = 1.0 + training.decay * epoch
        _set_rate(self.optimizers[0], training.rate / slower)
        _set_rate(self.optimizers[1], training.kernel_rate / slower)


class Course:
    """A learner's way through its epochs: the best weights so far, and whether to stop."""

    def __init__(self, learner: Learner, training: Training, epochs: int) -> None:
        self.learner, self.training, self.epochs = learner, training, epochs
        self.epoch = 0
        self.best: dict[str, Tensor] = {}
        self.best_rmse = math.inf
        self.waited = 0

    @property
    def done(self) -> bool:
        patience = self.training.patience
        return self.epoch >= self.epochs or (patience is not None and self.waited >= patience)

    def advance(self, validate: Validate | None) -> Epoch:
        """One epoch and its validation."""
        self.learner.rates(self.training, self.epoch)
        began = time.perf_counter()
        loss = self.learner.epoch()
        seconds = time.perf_counter() - began
        rmse = math.nan
        if validate is not None:
            rmse = validate(self.learner)
            self.waited += 1
            if rmse < self.best_rmse:
                self.best_rmse, self.waited = rmse, 0
                self.best = {name: tensor.detach().clone() for name, tensor in self.learner.tensors().items()}
        result = Epoch(self.learner.phase, self.epoch, loss, rmse, seconds)
        self.epoch += 1
        return result

    def finish(self) -> None:
        """Go back to the best weights, where validation could tell."""
        with torch.no_grad():
            for name, tensor in self.learner.tensors().items():
                if name in self.best:
                    tensor.copy_(self.best[name])


def _part(name: str, value: float) -> float:
    """Above 0 and at most all of it."""
    return number(name, value, above=0, at_most=1)


def _named(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in module.state_dict(keep_vars=True).items()}


def _set_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate

"""Models: a network over windows of a series, alone or under a Gaussian process [alshedivat2017]."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from streamgp.deep.encoders import GRU, LSTM, NARX, RNN
from streamgp.deep.gp import ExactHead, Head, starting_theta
from streamgp.deep.interpolated import InterpolatedHead
from streamgp.deep.model import DeepModel
from streamgp.deep.online import stream_model, trained_encoder
from streamgp.deep.operators import OperatorHead
from streamgp.deep.session import Session
from streamgp.deep.training import (
    Course,
    NetworkLearner,
    ProcessLearner,
    Training,
    Windows,
    embed,
)
from streamgp.encoded.model import Encoded
from streamgp.process.adapt.sngd import SNGD
from streamgp.settings import FloatArray, choice, number, positive_vector, whole

SOLVERS = ("eigen", "cg")
INFERENCE = ("auto", "exact", "interpolated")
MOST_EXACT = 4000  # windows up to which "auto" is exact: one evaluation takes seconds on a CPU

Hyperparameters = dict[str, float | FloatArray]


class Network(DeepModel):
    """A network with a linear output, trained by squared errors: the baseline without a process.

    It has no variance, but for the spread of passes with dropout: ``predict(..., samples=50)``. Its noise is the mean
    squared error in training.

    Args:
        encoder: LSTM(...), GRU(...), RNN(...), NARX(...), or a torch.nn.Module from (rows, depth, d) to (rows, width).
        depth: rows in a window.
        mode: "regression" (from past inputs), "autoregression" (from past inputs and targets) or "simulation" (the
            same, validated in free runs).
        horizon: a window that ends at row i predicts the target of row i + horizon.
        padding: a window may begin before its sequence, with zeros in standard units; False: whole windows only.
        training: how to train; None: Training().
        standardize: scale inputs and targets to mean 0 and standard deviation 1 of the training part.
        precision: "single" or "double" precision of the network.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        seed: of the weights, the mini-batches and the dropout.

    Example:
        >>> import numpy as np
        >>> from streamgp import deep
        >>> t = np.arange(400)
        >>> u, y = np.sin(0.2 * t), np.cos(0.2 * t)
        >>> model = deep.Network(deep.NARX(16, dropout=0.0), depth=5).fit(u[:300], y[:300])
        >>> bool(np.abs(model.predict(u, y).mean - y)[300:].max() < 0.3)
        True
    """

    def __init__(
        self,
        encoder: Any,
        *,
        depth: int = 32,
        mode: str = "autoregression",
        horizon: int = 1,
        padding: bool = False,
        training: Training | None = None,
        standardize: bool = True,
        precision: str = "single",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self._compose(encoder, depth, mode, horizon, padding, training, standardize, precision, device, seed)

    def _train(self, windows: Windows, session: Session) -> None:
        self._output = _linear(self._network, windows)
        learner = NetworkLearner(self._network, self._output, windows, self._training)
        session.run(Course(learner, self._training, self._training.epochs))

    def _settle(self, windows: Windows) -> None:
        error = self._head(embed(self._network, windows))[0] - windows.targets
        self._squared_error = np.asarray((error * error).mean(0).cpu().numpy())

    def _head(self, H: Tensor) -> tuple[Tensor, Tensor]:
        mean = self._output(H).detach().double()
        return mean, torch.full_like(mean, math.nan)

    @property
    def _noise(self) -> FloatArray:
        return self._squared_error


class DeepKernelGP(DeepModel):
    """A Gaussian process on the embeddings of windows, trained together with the network [alshedivat2017].

    The kernel is squared exponential with a lengthscale for each number of the embedding. Several outputs share the
    network and have processes of their own.

    Args:
        encoder: LSTM(...), GRU(...), RNN(...), NARX(...), or a torch.nn.Module from (rows, depth, d) to (rows, width).
        depth: rows in a window.
        mode: "regression" (from past inputs), "autoregression" (from past inputs and targets) or "simulation" (the
            same, validated in free runs).
        horizon: a window that ends at row i predicts the target of row i + horizon.
        padding: a window may begin before its sequence, with zeros in standard units; False: whole windows only.
        lengthscale: one, or one for each number of the embedding, to start from; None: the median distance.
        variance: prior variance of the function to start from, in standard units.
        noise: variance of the observation noise to start from, in standard units.
        inference: "exact", "interpolated" (on a grid, for an embedding of 1 or 2 numbers) or "auto" (exact up to 4000
            windows).
        grid: points of the grid along each number of the embedding.
        solver: of the interpolated process: "eigen" (eigenvectors of the grid, exact) or "cg" (GPyTorch's conjugate
            gradients and Lanczos quadrature).
        training: how to train; None: Training().
        standardize: scale inputs and targets to mean 0 and standard deviation 1 of the training part.
        precision: "single" or "double" precision of the network; the process is always in double.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        seed: of the weights, the mini-batches and the dropout.
    """

    def __init__(
        self,
        encoder: Any,
        *,
        depth: int = 32,
        mode: str = "autoregression",
        horizon: int = 1,
        padding: bool = False,
        lengthscale: Any = None,
        variance: float = 1.0,
        noise: float = 0.1,
        inference: str = "auto",
        grid: int = 100,
        solver: str = "eigen",
        training: Training | None = None,
        standardize: bool = True,
        precision: str = "single",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        self._compose(encoder, depth, mode, horizon, padding, training, standardize, precision, device, seed)
        self._compose_process(lengthscale, variance, noise, inference, grid, solver)

    _process: Head

    def _compose_process(
        self, lengthscale: Any, variance: float, noise: float, inference: str, grid: int, solver: str
    ) -> None:
        self._lengthscale = None if lengthscale is None else positive_vector("lengthscale", lengthscale)
        self._start = number("variance", variance, above=0), number("noise", noise, above=0)
        choice("inference", inference, INFERENCE)
        self._inference = inference
        self._grid = whole("grid", grid, at_least=12)
        choice("solver", solver, SOLVERS)
        self._solver = solver

    def _train(self, windows: Windows, session: Session) -> None:
        if self._training.pretrain:
            first = NetworkLearner(self._network, _linear(self._network, windows), windows, self._training)
            session.run(Course(first, self._training, self._training.pretrain))
        theta = starting_theta(embed(self._network, windows), windows.targets.shape[1], self._lengthscale, *self._start)
        self._process = self._new_head(theta, len(windows))
        learner = ProcessLearner(self._network, self._process, windows, self._training)
        session.run(Course(learner, self._training, self._training.epochs))

    def _new_head(self, theta: Tensor, n: int) -> Head:
        if self._inference == "exact" or (self._inference == "auto" and n <= MOST_EXACT):
            return ExactHead(theta)
        return (OperatorHead if self._solver == "cg" else InterpolatedHead)(theta, self._grid)

    def _settle(self, windows: Windows) -> None:
        self._learnt = windows
        H = embed(self._network, windows)
        if self._training.finetune:
            self._process.tune(H, windows.targets, self._training.finetune)
        self._process.condition(H, windows.targets)
        self._nlml = self._process.evaluate(H, windows.targets).value * windows.targets.numel()

    def _head(self, H: Tensor) -> tuple[Tensor, Tensor]:
        return self._process.predict(H)

    @property
    def _noise(self) -> FloatArray:
        return self._process.noise

    def log_marginal_likelihood(self) -> float:
        """Return the log marginal likelihood of all rows that were fitted, in standard units, summed over outputs."""
        if self._units is None:
            raise ValueError(f"this {type(self).__name__} has learnt nothing yet; call fit(U, Y) first")
        return -self._nlml

    def online(
        self,
        features: str = "basis",
        capacity: int = 100,
        novelty: float = 1e-3,
        forgetting: Any = None,
        adapt: SNGD | None = None,
        seed: int = 0,
    ) -> Encoded:
        """Return a stream model that starts from the trained process and goes on learning, row by row.

        Its rows are those of :meth:`rows`; its memory goes on from the end of the series that was fitted.

        Args:
            features: "basis" (a dictionary of embeddings that grows and shrinks) or "fourier" (random features).
            capacity: most basis points; number of frequencies.
            novelty: relative to the prior variance, of an embedding that becomes a basis point.
            forgetting: None, a factor in (0, 1] by which the posterior goes back to the prior with every row, or
                Injection(factor).
            adapt: SNGD() keeps learning the hyperparameters; None: they stay.
            seed: of the frequencies.
        """
        if self._units is None:
            raise ValueError(f"this {type(self).__name__} has learnt nothing yet; call fit(U, Y) first")
        windows = self._learnt
        exact = copy.deepcopy(self._network).double()
        with self._torch():
            E = embed(exact, replace(windows, rows=windows.rows.double())).cpu().numpy()
        return stream_model(
            trained_encoder(self._encoder, self._network, windows.rows.shape[1], self._task.depth),
            self._process,
            self._units,
            self._task.feeds_back,
            E,
            windows.targets.cpu().numpy(),
            self._last,
            self._scalar,
            features,
            capacity,
            novelty,
            forgetting,
            adapt,
            seed,
        )

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters by name, in standard units: (width,) or (p, width) lengthscales, variance, noise."""
        if self._units is None:
            return {"variance": self._start[0], "noise": self._start[1]}
        process = self._process
        if self._scalar:
            return {
                "lengthscale": process.lengthscale[0],
                "variance": float(process.variance[0]),
                "noise": float(process.noise[0]),
            }
        return {"lengthscale": process.lengthscale, "variance": process.variance, "noise": process.noise}


class _RecurrentProcess(DeepKernelGP):
    """A process on the last hidden vector of a recurrent network of some kind."""

    _kind: type[LSTM | GRU | RNN]

    def __init__(
        self,
        units: int = 64,
        *,
        layers: int = 1,
        dropout: float = 0.25,
        recurrent_dropout: float = 0.05,
        embedding: int | None = None,
        depth: int = 32,
        mode: str = "autoregression",
        horizon: int = 1,
        padding: bool = False,
        lengthscale: Any = None,
        variance: float = 1.0,
        noise: float = 0.1,
        inference: str = "auto",
        grid: int = 100,
        solver: str = "eigen",
        training: Training | None = None,
        standardize: bool = True,
        precision: str = "single",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        encoder = self._kind(
            units, layers=layers, dropout=dropout, recurrent_dropout=recurrent_dropout, embedding=embedding
        )
        self._compose(encoder, depth, mode, horizon, padding, training, standardize, precision, device, seed)
        self._compose_process(lengthscale, variance, noise, inference, grid, solver)


class GPLSTM(_RecurrentProcess):
    """GP-LSTM: a Gaussian process on the last hidden vector of an LSTM network [alshedivat2017].

    Args:
        units: hidden units of each layer.
        layers: layers, one on top of the other.
        dropout: part of the outputs of a layer that is dropped in training, the same at every step.
        recurrent_dropout: part of the recurrent weights, whole columns, that is dropped in training.
        embedding: size of a linear map on top; None: the last hidden vector itself.
        depth: rows in a window.
        mode: "regression" (from past inputs), "autoregression" (from past inputs and targets) or "simulation" (the
            same, validated in free runs).
        horizon: a window that ends at row i predicts the target of row i + horizon.
        padding: a window may begin before its sequence, with zeros in standard units; False: whole windows only.
        lengthscale: one, or one for each number of the embedding, to start from; None: the median distance.
        variance: prior variance of the function to start from, in standard units.
        noise: variance of the observation noise to start from, in standard units.
        inference: "exact", "interpolated" (on a grid, for an embedding of 1 or 2 numbers) or "auto" (exact up to 4000
            windows).
        grid: points of the grid along each number of the embedding.
        solver: of the interpolated process: "eigen" (eigenvectors of the grid, exact) or "cg" (GPyTorch's conjugate
            gradients and Lanczos quadrature).
        training: how to train; None: Training().
        standardize: scale inputs and targets to mean 0 and standard deviation 1 of the training part.
        precision: "single" or "double" precision of the network; the process is always in double.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        seed: of the weights, the mini-batches and the dropout.

    Example:
        >>> import numpy as np
        >>> from streamgp import deep
        >>> t = np.arange(400)
        >>> u, y = np.sin(0.2 * t), np.cos(0.2 * t)
        >>> model = deep.GPLSTM(units=8, depth=5, training=deep.Training(epochs=20)).fit(u[:300], y[:300])
        >>> p = model.predict(u, y)[300:]
        >>> bool(np.abs(p.mean - y[300:]).max() < 0.3)
        True
    """

    _kind = LSTM


class GPGRU(_RecurrentProcess):
    """GP-GRU: a Gaussian process on the last hidden vector of gated recurrent units; settings as of :class:`GPLSTM`."""

    _kind = GRU


class GPRNN(_RecurrentProcess):
    """GP-RNN: a Gaussian process on the last hidden vector of a plain recurrent network [alshedivat2017].

    Its settings are those of :class:`GPLSTM`.
    """

    _kind = RNN


class GPNARX(DeepKernelGP):
    """GP-NARX: a Gaussian process on a feedforward network over the whole window [alshedivat2017].

    Args:
        units: hidden units of each layer.
        layers: layers, one on top of the other.
        dropout: part of the outputs of a layer that is dropped in training.
        activation: "relu" or "tanh".
        embedding: size of a linear map on top; None: the last hidden layer itself.
        depth: rows in a window.
        mode: "regression" (from past inputs), "autoregression" (from past inputs and targets) or "simulation" (the
            same, validated in free runs).
        horizon: a window that ends at row i predicts the target of row i + horizon.
        padding: a window may begin before its sequence, with zeros in standard units; False: whole windows only.
        lengthscale: one, or one for each number of the embedding, to start from; None: the median distance.
        variance: prior variance of the function to start from, in standard units.
        noise: variance of the observation noise to start from, in standard units.
        inference: "exact", "interpolated" (on a grid, for an embedding of 1 or 2 numbers) or "auto" (exact up to 4000
            windows).
        grid: points of the grid along each number of the embedding.
        solver: of the interpolated process: "eigen" (eigenvectors of the grid, exact) or "cg" (GPyTorch's conjugate
            gradients and Lanczos quadrature).
        training: how to train; None: Training().
        standardize: scale inputs and targets to mean 0 and standard deviation 1 of the training part.
        precision: "single" or "double" precision of the network; the process is always in double.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        seed: of the weights, the mini-batches and the dropout.
    """

    def __init__(
        self,
        units: int = 128,
        *,
        layers: int = 1,
        dropout: float = 0.5,
        activation: str = "relu",
        embedding: int | None = None,
        depth: int = 32,
        mode: str = "autoregression",
        horizon: int = 1,
        padding: bool = False,
        lengthscale: Any = None,
        variance: float = 1.0,
        noise: float = 0.1,
        inference: str = "auto",
        grid: int = 100,
        solver: str = "eigen",
        training: Training | None = None,
        standardize: bool = True,
        precision: str = "single",
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        encoder = NARX(units, layers=layers, dropout=dropout, activation=activation, embedding=embedding)
        self._compose(encoder, depth, mode, horizon, padding, training, standardize, precision, device, seed)
        self._compose_process(lengthscale, variance, noise, inference, grid, solver)


def _linear(network: nn.Module, windows: Windows) -> nn.Linear:
    """A linear output on the embedding; how wide that is, one window tells."""
    width = embed(network, replace(windows, ends=windows.ends[:1])).shape[-1]
    like = windows.rows
    return nn.Linear(width, windows.targets.shape[1], device=like.device, dtype=like.dtype)

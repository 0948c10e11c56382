"""What is on top of a network: a linear output, or a process with its marginal likelihood, gradients and predictions.

Processes are in double precision and in standard units. Every output has hyperparameters of its own; theta holds their
logarithms, one row for each output: lengthscales, variance, noise.
"""

from __future__ import annotations

import abc
import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from streamgp.settings import FloatArray

LEAST_NOISE = 1e-6  # of the target's variance: below it the factor of K is not safe in double precision
WIDEST = math.log(1e6)  # of a logarithm, either way: standard units are of order 1
LOG_2PI = math.log(2.0 * math.pi)


class LinearHead(nn.Linear):
    """A linear output, which has no variance; its noise is the mean squared error of the rows that it was given."""

    noise: FloatArray

    def condition(self, H: Tensor, Y: Tensor) -> None:
        self.noise = (self.predict(H)[0] - Y).square().mean(0).cpu().numpy()

    def predict(self, H: Tensor) -> tuple[Tensor, Tensor]:
        mean = self(H).detach().double()
        return mean, torch.full_like(mean, math.nan)


class Evaluation(NamedTuple):
    """The negative log marginal likelihood of each row and output, and its gradients."""

    value: float
    by_embedding: Tensor  # (n, width)
    by_theta: Tensor  # (p, width + 2)


class ProcessHead(nn.Module, abc.ABC):
    """A process that is learned on embeddings."""

    theta: Tensor

    def __init__(self, theta: Tensor) -> None:
        super().__init__()
        self.register_buffer("theta", theta)

    @abc.abstractmethod
    def condition(self, H: Tensor, Y: Tensor) -> None:
        """Learn embeddings (n, width) and targets (n, p), in place of any before, with the weights as they are."""

    @abc.abstractmethod
    def predict(self, H: Tensor) -> tuple[Tensor, Tensor]:
        """Means and latent variances (n, p)."""

    def evaluate(self, H: Tensor, Y: Tensor) -> Evaluation:
        """The objective at embeddings (n, width) and targets (n, p)."""
        h, theta = H.detach().double().requires_grad_(), self.theta.detach().requires_grad_()
        with torch.enable_grad():
            value, along = self._objective(h, theta, Y)
            by_h, by_theta = torch.autograd.grad(along, [h, theta])
        count = Y.numel()
        return Evaluation(float(value.detach()) / count, by_h / count, by_theta / count)

    @abc.abstractmethod
    def _objective(self, h: Tensor, theta: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        """The negative log marginal likelihood, and a number with the same gradient by h and theta."""

    def tune(self, H: Tensor, Y: Tensor, steps: int) -> None:
        """Steps of L-BFGS on the hyperparameters for embeddings that stay."""
        shape = self.theta.shape

        def objective(logs: FloatArray) -> tuple[float, FloatArray]:
            self.theta.copy_(torch.as_tensor(logs).reshape(shape))
            result = self.evaluate(H, Y)
            return result.value, result.by_theta.cpu().numpy().ravel()

        start = self.theta.cpu().numpy().ravel()
        low = np.tile([*[-WIDEST] * (shape[1] - 1), math.log(LEAST_NOISE)], shape[0])
        bounds = [(a, WIDEST) for a in low]
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
        self.theta.copy_(torch.as_tensor(found.x).reshape(shape))

    @property
    def hyperparameters(self) -> dict[str, FloatArray]:
        """By name: lengthscales (p, width), variance and noise (p,)."""
        values = self.theta.exp().cpu().numpy()
        return {"lengthscale": values[:, :-2], "variance": values[:, -2], "noise": values[:, -1]}

    @property
    def noise(self) -> FloatArray:
        return self.hyperparameters["noise"]


Head = LinearHead | ProcessHead  # what predicts targets from embeddings, on top of a network


class ExactHead(ProcessHead):
    """The exact process: O(n^3) to evaluate, O(n) for a mean and O(n^2) for a variance."""

    def _objective(self, h: Tensor, theta: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        K = squared_exponential(theta, h, h)
        L, alpha = factor(K.detach(), self.theta, Y)
        # [alshedivat2017] Eq. (8), with the factor 1/2 that its gradients have.
        value = 0.5 * ((Y.T * alpha).sum() + Y.numel() * LOG_2PI) + L.diagonal(dim1=-2, dim2=-1).log().sum()
        # Eqs. (9) and (10), for the negative likelihood: dL = 1/2 tr((K^-1 - K^-1 y y' K^-1) dK)
        S = 0.5 * (torch.cholesky_inverse(L) - alpha[:, :, None] * alpha[:, None, :])
        return value, (S * K).sum() + (theta[:, -1].exp() * S.diagonal(dim1=-2, dim2=-1).sum(-1)).sum()

    def condition(self, H: Tensor, Y: Tensor) -> None:
        self._H = H.detach().double()
        with torch.no_grad():
            self._L, self._alpha = factor(squared_exponential(self.theta, self._H, self._H), self.theta, Y)

    def predict(self, H: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            k = squared_exponential(self.theta, self._H, H.double())  # (p, n, rows)
            mean = (k.mT @ self._alpha[:, :, None])[..., 0]
            v = torch.linalg.solve_triangular(self._L, k, upper=False)
            prior = self.theta[:, -2].exp()[:, None]
            variance = torch.minimum((prior - (v * v).sum(1)).clamp_min(0.0), prior)
        return mean.T, variance.T


def squared_exponential(theta: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """k(A, B) of every output, (p, n, m), without the noise."""
    lengthscale, variance = theta[:, None, :-2].exp(), theta[:, -2, None, None].exp()
    a, b = A / lengthscale, B / lengthscale
    distance2 = (a * a).sum(-1)[:, :, None] + (b * b).sum(-1)[:, None, :] - 2.0 * a @ b.mT
    return variance * torch.exp(-0.5 * distance2.clamp_min(0.0))


def factor(K: Tensor, theta: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """L with K + noise I = L L', and alpha = (K + noise I)^-1 y, (p, n)."""
    Ky = K + torch.diag_embed(theta[:, -1].exp()[:, None].expand(-1, K.shape[-1]))
    L, failed = torch.linalg.cholesky_ex(Ky)
    if bool(failed.any()):
        raise ValueError(
            "the covariance of the embeddings is not positive definite: training has diverged. Lower the learning "
            "rate, Training(rate=0.001), or its frequency of stale steps, Training(refresh=1)."
        )
    return L, torch.cholesky_solve(Y.T[:, :, None], L)[..., 0]


def starting_theta(H: Tensor, p: int, lengthscale: FloatArray | None, variance: float, noise: float) -> Tensor:
    """Logarithms to start from; without a lengthscale the median distance of the embeddings, for all alike."""
    width = H.shape[1]
    if lengthscale is None:
        some = H[torch.linspace(0, len(H) - 1, min(len(H), 500), device=H.device).long()].double()
        distances = torch.pdist(some) if len(some) > 1 else torch.ones(1, dtype=torch.double)
        typical = float(distances.median())
        lengthscale = np.array([typical if typical > 0 else 1.0])
    if lengthscale.size not in (1, width):
        raise ValueError(f"lengthscale has {lengthscale.size} values; give one, or one for each of the {width} units")
    logs = np.concatenate([np.resize(np.log(lengthscale), width), [math.log(variance), math.log(noise)]])
    return torch.tensor(np.tile(logs, (p, 1)), dtype=torch.double, device=H.device)

"""The process on a grid: structured kernel interpolation [alshedivat2017 A].

K is replaced by W K_UU W' with cubic interpolation weights W on a regular grid U over the embeddings; K_UU is a
Kronecker product of small Toeplitz matrices. Their eigenvectors make K_UU a product of n x r features, r being the
directions that matter, a few hundred for a smooth kernel: then the marginal likelihood and its whole gradient are
exact, and take O(n r^2). Predictions do not depend on n.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from streamgp.deep.gp import LOG_2PI, ProcessHead

MARGIN = 0.1  # of the range of the embeddings: the grid goes on beyond them on every side
OUTER = 3  # cells beyond the margin, which cubic weights may reach
MOST_POINTS = 1_000_000
DROPPED = 1e-9  # part of the prior variance, on average over the grid, that the dropped directions hold


class Directions(NamedTuple):
    """The leading eigenvectors of K_UU: products of those of each axis."""

    along: list[Tensor]  # of each axis, (points, r_i), those in use
    which: list[Tensor]  # (r,) column of each axis
    scale: Tensor  # (r,) roots of the eigenvalues


class InterpolatedHead(ProcessHead):
    """A process interpolated from a grid that covers the embeddings, by the eigenvectors of the grid."""

    _box: Tensor

    def __init__(self, theta: Tensor, grid: int) -> None:
        super().__init__(theta)
        width = theta.shape[1] - 2
        if grid**width > MOST_POINTS:
            raise ValueError(
                f"a grid of {grid} points along each of the {width} numbers of the embedding is too large. Give the "
                "encoder a linear map to 1 or 2 numbers, for example GPLSTM(embedding=2), or use a coarser grid."
            )
        self._points = grid
        # The lowest and highest embedding that the grid is made for.
        self.register_buffer("_box", theta.new_zeros(2, width))

    def _objective(self, h: Tensor, theta: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        self._cover(h)
        n = len(Y)
        value, along = h.new_zeros(()), h.new_zeros(())
        for own, y in zip(theta, Y.T, strict=True):
            directions = self._directions(own)
            noise = float(own.detach()[-1].exp())
            P = self._project(h, directions)
            Phi, L, _, alpha = _solve(P.detach(), directions.scale, noise, y)
            r = len(L)
            # [alshedivat2017] Eq. (8), with the factor 1/2 that its gradients have.
            value = value + 0.5 * (y @ alpha + n * (math.log(noise) + LOG_2PI)) + L.diagonal().log().sum()
            inverse = torch.cholesky_inverse(L)
            # Eq. (10) by Phi: (K^-1 - alpha alpha') Phi, with K^-1 Phi = Phi B^-1 / noise
            by_Phi = Phi @ inverse / noise - torch.outer(alpha, alpha @ Phi)
            along = along + (by_Phi * directions.scale * P).sum()
            # Eq. (9): the kernel within the directions is P D P', and Phi' K^-1 Phi = I - B^-1
            data = alpha @ P.detach()
            rest = torch.eye(r, dtype=torch.double, device=h.device) - inverse
            S = 0.5 * (rest / torch.outer(directions.scale, directions.scale) - torch.outer(data, data))
            trace = 0.5 * ((n - r + inverse.trace()) / noise - alpha @ alpha)
            along = along + (S * self._within(own, directions)).sum() + trace * own[-1].exp()
        return value, along

    def condition(self, H: Tensor, Y: Tensor) -> None:
        self._cover(H)
        self._learned: list[tuple[Directions, Tensor, Tensor]] = []  # of each output, with L and the weights
        with torch.no_grad():
            for own, y in zip(self.theta, Y.T, strict=True):
                directions = self._directions(own)
                P = self._project(H.double(), directions)
                _, L, weights, _ = _solve(P, directions.scale, float(own[-1].exp()), y)
                self._learned.append((directions, L, weights))

    def predict(self, H: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            H = H.double()
            low, high = self._reach()
            inside = torch.minimum(torch.maximum(H, low), high)
            prior = self.theta[:, -2].exp()
            means, variances = [], []
            for (directions, L, weights), most in zip(self._learned, prior, strict=True):
                Phi = self._project(inside, directions) * directions.scale
                v = torch.linalg.solve_triangular(L, Phi.T, upper=False)
                reduction = (Phi * Phi).sum(1) - (v * v).sum(0)
                means.append(Phi @ weights)
                variances.append(torch.minimum((most - reduction).clamp_min(0.0), most))
            mean, variance = torch.stack(means, dim=1), torch.stack(variances, dim=1)
            # Beyond the grid the function is known through its value at the edge alone.
            away = ((H - inside) / self.theta[:, None, :-2].exp()).square().sum(-1).T
            rho2 = torch.exp(-away)
            return rho2.sqrt() * mean, rho2 * variance + (1.0 - rho2) * prior

    def _cover(self, H: Tensor) -> None:
        """Move the grid where embeddings lie beyond it, or in less than half of it."""
        low, high = H.detach().double().min(0).values, H.detach().double().max(0).values
        reach_low, reach_high = self._reach()
        fits = (low >= reach_low) & (high <= reach_high) & (high - low >= 0.5 * (self._box[1] - self._box[0]))
        if not bool(torch.all(fits & (self._box[1] > self._box[0]))):
            self._box[0], self._box[1] = low, torch.maximum(high, low + 1e-9)

    def _reach(self) -> tuple[Tensor, Tensor]:
        margin = MARGIN * (self._box[1] - self._box[0])
        return self._box[0] - margin, self._box[1] + margin

    def _axes(self) -> Tensor:
        """(width, points): the grid along each number of the embedding."""
        low, high = self._reach()
        step = (high - low) / (self._points - 1 - 2 * OUTER)
        count = torch.arange(self._points, dtype=torch.double, device=step.device) - OUTER
        return low[:, None] + step[:, None] * count

    def _weights(self, H: Tensor) -> tuple[Tensor, Tensor]:
        """Which four points of each axis lie around, and their weights: (n, width, 4)."""
        axes = self._axes()
        place = (H - axes[:, 0]) / (axes[:, 1] - axes[:, 0])
        first = place.detach().floor().long() - 1
        around = first[:, :, None] + torch.arange(4, device=H.device)
        # Cubic convolution, of [alshedivat2017 A.1]: within one cell, and from one to two cells away.
        s = (place[:, :, None] - around).abs()
        near = (1.5 * s - 2.5) * s * s + 1.0
        far = ((-0.5 * s + 2.5) * s - 4.0) * s + 2.0
        return around, torch.where(s <= 1.0, near, far)

    def _toeplitz(self, theta: Tensor) -> list[Tensor]:
        """[alshedivat2017] Eq. (A.2): the kernel along each axis, without the variance."""
        return [
            torch.exp(-0.5 * ((axis[:, None] - axis[None, :]) / scale).square())
            for axis, scale in zip(self._axes(), theta[:-2].exp(), strict=True)
        ]

    def _directions(self, theta: Tensor) -> Directions:
        values, along = zip(*(torch.linalg.eigh(T) for T in self._toeplitz(theta.detach())), strict=True)
        product = theta[-2].detach().exp()[None]
        for axis in values:
            product = (product[:, None] * axis.clamp_min(0.0)).reshape(-1)
        order = product.argsort(descending=True)
        rest = product.sum() - product[order].cumsum(0)  # beyond each
        r = max(1, int((rest > DROPPED * product.sum()).sum()))
        columns = torch.unravel_index(order[:r], [len(axis) for axis in values])
        used, which = zip(*(torch.unique(column, return_inverse=True) for column in columns), strict=True)
        kept = [Q[:, own] for Q, own in zip(along, used, strict=True)]
        return Directions(kept, list(which), product[order[:r]].sqrt())

    def _project(self, H: Tensor, directions: Directions) -> Tensor:
        """P = W Q, (n, r), for the eigenvectors Q."""
        around, weights = self._weights(H)
        P = H.new_ones(())
        for i, (Q, which) in enumerate(zip(directions.along, directions.which, strict=True)):
            P = P * (Q[around[:, i]] * weights[:, i, :, None]).sum(1)[:, which]
        return P

    def _within(self, theta: Tensor, directions: Directions) -> Tensor:
        """D = Q' K_UU Q, (r, r), as a function of theta."""
        D = theta[-2].exp()
        for T, Q, which in zip(self._toeplitz(theta), directions.along, directions.which, strict=True):
            D = D * (Q.T @ T @ Q)[which][:, which]
        return D


def _solve(P: Tensor, scale: Tensor, noise: float, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of K = Phi Phi': Phi, L of I + Phi' Phi / noise, the mean of the weights, and alpha."""
    Phi = P * scale
    B = Phi.T @ Phi / noise
    B.diagonal().add_(1.0)
    L = torch.linalg.cholesky(B)
    weights = torch.cholesky_solve((Phi.T @ y)[:, None] / noise, L)[:, 0]
    return Phi, L, weights, (y - Phi @ weights) / noise

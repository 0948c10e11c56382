"""The process on a grid by the operators of GPyTorch: conjugate gradients and Lanczos quadrature.

O(n) with any number of directions; the determinant and its gradient come from random probes. With few rows GPyTorch
factorises instead, and all is exact.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from streamgp.deep.gp import LOG_2PI, Evaluation
from streamgp.deep.interpolated import GridHead

TOLERANCE = 0.01  # relative residual of the conjugate gradients


class OperatorHead(GridHead):
    """The interpolated process by conjugate gradients; means and variances are cached on the grid."""

    def __init__(self, theta: Tensor, grid: int) -> None:
        _import_gpytorch()
        super().__init__(theta, grid)

    def evaluate(self, H: Tensor, Y: Tensor) -> Evaluation:
        n, p = Y.shape
        self._cover(H)
        h = H.detach().double().requires_grad_()
        theta = self.theta.detach().requires_grad_()
        with torch.enable_grad(), _numerics():
            indices, weights = self._flat_weights(h)
            # [alshedivat2017] Eq. (8), with the factor 1/2 that its gradients have; eqs. (9) and (10) by reverse
            # differentiation, the determinant's part included.
            value = theta.new_zeros(())
            for j in range(p):
                K = self._covariance(theta[j], indices, weights).add_diagonal(theta[j, -1].exp().expand(n))
                quadratic, determinant = K.inv_quad_logdet(Y[:, j, None], logdet=True)
                value = value + 0.5 * (quadratic + determinant + n * LOG_2PI)
            by_h, by_theta = torch.autograd.grad(value, [h, theta])
        return Evaluation(float(value.detach()) / (n * p), by_h / (n * p), by_theta / (n * p))

    def condition(self, H: Tensor, Y: Tensor) -> None:
        self._cover(H)
        self._cached = []
        with torch.no_grad(), _numerics():
            indices, weights = self._flat_weights(H.double())
            for theta, y in zip(self.theta, Y.T, strict=True):
                K = self._covariance(theta, indices, weights)
                Ky = K.add_diagonal(theta[-1].exp().expand(len(H)))
                # [alshedivat2017] Eq. (A.3): K_UU W' (K + noise I)^-1 y; and the same for a root of the inverse, by
                # Lanczos, which takes off too little of the variance rather than too much.
                solved = torch.cat([Ky.solve(y[:, None]), Ky.root_inv_decomposition().root.to_dense()], dim=1)
                spread = solved.new_zeros(K.base_linear_op.shape[0], solved.shape[1])
                for k in range(indices.shape[1]):
                    spread.index_add_(0, indices[:, k], weights[:, k, None] * solved)
                self._cached.append(K.base_linear_op @ spread)

    def _predict_inside(self, H: Tensor) -> tuple[Tensor, Tensor]:
        indices, weights = self._flat_weights(H)
        means, variances = [], []
        for theta, cached in zip(self.theta, self._cached, strict=True):
            seen = torch.einsum("nkc,nk->nc", cached[indices], weights)
            prior = theta[-2].exp()
            means.append(seen[:, 0])
            variances.append((prior - seen[:, 1:].square().sum(1)).clamp_min(0.0))
        return torch.stack(means, dim=1), torch.stack(variances, dim=1)

    def _flat_weights(self, H: Tensor) -> tuple[Tensor, Tensor]:
        """Indices of grid points and weights, (n, 4^width)."""
        around, weights = self._weights(H)
        indices, product = around[:, 0], weights[:, 0]
        for i in range(1, H.shape[1]):
            indices = (indices[:, :, None] * self._points + around[:, i, None, :]).flatten(1)
            product = (product[:, :, None] * weights[:, i, None, :]).flatten(1)
        return indices, product

    def _covariance(self, theta: Tensor, indices: Tensor, weights: Tensor) -> Any:
        """W K_UU W' as an operator."""
        from linear_operator import operators

        # [alshedivat2017] Eq. (A.2)
        columns = [
            torch.exp(-0.5 * ((axis - axis[0]) / scale).square())
            for axis, scale in zip(self._axes(), theta[:-2].exp(), strict=True)
        ]
        columns[0] = theta[-2].exp() * columns[0]
        base = operators.KroneckerProductLinearOperator(*[operators.ToeplitzLinearOperator(c) for c in columns])
        return operators.InterpolatedLinearOperator(base, indices, weights, indices, weights)


@contextlib.contextmanager
def _numerics() -> Iterator[None]:
    from gpytorch import settings

    with settings.cg_tolerance(TOLERANCE), settings.eval_cg_tolerance(TOLERANCE), warnings.catch_warnings():
        # Remarks of PyTorch on how GPyTorch builds sparse matrices; solves that fail are RuntimeWarnings and stay.
        warnings.filterwarnings("ignore", category=UserWarning, module="linear_operator")
        yield


def _import_gpytorch() -> None:
    try:
        with warnings.catch_warnings():  # it is built with parts of PyTorch that are deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            import gpytorch  # noqa: F401
    except ImportError as error:
        raise ImportError('solver="cg" needs GPyTorch: pip install "streamgp[deep]"', name=error.name) from error

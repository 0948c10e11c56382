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
        with _numerics():
            return super().evaluate(H, Y)

    def _objective(self, h: Tensor, theta: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
        self._cover(h)
        grid = self._flat_weights(h)
        # [alshedivat2017] Eq. (8), with the factor 1/2 that its gradients have; eqs. (9) and (10) by reverse
        # differentiation, the determinant's part included.
        value = theta.new_zeros(())
        for own, y in zip(theta, Y.T, strict=True):
            _, Ky = self._covariance(own, *grid)
            quadratic, determinant = Ky.inv_quad_logdet(y[:, None], logdet=True)
            value = value + 0.5 * (quadratic + determinant + len(y) * LOG_2PI)
        return value, value

    def _learn(self, theta: Tensor, H: Tensor, y: Tensor) -> Tensor:
        with _numerics():
            indices, weights = self._flat_weights(H)
            K, Ky = self._covariance(theta, indices, weights)
            # [alshedivat2017] Eq. (A.3): K_UU W' (K + noise I)^-1 y; and the same for a root of the inverse, by
            # Lanczos, which takes off too little of the variance rather than too much.
            solved = torch.cat([Ky.solve(y[:, None]), Ky.root_inv_decomposition().root.to_dense()], dim=1)
            spread = solved.new_zeros(K.base_linear_op.shape[0], solved.shape[1])
            for k in range(indices.shape[1]):
                spread.index_add_(0, indices[:, k], weights[:, k, None] * solved)
            cached: Tensor = K.base_linear_op @ spread
        return cached

    def _known(self, learnt: Tensor, H: Tensor) -> tuple[Tensor, Tensor]:
        indices, weights = self._flat_weights(H)
        seen = torch.einsum("nkc,nk->nc", learnt[indices], weights)
        return seen[:, 0], seen[:, 1:].square().sum(1)

    def _flat_weights(self, H: Tensor) -> tuple[Tensor, Tensor]:
        """Indices of grid points and weights, (n, 4^width)."""
        around, weights = self._weights(H)
        indices, product = around[:, 0], weights[:, 0]
        for i in range(1, H.shape[1]):
            indices = (indices[:, :, None] * self._points + around[:, i, None, :]).flatten(1)
            product = (product[:, :, None] * weights[:, i, None, :]).flatten(1)
        return indices, product

    def _covariance(self, theta: Tensor, indices: Tensor, weights: Tensor) -> tuple[Any, Any]:
        """W K_UU W' as an operator, and with the noise."""
        from linear_operator import operators

        # [alshedivat2017] Eq. (A.2)
        columns = [
            torch.exp(-0.5 * ((axis - axis[0]) / scale).square())
            for axis, scale in zip(self._axes(), theta[:-2].exp(), strict=True)
        ]
        columns[0] = theta[-2].exp() * columns[0]
        base = operators.KroneckerProductLinearOperator(*[operators.ToeplitzLinearOperator(c) for c in columns])
        K = operators.InterpolatedLinearOperator(base, indices, weights, indices, weights)
        return K, K.add_diagonal(theta[-1].exp().expand(len(indices)))


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

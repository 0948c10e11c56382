"""Whole matrices by LAPACK, for what happens once in many rows: factors A = R'R, upper triangles."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymm, dsyrk
from scipy.linalg.lapack import dpotrf, dtrtri, dtrtrs

from streamgp.settings import FloatArray


def factorize(A: FloatArray) -> tuple[FloatArray, int]:
    """R with A = R'R from the upper triangle of A, and 0; where A is not positive, which pivot fails, from 1 on."""
    if len(A) == 0:
        return A, 0
    R, failed = dpotrf(A, lower=0, clean=1)
    if not failed and not np.isfinite(R[-1, -1]):  # LAPACK may take NaN for a pivot, and all after it are NaN
        failed = 1 + int(np.argmin(np.isfinite(np.diagonal(R))))
    return R, failed


def solve(R: FloatArray, b: FloatArray) -> FloatArray:
    """R^-1 b."""
    return _solved(R, b, 0)


def solve_transposed(R: FloatArray, b: FloatArray) -> FloatArray:
    """R^-T b."""
    return _solved(R, b, 1)


def _solved(R: FloatArray, b: FloatArray, transposed: int) -> FloatArray:
    if b.size == 0:
        return b
    if R.flags.c_contiguous:  # LAPACK's order is the other one, in which R' is the lower triangle as it lies there
        return dtrtrs(R.T, b, lower=1, trans=1 - transposed)[0].reshape(b.shape)  # type: ignore[no-any-return]
    return dtrtrs(R, b, trans=transposed)[0].reshape(b.shape)  # type: ignore[no-any-return]


def inverse(R: FloatArray) -> FloatArray:
    """R^-1."""
    return dtrtri(R)[0] if len(R) else R


def product(S: FloatArray, X: FloatArray) -> FloatArray:
    """S X of a symmetric matrix of which the lower triangle is given."""
    return dsymm(1.0, S.T, X, lower=0) if X.size else X


def subtract_gram(S: FloatArray, H: FloatArray) -> None:
    """S <- S - H'H in place, of the lower triangle."""
    if H.size:
        S[...] = dsyrk(-1.0, H, 1.0, S.T, trans=1, lower=0, overwrite_c=1).T


def outer(A: FloatArray) -> FloatArray:
    """The upper triangle of A A'."""
    return dsyrk(1.0, A) if A.size else np.zeros((len(A), len(A)))


def symmetric(A: FloatArray) -> FloatArray:
    """Full matrices, (..., n, n), of which the lower triangles are given."""
    return np.where(np.tri(A.shape[-1], dtype=bool), A, np.swapaxes(A, -1, -2))

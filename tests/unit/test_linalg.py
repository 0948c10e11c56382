from __future__ import annotations

import numpy as np
import pytest

from streamgp.linalg import dense, symmetric, triangular
from tests.inside import called

pytestmark = [pytest.mark.interpreted, pytest.mark.more]  # compiled function by function

SIZES = [1, 2, 3, 4, 5, 8, 11, 17]


def positive(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n + 3))
    return A @ A.T + 0.1 * np.eye(n)


def padded_lower(A, room=2):
    """The lower triangle in a larger array whose other entries must not be read."""
    n = len(A)
    out = np.full((n + room, n + room), np.nan)
    out[:n, :n][np.tril_indices(n)] = A[np.tril_indices(n)]
    return out


def padded_upper(R, room=2):
    return padded_lower(R.T, room).T.copy()


def factor(A):
    return np.linalg.cholesky(A).T


@pytest.mark.parametrize("n", SIZES)
def test_multiply_reads_the_lower_triangle_only(n):
    A, x = positive(n), np.random.default_rng(1).normal(size=n + 2)
    y = np.full(n + 2, np.nan)
    called(symmetric.multiply)(padded_lower(A), x, n, y)
    np.testing.assert_allclose(y[:n], A @ x[:n], rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [1.0, 0.9])
def test_scale_and_subtract(n, scale):
    A, h = positive(n), np.random.default_rng(1).normal(size=n)
    M = padded_lower(A)
    called(symmetric.scale_and_subtract)(M, scale, h, 0.3, n)
    np.testing.assert_allclose(np.tril(M[:n, :n]), np.tril(scale * A - 0.3 * np.outer(h, h)), atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_deleting_a_column_rotates_vectors_and_symmetric_matrices_alike(n):
    rng = np.random.default_rng(1)
    R, A, X = factor(positive(n)), positive(n), rng.normal(size=(n, 2))
    for r in range(n):
        S, M, x = padded_upper(R), np.tril(A) + np.triu(np.full((n, n), np.nan), 1), X.copy()
        column, c, s, work = (np.zeros(n) for _ in range(4))
        called(triangular.delete)(S, r, n, column, c, s, work)
        U = np.eye(n)  # the product of the rotations
        called(triangular.rotate)(U, r, n, c, s)
        np.testing.assert_allclose(U @ U.T, np.eye(n), atol=1e-12)
        np.testing.assert_allclose(
            U @ np.delete(R, r, axis=1), np.vstack([np.triu(S[: n - 1, : n - 1]), np.zeros(n - 1)]), atol=1e-11
        )
        np.testing.assert_allclose(U @ R[:, r], column, atol=1e-11)
        called(triangular.rotate)(x, r, n, c, s)
        np.testing.assert_allclose(x, U @ X, atol=1e-12)
        called(symmetric.rotate)(M, r, n, c, s, work)
        np.testing.assert_allclose(np.tril(M), np.tril(U @ A @ U.T), atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_solves(n):
    A, b = positive(n), np.random.default_rng(1).normal(size=n)
    R = padded_upper(factor(A))
    x = np.empty(n)
    called(triangular.solve_transposed)(R, b, n, x)
    np.testing.assert_allclose(factor(A).T @ x, b, atol=1e-12)
    called(triangular.solve)(R, b, n, x)
    np.testing.assert_allclose(factor(A) @ x, b, atol=1e-12)
    for r in range(n):
        called(triangular.inverse_root)(R, r, n, x)
        np.testing.assert_allclose(factor(A).T @ x, np.eye(n)[r], atol=1e-10)


@pytest.mark.parametrize("n", [0, *SIZES])
def test_whole_matrices_are_factorized_inverted_and_solved(n):
    A, b = positive(n), np.random.default_rng(1).normal(size=(n, 2))
    R, failed = dense.factorize(A)
    assert failed == 0
    np.testing.assert_allclose(R, factor(A), atol=1e-12)
    np.testing.assert_allclose(dense.inverse(R) @ R, np.eye(n), atol=1e-11)
    np.testing.assert_allclose(R @ dense.solve(R, b), b, atol=1e-12)
    np.testing.assert_allclose(R.T @ dense.solve_transposed(R, b), b, atol=1e-12)
    np.testing.assert_array_equal(dense.symmetric(np.tril(A)), A)
    np.testing.assert_allclose(dense.outer(b), np.triu(b @ b.T), atol=1e-12)


@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_the_first_pivot_that_fails_is_named(wrong):
    A = positive(6)
    A[3, 3] = wrong
    assert dense.factorize(A)[1] == 4


@pytest.mark.parametrize("n", SIZES)
def test_rotating_a_row_in_equals_factoring_anew(n):
    rng = np.random.default_rng(1)
    A, phi, y = positive(n), rng.normal(size=n), rng.normal(size=2)
    z = rng.normal(size=(n, 2))
    R = padded_upper(factor(A))
    called(triangular.rotate_in)(R, z_new := z.copy(), 0.5, phi, 3.0, y.copy(), n, np.empty(n))
    new = 0.25 * A + 9.0 * np.outer(phi, phi)
    np.testing.assert_allclose(np.triu(R[:n, :n]), factor(new), atol=1e-12)
    np.testing.assert_allclose(factor(new).T @ z_new, 0.25 * factor(A).T @ z + 9.0 * np.outer(phi, y), atol=1e-12)


def test_a_row_that_repeats_others_says_nothing_of_other_directions():
    rng = np.random.default_rng(0)
    phi, R, z = 1e9 * rng.normal(size=4), 0.1 * np.eye(4), np.zeros((4, 1))
    for k in range(100):
        called(triangular.rotate_in)(R, z, 1.0, phi, 1.0, rng.normal(size=1), 4, np.empty(4))
        if k == 0:
            before = R[1:].copy(), z[1:].copy()
    np.testing.assert_array_equal(R[1:], before[0])
    np.testing.assert_array_equal(z[1:], before[1])


@pytest.mark.parametrize("n", SIZES)
def test_appending_then_deleting_any_column_equals_factoring_anew(n):
    A = positive(n + 1)
    R = np.zeros((n + 2, n + 2))
    R[:n, :n] = factor(A[:n, :n])
    column = np.empty(n)
    called(triangular.solve_transposed)(R, A[:n, n].copy(), n, column)
    called(triangular.append)(R, column, np.sqrt(A[n, n] - column @ column), n)
    np.testing.assert_allclose(np.triu(R[: n + 1, : n + 1]), factor(A), atol=1e-12)
    for r in range(n + 1):
        S = R.copy()
        called(triangular.delete)(S, r, n + 1, *(np.empty(n + 1) for _ in range(4)))
        keep = [i for i in range(n + 1) if i != r]
        np.testing.assert_allclose(S[:n, :n], factor(A[np.ix_(keep, keep)]), atol=1e-11)
        assert not S[n].any()
        assert not S[:, n].any()

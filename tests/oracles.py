"""Slow, obvious definitions. Nothing here shares code with the library: kernels, posteriors and recursions are written
again from the textbook formulas, in batch form wherever one exists."""

from __future__ import annotations

import numpy as np


def distance2(X, Z, lengthscale):
    X, Z = np.atleast_2d(X) / lengthscale, np.atleast_2d(Z) / lengthscale
    return ((X[:, None, :] - Z[None, :, :]) ** 2).sum(-1)


def squared_exponential(lengthscale=1.0, variance=1.0):
    return lambda X, Z: variance * np.exp(-0.5 * distance2(X, Z, lengthscale))


def matern(order, lengthscale=1.0, variance=1.0):
    def kernel(X, Z):
        r = np.sqrt(distance2(X, Z, lengthscale))
        if order == 0.5:
            return variance * np.exp(-r)
        if order == 1.5:
            return variance * (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
        return variance * (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)

    return kernel


def recursive_value(x, z, t, lengthscale, temporal):
    """kappa_t of two sequences, by direct recursion from the newest input back."""
    if t < 0:
        return 1.0
    before = recursive_value(x, z, t - 1, lengthscale, temporal)
    spatial = np.exp(-0.5 * np.sum(((x[t] - z[t]) / lengthscale) ** 2))
    return spatial * np.exp((before - 1.0) / temporal**2)


def recursive_kernel(depth, lengthscale=1.0, temporal=1.2, variance=1.0):
    def kernel(X, Z):
        X, Z = (np.asarray(A).reshape(len(A), depth, -1) for A in (X, Z))
        return np.array([[variance * recursive_value(x, z, depth - 1, lengthscale, temporal) for z in Z] for x in X])

    return kernel


def windows(X, depth):
    """Row t holds the last inputs, oldest first, zeros before the start."""
    X = np.asarray(X, dtype=float).reshape(len(X), -1)
    padded = np.vstack([np.zeros((depth - 1, X.shape[1])), X])
    return np.array([padded[t : t + depth].ravel() for t in range(len(X))])


def diagonal(kernel, X):
    return np.array([kernel(x[None], x[None])[0, 0] for x in X])


def exact_gp(kernel, X, Y, Xs, noise, jitter=0.0):
    """Mean and latent variance of the batch GP."""
    A = kernel(X, X) + np.diag(noise + jitter * diagonal(kernel, X))
    k, prior = kernel(X, Xs), (1.0 + jitter) * diagonal(kernel, Xs)
    return k.T @ np.linalg.solve(A, Y), prior - np.einsum("ij,ij->j", k, np.linalg.solve(A, k))


def fitc(kernel, points, X, Y, Xs, noise, jitter=0.0):
    """Fully independent training conditional in batch [Snelson and Ghahramani 2006]: dense matrices of all rows."""
    Kuu = kernel(points, points) + jitter * np.diag(diagonal(kernel, points))
    Kuf, Kus = kernel(points, X), kernel(points, Xs)
    Qff = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    Lambda = np.diag((1.0 + jitter) * diagonal(kernel, X) - np.diag(Qff)) + noise * np.eye(len(X))
    A = Qff + Lambda
    Qsf = Kus.T @ np.linalg.solve(Kuu, Kuf)
    mean = Qsf @ np.linalg.solve(A, Y)
    return mean, diagonal(kernel, Xs) + jitter - np.einsum("ij,ji->i", Qsf, np.linalg.solve(A, Qsf.T))


def dtc(kernel, points, X, Y, Xs, noise):
    """Deterministic training conditional in batch: the residuals of the rows are dropped."""
    Kuu, Kuf, Kus = kernel(points, points), kernel(points, X), kernel(points, Xs)
    A = Kuf.T @ np.linalg.solve(Kuu, Kuf) + noise * np.eye(len(X))
    Qsf = Kus.T @ np.linalg.solve(Kuu, Kuf)
    return Qsf @ np.linalg.solve(A, Y), diagonal(kernel, Xs) - np.einsum("ij,ji->i", Qsf, np.linalg.solve(A, Qsf.T))


def dense_kalman(mean, covariance, Phi, residuals, y, noise, forget=None):
    """The Kalman filter over all weights, (I - K phi') P (I - K phi')' + K R K' (Joseph form)."""
    w, P = mean.copy(), covariance.copy()
    for phi, residual, target in zip(Phi, residuals, y, strict=True):
        if forget is not None:
            w, P = forget(w, P)
        S = phi @ P @ phi + residual + noise
        gain = P @ phi / S
        w = w + gain * (target - phi @ w)
        A = np.eye(len(w)) - np.outer(gain, phi)
        P = A @ P @ A.T + np.outer(gain, gain) * (residual + noise)
    return w, P


def fourier(frequencies, variance=1.0):
    D = len(frequencies)
    return lambda X: np.sqrt(variance / D) * np.hstack([np.cos(X @ frequencies.T), np.sin(X @ frequencies.T)])


def ssgpr(features, X, Y, Xs, noise):
    """Batch sparse spectrum GP: Bayesian linear regression with unit prior."""
    Phi, Phis = features(X), features(Xs)
    A = Phi.T @ Phi + noise * np.eye(Phi.shape[1])
    return Phis @ np.linalg.solve(A, Phi.T @ Y), noise * np.einsum("ij,ji->i", Phis, np.linalg.solve(A, Phis.T))

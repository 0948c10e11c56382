"""The same updates in plain NumPy, as one writes them from the papers: what a row costs without compiled code.

Every class takes one row at a time (the recursive GP a batch) and returns the mean and the latent variance that it
predicted before it learned. The tests compare them with the models.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

import streamgp as sg
from contestants import LENGTHSCALE, NOISE, WIDTH, Rows
from timing import Work

FORGETTING, JITTER = 0.999, 1e-6  # of the tracker
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def squared_exponential(lengthscale: float) -> Kernel:
    """k(B, x) of points (m, d) and one input (d,)."""
    return lambda B, x: np.exp(-0.5 * ((B - x) ** 2).sum(axis=-1) / lengthscale**2)


def recursive(lengthscale: float, temporal: float) -> Kernel:
    """k(B, x) of windows (m, depth, d) and one window (depth, d), oldest first."""
    apart = squared_exponential(lengthscale)

    def kernel(B: np.ndarray, x: np.ndarray) -> np.ndarray:
        kappa = np.ones(len(B))
        for step in apart(B, x).T:
            kappa = step * np.exp((kappa - 1.0) / temporal**2)  # [soh2014] IV
        return kappa

    return kernel


class NoMemory:
    shape: tuple[int, ...] = (WIDTH,)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x


class Window:
    """The last inputs, oldest first."""

    def __init__(self, depth: int) -> None:
        self.shape = (depth, WIDTH)
        self.window = np.zeros(self.shape)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.window[:-1] = self.window[1:]
        self.window[-1] = x
        return self.window


class Reservoir:
    """The state of an echo-state network and the input."""

    def __init__(self, units: int) -> None:
        self.recurrent, self.input, self.bias, _ = sg.Reservoir(units).weights(WIDTH, 1)
        self.state = np.zeros(units)
        self.shape = (units + WIDTH,)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.state = np.tanh(self.recurrent @ self.state + self.input @ x + self.bias)  # [soh2014] Eq. (1)
        return np.concatenate([self.state, x])


class Absorbing:
    """A sparse online GP: the first m rows become its basis, all others are absorbed [soh2014 III]."""

    def __init__(self, m: int, kernel: Kernel, memory: NoMemory | Window | Reservoir) -> None:
        self.kernel, self.memory, self.m, self.n = kernel, memory, m, 0
        self.B = np.zeros((m, *memory.shape))
        self.alpha, self.C, self.Q = np.zeros(m), np.zeros((m, m)), np.zeros((m, m))

    def step(self, x: np.ndarray, y: float) -> tuple[float, float]:
        n, seen = self.n, self.memory(x)
        alpha, C, Q = self.alpha[:n], self.C[:n, :n], self.Q[:n, :n]
        k = self.kernel(self.B[:n], seen)
        g, psi = C @ k, Q @ k
        mean, v = k @ alpha, 1.0 + k @ g
        s = v + NOISE
        if n < self.m:
            border(self.Q, psi, 1.0 - k @ psi, n)
            self.B[n] = seen
            h = np.append(g, 1.0)
            self.n = n + 1
        else:
            h = g + psi
        # [soh2014] Eqs. (17), (18), (24)
        self.alpha[: self.n] += h * ((y - mean) / s)
        self.C[: self.n, : self.n] -= np.outer(h, h) / s
        return mean, v


class Tracker:
    """Kernel recursive least squares that forgets, admits every row and prunes [vanvaerenbergh2016 2.2]."""

    def __init__(self, m: int) -> None:
        self.kernel, self.m, self.n = squared_exponential(LENGTHSCALE), m, 0
        self.B = np.zeros((m + 1, WIDTH))
        self.alpha, self.C, self.Q = np.zeros(m + 1), np.zeros((m + 1, m + 1)), np.zeros((m + 1, m + 1))

    def step(self, x: np.ndarray, y: float) -> tuple[float, float]:
        n, kappa = self.n, 1.0 + JITTER
        k = self.kernel(self.B[:n], x)
        product, psi = self.C[:n, :n] @ k, self.Q[:n, :n] @ k
        predicted = k @ self.alpha[:n], kappa + k @ product
        self.alpha *= np.sqrt(FORGETTING)
        self.C *= FORGETTING
        g = FORGETTING * product
        s = kappa + k @ g + NOISE
        border(self.Q, psi, kappa - k @ psi, n)
        self.B[n] = x
        h = np.append(g, 1.0)
        self.alpha[: n + 1] += h * ((y - k @ self.alpha[:n]) / s)
        self.C[: n + 1, : n + 1] -= np.outer(h, h) / s
        if n < self.m:
            self.n = n + 1
        else:
            self.prune()
        return predicted

    def prune(self) -> None:
        """Take out the point whose loss changes the mean least; the last one takes its place."""
        r = int(np.argmin(np.abs(self.alpha) / np.diag(self.Q)))
        q, c = self.Q[:, r].copy(), self.C[:, r].copy()
        u = q / q[r]
        # [soh2014] Eqs. (26)-(28)
        self.alpha -= self.alpha[r] * u
        mixed = np.outer(u, c)
        self.C += c[r] * np.outer(u, u) - mixed - mixed.T
        self.Q -= np.outer(q, u)
        for A in (self.B, self.alpha, self.C, self.Q, self.C.T, self.Q.T):
            A[r] = A[-1]
            A[-1] = 0.0


def border(Q: np.ndarray, psi: np.ndarray, gamma2: float, n: int) -> None:
    """The inverse of a kernel matrix grows by one point: [vanvaerenbergh2016] Eq. (4)."""
    a = np.append(psi, -1.0)
    Q[: n + 1, : n + 1] += np.outer(a, a) / gamma2


class Recursive:
    """A GP on given points, learned in batches [huber2013]."""

    def __init__(self, m: int, batch: int) -> None:
        self.B, self.batch = Rows(1).take(m)[0], batch
        self.K = self.cross(self.B)
        self.Q = np.linalg.inv(self.K)
        self.mu, self.C = np.zeros(m), self.K.copy()

    def cross(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
        Z = self.B if Z is None else Z
        return squared_exponential(LENGTHSCALE)(Z[None], X[:, None])

    def step(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k = self.cross(X)
        J = k @ self.Q
        mean, G = J @ self.mu, J @ self.C
        S = self.cross(X, X) - J @ k.T + G @ J.T  # [huber2013] Eqs. (13)-(16)
        variance = np.diag(S).copy()
        gain = np.linalg.solve(S + NOISE * np.eye(len(X)), G).T
        self.mu += gain @ (y - mean)
        self.C -= gain @ G
        return mean, variance


class Fourier:
    """Bayesian regression on Fourier features, its covariance updated [gijsberts2013]."""

    def __init__(self, m: int) -> None:
        self.frequencies = sg.Fourier(m // 2, lengthscale=LENGTHSCALE).frequencies(WIDTH, 1)
        self.amplitude = np.sqrt(2.0 / m)
        self.w, self.Sigma = np.zeros(m), np.eye(m)

    def features(self, x: np.ndarray) -> np.ndarray:
        angles = self.frequencies @ x
        return self.amplitude * np.concatenate([np.cos(angles), np.sin(angles)])

    def step(self, x: np.ndarray, y: float) -> tuple[float, float]:
        phi = self.features(x)
        g = self.Sigma @ phi
        mean, v = phi @ self.w, phi @ g
        self.w += g * ((y - mean) / (v + NOISE))
        self.Sigma -= np.outer(g, g) / (v + NOISE)
        return mean, v


class FactoredFourier(Fourier):
    """The same with a triangular factor that takes in a row by rotations [gijsberts2013] Alg. 1."""

    def __init__(self, m: int) -> None:
        super().__init__(m)
        self.R, self.z = np.sqrt(NOISE) * np.eye(m), np.zeros(m)

    def step(self, x: np.ndarray, y: float) -> tuple[float, float]:
        phi, R, z = self.features(x), self.R, self.z
        u = solve_triangular(R, phi, trans="T", check_finite=False)
        predicted = u @ z, NOISE * (u @ u)
        for i in range(len(z)):
            length = np.hypot(R[i, i], phi[i])
            c, s = R[i, i] / length, phi[i] / length
            row, rest = R[i, i:].copy(), phi[i:].copy()
            R[i, i:] = c * row + s * rest
            phi[i:] = c * rest - s * row
            z[i], y = c * z[i] + s * y, c * y - s * z[i]
        return predicted


class LeastMeanSquares:
    """Kernel least mean squares on the last m rows [vanvaerenbergh2016 3.2.1]."""

    STEP = 0.1

    def __init__(self, m: int) -> None:
        self.kernel, self.t = squared_exponential(LENGTHSCALE), 0
        self.B, self.alpha = np.zeros((m, WIDTH)), np.zeros(m)

    def step(self, x: np.ndarray, y: float) -> tuple[float, float]:
        mean = float(self.kernel(self.B, x) @ self.alpha)
        i = self.t % len(self.alpha)
        self.B[i], self.alpha[i] = x, self.STEP * (y - mean)
        self.t += 1
        return mean, np.nan


Plain = Absorbing | Tracker | Recursive | Fourier | LeastMeanSquares

PLAIN: dict[str, Callable[[int], Plain]] = {
    "SOGP absorbing": lambda m: Absorbing(m, squared_exponential(LENGTHSCALE), NoMemory()),
    "KRLST growing and pruning": Tracker,
    "OIESGP depth 5 absorbing": lambda m: Absorbing(m, recursive(LENGTHSCALE, 1.2), Window(5)),
    "OIESGP depth 20 absorbing": lambda m: Absorbing(m, recursive(LENGTHSCALE, 1.2), Window(20)),
    "OESGP 100 units absorbing": lambda m: Absorbing(m, squared_exponential((100 + WIDTH) ** 0.5), Reservoir(100)),
    "RecursiveGP batch 1": lambda m: Recursive(m, 1),
    "RecursiveGP batch 10": lambda m: Recursive(m, 10),
    "ISSGPR covariance": Fourier,
    "ISSGPR Cholesky": FactoredFourier,
    "KLMS": LeastMeanSquares,
}


def track(model: Plain, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predict, then learn all rows: means and latent variances."""
    if isinstance(model, Recursive):
        b = model.batch
        said = [model.step(X[t : t + b], y[t : t + b]) for t in range(0, len(X), b)]
        return np.concatenate([mean for mean, _ in said]), np.concatenate([variance for _, variance in said])
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for t in range(len(X)):
        mean[t], variance[t] = model.step(X[t], y[t])
    return mean, variance


def tracking(name: str, m: int) -> Work:
    """As contestants.tracking()."""
    rows = Rows()
    model = PLAIN[name](m)
    track(model, *rows.take(m + 20))

    def work(count: int) -> Callable[[], object]:
        X, y = rows.take(count)
        return lambda: track(model, X, y)

    return work

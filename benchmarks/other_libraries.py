"""Other libraries: what a row costs there, predicted and learned, with as many weights or rows in the model.

None of them is the same model. The linear ones are fed m random Fourier features of the row, computed beforehand; the
exact GPs hold m rows. A library that is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import streamgp as sg
from contestants import LENGTHSCALE, NOISE, WIDTH, Rows
from timing import Work


def fourier_rows(m: int) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Rows of m Fourier features, and their targets."""
    rows, frequencies = Rows(), sg.Fourier(m // 2, lengthscale=LENGTHSCALE).frequencies(WIDTH, 1)

    def take(count: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = rows.take(count)
        angles = X @ frequencies.T
        return np.sqrt(2.0 / m) * np.hstack([np.cos(angles), np.sin(angles)]), y

    return take


def river_bayesian_linear(m: int) -> Work:
    """Mean and variance; its rows are dictionaries, made beforehand."""
    from river.linear_model import BayesianLinearRegression

    take, names = fourier_rows(m), [f"x{i}" for i in range(m)]
    model = BayesianLinearRegression(beta=1.0 / NOISE)

    def work(count: int) -> Callable[[], object]:
        Phi, y = take(count)
        rows = [(dict(zip(names, phi, strict=True)), t) for phi, t in zip(Phi.tolist(), y.tolist(), strict=True)]

        def run() -> None:
            for phi, t in rows:
                model.predict_one(phi, with_dist=True)
                model.learn_one(phi, t)

        return run

    return work


def reservoirpy_rls(m: int) -> Work:
    """The mean alone, in one call for all rows of a block: partial_fit predicts and learns each."""
    from reservoirpy.nodes import RLS

    take = fourier_rows(m)
    node = RLS(alpha=NOISE, fit_bias=False)

    def work(count: int) -> Callable[[], object]:
        Phi, y = take(count)
        return lambda: node.partial_fit(Phi, y[:, None])

    return work


def padasip_rls(m: int) -> Work:
    """The mean alone."""
    from padasip.filters import FilterRLS

    take = fourier_rows(m)
    model = FilterRLS(m, mu=1.0, eps=NOISE)

    def work(count: int) -> Callable[[], object]:
        Phi, y = take(count)

        def run() -> None:
            for phi, t in zip(Phi, y, strict=True):
                model.predict(phi)
                model.adapt(t, phi)

        return run

    return work


def sklearn_refit(m: int) -> Work:
    """An exact GP on the last m rows, mean and variance, fitted anew after each row; nothing is optimized."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    rows = Rows()
    model = GaussianProcessRegressor(RBF(LENGTHSCALE), alpha=NOISE, optimizer=None)
    X, y = rows.take(m)
    model.fit(X, y)

    def work(count: int) -> Callable[[], object]:
        new_X, new_y = rows.take(count)

        def run() -> None:
            for t in range(count):
                model.predict(new_X[t : t + 1], return_std=True)
                X[:-1], X[-1] = X[1:], new_X[t]
                y[:-1], y[-1] = y[1:], new_y[t]
                model.fit(X, y)

        return run

    return work


def gpytorch_fantasy(m: int) -> Work:
    """An exact GP on m rows predicts a row and is conditioned on it; each time from the same m rows."""
    import gpytorch
    import torch

    torch.set_num_threads(1)

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.RBFKernel()
            self.covar_module.lengthscale = LENGTHSCALE

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    rows = Rows()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(*(torch.from_numpy(a) for a in rows.take(m)), likelihood).double()
    likelihood.noise = NOISE
    model.eval()

    def work(count: int) -> Callable[[], object]:
        X, y = (torch.from_numpy(a) for a in rows.take(count))

        def run() -> None:
            with torch.no_grad(), gpytorch.settings.fast_pred_var():
                for t in range(count):
                    said = model(X[t : t + 1])
                    said.mean, said.variance  # noqa: B018 (computed when asked for)
                    model.get_fantasy_model(X[t : t + 1], y[t : t + 1])

        return run

    return work


# The package they need, what they do, and which of our models is nearest to them.
RIVALS: dict[str, tuple[str, Callable[[int], Work], str]] = {
    "River BayesianLinearRegression, m weights": ("river", river_bayesian_linear, "ISSGPR covariance"),
    "reservoirpy RLS, m weights, no variance": ("reservoirpy", reservoirpy_rls, "ISSGPR covariance"),
    "padasip FilterRLS, m weights, no variance": ("padasip", padasip_rls, "ISSGPR covariance"),
    "scikit-learn GPR refitted to the last m rows": ("sklearn", sklearn_refit, "SOGP absorbing"),
    "GPyTorch get_fantasy_model on m rows": ("gpytorch", gpytorch_fantasy, "SOGP absorbing"),
}


def installed() -> dict[str, Callable[[int], Work]]:
    return {name: build for name, (package, build, _) in RIVALS.items() if find_spec(package) is not None}

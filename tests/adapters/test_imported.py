"""Gaussian processes fitted elsewhere keep learning here: the same posterior, then a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streamgp as sg

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (80, 2))
Y = 20.0 + 5.0 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=80)
AT = RNG.uniform(-3.0, 3.0, (20, 2))
MORE = RNG.uniform(-3.0, 3.0, (40, 2))
MORE_Y = 20.0 + 5.0 * np.sin(MORE[:, 0]) + MORE[:, 1] + 0.3 * RNG.normal(size=40)


def test_an_exact_process_goes_on_as_a_stream() -> None:
    source = sg.batch.FullGP(3.0 * sg.Matern(2.5, lengthscale=1.5), noise=0.05, mean=20.0).fit(X[:50], Y[:50])
    model = source.online(capacity=200)
    p, q = model.predict_many(AT), source.predict(AT)
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)
    np.testing.assert_allclose(p.std, q.std, atol=1e-8)
    model.learn_many(X[50:], Y[50:])
    whole = sg.batch.FullGP(3.0 * sg.Matern(2.5, lengthscale=1.5), noise=0.05, mean=20.0).fit(X, Y)
    np.testing.assert_allclose(model.predict_many(AT).mean, whole.predict(AT).mean, atol=1e-8)
    np.testing.assert_allclose(model.predict_many(AT).variance, whole.predict(AT).variance, atol=1e-8)


def test_what_a_smaller_basis_costs_is_told() -> None:
    source = sg.batch.FullGP(sg.SquaredExponential(0.5), noise=0.05).fit(X, Y - 20.0)
    with pytest.warns(UserWarning, match=r"20 of 80 rows stay as .* exact ones by .* A larger capacity keeps more"):
        model = source.online(capacity=20)
    assert model.size == 20
    constant = sg.batch.FullGP(sg.SquaredExponential(0.5), noise=0.05).fit(X, np.zeros(80))
    with pytest.warns(UserWarning, match="differ from the exact ones by up to 0 of"):
        constant.online(capacity=20)
    with pytest.raises(ValueError, match="has learned nothing yet"):
        sg.batch.FullGP().online()
    windows = RNG.normal(size=(10, 3, 2))
    with pytest.raises(ValueError, match="fitted to windows"):
        sg.batch.FullGP(sg.RecursiveSquaredExponential()).fit(windows, np.zeros(10)).online()


sklearn = pytest.importorskip("sklearn.gaussian_process")
K = pytest.importorskip("sklearn.gaussian_process.kernels")
KERNELS = {
    "squared exponential": lambda: 4.0 * K.RBF([1.0, 2.0]) + K.WhiteKernel(0.1),
    "Matern 1/2": lambda: K.Matern(1.0, nu=0.5) + K.WhiteKernel(0.1),
    "Matern 3/2": lambda: K.ConstantKernel(2.0) * K.Matern([1.0, 3.0], nu=1.5) + 0.5 * K.WhiteKernel(0.2),
    "Matern 5/2": lambda: K.Matern(2.0, nu=2.5) * K.RBF(3.0) + K.WhiteKernel(0.1),
    "Matern inf": lambda: K.Matern(2.0, nu=np.inf) + K.WhiteKernel(0.1),
    "rational quadratic": lambda: K.RationalQuadratic(1.5, alpha=0.7) + K.WhiteKernel(0.1),
    "linear": lambda: K.DotProduct(2.0) + K.RBF(2.0) + K.WhiteKernel(0.1),
    "linear without offset": lambda: K.DotProduct(0.0, "fixed") + K.RBF(2.0) + K.WhiteKernel(0.1),
    "power": lambda: (K.RBF(2.0) + K.ConstantKernel(0.5)) ** 2 + K.WhiteKernel(0.1),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_regressor_of_scikit_learn_keeps_learning(name: str, normalize: bool) -> None:
    source = sklearn.GaussianProcessRegressor(KERNELS[name](), optimizer=None, normalize_y=normalize, alpha=1e-6)
    source.fit(X, Y)
    model = sg.from_sklearn(source, capacity=200)
    mean, std = source.predict(AT, return_std=True)  # its white noise is in the deviation, alpha is not
    p = model.predict_many(AT)
    alpha = 1e-6 * float(np.ravel(source._y_train_std)[0]) ** 2
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(p.std**2 - alpha), std, atol=1e-8)
    # Further rows: the same process fitted to all of them, in the units of the first fit.
    model.learn_many(MORE, MORE_Y)
    shift, unit = float(np.ravel(source._y_train_mean)[0]), float(np.ravel(source._y_train_std)[0])
    whole = sklearn.GaussianProcessRegressor(KERNELS[name](), optimizer=None, alpha=1e-6)
    whole.fit(np.vstack([X, MORE]), (np.append(Y, MORE_Y) - shift) / unit)
    np.testing.assert_allclose(model.predict_many(AT).mean, shift + unit * whole.predict(AT), atol=1e-7)


def test_points_that_arithmetic_cannot_tell_apart_are_told_with_what_they_cost_between_the_rows() -> None:
    rng = np.random.default_rng(2)
    rows = rng.uniform(-3.0, 3.0, (60, 2))
    targets = np.sin(rows[:, 0]) + 0.1 * rng.normal(size=60)
    source = sklearn.GaussianProcessRegressor(K.RBF(1.0), optimizer=None).fit(rows, targets)  # alpha is 1e-10
    with pytest.warns(UserWarning, match="59 of 60 rows stay .* room for more, .* a WhiteKernel or a larger") as told:
        model = sg.from_sklearn(source, capacity=65)
    stated = float(str(told[0].message).partition("by up to ")[2].split()[0])
    between = 0.5 * (rows[1:] + rows[:-1])
    off = np.abs(model.predict_many(between).mean - source.predict(between)).max()
    assert off > 5.0
    assert stated == pytest.approx(off / np.std(targets), rel=0.05)
    wide = sklearn.GaussianProcessRegressor(K.RBF(1.0), optimizer=None, alpha=1e-4).fit(rows, targets)
    np.testing.assert_allclose(sg.from_sklearn(wide).predict_many(between).mean, wide.predict(between), atol=1e-8)


def test_the_periodic_kernel_of_one_input() -> None:
    kernel = K.ExpSineSquared(1.5, periodicity=2.0) * K.RBF(5.0) + K.WhiteKernel(0.1)
    source = sklearn.GaussianProcessRegressor(kernel, optimizer=None).fit(X[:, :1], Y)
    p = sg.from_sklearn(source).predict_many(AT[:, :1])
    np.testing.assert_allclose(p.mean, source.predict(AT[:, :1]), atol=1e-8)


def test_what_cannot_be_taken_over_is_refused_by_name() -> None:
    def fitted(kernel: Any, **settings: Any) -> Any:
        return sklearn.GaussianProcessRegressor(kernel, optimizer=None, **settings).fit(X, Y)

    cases = [
        (lambda: sklearn.GaussianProcessRegressor(), "not fitted"),
        (lambda: fitted(K.Matern(1.0, nu=1.0)), "Matern of order nu=1"),
        (lambda: fitted(K.ExpSineSquared(1.0) + K.WhiteKernel(1e3)), "ExpSineSquared of 2 inputs"),
        (lambda: fitted(K.PairwiseKernel(metric="rbf") + K.WhiteKernel()), "PairwiseKernel has no counterpart"),
        (lambda: fitted(K.RBF() * K.WhiteKernel() + K.RBF()), "multiplies white noise with a kernel"),
        (lambda: fitted(K.RBF() ** 1.5 + K.WhiteKernel()), "exponent must be a whole number"),
        (lambda: fitted(K.RBF(), alpha=np.full(80, 0.1)), "alpha differs from row to row"),
        (lambda: fitted(K.WhiteKernel(1.0)), "noise alone"),
    ]
    for build, match in cases:
        with pytest.raises(ValueError, match=match):
            sg.from_sklearn(build())
    with pytest.raises(TypeError, match="takes a GaussianProcessRegressor; got int"):
        sg.from_sklearn(3)


gpytorch = pytest.importorskip("gpytorch")
torch = pytest.importorskip("torch")


def _exact(kernel: Any, mean: Any, rows: np.ndarray, targets: np.ndarray) -> tuple[Any, Any]:
    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(torch.tensor(rows), torch.tensor(targets), likelihood)
            self.mean_module, self.covar_module = mean, kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).double()
    likelihood.noise = 0.05
    return model.eval(), likelihood.eval()


def _constant(value: float) -> Any:
    mean = gpytorch.means.ConstantMean()
    mean.initialize(constant=value)
    return mean


def _kernels() -> dict[str, Any]:
    k = gpytorch.kernels
    scale = k.ScaleKernel(k.RBFKernel(ard_num_dims=2))
    scale.outputscale, scale.base_kernel.lengthscale = 3.0, torch.tensor([[1.0, 2.0]])
    periodic, linear, quadratic = k.PeriodicKernel(), k.LinearKernel(), k.RQKernel()
    periodic.period_length, periodic.lengthscale, linear.variance = 3.0, 1.7, 0.4
    quadratic.alpha, quadratic.lengthscale = 0.8, 1.3
    matern = k.MaternKernel(nu=1.5)
    matern.lengthscale = 1.2
    return {
        "scaled": scale,
        "periodic times matern": periodic * matern,
        "linear and quadratic": linear + k.ScaleKernel(quadratic),
        "matern 5/2": k.MaternKernel(nu=2.5),
    }


@pytest.mark.parametrize("name", ["scaled", "periodic times matern", "linear and quadratic", "matern 5/2"])
def test_an_exact_model_of_gpytorch_keeps_learning(name: str) -> None:
    source, likelihood = _exact(_kernels()[name], _constant(18.0), X, Y)
    model = sg.from_gpytorch(source, likelihood, capacity=200)
    with torch.no_grad(), gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False):
        expected = source(torch.tensor(AT))
        mean, variance = expected.mean.numpy(), expected.variance.numpy()
    p = model.predict_many(AT)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)
    model.learn_many(MORE, MORE_Y)
    whole, _ = _exact(_kernels()[name], _constant(18.0), np.vstack([X, MORE]), np.append(Y, MORE_Y))
    with torch.no_grad():
        np.testing.assert_allclose(model.predict_many(AT).mean, whole(torch.tensor(AT)).mean.numpy(), atol=1e-7)


@pytest.mark.parametrize("whitened", [True, False])
def test_a_variational_model_of_gpytorch_keeps_learning(whitened: bool) -> None:
    v = gpytorch.variational
    points = torch.tensor(sg.grid([-3, -3], [3, 3], [4, 4]))

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            distribution = v.CholeskyVariationalDistribution(16)
            kind = v.VariationalStrategy if whitened else v.UnwhitenedVariationalStrategy
            super().__init__(kind(self, points, distribution, learn_inducing_locations=False))
            self.mean_module, self.covar_module = _constant(18.0), _kernels()["scaled"]

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    source, likelihood = Model().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    source.train()
    source(torch.tensor(X[:2]))  # the distribution starts as the prior at the first call
    generator = torch.Generator().manual_seed(0)
    distribution = source.variational_strategy._variational_distribution
    root = torch.tril(0.05 * torch.randn(16, 16, generator=generator, dtype=torch.float64))
    distribution.variational_mean.data += torch.randn(16, generator=generator, dtype=torch.float64)
    start = distribution.chol_variational_covar.data  # the prior's: whitened, the identity
    distribution.chol_variational_covar.data = 0.5 * start + (root if whitened else 0.0)
    source.eval()
    model = sg.from_gpytorch(source, likelihood)
    with torch.no_grad():
        expected = source(torch.tensor(AT))
    p = model.predict_many(AT)
    np.testing.assert_allclose(p.mean, expected.mean.numpy(), atol=1e-8)
    # Unwhitened, the jitter is in the inducing points' variance but not in that of rows.
    off = 0.0 if whitened else source.variational_strategy.jitter_val
    np.testing.assert_allclose(p.variance, expected.variance.numpy() + off, atol=1e-8)
    before = np.mean((model.predict_many(MORE).mean - MORE_Y) ** 2)
    model.learn_many(MORE, MORE_Y)
    assert np.mean((model.predict_many(MORE).mean - MORE_Y) ** 2) < before
    with pytest.raises(ValueError, match="leave capacity out"):
        sg.from_gpytorch(source, likelihood, capacity=10)


def test_what_gpytorch_has_and_we_have_not_is_refused_by_name() -> None:
    k = gpytorch.kernels
    cases = [
        (k.CosineKernel(), _constant(0.0), "CosineKernel has no counterpart"),
        (k.RBFKernel(active_dims=[0]), _constant(0.0), "RBFKernel with active_dims"),
        (k.RBFKernel(), gpytorch.means.LinearMean(2), "LinearMean has no counterpart"),
    ]
    for kernel, mean, match in cases:
        with pytest.raises(ValueError, match=match):
            sg.from_gpytorch(*_exact(kernel, mean, X, Y))
    with pytest.raises(ValueError, match="a GaussianLikelihood is needed; got NoneType"):
        sg.from_gpytorch(object())


def test_a_posterior_at_basis_points_is_taken_over() -> None:
    points = sg.grid(-3, 3, 9)
    source = sg.RecursiveGP(points, lengthscale=1.0, noise=0.1, mean=2.0)
    source.learn_many(X[:, 0], Y - 20.0)
    joint = source.predict_joint(points)
    model = sg.RecursiveGP(points, lengthscale=1.0, noise=0.1, mean=2.0)
    model.start_from(joint.mean, joint.covariance)
    for p, q in ((model.predict_many(AT[:, 0]), source.predict_many(AT[:, 0])),):
        np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)
        np.testing.assert_allclose(p.variance, q.variance, atol=1e-8)
    with pytest.raises(ValueError, match="as there are 9 basis points"):
        model.start_from(np.zeros(3), np.eye(3))
    with pytest.raises(ValueError, match="shares the posterior with the basis points"):
        sg.RecursiveGP(points, time=sg.Matern(0.5, lengthscale=3.0)).start_from(joint.mean, joint.covariance)
    before = model.to_bytes()
    with pytest.raises(ValueError, match="covariance must lie between 0 and the prior's"):
        model.start_from(joint.mean, 100.0 * np.eye(9))
    assert model.to_bytes() == before

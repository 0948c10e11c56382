from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.kernels import program
from tests import oracles

pytestmark = pytest.mark.interpreted

rng = np.random.default_rng(1)
DEPTH, D = 4, 3
X = rng.normal(size=(5, DEPTH, D))
Z = rng.normal(size=(6, DEPTH, D))
ARD = [0.7, 1.5, 3.0]
LOADINGS = np.array([[0.5, -0.2], [-0.9, 0.1], [0.3, 0.6]])

KERNELS = {
    "se ard": sg.SquaredExponential(ARD, variance=2.0),
    "se ard by lag": sg.SquaredExponential(rng.uniform(0.5, 3.0, DEPTH * D)),
    "matern 1/2": sg.Matern(0.5, lengthscale=ARD),
    "matern 3/2": sg.Matern(1.5, lengthscale=ARD, variance=0.5),
    "matern 5/2": sg.Matern(2.5, lengthscale=2.0),
    "rational quadratic": sg.RationalQuadratic(0.7, lengthscale=ARD, variance=2.0),
    "periodic": sg.Periodic(3.0, lengthscale=ARD, variance=2.0),
    "recursive ard": sg.RecursiveSquaredExponential(ARD, temporal_lengthscale=1.3, variance=2.0),
    "se factors": sg.SquaredExponential(ARD, variance=2.0, factors=LOADINGS),
    "rational quadratic factors": sg.RationalQuadratic(0.7, lengthscale=ARD, factors=3),
    "recursive factors": sg.RecursiveSquaredExponential(ARD, temporal_lengthscale=1.3, variance=2.0, factors=LOADINGS),
    "nested factors": 2.0 * sg.SquaredExponential(ARD, factors=2)
    + sg.LinearKernel() * sg.RecursiveSquaredExponential(2.0, factors=LOADINGS),
    "sum": sg.SquaredExponential(ARD) + sg.LinearKernel(0.3),
    "product": sg.Matern(1.5, lengthscale=ARD) * sg.RecursiveSquaredExponential(2.0),
    "nested": (sg.SquaredExponential(1.0) + sg.Periodic(2.0))
    * (sg.LinearKernel() + 0.5 * sg.Matern(0.5, lengthscale=ARD)),
}


def matrix(kernel: sg.kernels.Kernel, theta: np.ndarray) -> np.ndarray:
    """k(X, Z) under other hyperparameters."""
    operations = kernel.program(DEPTH * D, DEPTH).operations
    K = np.empty((len(X), len(Z)))
    work = np.empty(kernel.program(DEPTH * D, DEPTH).scratch(len(Z), DEPTH * D))
    program.matrix(operations, theta, Z.reshape(len(Z), -1), X.reshape(len(X), -1), K, work)
    return K


def flat(points):
    return points.reshape(len(points), -1)


def gradient_of(kernel):
    """d k(X, Z) / d log(hyperparameter), by a loading itself: (hyperparameters, n, m)."""
    one = np.ones((1, 1))
    pairs = [[kernel.weighted_gradient(one, x[None], z[None]) for z in Z] for x in X]
    return np.moveaxis(np.array(pairs), 2, 0)


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_equals_finite_differences(name):
    kernel = KERNELS[name]
    theta = kernel.program(DEPTH * D, DEPTH).parameters
    gradient = gradient_of(kernel)
    assert gradient.shape == (theta.size, len(X), len(Z))
    step = 1e-5
    for h, loading in enumerate(kernel.program(DEPTH * D, DEPTH).loading_units(DEPTH * D) > 0):
        up, down = theta.copy(), theta.copy()
        up[h] = up[h] + step if loading else up[h] * np.exp(step)
        down[h] = down[h] - step if loading else down[h] * np.exp(-step)
        np.testing.assert_allclose(gradient[h], (matrix(kernel, up) - matrix(kernel, down)) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_by_inputs_equals_finite_differences(name):
    bound = KERNELS[name].program(DEPTH * D, DEPTH)
    B, x, step = flat(Z), flat(X)[0], 1e-6
    gradient = bound.input_gradient(B, x)
    assert gradient.shape == (x.size, len(B))
    rows = x + step * np.vstack([np.eye(x.size), -np.eye(x.size)])
    up, down = np.split(bound.between(rows, B), 2)
    np.testing.assert_allclose(gradient, (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_matrix_is_symmetric_and_positive_and_its_diagonal_agrees(name):
    kernel = KERNELS[name]
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(K), rtol=1e-14)


def test_the_matrix_is_symmetric_where_a_processor_rounds_one_triangle_differently(monkeypatch):
    exact = program.matrix

    def rounded(operations, theta, X, Z, K, work):
        exact(operations, theta, X, Z, K, work)
        K += np.triu(np.spacing(K), 1)

    rounded.entry = exact
    monkeypatch.setattr(program, "matrix", rounded)
    kernel = KERNELS["rational quadratic"]
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, kernel(X, X), rtol=1e-15)


@pytest.mark.parametrize(
    ("kernel", "oracle"),
    [
        (sg.SquaredExponential(ARD, variance=2.0), oracles.squared_exponential(np.array(ARD), 2.0)),
        (sg.Matern(0.5, lengthscale=ARD), oracles.matern(0.5, np.array(ARD))),
        (sg.Matern(1.5, lengthscale=ARD, variance=3.0), oracles.matern(1.5, np.array(ARD), 3.0)),
        (sg.Matern(2.5, lengthscale=ARD), oracles.matern(2.5, np.array(ARD))),
        (sg.LinearKernel(0.4), lambda X, Z: 0.4 * X @ Z.T),
    ],
)
def test_kernels_equal_their_definitions(kernel, oracle):
    A, B = X[:, 0], Z[:, 0]
    np.testing.assert_allclose(kernel(A, B), oracle(A, B), rtol=1e-14)


def factor_distance(lengthscale, loadings):
    """(x - z)' M (x - z) at every lag, of all pairs: (n, m, depth)."""
    M = loadings @ loadings.T + np.diag(np.asarray(lengthscale, dtype=loadings.dtype) ** -2)
    differences = X[:, None] - Z[None]
    return np.einsum("nmta,ab,nmtb->nmt", differences, M, differences)


def recursion(r2, temporal):
    kappa = 1.0
    for lag in range(DEPTH):
        kappa = np.exp(-0.5 * r2[..., lag] + (kappa - 1.0) / temporal**2)
    return kappa


FACTORED = {
    "se": (KERNELS["se factors"], lambda scales, L: 2.0 * np.exp(-0.5 * factor_distance(scales, L).sum(-1))),
    "matern 3/2": (
        sg.Matern(1.5, lengthscale=ARD, factors=LOADINGS),
        lambda scales, L: (
            (1 + np.sqrt(3 * factor_distance(scales, L).sum(-1)))
            * np.exp(-np.sqrt(3 * factor_distance(scales, L).sum(-1)))
        ),
    ),
    "rational quadratic": (
        sg.RationalQuadratic(0.7, lengthscale=ARD, factors=LOADINGS),
        lambda scales, L: (1 + factor_distance(scales, L).sum(-1) / 1.4) ** -0.7,
    ),
    "recursive": (KERNELS["recursive factors"], lambda scales, L: 2.0 * recursion(factor_distance(scales, L), 1.3)),
}


@pytest.mark.parametrize("name", FACTORED)
def test_factors_add_loadings_times_their_transpose_to_the_matrix_of_the_distance(name):
    kernel, oracle = FACTORED[name]
    np.testing.assert_allclose(kernel(X, Z), oracle(ARD, LOADINGS), rtol=1e-12)


def test_a_number_of_factors_starts_from_the_same_small_loadings_each_time():
    one, two = (sg.SquaredExponential(ARD, factors=2) for _ in range(2))
    found = one.hyperparameters(one.program(D).parameters, D)["factors"]
    assert found.shape == (D, 2)
    assert 0 < np.abs(found * np.array(ARD)[:, None]).max() < 1.0
    np.testing.assert_array_equal(one.program(D).parameters, two.program(D).parameters)
    assert one == two
    assert one != sg.SquaredExponential(ARD, factors=1)


def test_loadings_keep_their_shape_by_name_even_of_one_number():
    kernel = sg.Constant(2.0) * sg.Matern(1.5, factors=[[-0.4]])
    values = kernel.program(1).parameters
    np.testing.assert_array_equal(kernel.hyperparameters(values, 1)["right.factors"], [[-0.4]])
    np.testing.assert_array_equal(kernel.with_values(values, 1)([[0.0]], [[1.0]]), kernel([[0.0]], [[1.0]]))
    assert repr(sg.SquaredExponential(factors=1)) == "SquaredExponential(factors=1)"


def test_the_relevance_of_an_input_with_factors_is_by_how_much_the_distance_grows_along_it():
    kernel = sg.SquaredExponential(ARD, factors=LOADINGS)
    weights, _ = kernel.relevance(kernel.program(D).parameters, D)
    along = [-2.0 * np.log(kernel(np.zeros((1, D)), np.eye(D)[j : j + 1])[0, 0]) for j in range(D)]
    np.testing.assert_allclose(weights**2, along, rtol=1e-12)


def test_recursive_kernel_of_depth_one_is_the_ard_squared_exponential():
    A, B = X[:, :1], Z[:, :1]
    recursive = sg.RecursiveSquaredExponential(ARD, temporal_lengthscale=1.3, variance=2.0)
    np.testing.assert_allclose(recursive(A, B), sg.SquaredExponential(ARD, variance=2.0)(A, B), rtol=1e-14)


def test_sums_and_products_are_those_of_the_matrices():
    a, b, c = sg.Matern(0.5, lengthscale=ARD), sg.RecursiveSquaredExponential(2.0), sg.LinearKernel(0.3)
    np.testing.assert_allclose(((a + b) * c)(X, Z), (a(X, Z) + b(X, Z)) * c(X, Z), rtol=1e-14)
    np.testing.assert_allclose((3.0 * a + 1)(X, Z), 3.0 * a(X, Z) + 1, rtol=1e-14)


def test_default_lengthscale_grows_with_the_square_root_of_the_inputs():
    A = rng.normal(size=(4, 9))
    np.testing.assert_array_equal(sg.SquaredExponential()(A), sg.SquaredExponential(3.0)(A))


def test_kernels_are_values():
    assert sg.SquaredExponential(ARD) == sg.SquaredExponential(ARD)
    assert sg.SquaredExponential(1.0) != sg.SquaredExponential(2.0)
    assert sg.Matern(0.5) != sg.SquaredExponential()
    assert hash(sg.Matern(1.5)) == hash(sg.Matern(1.5))
    assert repr(2.0 * sg.Matern(1.5, lengthscale=[1.0, 2.0])) == (
        "Product(left=Constant(variance=2.0), right=Matern(order=1.5, lengthscale=[1.0, 2.0]))"
    )


def test_hyperparameters_are_named():
    kernel = 2.0 * sg.SquaredExponential([1.0, 2.0])
    named = kernel.hyperparameters(kernel.program(2).parameters, 2)
    assert named["left.variance"] == 2.0
    np.testing.assert_array_equal(named["right.lengthscale"], [1.0, 2.0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sg.SquaredExponential(-1.0), "lengthscale must be a positive number"),
        (lambda: sg.SquaredExponential("long"), "lengthscale must be a length of time such as 3600, '90s'"),
        (lambda: sg.SquaredExponential(variance=0.0), "variance must be a finite number above 0; got 0.0"),
        (lambda: sg.SquaredExponential(variance="1"), "variance must be a finite number above 0; got '1'"),
        (lambda: sg.Matern(2.0), "order must be 0.5, 1.5 or 2.5; got 2.0"),
        (lambda: sg.SquaredExponential(lengthscal=1.0), "has no setting 'lengthscal'. Did you mean 'lengthscale'"),
        (lambda: sg.SquaredExponential([1.0, 2.0])(X[:, 0]), "lengthscale has 2 values, but the inputs have 3 columns"),
        (lambda: sg.RecursiveSquaredExponential([1.0] * 12)(X), "inputs have 3 columns at 4 lags"),
        (lambda: sg.SquaredExponential(factors=0), "factors must be a whole number of at least 1; got 0"),
        (lambda: sg.SquaredExponential(factors=0.5), "factors must be a whole number of at least 1; got 0.5"),
        (lambda: sg.Matern(factors="two"), "factors must be a whole number of at least 1; got 'two'"),
        (lambda: sg.SquaredExponential(factors=[1.0, 2.0]), r"factors must have shape \(d, k\), a row for each input"),
        (lambda: sg.SquaredExponential(factors=[[1.0], [np.nan], [0.0]]), "factors must hold finite numbers only"),
        (
            lambda: sg.SquaredExponential(factors=np.ones((2, 1)))(X[:, 0]),
            r"factors has loadings of shape \(2, 1\), but the inputs have 3 columns; .* \(3, k\) with k from 1 to 3",
        ),
        (lambda: sg.RecursiveSquaredExponential(factors=4)(X), r"shape \(3, 4\), but the inputs have 3 columns"),
        (lambda: sg.SquaredExponential() + "noise", "expected a kernel or a positive number"),
        (lambda: sg.SquaredExponential()(X[0, 0]), r"X must have shape \(n, d\)"),
        (lambda: sg.SquaredExponential()(X[:, 0], Z[:, 0, :2]), "Z must have 3 numbers a row"),
    ],
)
def test_bad_kernels_are_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


class Cauchy(sg.SquaredExponential):
    def __call__(self, X, Z=None):
        return 1.0 / (1.0 - 2.0 * np.log(super().__call__(X, Z)))


class Rough(sg.Matern):
    def diagonal(self, X):
        return 2.0 * super().diagonal(X)


class Doubling:
    def __call__(self, X, Z=None):
        return 2.0 * super().__call__(X, Z)


class Doubled(Doubling, sg.Matern):
    pass


class Short(sg.SquaredExponential):
    """Its own start and a method of its own, and nothing that a model would have to call."""

    def __init__(self, lengthscale=0.5):
        super().__init__(lengthscale)

    def halved(self):
        return self.replaced(lengthscale=self.lengthscale / 2.0)


def test_a_model_refuses_a_kernel_that_overrides_its_parent():
    cases = [
        (lambda: sg.SOGP(Cauchy(1.0)), "Cauchy overrides __call__ of SquaredExponential, which models do not call"),
        (lambda: sg.SOGP(sg.Matern() + 2.0 * (sg.Matern() * Cauchy(1.0))), "Cauchy overrides __call__"),
        (lambda: sg.OnlineGP(sg.Basis(Rough())), "Rough overrides diagonal of Matern"),
        (lambda: sg.filters.QKLMS(Doubled()), "Doubled overrides __call__ of Matern"),
        (lambda: sg.batch.FullGP(Cauchy(1.0)), "Cauchy overrides __call__"),
        (lambda: sg.TimeGP(sg.Constant() + Rough(0.5)), "Rough overrides diagonal of Matern"),
        (lambda: sg.SOGP(time=Rough(0.5)), "Rough overrides diagonal of Matern"),
    ]
    for build, message in cases:
        with pytest.raises(TypeError, match=message):
            build()


def test_a_model_takes_a_kernel_whose_subclass_overrides_nothing():
    own, plain = (sg.SOGP(kernel, capacity=5) for kernel in (Short(0.7), sg.SquaredExponential(0.7)))
    for model in (own, plain):
        model.learn_many(X[:, 0], X[:, 0, 0])
    np.testing.assert_array_equal(own.predict_many(Z[:, 0]).mean, plain.predict_many(Z[:, 0]).mean)


def test_recursive_kernel_equals_the_direct_recursion():
    kernel = sg.RecursiveSquaredExponential(ARD, temporal_lengthscale=1.3, variance=2.0)
    np.testing.assert_allclose(kernel(X, Z), oracles.recursive_kernel(DEPTH, np.array(ARD), 1.3, 2.0)(X, Z), rtol=1e-13)


@pytest.mark.parametrize("name", FACTORED)
def test_gradients_by_loadings_and_lengthscales_are_exact(name):
    """Against the complex step, which has no cancellation: Im k(theta + ih) / h."""
    kernel, oracle = FACTORED[name]
    theta = kernel.program(DEPTH * D, DEPTH).parameters
    gradient = gradient_of(kernel)
    h = 1e-30
    for j in range(D):
        scales = np.array(ARD, dtype=complex)
        scales[j] *= 1.0 + 1j * h
        np.testing.assert_allclose(gradient[j], oracle(scales, LOADINGS.astype(complex)).imag / h, rtol=1e-10)
    for at, (j, f) in zip(range(theta.size - LOADINGS.size, theta.size), np.ndindex(LOADINGS.shape), strict=True):
        loadings = LOADINGS.astype(complex)
        loadings[j, f] += 1j * h
        np.testing.assert_allclose(gradient[at], oracle(ARD, loadings).imag / h, rtol=1e-10, atol=1e-16)


def test_lengthscales_of_the_inputs_serve_every_lag():
    np.testing.assert_array_equal(sg.SquaredExponential(ARD)(X), sg.SquaredExponential(ARD * DEPTH)(X))

"""Outliers, classes and counts. Oracles integrate over the function, densely or to 30 digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from scipy.special import gammaln

import streamgp as sg
from streamgp.process import observation
from tests import inside
from tests.inside import called

# Likelihoods as functions of the observation and a function value, written down for NumPy ...
LOG_LIKELIHOODS = {
    "Student-t": (sg.StudentT(0.3, dof=3.0), lambda y, f: stats.t.logpdf(y, 3.0, loc=f, scale=0.3)),
    "Cauchy": (sg.StudentT(0.05, dof=1.0), lambda y, f: stats.cauchy.logpdf(y, loc=f, scale=0.05)),
    "probit": (sg.Probit(), lambda y, f: stats.norm.logcdf(np.where(y > 0.5, f, -f))),
    "Poisson": (sg.Poisson(), lambda y, f: y * f - np.exp(f) - gammaln(y + 1.0)),
}


def dense(log_likelihood, y, m, v):
    """Evidence, and mean and variance of f given y, for f ~ N(m, v), on a fine grid."""
    f = m + np.sqrt(v) * np.linspace(-12.0, 12.0, 200_001)
    log_weight = log_likelihood(y, f) + stats.norm.logpdf(f, m, np.sqrt(v))
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    mean = np.sum(weight * f) / weight.sum()
    evidence = np.exp(top) * weight.sum() * (f[1] - f[0])
    return evidence, mean, np.sum(weight * (f - mean) ** 2) / weight.sum()


def in_panels(log_likelihood, m, v, centers, nodes=40):
    """Log evidence, mean and variance by Gauss-Legendre in panels that crowd around the centers (center, width)."""
    far = 14.0 * np.sqrt(v)
    edges = [m - far, m + far]
    for center, width in centers:
        reach = width * 2.0 ** np.arange(-1, 60)
        edges += [center, *(center - reach), *(center + reach)]
    edges = np.unique([edge for edge in edges if abs(edge - m) <= far])
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = 0.5 * np.diff(edges)[:, None]
    f = (edges[:-1, None] + half * (1.0 + x)).ravel()
    log_weight = log_likelihood(f) - 0.5 * (f - m) ** 2 / v
    top = log_weight.max()
    weight = (half * w).ravel() * np.exp(log_weight - top)
    total = weight.sum()
    mean = m + np.sum(weight * (f - m)) / total
    return np.log(total) + top - 0.5 * np.log(2 * np.pi * v), mean, np.sum(weight * (f - mean) ** 2) / total


# ... and for 30 digits.


def exactly(log_likelihood, m, v, center, width):
    """Log evidence, mean and variance by quadrature between points that crowd around the center."""
    m, v, center, reach = mpf(m), mpf(v), mpf(center), mpf(width)
    points = [center]
    while reach < 60 * width:
        points = [center - reach, *points, center + reach]
        reach *= 3
    shift = log_likelihood(center) - (center - m) ** 2 / (2 * v)

    def weight(f):
        return mp.exp(log_likelihood(f) - (f - m) ** 2 / (2 * v) - shift)

    total = mp.quad(weight, points)
    mean = mp.quad(lambda f: f * weight(f), points) / total
    variance = mp.quad(lambda f: (f - mean) ** 2 * weight(f), points) / total
    return mp.log(total) + shift - mp.log(2 * mp.pi * v) / 2, mean, variance


@pytest.fixture(autouse=True)
def thirty_digits():
    with mp.workdps(30):
        yield


def assert_moments(found, m, v, wanted, tolerance):
    """Posterior mean (in posterior standard deviations) and variance (relatively), and the log evidence."""
    log_evidence, q, w, rho = found
    want_evidence, mean, variance = wanted
    assert abs(log_evidence - want_evidence) <= tolerance * max(1, abs(want_evidence), abs(m))
    assert abs(m + v * mpf(q) - mean) <= tolerance * mp.sqrt(variance) + 4e-16 * abs(m)
    assert abs(v * mpf(rho) / variance - 1) <= tolerance
    assert abs(v * mpf(w) - (1 - variance / v)) <= tolerance


@pytest.mark.parametrize("dof", [0.5, 4.0, 1000.0])
@pytest.mark.parametrize(
    ("error", "v", "scale"),
    [
        (0.0, 1.0, 1.0),
        (0.3, 1.0, 0.1),
        (5.0, 1.0, 0.01),  # an outlier, or a function that is off: two modes
        (1e6, 1.0, 1.0),
        (2.0, 1e-8, 1.0),
        (30.0, 100.0, 1e-3),
        (1e3, 1e6, 1.0),
        (1e-3, 1e-4, 1e-6),
    ],
)
def test_student_t_moments_equal_quadrature(dof, error, v, scale):
    centers = [(0.0, np.sqrt(v) / 4), (error, min(scale, np.sqrt(v)) / 2)]
    wanted = in_panels(lambda f: stats.t.logpdf(error, dof, loc=f, scale=scale), 0.0, v, centers)
    assert_moments(
        called(observation.moments)(observation.STUDENT_T, dof, error, 0.0, v, scale**2), 0.0, v, wanted, 1e-10
    )


@pytest.mark.parametrize(
    ("y", "m", "v"),
    [
        (1, 0.3, 1.0),
        (0, 0.3, 1.0),
        (1, -7.2, 1e-3),
        (0, 7.0711, 1.0),
        (1, -1e8, 1e-9),
        (1, -1e8, 1.0),
        (1, -1e4, 1e4),
    ],
)
def test_probit_moments_equal_their_formulas(y, m, v):
    sign, s = 2 * y - 1, 1 + mpf(v)
    z = sign * mpf(m) / mp.sqrt(s)
    if z < -1e4:  # beyond mpmath's range: erfc by its asymptotic series
        log_cdf, g = -z * z / 2 - mp.log(-z * mp.sqrt(2 * mp.pi)) - 1 / z**2, -z / (1 - 1 / z**2 + 3 / z**4)
    else:
        cdf = mp.erfc(-z / mp.sqrt(2)) / 2
        log_cdf, g = mp.log(cdf), mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi) / cdf
    wanted = log_cdf, m + v * sign * g / mp.sqrt(s), v - mpf(v) ** 2 * g * (z + g) / s
    found = called(observation.moments)(observation.PROBIT, 1.0, float(y), m, v, 1.0)
    assert_moments(found, mpf(m), mpf(v), wanted, 1e-8 if z < -1e4 else 1e-11)


@pytest.mark.parametrize(
    ("y", "m", "v"),
    [
        (0, 0, 1),
        (100, 0, 1),
        (10**6, 2, 0.5),
        (0, 0, 2500),
        (2, 0, 1e-8),
        (5, 60, 100),
        (10**9, 0, 1),
        (0, 300, 1e-3),
    ],
)
def test_poisson_moments_equal_quadrature(y, m, v):
    found = called(observation.moments)(observation.POISSON, 1.0, float(y), float(m), float(v), 1.0)
    log_likelihood = lambda f: y * f - mp.exp(f) - mp.loggamma(y + 1)  # noqa: E731
    wanted = exactly(log_likelihood, m, v, m + v * found[1], np.sqrt(v * found[3]))
    assert_moments(found, m, v, wanted, 1e-6)


# Models


def test_gaussian_is_what_noise_says():
    X, y, _ = line()
    by_noise, by_likelihood = sg.SOGP(noise=0.3), sg.SOGP(likelihood=sg.Gaussian(0.3))
    one, other = by_noise.track(X, y), by_likelihood.track(X, y)
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.log_density(y), other.log_density(y))
    assert by_likelihood.hyperparameters["noise"] == 0.3


def line(n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(X[:, 0]) + 0.2 * rng.standard_t(2, n), np.linspace(-3, 3, 7)[:, None]


def observed(name, y):
    return {"probit": (y > 0).astype(float), "Poisson": np.floor(np.exp(1.0 + y))}.get(name, y)


def assumed_density(prior, rows, y, log_likelihood, factor=1.0, residual=None):
    """Mean and covariance of all function values after the rows, each of which observes one: the whole joint Gaussian.

    A residual is variance that an observed value has besides that of the joint.
    """
    mean, covariance = np.zeros(len(prior)), prior.copy()
    for t, (i, target) in enumerate(zip(rows, y, strict=True)):
        mean, covariance = np.sqrt(factor) * mean, factor * covariance + (1.0 - factor) * prior
        v = covariance[i, i] + (0.0 if residual is None else residual[t])
        _, after, left = dense(log_likelihood, target, mean[i], v)
        w = max((1.0 - left / v) / v, 0.0)
        mean = mean + covariance[i] * (after - mean[i]) / v
        covariance = covariance - w * np.outer(covariance[i], covariance[i])
    return mean, covariance


def latent(prediction):
    return getattr(prediction, "latent", prediction)


@pytest.mark.parametrize("name", LOG_LIKELIHOODS)
@pytest.mark.parametrize("factor", [pytest.param(1.0, marks=pytest.mark.more), 0.9])
def test_a_basis_with_room_for_every_row_equals_the_whole_joint_gaussian(name, factor):
    likelihood, log_likelihood = LOG_LIKELIHOODS[name]
    X, y, T = line()
    y = observed(name, y)
    kernel = 1.5 * sg.SquaredExponential(0.3)  # short: no point leaves for being explained
    model = sg.KRLST(kernel, capacity=50, forgetting=factor, jitter=0.0, likelihood=likelihood)
    model.learn_many(X, y)
    assert model.size == len(X)
    mean, covariance = assumed_density(kernel(np.vstack([X, T])), range(len(X)), y, log_likelihood, factor)
    p = latent(model.predict_many(T))
    np.testing.assert_allclose(p.mean, mean[len(X) :], atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance)[len(X) :], atol=1e-8)


@pytest.mark.parametrize("name", LOG_LIKELIHOODS)
def test_given_points_equal_the_joint_gaussian_of_their_values(name):
    likelihood, log_likelihood = LOG_LIKELIHOODS[name]
    X, y, T = line()
    y, B, kernel = observed(name, y), np.linspace(-3, 3, 9)[:, None], sg.SquaredExponential(0.8)
    model = sg.RecursiveGP(B, kernel=kernel, likelihood=likelihood)
    model.learn_many(X, y)
    # What the basis says of a row is a value of its own, with the prior Q_xx; the rest of k(x, x) is residual.
    all_of_them = np.vstack([B, X, T])
    K = kernel(all_of_them, B) @ np.linalg.solve(kernel(B), kernel(B, all_of_them))
    rows = len(B) + np.arange(len(X))
    mean, covariance = assumed_density(K, rows, y, log_likelihood, residual=1.0 - np.diag(K)[rows])
    p = latent(model.predict_many(T))
    np.testing.assert_allclose(p.mean, mean[-len(T) :], atol=1e-7)
    np.testing.assert_allclose(p.variance, (np.diag(covariance) + 1.0 - np.diag(K))[-len(T) :], atol=1e-7)


def test_dtc_is_csato_and_oppers_projection():
    kernel, y = sg.SquaredExponential(1.0), 1.0
    model = sg.SOGP(kernel, novelty=0.5, absorb="dtc", likelihood=sg.Probit())
    model.learn_many([[0.0], [0.7]], [1.0, y])
    assert model.size == 1
    log_likelihood = LOG_LIKELIHOODS["probit"][1]
    _, mean, variance = dense(log_likelihood, 1.0, 0.0, 1.0)
    k = float(kernel([[0.0]], [[0.7]])[0, 0])
    # The value at 0.7 is k f(0) + residual; q and r are its own, eta = 1 / (1 + residual r) projects the row.
    m, v, residual = k * mean, k * k * variance + 1.0 - k * k, 1.0 - k * k
    _, after, left = dense(log_likelihood, y, m, v)
    q, r = (after - m) / v, (left / v - 1.0) / v
    eta = 1.0 / (1.0 + residual * r)
    p = model.predict_one([0.0]).latent
    assert p.mean == pytest.approx(mean + eta * q * k * variance, abs=1e-9)
    assert p.variance == pytest.approx(variance + eta * r * (k * variance) ** 2, abs=1e-9)


def test_an_outlier_moves_the_mean_as_it_should_and_adds_no_doubt():
    model = sg.SOGP(sg.SquaredExponential(1.0), likelihood=sg.StudentT(0.1, dof=4.0))
    model.learn_many(np.zeros((20, 1)), np.full(20, 0.5))
    before = model.predict_one([0.0])
    model.learn_one([0.0], 3.0)
    after = model.predict_one([0.0])
    log_likelihood = lambda y, f: stats.t.logpdf(y, 4.0, loc=f, scale=0.1)  # noqa: E731
    _, mean, variance = dense(log_likelihood, 3.0, before.mean, before.variance)
    assert variance > before.variance  # as Csato and Opper would have it
    assert after.mean == pytest.approx(mean, abs=1e-9)
    assert after.variance == pytest.approx(before.variance, rel=1e-12)


@pytest.mark.parametrize("outlier", [1e6, 1e12, 1e100])
def test_the_covariance_stays_between_0_and_the_prior_whatever_comes(outlier):
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (400, 1))
    y = np.where(rng.random(400) < 0.2, outlier * rng.choice([-1.0, 1.0], 400), np.sin(X[:, 0]))
    for model in (
        sg.SOGP(likelihood=sg.StudentT(1e-3), capacity=15),
        sg.KRLST(likelihood=sg.StudentT(1e-3, dof=1.0), capacity=15, forgetting=0.99),
    ):
        p = model.track(X, y)
        assert np.all(np.isfinite(p.mean))
        assert np.abs(p.mean[100:] - np.sin(X[100:, 0])).max() < 0.2
        values = np.linalg.eigvalsh(inside.covariance(model))
        assert values[0] > 0
        assert values[-1] <= 1 + 1e-12
        assert model.health.skipped_rows == 0


# Predictions


@pytest.mark.parametrize(
    ("dof", "variance", "scale"), [(4.0, 0.3, 0.2), (1.5, 1e-6, 2.0), (3.0, 4.0, 0.01), (30.0, 1.0, 1.0)]
)
def test_a_student_t_prediction_is_that_of_function_plus_noise(dof, variance, scale):
    p = sg.StudentTPrediction(0.7, variance, scale, dof)
    log_likelihood = lambda y, f: stats.t.logpdf(y, dof, loc=f, scale=scale)  # noqa: E731
    for y in (0.7, 1.3, -4.0, 50.0):
        assert p.log_density(y) == pytest.approx(np.log(dense(log_likelihood, y, 0.7, variance)[0]), abs=1e-8)
    f = 0.7 + np.sqrt(variance) * np.linspace(-9, 9, 20_001)
    weight = stats.norm.pdf(np.linspace(-9, 9, 20_001))
    for level in (0.5, 0.9, 0.99):
        low, high = p.interval(level)
        inside_ = stats.t.cdf(high, dof, loc=f, scale=scale) - stats.t.cdf(low, dof, loc=f, scale=scale)
        assert np.sum(weight * inside_) / weight.sum() == pytest.approx(level, abs=1e-9)
        assert low + high == pytest.approx(1.4)
        assert p.quantile(0.5 - level / 2) == pytest.approx(low, rel=1e-9)
        assert p.cdf(high) == pytest.approx(0.5 + level / 2, abs=1e-10)
        assert p.p_value(high) == pytest.approx(1 - level, abs=1e-10)
    if dof > 2:
        away = np.sinh(np.linspace(0, 9, 3001))  # from y, on either side
        squares = p.cdf(2.0 - away) ** 2 + p.p_value(2.0 + away, side="upper") ** 2
        assert p.crps(2.0) == pytest.approx(np.trapezoid(squares, away), rel=1e-5)
    np.testing.assert_allclose(p.noise, stats.t.var(dof, scale=scale) if dof > 2 else np.nan)
    draws = p.sample(100_000, seed=2)
    assert np.mean((low <= draws) & (draws <= high)) == pytest.approx(0.99, abs=0.002)


def test_a_class_prediction_shares_the_variance_between_function_and_chance():
    m, v = np.array([0.3, -2.0, 0.0]), np.array([0.5, 4.0, 1e-12])
    p = sg.ClassPrediction.of(m, v)
    for i in range(3):
        f = m[i] + np.sqrt(v[i]) * np.linspace(-10, 10, 40_001)
        weight, chance = stats.norm.pdf(np.linspace(-10, 10, 40_001)), stats.norm.cdf(f)
        weight /= weight.sum()
        mean = np.sum(weight * chance)
        assert p.probability[i] == pytest.approx(mean, abs=1e-12)
        assert p.variance[i] == pytest.approx(np.sum(weight * (chance - mean) ** 2), abs=1e-12)
        assert p.noise[i] == pytest.approx(np.sum(weight * chance * (1 - chance)), abs=1e-12)
    np.testing.assert_allclose(p.std**2, p.mean * (1 - p.mean))
    np.testing.assert_allclose(p.log_density([1, 0, np.nan]), [np.log(p.mean[0]), np.log1p(-p.mean[1]), np.nan])
    assert p.log_density([0.5, 2, -1]).tolist() == [-np.inf] * 3
    assert p[0].latent.mean == 0.3
    np.testing.assert_allclose(p.sample(100_000, seed=1).mean(0), p.mean, atol=0.005)


def test_the_interval_of_a_class_holds_what_is_not_improbable():
    p = sg.ClassPrediction.of(np.array([-3.0, 0.0, 3.0]), np.zeros(3))
    low, high = p.interval(0.9)
    assert low.tolist() == [0, 0, 1]
    assert high.tolist() == [0, 1, 1]
    assert sg.ClassPrediction.of(0.0, 0.0).interval() == (0.0, 1.0)
    assert p.quantile(0.95).tolist() == high.tolist()


def test_a_class_has_the_distribution_of_its_probability():
    p = sg.ClassPrediction.of(0.4, 0.5)
    one = p.mean
    assert [p.cdf(y) for y in (-1, 0, 0.5, 1)] == pytest.approx([0, 1 - one, 1 - one, 1])
    assert [p.pit(y) for y in (0, 1)] == pytest.approx([(1 - one) / 2, 1 - one / 2])
    assert [p.p_value(y, side="upper") for y in (0, 1)] == pytest.approx([1, one])
    assert [p.crps(y) for y in (0, 1)] == pytest.approx([one**2, (1 - one) ** 2])


@pytest.mark.parametrize(("m", "v"), [(0.0, 1.0), (3.0, 1e-4), (9.0, 0.25), (-2.0, 4.0), (12.0, 1e-6)])
def test_a_count_prediction_is_that_of_the_mixture(m, v):
    p = sg.CountPrediction.of(m, v)
    f = m + np.sqrt(v) * np.linspace(-10, 10, 20_001)
    weight = stats.norm.pdf(np.linspace(-10, 10, 20_001))
    weight /= weight.sum()
    rate = np.exp(f)
    mean = np.sum(weight * rate)
    assert p.mean == pytest.approx(mean, rel=1e-10)
    assert p.noise == pytest.approx(mean, rel=1e-10)
    assert p.variance == pytest.approx(np.sum(weight * (rate - mean) ** 2), rel=1e-6)
    for level in (0.5, 0.9, 0.999):
        for bound, tail in zip(p.interval(level), (0.5 - level / 2, 0.5 + level / 2), strict=True):
            at, before = (np.sum(weight * stats.poisson.cdf(k, rate)) for k in (bound, bound - 1))
            assert before < tail + 1e-7
            assert at >= tail - 1e-7
    y = np.floor(mean)
    at, before = (np.sum(weight * stats.poisson.cdf(k, rate)) for k in (y, y - 1))
    assert p.cdf(y) == pytest.approx(at, abs=1e-7)
    assert p.p_value(y, side="upper") == pytest.approx(1 - before, abs=1e-7)
    assert p.pit(y) == pytest.approx(0.5 * (at + before), abs=1e-7)
    k = np.arange(p.quantile(1e-12), p.quantile(1 - 1e-7) + 1)
    if k.size < 30_000:
        step = (p.cdf(k) - (k >= y)) ** 2
        assert p.crps(y) == pytest.approx(np.sum(step), rel=1e-9 if k.size < 1000 else 1e-3)
    assert p.log_density(y) == pytest.approx(np.log(np.sum(weight * stats.poisson.pmf(y, rate))), abs=1e-8)
    assert p.log_density(0.5) == p.log_density(-1) == -np.inf
    draws = p.sample(50_000, seed=3)
    low, high = p.interval(0.999)
    assert np.mean((low <= draws) & (draws <= high)) > 0.997


def test_counts_of_an_uncertain_rate_are_drawn_however_large():
    draws = sg.CountPrediction.of(0.0, 400.0).sample(20_000, seed=1)
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws, np.floor(draws))
    share = np.mean(draws > np.exp(20.0 * 2.3))  # a rate of 1e20: a log rate above 2.3 standard deviations
    assert share == pytest.approx(stats.norm.sf(2.3), abs=0.003)


# Through wrappers


def test_standardize_leaves_classes_and_counts_alone():
    X, y, _ = line()
    for likelihood, targets in ((sg.Probit(), (y > 0)), (sg.Poisson(), np.floor(np.exp(2 + y)))):
        model = sg.Standardize(sg.SOGP(likelihood=likelihood), warmup=10)
        p = model.track(1000.0 + 50.0 * X, targets)
        assert model.scaling.target_scale == 1.0
        assert model.scaling.target_shift == 0.0
        assert model.scaling.input_scale[0] > 50
        fresh = sg.SOGP(likelihood=likelihood)
        s = model.scaling
        fresh.learn_many((1000.0 + 50.0 * X - s.input_shift) / s.input_scale, targets)
        x = (1010.0 - s.input_shift) / s.input_scale
        assert model.predict_one([1010.0]).mean == pytest.approx(fresh.predict_one(x).mean, rel=1e-10)
        assert type(p) is type(fresh.predict_one(x))


# Refusals

POINTS = np.linspace(-1, 1, 5)[:, None]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: sg.SOGP(likelihood="probit"), "likelihood must be, for example, StudentT"),
        (lambda: sg.SOGP(likelihood=sg.Probit(), noise=0.1), r"noise=0.1 and likelihood=Probit\(\) both say"),
        (lambda: sg.SOGP(likelihood=sg.Probit(), noise=[0.01, 0.02]), "both say how targets scatter"),
        (lambda: sg.ISSGPR(likelihood=sg.Probit()), 'form="cholesky" adds up Gaussian .* use form="covariance"'),
        (lambda: sg.RecursiveGP(POINTS, batch=5, likelihood=sg.Probit()), "use batch=1 with likelihood"),
        (lambda: sg.SOGP(likelihood=sg.Probit(), adapt=sg.SNGD()), "use adapt=None with likelihood"),
        (lambda: sg.OESGP(likelihood=sg.Probit(), feedback=0.1), "use feedback=None with likelihood"),
        (lambda: sg.KRLST(likelihood=sg.Probit(), estimate_power=True), "use estimate_power=False with likelihood"),
        (
            lambda: sg.OnlineGP(
                sg.Basis(), likelihood=sg.Probit(), budget=sg.Budget(novelty=0, evict="oldest", removal="discard")
            ),
            'removal="discard" keeps Gaussian observations',
        ),
        (
            lambda: sg.RecursiveGP(POINTS, mean=lambda X: X[:, 0], likelihood=sg.Poisson()),
            "mean is taken from the targets, and counts have none",
        ),
        (lambda: sg.StudentT(-1.0), "scale must be a positive number"),
        (lambda: sg.StudentT(dof=0), "dof must be a finite number above 0 and at most 1000; got 0"),
        (lambda: sg.StudentT(dof=1e6), "at most 1000"),
        (lambda: sg.Calibrated(sg.SOGP(likelihood=sg.Probit())), "Calibrated learns .* around a model of classes"),
        (lambda: sg.DriftAware(sg.SOGP(likelihood=sg.Poisson())), "DriftAware ranks .* around a model of counts"),
        (lambda: sg.Committee([sg.SOGP(likelihood=sg.Probit())]), "Committee averages .* around a model of classes"),
        (lambda: sg.Differenced(sg.SOGP(likelihood=sg.Poisson())), "Differenced takes .* around a model of counts"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(build, message):
    with pytest.raises((TypeError, ValueError), match=message):
        build()


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (sg.Probit(), 0.5, r"y has 0.5: with Probit\(\) targets must be 0 or 1, or NaN where missing; nothing"),
        (sg.Probit(), -1, "targets must be 0 or 1"),
        (sg.Poisson(), 2.5, r"y has 2.5: with Poisson\(\) targets must be whole numbers from 0 to 1e\+15"),
        (sg.Poisson(), -3, "targets must be whole numbers"),
    ],
)
def test_targets_that_cannot_be_are_refused_and_change_nothing(likelihood, y, message):
    for model in (sg.SOGP(likelihood=likelihood), sg.Standardize(sg.SOGP(likelihood=likelihood))):
        for _ in range(2):
            before = model.to_bytes()
            with pytest.raises(ValueError, match=message):
                model.learn_one([1.0], y)
            with pytest.raises(ValueError, match="Y has .* in row 2: with"):
                model.learn_many([[1.0], [2.0], [3.0]], [1.0, np.nan, y])
            assert model.to_bytes() == before
            model.learn_one([1.0], True)  # a truth value is a class, and a count


def test_several_outputs_need_covariances_of_their_own():
    model = sg.SOGP(likelihood=sg.StudentT())
    with pytest.raises(ValueError, match='there are 2 outputs, .* use outputs="separate"'):
        model.learn_one([1.0], [1.0, 2.0])


def test_free_runs_of_classes_and_counts_are_refused():
    for likelihood in (sg.Probit(), sg.Poisson(), sg.StudentT(dof=2.0)):
        model = sg.SOGP(likelihood=likelihood)
        model.learn_one([1.0], 1.0)
        with pytest.raises(ValueError, match="simulate and forecast feed a model with numbers that it draws itself"):
            model.simulate([[1.0], [0.0]], feedback=[0])


def test_tuning_keeps_the_likelihood_and_finds_its_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    plain = sg.tune(sg.KRLST(), X, y)
    noise = plain.get_params()["noise"]
    assert 0.005 < noise < 0.02
    assert sg.tune(sg.KRLST(likelihood=sg.Gaussian(0.5)), X, y).get_params()["likelihood"].noise == noise
    robust = sg.tune(sg.KRLST(likelihood=sg.StudentT(0.5, dof=6)), X, y).get_params()["likelihood"]
    np.testing.assert_allclose(robust.noise, noise * 4 / 6, rtol=1e-12)  # its variance is 6 / 4 of the squared scale
    assert robust.dof == 6
    with pytest.raises(TypeError, match="not of classes or counts"):
        sg.tune(sg.KRLST(likelihood=sg.Probit()), X, (y > 0).astype(float))


@pytest.mark.parametrize("name", LOG_LIKELIHOODS)
def test_fourier_features_equal_the_joint_gaussian_of_their_function(name):
    likelihood, log_likelihood = LOG_LIKELIHOODS[name]
    X, y, T = line()
    y = observed(name, y)
    model = sg.ISSGPR(6, lengthscale=1.0, form="covariance", likelihood=likelihood)
    model.learn_many(X, y)
    angles = np.vstack([X, T]) @ model._state.frequencies.T
    Phi = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(6)
    mean, covariance = assumed_density(Phi @ Phi.T, range(len(X)), y, log_likelihood)
    p = latent(model.predict_many(T))
    np.testing.assert_allclose(p.mean, mean[len(X) :], atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance)[len(X) :], atol=1e-8)


def test_standardize_scales_student_t_noise_with_the_target():
    X, y, _ = line()
    one, other = (sg.Standardize(sg.SOGP(likelihood=sg.StudentT(0.2)), warmup=10) for _ in range(2))
    p, q = one.track(X, y), other.track(X, 7.0 + 1000.0 * y)
    p, q, y = p[12:], q[12:], y[12:]  # the units are those of the first ten rows
    np.testing.assert_allclose(q.mean, 7.0 + 1000.0 * p.mean, rtol=1e-9)
    np.testing.assert_allclose(q.scale, 1000.0 * p.scale, rtol=1e-9)
    np.testing.assert_allclose(q.noise, 1e6 * p.noise, rtol=1e-9)
    np.testing.assert_allclose(q.log_density(7.0 + 1000.0 * y), p.log_density(y) - np.log(1000.0), rtol=1e-8)


def test_intervals_around_student_t_noise_are_calibrated_as_any():
    X, y, _ = line(600)
    for dof in (4.0, 1.5):  # without a variance, too
        model = sg.Calibrated(sg.KRLST(likelihood=sg.StudentT(0.1, dof=dof)))
        p = model.track(X, y)
        assert np.all(np.isfinite(p.lower[1:]))  # before the first error no scale is known
        assert model.calibration.coverage == pytest.approx(0.9, abs=0.03)

"""The process on embeddings: its likelihood, gradients and predictions against slow definitions."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from streamgp import deep  # noqa: E402
from streamgp.deep.gp import ExactHead, starting_theta  # noqa: E402
from streamgp.deep.interpolated import InterpolatedHead  # noqa: E402
from streamgp.deep.training import ProcessLearner, Windows, embed  # noqa: E402

HEADS = {
    "exact": ExactHead,
    "interpolated": lambda theta: InterpolatedHead(theta, 40),
}


def problem(width=2, p=2, n=40, seed=0):
    rng = np.random.default_rng(seed)
    H = torch.tensor(rng.uniform(-1, 1, (n, width)))
    Y = torch.tensor(rng.standard_normal((n, p)))
    theta = torch.tensor(np.log(rng.uniform(0.4, 1.5, (p, width + 2))))
    return H, Y, theta


def slow_nlml(H, Y, theta):
    """Eq. (8) of [alshedivat2017], halved and with its constant: entry by entry, output by output."""
    total = 0.0
    for y, logs in zip(Y.T, np.exp(theta), strict=True):
        scales, variance, noise = logs[:-2], logs[-2], logs[-1]
        K = np.array([[variance * np.exp(-0.5 * np.sum(((a - b) / scales) ** 2)) for b in H] for a in H])
        K += noise * np.eye(len(H))
        total += 0.5 * (y @ np.linalg.inv(K) @ y + np.linalg.slogdet(K)[1] + len(y) * np.log(2 * np.pi))
    return total


def test_the_likelihood_is_that_of_the_definition_summed_over_outputs():
    H, Y, theta = problem()
    value = ExactHead(theta).evaluate(H, Y).value * Y.numel()
    assert value == pytest.approx(slow_nlml(H.numpy(), Y.numpy(), theta.numpy()), rel=1e-10)


def test_alshedivat2017_9_and_10_are_minus_half_the_gradients_of_8():
    """As printed: L = y'K^-1 y + log det K, and dL/dtheta = 1/2 tr((K^-1 y y' K^-1 - K^-1) dK/dtheta)."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)

    def K(log_lengthscale):
        return np.exp(-0.5 * (X - X.T) ** 2 / np.exp(2 * log_lengthscale)) + 0.1 * np.eye(12)

    def printed_8(log_lengthscale):
        return y @ np.linalg.solve(K(log_lengthscale), y) + np.linalg.slogdet(K(log_lengthscale))[1]

    step = 1e-5
    dK = (K(step) - K(-step)) / (2 * step)
    inverse = np.linalg.inv(K(0.0))
    a = inverse @ y
    printed_9 = 0.5 * np.trace((np.outer(a, a) - inverse) @ dK)
    difference = (printed_8(step) - printed_8(-step)) / (2 * step)
    assert printed_9 == pytest.approx(-0.5 * difference, rel=1e-6)
    H, Y, theta = torch.tensor(X), torch.tensor(y)[:, None], torch.tensor([[0.0, 0.0, np.log(0.1)]])
    assert float(ExactHead(theta).evaluate(H, Y).by_theta[0, 0]) * 12 == pytest.approx(-printed_9, rel=1e-6)


@pytest.mark.parametrize("kind", HEADS)
def test_gradients_by_embeddings_and_hyperparameters_equal_finite_differences(kind):
    H, Y, theta = problem(n=15)
    head = HEADS[kind](theta.clone())
    result = head.evaluate(H, Y)
    step = 1e-5

    def difference(move):
        up, down = (move(sign * step) for sign in (1, -1))
        return (up - down) / (2 * step)

    for i, j in ((0, 0), (7, 1), (14, 0)):

        def moved(by, i=i, j=j):
            other = H.clone()
            other[i, j] += by
            return head.evaluate(other, Y).value

        assert float(result.by_embedding[i, j]) == pytest.approx(difference(moved), abs=1e-7)
    for i in range(theta.shape[0]):
        for j in range(theta.shape[1]):

            def moved(by, i=i, j=j):
                head.theta.copy_(theta)
                head.theta[i, j] += by
                return head.evaluate(H, Y).value

            assert float(result.by_theta[i, j]) == pytest.approx(difference(moved), abs=1e-7)
            head.theta.copy_(theta)


@pytest.mark.parametrize("width", [1, 2])
def test_a_fine_grid_gives_the_exact_process(width):
    H, Y, theta = problem(width, p=1, n=60)
    theta[:, -1] = np.log(0.05)
    exact, other = ExactHead(theta), InterpolatedHead(theta, 100)
    for head in (exact, other):
        head.condition(H, Y)
    inside = torch.tensor(np.random.default_rng(1).uniform(-0.9, 0.9, (50, width)))
    for a, b in zip(exact.predict(inside), other.predict(inside), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)
    a, b = exact.evaluate(H, Y), other.evaluate(H, Y)
    assert a.value == pytest.approx(b.value, abs=1e-4)
    # The slope of a cubic interpolant is good to the square of the step: here 1e-3 of numbers up to 1.
    np.testing.assert_allclose(a.by_embedding, b.by_embedding, atol=2e-3)
    np.testing.assert_allclose(a.by_theta, b.by_theta, atol=2e-4)


def keys(s):
    """The cubic convolution of Keys (1981) at a distance of s cells."""
    s = abs(s)
    if s <= 1:
        return 1.5 * s**3 - 2.5 * s**2 + 1
    return -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2 if s < 2 else 0.0


def test_the_likelihood_on_a_grid_is_that_of_the_dense_interpolated_covariance():
    H, Y, theta = problem(2, p=2, n=40)
    head = InterpolatedHead(theta, 16)
    value = head.evaluate(H, Y).value * Y.numel()
    axes = head._axes().numpy()
    grid = np.array([(a, b) for a in axes[0] for b in axes[1]])
    W = np.array([[keys((h[0] - a) / np.ptp(axes[0, :2])) * keys((h[1] - b) / np.ptp(axes[1, :2])) for a, b in grid]
                  for h in H.numpy()])  # fmt: skip
    total = 0.0
    for y, (*scales, variance, noise) in zip(Y.numpy().T, np.exp(theta.numpy()), strict=True):
        r2 = (((grid[:, None] - grid) / scales) ** 2).sum(-1)
        K = W @ (variance * np.exp(-0.5 * r2)) @ W.T + noise * np.eye(len(y))
        total += 0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + len(y) * np.log(2 * np.pi))
    assert value == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("kind", HEADS)
def test_far_from_the_embeddings_the_prior_comes_back(kind):
    H, Y, theta = problem(2, p=1)
    head = HEADS[kind](theta)
    head.condition(H, Y)
    mean, variance = head.predict(torch.full((1, 2), 50.0, dtype=torch.double))
    assert float(mean) == pytest.approx(0.0, abs=1e-12)
    assert float(variance) == pytest.approx(float(theta[0, -2].exp()))


# The network under the process.


def learner(method="full", batch=64, refresh=1.0, seed=0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    rows = torch.tensor(rng.standard_normal((41, 2)))
    targets = torch.tensor(rng.standard_normal((37, 1)))
    windows = Windows(rows, torch.arange(3, 40), torch.zeros(37, dtype=torch.long), targets, depth=4)
    encoder = deep.LSTM(3, layers=2, dropout=0.0, recurrent_dropout=0.0, embedding=2).build(2, 4).double()
    head = ExactHead(starting_theta(embed(encoder, windows), 1, None, 1.0, 0.3))
    training = deep.Training(method=method, batch=batch, refresh=refresh)
    return ProcessLearner(encoder, head, windows, training), windows


def test_one_batch_of_algorithm_2_has_the_gradient_of_the_whole_likelihood():
    """Against reverse differentiation through the Cholesky factor, which shares nothing with eq. (10)."""
    course, windows = learner("semi-stochastic", batch=37, refresh=1)
    stale = course.head.evaluate(embed(course.encoder, windows), windows.targets).by_embedding
    course.gradient(torch.randperm(37), stale)
    gradients = {name: weight.grad.clone() for name, weight in course.encoder.named_parameters()}
    course.encoder.zero_grad()
    theta = course.head.theta[0]
    h = course.encoder(windows.cut(slice(None))) / theta[:-2].exp()
    K = theta[-2].exp() * torch.exp(-0.5 * (h[:, None] - h[None, :]).square().sum(-1)) + theta[-1].exp() * torch.eye(
        37, dtype=torch.double
    )
    y = windows.targets[:, 0]
    density = torch.distributions.MultivariateNormal(torch.zeros(37, dtype=torch.double), K).log_prob(y)
    (-density / 37).backward()
    for name, weight in course.encoder.named_parameters():
        np.testing.assert_allclose(gradients[name], weight.grad, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"method": "full"}, {"method": "semi-stochastic", "batch": 37}),
        ({"method": "alternating", "batch": 10}, {"method": "semi-stochastic", "batch": 10, "refresh": 1}),
        ({"method": "full"}, {"method": "alternating", "batch": 100}),
    ],
)
def test_methods_coincide_where_they_should(one, other):
    ends = []
    for settings in (one, other):
        course, _ = learner(**settings)
        torch.manual_seed(3)
        for _ in range(3):
            course.epoch()
        ends.append([tensor.detach().clone() for tensor in course.state_dict().values()])
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_mini_batches_with_a_fresh_kernel_sum_to_the_whole_gradient():
    course, windows = learner("alternating", batch=10)
    stale = course.head.evaluate(embed(course.encoder, windows), windows.targets).by_embedding
    course.gradient(torch.arange(37), stale)
    whole = [weight.grad.clone() for weight in course.encoder.parameters()]
    total = [torch.zeros_like(weight) for weight in course.encoder.parameters()]
    for index in torch.randperm(37).split(10):
        course.gradient(index, stale)
        for part, weight in zip(total, course.encoder.parameters(), strict=True):
            part += len(index) / 37 * weight.grad
    for a, b in zip(whole, total, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)

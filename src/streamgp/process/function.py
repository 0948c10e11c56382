"""The function of a process as it is known: at several rows together, with its slopes, and drawn row by row.

f(x) = phi'w + residual with w ~ N(mu, S), so that the function's values are jointly Gaussian with mean phi'mu and

    cov(f(x), f(z)) = phi(x)' S phi(z) + k(x, z) - phi(x)'phi(z),

where the last two terms cancel for Fourier and linear features. A kernel over time has its coordinates in phi and S,
and adds the covariance of what is new since the last learned row. So have the weights of a LinearMean, which stay.

With weights c over kernel functions (or over other features) the mean is c'k(B, x), and so is its slope c'dk/dx:

    d mean / dx = (R^-1 mu)' dk/dx        d variance / dx = 2 (R^-1 (S phi - phi))' dk/dx + d kappa / dx

because phi = R^-T k and the variance is phi'S phi + kappa - phi'phi. Where the input is x ~ N(x, P), the squared
exponential has its moments in closed form [girard2003]:

    mean = E[phi]'mu        variance = E[phi'S phi + kappa - phi'phi] + mu' Cov[phi] mu
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtpsv

from streamgp.compiled import compile_now
from streamgp.contract import inputs, passing
from streamgp.contract.analysis import Analysis
from streamgp.contract.checks import LARGEST, check
from streamgp.contract.conditions import TIME
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.joint import JointPrediction, root_of
from streamgp.contract.prediction import Prediction
from streamgp.kernels import SquaredExponential, program
from streamgp.linalg.dense import solve, solve_transposed, symmetric
from streamgp.process import features, observation, rare, time
from streamgp.process import mean as prior_mean
from streamgp.process.memory import Pasts
from streamgp.process.state import Process
from streamgp.settings import FloatArray, Maybe

# Independent variance that is added to every drawn value: of k(x, x), to whose rounding the covariance is known, or of
# the posterior variance where features leave no residual. The values of a smooth function determine each other beyond
# what arithmetic can hold; with this on the diagonal L^-1 stays below 1e5 in units of the function.
NUGGET = 1e-10


class Function(Analysis):
    """The posterior of the function of a process, at rows that would come next.

    Args:
        model: the process, which has seen a row.
    """

    def __init__(self, model: Process) -> None:
        super().__init__(model)
        self._parts, self._state, self._numbers = model._features, model._state, model._numbers
        state, n = model._state, rare.weights_in_use(model._numbers)
        self._n, self._linear, self._mean = n, model._linear, model._mean
        self.temporal = int(self._numbers.plan["temporal"][0])
        self.pasts = Pasts(model._memory, state)
        likelihood = model._likelihood
        # Classes and counts have no noise of their own beside the function.
        self.noise = (likelihood.noise_ratio if likelihood.targets == "numbers" else 0.0) * state.noise
        q = self.noise.size
        self.points = state.basis[:n]  # in use, (n, width)
        self.factor = np.asfortranarray(state.factor[:n, :n])  # R with K = R'R on these points, upper triangle
        self.program = program.Program(self._numbers.work.operations, state.parameters)
        self.has_residual = self._parts.kernel is not None
        if model._keeps_rows:  # the factor is that of K + noise I, and mu holds the weights of the kernel functions
            self.mu = np.triu(state.factor[:n, :n]) @ state.mu[:n]
            self.S = np.zeros((q, n, n))
        elif model._factored:
            inverses = np.stack([solve_triangular(R, np.eye(n), check_finite=False) for R in state.covariance])
            self.mu = np.column_stack([inverses[j % q] @ z for j, z in enumerate(state.mu.T)])
            self.S = self.noise[:, None, None] * inverses @ inverses.transpose(0, 2, 1)
        else:
            m = self.temporal + n
            self.mu = state.mu[:m].copy()
            self.S = symmetric(state.covariance[:, :m, :m])
            if model._least_squares:
                self.S[:] = 0.0
        # An estimated signal power scales the variances.
        self.power = np.ones(q)
        if model._estimate_power:
            np.divide(state.power[0], state.power[1], out=self.power, where=state.power[1] > 0)
        self.noise *= self.power

    def seen(self, X: FloatArray) -> FloatArray:
        """What the memory hands over of rows, (n, width): they come next, or go on side by side."""
        inputs.refuse(*check(X, X[:0], True, LARGEST), many=True)
        return self.pasts.advance(X)

    def prior(self, X: FloatArray) -> FloatArray:
        """The prior mean of rows, (n, 1) or (n, p)."""
        found = self.model._prior_mean(X)
        return np.zeros((len(X), 1)) if found is None else found

    def over_time(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What a kernel over time adds at n times: its part of phi, (n, coordinates), and what is new, (n, n).

        The last coordinates are those of a LinearMean, if there is one: beside() fills them in.
        """
        Phi, new = np.zeros((len(times), self.temporal)), np.zeros((len(times), len(times)))
        if self.model._terms:
            compile_now(time.ahead)
            numbers, room = self._numbers, np.empty(Phi.shape)
            time.ahead(numbers.records, numbers.buffers, np.ascontiguousarray(times), Phi, new, room)
        return Phi, new

    def beside(self, over_time: FloatArray, X: FloatArray) -> FloatArray:
        """The part of phi beside the features, (n, coordinates), of rows (n, d): over time, then of a LinearMean."""
        if self._linear is None:
            return over_time
        H = self._linear.whitened(X)
        return np.hstack([over_time[:, : self.temporal - H.shape[1]], H])

    def features(self, Z: FloatArray) -> FloatArray:
        """phi of n rows as the memory hands them over, (n, weights)."""
        if self.has_residual:
            return solve_transposed(self.factor, self.kernel(Z, self.points).T).T
        if self._parts.kind == features.LINEAR:
            constant = np.ones((len(Z), self._n - Z.shape[1]))
            return np.hstack([Z, constant]) / math.sqrt(self._parts.delta)
        return features.fourier_features(self._state.frequencies, self._state.parameters[0], Z)

    def kernel(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """k(X, Z) with the present hyperparameters."""
        return self.program.between(X, Z)

    def prior_variances(self, Z: FloatArray) -> FloatArray:
        """(1 + jitter) k(z, z) of n rows."""
        scale: float = 1.0 + self._parts.jitter
        return scale * self.program.diagonal(Z)[0]

    def _times(self, n: int, conditions: Maybe) -> FloatArray:
        """When n rows would come: without a time a usual spacing after the last row."""
        times: FloatArray = np.full(n, np.nan) if conditions is None else conditions[:, TIME]
        moment = self.model._moment
        return times if moment is None else np.where(np.isnan(times), moment.one_later, times)

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        if not self.model.has_variance:
            return super().joint(X)
        Z, (over_time, new), root = self.seen(X), self.over_time(self._times(len(X), conditions)), None
        Phi = self.features(Z)
        whole = np.hstack([self.beside(over_time, X), Phi])
        covariance = whole @ self.S @ whole.T + new
        if self.has_residual:
            K = self.kernel(Z, Z)
            K[np.diag_indices_from(K)] *= 1.0 + self._parts.jitter
            covariance += K - Phi @ Phi.T
        elif not self.temporal:  # where there is nothing but weights, draws are drawn by them
            root = np.sqrt(self.power)[:, None, None] * (Phi @ root_of(self.S))
        covariance = self.power[:, None, None] * (0.5 * (covariance + covariance.transpose(0, 2, 1)))
        diagonal = np.einsum("jii->ji", covariance)
        np.maximum(diagonal, 0.0, out=diagonal)
        mean = self.prior(X) + whole @ self.mu
        return JointPrediction(mean, covariance, np.repeat(self.noise[None], len(X), axis=0), root)

    def derived(self, X: FloatArray, conditions: Maybe = None) -> Prediction:
        model = self.model
        if model._likelihood.kind != observation.GAUSSIAN:
            raise ValueError(
                f"derivatives are those of a Gaussian prediction; this model has likelihood={model._likelihood!r}"
            )
        if not X.shape[1]:
            raise ValueError(f"{type(model).__name__} has no derivatives by its inputs: it has none, only times")
        predicted: Prediction = model._told(list(passing.predicted(model, X, conditions)))
        by_mean, by_variance = self.slopes(X, self._times(len(X), conditions))
        by_variance = by_variance if model.has_variance else np.nan * by_variance
        return predicted._with(mean_gradient=by_mean, variance_gradient=by_variance)

    def slopes(self, X: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slopes of the means, (n, p, d), and of the variances, (n, covariances, d)."""
        linear, (n, d), p = self._linear, X.shape, self.mu.shape[1]
        over_time = np.vstack([self.over_time(times[i : i + 1])[0] for i in range(n)])
        beside, Z, out = self.beside(over_time, X), self.seen(X), np.empty((n, p + self.noise.size, d))
        t = beside.shape[1]
        if linear is not None:
            by_mean = linear.scales(d)[:, None] * linear.slopes(X)
        for i, z in enumerate(Z):  # row by row, so that a row's slopes do not depend on the others
            phi = self.features(z[None])[0]
            H = self.S @ np.append(beside[i], phi)
            if self.has_residual:
                H[:, t:] -= phi
            W = np.vstack([self.mu.T, 2.0 * H])  # over all features: of the means, then of the variances
            out[i] = self._by_row(z, self._by_seen(z, phi, W[:, t:]), d)
            if linear is not None:
                out[i] += W[:, t - by_mean.shape[1] : t] @ by_mean[i]
        if self._mean is not None:
            out[:, :p] += prior_mean.slopes(self._mean, X, p)
        return out[:, :p], self.power[:, None] * out[:, p:]

    def _by_seen(self, z: FloatArray, phi: FloatArray, W: FloatArray) -> FloatArray:
        """sum_i W[., i] d feature i / d seen, (r, width), with W (r, features); for variances also the prior's."""
        state, kind = self._state, self._parts.kind
        if kind == features.FOURIER:
            D = len(state.frequencies)
            return (phi[:D] * W[:, D:] - phi[D:] * W[:, :D]) @ state.frequencies  # type: ignore[no-any-return]
        if kind == features.LINEAR:
            return W[:, : z.size] / math.sqrt(self._parts.delta)
        # k(x, x) has x on both sides
        of_prior = np.where(np.arange(len(W)) < self.mu.shape[1], 0.0, 2.0 * (1.0 + self._parts.jitter))
        weights = np.vstack([solve(self.factor, W.T), of_prior])
        by_input: FloatArray = self.program.input_gradient(np.vstack([self.points, z]), z) @ weights
        return by_input.T

    def _by_row(self, z: FloatArray, g: FloatArray, d: int) -> FloatArray:
        """From slopes by what is seen, (r, width), to those by the row, (r, d), which also drives a reservoir."""
        memory, past = self.model._memory, self._state.units
        own = g[:, g.shape[1] - d :] if memory.augment else np.zeros((len(g), d))
        if past.size == 0:
            return own
        # seen = (1 - retention) tanh(...) + retention past, as memory.look() has it
        moved = (z[: past.size] - memory.retention * past) / (1.0 - memory.retention)
        units: FloatArray = (g[:, : past.size] * (1.0 - memory.retention) * (1.0 - moved**2)) @ self._state.input
        return own + units

    def uncertain(self, X: FloatArray, P: FloatArray, conditions: Maybe = None) -> Prediction:
        model, kernel, d, q = self.model, self._parts.kernel, X.shape[1], self.temporal
        level = model._mean is None or isinstance(model._mean, float)
        plain = model._likelihood.kind == observation.GAUSSIAN and model.has_variance and not model._recalls
        if not (isinstance(kernel, SquaredExponential) and plain and level):
            return super().uncertain(X, P, conditions)
        named = kernel.hyperparameters(self._state.parameters, d)
        M, kappa = np.diag(np.resize(named["lengthscale"], d) ** -2.0), float(self.prior_variances(X)[0])
        if "factors" in named:
            M += np.asarray(named["factors"]) @ np.asarray(named["factors"]).T
        once, twice = expectations(self.points, X[0], P, M, float(named["variance"]))
        phi, half = solve_transposed(self.factor, once), solve_transposed(self.factor, twice)
        products = solve_transposed(self.factor, half.T)
        over_time, new = self.over_time(self._times(1, conditions))
        whole = np.concatenate([over_time[0], phi])
        second = np.outer(whole, whole)
        spread = products - np.outer(phi, phi)  # of the features, because the input is uncertain
        second[q:, q:] += spread
        known = np.einsum("jab,ab->j", self.S, second) + new[0, 0] + kappa - np.trace(products)
        of_mean = np.einsum("ao,ab,bo->o", self.mu[q:], spread, self.mu[q:])
        mean = whole @ self.mu + self.prior(X)
        variance = np.maximum(self.power * known + of_mean, 0.0)
        return Prediction(mean, np.broadcast_to(variance, mean.shape), np.broadcast_to(self.noise, mean.shape))

    def trajectories(self, count: int, steps: int) -> Trajectories:
        return Draws(self, count, steps)


def expectations(B: FloatArray, x: FloatArray, P: FloatArray, M: FloatArray, variance: float) -> tuple[FloatArray, ...]:
    """E[k(B, x)], (n,), and E[k(B, x) k(B, x)'], (n, n), over x ~ N(x, P); k = variance exp(-1/2 (b - x)'M(b - x))."""
    once, twice = np.eye(len(x)) + P @ M, np.eye(len(x)) + 2.0 * P @ M
    D = B - x
    nearness = np.einsum("ni,ij,nj->n", D, M @ np.linalg.inv(once), D)
    first = variance * np.exp(-0.5 * nearness) / np.sqrt(np.linalg.det(once))
    apart = np.einsum("nmi,ij,nmj->nm", D[:, None] - D, M, D[:, None] - D)
    middle = 0.5 * (D[:, None] + D)
    nearness = np.einsum("nmi,ij,nmj->nm", middle, 2.0 * M @ np.linalg.inv(twice), middle)
    second = variance**2 * np.exp(-0.25 * apart - 0.5 * nearness) / np.sqrt(np.linalg.det(twice))
    return first, second


class Draws(Trajectories):
    """Trajectories each of which follows one draw of the function.

    A step's value is drawn given the posterior and the trajectory's own earlier values: L is the Cholesky factor of
    their joint covariance, which grows by one row a step, and e are the standard normal numbers behind the values.

    Args:
        function: of the process.
        count: number of trajectories.
        steps: room for this many rows.
    """

    def __init__(self, function: Function, count: int, steps: int) -> None:
        model, q, p = function.model, function.noise.size, function.mu.shape[1]
        self._function, self._steps = function, 0
        self._covariance_of = np.arange(p) % q  # which of the covariances an output has
        self._Z = np.empty((count, steps, model._numbers.work.seen.size))
        self._Phi = np.empty((count, steps, len(function.mu)))
        self._L = np.empty((q, count, steps * (steps + 1) // 2))  # row after row
        self._pivots = np.ones((q, count))  # of the last step
        self._e = np.zeros((count, steps, p))
        self._mean = np.empty((count, p))  # of the last step
        moment = model._moment
        self._over_time, self._new = function.over_time(np.zeros(steps) if moment is None else moment.next(steps))

    def predict(self, X: FloatArray) -> Step:
        function, t = self._function, self._steps
        Z = function.seen(X)
        over_time = np.broadcast_to(self._over_time[t], (len(Z), self._over_time.shape[1]))
        Phi = np.hstack([function.beside(over_time, X), function.features(Z)])
        H = Phi @ function.S
        if function.has_residual:
            own = np.stack([function.kernel(z[None], rows[:t])[0] for z, rows in zip(Z, self._Z, strict=True)])
            prior, temporal = function.prior_variances(Z), function.temporal
            H[..., temporal:] -= Phi[:, temporal:]
        else:
            own, prior = np.zeros((len(Z), t)), np.zeros(len(Z))
        own, prior = own + self._new[t, :t], prior + self._new[t, t]
        variance = np.maximum(np.sum(H * Phi, axis=2) + prior, 0.0)  # (q, count)
        nugget = np.broadcast_to(NUGGET * prior, variance.shape) if function.has_residual else NUGGET * variance
        c = (self._Phi[:, :t] @ H[..., None])[..., 0] + own
        if t > 0:
            for L, one in zip(self._L.reshape(-1, self._L.shape[2]), c.reshape(-1, t), strict=True):
                one[:] = dtpsv(t, L, one, trans=1)  # L^-1 c; rows of L are the columns of the transposed matrix
        left = np.maximum(variance + nugget - np.sum(c * c, axis=2), nugget)
        self._pivots = np.where(left > 0, np.sqrt(left), 1.0)
        first = t * (t + 1) // 2
        self._L[..., first : first + t], self._L[..., first + t] = c, self._pivots
        self._Z[:, t], self._Phi[:, t] = Z, Phi
        which, power = self._covariance_of, function.power[self._covariance_of]
        mean = function.prior(X) + Phi @ function.mu
        self._mean = mean + np.sqrt(power) * np.einsum("ost,sto->so", c[which], self._e[:, :t])
        noise = np.broadcast_to(function.noise[which], mean.shape)
        return Step(self._mean, power * left[which].T, noise, mean, power * variance[which].T)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        t, which = self._steps, self._covariance_of
        self._e[:, t] = (values - self._mean) / (self._pivots[which].T * np.sqrt(self._function.power[which]))
        self._function.pasts.recall(targets)
        self._steps += 1

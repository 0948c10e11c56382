"""The function of a process at several rows together: its joint posterior, and draws of it that go on row by row.

f(x) = phi'w + residual with w ~ N(mu, S), so that the function's values are jointly Gaussian with mean phi'mu and

    cov(f(x), f(z)) = phi(x)' S phi(z) + k(x, z) - phi(x)'phi(z),

where the last two terms cancel for Fourier and linear features. A kernel over time has its coordinates in phi and S,
and adds the covariance of what is new since the last learned row. So have the weights of a LinearMean, which stay.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtpsv

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract import inputs
from streamgp.contract.checks import LARGEST, check
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.joint import JointPrediction, root_of
from streamgp.kernels import program
from streamgp.linalg.dense import solve_transposed, symmetric
from streamgp.process import features, memory, time
from streamgp.process.state import Process
from streamgp.settings import FloatArray

# Independent variance that is added to every drawn value: of k(x, x), to whose rounding the covariance is known, or of
# the posterior variance where features leave no residual. The values of a smooth function determine each other beyond
# what arithmetic can hold; with this on the diagonal L^-1 stays below 1e5 in units of the function.
NUGGET = 1e-10


class Function:
    """The posterior of the function of a process, at rows as its memory hands them over.

    Args:
        model: the process, which has seen a row.
    """

    def __init__(self, model: Process) -> None:
        state, n = model._state, model._weights_in_use()
        self._parts, self._state, self._n, self._numbers = model._features, state, n, model._numbers
        self._temporal, self._linear = int(model._numbers.plan["temporal"][0]), model._linear
        self._over_time = bool(model._terms)
        likelihood = model._likelihood
        # Classes and counts have no noise of their own beside the function.
        self.noise = (likelihood.noise_ratio if likelihood.targets == "numbers" else 0.0) * state.noise
        q = self.noise.size
        self.points = state.basis[:n]  # in use, (n, width)
        self.factor = np.asfortranarray(state.factor[:n, :n])  # R with K = R'R on these points, upper triangle
        self.program = program.Program(model._numbers.work.operations, state.parameters)
        if model._keeps_rows:  # the factor is that of K + noise I, and mu holds the weights of the kernel functions
            self.mu = np.triu(state.factor[:n, :n]) @ state.mu[:n]
            self.S = np.zeros((q, n, n))
        elif model._factored:
            inverses = np.stack([solve_triangular(R, np.eye(n), check_finite=False) for R in state.covariance])
            self.mu = np.column_stack([inverses[j % q] @ z for j, z in enumerate(state.mu.T)])
            self.S = self.noise[:, None, None] * inverses @ inverses.transpose(0, 2, 1)
        else:
            m = self._temporal + n
            self.mu = state.mu[:m].copy()
            self.S = symmetric(state.covariance[:, :m, :m])
            if model._least_squares:
                self.S[:] = 0.0
        # An estimated signal power scales the variances.
        self.power = np.ones(q)
        if model._estimate_power:
            np.divide(state.power[0], state.power[1], out=self.power, where=state.power[1] > 0)
        self.noise *= self.power

    def joint(self, Z: FloatArray, times: FloatArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (n, p) and covariances (q, n, n) of the function's values at n rows; q is 1 or one for each output.

        Args:
            Z: (n, width), as the memory hands the rows over.
            times: (n,) of the rows.
            X: (n, d), the rows themselves, which a LinearMean sees.
        """
        Phi, (over_time, new) = self.features(Z), self.ahead(times)
        whole = np.hstack([self.beside(over_time, X), Phi])
        covariance = whole @ self.S @ whole.T + new
        if self.has_residual:
            K = self.kernel(Z, Z)
            K[np.diag_indices_from(K)] *= 1.0 + self._parts.jitter
            covariance += K - Phi @ Phi.T
        covariance = self.power[:, None, None] * (0.5 * (covariance + covariance.transpose(0, 2, 1)))
        diagonal = np.einsum("jii->ji", covariance)
        np.maximum(diagonal, 0.0, out=diagonal)
        return whole @ self.mu, covariance

    def prediction(self, Z: FloatArray, times: FloatArray, X: FloatArray) -> JointPrediction:
        """The joint prediction at n rows; where there is nothing but weights it is drawn by them."""
        root = None
        if not (self.has_residual or self._temporal):
            root = np.sqrt(self.power)[:, None, None] * (self.features(Z) @ root_of(self.S))
        return JointPrediction(*self.joint(Z, times, X), np.repeat(self.noise[None], len(Z), axis=0), root)

    def ahead(self, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What a kernel over time adds at n times: its part of phi, (n, coordinates), and what is new, (n, n).

        The last coordinates are those of a LinearMean, if there is one: beside() fills them in.
        """
        Phi, new = np.zeros((len(times), self._temporal)), np.zeros((len(times), len(times)))
        if self._over_time:
            compile_now(time.ahead)
            numbers, room = self._numbers, np.empty(Phi.shape)
            time.ahead(numbers.records, numbers.buffers, np.ascontiguousarray(times), Phi, new, room)
        return Phi, new

    def beside(self, over_time: FloatArray, X: FloatArray) -> FloatArray:
        """The part of phi beside the features, (n, coordinates), of rows (n, d): over time, then of a LinearMean."""
        if self._linear is None:
            return over_time
        H = self._linear.whitened(X)
        return np.hstack([over_time[:, : self._temporal - H.shape[1]], H])

    @property
    def has_residual(self) -> bool:
        return self._parts.kernel is not None

    def features(self, Z: FloatArray) -> FloatArray:
        """phi of n rows, (n, weights)."""
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


class Pasts:
    """The memory of a process, in several copies that go on by themselves; without one, rows are what is seen of them.

    Args:
        model: the process.
        count: number of copies.
    """

    def __init__(self, model: Process, count: int) -> None:
        part, state = model._memory, model._state
        d, p = state.window.shape[1], state.last_target.size
        self.width, self._recalls = part.width(d), part.recalls
        if not part.recalls:
            return
        compile_now(memory.walk)
        self._numbers = Numbers(memory.LAYOUT, memory.sizes(part, d, p), {"retention": part.retention})
        memory.place(part, self._numbers)
        past = (state.window, state.units, state.last_target)
        self._pasts = [np.repeat(array[None], count, axis=0) for array in past]

    def advance(self, X: FloatArray) -> FloatArray:
        """Advance every copy by its row; what it hands over, (count, width)."""
        inputs.refuse(*check(X, X[:0], True, LARGEST), many=True)
        if not self._recalls:
            return X
        state = self._numbers.state
        present = (state.window, state.units, state.last_target)
        Z, no_target = np.empty((len(X), 1, self.width)), np.empty((1, 0))
        for s, x in enumerate(X):
            for array, past in zip(present, self._pasts, strict=True):
                array[...] = past[s]
            memory.walk(self._numbers.records, self._numbers.buffers, x[None], no_target, Z[s])
            for array, past in zip(present[:2], self._pasts, strict=False):
                past[s] = array
        return Z[:, 0]

    def recall(self, targets: FloatArray) -> None:
        """Take the last targets, (count, p)."""
        if self._recalls:
            self._pasts[2][:] = targets


class Draws(Trajectories):
    """Trajectories each of which follows one draw of the function.

    A step's value is drawn given the posterior and the trajectory's own earlier values: L is the Cholesky factor of
    their joint covariance, which grows by one row a step, and e are the standard normal numbers behind the values.

    Args:
        model: the process.
        count: number of trajectories.
        steps: room for this many rows.
    """

    def __init__(self, model: Process, count: int, steps: int) -> None:
        function, p = Function(model), model._state.mu.shape[1]
        q = function.noise.size
        self._function, self._pasts, self._steps = function, Pasts(model, count), 0
        self._covariance_of = np.arange(p) % q  # which of the covariances an output has
        self._Z = np.empty((count, steps, self._pasts.width))
        self._Phi = np.empty((count, steps, len(function.mu)))
        self._L = np.empty((q, count, steps * (steps + 1) // 2))  # row after row
        self._pivots = np.ones((q, count))  # of the last step
        self._e = np.zeros((count, steps, p))
        self._mean = np.empty((count, p))  # of the last step
        moment = model._moment()
        self._over_time, self._new = function.ahead(np.zeros(steps) if moment is None else moment.next(steps))

    def predict(self, X: FloatArray) -> Step:
        function, t = self._function, self._steps
        Z = self._pasts.advance(X)
        over_time = np.broadcast_to(self._over_time[t], (len(Z), self._over_time.shape[1]))
        Phi = np.hstack([function.beside(over_time, X), function.features(Z)])
        H = Phi @ function.S
        if function.has_residual:
            own = np.stack([function.kernel(z[None], rows[:t])[0] for z, rows in zip(Z, self._Z, strict=True)])
            prior, temporal = function.prior_variances(Z), over_time.shape[1]
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
        mean = Phi @ function.mu
        self._mean = mean + np.sqrt(power) * np.einsum("ost,sto->so", c[which], self._e[:, :t])
        return Step(
            self._mean,
            power * left[which].T,
            np.broadcast_to(function.noise[which], mean.shape),
            mean,
            power * variance[which].T,
        )

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        t, which = self._steps, self._covariance_of
        self._e[:, t] = (values - self._mean) / (self._pivots[which].T * np.sqrt(self._function.power[which]))
        self._pasts.recall(targets)
        self._steps += 1

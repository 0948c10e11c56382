"""Evidence: hyperparameters by maximization of the log marginal likelihood of a batch. One engine for all models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from streamgp.blas import one_thread
from streamgp.settings import FloatArray, Part, Setting, nearest, number, whole
from streamgp.vocabulary import Seed

Bounds = tuple[float, float] | Mapping[str, tuple[float, float]]
Report = Callable[[int, int, float], None]

WIDEST = (1e-6, 1e6)
# From a start with too little noise the gradient is huge, and an early step would leap to the maximum at which all data
# are noise. So the first stages, of this many iterations each, may change a hyperparameter by no more than a factor e,
# then e^2, e^4; the last stage is free. (kin40k, 1000 rows, noise 0.01: log evidence -560 with stages, -1402 without.)
STRIDES = (1.0, 2.0, 4.0, np.inf)
STAGE = 10
EVERY = 10  # iterations between two lines that tell of a search


@dataclass(frozen=True)
class Objective:
    """A log marginal likelihood over coordinates: logarithms of hyperparameters, and numbers of any sign in units."""

    evaluate: Callable[[FloatArray], tuple[float, FloatArray]]
    start: FloatArray
    names: tuple[str, ...]
    logs: NDArray[np.bool_]
    redraw: Callable[[np.random.Generator], FloatArray] = lambda _: np.empty(0)
    units: FloatArray | float = 1.0

    def __call__(self, coordinates: FloatArray) -> tuple[float, FloatArray]:
        return self.evaluate(coordinates)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The hyperparameters and whatever else is tuned."""
        values = coordinates * self.units
        values[self.logs] = np.exp(coordinates[self.logs])
        return values


@dataclass(frozen=True)
class Maximum:
    """Where a maximization ended."""

    coordinates: FloatArray
    value: float
    history: tuple[FloatArray, ...]
    converged: tuple[bool, ...]
    at_bounds: tuple[str, ...]
    failures: int


def _bounds(name: str, value: Any) -> Bounds:
    """A pair, or pairs by name."""
    if isinstance(value, Mapping):
        return {one: _pair(f"{name}[{one!r}]", pair) for one, pair in value.items()}
    return _pair(name, value)


def _pair(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be a pair (lowest, highest) of positive numbers; got {value!r}")
    low, high = (number(f"each of {name}", v, above=0) for v in value)
    if low > high:
        raise ValueError(f"{name} must be (lowest, highest); got {value!r}: exchange the two")
    return low, high


def _progress(name: str, value: Any) -> Any:
    if not isinstance(value, bool) and not callable(value):
        raise TypeError(f"{name} must be True, False or a function; got {value!r}")
    return value


class Evidence(Part):
    """Maximize the log marginal likelihood by L-BFGS, from the given hyperparameters and from others around them.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.batch.evidence import Evidence
        >>> from streamgp.batch import FullGP
        >>> X = np.linspace(0.0, 6.0, 100)
        >>> Y = np.sin(X) + 0.1 * np.random.default_rng(0).standard_normal(100)
        >>> fixed = FullGP(sg.SquaredExponential(0.3), noise=1.0).fit(X, Y)
        >>> tuned = FullGP(sg.SquaredExponential(0.3), noise=1.0).fit(X, Y, Evidence(restarts=0))
        >>> tuned.log_marginal_likelihood() > fixed.log_marginal_likelihood() + 50
        True
        >>> 0.005 < tuned.hyperparameters["noise"] < 0.02
        True
    """

    def __init__(
        self,
        restarts: Annotated[
            int,
            Setting(
                "further starts, each hyperparameter drawn within a few times of the given one; 0: none",
                "starts",
                partial(whole, at_least=0),
            ),
        ] = 2,
        *,
        iterations: Annotated[int, Setting("most iterations from each start", "iterations", whole)] = 100,
        bounds: Annotated[
            Bounds,
            Setting(
                "(lowest, highest) value of every hyperparameter, or such pairs by name, the others then between 1e-6 "
                "and 1e6 (tune takes them from the data); noise in squared units of the target, a kernel's in its own",
                check=_bounds,
            ),
        ] = WIDEST,
        seed: Annotated[Seed, Setting("of the further starts, and of the rows that tune draws")] = 0,
        progress: Annotated[
            bool | Report,
            Setting(
                "True prints how it goes to standard error; or a function called with (start, iteration, log evidence)",
                check=_progress,
            ),
        ] = False,
    ) -> None:
        self.restarts, self.iterations, self.seed = restarts, iterations, seed
        self.bounds, self.progress = bounds, progress

    def maximize(self, objective: Objective) -> Maximum:
        """Return the best of all starts; it is never below the value at the first one."""
        low, high = self._limits(objective)
        rng = np.random.default_rng(self.seed)
        report = self.progress if callable(self.progress) else partial(_tell, 1 + self.restarts)
        climbs = []
        with one_thread():
            for i in range(1 + self.restarts):
                start = objective.start if i == 0 else _further_start(objective, rng)
                climb = _Climb(objective, np.clip(start, low, high), partial(report, i) if self.progress else None)
                climb.run(low, high, self.iterations)
                if i == 0 and not climb.history:  # a further start that fails was an unlucky draw
                    raise ValueError(
                        "the log marginal likelihood cannot be computed at the given hyperparameters: a covariance is "
                        "not positive definite. Raise the noise or the jitter, or shorten the lengthscale."
                    )
                climbs.append(climb)
        best = max(climbs, key=lambda climb: climb.value)
        on_bound = objective.logs & ((best.coordinates <= low) | (best.coordinates >= high))
        return Maximum(
            coordinates=best.coordinates,
            value=best.value,
            history=tuple(np.array(climb.history) for climb in climbs),
            converged=tuple(climb.converged for climb in climbs),
            at_bounds=tuple(dict.fromkeys(name for name, on in zip(objective.names, on_bound, strict=True) if on)),
            failures=sum(climb.failures for climb in climbs),
        )

    def _limits(self, objective: Objective) -> tuple[FloatArray, FloatArray]:
        positive = list(dict.fromkeys(name for name, log in zip(objective.names, objective.logs, strict=True) if log))
        named = self.bounds if isinstance(self.bounds, Mapping) else dict.fromkeys(positive, self.bounds)
        for name in named:
            if name in objective.names and name not in positive:
                raise ValueError(f"bounds name {name!r}, which has no bounds: it may have any sign. Leave it out.")
            if name not in positive:
                raise ValueError(
                    f"bounds name {name!r}, which is no hyperparameter here.{nearest(name, positive)} "
                    f"The hyperparameters are: {', '.join(positive)}."
                )
        low, high = np.full(objective.start.size, -np.inf), np.full(objective.start.size, np.inf)
        for i, (name, log) in enumerate(zip(objective.names, objective.logs, strict=True)):
            if not log:
                continue
            low[i], high[i] = np.log(named.get(name, WIDEST))
            # One rounding of log and exp is allowed: a bound may be the start itself.
            if not low[i] - 1e-12 <= objective.start[i] <= high[i] + 1e-12:
                raise ValueError(
                    f"{name} starts at {np.exp(objective.start[i]):.6g}, outside its bounds "
                    f"({np.exp(low[i]):.6g}, {np.exp(high[i]):.6g}); start inside, or give wider bounds"
                )
        return low, high


class _Climb:
    """One ascent from one start."""

    def __init__(self, objective: Objective, start: FloatArray, report: Callable[[int, float], None] | None) -> None:
        self.objective, self.report = objective, report
        self.coordinates, self.value, self.gradient = start, -np.inf, np.zeros_like(start)  # the best so far
        self.worst = np.inf
        self.history: list[float] = []
        self.converged = False
        self.failures = 0

    def run(self, low: FloatArray, high: FloatArray, iterations: int) -> None:
        from scipy import optimize  # an import that few need and that takes long

        start = self.coordinates
        first, _ = self._descend(start)
        if self.failures:
            return
        self._step(optimize.OptimizeResult(fun=first))
        for stride in STRIDES:
            left = iterations - (len(self.history) - 1)
            if left == 0:
                return
            reach = np.where(self.objective.logs, stride, np.inf)
            nearest_low, nearest_high = np.maximum(low, start - reach), np.minimum(high, start + reach)
            result = optimize.minimize(
                self._descend,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=optimize.Bounds(nearest_low, nearest_high),
                callback=self._step,
                options={"maxiter": left if np.isinf(stride) else min(left, STAGE)},
            )
            start = result.x
            stuck = ((start <= nearest_low) & (low < nearest_low)) | ((start >= nearest_high) & (nearest_high < high))
            if result.success and not np.any(stuck):
                self.converged = True
                return

    def _descend(self, coordinates: FloatArray) -> tuple[float, FloatArray]:
        if self.history and np.array_equal(coordinates, self.coordinates):  # a stage begins where the last one ended
            return -self.value, -self.gradient
        try:
            value, gradient = self.objective(coordinates)
        except np.linalg.LinAlgError:
            value, gradient = -np.inf, self.gradient
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            # Flat and lower than all before, but finite: the line search interpolates and turns back.
            self.failures += 1
            return 1.0 + abs(self.worst) - self.worst, np.zeros_like(coordinates)
        self.worst = min(value, self.worst)
        if value > self.value:
            self.coordinates, self.value, self.gradient = coordinates.copy(), value, gradient
        return -value, -gradient

    def _step(self, intermediate_result: Any) -> None:
        self.history.append(-float(intermediate_result.fun))
        if self.report is not None:
            self.report(len(self.history) - 1, self.history[-1])


def checked(evidence: Any) -> Evidence:
    """Evidence, or a refusal."""
    if not isinstance(evidence, Evidence):
        raise TypeError(f"evidence must be, for example, Evidence(restarts=2), or None; got {evidence!r}")
    return evidence


def _further_start(objective: Objective, rng: np.random.Generator) -> FloatArray:
    """In nineteen cases of twenty within a factor e^2 of the first."""
    start = objective.start.copy()
    start[objective.logs] += rng.standard_normal(int(np.sum(objective.logs)))
    start[~objective.logs] = objective.redraw(rng)
    return start


def _tell(starts: int, start: int, iteration: int, value: float) -> None:
    """Print how a search goes, now and then."""
    if iteration % EVERY == 0:
        place = f"start {start + 1} of {starts}, iteration {iteration}"
        print(f"tune: {place}, log evidence {value:.4g}", file=sys.stderr, flush=True)

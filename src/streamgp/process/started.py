"""The numbers of an online Gaussian process: before its first row, and as a snapshot has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.arrays import Numbers
from streamgp.compiled import uncompiled
from streamgp.contract import spacing
from streamgp.contract.conditions import Moment
from streamgp.contract.snapshot import require
from streamgp.kernels.program import Program
from streamgp.kernels.temporal import COORDINATES
from streamgp.process import memory, observation
from streamgp.process import time as passing
from streamgp.process.budget import KL, LOWEST_STAYING, PAPER, floor
from streamgp.process.composed import Composed
from streamgp.process.features import Basis, Features, Fourier
from streamgp.process.row import HALVINGS, LATEST, LEARNED, PRIOR, SEEN
from streamgp.process.state import LAYOUT, REPLACED, STOPPED

TRACE_LENGTH = 512
SLACK = 1e-6  # of a restored variance in [0, 1]: rounding leaves far less
COUNTED = ("outputs", "covariances", "weights", "temporal", "mean_weights", "theta")  # sizes that the plan has, too


class Started(Composed):
    """A process as far as its numbers go: how many there are, what they start from, and what a snapshot may say."""

    # Squares of errors; missing targets; no time yet.
    _may_overflow = ("targets", "power", "gradient", "fisher", "density", "path", "clock")

    def _start(self, d: int, p: int) -> None:
        self._refuse_outputs(p)
        before = self._state if self._d is not None and self._beside else None
        self._beside = self._terms + ([] if self._linear is None else [self._linear.component(d)])
        program = self._features.program(self._memory.width(d), self._memory.depth)
        sizes = self._sizes(d, p, program)
        numbers = Numbers(LAYOUT, sizes, self._plan(sizes))
        self._fill(numbers, program)
        self._place(numbers)
        if before is not None:  # rows have come, but no target
            self._state.clock[SEEN:] = before.clock[SEEN:, :1]
            self._state.spacing[:] = before.spacing

    def _refuse_outputs(self, p: int) -> None:
        if not self._shared and self._noise.size not in (1, p):
            raise ValueError(f"noise has {self._noise.size} values, but there are {p} outputs; give 1 or {p}")
        if self._shared and p > 1 and self._likelihood.kind != observation.GAUSSIAN:
            raise ValueError(
                f"there are {p} outputs, and with likelihood={self._likelihood!r} each needs a covariance of its own: "
                'use outputs="separate"'
            )

    def _sizes(self, d: int, p: int, program: Program) -> dict[str, int]:
        """What the symbols in the shapes of the arrays stand for."""
        adapt, budget, width, q = self._adapt, self._budget, self._memory.width(d), 1 if self._shared else p
        sizes = memory.sizes(self._memory, d, p) | self._features.sizes(width, budget.capacity)
        points, parameters, beside = sizes["points"], program.parameters.size, self._temporal_coordinates()
        theta = 0 if adapt is None else parameters + q
        scored = self._grows and budget.evict in (PAPER, KL) and not self._keeps_rows
        rebuilds = adapt is not None and adapt.rebuilds
        blocks = sum(len(term.blocks) for term in self._beside)
        return sizes | {
            "covariances": q,
            "width": width,
            "parameters": parameters,
            "scored": q if scored else 0,
            "temporal": beside,
            "mean_weights": 0 if self._linear is None else self._linear.count(d),
            "coordinates": beside + sizes["weights"],
            "blocks": blocks,
            "now": PRIOR + 1 if blocks else 0,
            "matrices": 0 if self._keeps_rows else q,
            "spacing": spacing.NUMBERS if blocks else 0,
            "clock": LATEST + 1 if blocks else HALVINGS + 1 if self._needs_time else 0,
            "kept": points if self._keeps_rows or rebuilds else 0,
            "theta": theta,
            "path": TRACE_LENGTH if theta else 0,
            "path_columns": 2 + theta,
            "steps": len(program.operations),
            "derivatives": parameters if theta else 0,
            "kernel_scratch": program.scratch(points, width) if points else 0,
        }

    def _plan(self, sizes: dict[str, int]) -> dict[str, Any]:
        """What compiled code reads of the settings: what each part hands over, and what several decide."""
        plan: dict[str, Any] = {name: sizes[name] for name in COUNTED}
        for part in (self._memory, self._features, self._budget, self._forgetting, self._likelihood, self._adapt):
            plan |= {} if part is None else part.plan()
        plan |= self._places
        return plan | {
            "shared": self._shared,
            "factored": self._factored,
            "least_squares": self._least_squares,
            "batch": self._batch,
            "power": self._estimate_power,
        }

    def _fill(self, numbers: Numbers, program: Program) -> None:
        """Write down what is known before the first row: hyperparameters, given points, the prior."""
        parts, state = self._features, numbers.state
        numbers.counters["path_stride"] = 1
        numbers.work.operations[:] = program.operations
        state.noise[:] = self._noise
        state.parameters[:] = program.parameters
        state.clock[LEARNED : LEARNED + 1] = state.clock[SEEN:] = np.nan
        if self._beside:
            work = numbers.work
            work.table[:], work.feature[:] = passing.tabulated(self._beside)
            work.now[:] = np.nan
        if isinstance(parts, Fourier):
            state.frequencies[:] = parts.frequencies(state.frequencies.shape[1], self._memory.depth)
        if parts.points is not None:
            numbers.counters["points"] = len(parts.points)
            place_points(parts, state, self._memory.depth, adapting=self._adapt is not None)
        diagonal = np.einsum("jii->ji", state.covariance)
        if not self._grows:
            diagonal[:] = np.sqrt(state.noise)[:, None] if self._factored else 1.0
        diagonal[:, : numbers.work.feature.size] = 1.0

    def _weights_in_use(self) -> int:
        return self._numbers.count("points") if self._grows else len(self._state.mu) - self._temporal_coordinates()

    def _temporal_coordinates(self) -> int:
        return sum(COORDINATES[block.kind] for term in self._beside for block in term.blocks)

    def _moment(self) -> Moment | None:
        if not self._terms:
            return None
        if self._d is None:
            return Moment(np.nan, 0.0, np.nan)
        seen, learned = self._state.clock[[SEEN, LEARNED], 0].tolist()
        return Moment(seen, spacing.usual(self._state.spacing), learned)

    # A snapshot.

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        super()._check_numbers(named)
        state = SimpleNamespace(**{name.removeprefix("counters."): array for name, array in named.items()})
        size, growing = state.points.reshape(-1, 1), self._grows
        most = self._budget.capacity if growing else state.basis.shape[1]
        if any(wrong := (size < (0 if growing else most)) | (size > most)):
            raise ValueError(f"the snapshot says {size[wrong][0]} basis points, the model has room for {most}")
        if any(wrong := state.evictions.reshape(-1, 1) > size + 1):
            raise ValueError(
                f"the snapshot says {state.evictions.reshape(-1, 1)[wrong][0]} points left at the last row"
            )
        points, stride, rows = (a.reshape(-1) for a in (state.path_points, state.path_stride, state.rows_seen))
        if any(wrong := (points > state.path.shape[1]) | (stride < 1) | (stride > np.maximum(rows, 1))):
            raise ValueError(f"the snapshot says a trace of {points[wrong][0]} points, every {stride[wrong][0]} rows")
        require("change", state.change, at_most=REPLACED)
        require("phase", state.phase, at_most=STOPPED)
        self._check_parameters(self._features.kernel, state.parameters)
        require("noise", state.noise, at_least=0, above=None if self._least_squares else 0)
        diagonal = np.einsum("nii->ni", state.factor)
        require("the diagonal of factor", diagonal[np.arange(diagonal.shape[1]) < size], above=0)
        for name in ("prior", "inverse_diagonal", "residual"):
            require(name, getattr(state, name), at_least=0)
        require("power", state.power, at_least=0, finite=False)
        moments = np.delete(state.clock, slice(HALVINGS, SEEN), axis=1)
        require("clock", moments[~np.isnan(moments)])
        require("clock", state.clock[:, HALVINGS:SEEN], at_least=0, at_most=1)
        require("spacing", state.spacing, at_least=0)
        variances, temporal = np.einsum("njii->jni", state.covariance), self._temporal_coordinates()
        require("the diagonal of covariance", variances[..., :temporal], at_least=-SLACK)
        variances = variances[..., temporal:]
        if growing:
            variances = variances[:, np.arange(variances.shape[2]) < size]
        if self._factored:
            require("the diagonal of covariance", variances, above=0)
        else:
            require("the diagonal of covariance", variances, at_least=-SLACK, at_most=self._largest_variance() + SLACK)

    def _largest_variance(self) -> float:
        """What a whitened weight may have for a variance: the prior's, or what injection adds between two checks."""
        if self._least_squares or (self._forgetting.injects and self._adapt is not None):
            return np.inf
        between = self._forgetting.rows_between_checks
        if self._forgetting.injects and self._forgetting.half_life:
            return 2.0
        return self._forgetting.factor**-between if between else 1.0


def place_points(parts: Features, state: Any, depth: int, adapting: bool, known: int = 0) -> None:
    """Put the given points into the state, with the factor of their covariance under its hyperparameters.

    The factor of the first points may be known, and stays: what was learned is told in its terms.
    """
    assert isinstance(parts, Basis)
    assert parts.points is not None
    kernel = parts.kernel.with_values(state.parameters, state.basis.shape[1], depth)
    points = parts.points if depth == 1 else parts.points.reshape(len(parts.points), depth, -1)
    K = kernel(points) * (1.0 + parts.jitter * np.eye(len(points)))
    state.basis[:] = parts.points
    state.prior[:] = np.diag(K)
    for point in parts.points[state.prior <= 0.0].tolist():
        raise ValueError(f"the kernel has no variance at the basis point {point}; leave it out")
    R, old, new = state.factor, slice(known), slice(known, None)
    try:
        R[old, new] = np.linalg.solve(R[old, old].T, K[old, new])
        R[new, new] = np.linalg.cholesky(K[new, new] - R[old, new].T @ R[old, new]).T
    except np.linalg.LinAlgError:
        state.inverse_diagonal[:] = np.inf
    else:
        root = solve_triangular(R, np.eye(len(K)))
        state.inverse_diagonal[:] = np.sum(root * root, axis=1)
    left = 1.0 / (state.inverse_diagonal * state.prior)  # the variance given all others, of the point's own
    least = np.array(
        [max(uncompiled(floor)(kappa, state.noise.min(), adapting), LOWEST_STAYING) for kappa in state.prior]
    )
    if not np.all((left >= least)[new]):
        alike = np.abs(K) / np.sqrt(np.outer(state.prior, state.prior)) - np.eye(len(K))
        one, other = sorted(divmod(int(np.argmax(alike[new])) + known * len(K), len(K)))
        raise ValueError(
            f"the basis points are too close together for this kernel, above all points {one} and {other}, "
            f"{parts.points[one].tolist()} and {parts.points[other].tolist()}: given all others, a point must keep "
            f"{least.max():.0e} of its prior variance, and one keeps {left[new].min():.0e}. Use fewer points, a "
            f"shorter lengthscale, or jitter={100.0 * least.max():.0e}"
        )

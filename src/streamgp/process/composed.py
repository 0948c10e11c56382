"""What a process is of its parts: what does not go together, its compiled code, and the numbers it begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now, places, uncompiled
from streamgp.contract import spacing
from streamgp.contract.checks import check
from streamgp.kernels import program
from streamgp.kernels.program import Program
from streamgp.kernels.temporal import COORDINATES
from streamgp.process import memory, observation, stream
from streamgp.process import time as passing
from streamgp.process.adapt import sngd
from streamgp.process.budget import DTC, ERROR, KL, LOWEST_STAYING, NEVER, OLDEST, PAPER, floor, least_distinct
from streamgp.process.features import LINEAR, POINTS, Basis, Features, Fourier, kernel_values
from streamgp.process.row import HALVINGS, LATEST, LEARNED, PRIOR, SEEN
from streamgp.process.state import PLAN, Process
from streamgp.vocabulary import LEAST_NOISE

TRACE_LENGTH = 512

# What does not go with observations that are learned one row and one output at a time, and the way out.
NOT_GAUSSIAN = {
    "form": 'form="cholesky" adds up Gaussian observations: use form="covariance"',
    "removal": 'removal="discard" keeps Gaussian observations: use another removal',
    "batch": "batch learns Gaussian observations together: use batch=1",
    "adapt": "adapt follows the gradient of a Gaussian density: use adapt=None",
    "fed back": "feedback takes the mean of the function for a missing target: use feedback=None",
    "power": "estimate_power scales Gaussian noise: use estimate_power=False",
}
# What does not go with coordinates beside the features, which need a covariance with the weights, row by row.
BESIDE = {
    "form": 'form="cholesky" has a factor of the features alone: use form="covariance"',
    "removal": 'removal="discard" keeps rows and no posterior: use another removal',
    "batch": "batch learns rows together by the features alone: use batch=1",
    "injection": "injection is capped at the prior of features alone: forget back to the prior",
    "rebuild": 'on_move="rebuild" learns the targets of basis points by the features alone: use on_move="rebase"',
    "least squares": "noise=0 is least squares, which knows no covariance: use a noise above 0",
}


def refuse_combinations(model: Process) -> None:
    """Refuse parts that do not go together."""
    budget, forgetting, adapt, likelihood = model._budget, model._forgetting, model._adapt, model._likelihood
    least_squares, kept, factored, noise = model._least_squares, model._keeps_rows, model._factored, model._noise
    adapts, rebuilds, feeds_back = adapt is not None, adapt is not None and adapt.rebuild, model._memory.feeds_back
    kind, has_mean, plain = model._features.kind, model._mean is not None, model._shared and not forgetting.forgets
    refuse(
        noise.min() < LEAST_NOISE and not least_squares,
        f"noise must be at least {LEAST_NOISE:g}, below which arithmetic cannot tell it from 0; got {noise.tolist()}. "
        "Give a larger one, or use other units",
    )
    refuse(
        least_squares and not (budget.evict == NEVER and budget.absorb == DTC and plain),
        "noise=0 is least squares on a dictionary that only grows, as in KRLS(noise=0): it needs "
        'Budget(absorb="dtc", evict="never"), shared outputs and no forgetting; otherwise give a noise above 0',
    )
    refuse(
        kept and not (budget.evict in (ERROR, OLDEST) and budget.novelty <= 0 and plain),
        'removal="discard" keeps the exact GP on some rows: it needs evict="oldest" or "error", novelty=0, shared '
        "outputs and no forgetting",
    )
    refuse(
        model._shared and noise.size != 1,
        f'noise has {noise.size} values, but the outputs share one covariance; give one value, or outputs="separate"',
    )
    refuse(
        factored and model._grows,
        'form="cholesky" needs a fixed number of weights: Fourier, Linear, or a Basis on given points; use '
        'form="covariance" with a basis that grows',
    )
    refuse(
        factored and forgetting.forgets and not forgetting.injects,
        'form="cholesky" cannot go back to the prior; use Injection(...) or form="covariance"',
    )
    refuse(
        has_mean and likelihood.targets != "numbers",
        f"mean is taken from the targets, and {likelihood.targets} have none: use mean=None",
    )
    refuse(
        has_mean and feeds_back,
        "feedback puts targets into the reservoir, not what is above the mean: use feedback=None",
    )
    refuse(
        adapts and (least_squares or kept or kind == LINEAR),
        "adapt works on a posterior over a Basis or Fourier features; this model has another",
    )
    refuse(adapts and model._batch > 1, "adapt learns from each next row: use batch=1, or adapt=None")
    refuse(adapts and factored and kind == POINTS, 'adapt needs form="covariance" with given basis points')
    refuse(
        rebuilds and not model._grows,
        'on_move="rebuild" needs basis points with targets of their own; use on_move="rebase"',
    )
    has = {
        "form": factored,
        "removal": kept,
        "batch": model._batch > 1,
        "adapt": adapts,
        "fed back": feeds_back and likelihood.targets != "numbers",
        "power": model._estimate_power,
        "injection": forgetting.injects,
        "rebuild": rebuilds,
        "least squares": least_squares,
    }
    given = [("a kernel over time (time=)", BESIDE)] if model._terms else []
    given += [("mean=LinearMean(...)", BESIDE)] if model._linear is not None else []
    given += [(f"likelihood={likelihood!r}", NOT_GAUSSIAN)] if likelihood.kind != observation.GAUSSIAN else []
    for part, cannot in given:
        for what, why in cannot.items():
            refuse(has[what], f"{why} with {part}")


def refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise ValueError(why)


def load(model: Process) -> None:
    """Load the loop of a process, what that calls by its address, which is in the plan, and what Python calls."""
    gaussian, beside = model._likelihood.kind == observation.GAUSSIAN, model._terms or model._linear is not None
    model._run = stream.run_kept if model._keeps_rows else stream.run_growing if model._grows else stream.run_fixed
    by_address: list[Any] = [kernel_values] if model._features.kernel is not None else []
    by_address += [] if gaussian else [observation.as_gaussian]
    by_address += [passing.arrive, passing.pass_time, passing.report_components] if beside else []
    between: list[Any] = [program.matrix] if model._batch > 1 or model._features.points is not None else []
    between += [spacing.note, spacing.usual] if model._terms else []
    if model._adapt is not None:
        by_address.append(sngd.before_learning)
        between += [program.matrix, least_distinct]
    compile_now(model._run, check, *between, *by_address)
    model._places = places(*by_address)


def refuse_outputs(model: Process, p: int) -> None:
    shared, size, likelihood = model._shared, model._noise.size, model._likelihood
    refuse(not shared and size not in (1, p), f"noise has {size} values, but there are {p} outputs; give 1 or {p}")
    if shared and p > 1 and likelihood.kind != observation.GAUSSIAN:
        raise ValueError(
            f"there are {p} outputs, and with likelihood={likelihood!r} each needs a covariance of its own: "
            'use outputs="separate"'
        )


def sizes_of(model: Process, d: int, p: int, program: Program) -> dict[str, int]:
    """What the symbols in the shapes of the arrays stand for."""
    adapt, budget, width, q = model._adapt, model._budget, model._memory.width(d), 1 if model._shared else p
    sizes: dict[str, int] = memory.sizes(model._memory, d, p) | model._features.sizes(width, budget.capacity)
    points, parameters = sizes["points"], program.parameters.size
    beside = sum(COORDINATES[block.kind] for term in model._beside for block in term.blocks)
    theta = 0 if adapt is None else parameters + q
    scored = model._grows and budget.evict in (PAPER, KL) and not model._keeps_rows
    rebuilds = adapt is not None and adapt.rebuild
    blocks = sum(len(term.blocks) for term in model._beside)
    return sizes | {
        "capacity": budget.capacity if model._grows else points,
        "covariances": q,
        "width": width,
        "parameters": parameters,
        "scored": q if scored else 0,
        "temporal": beside,
        "mean_weights": 0 if model._linear is None else model._linear.count(d),
        "coordinates": beside + sizes["weights"],
        "blocks": blocks,
        "now": PRIOR + 1 if blocks else 0,
        "matrices": 0 if model._keeps_rows else q,
        "spacing": spacing.NUMBERS if blocks else 0,
        "clock": LATEST + 1 if blocks else HALVINGS + 1 if model._needs_time else 0,
        "kept": points if model._keeps_rows or rebuilds else 0,
        "theta": theta,
        "path": TRACE_LENGTH if theta else 0,
        "path_columns": 2 + theta,
        "steps": len(program.operations),
        "derivatives": parameters if theta else 0,
        "adapted": sizes["weights"] if theta else 0,
        "adapted_coordinates": beside + sizes["weights"] if theta else 0,
        "adapted_outputs": p if theta else 0,
        "kernel_scratch": program.scratch(points, width, theta > 0) if points else 0,
    }


def plan_of(model: Process, sizes: dict[str, int]) -> dict[str, Any]:
    """What compiled code reads: what parts and sizes have by the same name, and what is decided here."""
    parts = model._memory, model._features, model._budget, model._forgetting, model._likelihood, model._adapt
    assert PLAN.names is not None
    named = {name: getattr(part, name) for part in parts for name in PLAN.names if hasattr(part, name)}
    decided = {
        "feedback": model._memory.feeds_back,
        "features": model._features.kind,
        "weight_scale": model._features.delta**-0.5,
        "likelihood": model._likelihood.kind,
        "shared": model._shared,
        "factored": model._factored,
        "least_squares": model._least_squares,
        "batch": model._batch,
        "power": model._estimate_power,
    }
    plan: dict[str, Any] = named | decided | model._places
    return plan | {name: sizes[name] for name in PLAN.names if name in sizes}


def fill(model: Process, numbers: Numbers, program: Program) -> None:
    """Write down what is known before the first row: hyperparameters, given points, the prior."""
    parts, state = model._features, numbers.state
    numbers.counters["path_stride"] = 1
    numbers.work.operations[:] = program.operations
    state.noise[:] = model._noise
    state.parameters[:] = program.parameters
    state.clock[LEARNED : LEARNED + 1] = state.clock[SEEN:] = np.nan
    if model._beside:
        work = numbers.work
        work.table[:], work.feature[:] = passing.tabulated(model._beside)
        work.now[:] = np.nan
    if isinstance(parts, Fourier):
        state.frequencies[:] = parts.frequencies(state.frequencies.shape[1], model._memory.depth)
    if parts.points is not None:
        numbers.counters["points"] = len(parts.points)
        place_points(parts, state, model._memory.depth, adapting=model._adapt is not None)
    diagonal = np.einsum("jii->ji", state.covariance)
    if not model._grows:
        diagonal[:] = np.sqrt(state.noise)[:, None] if model._factored else 1.0
    diagonal[:, : numbers.work.feature.size] = 1.0


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

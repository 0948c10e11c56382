"""The numbers of an online Gaussian process: how many there are, and what they start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.arrays import Numbers
from streamgp.compiled import uncompiled
from streamgp.contract import spacing
from streamgp.kernels.program import Program
from streamgp.kernels.temporal import COORDINATES
from streamgp.process import memory, observation
from streamgp.process import time as passing
from streamgp.process.budget import KL, LOWEST_STAYING, PAPER, floor
from streamgp.process.features import Basis, Features, Fourier
from streamgp.process.row import HALVINGS, LATEST, LEARNED, PRIOR, SEEN
from streamgp.process.state import Process

TRACE_LENGTH = 512
SLACK = 1e-6  # of a restored variance in [0, 1]: rounding leaves far less
COUNTED = ("outputs", "covariances", "weights", "temporal", "mean_weights", "theta")  # sizes that the plan has, too
# What compiled code reads of the settings of each part, which have the same names in the plan.
SETTINGS = {
    "_memory": ("retention",),
    "_features": ("jitter",),
    "_budget": ("capacity", "novelty", "absorb", "evict", "removal"),
    "_forgetting": ("covariance_scale", "covariance_fresh", "mean_scale", "half_life", "injects", "check_every"),
    "_likelihood": ("dof",),
    "_adapt": (
        *("interval", "rest", "per_row", "patience", "rebuild"),
        *("rate", "decay", "longest", "tolerance", "damping"),
    ),
}


def refuse_outputs(model: Process, p: int) -> None:
    if not model._shared and model._noise.size not in (1, p):
        raise ValueError(f"noise has {model._noise.size} values, but there are {p} outputs; give 1 or {p}")
    if model._shared and p > 1 and model._likelihood.kind != observation.GAUSSIAN:
        raise ValueError(
            f"there are {p} outputs, and with likelihood={model._likelihood!r} each needs a covariance of its own: "
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
    """What compiled code reads of the settings: what parts have by the same name, and what else is decided here."""
    parts = [(getattr(model, part), names) for part, names in SETTINGS.items()]
    plan: dict[str, Any] = {name: getattr(part, name) for part, names in parts if part is not None for name in names}
    decided = {
        **model._places,
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
    return plan | decided | {name: sizes[name] for name in COUNTED}


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

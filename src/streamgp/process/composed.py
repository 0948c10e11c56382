"""The parts of an online Gaussian process, checked against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.compiled import compile_now, places
from streamgp.contract import spacing
from streamgp.contract.checks import check
from streamgp.kernels import Kernel, program
from streamgp.kernels.temporal import components
from streamgp.process import features as feature_kinds
from streamgp.process import observation, stream
from streamgp.process import time as passing
from streamgp.process.adapt import sngd
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import DISCARD, DTC, ERROR, NEVER, OLDEST, Budget, least_distinct
from streamgp.process.features import Features
from streamgp.process.forgetting import BackToPrior, Forgetting
from streamgp.process.likelihood import Likelihood, chosen
from streamgp.process.mean import LinearMean, Mean
from streamgp.process.memory import Memory, Window
from streamgp.process.state import Process
from streamgp.settings import positive_vector
from streamgp.vocabulary import FORMS, LEAST_NOISE


def compose(
    model: Process,
    features: Features,
    memory: Memory | None,
    noise: Any,
    budget: Budget | None = None,
    forgetting: Forgetting | None = None,
    adapt: SNGD | None = None,
    outputs: str = "shared",
    form: str | None = None,
    likelihood: Likelihood | None = None,
    time: Kernel | None = None,
    mean: Mean | None = None,
) -> None:
    """Check the parts against each other, let the model hold them, and load its loop."""
    model._likelihood = chosen(noise, likelihood)
    noise = model._likelihood.noise
    model._features = _part("features", features, Features, "Basis(kernel), Fourier(...) or Linear(...)")
    model._memory = Window(1) if memory is None else _part("memory", memory, Memory, "Window(3) or Reservoir(50)")
    model._recalls = model._memory.recalls
    model._budget = Budget() if budget is None else _part("budget", budget, Budget, "Budget(capacity=100)")
    model._forgetting = (
        BackToPrior(1.0)
        if forgetting is None
        else _part("forgetting", forgetting, Forgetting, "BackToPrior(0.999) or Injection(0.999)")
    )
    kernel = time if time is None else _part("time", time, Kernel, "Matern(1.5, lengthscale='3h') + Periodic('1d')")
    model._terms = [] if kernel is None else components(kernel)
    model._linear = mean if isinstance(mean, LinearMean) else None
    # What has coordinates beside the features; from the first row on also the weights of the mean.
    model._beside = model._terms
    model._needs_time = model._forgetting.half_life > 0 or bool(model._terms)
    model._shared = outputs == "shared"
    model._grows = model._features.kind == feature_kinds.DICTIONARY
    model._least_squares = model._grows and np.ndim(noise) == 0 and noise == 0
    model._noise = np.zeros(1) if model._least_squares else positive_vector("noise", noise)
    if not model._least_squares and model._noise.min() < LEAST_NOISE:
        raise ValueError(
            f"noise must be at least {LEAST_NOISE:g}, below which arithmetic cannot tell it from 0; got {noise!r}. "
            "Give a larger one, or use other units"
        )
    model._keeps_rows = model._grows and model._budget.removal == DISCARD
    if model._least_squares:
        check_least_squares(model)
    elif model._keeps_rows:
        check_kept(model)
    if model._shared and model._noise.size != 1:
        raise ValueError(
            f"noise has {model._noise.size} values, but the outputs share one covariance; "
            'give one value, or outputs="separate"'
        )
    gaussian = model._likelihood.kind == observation.GAUSSIAN
    fades = model._forgetting.forgets and not model._forgetting.injects
    if form is None:  # raw inputs of any size go into Linear, and only the information form takes them
        alone = not model._terms and model._linear is None
        form = FORMS[model._features.kind == feature_kinds.LINEAR and gaussian and not fades and alone]
    model._factored = form == "cholesky"
    if model._factored and model._grows:
        raise ValueError(
            'form="cholesky" needs a fixed number of weights: Fourier, Linear, or a Basis on given points; '
            'use form="covariance" with a basis that grows'
        )
    if model._factored and fades:
        raise ValueError('form="cholesky" cannot go back to the prior; use Injection(...) or form="covariance"')
    model._mean = mean
    model._adapt = None if adapt is None else _part("adapt", adapt, SNGD, "SNGD(interval=25)")
    model._observes = model._likelihood.targets
    model._direct = model._batch == 1 and gaussian and mean is None and not model._terms
    model._one_step = model._adapt is None and model._batch == 1 and not model._forgetting.injects
    if mean is not None:
        check_mean(model)
    if model._adapt is not None:
        check_adaptable(model, model._adapt)
    if not gaussian:
        check_likelihood(model)
    if model._terms:
        check_beside(model, *OVER_TIME)
    if model._linear is not None:
        check_beside(model, *IN_MEAN)
    model._run = stream.run_kept if model._keeps_rows else stream.run_growing if model._grows else stream.run_fixed
    # What the loop calls by their addresses, which are in the plan, and what Python calls between rows.
    kernel_values = [] if model._features.kernel is None else [feature_kinds.kernel_values]
    by_address: list[Any] = kernel_values if gaussian else [*kernel_values, observation.as_gaussian]
    between: list[Any] = [program.matrix] if model._batch > 1 or features.points is not None else []
    if model._terms or model._linear is not None:
        by_address += [passing.arrive, passing.pass_time, passing.report_components]
    if model._terms:
        between += [spacing.note, spacing.usual]
    if model._adapt is not None:
        by_address += [sngd.before_learning, sngd.after_learning]
        between += [program.matrix, program.loading_units, least_distinct, sngd.count_moved]
    compile_now(model._run, check, *between, *by_address)
    model._places = places(*by_address)


def check_likelihood(model: Process) -> None:
    """A likelihood that is not Gaussian is learned one row and one output at a time, in covariance form."""
    cannot = {
        'form="cholesky" adds up Gaussian observations: use form="covariance"': model._factored,
        'removal="discard" keeps Gaussian observations: use another removal': model._keeps_rows,
        "batch learns Gaussian observations together: use batch=1": model._batch > 1,
        "adapt follows the gradient of a Gaussian density: use adapt=None": model._adapt is not None,
        "feedback takes the mean of the function for a missing target: use feedback=None": (
            model._memory.feeds_back and model._likelihood.targets != "numbers"
        ),
        "estimate_power scales Gaussian noise: use estimate_power=False": model._estimate_power,
    }
    _refuse(cannot, f"likelihood={model._likelihood!r}")


def check_mean(model: Process) -> None:
    if model._likelihood.targets != "numbers":
        raise ValueError(f"mean is taken from the targets, and {model._likelihood.targets} have none: use mean=None")
    if model._memory.feeds_back:
        raise ValueError("feedback puts targets into the reservoir, not what is above the mean: use feedback=None")


OVER_TIME = (
    "a kernel over time (time=)",
    'form="cholesky" has no covariance that time could move: use form="covariance"',
    'removal="discard" keeps rows whatever their time: use another removal',
    "batch learns rows of different times together: use batch=1",
    "injection is capped at a prior that does not move: forget back to the prior",
    'on_move="rebuild" learns the targets of basis points whatever their time: use on_move="rebase"',
)
IN_MEAN = (
    "mean=LinearMean(...)",
    'form="cholesky" has a factor of the features alone: use form="covariance"',
    'removal="discard" keeps rows and no posterior: use another removal',
    "batch learns rows together by the features alone: use batch=1",
    "injection is capped at the prior of features alone: forget back to the prior",
    'on_move="rebuild" learns the targets of basis points without their mean: use on_move="rebase"',
)


def check_beside(model: Process, part: str, *why: str) -> None:
    """Coordinates beside the features need a covariance with the weights, row by row."""
    rebuilds = model._adapt is not None and model._adapt.rebuild
    is_so = model._factored, model._keeps_rows, model._batch > 1, model._forgetting.injects, rebuilds
    least_squares = {"noise=0 is least squares, which knows no covariance: use a noise above 0": model._least_squares}
    _refuse(dict(zip(why, is_so, strict=True)) | least_squares, part)


def check_adaptable(model: Process, adapt: SNGD) -> None:
    if model._least_squares or model._keeps_rows or model._features.kind == feature_kinds.LINEAR:
        raise ValueError("adapt works on a posterior over a Basis or Fourier features; this model has another")
    if model._batch > 1:
        raise ValueError("adapt learns from each next row: use batch=1, or adapt=None")
    if model._factored and model._features.kind == feature_kinds.POINTS:
        raise ValueError('adapt needs form="covariance" with given basis points')
    if adapt.rebuild and not model._grows:
        raise ValueError('on_move="rebuild" needs basis points with targets of their own; use on_move="rebase"')


def check_least_squares(model: Process) -> None:
    budget = model._budget
    if budget.evict != NEVER or budget.absorb != DTC or not model._shared or model._forgetting.forgets:
        raise ValueError(
            "noise=0 is least squares on a dictionary that only grows, as in KRLS(noise=0): it needs "
            'Budget(absorb="dtc", evict="never"), shared outputs and no forgetting; otherwise give a noise above 0'
        )


def check_kept(model: Process) -> None:
    budget = model._budget
    if budget.evict not in (ERROR, OLDEST) or budget.novelty > 0 or model._forgetting.forgets or not model._shared:
        raise ValueError(
            'removal="discard" keeps the exact GP on some rows: it needs evict="oldest" or "error", novelty=0, '
            "shared outputs and no forgetting"
        )


def _part(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be, for example, {example}; got {value!r}")
    return value


def _refuse(cannot: dict[str, bool], beside: str) -> None:
    """Refuse what does not go with a part.

    Args:
        cannot: what, with the way out -> whether the process has it.
        beside: the part, as users spell it.
    """
    for why, is_so in cannot.items():
        if is_so:
            raise ValueError(f"{why} with {beside}")

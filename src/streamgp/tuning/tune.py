"""Tune: a stream model of the same recipe, with hyperparameters from the evidence of a batch prefix."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from streamgp.batch import SSGPR, FullGP
from streamgp.batch.evidence import WIDEST, Evidence, checked
from streamgp.batch.model import extent
from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.contract.model import StreamModel
from streamgp.filters.model import Filter
from streamgp.kernels import Kernel
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.features import Features, Fourier
from streamgp.process.likelihood import Gaussian, Poisson, Probit, StudentT
from streamgp.process.mean import LinearMean
from streamgp.process.memory import Window, remembered
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.time import TimeGP
from streamgp.settings import FloatArray, whole
from streamgp.tuning.time import Series, fit_time, scale2
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.units import standard, units_of
from streamgp.wrappers.wrapper import Wrapper

Model = TypeVar("Model", bound=StreamModel)
Limits = dict[str, tuple[float, float]]


class NoEvidenceError(TypeError):
    """The marginal likelihood says nothing about the settings of this kind of model."""


# The least noise, relative to the prior variance on the data. Without noise in the targets the evidence grows without
# bound as the noise falls, but on a growing basis rounding hides what is below this (docs/numerics.md).
LEAST_NOISE = 1e-5
# The largest variance of a term of a kernel, relative to that of the targets: so the noise that suits it stays small.
MOST_VARIANCE = 10.0
# The largest factor by which a start may differ from the scale of the data. From further away the function looks
# constant, or like noise from row to row, and the evidence has no slope.
FAR = 100.0
# Where a noise that is far off starts, relative to the variance of the targets.
LIKELY_NOISE = 0.01


def tune(
    model: Model,
    X: Any,
    Y: Any,
    evidence: Evidence | None = None,
    rows: int = 1000,
    tune_frequencies: bool = False,
    *,
    time: Any = None,
    verbose: bool = False,
) -> Model:
    """Return a new model of the same recipe that has learned nothing, with hyperparameters tuned on a first batch.

    The rows pass through the model's memory; then the log marginal likelihood of the exact Gaussian process (for
    Fourier features: of the sparse spectrum process) is maximized over the kernel's hyperparameters and the noise.
    Unless ``evidence`` has bounds, the search is in the units of the data: each term of a kernel may reach a prior
    variance, averaged over the rows, of ten times the variance of the targets, or that of the start; and a start that
    is off by more than a factor of 100 in those units begins at the scale of the data. A noise below 1e-5 of the prior
    variance is raised to that (not for Fourier features).

    A kernel over time (TimeGP) is tuned by its exact evidence on consecutive rows, with log-normal priors around the
    hyperparameters given; periods stay as they are.

    Args:
        model: the recipe and where to start; one lengthscale for each input is tuned where the model has one for each.
            Of Standardize, Calibrated and DriftAware the model within is tuned, in the units that it will see.
        X: (n, d) rows of the stream, in order, from its beginning; None for TimeGP.
        Y: (n,) or (n, p) targets; NaN where missing.
        evidence: how to maximize; None: Evidence(), for TimeGP Evidence(restarts=0).
        rows: most rows that count, drawn at random from the n; the exact process costs rows^3 an evaluation. Of
            TimeGP, the last ones; they cost as much where they are not equally far apart, otherwise no more than rows.
        tune_frequencies: for Fourier features, tune the frequencies too.
        time: (n,) times of the rows, for TimeGP; None: one row a unit.
        verbose: whether to print how the search goes, to standard error.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.tuning.tune import tune
        >>> X = np.linspace(0.0, 6.0, 60)
        >>> Y = np.sin(X) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> model = tune(sg.SOGP(sg.SquaredExponential(0.3), noise=1.0), X, Y)
        >>> model.rows_seen, 0.005 < model.hyperparameters["noise"] < 0.02
        (0, True)
    """
    if evidence is None:
        evidence = Evidence(restarts=0) if isinstance(model, TimeGP) else Evidence()
    if verbose:
        evidence = checked(evidence).replaced(progress=True)
    if isinstance(model, TimeGP):
        return model.replaced(**_over_time(model, X, Y, time, evidence, rows))
    if time is not None:
        raise ValueError(f"{type(model).__name__} has no kernel over time; leave out time=, or tune a TimeGP")
    return with_hyperparameters(model, fit_prefix(model, X, Y, evidence, rows, tune_frequencies))


def _over_time(model: TimeGP, X: Any, Y: Any, time: Any, evidence: Evidence, rows: int) -> dict[str, Any]:
    """The kernel over time and the noise, tuned."""
    whole("rows", rows)
    if X is not None and np.size(X):
        raise ValueError(f"TimeGP has no inputs, only times: X is None; got an array of shape {np.shape(X)}")
    Y, _ = inputs.targets(Y, len(Y), model._shape.outputs, model._shape.scalar)
    times = np.arange(float(len(Y))) if time is None else inputs.times(time, len(Y), many=True)
    inputs.refuse(*check(np.empty((len(Y), 0)), Y, False, np.inf), many=True)
    series = Series(times, Y, rows)
    kernel, noise, _ = fit_time(model.get_params()["time"], model.get_params()["noise"], series, checked(evidence))
    return {"time": kernel, "noise": noise}


def fit_prefix(
    model: StreamModel,
    X: Any,
    Y: Any,
    evidence: Evidence | None = None,
    rows: int = 1000,
    tune_frequencies: bool = False,
) -> FullGP | SSGPR:
    """Return the batch model whose hyperparameters :func:`tune` takes over; its ``maximum`` tells how the search went.

    The arguments are those of :func:`tune`.
    """
    whole("rows", rows)
    evidence = Evidence() if evidence is None else checked(evidence)
    if not isinstance(model, StreamModel):
        raise TypeError(f"model must be a stream model such as SOGP(...) or ISSGPR(...); got {model!r}")
    X = inputs.rows(X, model._d)
    if isinstance(model, Standardize):  # rows in the units of its warm-up
        Y, scalar = inputs.targets(Y, len(X), model._shape.outputs, model._shape.scalar)
        inputs.refuse(*check(X, Y, False, np.inf), many=True)
        units = units_of(X[: model._warmup], Y[: model._warmup])
        X = standard(X, units.input_shift, units.input_scale)
        Y = standard(Y, units.target_shift, units.target_scale)
        Y = Y[:, 0] if scalar else Y
    if isinstance(model, Wrapper):
        return fit_prefix(model._pristine, X, Y, evidence, rows, tune_frequencies)
    batch = _batch_twin(model, X.shape[1], tune_frequencies)
    Y, _ = inputs.targets(Y, len(X), model._shape.outputs, model._shape.scalar)
    if len(X) == 0:
        raise ValueError("X has no rows; hyperparameters can be tuned on a first part of the stream only")
    inputs.refuse(*check(X, Y, False, np.inf), many=True)
    prior = model._prior_mean(X) if isinstance(model, OnlineGP) else None
    if prior is not None:
        Y = Y - prior
    memory = model._memory if isinstance(model, CompiledModel) else Window(model.get_params().get("depth", 1))
    seen = remembered(memory, X, Y)
    known = np.flatnonzero(~np.any(np.isnan(Y), axis=1))
    if known.size == 0:
        raise ValueError("every row of Y misses a target; tuning needs rows with all their targets")
    if known.size > rows:
        known = np.sort(np.random.default_rng(evidence.seed).choice(known, rows, replace=False))
    X, Y = seen[known], Y[known]
    if evidence.bounds == WIDEST:
        batch, bounds = _spectrum_in_units(batch, Y) if isinstance(batch, SSGPR) else _kernel_in_units(batch, X, Y)
        evidence = evidence.replaced(bounds=bounds)
    return batch.fit(X, Y, evidence)


def _kernel_in_units(batch: FullGP, X: FloatArray, Y: FloatArray) -> tuple[FullGP, Limits]:
    """The batch model, started at the scale of the data where it is far off, and bounds in the units of the data."""
    kernel, target2 = batch.kernel, scale2(Y)
    theta, lengths = kernel.program(*extent(X)).parameters, kernel.input_lengths(X)
    noise = float(batch.hyperparameters["noise"])
    start = theta.copy()
    for i in np.flatnonzero(lengths > 0):
        start[i] = _near(theta[i], lengths[i], FAR)
    # Factors that are given by their number start from loadings that suit the lengthscales.
    near = {n: value for n, value in kernel.hyperparameters(start, *extent(X)).items() if not n.endswith("factors")}
    start = kernel.replaced(**{n.replace(".", "__"): value for n, value in near.items()}).program(*extent(X)).parameters
    for i in np.flatnonzero(_terms(kernel, start, X) > 0):  # one after the other: factors of a product share its scale
        term = _terms(kernel, start, X)[i]
        start[i] *= _near(term, target2, FAR**2) / term
    started = _near(noise, LIKELY_NOISE * target2, FAR**2)
    if started != noise or np.any(start != theta):
        batch = batch.replaced(kernel=kernel.with_values(start, *extent(X)), noise=started)
    terms = _terms(kernel, start, X)
    # A hyperparameter that the prior variance does not depend on, and that is no length, has no unit.
    unit = np.where(terms > 0, target2 * start / np.where(terms > 0, terms, 1.0), np.where(lengths > 0, lengths, 1.0))
    low, high = WIDEST[0] * unit, np.where(terms > 0, MOST_VARIANCE, WIDEST[1]) * unit
    named_low, named_high = (kernel.hyperparameters(values, *extent(X)) for values in (low, high))
    named = {n: value for n, value in kernel.hyperparameters(start, *extent(X)).items() if n in near}
    bounds = {name: _around(value, np.min(named_low[name]), np.max(named_high[name])) for name, value in named.items()}
    most = MOST_VARIANCE * target2
    return batch, bounds | {"noise": _around(started, LEAST_NOISE * most, WIDEST[1] * target2)}


def _spectrum_in_units(batch: SSGPR, Y: FloatArray) -> tuple[SSGPR, Limits]:
    """The same for Fourier features, whose prior variance is the same everywhere."""
    target2, settings = scale2(Y), batch.get_params()
    variance = _near(settings["variance"], target2, FAR**2)
    noise = _near(settings["noise"], LIKELY_NOISE * target2, FAR**2)
    batch = batch.replaced(variance=variance, noise=noise)
    low, high = (limit * target2 for limit in WIDEST)
    return batch, {"variance": _around(variance, low, high), "noise": _around(noise, low, high)}


def _terms(kernel: Kernel, theta: FloatArray, X: FloatArray) -> FloatArray:
    """d mean k(x, x) / d log(hyperparameter): for the variance of a term of a sum, the term's mean over the rows."""
    weights = np.full(len(X), 1.0 / len(X))
    return kernel.with_values(theta, *extent(X)).weighted_diagonal_gradient(weights, X)


def _near(value: float, scale: float, factor: float) -> float:
    return value if scale / factor <= value <= scale * factor else scale


def _around(start: Any, low: float, high: float) -> tuple[float, float]:
    return min(float(np.min(start)), float(low)), max(float(np.max(start)), float(high))


def with_hyperparameters(model: Model, batch: FullGP | SSGPR) -> Model:
    """Return a new model of the same recipe with a batch model's hyperparameters.

    Args:
        model: the recipe.
        batch: what :func:`fit_prefix` returned.
    """
    if isinstance(model, Wrapper):
        return model.replaced(model=with_hyperparameters(model._pristine, batch))
    settings = model.get_params()
    part = "features__" if isinstance(settings.get("features"), Features) else ""
    if isinstance(batch, SSGPR):
        found = batch.stream_settings()
        noise = found.pop("noise")
        changes = {part + name: value for name, value in found.items()}
    else:
        found = batch.hyperparameters
        noise = max(float(np.max(found.pop("noise"))), LEAST_NOISE * batch.prior_variance())
        short = {name: None for name in found if name in settings}  # the kernel has all that was given in short
        changes = {part + "kernel": batch.kernel} | short
        if isinstance(model, Filter):
            kernel, _ = _kernel_of(model, settings)
            before, after = batch.prior_variance(kernel), batch.prior_variance()
            if before > 0 and after > 0:  # a linear kernel of inputs that are all 0 has none
                units = model._units_of_variance
                changes |= {name: settings[name] * (after / before) ** power for name, power in units}
    likelihood = settings.get("likelihood")
    if isinstance(likelihood, Gaussian):
        changes["likelihood"] = Gaussian(noise)
    elif isinstance(likelihood, StudentT):  # the evidence knows the variance, which few degrees of freedom do not have
        ratio = likelihood.noise_ratio if likelihood.dof > 2 else 1.0
        changes["likelihood"] = likelihood.replaced(scale=(noise / ratio) ** 0.5)
    elif "noise" in settings:
        changes["noise"] = noise
    return model.replaced(**changes)


def _batch_twin(model: StreamModel, d: int, tune_frequencies: bool) -> FullGP | SSGPR:
    """The batch model with the stream model's prior."""
    settings = model.get_params()
    if isinstance(settings.get("likelihood"), Probit | Poisson):
        raise NoEvidenceError(
            f"the evidence here is that of targets with noise, not of classes or counts ({settings['likelihood']!r}); "
            "choose the kernel's hyperparameters by the log density of predictions"
        )
    if isinstance(model, OnlineGP) and settings.get("time") is not None:
        raise NoEvidenceError(
            "the evidence here is that of the inputs, without a kernel over time beside them; use "
            "sg.Forecaster(y, time, X), which tunes both together, or tune the model without time= and give it "
            "afterwards, or let adapt=SNGD() move the hyperparameters"
        )
    if isinstance(model, OnlineGP) and isinstance(settings.get("mean"), LinearMean):
        raise NoEvidenceError(
            "the evidence here is that of the function above a fixed mean, without the weights of a LinearMean; tune "
            "the model without mean= and give it afterwards, or let adapt=SNGD() move the hyperparameters"
        )
    # Several outputs share one noise here; a noise of 0 (plain least squares) is no place to start from.
    noise = float(np.mean(settings.get("noise", 0.0)))
    start = {"noise": noise} if noise > 0 else {}
    if isinstance(model, OnlineGP) and isinstance(parts := model._features, Fourier):
        plain = parts.order is None and not parts.orthogonal
        width, depth = model._memory.width(d), model._memory.depth
        return SSGPR(
            parts.features,
            lengthscale=parts.lengthscale,
            variance=parts.variance,
            seed=parts.seed,
            frequencies=parts.given if plain else parts.frequencies(width, depth),
            tune_frequencies=tune_frequencies,
            **start,
        )
    if tune_frequencies:
        raise ValueError(f"{type(model).__name__} has no frequencies to tune; use tune_frequencies=False")
    kernel, jitter = _kernel_of(model, settings)
    if kernel is None:
        raise NoEvidenceError(
            f"{type(model).__name__} has neither a kernel nor Fourier features, so the evidence says nothing about its "
            "settings; choose them by the error on a first part of the stream"
        )
    return FullGP(kernel, jitter=jitter, **start)


def _kernel_of(model: StreamModel, settings: dict[str, Any]) -> tuple[Kernel | None, float]:
    if isinstance(model, OnlineGP):
        return model._features.kernel, model._features.jitter
    return getattr(model, "_kernel", settings.get("kernel")), float(settings.get("jitter", 0.0))

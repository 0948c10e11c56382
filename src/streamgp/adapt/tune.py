"""Tune: a stream model of the same recipe, with hyperparameters from the evidence of a batch prefix."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgp import inputs, loop
from streamgp.adapt.evidence import Evidence
from streamgp.batch import SSGPR, FullGP
from streamgp.compiled import compiled
from streamgp.features import Features, Fourier, checked_kernel
from streamgp.kernels import Kernel
from streamgp.memory import Memory, MemoryState, Window, keep, look
from streamgp.model import OnlineGP, StreamModel
from streamgp.settings import FloatArray, whole

Array = NDArray
Model = TypeVar("Model", bound=StreamModel)


def tune(
    model: Model,
    X: Any,
    Y: Any,
    evidence: Evidence | None = None,
    rows: int = 1000,
    tune_frequencies: bool = False,
) -> Model:
    """Return a new model of the same recipe that has learnt nothing, with hyperparameters tuned on a first batch.

    The rows pass through the model's memory; then the log marginal likelihood of the exact Gaussian process (for
    Fourier features: of the sparse spectrum process) is maximised over the kernel's hyperparameters and the noise.

    Args:
        model: the recipe and where to start; one lengthscale for each input is tuned where the model has one for each.
        X: (n, d) rows of the stream, in order.
        Y: (n,) or (n, p) targets; NaN where missing.
        evidence: how to maximise; None: Evidence().
        rows: most rows that count, drawn at random from the n; the exact process costs rows^3 an evaluation.
        tune_frequencies: for Fourier features, tune the frequencies too.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.adapt.tune import tune
        >>> X = np.linspace(0.0, 6.0, 60)
        >>> Y = np.sin(X) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> model = tune(sg.SOGP(sg.SquaredExponential(0.3), noise=1.0), X, Y)
        >>> model.rows_seen, 0.005 < model.hyperparameters["noise"] < 0.02
        (0, True)
    """
    return with_hyperparameters(model, fit_prefix(model, X, Y, evidence, rows, tune_frequencies))


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
    evidence = Evidence() if evidence is None else evidence
    batch = _batch_twin(model, tune_frequencies)
    X = inputs.rows(X, model._d)
    Y, _ = inputs.targets(Y, len(X), model._p if model._certain else None, model._scalar)
    if len(X) == 0:
        raise ValueError("X has no rows; hyperparameters can be tuned on a first part of the stream only")
    inputs.refuse(*loop.check(X, Y, False), many=True)
    seen = remembered(_memory_of(model), X, Y)
    known = np.flatnonzero(~np.any(np.isnan(Y), axis=1))
    if known.size == 0:
        raise ValueError("every row of Y misses a target; tuning needs rows with all their targets")
    if known.size > rows:
        seed = evidence.seed if isinstance(evidence, Evidence) else 0
        known = np.sort(np.random.default_rng(seed).choice(known, rows, replace=False))
    return batch.fit(seen[known], Y[known], evidence)


def with_hyperparameters(model: Model, batch: FullGP | SSGPR) -> Model:
    """Return a new model of the same recipe with a batch model's hyperparameters.

    Args:
        model: the recipe.
        batch: what :func:`fit_prefix` returned.
    """
    settings = model.get_params()
    part = "features__" if isinstance(settings.get("features"), Features) else ""
    if isinstance(batch, SSGPR):
        found = issgpr_settings(batch)
        noise = found.pop("noise")
        changes = {part + name: value for name, value in found.items()}
    else:
        found = batch.hyperparameters
        noise = found.pop("noise")
        changes = {part + "kernel": batch.kernel} if part or "kernel" in settings else found
    if "noise" in settings:
        changes["noise"] = noise
    return model.replaced(**changes)  # type: ignore[no-any-return]


def issgpr_settings(ssgpr: SSGPR) -> dict[str, Any]:
    """Return the settings with which an ISSGPR learns row by row what a fitted SSGPR has learnt at once.

    Args:
        ssgpr: a fitted model.

    Returns:
        features, frequencies (divided by the lengthscales), lengthscale, variance and noise.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.adapt.tune import issgpr_settings
        >>> from streamgp.batch import SSGPR
        >>> X = np.linspace(0.0, 6.0, 60)
        >>> batch = SSGPR(features=20, noise=0.01).fit(X, np.sin(X))
        >>> stream = sg.ISSGPR(**issgpr_settings(batch))
        >>> stream.learn_many(X, np.sin(X))
        >>> bool(abs(stream.predict_one(2.5).mean - batch.predict([2.5]).mean[0]) < 1e-8)
        True
    """
    ssgpr.log_marginal_likelihood()  # refuses a model that was not fitted
    frequencies = ssgpr.frequencies
    return {"features": len(frequencies), "frequencies": frequencies} | ssgpr.hyperparameters


def remembered(memory: Memory, X: FloatArray, Y: FloatArray) -> FloatArray:
    """What a memory hands over at every row from its start on: (n, width), or (n, depth, d) of a window.

    A reservoir with feedback is fed the targets, and zeros, the prior's mean, where they are missing.
    """
    d, p = X.shape[1], Y.shape[1]
    state = MemoryState(np.zeros((memory.depth, d)), np.zeros(memory.units), np.zeros(p), *memory.weights(d, p))
    seen = np.empty((len(X), memory.width(d)))
    _remember(state, memory.retention, X, np.nan_to_num(Y, nan=0.0), seen)
    return seen.reshape(len(X), memory.depth, d) if memory.depth > 1 else seen


@compiled
def _remember(memory: MemoryState, retention: float, X: Array, Y: Array, seen: Array) -> None:
    for t in range(X.shape[0]):
        look(memory, retention, X[t], seen[t])
        keep(memory, seen[t])
        for j in range(Y.shape[1]):
            memory.last_target[j] = Y[t, j]


def _batch_twin(model: StreamModel, tune_frequencies: bool) -> FullGP | SSGPR:
    """The batch model with the stream model's prior."""
    if not isinstance(model, StreamModel):
        raise TypeError(f"model must be a stream model such as SOGP(...) or ISSGPR(...); got {model!r}")
    settings = model.get_params()
    # Several outputs share one noise here; a noise of 0 (plain least squares) is no place to start from.
    noise = float(np.mean(settings.get("noise", 0.0)))
    start = {"noise": noise} if noise > 0 else {}
    if isinstance(model, OnlineGP) and isinstance(parts := model._features, Fourier):
        return SSGPR(
            parts.features,
            parts.lengthscale,
            parts.variance,
            seed=parts.seed,
            frequencies=parts.given,
            tune_frequencies=tune_frequencies,
            **start,
        )
    if tune_frequencies:
        raise ValueError(f"{type(model).__name__} has no frequencies to tune; use tune_frequencies=False")
    kernel, jitter = _kernel_of(model, settings)
    if kernel is None:
        raise TypeError(
            f"{type(model).__name__} has neither a kernel nor Fourier features, so the evidence says nothing about its "
            "settings; choose them by the error on a first part of the stream"
        )
    return FullGP(kernel, jitter=jitter, **start)


def _kernel_of(model: StreamModel, settings: dict[str, Any]) -> tuple[Kernel | None, float]:
    if isinstance(model, OnlineGP):
        return model._features.kernel, model._features.jitter
    kernel = checked_kernel(settings["kernel"]) if "kernel" in settings else None
    return kernel, float(settings.get("jitter", 0.0))


def _memory_of(model: StreamModel) -> Memory:
    return model._memory if isinstance(model, OnlineGP) else Window(model.get_params().get("depth", 1))

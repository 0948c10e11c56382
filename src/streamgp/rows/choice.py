"""Which model, and with which hyperparameters: decided on the first rows of a stream."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamgp.adapt import Evidence
from streamgp.adapt.sngd import SNGD
from streamgp.adapt.tune import tune
from streamgp.calibrated import Calibrated
from streamgp.driftaware import DriftAware
from streamgp.evaluate.metrics import rmse
from streamgp.features import Linear
from streamgp.forgetting import Injection
from streamgp.kernels import LinearKernel, SquaredExponential
from streamgp.model import StreamModel
from streamgp.onlinegp import OnlineGP
from streamgp.recipes.gijsberts2013 import ISSGPR
from streamgp.recipes.soh2014 import SOGP
from streamgp.recipes.vanvaerenbergh2016 import KRLST
from streamgp.rows.expressions import value_of
from streamgp.settings import Configured, FloatArray, nearest, number, whole
from streamgp.standardize import Standardize, centre_and_spread
from streamgp.wrapper import Wrapper

AUTO = "auto"
FEWEST = 30  # rows from which hyperparameters can be found at all
TUNED_ROWS = 500  # most rows that count for hyperparameters: a search takes seconds
ITERATIONS = 40  # of that search
NOISE = 0.1  # where the search starts, in variances of the target
RUN_SETTINGS: dict[str, Any] = {"level": 0.9, "warmup": 1000, "tune": True, "drift": True}
EARLY = 5  # a first choice is made on this fraction of the warm-up's rows


class Choice(NamedTuple):
    """Which model was taken, and why.

    Args:
        name: of the model.
        model: how it was built.
        reason: a sentence.
        scores: by candidate, the root mean squared error on the later of the first rows, in units of the target.
    """

    name: str
    model: str
    reason: str
    scores: dict[str, float]


@dataclass(frozen=True)
class Request:
    """What was asked for, checked.

    Args:
        model: the name of a model, or "auto".
        settings: of the model by name; also ``level`` (of the intervals), ``warmup`` (rows after which the choice is
            made), ``tune`` (whether hyperparameters are found on the first rows) and ``drift`` (whether changes are
            looked for).
        horizon: rows ahead.
    """

    model: str = AUTO
    settings: dict[str, Any] = field(default_factory=dict)
    horizon: int = 0

    def __post_init__(self) -> None:
        names = model_names()
        if self.model not in (AUTO, *names):
            raise ValueError(
                f"there is no model {self.model!r}.{nearest(self.model, [AUTO, *names])} "
                f"Models: auto, {', '.join(names)}"
            )
        number("level", self.run["level"], above=0)
        if self.run["level"] >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {self.run['level']!r}")
        whole("warmup", self.run["warmup"], at_least=10)
        for name in ("tune", "drift"):
            if not isinstance(self.run[name], bool):
                raise ValueError(f"{name} must be on or off; got {self.run[name]!r}")
        known = setting_names(self.model)
        for name in self.settings:
            if name.partition("__")[0] not in known:
                owner = "no model that auto tries" if self.model == AUTO else self.model
                raise ValueError(
                    f"{name!r} is no setting of {'a run or ' if self.model != AUTO else ''}{owner}."
                    f"{nearest(name, known)} There are: {', '.join(sorted(known))}"
                )
        if self.model != AUTO:
            model = self.build(self.model, 1)
            if self.horizon > 1 and _remembers(model):
                raise ValueError(
                    f"{self.model} keeps a memory of its inputs and cannot wait {self.horizon} rows for a target; "
                    "use --lags for the past, with a model such as KRLST, SOGP or ISSGPR (depth=1)"
                )

    @property
    def run(self) -> dict[str, Any]:
        """The settings that are not the model's."""
        return {name: value_of(self.settings.get(name, default)) for name, default in RUN_SETTINGS.items()}

    @property
    def level(self) -> float:
        return float(self.run["level"])

    @property
    def warmup(self) -> int:
        return int(self.run["warmup"])

    @property
    def candidates(self) -> list[str]:
        return list(CANDIDATES) if self.model == AUTO else [self.model]

    def stages(self) -> tuple[int, int]:
        """After how many rows a choice is made: a first one, and the one that stays."""
        return max(10, self.warmup // EARLY), self.warmup

    def build(self, name: str, d: int) -> StreamModel:
        """A model that has learnt nothing, for d inputs in standard units."""
        own = {key: value_of(value) for key, value in self.settings.items() if key not in self.run}
        if self.model != AUTO:
            return _published(name, d, own)
        model = CANDIDATES[name](d)
        names = model.setting_names()
        return model.replaced(**{key: value for key, value in own.items() if key.partition("__")[0] in names})  # type: ignore[no-any-return]


def counted(name: str, value: Any) -> int:
    return whole(name, value, at_least=0)


def model_names() -> list[str]:
    """The models that can be asked for by name."""
    from streamgp import api

    kinds = {name: getattr(api, name) for name in api.__all__}
    return sorted(
        name
        for name, kind in kinds.items()
        if inspect.isclass(kind)
        and issubclass(kind, StreamModel)
        and not issubclass(kind, Wrapper)
        and not inspect.isabstract(kind)
    )


def setting_names(model: str) -> set[str]:
    """The settings that a run with a model, or with auto, can be given."""
    kinds = [Configured.registry.get(name) for name in (CANDIDATES if model == AUTO else [model])]
    return {*RUN_SETTINGS, *(name for kind in kinds if kind is not None for name in kind.setting_names())}


def starter(request: Request, d: int) -> Calibrated:
    """The model that predicts while the choice is being made."""
    name = "KRLST" if request.model == AUTO else request.model
    return _wrapped(request, request.build(name, d), request.stages()[0])


def choose(request: Request, X: FloatArray, y: FloatArray) -> tuple[Calibrated, Choice]:
    """Compare models on the first rows of a stream, and tune the best one.

    Every candidate's hyperparameters are found on the first half of the rows; then it predicts and learns all of them,
    and the errors on the second half decide. The winner is tuned on all rows. It has learnt nothing yet.

    Args:
        request: what was asked for.
        X: (n, d) inputs.
        y: (n,) targets, NaN where missing.
    """
    half = len(y) // 2
    scores: dict[str, float] = {}
    names = request.candidates
    if len(names) > 1:
        for name in names:
            model = _tuned(request, name, X[:half], y[:half])
            mean = Standardize(model, max(half, 2)).track(X, y).mean
            error = rmse(y[half:], mean[half:])  # type: ignore[index]
            scores[name] = error if np.isfinite(error) else np.inf
    name = min(scores, key=scores.__getitem__) if scores else names[0]
    model = _tuned(request, name, X, y)
    others = ", ".join(f"{other} {score:.4g}" for other, score in sorted(scores.items(), key=lambda s: s[1])[1:])
    reason = (
        f"the smallest error on rows {half + 1} to {len(y)}: {scores[name]:.4g} ({others})" if scores else "asked for"
    )
    return _wrapped(request, model, len(y)), Choice(name, repr(model), reason, scores)


def _wrapped(request: Request, model: StreamModel, warmup: int) -> Calibrated:
    """A model for rows as they come, whose units are those of its first rows."""
    whole: StreamModel = Standardize(model, max(warmup, 2))
    if request.run["drift"] and can_forget(model):
        whole = DriftAware(whole)
    return Calibrated(whole, request.level)


def can_forget(model: StreamModel) -> bool:
    """Whether a model can be told to forget, as it must when the world has changed."""
    try:
        DriftAware(model.clone())
    except ValueError:
        return False
    return True


def _tuned(request: Request, name: str, X: FloatArray, y: FloatArray) -> StreamModel:
    """A model for standard units, with hyperparameters from these rows where it has any that can be found."""
    model = request.build(name, X.shape[1])
    known = ~np.isnan(y)
    if not request.run["tune"] or np.count_nonzero(known) < FEWEST:
        return model
    Z = np.column_stack([_standard(column) for column in X.T])
    u = _standard(y)
    try:
        return tune(model, Z, u, Evidence(restarts=0, iterations=ITERATIONS), rows=TUNED_ROWS)
    except TypeError:  # no kernel and no Fourier features: nothing to tune
        return model


def _standard(column: FloatArray) -> FloatArray:
    centre, spread = centre_and_spread(column[~np.isnan(column)])
    return (column - centre) / spread


# What auto chooses from. The sum of a linear and a local kernel extrapolates like the one and bends like the other; few
# frequencies span the whole range of the inputs; least squares needs the fewest rows.


def _tracker(d: int) -> StreamModel:
    return KRLST(SquaredExponential(_scales(d)) + LinearKernel(), capacity=200, forgetting=0.999, noise=NOISE)


def _spectrum(d: int) -> StreamModel:
    return ISSGPR(200, _scales(d), noise=NOISE, adapt=SNGD())


def _adapting(d: int) -> StreamModel:
    return SOGP(SquaredExponential(_scales(d)) + LinearKernel(), capacity=100, noise=NOISE, adapt=SNGD())


def _least_squares(_: int) -> StreamModel:
    return OnlineGP(Linear(0.01), noise=1.0, forgetting=Injection(0.999), form="cholesky")


CANDIDATES: dict[str, Callable[[int], StreamModel]] = {
    "KRLST": _tracker,
    "ISSGPR": _spectrum,
    "SOGP": _adapting,
    "least squares": _least_squares,
}


def _published(name: str, d: int, own: dict[str, Any]) -> StreamModel:
    """A model with these settings, otherwise its own defaults, but one lengthscale for each input."""
    kind = Configured.registry[name]
    parameters = inspect.signature(kind).parameters
    settings: dict[str, Any] = {}
    if "kernel" in parameters:
        settings["kernel"] = SquaredExponential(_scales(d))
    elif "lengthscale" in parameters and "units" not in parameters:
        settings["lengthscale"] = _scales(d)
    outer = {key: value for key, value in own.items() if "__" not in key}
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in outer]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}: give --set {missing[0]}=..., or use it from Python")
    model: StreamModel = kind(**(settings | outer))  # type: ignore[assignment]
    return model.replaced(**{key: value for key, value in own.items() if "__" in key})  # type: ignore[no-any-return]


def _scales(d: int) -> list[float]:
    """The distance of two rows in standard units grows with sqrt(d)."""
    return [float(np.sqrt(d))] * d


def _remembers(model: StreamModel) -> bool:
    settings = model.get_params()
    return settings.get("depth", 1) > 1 or any(name in settings for name in ("units", "reservoir"))

"""A model as one C header: its settings as constants, its formulas as they are read, its numbers as it starts.

The pieces in ``pieces/`` are the C of the compiled functions in process/, for one output and a single stationary kernel
or Fourier features; what is put together depends on the model.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.contract.loading import from_bytes
from streamgp.contract.model import StreamModel
from streamgp.kernels import Matern, RationalQuadratic, SquaredExponential
from streamgp.linalg.triangular import CANCELED
from streamgp.process import budget, growing, observation, posterior
from streamgp.process import features as feature_kinds
from streamgp.process.features import Fourier
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.version import __version__
from streamgp.vocabulary import EVICT
from streamgp.wrappers import outliers
from streamgp.wrappers.scaling import FAR
from streamgp.wrappers.standardize import Standardize

RADIAL = {
    0.5: "return GP_VARIANCE * exp(-sqrt(r2));",
    1.5: "const double a = sqrt(3.0) * sqrt(r2);\n    return GP_VARIANCE * (1.0 + a) * exp(-a);",
    2.5: "const double a = sqrt(5.0) * sqrt(r2);\n    return GP_VARIANCE * (1.0 + a + a * a / 3.0) * exp(-a);",
}
SQUARED_EXPONENTIAL = "return GP_VARIANCE * exp(-0.5 * r2);"
QUADRATIC = "return GP_VARIANCE * pow(1.0 + r2 / (2.0 * GP_SHAPE), -GP_SHAPE);"

FIXED_COUNTERS = ("rows_seen", "skipped_rows", "unresolved_rows")


class Kind(NamedTuple):
    """What a kind of process is made of: the pieces of its C, its counters and the arrays of its state."""

    pieces: tuple[str, ...]
    counters: tuple[str, ...]
    arrays: tuple[str, ...]


GROWING = Kind(
    ("growing", "linalg", "solve", "rotation", "covariance", "kernel", "growing_learn"),
    ("points", "rows_seen", "refreshed", *FIXED_COUNTERS[1:], "negative_residuals", "indistinct_points"),
    ("basis", "prior", "inverse_diagonal", "weight_variance", "mu", "factor", "covariance"),
)
POINTS = Kind(
    ("points", "linalg", "covariance", "kernel", "points_features", "fixed_learn"),
    FIXED_COUNTERS,
    ("basis", "mu", "factor", "covariance"),
)
FOURIER = Kind(
    ("fourier", "linalg", "covariance", "fourier_features", "fixed_learn"),
    FIXED_COUNTERS,
    ("frequencies", "mu", "covariance"),
)
INFORMATION = Kind(
    ("fourier", "linalg", "rotation", "fourier_features", "information_learn"),
    FIXED_COUNTERS,
    ("frequencies", "mu", "covariance"),
)


def header(model: StreamModel, name: str) -> str:
    """Return the C header of a model.

    Args:
        model: SOGP, KRLST, ISSGPR, RecursiveGP or another OnlineGP of one output with a stationary kernel, also within
            Standardize after its warm-up; it has seen rows.
        name: what its functions and types begin with, such as "arm".
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be one that C takes: letters, digits and underscores; got {name!r}")
    process, units = _parts(model)
    kind = _kind(process)
    numbers = state(model)
    doubles = len(numbers) - outliers.NUMBERS + (10 if kind is GROWING else 3) * len(process._state.mu)
    about = {
        "NAME": name,
        "WHAT": repr(model).replace("*/", "* /"),
        "VERSION": __version__,
        "ROWS": f"{process.rows_seen:,}",
        "KILOBYTES": f"{8 * doubles / 1024:,.0f}",
        "CONSTANTS": "\n".join(_constants(process, units, len(numbers))),
        "LEARNED": "\n".join(f"    {_listed(numbers[i : i + 8])}," for i in range(0, len(numbers), 8)),
    }
    about |= _exchange(model, kind) | _described(process) | _in_units(process, units)
    pieces = ["head", *kind.pieces, *(["screen"] if units is not None and units._screens else []), "foot"]
    text = "".join(files("streamgp.export").joinpath("pieces", f"{piece}.h").read_text("utf-8") for piece in pieces)
    text = re.sub(r"@([A-Z0-9_]+)@", lambda found: about[found[1]], text)
    return re.sub(r"\bGP_", f"{name.upper()}_", re.sub(r"\bgp_", f"{name}_", text))


def state(model: StreamModel) -> FloatArray:
    """Return the numbers that the C code begins with, as its state function writes them."""
    return np.concatenate([array.ravel() for array in _numbers(model).values()])


def resumed(model: StreamModel, numbers: Any) -> StreamModel:
    """Return a copy of the model that goes on where the C code stopped.

    Args:
        model: the model that was exported.
        numbers: what the C code's state function wrote.
    """
    before, values = state(model), np.asarray(numbers, dtype=np.float64)
    if values.shape != before.shape:
        raise ValueError(f"the state has {values.size} numbers, this model's {before.size}: is it of another model?")
    if not np.all(np.isfinite(values)):
        raise ValueError("the state has numbers that are not finite: it is damaged")
    copy = model.copy()
    for array in _numbers(copy).values():
        array[...], values = values[: array.size].reshape(array.shape), values[array.size :]
    return from_bytes(copy.to_bytes())  # type: ignore[no-any-return]  # what no stream leads to is refused


def _parts(model: StreamModel) -> tuple[OnlineGP, Standardize | None]:
    units = model if isinstance(model, Standardize) else None
    process = units._models[0] if units is not None else model
    if not isinstance(process, OnlineGP):
        raise ValueError(f"only an OnlineGP can become C, also within Standardize; got {type(process).__name__}")
    if process._d is None or (units is not None and not units.frozen):
        raise ValueError("the model has to have seen rows, and Standardize those of its warm-up, before it becomes C")
    return process, units


def _kind(process: OnlineGP) -> Kind:
    parts, kernel = process._features, process._features.kernel
    cannot = {
        f"{process._p} outputs": process._p != 1,
        "a memory (depth above 1, a reservoir)": process._memory.recalls,
        "a likelihood that is not Gaussian": process._likelihood.kind != observation.GAUSSIAN,
        "adapt=": process._adapt is not None,
        "time= and half_life=": process._needs_time,
        "forgetting by injection": process._forgetting.injects,
        "estimate_power=True": process._estimate_power,
        "noise=0": process._least_squares,
        'removal="discard"': process._keeps_rows,
        "batch= above 1": process._batch > 1,
        "a mean= that is a function": callable(process._mean),
        "mean=LinearMean(...)": process._linear is not None,
        "Linear features": parts.kind == feature_kinds.LINEAR,
        "a kernel other than SquaredExponential, Matern and RationalQuadratic without factors": kernel is not None
        and not (isinstance(kernel, SquaredExponential | Matern | RationalQuadratic) and kernel.factors is None),
    }
    for what, asked in cannot.items():
        if asked:
            raise ValueError(f"C code is not written for {what}; this model has it")
    if isinstance(parts, Fourier):
        return INFORMATION if process._factored else FOURIER
    if parts.kind == feature_kinds.DICTIONARY:
        return GROWING
    if process._factored:
        raise ValueError('C code is not written for given basis points with form="cholesky"; use form="covariance"')
    return POINTS


def _numbers(model: StreamModel) -> dict[str, np.ndarray]:
    """What changes from row to row by name, in the order in which the C code writes it, as arrays to write to."""
    process, units = _parts(model)
    kind, arrays = _kind(process), process._numbers.arrays()
    if not process._state.weight_variance.size:
        arrays["weight_variance"] = np.zeros((1, len(process._state.prior)))  # the C code has it always
    found = {name: arrays[f"counters.{name}"] for name in kind.counters} | {name: arrays[name] for name in kind.arrays}
    found |= {name: found[name][0] for name in ("covariance", "weight_variance") if name in found}
    return found | {"screen": np.zeros(outliers.NUMBERS) if units is None else units._numbers["screen"].reshape(-1)}


def _constants(process: OnlineGP, units: Standardize | None, numbers: int) -> list[str]:
    parts, spent, forgetting = process._features, process._budget, process._forgetting
    jitter = float(process._numbers.plan["jitter"][0])
    whole: dict[str, Any] = {"INPUTS": process._d, "ROOM": len(process._state.mu), "NUMBERS": numbers}
    variance = float(process.hyperparameters["variance"])
    real: dict[str, float] = {"NOISE": float(process._state.noise[0]), "VARIANCE": variance, "JITTER": jitter}
    real |= {"GAIN_ROUNDING": posterior.ROUNDING, "COVARIANCE_NOISE": posterior.COVARIANCE_NOISE}
    if parts.kind == feature_kinds.DICTIONARY:
        stays = spent.evict == budget.NEVER
        whole |= {"CAPACITY": spent.capacity, "EVICT": f"GP_{EVICT[spent.evict].upper()}"}
        whole |= {"DTC": int(spent.absorb == budget.DTC), "MARGINAL": int(spent.removal == budget.MARGINAL)}
        whole |= {"SCORED": int(process._state.weight_variance.size > 0)}
        real |= {"NOVELTY": spent.novelty, "KEPT": forgetting.covariance_scale, "FRESH": forgetting.covariance_fresh}
        real |= {"MEAN_KEPT": forgetting.mean_scale, "FLOOR_BY_NOISE": budget.FLOOR_BY_NOISE}
        real |= {"LOWEST_FLOOR": budget.LOWEST_STAYING if stays else budget.LOWEST_FLOOR}
        real |= {"HIGHEST_FLOOR": budget.HIGHEST_FLOOR, "ROUNDING": growing.ROUNDING, "NEGATIVE": growing.NEGATIVE}
        real |= {"CANCELLED": posterior.CANCELLED, "UNRESOLVED": posterior.UNRESOLVED}
    if isinstance(parts, Fourier):
        whole |= {"FREQUENCIES": len(process._state.frequencies)}
        real |= {"CANCELED": CANCELED, "INFORMATION_NOISE": posterior.INFORMATION_NOISE}
    if isinstance(parts.kernel, RationalQuadratic):
        real["SHAPE"] = float(process.hyperparameters["shape"])
    if process._mean is not None:
        real["MEAN"] = float(process._mean)  # type: ignore[arg-type]
    if units is None:
        real["LARGEST"] = LARGEST
    else:
        if units._screens:
            names = ("FEWEST", "SCREEN_FAR", "FEW", "LEVEL", "REPEATED", "ABSURD", "SCREEN_ROUNDING")
            real |= {name: getattr(outliers, name.removeprefix("SCREEN_")) for name in names}
        shift, scale = units.scaling.target_shift[0], units.scaling.target_scale[0]
        real |= {"FAR": FAR, "TARGET_SHIFT": shift, "TARGET_SCALE": scale}
    lines = [f"#define GP_{name} {value}" for name, value in whole.items()]
    for name, value in real.items():
        text = _number(value)
        lines.append(f"#define GP_{name} {text}" + (f" /* {value:.6g} */" if "0x" in text else ""))
    if parts.kernel is not None:
        scales = np.resize(process.hyperparameters["lengthscale"], whole["INPUTS"])
        weights = _listed(1.0 / (scales * scales))
        lines.append(f"static const double gp_weight[GP_INPUTS] = {{{weights}}}; /* 1 / lengthscale^2 */")
    if units is not None:
        for name in ("input_shift", "input_scale"):
            values = _listed(getattr(units.scaling, name))
            lines.append(f"static const double gp_{name}[GP_INPUTS] = {{{values}}};")
    return lines


def _described(process: OnlineGP) -> dict[str, str]:
    """What comments say of the features, and the formula of the kernel."""
    kernel = process._features.kernel
    if kernel is None:
        how = "R of the information form, upper triangle" if process._factored else "S, lower triangle"
        return {"FEATURES": str(len(process._state.mu)), "COVARIANCE": how}
    radial = QUADRATIC if isinstance(kernel, RationalQuadratic) else SQUARED_EXPONENTIAL
    return {"KERNEL": type(kernel).__name__, "RADIAL": RADIAL[kernel.order] if isinstance(kernel, Matern) else radial}


def _in_units(process: OnlineGP, units: Standardize | None) -> dict[str, str]:
    """How rows, targets and predictions look in the model's units and in the user's."""
    mean, less = ("mean", "") if process._mean is None else ("GP_MEAN + mean", " - GP_MEAN")
    if units is None:
        plain = {"SEEN": "x[j]", "MEAN": mean, "TARGET2": "", "TARGET": f"y{less}", "SCREENED": ""}
        return plain | {"TOO_LARGE": " || fabs(x[j]) > GP_LARGEST", "Y_TOO_LARGE": " || fabs(y) > GP_LARGEST"}
    return {
        "TOO_LARGE": "",
        "Y_TOO_LARGE": "",
        "SEEN": "fmin(fmax((x[j] - gp_input_shift[j]) / gp_input_scale[j], -GP_FAR), GP_FAR)",
        "MEAN": f"GP_TARGET_SHIFT + GP_TARGET_SCALE * ({mean})",
        "TARGET2": "GP_TARGET_SCALE * GP_TARGET_SCALE * ",
        "TARGET": f"fmin(fmax((y - GP_TARGET_SHIFT) / GP_TARGET_SCALE, -GP_FAR), GP_FAR){less}",
        "SCREENED": " || !gp_is_target(m->screen, y)" if units._screens else "",
    }


def _exchange(model: StreamModel, kind: Kind) -> dict[str, str]:
    """The lines that write the state into numbers, and those that read it again."""
    write, read, at = [], [], 0
    for name, array in _numbers(model).items():
        if name in kind.counters:
            write.append(f"numbers[{at}] = (double)m->{name};")
            read.append(f"m->{name} = (size_t)numbers[{at}];")
        else:
            first = f"&m->{name}[0][0]" if array.ndim == 2 and name != "mu" else f"m->{name}"
            write.append(f"gp_copy({first}, {array.size}, numbers + {at});")
            read.append(f"gp_copy(numbers + {at}, {array.size}, {first});")
        at += array.size
    return {"WRITE": "\n    ".join(write), "READ": "\n    ".join(read)}


def _number(value: float) -> str:
    """A double to the last bit, in a form that C99 reads; short where that is exact."""
    short = f"{value:.15g}"
    if float(short) != value:
        return float(value).hex()
    return short if any(c in short for c in ".en") else f"{short}.0" if abs(value) >= 1 or value == 0 else short


def _listed(values: FloatArray) -> str:
    return ", ".join(map(_number, values))

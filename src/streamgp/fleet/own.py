"""Hyperparameters of each model of a fleet: arrays with one row for each, beside a recipe that all share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.model import StreamModel
from streamgp.kernels import SquaredExponential
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import NAMES, with_own
from streamgp.settings import FloatArray


def checked(model: StreamModel, size: int, given: dict[str, Any]) -> dict[str, FloatArray]:
    """Positive arrays (size, 1), or (size, d) of lengthscales; NaN: that of the recipe."""
    found = {}
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(model, OnlineGP) or name not in model.setting_names():
            raise ValueError(
                f"{name} of each model is for bare recipes that have this setting, such as KRLST; got "
                f"{type(model).__name__}. Scale the rows before they come, and hand over the recipe itself."
            )
        refuse_kernel(model, [name])
        values = np.array(value, dtype=float)
        if values.shape[:1] != (size,) or values.ndim > 2 or (name != "lengthscale" and values.size != size):
            raise ValueError(
                f"{name} must have one row for each of the {size} models: shape ({size},)"
                f"{f' or ({size}, d)' if name == 'lengthscale' else ''}; got {values.shape}"
            )
        if (wrong := (values <= 0.0) | np.isinf(values)).any():
            raise ValueError(f"{name} must be positive and finite; got {values[wrong][0]}")
        values = values.reshape(size, -1)
        if (d := values.shape[1]) > 1:  # then all have one for each input
            values = np.where(np.isnan(values), of_recipe(model, d)[name], values)
        found[name] = values
    return found


def refuse_kernel(model: StreamModel, names: Iterable[str]) -> None:
    """Refuse lengthscales and variances beside a recipe with a kernel of its own: they are of the default kernel."""
    short, parameters = {"lengthscale", "variance"} & set(names), inspect.signature(type(model)).parameters
    if short and "kernel" in parameters and (kernel := model.get_params()["kernel"]) != parameters["kernel"].default:
        raise ValueError(
            f"{' and '.join(sorted(short))} of each model are those of the default kernel, but the recipe has "
            f"kernel={kernel!r}; leave kernel= out of the recipe, or let all models share it"
        )


def recipes(
    model: StreamModel, own: dict[str, FloatArray], models: np.ndarray
) -> Iterator[tuple[StreamModel, np.ndarray]]:
    """The different recipes that some models have, and the models of each."""
    if not own:
        yield model.clone(), models
        return
    table = np.hstack([values[models] for values in own.values()])
    distinct, which = np.unique(np.nan_to_num(table), axis=0, return_inverse=True)  # no hyperparameter is 0
    order = np.argsort(which.ravel(), kind="stable")
    edges = np.searchsorted(which.ravel()[order], np.arange(len(distinct) + 1))
    for k in range(len(distinct)):
        some = models[order[edges[k] : edges[k + 1]]]
        yield with_own(model, {name: values[some[0]] for name, values in own.items()}), some


def named(model: StreamModel, own: dict[str, FloatArray], models: np.ndarray, d: int) -> dict[str, FloatArray]:
    """All hyperparameters of some models with d inputs, (n, 1) or (n, d) each, whether their own or the recipe's."""
    found = {}
    for name, value in of_recipe(model, d).items():
        values = own[name][models] if name in own else np.full((len(models), 1), np.nan)
        found[name] = np.where(np.isnan(values), value, values)
    return found


def of_recipe(model: StreamModel, d: int) -> dict[str, FloatArray]:
    """What models with d inputs have where they have none of their own, (1,) or (d,) each."""
    begun = passing.started_for(model, np.zeros((1, d))).hyperparameters
    usually = {"lengthscale": SquaredExponential().values(d, 1)[:-1]}  # of Fourier features that are not given one
    return {name: np.atleast_1d(begun[name] if name in begun else usually[name]) for name in NAMES}


def without(recipe: StreamModel, own: dict[str, FloatArray], model: StreamModel) -> StreamModel:
    """A model with the hyperparameters of the recipe where models of a fleet have their own."""
    if not own or type(model) is not type(recipe):
        return model
    settings = recipe.get_params()
    return model.replaced(**{name: settings[name] for name in own})


def usual(model: StreamModel, name: str) -> FloatArray:
    """What the recipe has itself, (1,) or (d,); NaN where it does not say."""
    value = model.get_params()[name]
    return np.atleast_1d(np.asarray(np.nan if value is None else value, dtype=float))


def written(
    model: StreamModel, own: dict[str, FloatArray], size: int, ids: np.ndarray, given: dict[str, Any]
) -> dict[str, FloatArray]:
    """The hyperparameters of so many models: of the first ones as they are, of these ids as they are given."""
    found = {}
    for name in own.keys() | given.keys():
        parts = [usual(model, name)[None], *(np.atleast_2d(one[name]) for one in (own, given) if name in one)]
        whole = np.empty((size, width := max(part.shape[1] for part in parts)))
        whole[:] = parts[0]
        if name in own:
            whole[: len(own[name])] = own[name]
        if name in given:
            whole[ids] = given[name]
        if width > 1:  # one for each input: what the recipe does not say is what it would have
            whole = np.where(np.isnan(whole), of_recipe(model, width)[name], whole)
        found[name] = whole
    return found

"""What people type: models by name, and settings as numbers, words, lists and parts such as Matern(2.5)."""

from __future__ import annotations

import ast
import importlib
import inspect
import operator
from collections.abc import Callable
from typing import Any

from streamgp.auto.auto import Auto
from streamgp.auto.candidates import scales
from streamgp.contract.model import StreamModel
from streamgp.names import EVERYWHERE
from streamgp.recipes.naive import Naive
from streamgp.settings import Configured, nearest

WORDS = {"none": None, "null": None, "true": True, "false": False, "on": True, "off": False, "yes": True, "no": False}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}


def model_names() -> list[str]:
    """The models that can be asked for by name."""
    return sorted(_models())


def _models() -> dict[str, type[StreamModel]]:
    return {
        name: kind
        for name, kind in _named(StreamModel).items()
        if not issubclass(kind, Auto | Naive)
        and not inspect.isabstract(kind)
        and not kind._without_inputs
        and not {"model", "models"}.intersection(kind.setting_names())
    }


def kind_by_name(name: str) -> type[StreamModel]:
    """The class of a model; a name that none has is refused."""
    kinds = _models()
    if name not in kinds:
        names = ["auto", *sorted(kinds)]
        raise ValueError(f"there is no model {name!r}.{nearest(name, names)} Models: {', '.join(names)}")
    return kinds[name]


def model_by_name(name: str, d: int, settings: dict[str, Any]) -> StreamModel:
    """A model with these settings, otherwise its own defaults, but one lengthscale for each input or a prior's."""
    kind = kind_by_name(name)
    parameters = inspect.signature(kind).parameters
    defaults: dict[str, Any] = {}
    if "lengthscale" in parameters and "units" not in parameters:
        if any(key.startswith("kernel__") for key in settings):
            defaults["kernel"] = parameters["kernel"].default.replaced(lengthscale=scales(d))
        elif "kernel" not in settings and settings.get("prior") is None:
            defaults["lengthscale"] = scales(d)
    outer = {key: value for key, value in settings.items() if "__" not in key}
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in outer]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}: give `{missing[0]}=...`, or use it from Python")
    model = kind(**(defaults | outer))
    return model.replaced(**{key: value for key, value in settings.items() if "__" in key})


def value_of(text: Any) -> Any:
    """The value that a text stands for; what is no text is taken as it is.

    Example:
        >>> value_of("0.5"), value_of("none"), value_of("back-to-prior"), value_of("[1, 2]")
        (0.5, None, 'back-to-prior', [1, 2])
        >>> value_of("2 * SquaredExponential(1.5) + LinearKernel()").right
        LinearKernel()
    """
    if not isinstance(text, str):
        return text
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return text
    return text if isinstance(tree, ast.Name) and tree.id not in _named(Configured) else _evaluated(tree, text)


def _evaluated(node: ast.expr, text: str) -> Any:
    """Literals, parts and their sums and products; nothing else is ever run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_evaluated(item, text) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _evaluated(node.operand, text)
        return -value if isinstance(value, int | float) else text
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _evaluated(node.left, text), _evaluated(node.right, text)
        if isinstance(left, Configured) or isinstance(right, Configured):
            return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Name) and node.id in WORDS:
        return WORDS[node.id]
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if isinstance(call.func, ast.Name):
        name, parts = call.func.id, _named(Configured)
        if name not in parts:
            raise ValueError(f"{text!r}: there is no part {name!r}.{nearest(name, parts)}")
        arguments = [_evaluated(item, text) for item in call.args]
        return parts[name](*arguments, **{str(k.arg): _evaluated(k.value, text) for k in call.keywords})
    return text  # a word with signs in it, such as back-to-prior


def _named(base: type[Any]) -> dict[str, Any]:
    """The public classes of a kind, by name."""
    found = {name: getattr(importlib.import_module(module), name) for name, module in EVERYWHERE.items()}
    return {name: kind for name, kind in found.items() if inspect.isclass(kind) and issubclass(kind, base)}

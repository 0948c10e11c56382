"""Settings as people type them: numbers, words, lists, and parts such as Matern(2.5) or SNGD(interval=25)."""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable
from typing import Any

from streamgp.names import EVERYWHERE
from streamgp.settings import Configured, nearest

WORDS = {"none": None, "null": None, "true": True, "false": False, "on": True, "off": False, "yes": True, "no": False}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}


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
    return text if isinstance(tree, ast.Name) and tree.id not in _parts() else _evaluated(tree, text)


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
        name, parts = call.func.id, _parts()
        if name not in parts:
            raise ValueError(f"{text!r}: there is no part {name!r}.{nearest(name, parts)}")
        arguments = [_evaluated(item, text) for item in call.args]
        return parts[name](*arguments, **{str(k.arg): _evaluated(k.value, text) for k in call.keywords})
    return text  # a word with signs in it, such as back-to-prior


def _parts() -> dict[str, type[Configured]]:
    for module in EVERYWHERE.values():
        importlib.import_module(module)
    return {name: kind for name, kind in Configured.registry.items() if name in EVERYWHERE}

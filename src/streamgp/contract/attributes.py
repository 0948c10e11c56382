"""What a model does not have: settings as attributes, methods of other libraries, misspelled names."""

from __future__ import annotations

from typing import Any, NoReturn

from streamgp.settings import nearest

# What other libraries call, and what it is here.
ELSEWHERE = {
    "fit": "learn_many(X, Y), or learn_one(x, y) row by row",
    "partial_fit": "learn_many(X, Y)",
    "update": "learn_many(X, Y), or learn_one(x, y) row by row",
    "predict": "predict_one(x) or predict_many(X); track(X, Y) predicts each row before it learns it",
    "score": "track(X, Y) and a score of its prediction, such as p.crps(Y).mean()",
}


class FixedSetting:
    """A setting as an attribute, which it is not: to assign to it would change nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, kind: type[Any]) -> NoReturn:
        raise AttributeError(no_attribute(kind, self._name))

    def __set__(self, model: Any, value: Any) -> NoReturn:
        raise AttributeError(
            f"{self._name} is a setting: change it before the first row by model.set_params({self._name}={value!r})"
        )


def no_attribute(kind: type[Any], name: str) -> str:
    """What to say to whoever asks a model for something that it does not have."""
    missing = f"{kind.__name__} has no attribute {name!r}"
    if name in kind.setting_names():
        return f"{missing}; read it by get_params()[{name!r}]"
    if name in ELSEWHERE:
        return (
            f"{missing}; use {ELSEWHERE[name]}. For scikit-learn's methods use "
            "streamgp.adapters.sklearn.StreamRegressor(model)"
        )
    return missing if name.startswith("_") else f"{missing}.{nearest(name, (n for n in dir(kind) if n[0] != '_'))}"

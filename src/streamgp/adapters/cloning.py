"""How skpro and sktime copy a stream model that is a parameter: its settings and none of its knowledge."""

from __future__ import annotations

from typing import Any

from streamgp.contract.model import StreamModel


def register() -> None:
    """Let pipelines and searches copy stream models within them; they go by these rules, not by the estimator's."""
    try:
        from skbase.base._clone_plugins import DEFAULT_CLONE_PLUGINS, BaseCloner
    except ImportError:  # before scikit-base 0.12, which copies everything by its settings
        return

    class CloneModel(BaseCloner):
        def _check(self, obj: Any) -> bool:
            return isinstance(obj, StreamModel)

        def _clone(self, obj: StreamModel) -> StreamModel:
            return obj.clone()

    if not any(plugin.__name__ == CloneModel.__name__ for plugin in DEFAULT_CLONE_PLUGINS):
        DEFAULT_CLONE_PLUGINS.insert(0, CloneModel)

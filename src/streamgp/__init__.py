"""streamgp: Gaussian processes that learn from a stream, one observation at a time, with honest error bars.

The public names are those of :mod:`streamgp.api`. Each is imported when it is first used, from the module it comes
from: the command line shows its help without waiting for the compiler's library.
"""

from typing import TYPE_CHECKING, Any

from streamgp.version import __version__ as __version__

if TYPE_CHECKING:
    from streamgp.api import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import importlib
        import importlib.util

        from streamgp.names import MODULES

        if name == "__all__":
            globals()[name] = sorted(MODULES)
        elif name in MODULES and MODULES[name] != __name__:
            globals()[name] = getattr(importlib.import_module(MODULES[name]), name)
        elif not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
            return importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})

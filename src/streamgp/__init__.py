"""streamgp: Gaussian processes that learn from a stream, one observation at a time, with honest error bars.

The public names are those of :mod:`streamgp.api`. Each is imported when it is first used, from the module it comes
from: the command line shows its help without waiting for the compiler's library.
"""

from typing import TYPE_CHECKING

from streamgp.version import __version__ as __version__

if TYPE_CHECKING:
    from streamgp.api import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        import importlib
        import importlib.util
        import warnings

        from streamgp.names import MODULES, MOVED

        if name == "__all__":
            globals()[name] = sorted(MODULES)
        elif name in MODULES and MODULES[name] != __name__:
            globals()[name] = getattr(importlib.import_module(MODULES[name]), name)
        elif name in MOVED:
            place = MOVED[name].partition(".")[2]
            warnings.warn(
                f"sg.{name} has moved: write sg.{place}.{name}. The old name still works",
                FutureWarning,
                stacklevel=2,
            )
            return getattr(importlib.import_module(MOVED[name]), name)
        elif not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
            return importlib.import_module(f"{__name__}.{name}")
        else:
            from streamgp.settings import nearest

            hint = "" if name.startswith("_") else nearest(name, [*MODULES, *MOVED])
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}")
        return globals()[name]

    def __dir__() -> list[str]:
        return [*__getattr__("__all__"), "__version__"]

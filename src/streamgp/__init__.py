"""streamgp: Gaussian processes that learn from a stream, one observation at a time, with honest error bars.

The public names are those of :mod:`streamgp.api`. They are imported when the first of them is used, all at once: the
command line shows its help without waiting for the compiler's library.
"""

from typing import TYPE_CHECKING, Any

from streamgp.version import __version__ as __version__

if TYPE_CHECKING:
    from streamgp.api import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import importlib
        import importlib.util

        if name == "__all__" or not name.startswith("_"):
            if importlib.util.find_spec(f"{__name__}.{name}") is not None:  # a part of the package, not a name of it
                return importlib.import_module(f"{__name__}.{name}")
            api = importlib.import_module(f"{__name__}.api")
            globals().update({public: getattr(api, public) for public in api.__all__}, __all__=api.__all__)
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})

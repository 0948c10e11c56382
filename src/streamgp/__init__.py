"""streamgp: Gaussian processes that learn from a stream, one observation at a time, with honest error bars."""

from importlib.metadata import version

from streamgp.budget import Budget
from streamgp.features import Basis, Fourier, Linear
from streamgp.forgetting import BackToPrior, Injection
from streamgp.kernels import (
    Constant,
    LinearKernel,
    Matern,
    Periodic,
    RationalQuadratic,
    RecursiveSquaredExponential,
    SquaredExponential,
)
from streamgp.memory import Reservoir, Window
from streamgp.model import OnlineGP, StreamModel
from streamgp.prediction import Prediction
from streamgp.recipes import ISSGPR, KRLST, SOGP, RecursiveGP
from streamgp.snapshot import SnapshotError, from_bytes, load

__version__ = version("streamgp")

__all__ = [
    "ISSGPR",
    "KRLST",
    "SOGP",
    "BackToPrior",
    "Basis",
    "Budget",
    "Constant",
    "Fourier",
    "Injection",
    "Linear",
    "LinearKernel",
    "Matern",
    "OnlineGP",
    "Periodic",
    "Prediction",
    "RationalQuadratic",
    "RecursiveGP",
    "RecursiveSquaredExponential",
    "Reservoir",
    "SnapshotError",
    "SquaredExponential",
    "StreamModel",
    "Window",
    "from_bytes",
    "load",
]

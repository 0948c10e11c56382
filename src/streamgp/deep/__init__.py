"""Gaussian processes on what a recurrent network remembers: GP-LSTM, GP-RNN, GP-NARX [alshedivat2017].

Needs PyTorch: pip install "streamgp[deep]".
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError('streamgp.deep needs PyTorch: pip install "streamgp[deep]"', name=error.name) from error

from streamgp.deep.encoders import GRU, LSTM, NARX, RNN, Encoder
from streamgp.deep.models import GPGRU, GPLSTM, GPNARX, GPRNN, DeepKernelGP, Network
from streamgp.deep.training import Epoch, Training

__all__ = [
    "GPGRU",
    "GPLSTM",
    "GPNARX",
    "GPRNN",
    "GRU",
    "LSTM",
    "NARX",
    "RNN",
    "DeepKernelGP",
    "Encoder",
    "Epoch",
    "Network",
    "Training",
]

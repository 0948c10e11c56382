"""Kernel adaptive filters and the echo-state filter: steps along the error, no variance, linear cost per row."""

from streamgp.filters.expansion import KLMS, KNLMS, NORMA, QKLMS, BetaKLMS
from streamgp.filters.readout import SGDESN

__all__ = ["KLMS", "KNLMS", "NORMA", "QKLMS", "SGDESN", "BetaKLMS"]

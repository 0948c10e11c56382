"""Local models: many small regressions, each for its own part of the input space."""

from streamgp.local.localgp import LocalGP
from streamgp.local.lwpr import LWPR

__all__ = ["LWPR", "LocalGP"]

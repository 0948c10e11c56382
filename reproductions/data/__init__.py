"""Measured tables, read from a folder that the environment variable STREAMGP_DATA names; see docs/data.md."""

from reproductions.data.laser import laser
from reproductions.data.tables import Table, available, load, names

__all__ = ["Table", "available", "laser", "load", "names"]

"""What an experiment is, and how it is run: cells that are run once and kept, beside the paper's numbers."""

from reproductions.framework.catalogue import experiments, find, names
from reproductions.framework.experiment import Cell, Expected, Experiment, Reference, Row, Settings, Table, Value
from reproductions.framework.page import refreshed
from reproductions.framework.runner import Outcome, default_folder, reproduce

__all__ = [
    "Cell",
    "Expected",
    "Experiment",
    "Outcome",
    "Reference",
    "Row",
    "Settings",
    "Table",
    "Value",
    "default_folder",
    "experiments",
    "find",
    "names",
    "refreshed",
    "reproduce",
]

"""The papers' tables and figures, one command each: experiments made of cells that are run once and kept."""

from streamgp.reproduce.catalogue import experiments, find, names
from streamgp.reproduce.experiment import Cell, Experiment, Reference, Row, Settings, Table, Value
from streamgp.reproduce.page import refreshed
from streamgp.reproduce.runner import Outcome, default_folder, reproduce

__all__ = [
    "Cell",
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

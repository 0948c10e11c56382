"""Tables: rows of a file, a pipe or a socket, and files of predictions. Nothing here knows a model."""

from streamgp.tables.columns import Schema
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.formats import BadRow, Chunk, read_rows
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError
from streamgp.tables.writing import PredictedRows, WriteError, write_rows

__all__ = [
    "BadRow",
    "Chunk",
    "PredictedRows",
    "RowEncoder",
    "RowsError",
    "Schema",
    "WriteError",
    "read_rows",
    "recognize",
    "write_rows",
]

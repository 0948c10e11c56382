"""Rows: from a table that is read row by row to calibrated predictions."""

from streamgp.rows.columns import Encoder, Schema, recognise
from streamgp.rows.formats import BadRow, Chunk, read_rows
from streamgp.rows.job import BadRowError, Job, Summary
from streamgp.rows.pipeline import Lines, Pipeline, Scores
from streamgp.rows.source import RowsError
from streamgp.rows.writing import WriteError, write_rows

__all__ = [
    "BadRow",
    "BadRowError",
    "Chunk",
    "Encoder",
    "Job",
    "Lines",
    "Pipeline",
    "RowsError",
    "Schema",
    "Scores",
    "Summary",
    "WriteError",
    "read_rows",
    "recognise",
    "write_rows",
]

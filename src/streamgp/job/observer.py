"""Observer: whoever wants to know how a run goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamgp.job.pipeline import Pipeline
from streamgp.tables.writing import PredictedRows


class Block(NamedTuple):
    """Rows that were predicted and learned at once.

    Args:
        predicted: the predictions; with a ticket column those whose targets have come.
        pipeline: that made them, as it is after them.
        seconds: that they took.
        read: how much of the source has been read, in bytes, or in rows of Parquet.
        total: of how much; None where that is not known.
        lines: the number of each row that was taken, in the source.
    """

    predicted: PredictedRows
    pipeline: Pipeline
    seconds: float
    read: int
    total: int | None
    lines: Sequence[int] = ()


class Observer:
    """Is told how a run goes; override what you want to know."""

    def note(self, sentence: str) -> None:
        """Something was recognized, decided or noticed, for people."""

    def doing(self, sentence: str) -> None:
        """What the run is doing from now on, until the next such sentence or block: something that takes seconds."""

    def block(self, block: Block) -> None:
        """A block of rows was predicted, learned and written."""

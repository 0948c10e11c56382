"""Kinds of numbers that go into compiled functions and come out, whoever compiles them."""

from __future__ import annotations

from typing import Any, NamedTuple

INTEGERS = "integers"  # of a model's arrays those of whole numbers, which share a buffer with floats (arrays.py)


class Kind(NamedTuple):
    """What an argument or a result is.

    Args:
        item: "float64", "int64", "boolean", "none", "record", or "model": one record and its buffer (arrays.py).
        axes: of an array; 0: it is a number.
        contiguous: whether an array lies in the memory row by row, without gaps.
        read: whether it is only read, and may be one that cannot be written to.
        together: how many numbers are returned.
        record: the type of the records.
    """

    item: str
    axes: int = 0
    contiguous: bool = True
    read: bool = False
    together: int = 1
    record: Any = None


NUMBER, WHOLE, BOOLEAN, NOTHING = map(Kind, ("float64", "int64", "boolean", "none"))
VECTOR, MATRIX, CUBE = (Kind("float64", axes) for axes in (1, 2, 3))
INDICES, WHOLES = (Kind("int64", axes) for axes in (1, 2))
SWITCHES = Kind("boolean", 1)
LINES = Kind("float64", 2, contiguous=False)  # also some of the columns of an array
READ, READ_ROWS = (Kind("float64", axes, contiguous=False, read=True) for axes in (1, 2))
WHOLE_TRIPLE = Kind("int64", together=3)

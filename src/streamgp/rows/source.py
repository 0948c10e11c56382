"""Where rows come from: lines of a file, of standard input, or of a file that grows."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

BLOCK = 1 << 17  # bytes read at once: about a thousand rows of ten columns
POLL = 0.2  # seconds between two looks at a file that grows, or at a pipe that is silent
FINGERPRINT = 4096  # bytes at the start of a file by which it is known again


class RowsError(ValueError):
    """Rows that cannot be used; the message says where, what was expected and what came."""


class Position(NamedTuple):
    """How far a source has been read: whole lines (rows of Parquet), and how to know the source again.

    Args:
        lines: lines, or rows of Parquet, that are done with.
        length: how many bytes at the start of the source the digest is of; 0 when it cannot be read twice.
        digest: of these bytes.
    """

    lines: int = 0
    length: int = 0
    digest: str = ""


class Lines:
    """Lines of a file ("-": standard input), in blocks, as they come.

    Args:
        path: a file, plain or .gz, or "-".
        follow: wait for more at the end.
        stop: when set, reading ends after the present block.
    """

    def __init__(self, path: str, follow: bool = False, stop: threading.Event | None = None) -> None:
        self.path, self.follow = path, follow
        self.stop = threading.Event() if stop is None else stop
        self.live = follow or path == "-"
        self.size: int | None = None
        self.bytes_read = 0
        self._start = b""
        if path == "-":
            self._file: BinaryIO | gzip.GzipFile = sys.stdin.buffer
            return
        if not Path(path).is_file():
            raise RowsError(f"there is no file {path!r}; give a CSV, NDJSON or Parquet file, or - for standard input")
        if path.endswith(".gz"):
            if follow:
                raise RowsError(f"{path!r} is compressed and cannot be followed; follow a plain file")
            self._file = gzip.open(path, "rb")  # noqa: SIM115, closed by close()
        else:
            self.size = os.path.getsize(path)
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115

    def close(self) -> None:
        if self.path != "-":
            self._file.close()

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, the last one with or without its end; b"" when a live source is silent."""
        rest = b""
        while not self.stop.is_set():
            data = self._read()
            if data is None:
                yield b""
            elif data:
                self.bytes_read += len(data)
                self._start += data[: FINGERPRINT - len(self._start)]
                end = data.rfind(b"\n") + 1
                if end:
                    yield rest + data[:end]
                    rest = data[end:]
                else:
                    rest += data
            elif self.follow and self.path != "-":
                self._wait_for_more()
                yield b""
            else:
                if rest:
                    yield rest
                return

    def _read(self) -> bytes | None:
        """What there is; b"" at the end; None when nothing has come for a while."""
        if self.path != "-":
            return self._file.read(BLOCK)
        try:
            descriptor = self._file.fileno()
        except (OSError, io.UnsupportedOperation):  # not a real file, as in tests
            return self._file.read(BLOCK)
        if not select.select([descriptor], [], [], POLL)[0]:
            return None
        return os.read(descriptor, BLOCK)

    def _wait_for_more(self) -> None:
        self.stop.wait(POLL)
        size = os.path.getsize(self.path)
        if size < self.bytes_read:
            raise RowsError(
                f"{self.path} had {self.bytes_read} bytes and now has {size}: it was cut or replaced while it was "
                "followed; start again on the new file"
            )

    def position(self, lines: int) -> Position:
        """Remember that so many lines are done with."""
        if self.path == "-":
            return Position(lines)
        # What comes after may still be corrected, or cut and written anew.
        start = b"".join(io.BytesIO(self._start).readlines()[:lines])
        return Position(lines, len(start), _digest(start))


def known_again(path: str, position: Position) -> bool:
    """Whether a file begins with what was read from it then."""
    if path == "-" or position.length == 0:
        return False
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        start = file.read(position.length)
    return len(start) == position.length and _digest(start) == position.digest


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

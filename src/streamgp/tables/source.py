"""Where rows come from: lines of a file, plain or compressed, of a pipe, or of a file that grows."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import queue
import re
import stat
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

BLOCK = 1 << 17  # bytes read at once: about a thousand rows of ten columns
POLL = 0.2  # seconds between two looks at a file that grows, or at a pipe that is silent
PATIENCE = 10  # looks for a followed file that is gone, before the news is told
FINGERPRINT = 4096  # bytes at the start of a file by which it is known again
LONGEST_LINE = 1 << 24  # bytes: beyond this a file has no lines
ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*([{\]]|$)")  # how a JSON array of objects begins

# What the first bytes of a file say, whatever its name is.
COMPRESSED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
FOREIGN = {
    b"\x28\xb5\x2f\xfd": "is compressed with Zstandard; unpack it first: zstd -dc FILE | streamgp run -",
    b"PK\x03\x04": "is a zip archive or an Excel workbook; unpack it, or save the sheet as CSV",
    b"PAR1": "is a Parquet file; give it by its name, not through a pipe",
} | dict.fromkeys(COMPRESSED, "is compressed; unpack it first, such as: gzip -dc FILE | streamgp run -")
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
CONTROL = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b")  # bytes that text does not have
NOT_UTF8 = "is not UTF-8 text; if it is Latin-1, convert the file: iconv -f LATIN1 -t UTF-8 FILE > NEW"
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)


class RowsError(ValueError):
    """Rows that cannot be used; the message says where, what was expected and what came."""


class CutShortError(RowsError):
    """A source that cannot be read any further."""


class OtherSourceError(RowsError):
    """A file that is not the one that was read before."""


class Position(NamedTuple):
    """How far a source has been read, and how to know the source again."""

    lines: int = 0  # lines, or rows of Parquet, that are done with
    length: int = 0  # how many bytes at the start of the source the digest is of; 0: it cannot be read twice
    digest: str = ""  # of these bytes


class TextLines:
    """Lines of a file ("-": standard input), in blocks, as they come; of a JSON array, pieces that end with a brace.

    Args:
        path: a file, plain or compressed (gzip, bzip2, xz), a named pipe, or "-".
        follow: wait for more at the end; if the file is moved away, go on in the one that takes its place.
        stop: when set, reading ends after the present block.
    """

    def __init__(self, path: str, follow: bool = False, stop: threading.Event | None = None) -> None:
        self.path = path
        self.stop = threading.Event() if stop is None else stop
        self.pipe = not is_file(path)
        self.follow = follow and not self.pipe
        self.live = follow or self.pipe
        self.size: int | None = None
        self.bytes_read = 0
        self.news = ""  # what has become of the file, for people
        self.array = False  # whether it is a JSON array of objects, which need not have lines
        self.unfinished = b""  # the beginning of a line whose end has not come
        self._missing = 0  # looks at which it was gone
        self._start = b""
        self._patient: _PatientReader | None = None
        self._file: Any = sys.stdin.buffer
        if path != "-":
            self._file, compressed = _opened(path)
            if compressed and follow:
                self._file.close()
                raise RowsError(f"{path!r} is compressed and cannot be followed; follow a plain file")
            self.size = None if compressed or self.pipe else os.path.getsize(path)

    @property
    def name(self) -> str:
        return "standard input" if self.path == "-" else self.path

    def close(self) -> None:
        if self._patient is not None:
            self._patient.close()
        if self.path != "-":
            self._file.close()

    def blocks(self) -> Iterator[bytes | None]:
        """Whole lines, the last one with or without its end; b"" when a live source is silent; None: a new file."""
        while not self.stop.is_set():
            try:
                data = self._read()
            except DAMAGED as error:
                raise CutShortError(
                    f"{self.name} is truncated or damaged here ({error}); the rows before are kept. Get a complete copy"
                ) from None
            if data is None:
                yield b""
            elif data:
                if not self._start:
                    _check_text(self.name, data[:FINGERPRINT])
                    self.array = ARRAY.match(data) is not None
                self.bytes_read += len(data)
                self._start += data[: FINGERPRINT - len(self._start)]
                end = data.rfind(b"}" if self.array else b"\n") + 1
                if end:
                    whole, self.unfinished = self.unfinished + data[:end], data[end:]
                    yield whole
                else:
                    self.unfinished += data
                if len(self.unfinished) > LONGEST_LINE:
                    raise CutShortError(f"no end of the line within {LONGEST_LINE >> 20} MiB; expected one row a line")
            elif self.follow and not self._renewed():
                yield b""
            else:
                if self.unfinished:
                    yield self.unfinished
                if not self.follow:
                    return
                self.unfinished = b""
                yield None

    def _read(self) -> bytes | None:
        """What there is; b"" at the end; None when nothing has come for a while."""
        if self.pipe:
            try:
                descriptor = self._file.fileno()
            except (OSError, io.UnsupportedOperation):  # not a real file, as in tests
                return self._some()
            if self._patient is None:
                self._patient = _PatientReader(descriptor)
            return self._patient.read(POLL)
        return self._some()

    def _some(self) -> bytes:
        data: bytes = self._file.read1(BLOCK)
        return data

    def _renewed(self) -> bool:
        """Wait a little at the end of a followed file; whether another one has taken its place and was opened."""
        self.stop.wait(POLL)
        own = os.fstat(self._file.fileno())
        try:
            now = os.stat(self.path)
        except OSError:
            self._missing += 1
            if self._missing == PATIENCE and own.st_nlink:
                self.news = f"{self.path} was moved; waiting for a new file"
            if self._missing >= PATIENCE and not own.st_nlink:
                raise RowsError(
                    f"{self.path} was deleted while being followed; the rows before are kept. "
                    "Resume with `load` when there is a new file"
                ) from None
            return False
        self._missing = 0
        if os.path.samestat(own, now):
            if now.st_size < self.bytes_read:
                raise RowsError(
                    f"{self.path} had {self.bytes_read} bytes and now has {now.st_size}: it shrank while being "
                    "followed; start a new run on the new rows"
                )
            return False
        if now.st_size == 0 or own.st_size > self.bytes_read:  # whoever writes is not done with the old one
            return False
        self._file.close()
        self._file, _ = _opened(self.path)
        self.bytes_read, self._start = 0, b""
        self.news = f"{self.path} was replaced; continuing at the first line of the new file"
        return True

    def position(self, lines: int, length: Callable[[bytes], int] | None = None) -> Position:
        """Remember how many lines are done with; of an array rows, and how many of its first bytes these are."""
        if self.pipe:
            return Position(lines)
        # What comes after may still be corrected, or cut and written anew.
        if length is None:
            return position_of(b"".join(io.BytesIO(self._start).readlines()[:lines]), lines)
        return position_of(self._start[: length(self._start)], lines)


class _PatientReader:
    """Reads a pipe and waits no longer than asked: in a thread, because on Windows there is no other way."""

    def __init__(self, descriptor: int) -> None:
        self._asked: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | OSError] = queue.SimpleQueue()
        self._descriptor, self._reading = descriptor, False
        threading.Thread(target=self._answer, name="pipe", daemon=True).start()

    def read(self, seconds: float) -> bytes | None:
        """What there is; b"" at the end; None when nothing has come for so long."""
        if not self._reading:
            self._asked.put(self._descriptor)
            self._reading = True
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            return None
        self._reading = False
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        """End the thread, if need be after what it still waits for."""
        self._asked.put(None)

    def _answer(self) -> None:
        while (descriptor := self._asked.get()) is not None:
            try:
                self._answers.put(os.read(descriptor, BLOCK))
            except OSError as error:
                self._answers.put(error)


def is_file(path: str) -> bool:
    """Whether a source is a file that can be read twice, and not a pipe; refused if there is nothing."""
    if path == "-":
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        raise RowsError(
            f"there is no file {path!r}; give a CSV, NDJSON or Parquet file, or - for standard input"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def head(path: str, length: int = FINGERPRINT) -> bytes:
    """The first bytes of a file, unpacked."""
    data = b""
    file, _ = _opened(path)
    with file, contextlib.suppress(*DAMAGED):
        while len(data) < length and (more := file.read1(length - len(data))):
            data += more
    return data


def position_of(start: bytes, lines: int) -> Position:
    """So many lines are done with of a source that begins like this."""
    return Position(lines, len(start), hashlib.sha256(start).hexdigest())


def lines_to_pass(path: str, position: Position | None) -> int:
    """How many lines of a source were read before; refused if it is a file that does not begin as it did then."""
    if position is None or position.lines == 0 or not is_file(path):
        return 0
    if position.length == 0:
        raise OtherSourceError(f"{path} is not the source that was read before, which was a pipe")
    start = head(path, position.length)
    if len(start) < position.length:
        raise OtherSourceError(f"{path} is shorter than what was read before: it was cut, or it is another file")
    if position_of(start, position.lines) != position:
        raise OtherSourceError(
            f"{path} does not begin as the file that was read before: early lines or line ends were changed, or it is "
            "another file"
        )
    return position.lines


def cut_short(name: str, has: int, unit: str, passed: int) -> OtherSourceError:
    """What is wrong with a file of which more was read before than it has."""
    return OtherSourceError(f"{name} has {has} {unit}s, but {passed} of it were read before: it was cut short")


def _opened(path: str) -> tuple[Any, bool]:
    """A file to read unpacked bytes from, and whether it is compressed."""
    opener: Any = open
    try:
        if is_file(path):
            with open(path, "rb") as file:
                start = file.read(8)
            opener = next((opener for magic, opener in COMPRESSED.items() if start.startswith(magic)), open)
        return opener(path, "rb"), opener is not open
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> RowsError:
    return RowsError(f"{path} cannot be read: {error.strerror}; give a CSV, NDJSON or Parquet file")


def _check_text(name: str, start: bytes) -> None:
    """Refuse what is no text, by what it is."""
    for magic, what in FOREIGN.items():
        if start.startswith(magic):
            raise RowsError(f"{name} {what}")
    line = start.partition(b"\n")[0]
    encoding = next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), "")
    if not encoding and 0 in line and abs(len(line) - 2 * line.count(0)) <= 1:
        encoding = "UTF-16LE" if line[0] else "UTF-16BE"
    if encoding:
        raise RowsError(f"{name} is {encoding} text; convert it: iconv -f {encoding} -t UTF-8 FILE > NEW")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(line)
        readable = CONTROL.isdisjoint(line)
    except UnicodeDecodeError:
        if CONTROL.isdisjoint(start):
            raise RowsError(f"line 1 of {name} {NOT_UTF8}") from None
        readable = False
    if not readable:
        raise RowsError(f"{name} is binary data, not text; give a CSV, NDJSON or Parquet file")

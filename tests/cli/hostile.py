"""Hostile input files, what ``streamgp run`` makes of each, and the page about it: ``python -m tests.cli.hostile``."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import re
import tempfile
import textwrap
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner, Result

from streamgp.cli.app import app
from streamgp.job import Pipeline

PAGE = Path(__file__).with_suffix(".md")
SMALL = ["--model", "KRLST", "--set", "capacity=8", "--set", "tune=off", "--set", "warmup=30"]
CODES = (0, 2, 3, 4)
N = 40  # good rows before the fault
LONGEST = 100  # letters of a message on the page


class Case(NamedTuple):
    """A hostile source.

    Args:
        name: of the file.
        content: its bytes, or what makes the file.
        kept: rows that must be predicted, written and saved: those before the fault, or all.
    """

    name: str
    content: bytes | Callable[[Path], object]
    kept: int


class Outcome(NamedTuple):
    """What came of it."""

    case: Case
    result: Result
    rows: int
    saved: int

    @property
    def message(self) -> str:
        """The sentence with which the run ended; nothing where it went well."""
        lines = self.result.stderr.splitlines()
        if not self.result.exit_code or not lines:
            return ""
        return lines[-1].removeprefix("streamgp: ").partition(". The run stopped there; the ")[0]


def rows(n: int = N, sign: str = ",", end: str = "\n", comma: bool = False) -> str:
    lines = [f"{i * 7 % 11 / 4}{sign}{i * 5 % 7 / 2}{end}" for i in range(n)]
    return "".join(lines).replace(".", ",") if comma else "".join(lines)


def csv(last: str = "", first: str = "x,y\n", then: int = 0) -> bytes:
    """Good rows, then a line, then some good rows."""
    return (first + rows() + last + rows(then)).encode()


def columns(*make: Callable[[int], object], names: str, n: int = N) -> bytes:
    return (names + "\n" + "".join(",".join(str(f(i)) for f in make) + "\n" for i in range(n))).encode()


def y(i: int) -> float:
    return i * 5 % 7 / 2


def objects(last: str = "", n: int = N) -> bytes:
    return ("".join(json.dumps({"x": i * 7 % 11 / 4, "y": y(i)}) + "\n" for i in range(n)) + last).encode()


def wide(n: int) -> bytes:
    return (",".join([*(f"c{i}" for i in range(n - 1)), "y"]) + "\n" + (",".join("1" * n) + "\n") * 3).encode()


def cut(pack: Callable[[bytes], bytes]) -> bytes:
    """A whole part, then one of which nothing but the first bytes has come."""
    return pack(csv()) + pack(rows().encode())[:12]


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", csv().decode())
    return buffer.getvalue()


def parquet(table: dict[str, list[object]], damage: str = "") -> Callable[[Path], object]:
    def make(path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(table), path, row_group_size=1000, use_dictionary=False, compression="zstd")
        data = bytearray(path.read_bytes())
        if damage == "group":
            start = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
            data[start + 40 : start + 400] = b"\xff" * 360
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)

    return make


def fifo(path: Path) -> None:
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(csv(),)).start()


GOOD = {"x": [i * 7 % 11 / 4 for i in range(N)], "y": [y(i) for i in range(N)]}
LONG = {"x": [random.Random(i).random() for i in range(3000)], "y": [y(i) for i in range(3000)]}
PACKED = csv()

CASES = [
    # Nothing, or almost
    Case("empty.csv", b"", 0),
    Case("blank-lines.csv", b"\n\r\n  \n\n", 0),
    Case("header-only.csv", b"x,y\n", 0),
    Case("header-without-end.csv", b"x,y", 0),
    Case("one-row.csv", b"x,y\n1,2\n", 1),
    Case("one-row-without-end.csv", b"x,y\n1,2", 1),
    Case("no-target.csv", b"x,z\n1,2\n", 0),
    Case("target-alone.csv", columns(y, names="y"), N),
    Case("no-header.csv", rows().encode(), 0),
    Case("empty.ndjson", b"", 0),
    Case("empty-objects.ndjson", b"{}\n{}\n", 0),
    # Lines and separators
    Case("crlf.csv", csv().replace(b"\n", b"\r\n"), N),
    Case("cr.csv", csv().replace(b"\n", b"\r"), N),
    Case("mixed-ends.csv", b"x,y\r\n" + rows().encode() + rows(3, end="\r\n").encode() + b"1,2\n\r\n3,4", N + 5),
    Case("blank-between.csv", csv().replace(b"\n", b"\n\n"), N),
    Case("semicolons.csv", ("x;y\n" + rows(sign=";")).encode(), N),
    Case("tabs.csv", ("x\ty\n" + rows(sign="\t")).encode(), N),
    Case("bars.csv", ("x|y\n" + rows(sign="|")).encode(), N),
    Case("spaces-around.csv", ("x , y\n" + rows(sign=" , ")).encode(), N),
    Case("decimal-commas.csv", ("x;y\n" + rows(sign=";", comma=True)).encode(), N),
    Case("thousands.csv", columns(lambda i: f"1.{100 + i},5;{i % 3},5", names="x;y"), N),
    Case("thousands-or-decimals.csv", columns(lambda i: i % 3, lambda i: f'"{1 + i % 4},{i % 5}00"', names="x,y"), 0),
    Case("thousands-and-points.csv", columns(lambda i: f'"{1 + i % 4},096"', lambda i: f"{i % 7}.5", names="x,y"), N),
    Case("decimal-comma-later.csv", csv('"1,5",2\n', then=5), N),
    Case("minus-signs.csv", columns(lambda i: i % 3, lambda i: f"\u2212{i % 7}.5", names="x,y"), N),
    Case("exponents-with-d.csv", columns(lambda i: i % 3, lambda i: f"{i % 7}.5D+03", names="x,y"), N),
    Case("short-row.csv", csv("1\n", then=5), N),
    Case("long-row.csv", csv("1,2,3\n", then=5), N),
    Case("trailing-separator.csv", csv("1,2,\n", then=5), N),
    Case("header-again.csv", csv("x,y\n", then=5), N),
    Case("comment-first.csv", b"# made by a logger\n" + csv(), 0),
    Case("cut-last-row.csv", csv("1"), N),
    Case("endless-line.csv", csv("1" * (1 << 25)), N),
    # Quotes
    Case("quotes.csv", b'"x","y"\n' + re.sub(rb"([\d.]+)", rb'"\1"', rows().encode()), N),
    Case("lines-in-quotes.csv", columns(lambda i: f'"two\nlines {i % 2}"', y, names="k,y"), N),
    Case("open-quote.csv", csv('1,"2\n'), N),
    Case("open-quote-for-long.csv", csv('1,"2\n', then=1500), N),
    Case("stray-quote.csv", csv('"1"2,3\n', then=5), N),
    Case("open-quote-in-header.csv", b'"x,y\n' + rows().encode(), 0),
    Case("huge-value.csv", csv("1" * 200_000 + ",2\n", then=5), N),
    # Names
    Case("same-names.csv", csv(first="y,y\n"), 0),
    Case("no-names.csv", columns(lambda i: i % 3, lambda i: i % 5, y, names=",,y"), N),
    Case("emoji-names.csv", columns(lambda i: i % 3, lambda i: i % 5, y, names="Größe 🌡,温度,y"), N),
    Case("markup-names.csv", columns(lambda i: i % 3, y, names="</script><b>,y"), N),
    Case("long-name.csv", csv(first="x" * 100_000 + ",y\n"), N),
    Case("longer-name.csv", csv(first="x" * 200_000 + ",y\n"), 0),
    Case("columns-20000.csv", wide(20_000), 0),
    Case("columns-2000.csv", wide(2000), 0),
    # Numbers
    Case("1e400.csv", csv("1e400,2\n"), N),
    Case("minus-1e400.csv", csv("1,-1e400\n"), N),
    Case("inf.csv", csv("inf,2\n"), N),
    Case("nan.csv", csv("nan,NaN\n"), N + 1),
    Case("missing-words.csv", csv("NA,null\n?,-\n,\n#N/A,missing\n"), N + 4),
    Case("missing-signs.csv", columns(lambda i: i % 7, lambda i: ("-", ".", "n/a", y(i))[i % 4], names="x,y"), N),
    Case("digits-401.csv", csv("1" * 401 + ",2\n"), N),
    Case("digits-5000.csv", csv("1" * 5000 + ",2\n"), N),
    Case("hexadecimal.csv", csv("0x10,2\n"), N),
    Case("arabic-digits.csv", csv("١٢,2\n"), N + 1),
    Case("text-among-numbers.csv", csv("one,2\n", then=5), N),
    Case("money.csv", csv("$1,2\n"), N + 1),
    Case("largest.csv", columns(lambda i: 1.7e308 * (-1) ** i, lambda i: 1.7e308 * (-1) ** (i // 3), names="x,y"), N),
    Case("smallest.csv", columns(lambda i: 5e-324 * (i % 3), lambda i: 5e-324 * (i % 4), names="x,y"), N),
    Case("constant-target.csv", columns(lambda i: i % 7, lambda i: 3, names="x,y"), N),
    Case("constant-everything.csv", columns(lambda i: 3, lambda i: 3, names="x,y"), N),
    Case("target-always-missing.csv", columns(lambda i: i % 7, lambda i: "", names="x,y"), 0),
    Case("target-missing-at-first.csv", columns(lambda i: i % 7, lambda i: "" if i < 30 else y(i), names="x,y"), N),
    Case("input-always-missing.csv", columns(lambda i: "", y, names="x,y"), N),
    # Text and time
    Case("all-text.csv", columns(lambda i: "ab"[i % 2], lambda i: "cd"[i % 2], names="x,y"), 0),
    Case("many-levels.csv", columns(lambda i: f"id{i}", y, names="id,y"), N),
    Case("new-level.csv", columns(lambda i: "abc"[(i % 2) + (i > 35)], y, names="k,y"), N),
    Case("dates.csv", columns(lambda i: f"2024-01-{i % 28 + 1:02d}", y, names="day,y"), N),
    Case("dates-in-digits.csv", columns(lambda i: 20240101 + i % 31 + 100 * (i // 31), y, names="day,y"), N),
    Case("time-zones.csv", columns(lambda i: f"2024-01-01T{i % 24:02d}:00+0{i % 3}:00", y, names="at,y"), N),
    Case(
        "impossible-date.csv",
        columns(lambda i: f"2024-0{1 + i // 29}-{1 + i % 29:02d}T{i % 24:02d}:00", y, names="at,y")
        + b"2024-02-30T00:00,1\n",
        N,
    ),
    Case("dates-of-elsewhere.csv", columns(lambda i: f"{i % 28 + 1}.12.2024", y, names="day,y"), N),
    Case("time-runs-backwards.csv", columns(lambda i: 1.7e9 - 3600 * i, y, names="timestamp,y"), N),
    Case("year-9999.csv", columns(lambda i: f"9999-12-31T{i % 24:02d}:59", y, names="at,y"), N),
    # Encodings
    Case("bom.csv", b"\xef\xbb\xbf" + csv(), N),
    Case("bom-twice.csv", b"\xef\xbb\xbf" * 2 + csv(), N),
    Case("utf-16.csv", csv().decode().encode("utf-16"), 0),
    Case("utf-16-without-mark.csv", csv().decode().encode("utf-16-be"), 0),
    Case("utf-32.csv", csv().decode().encode("utf-32"), 0),
    Case("latin-1-header.csv", "größe,y\n".encode("latin-1") + rows().encode(), 0),
    Case("latin-1-row.csv", csv() + "größe,2\n".encode("latin-1"), N),
    Case("cut-letter.csv", csv() + "1,ü".encode()[:-1], N),
    Case("nul-in-row.csv", csv("1\0,2\n"), N),
    Case("nul-in-header.csv", csv(first="x\0,y\n"), 0),
    Case("control-letters.csv", columns(lambda i: f"\x1b[3{i % 2}m", y, names="k,y"), N),
    # NDJSON
    Case("digits-401.ndjson", objects('{"x": %s, "y": 1}\n' % ("1" * 401)), N),
    Case("digits-5000.ndjson", objects('{"x": %s, "y": 1}\n' % ("1" * 5000)), N),
    Case("infinity.ndjson", objects('{"x": Infinity, "y": 1}\n'), N),
    Case("nan.ndjson", objects('{"x": NaN, "y": null}\n'), N + 1),
    Case("nested.ndjson", objects('{"x": %s, "y": 1}\n' % ("[" * 100_000 + "]" * 100_000)), N),
    Case("nested-a-little.ndjson", objects('{"x": %s, "y": 1}\n' % ('{"a":' * 400 + "1" + "}" * 400)), N),
    Case("cut-last-object.ndjson", objects('{"x": 1, "y'), N),
    Case("scalars.ndjson", b"1\n2\n3\n", 0),
    Case("one-array.ndjson", b"[\n" + objects().replace(b"}\n", b"},\n") + b"]\n", N),
    Case("array.json", b"[" + objects().replace(b"}\n", b"}, ")[:-2] + b"]", N),
    Case("array-cut.json", b"[" + objects().replace(b"}\n", b"}, ") + b'{"x": 1, "y', N),
    Case("array-goes-on.json", b"[" + objects().replace(b"}\n", b"}, ")[:-2] + b"]\n[]", N),
    Case("array-of-numbers.json", json.dumps([[i, y(i)] for i in range(N)]).encode(), 0),
    Case("array-empty.json", b"[]", 0),
    Case("pretty.ndjson", json.dumps({"x": 1, "y": 2}, indent=2).encode(), 0),
    Case("sparse-first.ndjson", b'{"note": "hello"}\n' + objects(), N + 1),
    Case("other-keys-everywhere.ndjson", b"".join(b'{"k%d": 1, "y": %d}\n' % (i, i % 3) for i in range(N)), N),
    Case("same-keys.ndjson", objects('{"x": 1, "x": "one", "y": 1}\n'), N),
    Case(
        "booleans.ndjson", b"".join(b'{"x": %s, "y": %d}\n' % ([b"true", b"false"][i % 2], i % 3) for i in range(N)), N
    ),
    Case("half-letters.ndjson", objects('{"x": "\\ud800", "y": 1}\n'), N),
    Case(
        "half-letters-in-time.ndjson",
        b"".join(b'{"date": "\\ud800", "x": 1, "y": %d}\n' % (i % 3) for i in range(N)),
        N,
    ),
    Case("table.ndjson", csv(), 0),
    Case("objects.csv", objects(), N),
    # Compressed, and not what the name says
    Case("cut.csv.gz", cut(gzip.compress), N),
    Case("cut.csv.bz2", cut(bz2.compress), N),
    Case("cut.csv.xz", cut(lzma.compress), N),
    Case("cut-at-once.csv.gz", gzip.compress(PACKED)[:12], 0),
    Case("wrong-sum.csv.gz", gzip.compress(PACKED)[:-8] + bytes(8), N),
    Case("garbage-after.csv.gz", gzip.compress(PACKED) + b"garbage", N),
    Case("gzip-by-another-name.csv", gzip.compress(PACKED), N),
    Case("plain-by-another-name.csv.gz", PACKED, N),
    Case("gzip-twice.csv.gz", gzip.compress(gzip.compress(PACKED)), 0),
    Case("bomb.csv.gz", gzip.compress(bytes(50_000_000), 1), 0),
    Case("blank-bomb.csv.gz", gzip.compress(csv() + b"\n" * 50_000_000, 1), N),
    Case("zstandard.csv.zst", b"\x28\xb5\x2f\xfd\x24\x08A\0\0x,y\n", 0),
    Case("archive.csv", zipped(), 0),
    Case("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", 0),
    Case("document.csv", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", 0),
    Case("database.csv", b"SQLite format 3\0\x10\0\x01\x01", 0),
    Case("page.csv", b"<!doctype html>\n<html><body>404 Not Found</body></html>\n", 0),
    Case("random.csv", random.Random(0).randbytes(5000), 0),
    Case("zeros.csv", bytes(5000), 0),
    # Parquet
    Case("cut.parquet", parquet(GOOD, "cut"), 0),
    Case("damaged.parquet", parquet(LONG, "group"), 1000),
    Case("text.parquet", csv(), 0),
    Case("by-another-name.csv", parquet(GOOD), N),
    Case("no-rows.parquet", parquet({"x": [], "y": []}), 0),
    Case("nulls.parquet", parquet({"x": [None] * N, "y": [None] * N}), 0),
    Case("lists.parquet", parquet({"x": [[1, 2]] * N, "y": GOOD["y"]}), N),
    # Not files
    Case("folder.csv", Path.mkdir, 0),
    Case("not-there.csv", lambda path: None, 0),
    Case("dangling.csv", lambda path: path.symlink_to("nowhere"), 0),
    Case("loop.csv", lambda path: path.symlink_to(path.name), 0),
    Case("unreadable.csv", lambda path: path.symlink_to("/proc/self/mem"), 0),
    Case("device.csv", lambda path: path.symlink_to("/dev/zero"), 0),
    Case("nothing.csv", lambda path: path.symlink_to("/dev/null"), 0),
    Case("pipe.csv", fifo, N),
]


def outcome(case: Case, folder: Path) -> Outcome:
    """Run on one of them, in a folder of its own."""
    folder.mkdir()
    with contextlib.chdir(folder):
        if isinstance(case.content, bytes):
            Path(case.name).write_bytes(case.content)
        else:
            case.content(Path(case.name))
        command = ["run", case.name, "--target", "y", "--out", "o.csv", "--save", "m.sgp", *SMALL]
        result = CliRunner().invoke(app, command)
        written = max(0, Path("o.csv").read_text().count("\n") - 1) if Path("o.csv").exists() else 0
        saved = Pipeline.load("m.sgp").rows if Path("m.sgp").exists() else 0
    return Outcome(case, result, written, saved)


def outcomes(folder: Path) -> list[Outcome]:
    return [outcome(case, folder / str(i)) for i, case in enumerate(CASES)]


def sentence(made: Outcome) -> str:
    """The message, without what is of one file alone."""
    message = re.sub(r"[^ -~]", "?", made.message.replace(made.case.name, "FILE"))
    message = message if len(message) <= LONGEST else f"{message[: LONGEST - 3]}..."
    return message.replace("|", "\\|")


def kind(message: str) -> str:
    """What messages of one kind share: not values, numbers, names of columns, nor words of other libraries."""
    return re.sub(r"'.*'|\".*\"|\(.*\)|\d+|(?<=columns are: ).*", "", message)


def marks(code: int, kept: bool, _message: str) -> str:
    """What is unusual: an exit code that is not 3, and rows before the fault that were kept."""
    return (f"({code}) " if code != 3 else "") + ("▸ " if kept else "")


def table(made: list[Outcome]) -> str:
    """What is refused, one line for each kind of message, and the names of what is read to its end."""
    found: dict[tuple[int, bool, str], list[Outcome]] = {}
    for one in made:
        if code := one.result.exit_code:
            found.setdefault((code, one.rows > 0, kind(sentence(one))), []).append(one)
    refused = [
        f"| {', '.join(f'`{one.case.name}`' for one in group)} | {marks(*key)}``{sentence(group[0])}`` |"
        for key, group in found.items()
    ]
    read = ", ".join(f"`{one.case.name}`" for one in made if not one.result.exit_code)
    lines = ["| file | message (of the first) |", "|---|---|", *refused]
    return "\n".join([*lines, "", *textwrap.wrap(f"Read to the end: {read}.", 120, break_on_hyphens=False)])


def refreshed(page: str, made: list[Outcome]) -> str:
    """The page with its table made anew."""
    block = f"<!-- hostile -->\n{table(made)}\n<!-- end -->"
    return re.sub(r"<!-- hostile -->\n.*?<!-- end -->", lambda _: block, page, flags=re.DOTALL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(refreshed(PAGE.read_text(), outcomes(Path(folder))))

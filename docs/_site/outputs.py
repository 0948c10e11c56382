"""Show under the examples of pages what they print: ``python docs/_site/outputs.py docs/models/*.md``.

A block of Python that prints something is followed by a block of text. Numbers are shown with four digits. The tests of
the pages compare it with what the example prints.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```python\n(?P<source>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
NUMBER = re.compile(r"(?<![\w.:-])[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![\w.:])")
DIGITS = 4
RELATIVE, ABSOLUTE = 0.05, 0.01  # that a number may differ by


def run(source: str, namespace: dict[str, object], file: str, line: int) -> str:
    """What a block prints, run among the names of those before it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        exec(compile("\n" * line + source, file, "exec"), namespace)
    lines = said.getvalue().splitlines(keepends=True)
    return "".join(text for text in lines if not text.startswith("streamgp: "))  # that it compiles


def blocks(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Every block of Python with the output shown under it, and the line in which it begins."""
    for match in BLOCK.finditer(text):
        yield match, text[: match.start()].count("\n") + 1


def shortened(said: str) -> str:
    """What was printed, without digits that nobody reads."""

    def short(match: re.Match[str]) -> str:
        figures = match[0].partition("e")[0].replace(".", "").lstrip("+-0")
        return f"{float(match[0]):.{DIGITS}g}" if len(figures) > DIGITS + 1 else match[0]

    lines = [NUMBER.sub(short, line.rstrip()) for line in said.splitlines()]
    arrays = [re.sub(r"(?<=\[) +| +(?=[ \]])", "", line) if "[" in line or "]" in line else line for line in lines]
    return "".join(f"{line}\n" for line in arrays)


def alike(shown: str, said: str) -> bool:
    """Whether a page shows what was printed: the same words, and numbers that differ by little on other processors."""
    numbers = [[float(number.replace(",", "")) for number in FIGURE.findall(text)] for text in (shown, said)]
    words = [FIGURE.sub("#", "".join(text.split())) for text in (shown, said)]
    if words[0] != words[1] or len(numbers[0]) != len(numbers[1]):
        return False
    pairs = zip(*numbers, strict=True)
    return all(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)


def shown(text: str, file: str) -> str:
    """A page with the output of its examples."""
    namespace: dict[str, object] = {"__name__": "example"}
    parts, end = [], 0
    for match, line in blocks(text):
        said = run(match["source"], namespace, file, line)
        parts += [text[end : match.start()], f"```python\n{match['source']}```\n"]
        parts += [f"\n```text\n{shortened(said)}```\n"] if said else []
        end = match.end()
    return "".join([*parts, text[end:]])


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page.write_text(shown(page.read_text(), str(page)))
        print(page.name, flush=True)

"""Show under the examples of pages what they print: ``python docs/_site/outputs.py docs/models/*.md``.

A block of Python that prints something is followed by a block of text. Numbers are shown with four digits. The tests of
the pages compare it with what the example prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```python\n(?P<source>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.:-])[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![\w.:])")
DIGITS = 4


def run(source: str, namespace: dict[str, object], file: str, line: int) -> str:
    """What a block prints, run among the names of those before it."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile("\n" * line + source, file, "exec"), namespace)
    return said.getvalue()


def blocks(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Every block of Python with the output shown under it, and the line in which it begins."""
    for match in BLOCK.finditer(text):
        yield match, text[: match.start()].count("\n") + 1


def shortened(said: str) -> str:
    """What was printed, without digits that nobody reads."""

    def short(match: re.Match[str]) -> str:
        number = f"{float(match[0]):#.{DIGITS}g}"
        return number if len(number) < len(match[0]) else match[0]

    return "".join(f"{NUMBER.sub(short, line.rstrip())}\n" for line in said.splitlines())


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

"""Write the tables of the pages, between their markers, from the files of results.

With --finished also forget the cells that a stopped suite would have gone on with: the next one measures anew.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from record import ROOT, forget_unfinished
from tables import TABLES

MARKED = re.compile(r"<!-- table of (?P<name>[^.>]+) -->\n.*?<!-- end of table -->", re.DOTALL)


def pages() -> list[Path]:
    return [
        path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if MARKED.search(path.read_text())
    ]


def rendered(text: str) -> str:
    """The page with the tables of the present results."""
    return MARKED.sub(lambda found: block(found["name"]), text)


def block(name: str) -> str:
    return f"<!-- table of {name} -->\n\n{TABLES[name]()}\n\n<!-- end of table -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finished", action="store_true", help="forget the cells of this suite")
    arguments = parser.parse_args()
    for page in pages():
        page.write_text(rendered(page.read_text()))
    if arguments.finished:
        forget_unfinished()


if __name__ == "__main__":
    main()

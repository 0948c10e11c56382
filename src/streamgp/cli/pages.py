"""Pages that show what the command line says: ``python -m streamgp.cli.pages docs/command-line.md README.md``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

WIDTH = 100


def help_of(command: str) -> str:
    """What ``streamgp COMMAND --help`` prints."""
    from typer.testing import CliRunner

    from streamgp.cli.app import app

    arguments = [command, "--help"] if command else ["--help"]
    text = CliRunner().invoke(app, arguments, prog_name="streamgp", terminal_width=WIDTH).stdout
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def refreshed(page: str) -> str:
    """A page with its blocks ``<!-- help COMMAND --> ... <!-- end -->`` and ``<!-- models -->`` made anew."""
    from streamgp.recipes.bibliography import table

    def made(match: re.Match[str]) -> str:
        what, command = match[1], match[2] or ""
        text = table() if what == "models" else f"```text\n{help_of(command)}\n```"
        return f"<!-- {what}{' ' + command if command else ''} -->\n{text}\n<!-- end -->"

    return re.sub(r"<!-- (help|models)(?: (\w+))? -->\n.*?<!-- end -->", made, page, flags=re.DOTALL)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")

"""Pages that show what the code says: ``python docs/_site/pages.py README.md docs/*.md docs/models/*.md``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

WIDTH = 100


def help_of(command: str) -> str:
    """What ``streamgp COMMAND --help`` prints, but for the line on ``--help`` itself."""
    from typer.testing import CliRunner

    from streamgp.cli.app import app

    text = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="streamgp", terminal_width=WIDTH).stdout
    told = (line.rstrip() for line in text.strip().splitlines() if not line.startswith("  -h, --help"))
    lines = "\n".join(told).rstrip().removesuffix("\nOptions:").rstrip()
    return f"```text\n{lines}\n```"


def settings_table(names: str) -> str:
    """The settings of some classes, as their annotations describe them."""
    from streamgp import api, batch, deep, filters
    from streamgp.job import request

    known = vars(request) | vars(batch) | vars(filters) | vars(deep) | vars(api)
    kinds = {name: known[name] for name in names.split()}
    owners: dict[str, dict[tuple[str, ...], list[str]]] = {}  # by setting and by its description
    for owner, kind in kinds.items():
        for name, parameter in inspect.signature(kind).parameters.items():
            meaning, unit, _ = kind.described[name]
            meaning = re.sub(r'([A-Z]\w+\([^()]*\)|(?:\w+=)?"[^"]*")', r"`\1`", meaning.replace("|", "\\|"))
            description = f"{meaning} ({unit})" if unit else meaning, _default(parameter.default)
            owners.setdefault(name, {}).setdefault(description, []).append(owner)
    lines = ["| setting | of | meaning (unit) | default |", "|---|---|---|---|"]
    for name, descriptions in owners.items():
        for (meaning, default), some in descriptions.items():
            of = "all" if len(some) == len(kinds) else ", ".join(some)
            lines.append(f"| `{name}` | {of} | {meaning} | {default} |")
    if len(kinds) == 1:  # then nobody asks whose they are
        lines = ["|".join(line.split("|")[:2] + line.split("|")[3:]) for line in lines]
    return "\n".join(lines)


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"`{text}`" if text[-1] in '")' else text


BLOCKS = {"help": help_of, "settings": settings_table}


def refreshed(page: str) -> str:
    """A page with its blocks ``<!-- help COMMAND --> ... <!-- end -->``, models, settings CLASSES made anew."""

    def made(match: re.Match[str]) -> str:
        return f"{match[1]}{BLOCKS[match[2]](match[3].strip())}\n<!-- end -->"

    return re.sub(r"(<!-- (help|models|settings)([\w ]*) -->\n).*?<!-- end -->", made, page, flags=re.DOTALL)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")

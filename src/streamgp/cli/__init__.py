"""The command line: thin commands over library functions. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command ``streamgp``."""
    try:
        from streamgp.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "click", "rich"):
            raise
        sys.exit(f'the command streamgp needs {error.name}: pip install "streamgp[cli]"')
    app()

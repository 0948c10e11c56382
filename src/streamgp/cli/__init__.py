"""The command line: thin commands over library functions. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run the command ``streamgp``."""
    # Rows come one by one and matrices are small: several threads of BLAS would only wait for each other. It is read
    # when NumPy is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _replace_unknown_characters()
    try:
        from streamgp.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "click", "rich"):
            raise
        sys.exit(f'the command streamgp needs {error.name}: pip install "streamgp[cli]"')
    app()


def _replace_unknown_characters() -> None:
    """Let a console whose alphabet lacks a character show a question mark in its place, and not end the command."""
    for console in (sys.stdout, sys.stderr):
        if isinstance(console, io.TextIOWrapper):
            console.reconfigure(errors="replace")

"""The command line: thin commands over library functions. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command ``streamgp``."""
    # Rows come one by one and matrices are small: several threads of BLAS would only wait for each other. It is read
    # when NumPy is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from streamgp.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "click", "rich"):
            raise
        sys.exit(f'the command streamgp needs {error.name}: pip install "streamgp[cli]"')
    app()

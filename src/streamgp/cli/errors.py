"""How a command ends: with a sentence and a documented code instead of a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator

import typer

from streamgp.cli.settings import with_options

USAGE, ROWS, OUTPUT, INTERRUPTED = 2, 3, 4, 130
SERVER = ("starlette", "uvicorn", "msgspec", "httpx", "prometheus_client")  # packages that come with the extra serve
TRACEBACK = "STREAMGP_TRACEBACK"  # a variable: show where an error was raised


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn the errors that users can mend into sentences and exit codes."""
    try:
        yield
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stderr.close()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        typer.echo("streamgp: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except MemoryError:
        typer.echo("streamgp: not enough memory; use a smaller capacity, fewer features or fewer lags", err=True)
        raise typer.Exit(USAGE) from None
    except (ValueError, TypeError, OSError, ImportError) as error:
        from streamgp.contract.snapshot import SnapshotError
        from streamgp.tables.source import RowsError
        from streamgp.tables.writing import WriteError

        code = ROWS if isinstance(error, RowsError | SnapshotError | OSError) else USAGE
        code = OUTPUT if isinstance(error, WriteError) else code
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        sentence = str(error)
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in SERVER:
            sentence = f'this command needs {error.name}: pip install "streamgp[serve]"'
        typer.echo(f"streamgp: {with_options(sentence)}", err=True)
        raise typer.Exit(code) from None

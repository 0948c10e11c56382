"""What a run over a table starts from: its first rows, or where a saved run stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamgp.job.pipeline import Pipeline
from streamgp.tables.columns import listed
from streamgp.tables.formats import LOOK, Chunk, Reader
from streamgp.tables.source import RowsError


def check_asked(pipeline: Pipeline, origin: str, asked: Mapping[str, Any]) -> None:
    """Refuse to continue a saved run with other settings than its own.

    Args:
        pipeline: the saved run.
        origin: what it came from, for the message.
        asked: target, lags, horizon, ticket and model, None where nothing was asked for; inputs, settings and schema,
            which a saved run always has of its own.
    """
    own = {
        "target": pipeline.schema.target,
        "lags": pipeline.lags,
        "horizon": pipeline.horizon,
        "ticket": pipeline.schema.ticket or "nothing",
        "model": pipeline.request.model,
    }
    for name, has in own.items():
        if asked[name] is not None and asked[name] != has:
            raise ValueError(
                f"{origin} was made with `{name}={has}`, not {asked[name]}; drop `{name}`, or start a new run "
                "without `load`"
            )
    if asked["inputs"] is not None or asked["settings"] or asked["schema"] is not None:
        raise ValueError(
            f"{origin} has its own inputs, settings and schema; drop `inputs`, `settings` and `schema`, or "
            "start a new run"
        )


def check_columns(pipeline: Pipeline, reader: Reader) -> None:
    """Refuse a source without the columns of the run that it continues."""
    needed = pipeline.schema.needed
    missing = [name for name in needed if name not in reader.names]
    if missing and (not reader.sparse or len(missing) == len(needed)):
        raise RowsError(
            f"the columns have changed: {listed([repr(name) for name in missing])} "
            f"{'is' if len(missing) == 1 else 'are'} missing; the run needs {listed(needed)}; the source has "
            f"{listed(reader.names)}"
        )


def first_rows(chunks: Iterator[Chunk], live: bool) -> tuple[Chunk, Iterator[Chunk], bool]:
    """The first rows together, on which it is decided what the columns are, the chunks after them, and whether
    others may come: a pipe that has ended is a table.
    """
    gathered: list[Chunk] = []
    rows, more = 0, True
    try:
        while rows < LOOK:
            chunk = next(chunks)
            if not len(chunk) and live and rows:
                break
            gathered.append(chunk)
            rows += len(chunk)
    except StopIteration:
        more = False
    except RowsError as error:
        if not rows:
            raise
        chunks, more = _fails(error), False
    return Chunk.joined(gathered), chunks, more


def _fails(error: RowsError) -> Iterator[Chunk]:
    """The end of a source in which the rows before the error are used first."""
    raise error
    yield

"""What waits in the queue of a stream: requests and calls, and who gets the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamgp.serve.learner import Op, Outcome


class Asked(Struct):
    """A request in the queue.

    Args:
        future: gets the answer, as bytes.
        op: what to do.
        key: by which a repeated request is known again.
        digest: of the request.
    """

    future: Any
    op: Op
    key: str = ""
    digest: bytes = b""


class Call(Struct):
    """Something else in the queue.

    Args:
        future: gets what it returns.
        call: what to do.
        blind: whether it does not matter what the stream has learned, so that it works if that cannot be loaded.
    """

    future: Any
    call: Callable[[], Any]
    blind: bool = False


class Done(Struct):
    """A request that was done.

    Args:
        asked: the request.
        seq: its number.
        outcome: what it led to.
        answer: to the client.
    """

    asked: Asked
    seq: int
    outcome: Outcome
    answer: bytes

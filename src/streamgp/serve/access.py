"""Access: tokens, kept as digests, and what each of their scopes may do."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from streamgp.serve.journal import Journal, Write, statement
from streamgp.serve.messages import RefusedError
from streamgp.settings import option

SCOPES = ("read", "write", "admin")  # each may do what those before it may
PREFIX = "sgp_"
KINDS = ("bearer", "token")  # of the header Authorization; InfluxDB's clients say Token
LONGEST_NAME = 60  # characters
LOOKED = 1.0  # seconds between two looks for new tokens
MAKE = "streamgp token create --data DIR"
REVOKED = "revoked"  # the scope of a token that is no more
# Headers that proxies add.
PROXIED = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})


class Token(NamedTuple):
    """A token as it is kept."""

    id: int  # by which it is revoked
    digest: bytes  # SHA-256; a token has 256 random bits, so that no salt is needed
    scope: str  # what it may do
    created: str
    name: str  # for people; "": none
    used: str  # the day of its last use; "": none yet


class Access:
    """Who may do what.

    A folder that has ever had a token needs one from then on, and so does every address that other machines can reach.

    Args:
        journal: that keeps the digests.
        public: whether the server listens on such an address.
        later: has something done in a thread; None: the days on which tokens are used are not kept.
    """

    def __init__(
        self, journal: Journal, public: bool = False, later: Callable[[Callable[[], None]], object] | None = None
    ) -> None:
        self._journal, self._public, self._later = journal, public, later
        self._used: dict[int, str] = {}  # the last day that was kept
        self._made: list[Token] = []
        self._looked = -LOOKED

    def _all(self) -> list[Token]:
        """All tokens that were ever made."""
        if time.monotonic() - self._looked >= LOOKED:
            rows = self._journal.read("SELECT id, digest, scope, created, name, used FROM tokens ORDER BY id")
            self._made, self._looked = [Token(*row) for row in rows], time.monotonic()
        return self._made

    def tokens(self) -> list[Token]:
        """The tokens; new ones count within a second, and revoked ones no longer."""
        return [token for token in self._all() if token.scope != REVOKED]

    def check(self, scope: str, headers: Mapping[str, str], peer: str) -> None:
        """Refuse a request that lacks the scope; where no token is needed, one that does not come from this machine.

        Args:
            scope: "", or one of SCOPES.
            headers: of the request, names in lower case.
            peer: the address that it came from.
        """
        if not self._public and not self._all():
            _refuse_strangers(headers, peer)
            return
        if not scope:
            return
        tokens = self.tokens()
        kind, _, given = headers.get("authorization", "").partition(" ")
        digest = digest_of(given.strip())
        found: Token | None = None
        for token in tokens:  # all of them, so that the time tells nothing
            if hmac.compare_digest(token.digest, digest) and kind.lower() in KINDS:
                found = token
        if found is None:
            hint = f"send the header Authorization: Bearer TOKEN; make one with: {MAKE}"
            missing = "the token is not known here" if given else "this server needs a token"
            raise RefusedError("unauthorized", missing, hint)
        self._note_use(found.id)
        if SCOPES.index(found.scope) < SCOPES.index(scope):
            has = f"the token has the scope {found.scope}, this needs {scope}"
            raise RefusedError("forbidden", has, "use another token")

    def _note_use(self, number: int) -> None:
        """Keep the day on which a token is used."""
        today = time.strftime("%Y-%m-%d", time.gmtime())
        if self._later is None or self._used.get(number) == today:
            return
        self._used[number] = today
        note = statement("UPDATE tokens SET used=? WHERE id=?", today, number)
        self._later(partial(self._journal.write, note))


def _refuse_strangers(headers: Mapping[str, str], peer: str) -> None:
    """Neither other machines, nor a page of another site in a browser here, may reach a server without tokens."""
    only, hint = "without tokens this server answers only requests", f"make a token first: {MAKE} --scope write"
    if not is_loopback(peer) or not PROXIED.isdisjoint(headers):
        own = f"{only} that come from its own machine, and not through a proxy"
        raise RefusedError("foreign_machine", own, hint)
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    origin = headers.get("origin", "")
    if not is_loopback(name.strip("[]")) or (origin and origin.rpartition("://")[2] != host):
        raise RefusedError("foreign_site", f"{only} to localhost, and none of other web sites", hint)


def digest_of(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def create_token(folder: str | Path, scope: str, name: str = "") -> str:
    """Make a token; it is shown this once.

    Args:
        folder: of the service, which may be running.
        scope: "read", "write" or "admin".
        name: for people, such as who has it.
    """
    option("scope", scope, SCOPES)
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"the name of a token is one line of up to {LONGEST_NAME} characters; got {name[:80]!r}")
    token = PREFIX + secrets.token_urlsafe(32)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    insert = "INSERT INTO tokens (digest, scope, created, name) VALUES (?, ?, ?, ?)"
    _write(folder, statement(insert, digest_of(token), scope, created, name), create=True)
    return token


def list_tokens(folder: str | Path) -> list[Token]:
    """All tokens of a service."""
    journal = Journal(folder, create=False)
    try:
        return list(Access(journal).tokens())
    finally:
        journal.close()


def revoke_token(folder: str | Path, number: int) -> int:
    """Forget a token; return how many are left. That there was one stays known, so the folder goes on needing one."""
    gone: list[int] = []
    left: list[int] = []

    def write(cursor: sqlite3.Cursor) -> None:
        forget = "UPDATE tokens SET digest=x'', scope=? WHERE id=? AND scope<>?"
        gone.append(cursor.execute(forget, (REVOKED, number, REVOKED)).rowcount)
        left.extend(cursor.execute("SELECT count(*) FROM tokens WHERE scope<>?", (REVOKED,)).fetchone())

    _write(folder, write, create=False)
    if not gone[-1]:
        raise ValueError(f"there is no token {number}; streamgp token list shows them")
    return left[-1]


def _write(folder: str | Path, write: Write, create: bool) -> None:
    journal = Journal(folder, create=create)
    try:
        journal.write(write)
    except RefusedError as problem:
        raise OSError(f"{problem.message}; {problem.hint}") from None
    finally:
        journal.close()


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback

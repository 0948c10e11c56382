"""What differs between Linux, macOS and Windows is in few places, and those are tried here with the others' parts."""

from __future__ import annotations

import ast
import errno
import importlib.util
import io
import os
import socket
import sys
import types
from pathlib import Path

import pytest

import streamgp
from streamgp import cli
from streamgp.contract import filelocks
from streamgp.tables.places import locked
from streamgp.tables.source import TextLines
from streamgp.tables.writing import WriteError
from tests import architecture

SOURCES = Path(streamgp.__file__).parent
# Modules that some system lacks, or, like select, that cannot do there what they do elsewhere; and who may use them.
NOT_EVERYWHERE = {"fcntl", "grp", "msvcrt", "pwd", "resource", "select", "selectors", "termios", "winreg"}
ALLOWED = {("contract/filelocks.py", "fcntl"), ("contract/filelocks.py", "msvcrt")}


def nodes(kind):
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(architecture.tree(path)):
            if isinstance(node, kind):
                yield path.relative_to(SOURCES).as_posix(), node


def test_modules_that_some_systems_lack_are_imported_where_the_system_is_asked_first():
    found = {
        (where, name)
        for where, node in nodes(ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.partition(".")[0] in NOT_EVERYWHERE
    }
    assert found == ALLOWED


def test_text_is_read_and_written_as_utf8_with_one_kind_of_line_end():
    wrong = []
    for where, node in nodes(ast.Call):
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "open" and isinstance(node.func, ast.Name):
            mode = ast.unparse(node.args[1]) if len(node.args) > 1 else "'r'"
            text = "b" not in mode
        else:
            mode, text = "'w'" if called == "write_text" else "'r'", called in ("read_text", "write_text")
        encoded = "encoding" in named or (called == "read_text" and bool(node.args))
        if text and (not encoded or ("w" in mode and "newline" not in named)):
            wrong.append(f"{where}:{node.lineno}")
    assert wrong == []


def test_a_console_that_lacks_a_character_shows_another_one(monkeypatch):
    written = io.BytesIO()
    console = io.TextIOWrapper(written, encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    cli._replace_unknown_characters()
    print("21 ± 2 µs → ∞", flush=True)
    print("→", file=sys.stderr, flush=True)
    assert written.getvalue() == b"21 \xb1 2 \xb5s ? ?" + os.linesep.encode()


def test_tables_of_the_commands_fit_the_alphabet_of_a_windows_console(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    monkeypatch.setattr(sys, "argv", ["streamgp", "models"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    sys.stdout.flush()
    assert ended.value.code == 0
    assert "KRLST" in written.getvalue().decode("cp1252")


# Locks.


def windows(monkeypatch):
    """The locks as they are on Windows, with a stand-in for its part of the system."""
    held = {}

    def locking(descriptor, mode, length):
        assert (mode, length) == ("LK_NBLCK", 1)
        found = os.fstat(descriptor)
        owner = held.setdefault((found.st_dev, found.st_ino), descriptor)
        if owner != descriptor:
            raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK="LK_NBLCK"))
    spec = importlib.util.spec_from_file_location("filelocks_of_windows", filelocks.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("system", ["this", "windows"])
def test_a_file_belongs_to_one_who_has_it_open(system, tmp_path, monkeypatch):
    locks = filelocks if system == "this" else windows(monkeypatch)
    with open(tmp_path / "file", "ab") as one, open(tmp_path / "file", "ab") as other:
        assert locks.lock(one)
        assert not locks.lock(other)


def test_a_disk_without_locks_holds_nobody_up(tmp_path, monkeypatch):
    def refused(_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(filelocks, "_try", refused)
    with open(tmp_path / "file", "ab") as file:
        assert filelocks.lock(file)


def test_a_file_that_is_written_is_refused_to_others_and_nothing_is_left(tmp_path):
    place = {"out": tmp_path / "rows.csv"}
    with locked(place), pytest.raises(WriteError, match="is being written by another run"), locked(place):
        pass
    with locked(place):
        pass
    assert list(tmp_path.iterdir()) == []


# Pipes and ports.


def test_a_silent_pipe_is_waited_for_and_what_comes_is_read(monkeypatch):
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as reading, os.fdopen(theirs, "wb", buffering=0) as writing:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=reading))
        lines = TextLines("-")
        blocks = lines.blocks()
        assert next(blocks) == b""
        writing.write(b"x,y\n1,2\n3")
        assert next(block for block in blocks if block) == b"x,y\n1,2\n"
        writing.close()
        assert next(block for block in blocks if block) == b"3"
        assert list(blocks) == []
        lines.close()


def test_a_port_on_windows_belongs_to_one_server(monkeypatch):
    server = pytest.importorskip("streamgp.serve.server")
    asked = []

    class Socket(socket.socket):
        def setsockopt(self, level, option, value):
            asked.append((level, option, value))

    monkeypatch.setattr(server.socket, "socket", Socket)
    monkeypatch.setattr(server.socket, "SO_EXCLUSIVEADDRUSE", -5, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    server.listening_on("127.0.0.1", 0).close()
    assert asked == [(socket.SOL_SOCKET, -5, 1)]

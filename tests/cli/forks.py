"""The command in processes of its own that start at once: forks of one process that has loaded everything.

A relay takes the place of the command: it hands its standard streams, folder, environment, largest file and signals to
the fork, and ends as the fork ends. If the relay is killed, so is the fork.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys

ORIGIN = r"""
import contextlib, io, json, os, resource, select, signal, socket, sys, tempfile
from pathlib import Path
from streamgp.cli.app import app

with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
    table = Path(folder, "a.csv")
    table.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(60)))
    command = ["run", str(table), "--target", "y", "--out", f"{folder}/o.csv", "--save", f"{folder}/m.sgp"]
    app([*command, "--model", "KRLST", "--set", "tune=off", "--set", "warmup=30"], standalone_mode=False)

def request(link):
    size, streams, _, _ = socket.recv_fds(link, 8, 3)
    missing, text = int.from_bytes(size, "little"), b""
    while len(text) < missing:
        text += link.recv(missing - len(text))
    return streams, json.loads(text)

def watch(link, fork):
    ended = os.pidfd_open(fork)
    while True:
        ready, _, _ = select.select([link, ended], [], [])
        if ended in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
            link.sendall(code.to_bytes(4, "little", signed=True))
            os._exit(0)
        numbers = link.recv(16) or bytes([signal.SIGKILL])
        for number in numbers:
            os.kill(fork, number)
        if signal.SIGKILL in numbers:
            os._exit(0)

def become(streams, arguments, folder, environment, largest):
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    sys.argv = ["streamgp", *arguments]

listener = socket.socket(socket.AF_UNIX)
listener.bind("\0" + sys.argv[1])
listener.listen()
print("ready", flush=True)
while 0 not in select.select([listener, 0], [], [])[0]:
    link, _ = listener.accept()
    if not os.fork():
        listener.close()
        streams, asked = request(link)
        if fork := os.fork():
            for stream in (*streams, 0, 1, 2):
                os.close(stream)
            watch(link, fork)
        link.close()
        become(streams, *asked)
        app()
    link.close()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
"""
RELAY = r"""
import json, os, resource, signal, socket, sys

link = socket.socket(socket.AF_UNIX)
link.connect("\0" + sys.argv[1])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: link.sendall(bytes([number])))
asked = [sys.argv[2:], os.getcwd(), dict(os.environ), resource.getrlimit(resource.RLIMIT_FSIZE)]
text = json.dumps(asked).encode()
socket.send_fds(link, [len(text).to_bytes(8, "little")], [0, 1, 2])
link.sendall(text)
code = int.from_bytes(link.recv(4), "little", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@functools.cache
def origin() -> str:
    """Where the process that forks listens; it ends with this one."""
    name = f"streamgp-tests-{os.getpid()}"
    command = [sys.executable, "-c", ORIGIN, name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    assert process.stdout.readline() == "ready\n"
    return name


def process(*arguments, **options) -> subprocess.Popen[str]:
    """``streamgp`` with these arguments, as a process; options are those of ``subprocess.Popen``."""
    command = [sys.executable, "-I", "-S", "-c", RELAY, origin(), *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **(streams | options))

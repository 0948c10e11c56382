"""A real browser for tests: Chromium without a window, driven over its debugging protocol with the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)


class Browser:
    """One page in Chromium; what it logs or throws is kept in ``troubles``."""

    def __init__(self, folder, allowed=None):
        self._allowed = allowed  # beginning of addresses that the page may ask for
        command = [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = folder / "DevToolsActivePort"
        end = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert time.monotonic() < end, "the browser did not start"
            time.sleep(0.05)
        port = int(port_file.read_text().splitlines()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(60)
        self._stream = self._socket.makefile("rb")
        path = page["webSocketDebuggerUrl"].split(str(port), 1)[1]
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while self._stream.readline().strip():
            pass
        self._number, self._events, self.troubles = 0, [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._stream.close()
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=30)

    def call(self, method, **parameters):
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        self._send(json.dumps({"id": self._number, "method": method, "params": parameters}).encode())
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def _keep(self, message):
        method, parameters = message["method"], message["params"]
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.troubles.append(parameters["exceptionDetails"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.troubles.append(parameters["entry"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.troubles.append(parameters["args"])
        elif method == "Network.requestWillBeSent" and self._foreign(parameters["request"]["url"]):
            self.troubles.append(f"the page asks the network for {parameters['request']['url']}")

    def _foreign(self, url):
        ours = self._allowed is not None and url.startswith(self._allowed)
        return url.startswith(("http", "ws", "ftp")) and not ours

    def open(self, path, width, height=900):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self._events.clear()
        self.call("Page.navigate", url=path if str(path).startswith("http") else f"file://{path}")
        while "Page.loadEventFired" not in self._events:
            self._keep(self._receive())

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, end, y):
        self.mouse("mousePressed", start, y, button="left", clickCount=1)
        self.mouse("mouseMoved", (start + end) / 2, y, button="left", buttons=1)
        self.mouse("mouseMoved", end, y, button="left", buttons=1)
        self.mouse("mouseReleased", end, y, button="left", clickCount=1)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _send(self, data):
        """One masked text frame."""
        size = len(data)
        head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
        assert size < 1 << 16
        mask = os.urandom(4)
        self._socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def _receive(self):
        """One message, of one frame or several."""
        data = b""
        while True:
            first, second = self._stream.read(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(self._stream.read(2 if size == 126 else 8), "big")
            part = self._stream.read(size)
            if first & 0x0F in (0x0, 0x1):
                data += part
            if first & 0x80 and first & 0x0F in (0x0, 0x1):
                return json.loads(data)

"""Sends rows of a made-up boiler to a server: some history at once, then row by row, now and then with a spike."""

import datetime as dt
import json
import math
import os
import random
import time
import urllib.error
import urllib.request

URL = os.environ.get("STREAMGP_URL", "http://127.0.0.1:8650")
TOKEN_FILE = os.environ.get("STREAMGP_TOKEN_FILE", "")
STREAM = os.environ.get("FEEDER_STREAM", "boiler")
HISTORY = int(os.environ.get("FEEDER_HISTORY", "600"))  # rows that are sent at once
ROWS = int(os.environ.get("FEEDER_ROWS", "0"))  # rows that are sent one by one; 0: without end
PAUSE = float(os.environ.get("FEEDER_PAUSE", "1"))  # seconds between two rows
SPIKE = 90  # every so many rows one is far off
SETTINGS = {"target": "power", "settings": {"alarms": 0.001}}


def row(number, moment):
    """A row: power follows temperature, which goes up and down every five minutes."""
    temperature = 60 + 8 * math.sin(2 * math.pi * number / 300) + random.gauss(0, 0.3)
    power = 200 + 2.5 * temperature + random.gauss(0, 1.5)
    if number >= HISTORY and number % SPIKE == SPIKE // 2:
        power += 60
    return {"time": moment.isoformat(), "temperature": round(temperature, 2), "power": round(power, 2)}


def send(method, path, body):
    """Send something until the server has taken it."""
    headers = {"Content-Type": "application/json"}
    if TOKEN_FILE:
        with open(TOKEN_FILE) as file:
            headers["Authorization"] = f"Bearer {file.read().strip()}"
    if method == "POST":
        headers["Idempotency-Key"] = f"{random.getrandbits(64):x}"
    request = urllib.request.Request(f"{URL}{path}", json.dumps(body).encode(), headers, method=method)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise SystemExit(f"{path}: {error.read().decode()}") from None
        except OSError:
            pass
        time.sleep(1)


def main():
    """Send history, then rows."""
    seen = send("PUT", f"/v1/streams/{STREAM}", SETTINGS)["rows"]
    now = dt.datetime.now(dt.UTC)
    if not seen:
        past = [row(i, now + dt.timedelta(seconds=i - HISTORY)) for i in range(HISTORY)]
        seen = send("POST", f"/v1/streams/{STREAM}/rows", past)["seen"]
    last = seen + ROWS
    while not ROWS or seen < last:
        seen = send("POST", f"/v1/streams/{STREAM}/rows", [row(seen, dt.datetime.now(dt.UTC))])["seen"]
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()

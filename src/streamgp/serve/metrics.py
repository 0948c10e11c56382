"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

import psutil

from streamgp.serve.hosted import Hosted
from streamgp.serve.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Requests:
    """Counts requests by route and status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.statuses: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[tuple[str, str], list[float]] = {}  # counts of the buckets and beyond, then the sum

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        with self._lock:
            self.statuses[method, route, status] += 1
            times = self.seconds.setdefault((method, route), [0.0] * (len(BUCKETS) + 2))
            times[bisect_left(BUCKETS, seconds)] += 1
            times[-1] += seconds


def text(service: Service, requests: Requests) -> str:
    """All metrics."""
    return "".join(f"{line}\n" for line in _lines(service, requests))


def _lines(service: Service, requests: Requests) -> Iterator[str]:
    yield from _head("requests_total", "counter", "Requests by route and status.")
    for (method, route, status), number in sorted(requests.statuses.items()):
        yield _line("requests_total", number, method=method, route=route, status=str(status))
    yield from _head("request_seconds", "histogram", "Seconds from a request to its answer.")
    for (method, route), times in sorted(requests.seconds.items()):
        total = 0.0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], times, strict=False):
            total += count
            yield _line("request_seconds_bucket", total, method=method, route=route, le=bound)
        yield _line("request_seconds_sum", times[-1], method=method, route=route)
        yield _line("request_seconds_count", total, method=method, route=route)
    streams = sorted(service.streams.items())
    tables: dict[tuple[str, str, str], Callable[[Hosted], float | None]] = {
        ("rows", "gauge", "Rows of a stream so far."): lambda s: s.view.rows,
        ("busy_seconds_total", "counter", "Seconds of work of a stream."): lambda s: s.busy_seconds,
        ("queue", "gauge", "Requests that wait for a stream."): lambda s: s.waiting,
        ("listeners", "gauge", "Clients that listen to a stream's events."): lambda s: len(s.hub.listeners),
        ("listeners_dropped_total", "counter", "Listeners that did not keep up."): lambda s: s.hub.dropped,
        ("rmse", "gauge", "Root mean squared error of all predictions."): lambda s: _score(s, "rmse"),
        ("coverage", "gauge", "Share of targets inside their intervals."): lambda s: _score(s, "coverage"),
        ("tickets_waiting", "gauge", "Rows that wait for their targets."): lambda s: _of(s, "tickets", "waiting"),
        ("tickets_expired_total", "counter", "Rows that waited too long."): lambda s: _of(s, "tickets", "expired"),
        ("rmse_previous_value", "gauge", "The same of the previous value as a prediction."): lambda s: _score(
            s, "rmse_previous_value"
        ),
        ("scored_rows_total", "counter", "Rows whose targets have come."): lambda s: _score(s, "rows"),
        ("squared_errors_total", "counter", "Sum of the squared errors of these rows."): _squared_errors,
        ("drift_total", "counter", "Changes that a stream's models noticed, since the server started."): lambda s: (
            s.noticed["drift"]
        ),
        ("last_target", "gauge", "Target of the newest row, since the server started."): lambda s: _newest(s, 1),
        ("last_mean", "gauge", "What was predicted for it."): lambda s: _newest(s, 2),
        ("last_lower", "gauge", "Lower end of its interval."): lambda s: _newest(s, 3),
        ("last_upper", "gauge", "Upper end of its interval."): lambda s: _newest(s, 4),
        ("repairs_total", "counter", "Numerical repairs; see health."): lambda s: _of(s, "health", "repairs"),
        ("alarms_total", "counter", "Alarms of a stream, with the setting alarms."): lambda s: _of(
            s, "health", "alarms"
        ),
    }
    for head, value in tables.items():
        yield from _head(*head)
        for name, stream in streams:
            if (found := value(stream)) is not None:
                yield _line(head[0], found, stream=name)
    if service.webhook is not None:
        yield from _head("webhook_total", "counter", "Alarms for the webhook, and attempts that were repeated.")
        for result, number in service.webhook.counts.items():
            yield _line("webhook_total", number, result=result)
    if service.bridges:
        yield from _head("mqtt_messages_total", "counter", "Messages of the MQTT broker by what became of them.")
        for bridge in service.bridges:
            for result, number in bridge.counts.items():
                yield _line("mqtt_messages_total", number, result=result)
        yield from _head("mqtt_connected", "gauge", "1 while the MQTT broker is connected.")
        yield _line("mqtt_connected", sum(bridge.connected for bridge in service.bridges))
    yield from _head("journal_bytes", "gauge", "Size of the file of the service.")
    yield _line("journal_bytes", service.journal.bytes())
    yield from _head("up", "gauge", "1 while the server can do its work.")
    yield _line("up", int(service.status() == "ok"))
    yield from _head("resident_bytes", "gauge", "Memory of the process, its peak where Linux does not tell.")
    yield _line("resident_bytes", resident_bytes())


def _score(stream: Hosted, name: str) -> float | None:
    return _of(stream, "scores", name)


def _squared_errors(stream: Hosted) -> float | None:
    rows, rmse = _score(stream, "rows"), _score(stream, "rmse")
    return None if rows is None or rmse is None else rows * rmse**2


def _newest(stream: Hosted, column: int) -> float | None:
    value = None if stream.newest is None else stream.newest[column]
    return None if value is None or not math.isfinite(value) else value


def _of(stream: Hosted, group: str, name: str) -> float | None:
    found = stream.view.rest.get(group)
    value = None if found is None else getattr(found, name)
    return None if value is None or not math.isfinite(value) else float(value)


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP streamgp_{name} {meaning}", f"# TYPE streamgp_{name} {kind}"


def _line(name: str, value: float, **labels: str) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"streamgp_{name}{{{shown}}} {value:.17g}" if shown else f"streamgp_{name} {value:.17g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_bytes() -> int:
    """Memory of this process."""
    return int(psutil.Process().memory_info().rss)

"""Metrics, for Prometheus: totals, and those of single streams where they are asked for."""

from __future__ import annotations

import math
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from typing import TypeGuard

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streamgp.serve.hosted import Hosted
from streamgp.serve.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUTE = ["method", "route"]
Value = Callable[[Hosted], float | None]
# When each counter began: as many lines again, and nobody asks.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def _of(group: str, name: str) -> Value:
    """A number of what can be seen of a stream."""

    def value(stream: Hosted) -> float | None:
        found = stream.view.rest.get(group)
        return None if found is None else getattr(found, name)

    return value


def _newest(column: int) -> Value:
    return lambda stream: None if stream.newest is None else stream.newest[column]


def _squared_errors(stream: Hosted) -> float | None:
    rows, rmse = _of("scores", "rows")(stream), _of("scores", "rmse")(stream)
    return None if rows is None or rmse is None else rows * rmse**2


COUNTED: dict[str, tuple[str, Value]] = {  # counters whose totals say something
    "busy_seconds": ("Seconds of work.", lambda stream: stream.busy_seconds),
    "listeners_dropped": ("Listeners that did not keep up.", lambda stream: stream.hub.dropped),
    "tickets_expired": ("Rows that waited too long for their targets.", _of("tickets", "expired")),
    "scored_rows": ("Rows whose targets have come.", _of("scores", "rows")),
    "drift": ("Changes that models noticed, since the server started.", lambda stream: stream.noticed["drift"]),
    "repairs": ("Numerical repairs; see health.", _of("health", "repairs")),
    "alarms": ("Alarms, with the setting alarms.", _of("health", "alarms")),
}
MEASURED: dict[str, tuple[str, Value]] = {  # gauges whose totals say something
    "rows": ("Rows so far.", lambda stream: stream.view.rows),
    "queue": ("Requests that wait.", lambda stream: stream.waiting),
    "listeners": ("Clients that listen to events.", lambda stream: len(stream.hub.listeners)),
    "tickets_waiting": ("Rows that wait for their targets.", _of("tickets", "waiting")),
}
OF_A_STREAM: dict[str, tuple[str, Value]] = {
    "rmse": ("Root mean squared error of all predictions.", _of("scores", "rmse")),
    "rmse_previous_value": ("The same of the previous value as a prediction.", _of("scores", "rmse_previous_value")),
    "coverage": ("Share of targets inside their intervals.", _of("scores", "coverage")),
    "last_target": ("Target of the newest row, since the server started.", _newest(1)),
    "last_mean": ("What was predicted for it.", _newest(2)),
    "last_lower": ("Lower end of its interval.", _newest(3)),
    "last_upper": ("Upper end of its interval.", _newest(4)),
}
SQUARED = ("Sum of the squared errors of these rows.", _squared_errors)


class Metrics:
    """The metrics of a server.

    Args:
        service: that does the work.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self._requests = Counter(
            "streamgp_requests", "Requests by route and status.", [*ROUTE, "status"], registry=self._registry
        )
        asked = "Seconds from a request to its answer."
        self._seconds = Histogram("streamgp_request_seconds", asked, ROUTE, buckets=BUCKETS, registry=self._registry)
        ProcessCollector("streamgp", registry=self._registry)

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, streams: Iterable[Hosted] | None = None) -> bytes:
        """All metrics, with totals, or with those of single streams in their place."""
        return generate_latest(_Scrape([*self._registry.collect(), *self._server(), *self._streams(streams)]))

    def _server(self) -> Iterator[Metric]:
        service = self._service
        states = GaugeMetricFamily("streamgp_streams", "Streams by state.", labels=["state"])
        for state, number in sorted(Counts(stream.view.state for stream in list(service.streams.values())).items()):
            states.add_metric([state], number)
        yield states
        if service.webhook is not None:
            alarms = "Alarms for the webhook, and attempts that were repeated."
            posted = CounterMetricFamily("streamgp_webhook", alarms, labels=["result"])
            for result, number in service.webhook.counts.items():
                posted.add_metric([result], number)
            yield posted
        yield GaugeMetricFamily("streamgp_journal_bytes", "Size of the file of the service.", service.journal.bytes())
        yield GaugeMetricFamily("streamgp_up", "1 while the server can do its work.", service.status() == "ok")

    def _streams(self, streams: Iterable[Hosted] | None) -> Iterator[Metric]:
        single = [] if streams is None else list(streams)
        counters, gauges = COUNTED, MEASURED
        if streams is not None:
            counters, gauges = counters | {"squared_errors": SQUARED}, gauges | OF_A_STREAM
        for kind, table in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
            for name, (meaning, value) in table.items():
                if streams is None:
                    values = map(value, list(self._service.streams.values()))
                    yield kind(f"streamgp_{name}", meaning, sum(one for one in values if _is_known(one)))
                    continue
                family = kind(f"streamgp_{name}", meaning, labels=["stream"])
                for stream in single:
                    if _is_known(found := value(stream)):
                        family.add_metric([stream.name], found)
                yield family


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


class _Scrape:
    """What is told at once."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> list[Metric]:
        return self._found

"""Metrics in the text format of Prometheus: totals of the server, or of single streams and fleets; and requests."""

from __future__ import annotations

import math
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeGuard

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from streamgp.serve.hosted import Hosted
from streamgp.serve.service import Service

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUTE = ["method", "route"]
# When each counter began: as many lines again, and nobody asks.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


def _newest(column: int) -> Callable[[Hosted], float | None]:
    return lambda stream: None if stream.newest is None else stream.newest[column]


def _squared_errors(stream: Hosted) -> float | None:
    scores = stream.detail.scores
    return None if scores.rmse is None else scores.rows * scores.rmse**2


# Of a stream, by name: the kind, what it means, and the number. Totals of the first group say something, too.
Table = dict[str, tuple[Any, str, Callable[[Hosted], float | None]]]
C, G = CounterMetricFamily, GaugeMetricFamily
TOTALS: Table = {
    "busy_seconds": (C, "Seconds of work.", attrgetter("busy_seconds")),
    "tickets_expired": (C, "Rows that waited too long for their targets.", attrgetter("detail.tickets.expired")),
    "scored_rows": (C, "Rows whose targets have come.", attrgetter("detail.scores.rows")),
    "drift": (C, "Changes that models noticed, since the server started.", lambda stream: stream.noticed["drift"]),
    "repairs": (C, "Numerical repairs; see health.", attrgetter("detail.health.repairs")),
    "alarms": (C, "Alarms, with the setting alarms.", attrgetter("detail.health.alarms")),
    "rows": (G, "Rows so far.", attrgetter("detail.rows")),
    "queue": (G, "Requests that wait.", attrgetter("waiting")),
    "listeners": (G, "Clients that listen to events.", lambda stream: len(stream.hub.listeners)),
    "tickets_waiting": (G, "Rows that wait for their targets.", attrgetter("detail.tickets.waiting")),
}
OF_A_STREAM: Table = TOTALS | {
    "squared_errors": (C, "Sum of the squared errors of the scored rows.", _squared_errors),
    "rmse": (G, "Root mean squared error of all predictions.", attrgetter("detail.scores.rmse")),
    "rmse_previous_value": (
        G,
        "The same of the previous value as a prediction.",
        attrgetter("detail.scores.rmse_previous_value"),
    ),
    "coverage": (G, "Share of targets inside their intervals.", attrgetter("detail.scores.coverage")),
    "last_target": (G, "Target of the newest row, since the server started.", _newest(1)),
    "last_mean": (G, "What was predicted for it.", _newest(2)),
    "last_lower": (G, "Lower end of its interval.", _newest(3)),
    "last_upper": (G, "Upper end of its interval.", _newest(4)),
}
OF_A_FLEET: Table = {
    "fleet_ids": (G, "Sensors of a fleet.", attrgetter("detail.ids")),
    "fleet_rows": (G, "Rows of a fleet so far.", attrgetter("detail.rows")),
    "fleet_alarms": (G, "Alarms of a fleet.", attrgetter("detail.health.alarms")),
}
SPREAD = {  # quantiles over the sensors of a fleet
    "rmse": "Root mean squared error of a sensor.",
    "coverage": "Share of the targets of a sensor inside their intervals.",
}


class Metrics:
    """The metrics of a server.

    Args:
        service: that does the work.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        about, asked = "Requests by route and status.", "Seconds from a request to its answer."
        self._requests = Counter("streamgp_requests", about, [*ROUTE, "status"], registry=self._registry)
        self._seconds = Histogram("streamgp_request_seconds", asked, ROUTE, buckets=BUCKETS, registry=self._registry)
        ProcessCollector("streamgp", registry=self._registry)

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self, streams: Iterable[Hosted] | None = None) -> bytes:
        """All metrics, with totals, or with those of single streams in their place."""
        service = self._service
        of_streams = self._totals() if streams is None else _each(OF_A_STREAM, "stream", list(streams))
        fleets = service.of_kind("fleets")
        of_fleets = chain(_each(OF_A_FLEET, "fleet", fleets), _spread(fleets))
        found = [*chain(self._registry.collect(), self._server(), of_streams, of_fleets)]
        return generate_latest(SimpleNamespace(collect=lambda: found))

    def _server(self) -> Iterator[Metric]:
        service = self._service
        states = Counts(stream.detail.state for stream in list(service.streams.values()))
        yield _labelled(G, "streams", "Streams by state.", "state", sorted(states.items()))
        if service.webhook is not None:
            alarms = "Alarms for the webhook, and attempts that were repeated."
            yield _labelled(C, "webhook", alarms, "result", service.webhook.counts.items())
        yield G("streamgp_journal_bytes", "Size of the file of the service.", service.journal.bytes())
        yield G("streamgp_up", "1 while the server can do its work.", service.status() == "ok")

    def _totals(self) -> Iterator[Metric]:
        streams = list(self._service.streams.values())
        for name, (kind, meaning, value) in TOTALS.items():
            yield kind(f"streamgp_{name}", meaning, sum(filter(_is_known, map(value, streams))))


def _each(table: Table, label: str, streams: list[Hosted]) -> Iterator[Metric]:
    for name, (kind, meaning, value) in table.items():
        yield _labelled(kind, name, meaning, label, [(stream.name, value(stream)) for stream in streams])


def _labelled(kind: Any, name: str, meaning: str, label: str, values: Iterable[tuple[str, float | None]]) -> Any:
    family = kind(f"streamgp_{name}", meaning, labels=[label])
    for of, value in values:
        if _is_known(value):
            family.add_metric([of], value)
    return family


def _spread(fleets: Iterable[Hosted]) -> Iterator[Metric]:
    """Few numbers of each fleet, however many sensors it has."""
    for score, meaning in SPREAD.items():
        family = G(f"streamgp_fleet_{score}", meaning, labels=["fleet", "quantile"])
        for fleet in fleets:
            for quantile, found in fleet.detail.spread.get(score, {}).items():
                family.add_metric([fleet.name, quantile], found)
        yield family


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)

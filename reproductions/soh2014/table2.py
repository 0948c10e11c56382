"""Table II: the same with an irrelevant input."""

from __future__ import annotations

from .benchmarks import experiment

EXPERIMENT = experiment("Table II: the same with an irrelevant input", irrelevant=1)

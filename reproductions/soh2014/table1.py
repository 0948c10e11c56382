"""Table I: eight noisy series, seven methods."""

from __future__ import annotations

from .benchmarks import experiment

EXPERIMENT = experiment("Table I: eight noisy series, seven methods", irrelevant=0)

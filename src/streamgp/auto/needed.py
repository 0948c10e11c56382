"""The compiled functions that Auto calls: those that its first rows ask for, and those of later rows."""

from __future__ import annotations

from functools import cache

from streamgp.auto import step
from streamgp.compiled import compile_now, fill_cache
from streamgp.contract import checks, ladder, spacing
from streamgp.kernels import program
from streamgp.process import budget, features, observation, stream, temporal_evidence
from streamgp.process import time as passing
from streamgp.recipes import naive
from streamgp.wrappers import aggregation, conformal, drift, outliers, scaling

# Two processes compile every second one each: large ones stand so that both have as much to do.
# Naive values and least squares, which predict the first rows.
FIRST = (
    stream.run_fixed,
    conformal.calibrate,
    step.run_lines,
    aggregation.combine,
    step.weigh,
    ladder.evaluate,
    step.see,
    outliers.screen,
    outliers.doubt,
    drift.sizes_beside,
    drift.watch,
    naive.follow,
    scaling.to_standard,
    checks.check,
    spacing.note,
    spacing.usual,
)
KERNELS = (program.weighted_gradient, program.matrix)
OVER_TIME = (passing.arrive, passing.pass_time, passing.report_components)
PROCESSES = (
    temporal_evidence.regular,
    stream.run_growing,
    features.kernel_values,
    *KERNELS,
    budget.least_distinct,
    *OVER_TIME,
    observation.as_gaussian,
)


@cache
def compile_first() -> None:
    """Load what the first rows call, and compile what later rows call, so that no compilation falls inside a stream."""
    fill_cache(*FIRST, *PROCESSES)
    compile_now(*FIRST)

"""How everything here is timed: blocks of rows, the contestants in turn, and medians.

A block is some rows of one contestant; a round is one block of each. Other work on the machine slows a whole round, so
it hits all contestants alike: ratios are medians over rounds of the ratio within a round. There is one thread, also in
BLAS, and the clock is the thread's own time on a processor: what other programs take of it does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

# Given a number of rows, gets them ready (untimed) and returns what is timed.
Work = Callable[[int], Callable[[], object]]

CLOCK = time.thread_time
BLOCK_SECONDS = 2e-2  # long against the clock and a cold cache, short against the changes of the machine's load
BUDGET_SECONDS = 3.0  # of one contestant


def seconds(run: Callable[[], object], clock: Callable[[], float] | None = None) -> float:
    clock = clock or CLOCK
    start = clock()
    run()
    return clock() - start


def rows_per_block(work: Work) -> int:
    """So many rows that a block takes about as long as it should: tens, or some if even ten take too long."""
    rows = 1
    work(rows)()  # the first call of a process loads what it needs: such a block would be far too short
    while (taken := seconds(work(rows))) < BLOCK_SECONDS / 4:
        rows *= 2
    wanted = rows * BLOCK_SECONDS / taken
    return max(1, round(wanted)) if wanted < 5 else 10 * max(1, round(wanted / 10))


def interleaved(works: Mapping[str, Work], rounds: int) -> dict[str, np.ndarray]:
    """Microseconds per row of every contestant, one number for each round; a slow one drops out of the later rounds."""
    times: dict[str, list[float]] = {name: [] for name in works}
    with threadpool_limits(limits=1):
        counts = {name: rows_per_block(work) for name, work in works.items()}
        left = dict.fromkeys(works, BUDGET_SECONDS)
        for _ in range(rounds):
            for name, work in works.items():
                if left[name] > 0:
                    work(1)()  # its arrays are in the cache again
                    taken = seconds(work(counts[name]))
                    times[name].append(1e6 * taken / counts[name])
                    left[name] -= taken
    return {name: np.array(values) for name, values in times.items()}


def calls(function: Callable[..., object], arguments: Sequence[tuple[object, ...]]) -> np.ndarray:
    """Microseconds of a call with each of the arguments."""
    clock, times = CLOCK, np.empty(len(arguments))
    with threadpool_limits(limits=1):
        for i, values in enumerate(arguments):
            start = clock()
            function(*values)
            times[i] = clock() - start
    return 1e6 * times


def summary(times: np.ndarray) -> dict[str, float]:
    """Median and 99th percentile over the blocks."""
    return {"median": figures(np.median(times)), "p99": figures(np.percentile(times, 99)), "blocks": len(times)}


def ratio(times: np.ndarray, reference: np.ndarray) -> float:
    """The median, over the rounds that both took part in, of the ratio within a round."""
    n = min(len(times), len(reference))
    return figures(np.median(times[:n] / reference[:n]))


def difference(times: np.ndarray, reference: np.ndarray) -> float:
    """The median over rounds of the difference within a round."""
    return figures(np.median(times - reference))


def figures(value: float) -> float:
    """Four significant figures."""
    return float(f"{value:.4g}")

"""How everything here is timed: blocks of rows, the contestants in turn, and medians.

A block is some rows of one contestant; a round is one block of each. Other work on the machine slows a whole round, so
it hits all contestants alike: ratios are medians over rounds of the ratio within a round. There is one thread, also in
BLAS, and the clock is the thread's own time on a processor: what other programs take of it does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from threadpoolctl import threadpool_limits

threadpool_limits(limits=1)

# Given a number of rows, gets them ready (untimed) and returns what is timed.
Work = Callable[[int], Callable[[], object]]

BLOCK_SECONDS = 5e-3  # long against the clock and a cold cache, short against the changes of the machine's load


def seconds(run: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    start = clock()
    run()
    return clock() - start


def rows_per_block(work: Work, block: float = BLOCK_SECONDS) -> int:
    """So many rows that a block takes about as long as it should, at least one."""
    rows = 1
    while (taken := seconds(work(rows))) < block / 4 and rows < 1 << 20:
        rows *= 2
    return max(1, min(round(rows * block / taken), 1 << 20))


def interleaved(
    works: Mapping[str, Work], rounds: int, block: float = BLOCK_SECONDS, rows: int | None = None
) -> dict[str, np.ndarray]:
    """Microseconds per row of every contestant, one number for each round."""
    counts = {name: rows or rows_per_block(work, block) for name, work in works.items()}
    times: dict[str, np.ndarray] = {name: np.empty(rounds) for name in works}
    for i in range(rounds):
        for name, work in works.items():
            work(1)()  # its arrays are in the cache again
            times[name][i] = 1e6 * seconds(work(counts[name])) / counts[name]
    return times


def summary(times: np.ndarray) -> dict[str, float]:
    """Median and 99th percentile over the blocks."""
    return {"median": figures(np.median(times)), "p99": figures(np.percentile(times, 99))}


def ratio(times: np.ndarray, reference: np.ndarray) -> float:
    return figures(np.median(times / reference))


def difference(times: np.ndarray, reference: np.ndarray) -> float:
    return figures(np.median(times - reference))


def figures(value: float) -> float:
    """Four significant figures."""
    return float(f"{value:.4g}")

"""The kernels of a GPU: one block of threads runs the rows of a model.

Its record lies in shared memory while its rows pass: an absorbed row then costs about what it takes to copy the record
once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.cuda.lanes import WARP, WIDE, gpu_lanes
from streamgp.cuda.ptx import cached_kernel, cuda, fetch, fetched, put_back
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    OWN_PARAMETERS,
    PARAMETERS,
    PER_UNIT,
    POINTS,
    PREDICTED,
    ROWS,
    SCALES,
    SHARED,
    UNIT,
)
from streamgp.cuda.whitened import BasisShape

SINGLE_REGISTERS = 80  # of a thread in single precision: more blocks are at work then, 6.2 for 6.8 ms
AT_ONCE = 1024  # blocks and threads that copy


def threads_for(points: int) -> int:
    """Whole warps, a lane for each point."""
    return -(-points // WARP) * WARP


@cache
def kernel(shape: BasisShape, number: type, conditioned: bool) -> Any:
    """The compiled kernel for models of this shape; where rows have no noise of their own, nobody waits for that."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    on = gpu_lanes(lanes, number, scratch["meeting"])
    meet, place, predict, learn, _ = shape.build(on)
    width, has_own, learned_with, counted = shape.width, SCALES + 2 * shape.width, len(PARAMETERS), len(COUNTS)
    most = max(has_own, counted, len(SHARED))
    N, D, ABSORBED, CLEAR, CLEARED = map(U, (shape.numbers, width, shape.absorbed, *shape.cleared))
    threads, each, zero, one, MOST, OWN, COUNTED_, ALL, MINE, TARGETS, PER_TARGET = map(
        U, (lanes, WIDE // shape.bytes, 0, 1, most, has_own, counted, len(SHARED), OWN_PARAMETERS, UNIT, PER_UNIT)
    )

    @cached_kernel(max_registers=SINGLE_REGISTERS if shape.bytes == 4 else None)
    def run(
        records: Any,
        origins: Any,
        counts: Any,
        owned: Any,
        models: Any,
        starts: Any,
        X: Any,
        Y: Any,
        given: Any,
        out: Any,
        shared: Any,
        found: Any,
        step: Any,
        mode: Any,
    ) -> None:
        """Rows of a block are those from its start on, one after the other, or ``step`` apart where that is not 0."""
        f = cuda.shared.array(0, number)
        mine = cuda.shared.array(counted, np.int64)
        x, origin = cuda.shared.array(width, np.float64), cuda.shared.array(width, np.float64)
        own, parameters = cuda.shared.array(has_own, np.float64), cuda.shared.array(learned_with, number)
        me, block = U(cuda.threadIdx.x), U(cuda.blockIdx.x)
        model, shift = U(models[block]), U(starts[zero])
        record, at = model * N, me * each
        while at < N:
            fetch(f, at, records, record + at)
            at += threads * each
        # What else the first row needs is read while the record comes, all of it before a thread waits for any of it.
        t, apart = (block, U(step)) if step > 0 else (U(starts[block]) - shift, one)
        left, unfit, y = U(starts[block + one]) - U(starts[block]), found[zero], Y[t]
        j = me
        while j < MOST:
            x_j, origin_j = X[t, min(j, D - one)], origins[model, min(j, D - one)]
            own_j, count = owned[model, min(j, OWN - one)], counts[model, min(j, COUNTED_ - one)]
            common = shared[min(j, ALL - one)]
            if j < D:
                x[j], origin[j] = x_j, origin_j
            if j < OWN:
                own[j] = own_j
            if j < MINE:
                parameters[ALL + j] = number(own_j)
            if j < COUNTED_:
                mine[j] = count
            if j < ALL:
                parameters[j] = common
            j += threads
        fetched()
        if unfit != 0:  # rows that cannot be taken: nothing changes
            return
        cuda.syncthreads()
        at = CLEAR + me
        while at < CLEARED:
            f[at] = number(0)
            at += threads
        changed, learned = False, False
        while left > zero:
            target = mode != PREDICTED and y == y
            if conditioned and me == zero:  # the others need it after they have predicted
                meet(parameters, own, given[t])
            changed = place(f, x, origin, own, target, mine) or changed
            mean, variance, square, known = predict(f, parameters, shared)
            if me == zero:
                out[0, t], out[1, t] = mean * own[TARGETS], variance * (own[TARGETS] * own[TARGETS])
            if mode != PREDICTED:
                if target:
                    learned = True
                    scaled = number(y * own[PER_TARGET])
                    changed = learn(f, parameters, scaled, mean, square, known, mine) or changed
                elif me == zero:
                    mine[CHANGE] = 0
                if me == zero and mode == COUNTED:
                    mine[ROWS] += 1
            t, left = t + apart, left - one
            if left > zero:
                y, j = Y[t], me
                while j < D:
                    x[j] = X[t, j]
                    j += threads
            cuda.syncthreads()
        if learned:
            j = me
            while j < D:
                origins[model, j] = origin[j]
                j += threads
            at, end = me * each, N if changed else ABSORBED
            while at < end:
                put_back(f, at, records, record + at)
                at += threads * each
        if mode != PREDICTED and cuda.threadIdx.x < counted:
            counts[model, me] = mine[me]

    return run


@cache
def inspection(shape: BasisShape, number: type) -> Any:
    """The kernel that looks at some models."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    off = shape.build(gpu_lanes(lanes, number, scratch["meeting"])).off
    N, CLEAR, CLEARED, threads, each = map(U, (shape.numbers, *shape.cleared, lanes, WIDE // shape.bytes))

    @cached_kernel()
    def look(records: Any, counts: Any, models: Any, parameters: Any, off_by: Any) -> None:
        """Of each model, how far it is off."""
        f = cuda.shared.array(0, number)
        me, model = U(cuda.threadIdx.x), U(models[cuda.blockIdx.x])
        at = me * each
        while at < N:
            fetch(f, at, records, model * N + at)
            at += threads * each
        fetched()
        cuda.syncthreads()
        at = CLEAR + me
        while at < CLEARED:
            f[at] = number(0)
            at += threads
        cuda.syncthreads()
        worst = off(f, parameters, U(counts[model, POINTS]))
        if cuda.threadIdx.x == 0:
            off_by[cuda.blockIdx.x] = worst

    return look


@cached_kernel(fastmath=False)
def gather(target: Any, source: Any, which: Any) -> None:
    """Row i of target is row which[i] of source."""
    for i in range(cuda.blockIdx.x, target.shape[0], cuda.gridDim.x):
        for j in range(cuda.threadIdx.x, target.shape[1], cuda.blockDim.x):
            target[i, j] = source[which[i], j]


@cached_kernel(fastmath=False)
def scatter(target: Any, source: Any, which: Any) -> None:
    """Row which[i] of target is row i of source; one row stands for all."""
    for i in range(cuda.blockIdx.x, which.shape[0], cuda.gridDim.x):
        row = i if source.shape[0] > 1 else 0
        for j in range(cuda.threadIdx.x, target.shape[1], cuda.blockDim.x):
            target[which[i], j] = source[row, j]


@cached_kernel(fastmath=False)
def find_unfit(X: Any, Y: Any, learned: Any, bound: Any, found: Any) -> None:
    """Set found[0] where an input is no number within LARGEST, or a target is beyond the bound."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    largest = LARGEST
    for i in range(first, X.shape[0], step):
        fine = learned == 0 or not abs(Y[i]) > bound
        for j in range(X.shape[1]):
            fine = fine and abs(X[i, j]) <= largest
        if not fine:
            found[0] = 1

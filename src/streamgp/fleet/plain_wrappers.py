"""PlainWrappers: wrappers in ordinary memory, run by plain Python; what a GPU does, slowly, for the tests."""

from __future__ import annotations

import numpy as np

from streamgp.cuda.plain import PlainMemory
from streamgp.cuda.record import COUNTED, PREDICTED, ROW_TIME, Look, UnfitError
from streamgp.fleet.wrapping import AroundShape, Standard, build, nothing, plain_thread
from streamgp.wrappers import outliers

NOBODY = np.zeros(1, np.int64)


class PlainWrappers:
    """See gpu_wrappers.GpuWrappers."""

    def __init__(self, memory: PlainMemory, shape: AroundShape, warmup: int, plan: np.ndarray) -> None:
        self._memory, self._shape, self._warmup, self._plan = memory, shape, warmup, plan
        self._functions, self._named = build(plain_thread(), shape), nothing()

    def up(self, named: dict[str, np.ndarray]) -> None:
        self._named |= {name: array.copy() for name, array in named.items()}

    def down(self, names: tuple[str, ...], which: np.ndarray | None = None) -> dict[str, np.ndarray]:
        return {name: self._named[name].copy() if which is None else self._named[name][which] for name in names}

    def write(self, which: np.ndarray, named: dict[str, np.ndarray]) -> None:
        for name, values in named.items():
            self._named[name][which] = values

    def _standard(self) -> Standard:
        return Standard(*(self._named[name] for name in Standard._fields))

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray,
        given: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
        largest: float,
        bound: float,
        report: bool,
    ) -> np.ndarray | None:
        learned = mode != PREDICTED
        beyond = ~np.isfinite(X).all() or (np.abs(X) > largest).any()
        alone = (np.isnan(Y) != np.isnan(Y[:, :1])).any()
        if beyond or (learned and (alone or np.isinf(Y).any() or (np.abs(Y) > largest).any())):
            raise UnfitError
        s, Y = self._standard(), Y.copy()
        into, targets = np.empty_like(X), np.empty_like(Y)
        known = np.empty((len(models), self._shape.outputs), np.int64)
        conditions = np.empty((0, ROW_TIME + 1)) if given is None else given.copy()
        rows = [
            (k, step, starts[k + 1] - starts[k]) if step else (starts[k] - starts[0], 1, starts[k + 1] - starts[k])
            for k in range(len(models))
        ]
        for k, i in enumerate(models.tolist()):
            self._functions.enter(
                *(s, i, k, *rows[k], X, Y, conditions, self._memory._own, NOBODY, given is not None, learned),
                *(self._warmup, bound, into, targets, known),
            )
        given = None if given is None else conditions
        out = self._memory.run(models, starts, into, targets, given, mode, step, look, bound)
        told = np.empty((self._shape.told, *Y.shape))
        for k, i in enumerate(models.tolist()):
            own = self._memory._own
            self._functions.leave(s.target_shift, s.target_scale, i, k, *rows[k], out, own, known, told)
            if self._shape.parts:
                counters = self._named["counters"].view(np.recarray)
                self._functions.calibrate(self._plan, counters, self._named["buffers"], i, *rows[k], Y, told)
        return told if report else None

    def renew(self, models: np.ndarray, counts: np.ndarray, bound: float) -> None:
        s, starts = self._standard(), np.concatenate([[0], np.cumsum(counts)])
        n, p = int(starts[-1]), self._shape.outputs
        X, Y, given = (np.empty((n, width)) for width in (self._shape.width, p, ROW_TIME + 1))
        states, own = np.zeros((len(models), p, outliers.NUMBERS)), self._memory._own
        for k, i in enumerate(models.tolist()):
            self._functions.renew(s, i, k, starts[k], states, NOBODY, own, self._warmup, bound, X, Y, given)
        self._memory.run(models, starts, X, Y, given, COUNTED, 0, Look(), bound)

"""Alarms of a fleet: one budget for all models, shared by rules that control false discoveries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamgp.compiled import compile_now
from streamgp.contract.conditions import TIME
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray
from streamgp.wrappers import surprise
from streamgp.wrappers.alarms import KINDS, Alarm, deviations, rate_of

MOST_RATE = 0.5  # alarms for each row of the whole fleet
MEMORY, WARMUP = (
    5000,
    100,
)  # rows of a model over which errors count, and before which they raise no alarm, as of Alarms
ENOUGH = 1000.0  # scores of all models that make a tail
HISTORY = 1000  # alarms that are listed
FIELDS = 8  # of a listed alarm: the id, and the fields of Alarm but the cause


def fleet_rate(name: str, value: Any) -> tuple[float, float]:
    """False alarms of all models together, for each row of the whole fleet and for each second; one of them is 0."""
    return rate_of(name, value, most=MOST_RATE)


def discoveries(p_values: FloatArray, level: float) -> np.ndarray:
    """Which p-values are small enough that the share of false ones among them is at most the level on average.

    [Benjamini and Hochberg 1995]: the k smallest, for the largest k with p_(k) <= level k / n. While nothing is
    abnormal there are any with probability ``level``.

    Args:
        p_values: (n,).
        level: of false discoveries.

    Example:
        >>> import numpy as np
        >>> discoveries(np.array([0.2, 0.011, 0.7, 0.004]), 0.05).tolist()
        [False, True, False, True]
    """
    n = len(p_values)
    few = np.sort(p_values[p_values <= level])  # no other can be
    kept = np.flatnonzero(few <= level * np.arange(1, len(few) + 1) / n)
    return np.asarray(p_values <= (few[kept[-1]] if len(kept) else -1.0))


def level_of(allowed: float) -> float:
    """The level at which there are this many discoveries on average while nothing is abnormal.

    Of many independent p-values there are level / (1 - level)^2 [Finner and Roters 2002]: where there is one, there may
    be more.
    """
    return 2.0 * allowed / (1.0 + 2.0 * allowed + math.sqrt(1.0 + 4.0 * allowed))


def e_discoveries(evidence: FloatArray, level: float, n: int) -> np.ndarray:
    """The same by evidence, whatever the dependence: the k largest, for the largest k with e_(k) >= n / (level k).

    [Wang and Ramdas 2022]

    Args:
        evidence: e-values of some of the streams.
        level: of false discoveries.
        n: streams in all.
    """
    many = np.sort(evidence[evidence * level >= 1.0])[::-1]
    kept = np.flatnonzero(many * level * np.arange(1, len(many) + 1) >= n)
    return np.asarray(evidence >= (many[kept[-1]] if len(kept) else np.inf))


def limit_of(probability: float) -> float:
    """The surprise of a p-value."""
    return -math.log(max(probability, surprise.LEAST_P))


class Watch:
    """Judges the rows of all models of a fleet."""

    def __init__(self, rate: tuple[float, float], size: int, outputs: int) -> None:
        self._rate, self.outputs = rate, outputs
        self._named = {
            "counts": np.zeros(2 * surprise.SIDE),
            "tail": np.zeros(surprise.FITTED),
            "progress": np.zeros(surprise.PROGRESS),
            "units": np.zeros((size * outputs, 2)),
            "evidence": np.zeros((size * outputs, surprise.WATCHED)),
            "clock": np.zeros(surprise.CLOCK),
            "events": np.zeros((HISTORY, FIELDS)),  # a ring
            "noted": np.zeros(1, dtype=np.int64),
        }
        self._named["progress"][surprise.UNFITTED] = -1.0
        compile_now(surprise.judge_together, surprise.count_together, surprise.mean_gaps)

    @property
    def noted(self) -> int:
        """Alarms so far."""
        return int(self._named["noted"][0])

    def judge(
        self,
        models: np.ndarray,
        rows: np.ndarray,
        prediction: Prediction,
        Y: FloatArray,
        conditions: FloatArray | None = None,
    ) -> tuple[FloatArray, float]:
        """Judge at most one row of each model, by its number and what was predicted before its target came.

        Returns:
            Surprises and kinds, (2, n, p), and the surprise from which on rows are spikes, as of Alarms.
        """
        named, p = self._named, self.outputs
        streams = (models[:, None] * p + np.arange(p)).ravel()
        Z = deviations(prediction, Y, conditions).ravel()
        time = None if conditions is None else conditions[:, TIME]
        nats, found, changes = (np.empty(len(Z)) for _ in range(3))
        numbers = named["counts"], named["tail"], named["progress"]
        how, out = (float(MEMORY), float(WARMUP), ENOUGH), (nats, found, changes, np.empty(surprise.ROOM))
        surprise.judge_together(Z, streams, *how, *numbers, named["units"], named["evidence"], *out)
        kinds = np.zeros(len(Z), dtype=np.int64)
        judged = np.flatnonzero(~np.isnan(nats))
        budget = self._budget(len(judged), time)
        allowed = surprise.SPIKES * budget
        if budget > 0 and len(judged):
            pace, size = named["progress"][surprise.PACE :][:1], len(named["units"])
            spikes = discoveries(np.exp(-nats[judged]), level_of(allowed * math.exp(pace[0])))
            paid = surprise.PAID * (allowed - np.count_nonzero(spikes))
            pace[0] = np.clip(pace[0] + paid, -surprise.MOST_PAID, surprise.MOST_PAID)
            kinds[judged[spikes]] = surprise.SPIKE
            of_all = surprise.CHANGES * budget * size / len(judged)
            changed = judged[e_discoveries(found[judged], of_all, size)]
            kinds[changed] = changes[changed]
            named["units"][streams[changed]] = named["evidence"][streams[changed]] = 0.0
        allowed /= max(len(judged), 1)
        Z[(kinds > 0) & (nats > surprise.BROKEN * limit_of(allowed))] = np.nan
        kept = (1.0 - 1.0 / MEMORY) ** (len(Z) / len(named["units"]))
        surprise.count_together(Z, kept, named["counts"], named["progress"])
        changed = kinds > surprise.SPIKE
        nats[changed] = np.log(found[changed])  # what was compared with the budget
        for at in np.flatnonzero(kinds != surprise.NONE):
            t, j = divmod(int(at), p)
            when = np.nan if time is None else time[t]
            event = models[t], rows[t], kinds[at], nats[at], Y[t, j], prediction.mean[t, j], j, when
            named["events"][named["noted"][0] % HISTORY] = event
            named["noted"] += 1
        # Of k discoveries the least one may be k times as probable as a single one (Benjamini and Hochberg).
        limit = limit_of(allowed * max(int(np.count_nonzero(kinds == surprise.SPIKE)), 1))
        return np.array([nats, kinds]).reshape(2, -1, p), limit

    def _budget(self, judged: int, time: FloatArray | None) -> float:
        """Alarms that this many rows may raise on average."""
        per_row, per_second = self._rate
        if not per_second:
            return per_row * judged / len(self._named["units"])
        times = np.full(1, np.nan) if time is None else np.ascontiguousarray(time)
        means = np.empty(len(times))
        surprise.mean_gaps(self._named["clock"], times, means)
        return float(min(per_second * means[-1] * judged / self.outputs, MOST_RATE))

    def events(self) -> list[Alarm]:
        """The last alarms, oldest first."""
        count = int(self._named["noted"][0])
        rows = (self._named["events"][i % HISTORY].tolist() for i in range(max(0, count - HISTORY), count))
        return [
            Alarm(int(row), KINDS[int(kind)], nats, observed, expected, int(output), time, id=int(id_))
            for id_, row, kind, nats, observed, expected, output, time in rows
        ]

    # Models that come and go.

    def add(self, n: int) -> None:
        """Add models at the end."""
        for name in ("units", "evidence"):
            array = self._named[name]
            self._named[name] = np.concatenate([array, np.zeros((n * self.outputs, array.shape[1]))])

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        streams = (which[:, None] * self.outputs + np.arange(self.outputs)).ravel()
        for name in ("units", "evidence"):
            self._named[name] = self._named[name][streams].copy()

    def start_again(self, i: int) -> None:
        """Model i is another one."""
        streams = slice(i * self.outputs, (i + 1) * self.outputs)
        self._named["units"][streams] = self._named["evidence"][streams] = 0.0

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name, as arrays that can be written to."""
        return {f"alarms.{name}": array for name, array in self._named.items()}

    def check_restored(self) -> None:
        """Refuse a state that no stream leads to."""
        for name, array in self._named.items():
            lowest = {"progress": -surprise.MOST_PAID, "clock": -np.inf, "events": -np.inf}.get(name, 0.0)
            require(name, array, at_least=lowest, finite=name != "events")
        require("the kinds of alarms", self._named["events"][:, 2], at_least=0, at_most=len(KINDS) - 1)
        if self._named["progress"][surprise.UNFITTED] >= 0:
            require("the scale of the tail", self._named["tail"][surprise.SCALE :][:1], above=0)

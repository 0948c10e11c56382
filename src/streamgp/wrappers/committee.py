"""Committee: several stream models side by side, and at every row the word of those that erred least of late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract.atomic import undone_on_error
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.wrapper import Composite

# An error beyond this is as large as any; sums of its square are still numbers.
FAR = 1e75
# A mean squared error below this counts as this, so that it has a logarithm.
TINY = 1e-300


class Committee(Composite):
    """A mean of several stream models, weighted by how they erred over about the last ``memory`` rows.

    All members predict and learn every row. The weight of a member is the likelihood of its last errors under a
    Gaussian of their mean square, mse ** (-rows / 2): where one is clearly better it speaks alone, where several are as
    good their mean is better still [Raftery et al. 2010]. Variance and noise are those of the mixture. What can be read
    of the model (``basis``, ``hyperparameters``, ``relevance()``...) is the leader's, the one with the most weight.

    Args:
        models: the stream models, which have learnt nothing.
        memory: rows over which errors count.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> x = np.linspace(0.0, 20.0, 400)
        >>> model = sg.Committee([sg.KRLST(sg.SquaredExponential(1.0)), sg.OnlineGP(sg.Linear())])
        >>> p = model.track(x, np.where(x < 10, 3.0 * x, 30.0 + 5.0 * np.sin(3 * x)))
        >>> model.leader, model.weights.shape
        (0, (2,))
    """

    _setting = "models"
    _sums: FloatArray  # (members, p) discounted squared errors
    _counts: FloatArray  # (p,) discounted rows

    def __init__(self, models: Sequence[StreamModel], *, memory: int = 100) -> None:
        given = models if isinstance(models, list | tuple) else [models]
        self._hold(given, "a list of stream models such as [KRLST(), ISSGPR()]")
        self._discount = 1.0 - 1.0 / whole("memory", memory, at_least=2)

    # The state.

    def _children(self) -> dict[str, StreamModel]:
        return {f"member.{k}": member for k, member in enumerate(self._models)}

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._sums, self._counts = np.zeros((len(self._models), p)), np.zeros(p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"sums": self._sums, "counts": self._counts}

    def _check_restored(self) -> None:
        require("sums", self._sums, at_least=0)
        require("counts", self._counts, at_least=0, at_most=1.0 / (1.0 - self._discount) + 1e-6)
        super()._check_restored()

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        self._refuse_unfit(X, Y)
        with undone_on_error(self, len(X)):
            predictions = [member._advance(X, Y, report or Y is not None) for member in self._models]
            sums, counts = (self._sums[None], self._counts[None]) if Y is None else self._follow(predictions, Y)
            return self._mixed(predictions, sums, counts) if report else None

    def _predict(self, X: FloatArray) -> Prediction:
        return self._mixed([member._predict(X) for member in self._models], self._sums[None], self._counts[None])

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return _Shares(self, count, steps)

    def _follow(self, predictions: list[Any], Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Take in the errors of rows; return the sums (n, members, p) and counts (n, p) as they were before each."""
        errors = np.stack([Y - prediction.mean for prediction in predictions], axis=1)
        squares = np.where(np.isfinite(errors), np.clip(errors, -FAR, FAR), FAR) ** 2
        known = ~np.isnan(Y)
        sums, counts = np.empty(squares.shape), np.empty(Y.shape)
        now, rows = self._sums, self._counts
        for t in range(len(Y)):
            sums[t], counts[t] = now, rows
            now = np.where(known[t], self._discount * now + squares[t], now)
            rows = np.where(known[t], self._discount * rows + 1.0, rows)
        self._sums[:], self._counts[:] = now, rows
        return sums, counts

    def _mixed(self, predictions: list[Any], sums: FloatArray, counts: FloatArray) -> Prediction:
        """The moments of the mixture."""
        weights = _weights(sums, counts)
        shape = (len(predictions[0].mean), len(predictions), sums.shape[2])
        mean, variance, noise = (
            np.broadcast_to(np.stack([getattr(prediction, name) for prediction in predictions], axis=1), shape)
            for name in ("mean", "variance", "noise")
        )
        # A member that has diverged has no say.
        sane = np.abs(mean) < FAR
        weights = np.where(sane, weights, 0.0)
        total = weights.sum(1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / weights.shape[1])
        mean = np.where(sane, mean, 0.0)
        middle = np.sum(weights * mean, axis=1)
        spread = np.sum(weights * (mean - middle[:, None]) ** 2, axis=1)
        return Prediction(middle, _weighted(weights, variance) + spread, _weighted(weights, noise))

    # What can be read.

    @property
    def weights(self) -> FloatArray:
        """The present weight of every member, averaged over outputs; they sum to 1."""
        if self._d is None:
            return np.full(len(self._models), 1.0 / len(self._models))
        return np.asarray(_weights(self._sums[None], self._counts[None])[0].mean(1))

    @property
    def leader(self) -> int:
        """Which member has the most weight, the first one 0."""
        return int(np.argmax(self.weights))

    @property
    def members(self) -> list[StreamModel]:
        """Copies of the models within."""
        return [member.copy() for member in self._models]

    def _shown(self) -> StreamModel:
        return self._models[self.leader]


class _Shares(Trajectories):
    """Each trajectory follows one member; a member has as many of them as its weight says."""

    def __init__(self, committee: Committee, count: int, steps: int) -> None:
        edges = np.round(np.cumsum(committee.weights) * count).astype(int)
        edges[-1] = count
        starts = [0, *edges[:-1].tolist()]
        shares = [slice(start, stop) for start, stop in zip(starts, edges.tolist(), strict=True)]
        self._parts = [
            (own, member._trajectories(own.stop - own.start, steps))
            for own, member in zip(shares, committee._models, strict=True)
            if own.stop > own.start
        ]

    def predict(self, X: FloatArray) -> Step:
        steps = [futures.predict(X[own]) for own, futures in self._parts]
        return Step(*(np.concatenate(parts) for parts in zip(*steps, strict=True)))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for own, futures in self._parts:
            futures.record(values[own], targets[own])


def _weights(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """(n, members, p) weights from discounted squared errors (n, members, p) and rows (n, p)."""
    rows = np.where(counts > 0, counts, 1.0)[:, None]
    evidence = -0.5 * rows * np.log(np.maximum(sums / rows, TINY))
    evidence = np.where(counts[:, None] > 0, evidence, 0.0)
    likelihood = np.exp(evidence - evidence.max(1, keepdims=True))
    result: FloatArray = likelihood / likelihood.sum(1, keepdims=True)
    return result


def _weighted(weights: FloatArray, values: FloatArray) -> FloatArray:
    """A weighted mean over members, in which what has no weight may be anything."""
    result: FloatArray = np.sum(np.where(weights > 0, weights * values, 0.0), axis=1)
    return result

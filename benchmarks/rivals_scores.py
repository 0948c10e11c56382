"""Scores of predicted distributions, and wins and losses by paired blocks, as rivals_protocol.toml says."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

SCORES = ("rmse", "mae", "crps", "log density")
LOSSES = ("squared error", "crps")
FEWEST_ERRORS = 20  # before which no distribution is made of them
LEAST_WIDTH = 1e-150  # of kernels, where all errors are the same


class Distributions(Protocol):
    """The predicted distributions of all rows."""

    @property
    def mean(self) -> np.ndarray: ...

    def quantile(self, q: float) -> np.ndarray: ...

    def log_density(self, y: np.ndarray) -> np.ndarray: ...


class OfErrors:
    """Distributions made of means and of the last errors that were known before each row.

    Args:
        mean: (n,) predictions.
        y: (n,) targets, NaN where missing.
        window: how many errors.
    """

    def __init__(self, mean: np.ndarray, y: np.ndarray, window: int) -> None:
        self.mean = mean
        errors = y - mean
        known = np.flatnonzero(np.isfinite(errors))
        before = np.searchsorted(known, np.arange(len(y)))
        at = before[:, None] - window + np.arange(window)
        self._errors = np.where(at >= 0, errors[known][np.maximum(at, 0)], np.nan) if len(known) else np.nan * at
        self._errors[before < FEWEST_ERRORS] = np.nan
        self._rows = before >= FEWEST_ERRORS

    def quantile(self, q: float) -> np.ndarray:
        found = np.full(len(self.mean), np.nan)
        if self._rows.any():
            found[self._rows] = np.nanquantile(self._errors[self._rows], q, axis=1, method="weibull")
        return self.mean + found

    def log_density(self, y: np.ndarray) -> np.ndarray:
        found, rows = np.full(len(self.mean), np.nan), self._rows
        if not rows.any():
            return found
        errors, error = self._errors[rows], (y - self.mean)[rows]
        count = np.isfinite(errors).sum(axis=1)
        spread = np.maximum(np.nanstd(errors, axis=1), LEAST_WIDTH)
        quartiles = (self.quantile(0.75) - self.quantile(0.25))[rows]
        # [Silverman 1986] Eq. (3.31)
        robust = np.where(quartiles > 0, np.minimum(spread, quartiles / 1.34), spread)
        width = np.maximum(0.9 * robust * count**-0.2, LEAST_WIDTH)[:, None]
        kernels = np.exp(-0.5 * ((error[:, None] - errors) / width) ** 2) / (np.sqrt(2 * np.pi) * width)
        cauchy = 1.0 / (np.pi * spread * (1.0 + (error / spread) ** 2))
        found[rows] = np.log((np.nansum(kernels, axis=1) + cauchy) / (count + 1))
        return found


def grid(count: int) -> list[float]:
    """Levels of so many quantiles that share the probability."""
    return [(i + 0.5) / count for i in range(count)]


def crps(quantiles: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The CRPS of distributions with equal masses at their quantiles of grid(count), (count, n): pinball losses."""
    levels = np.array(grid(len(quantiles)))[:, None]
    over = y - quantiles
    return np.asarray(2.0 * np.mean(np.maximum(levels * over, (levels - 1.0) * over), axis=0))


def blocks(losses: np.ndarray, count: int) -> list[float]:
    """The means of so many blocks of consecutive rows."""
    return [float(np.mean(part)) for part in np.array_split(losses, count)]


def compared(one: list[float], reference: list[float], critical: float) -> str:
    """Whether one has the smaller losses, block by block: "win", "loss" or "tie"."""
    differences = np.array(one) - np.array(reference)
    error = float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    mean = float(np.mean(differences))
    if abs(mean) <= critical * error or mean == 0.0:
        return "tie"
    return "win" if mean < 0 else "loss"


def scored(y: np.ndarray, said: Distributions, first: int, protocol: dict[str, Any]) -> dict[str, Any] | None:
    """The scores of the rows from one on whose targets are known; None where a prediction is no finite number."""
    rows = np.flatnonzero(np.isfinite(y) & (np.arange(len(y)) >= first))
    truth = y[rows]
    levels = protocol["scores"]["levels"]
    needed = {0.5, *(0.5 + sign * level / 2 for level in levels for sign in (-1, 1))}
    with np.errstate(all="ignore"):
        found = {
            q: np.asarray(said.quantile(q))[rows] for q in sorted({*grid(protocol["scores"]["quantiles"]), *needed})
        }
        density = np.asarray(said.log_density(y))[rows]
        mean = np.asarray(said.mean)[rows]
        squares = (truth - mean) ** 2
    if not all(np.isfinite(values).all() for values in (squares, density, *found.values())):
        return None
    ranked = crps(np.stack([found[q] for q in grid(protocol["scores"]["quantiles"])]), truth)
    covered = {
        f"coverage {level:g}": float(np.mean((found[0.5 - level / 2] <= truth) & (truth <= found[0.5 + level / 2])))
        for level in levels
    }
    count = protocol["comparison"]["blocks"]
    return {
        "rows": len(rows),
        "rmse": float(np.sqrt(np.mean(squares))),
        "mae": float(np.mean(np.abs(truth - found[0.5]))),
        "crps": float(np.mean(ranked)),
        "log density": float(np.mean(density)),
        **covered,
        "blocks": {"squared error": blocks(squares, count), "crps": blocks(ranked, count)},
    }

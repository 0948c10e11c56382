"""Scores of predictions made along a stream."""

from streamgp.evaluate.metrics import coverage, interval_score, mnae, nlpd, nmse, pit, rmse
from streamgp.evaluate.prequential import Scores, prequential, scores_of

__all__ = [
    "Scores",
    "coverage",
    "interval_score",
    "mnae",
    "nlpd",
    "nmse",
    "pit",
    "prequential",
    "rmse",
    "scores_of",
]

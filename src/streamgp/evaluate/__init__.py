"""Scores of predictions made along a stream."""

from streamgp.evaluate.metrics import coverage, interval_score, mnae, nlpd, nmse, pit, rmse

__all__ = ["coverage", "interval_score", "mnae", "nlpd", "nmse", "pit", "rmse"]

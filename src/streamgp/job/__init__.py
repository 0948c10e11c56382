"""The main job: from a table that is read row by row to calibrated predictions."""

from streamgp.job.job import BadRowError, Block, Job, Observer
from streamgp.job.pipeline import Pipeline
from streamgp.job.scores import RunningScores
from streamgp.job.summary import Summary

__all__ = ["BadRowError", "Block", "Job", "Observer", "Pipeline", "RunningScores", "Summary"]

"""The main job: from a table that is read row by row to calibrated predictions."""

from streamgp.job.job import BadRowError, Job, Summary
from streamgp.job.pipeline import Pipeline, Scores

__all__ = ["BadRowError", "Job", "Pipeline", "Scores", "Summary"]

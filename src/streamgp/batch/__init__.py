"""Batch models: the exact process and the sparse approximations that are given all data at once."""

from streamgp.batch.echo import ESGP
from streamgp.batch.evidence import Evidence
from streamgp.batch.exact import BayesianCommitteeMachine, FullGP
from streamgp.batch.inducing import FITC, SubsetOfRegressors
from streamgp.batch.model import BatchModel
from streamgp.batch.spectrum import SSGPR

__all__ = [
    "ESGP",
    "FITC",
    "SSGPR",
    "BatchModel",
    "BayesianCommitteeMachine",
    "Evidence",
    "FullGP",
    "SubsetOfRegressors",
]

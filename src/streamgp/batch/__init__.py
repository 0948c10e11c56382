"""Batch models: the exact process and the sparse approximations that are given all data at once."""

from streamgp.batch.exact import BayesianCommitteeMachine, FullGP
from streamgp.batch.inducing import FITC, SubsetOfRegressors
from streamgp.batch.model import BatchModel
from streamgp.batch.spectrum import SSGPR

__all__ = ["FITC", "SSGPR", "BatchModel", "BayesianCommitteeMachine", "FullGP", "SubsetOfRegressors"]

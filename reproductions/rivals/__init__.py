"""Batch models that papers compare with and that nobody would choose; their interface is that of streamgp.batch."""

from reproductions.rivals.committee import BayesianCommitteeMachine
from reproductions.rivals.pseudo_inputs import PseudoInputs
from reproductions.rivals.regressors import SubsetOfRegressors

__all__ = ["BayesianCommitteeMachine", "PseudoInputs", "SubsetOfRegressors"]

"""Batch models: the exact process and the sparse approximations that are given all data at once."""

from streamgp.batch.evidence import Evidence
from streamgp.batch.exact import FullGP
from streamgp.batch.inducing import FITC
from streamgp.batch.model import BatchModel
from streamgp.batch.spectrum import SSGPR

__all__ = ["FITC", "SSGPR", "BatchModel", "Evidence", "FullGP"]

"""Adapt: which hyperparameters. Evidence maximisation on a batch, and its use before a model goes online."""

from streamgp.adapt.evidence import Evidence, Maximum, Objective

__all__ = ["Evidence", "Maximum", "Objective"]

"""Hyperparameters before a model goes online."""

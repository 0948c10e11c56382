"""Defaults that the command line shows before anything heavy is imported."""

QUANTILES = (0.1, 0.5, 0.9)  # of forecasts
BATCH = 100  # rows of a request
PATIENCE = 300.0  # seconds that a server may be away

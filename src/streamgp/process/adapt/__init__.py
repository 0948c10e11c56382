"""Hyperparameters that move: the gradient of the next observation's density, and the posterior's way to others."""

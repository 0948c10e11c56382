"""Compiled array functions: arrays in, arrays out. Nothing here knows a kernel or a model."""

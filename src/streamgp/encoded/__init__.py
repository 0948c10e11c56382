"""A trained encoder in front of a process, without PyTorch."""

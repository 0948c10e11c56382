"""Models around a model: each is its idea and nothing else."""

"""The papers' tables and figures, made anew: ``python -m reproductions``, at the root of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

from tests.checkout import pytest_sessionfinish, pytest_sessionstart, pytest_terminal_summary  # noqa: F401

# The same examples on every machine, and no deadline on shared cores.
settings.register_profile("streamgp", derandomize=True, deadline=None, max_examples=25, print_blob=True)
settings.load_profile("streamgp")
os.environ.setdefault("MPLBACKEND", "Agg")

# Real tables: where the variable says, or in shared/data beside the repository. Tests that miss theirs are skipped.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("STREAMGP_DATA", str(BESIDE))

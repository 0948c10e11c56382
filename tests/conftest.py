from __future__ import annotations

import os

from hypothesis import settings

# The same examples on every machine, and no deadline on shared cores.
settings.register_profile("streamgp", derandomize=True, deadline=None, max_examples=25, print_blob=True)
settings.load_profile("streamgp")
os.environ.setdefault("MPLBACKEND", "Agg")

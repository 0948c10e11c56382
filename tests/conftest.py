from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.checkout import pytest_sessionfinish, pytest_sessionstart, pytest_terminal_summary  # noqa: F401

# The same examples on every machine, and no deadline on shared cores.
settings.register_profile("streamgp", derandomize=True, deadline=None, max_examples=25, print_blob=True)
settings.load_profile("streamgp")
os.environ.setdefault("MPLBACKEND", "Agg")

# Files that take longest, in make test or in make test-more. They come first, so that no process is left with one of
# them when the other has nothing to do.
LONGEST = (
    "tests/contract/test_contract.py",
    "tests/docs/test_pages.py",
    "tests/reproductions/test_experiments.py",
    "tests/unit/test_snapshot_contents.py",
    "tests/auto/test_broken_readings.py",
    "tests/auto/test_predictions.py",
    "tests/job/test_auto.py",
    "tests/contract/test_interrupts.py",
    "tests/contract/test_inputs.py",
    "tests/unit/test_delayed.py",
    "tests/contract/test_interpreted.py",
    "tests/unit/test_compiling.py",
    "tests/job/test_pipeline.py",
    "tests/job/test_yardsticks.py",
    "tests/cli/test_hostile.py",
    "tests/serve/test_durability.py",
)


# Examples in docstrings that take seconds.
SLOW_EXAMPLES = ("src/streamgp/auto/auto.py", "src/streamgp/deep/models.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(SLOW_EXAMPLES):
            item.add_marker(pytest.mark.more)
    turn = {path: turn for turn, path in enumerate(LONGEST)}
    items.sort(key=lambda item: turn.get(item.nodeid.partition("::")[0], len(LONGEST)))


# Real tables: where the variable says, or in shared/data beside the repository. Tests that miss theirs are skipped.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("STREAMGP_DATA", str(BESIDE))

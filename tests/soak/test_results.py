"""The page shows the figures of the soaks as they were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent / "results" / "soaks.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
ROWS = {
    "SOGP, random walk": "test_a_million_rows_of_growth_and_eviction[random_walk-SOGP]",
    "SOGP, near-duplicates": "test_a_million_rows_of_growth_and_eviction[near_duplicates-SOGP]",
    "KRLST, random walk": "test_a_million_rows_of_growth_and_eviction[random_walk-KRLST]",
    "cholesky": "test_issgpr_equals_batch_ssgpr_after_five_million_updates[cholesky]",
    "covariance": "test_issgpr_equals_batch_ssgpr_after_five_million_updates[covariance]",
}
COLUMNS = {
    "evictions",
    "|w - w_batch|",
    "largest difference of means",
    "largest difference of variances",
    "|QK - I|",
    "repairs",
}


@pytest.mark.parametrize("name", ROWS)
def test_the_page_shows_what_was_recorded(name):
    recorded = {soak["test"]: soak for soak in map(json.loads, RECORDED.read_text().splitlines())}
    figures = recorded[ROWS[name]]["figures"]
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    shown = [float(cell.replace(" ", "")) for cell in line.split("|")[2:-1]]
    assert shown == [pytest.approx(value, rel=0.05) for key, value in figures.items() if key in COLUMNS]

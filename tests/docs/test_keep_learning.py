"""The page on imported models prints what it says that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "keep-learning.md"


def numbers(text):
    """The numbers of the lines that have means with their standard deviations, (lines, numbers)."""
    lines = [line for line in text.splitlines() if "±" in line]
    return np.array([[float(number) for number in re.findall(r"-?\d+\.\d{3}", line)] for line in lines])


@pytest.mark.more
def test_imported_models_stand_beside_their_sources_as_printed(capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("gpytorch")
    before, _, after = PAGE.read_text().partition("## Side by side")
    said = numbers(re.search(r"^```text\n(.*?)^```", after, re.DOTALL | re.MULTILINE)[1])
    namespace = {"__name__": "example"}
    for text in (before, after.partition("\n## ")[0]):
        capsys.readouterr()
        for source in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            exec(source, namespace)
    found = numbers(capsys.readouterr().out)
    np.testing.assert_allclose(found, said, atol=0.01)  # the search for hyperparameters differs between processors
    source, taken_over, after_1_000_rows, with_all_rows = found
    np.testing.assert_allclose(taken_over, source, atol=0.0011)
    np.testing.assert_allclose(after_1_000_rows, with_all_rows, atol=0.1)

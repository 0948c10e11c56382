"""Every number of the README comes from a file of results, or is a setting that the code has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import streamgp as sg
from streamgp.settings import Configured

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def prose():
    """The page without code and without the tables that other tests keep fresh."""
    text = re.sub(
        r"<!-- (losses in short|our cost in short|rivals in short|rivals measured) -->.*?<!-- end[\w ]* -->",
        "",
        TEXT,
        flags=re.DOTALL,
    )
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)|\[\w+\d{4}\]|`[^`]*`", "", text)


def reproduced():
    """OIESGP's cases in Tables I and II that are at or below the paper's."""
    page = (ROOT / "reproductions" / "soh2014" / "README.md").read_text()
    counts = re.findall(r"at or below the paper's OIESGP on (\d) of (\d) series", page)
    assert len(counts) == 2
    return f"{sum(int(good) for good, _ in counts)} of {sum(int(all_) for _, all_ in counts)}"


def swept():
    """Settings of the sweep, and those with every mean within 1e-6."""
    page = (ROOT / "docs" / "numerics.md").read_text()
    settings = int(re.search(r"\| \| of (\d+) settings \|", page)[1])
    good = int(re.search(r"\| mean within 1e-6 of the targets' size \| (\d+) \|", page)[1])
    lines = (ROOT / "tests" / "precision" / "results" / "sweep.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    assert (len(results), sum(result["error"] <= 1e-6 for result in results)) == (settings, good)
    assert not any(result["silent"] or result["not_finite"] for result in results)
    return settings, good


def test_numbers_in_the_prose_are_those_of_the_pages():
    settings, good = swept()
    text = " ".join(prose().split())
    for sentence in (
        f"matches or beats the published error in {reproduced()} cases",
        f"On {settings} hard settings against quad precision, {good} have every mean within 1e-6",
        f"in the other {settings - good}, ",
    ):
        assert sentence in text


def test_no_number_has_no_source():
    settings, good = swept()
    known = {
        *reproduced().split(" of "),
        *map(str, (settings, good, settings - good)),
        *("1e-6", "1e-8"),  # promises that tests/precision and tests/unit/test_equalities.py keep
        *("100 000", "500"),  # rows of the experiment, and those before the scores
        *("90", "0.1", "2.0"),  # the default level; versions
    }
    found = set(re.findall(r"(?<![\w.])\d+(?: 000|(?:\.\d+)?(?:e-?\d+)?)(?![\w.]*\d)", prose()))
    assert found <= known, found - known


def test_the_level_and_the_pythons_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert f"Python {versions[0]} to {versions[-1]}" in TEXT
    assert project["requires-python"] == f">={versions[0]}"
    assert sg.Calibrated(sg.KRLST()).get_params()["level"] == pytest.approx(0.9)


def test_the_citation_and_the_changelog_have_the_version():
    assert f"\nversion: {sg.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{sg.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_upgrade_note_says_what_the_code_says():
    page = (ROOT / "docs" / "upgrading.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `sg.")]
    rows = [row for row in rows if len(row) == 3]
    assert len(rows) >= 4
    kernel = sg.SquaredExponential()
    names = {"sg": sg, "kernel": kernel, "variance": 1.0}
    for before, after, _ in rows:
        if not after.startswith("`"):
            with pytest.raises(TypeError):
                eval(before.strip("`"), names)
            continue
        made = eval(after.strip("`"), names)
        assert isinstance(made, Configured)
        if "forgetting" not in after:
            with pytest.raises(TypeError):
                eval(before.strip("`"), names)

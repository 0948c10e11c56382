"""Every experiment runs quickly and gives what it gave; the page is fresh; what is worse than a paper is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproductions import framework
from reproductions.framework import catalogue, runner

pytestmark = pytest.mark.more

PAGE = Path(__file__).parents[2] / "docs" / "reproductions.md"
CLAIMS = PAGE.with_name("claims.md")
DETAILS = sorted(catalogue.ROOT.glob("*/README.md"))


def found(name):
    """The experiment; without the packages it needs, the test is skipped."""
    try:
        return framework.find(name)
    except ImportError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", framework.names())
def test_a_quick_run_gives_what_it_gave(name, tmp_path):
    experiment = found(name)
    try:
        outcome = framework.reproduce(name, quick=True, out=tmp_path)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    values = outcome.table.values()
    promised = catalogue.expected_quickly(experiment)
    assert promised, f"{name} has no [{experiment.stem}.quick] in expected.toml"
    for key, reference in promised.items():
        assert values[key].ours == pytest.approx(reference.value, rel=reference.tolerance), key


@pytest.mark.parametrize("name", framework.names())
def test_committed_results_worse_than_the_paper_are_explained(name):
    experiment = found(name)
    rows = runner.finished(experiment, experiment.full, catalogue.ROOT)
    values = experiment.summarize(rows, catalogue.expected(experiment)).values()
    assert [key for key, value in values.items() if value.unexplained] == []


@pytest.mark.parametrize("page", [PAGE, CLAIMS, *DETAILS], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_committed_page_is_that_of_the_results(page):
    for name in framework.names():
        found(name)
    text = page.read_text()
    where = page.relative_to(PAGE.parents[1])
    assert framework.refreshed(text, page.parent) == text, f"run: python -m reproductions --page {where}"

"""What is promised of hostile inputs, and that the page shows it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.cli import hostile

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What came of a case, by its number; each is run once."""
    folder = tmp_path_factory.mktemp("hostile")
    return cache(lambda number: hostile.outcome(hostile.CASES[number], folder / str(number)))


FEW = range(0, len(hostile.CASES), 8)  # that make test tries


def test_there_are_more_than_a_hundred_of_them():
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES) > 100


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=case.name, marks=() if number in FEW else pytest.mark.more)
        for number, case in enumerate(hostile.CASES)
    ],
)
def test_rows_before_a_fault_are_kept_and_a_sentence_tells_of_it(made, number):
    one, case = made(number), hostile.CASES[number]
    code = one.result.exit_code
    assert one.result.exception is None or isinstance(one.result.exception, SystemExit), one.result.exception
    assert code in hostile.CODES
    assert "Traceback" not in one.result.stderr
    assert "Warning" not in one.result.stderr
    assert (one.rows, one.saved) == (case.kept, case.kept), one.result.stderr
    last = one.result.stderr.splitlines()[-1]
    assert last.startswith("streamgp: ") == (code != 0)
    assert len(one.result.stderr) < 3000


@pytest.mark.more
def test_the_page_shows_files_codes_and_whether_rows_are_kept(made):
    """Messages may differ in words of Python, zlib or pyarrow."""
    page = hostile.PAGE.read_text()
    lines = re.findall(r"^\| (`[^|]*`) \| (?:\((\d)\) )?(▸ )?``", page, re.MULTILINE)
    shown = {
        (name, int(code or 3), bool(kept)) for names, code, kept in lines for name in re.findall(r"`(.*?)`", names)
    }
    refused = [one for one in map(made, range(len(hostile.CASES))) if one.result.exit_code]
    told = {(one.case.name, one.result.exit_code, one.rows > 0) for one in refused}
    assert shown == told, "python -m tests.cli.hostile"
    read = {case.name for number, case in enumerate(hostile.CASES) if not made(number).result.exit_code}
    assert set(re.findall(r"`([\w.-]+)`", page.partition("Read to the end:")[2])) == read, "python -m tests.cli.hostile"


def test_messages_on_the_page_for_users_are_among_them():
    page = (Path(__file__).parents[2] / "docs" / "hostile-inputs.md").read_text()
    told = re.findall(r"``(.+?)``", page)
    assert told
    known = hostile.PAGE.read_text()
    assert [message for message in told if message not in known] == []

"""``streamgp run --ticket-column``: targets that come in later rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cli.test_run import SMALL, predictions, streamgp

LATE = ["--target", "y", "--ticket-column", "id", *SMALL]


def events(n=80, seed=0):
    """Lines of id, x, kind, y: of two rows in three the target comes up to ten rows later, of some never."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        x, kind = rng.normal(), "ab"[i % 2]
        y = f"{np.sin(x) + (kind == 'b') + 0.1 * rng.normal():.5f}"
        known = i % 3 == 0
        found.append((i, f"r{i},{x:.5f},{kind},{y if known else ''}"))
        if not known and i % 11:
            found.append((i + 0.5 + 10 * rng.random(), f"r{i},,,{y}"))
    return [line for _, line in sorted(found)]


def table(path, lines):
    path.write_text("\n".join(["id,x,kind,y", *lines]) + "\n")
    return path


def test_rows_are_predicted_once_and_late_targets_are_learned(tmp_path):
    lines, out = events(), tmp_path / "o.csv"
    done = streamgp("run", table(tmp_path / "a.csv", lines), "--out", out, *LATE)
    assert done.exit_code == 0, done.stderr
    rows = predictions(out)
    assert list(rows[0])[:3] == ["row", "ticket", "mean"]
    assert [row["ticket"] for row in rows] == [f"r{i}" for i in range(80)]
    assert all(lines[int(row["row"]) - 1].startswith(row["ticket"] + ",") for row in rows)
    assert [bool(row["observed"]) for row in rows] == [i % 3 == 0 for i in range(80)]
    late = sum(",,," in line for line in lines)
    never = 80 - 27 - late
    for sentence in (
        "ticket: id; a later row with the same one brings the target",
        "model after 30 targets: KRLST (as requested)",
        f"rows: {len(lines)} in",
        f"late targets: {late} learned, {never} rows still waiting, 0 expired, 0 rows ignored",
    ):
        assert sentence in done.stderr
    assert "missing values" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ticket-column", "idd"], "there is no column 'idd'. Did you mean 'id'?"),
        (["--ticket-column", "y"], "'y' is the ticket column and cannot be the target or an input"),
        (["--ticket-column", "id", "--inputs", "id"], "'id' is the ticket column and cannot be the target or an input"),
        (["--set", "pending=10"], "pending counts rows whose targets come late; it needs --ticket-column"),
    ],
)
def test_what_cannot_be_done_with_tickets_is_refused(tmp_path, arguments, message):
    done = streamgp("run", table(tmp_path / "a.csv", events(10)), "--target", "y", *arguments)
    assert done.exit_code in (2, 3)
    assert message in done.stderr


def test_a_row_without_a_ticket_stops_the_run_or_is_skipped(tmp_path):
    source = table(tmp_path / "a.csv", ["r1,1,a,1", "r2,2,b,1", ",3,a,1", "r4,4,b,2"])
    done = streamgp("run", source, *LATE)
    assert done.exit_code == 3
    assert "line 4 has no ticket in the column 'id'" in done.stderr
    done = streamgp("run", source, "--on-error", "skip", *LATE)
    assert done.exit_code == 0, done.stderr
    assert "skipped: 1 row; the first is line 4, which has no ticket in the column 'id'" in done.stderr

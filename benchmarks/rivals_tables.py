"""The tables of README.md and docs/rivals.md, from benchmarks/results/rivals.json: ratios, rival over streamgp."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from main_job import filled
from record import ROOT, read, told
from rivals_scores import compared
from rivals_streams import PROTOCOL
from tables import table

PAGES = ROOT / "README.md", ROOT / "docs" / "rivals.md"
REFERENCE = PROTOCOL["comparison"]["reference"]
CRITICAL = PROTOCOL["comparison"]["critical"]
# Chosen before any result was seen: one or two of each package, those that its documentation shows first.
IN_SHORT = (
    "LightGBM",
    "River ARF",
    "River SRP",
    "scikit-learn GP",
    "GPyTorch exact",
    "skaters",
    "AutoARIMA",
    "AutoETS",
    "MSTL",
    "Prophet",
)
NOTHING = "\N{EN DASH}"
# Regressors got 3 lags there and Auto 24, of a stream with next to no noise: the ratios say which lags a table has.
UNEQUAL = "wing flutter"
# The clock ran while their means were integrated numerically, which takes six times as long as predicting and learning.
NOT_TIMED = "skaters", "skaters, not sticky"

Runs = dict[str, dict[str, Any]]


def form(of: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The run of a contestant on one stream, of two forms the one with the lower CRPS; None where it did not run."""
    mine = [run for title, run in of.items() if title == name or title in (f"{name}, level", f"{name}, change")]
    return min(mine, key=lambda run: run["scores"]["crps"] if run["scores"] else float("inf"), default=None)


def pairs(runs: Runs, name: str) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The runs of a contestant and of the reference, by stream, where both ran."""
    found = {stream: (form(of, name), form(of, REFERENCE)) for stream, of in runs.items()}
    return {stream: (one, own) for stream, (one, own) in found.items() if one is not None and own is not None}


def ratio(one: dict[str, Any], own: dict[str, Any], score: str) -> float:
    """Of a score, the contestant's over the reference's; infinite where it has none."""
    return float(one["scores"][score] / own["scores"][score]) if one["scores"] else float("inf")


def outcome(one: dict[str, Any], own: dict[str, Any], loss: str) -> str:
    """Whether the contestant beats the reference: "win", "loss" or "tie"."""
    if not one["scores"]:
        return "loss"
    return compared(one["scores"]["blocks"][loss], own["scores"]["blocks"][loss], CRITICAL)


def number(value: float) -> str:
    """Three figures; below 1 bold: there the contestant is better."""
    if value == float("inf"):
        return "failed"
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{value:.2g}"
    return f"**{text}**" if value < 1 and text != "1.00" else text


def counts(found: dict[str, Any], loss: str) -> str:
    """Wins, ties and losses of the reference."""
    outcomes = [outcome(one, own, loss) for one, own in found.values()]
    return " / ".join(str(outcomes.count(kind)) for kind in ("loss", "tie", "win"))


def percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def covered(found: dict[str, Any], which: int, level: float) -> list[float]:
    return [pair[which]["scores"][f"coverage {level:g}"] for pair in found.values() if pair[which]["scores"]]


def spread(values: list[float]) -> str:
    return f"{percent(min(values))} to {percent(max(values))}" if values else NOTHING


def own_line(runs: Runs) -> list[str]:
    found = pairs(runs, REFERENCE)
    return [f"`sg.{REFERENCE}()`", str(len(found)), "1", "1", spread(covered(found, 1, 0.9))]


def short(results: dict[str, Any]) -> str:
    """The table of the README."""
    runs, lines = results["runs"], []
    for name in IN_SHORT:
        if found := pairs(runs, name):
            ratios = [statistics.median(ratio(*pair, score) for pair in found.values()) for score in ("rmse", "crps")]
            lines.append(
                [
                    name,
                    str(len(found)),
                    *map(number, ratios),
                    spread(covered(found, 0, 0.9)),
                    counts(found, "crps"),
                ]
            )
    header = ["rival", "streams", "RMSE", "CRPS", "coverage of 90%", "we win / tie / lose"]
    ours = [*own_line(runs), NOTHING]
    return table(header, [ours, *lines])


def full(results: dict[str, Any]) -> str:
    """All contestants, over all streams they ran on."""
    runs, lines = results["runs"], []
    for name in PROTOCOL["contestants"]:
        if not (found := pairs(runs, name)):
            continue
        compared_to_us = ["1", "1", NOTHING]
        if name != REFERENCE:
            each = [[ratio(*pair, score) for pair in found.values()] for score in ("rmse", "crps")]
            compared_to_us = [f"{number(statistics.median(r))} ({number(min(r))} to {number(max(r))})" for r in each]
            compared_to_us.append(counts(found, "crps"))
        coverage, time, grown = in_units(found)
        lines.append([name, str(len(found)), *compared_to_us, coverage, NOTHING if name in NOT_TIMED else time, grown])
    header = ["contestant", "streams", "RMSE: median (least to most)", "CRPS", "we win / tie / lose"]
    return table([*header, "coverage of 90%", "µs a row", "MiB"], lines)


def in_units(found: dict[str, Any]) -> list[str]:
    """Medians over streams: coverage of the 90% intervals (and its range), processor time, memory."""
    ran = [one for one, _ in found.values() if one["scores"]]
    if not ran:
        return [NOTHING] * 3
    known = covered(found, 0, 0.9)
    grown = [one["memory, MiB"] for one in ran if one["memory, MiB"] is not None]
    return [
        f"{percent(statistics.median(known))} ({spread(known)})",
        f"{statistics.median(one['microseconds a row'] for one in ran):,.0f}",
        f"{statistics.median(grown):.1f}" if grown else NOTHING,
    ]


def families() -> dict[str, list[str]]:
    """The contestants of each package but the reference."""
    found: dict[str, list[str]] = {}
    for name, about in PROTOCOL["contestants"].items():
        if name != REFERENCE:
            found.setdefault("KRLST, TimeGP" if about["family"] == "streamgp" else about["family"], []).append(name)
    return found


def by_stream(results: dict[str, Any]) -> str:
    """The CRPS of the best contestant of each package on each stream, in hindsight, over the reference's."""
    lines = []
    for stream, of in results["runs"].items():
        own = form(of, REFERENCE)
        if own is None:
            continue
        cells = [f"{stream} ({PROTOCOL['streams'][stream]['history']})"]
        for names in families().values():
            ran = [run for name in names if (run := form(of, name)) is not None]
            cells.append(number(min(ratio(run, own, "crps") for run in ran)) if ran else NOTHING)
        lines.append(cells)
    return table(["stream", *families()], lines)


OURS = {"Auto": "`sg.Auto()`", "KRLST": "`sg.Calibrated(sg.Standardize(sg.KRLST()))`"}


def own_costs(results: dict[str, Any]) -> str:
    """What a row of ours costs, medians over streams, in units."""
    lines = []
    for name, shown in OURS.items():
        ran = [run for of in results["runs"].values() if (run := form(of, name)) is not None and run["scores"]]
        if not ran:
            continue
        time, grown = (statistics.median(run[key] for run in ran) for key in ("microseconds a row", "memory, MiB"))
        lines.append([shown, f"{time:,.0f}", f"{1e6 / time:,.0f}", f"{grown:.0f}"])
    return table(["over at most 3,000 rows, building and tuning included", "µs a row", "rows a second", "MiB"], lines)


def better(results: dict[str, Any], names: Iterable[str]) -> dict[str, list[tuple[str, str, float, str]]]:
    """By stream, the contestants with a score at least 1% below the reference's: name, score, ratio, outcome."""
    found: dict[str, list[tuple[str, str, float, str]]] = {}
    for stream, of in results["runs"].items():
        own = form(of, REFERENCE)
        for name in names:
            one = form(of, name)
            if own is None or one is None or name == REFERENCE:
                continue
            for loss, score in (("crps", "crps"), ("squared error", "rmse")):
                if (less := ratio(one, own, score)) < 0.99:
                    found.setdefault(stream, []).append((name, score.upper(), less, outcome(one, own, loss)))
    return found


def losses(results: dict[str, Any]) -> str:
    """Every stream on which a contestant has the lower score, and whether the rule takes it for a win or a tie."""
    lines = [
        f"- **{stream}**: {'; '.join(f'{name}, {score} {less:.2f} ({kind})' for name, score, less, kind in found)}"
        for stream, found in better(results, PROTOCOL["contestants"]).items()
    ]
    return "\n".join(lines) if lines else "No contestant has a score that is 1% lower on any stream."


def losses_in_short(results: dict[str, Any]) -> str:
    """The losses of the README: each stream on which one of its rivals has a lower score, and the lowest ratio."""
    lines = []
    for stream, found in better(results, IN_SHORT).items():
        name, score, less, kind = min(found, key=lambda one: one[2])
        lines.append([stream, name, f"{score} {number(less)}", kind])
    return table(["stream on which one of these is lower", "lowest", "ratio", "by paired blocks"], lines)


def failures(results: dict[str, Any]) -> str:
    lines = [
        f"- {stream}: {title}: {run['failed']}"
        for stream, of in results["runs"].items()
        for title, run in of.items()
        if run["failed"]
    ]
    return "\n".join(lines) if lines else "No run failed."


def where(results: dict[str, Any]) -> str:
    return f"Measured on {results['date'][:10]} on {results['machine']}, one thread each; {told(results['versions'])}."


def in_one_line(results: dict[str, Any]) -> str:
    return f"Measured on {results['date'][:10]} with streamgp {results['versions']['streamgp']}."


def rendered(results: dict[str, Any]) -> dict[str, str]:
    """The tables by the names of their markers, without the stream on which the reference had other lags."""
    results = results | {"runs": {stream: of for stream, of in results["runs"].items() if stream != UNEQUAL}}
    return {
        "rivals in short": short(results),
        "rivals measured": in_one_line(results),
        "losses in short": losses_in_short(results),
        "our cost in short": own_costs(results),
        "rivals in full": full(results),
        "rivals by stream, CRPS": by_stream(results),
        "streams that rivals win": losses(results),
        "runs that failed": failures(results),
        "where rivals were measured": where(results),
    }


def render() -> None:
    tables = rendered(read("rivals"))
    for page in PAGES:
        page.write_text(filled(page.read_text(), tables))

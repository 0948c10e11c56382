"""Files of results as Markdown tables; nothing here measures, and no number is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import must_show
import other_libraries
import rows_seen
from contestants import MODELS, PRODUCTS
from cost_per_row import SIZES, plain_name
from record import measured_on, read, told, where
from streamgp.job.scores import rounded, shown

Cells = Iterable[str]
BAR = "\\|"  # within a table


def table(header: Sequence[str], lines: Iterable[Cells]) -> str:
    head, *rows = (f"| {' | '.join(cells)} |" for cells in (header, *lines))
    return "\n".join([head, f"|{'---|' * len(header)}", *rows])


def number(value: float) -> str:
    """Three significant figures, without an exponent, thousands apart."""
    return rounded(value, 3)


def times(cell: dict[str, float]) -> str:
    return f"{number(cell['median'])} ({number(cell['p99'])})"


def yes(met: bool) -> str:
    return "yes" if met else "**no**"


def promises() -> str:
    """The claims about the floor, one line for each model."""
    claims = [claim for claim in must_show.from_results() if "floor" in claim.what]
    (what,) = {claim.what for claim in claims}
    lines = []
    for model in dict.fromkeys(claim.model for claim in claims):
        group = [claim for claim in claims if claim.model == model]
        cells = [model, f"≤ {number(group[0].target)}", *(number(claim.measured) for claim in group)]
        lines.append([*cells, yes(all(claim.met for claim in group))])
    return table([what, "target", *(f"m = {m}" for m in must_show.OVER_FLOOR_SIZES), "met"], lines)


def other_promises() -> str:
    """The other claims: the worst of all models."""
    claims = [claim for claim in must_show.from_results() if "floor" not in claim.what]
    lines = []
    for what in dict.fromkeys(claim.what for claim in claims):
        group = [claim for claim in claims if claim.what == what]
        worst = max(group, key=lambda claim: claim.measured)
        kept = sum(claim.met for claim in group)
        target = f"≤ {number(worst.target)}"
        cells = [f"{what}, {worst.at}", target, number(worst.measured), worst.model, f"{kept} of {len(group)}"]
        lines.append([*cells, yes(kept == len(group))])
    return table(["measured", "target", "worst", "of", "models that keep it", "met"], lines)


SHOWN = (100, 400)  # weights, where one small and one large model are enough
STRICT = "compiled"  # the stricter floor; the table of promises has the other


def cost() -> str:
    """Microseconds a row, times the floor, and how much longer plain NumPy takes."""
    cells = read("cost_per_row")["cells"]
    lines = []
    for name in MODELS:
        found = [cells[str(m)][name]["ratio"] for m in SHOWN]
        over = [f"{number(r[STRICT])}" if PRODUCTS[name] else "-" for r in found]
        taken = (number(cells[str(m)][name]["median"]) for m in SHOWN)
        lines.append([name, *taken, *over, *(number(1.0 / r["NumPy"]) for r in found)])
    heads = "µs, ", f"ours / BLAS {STRICT}, ", "NumPy / ours, "
    return table(["a row", *(f"{head}m = {m}" for head in heads for m in SHOWN)], lines)


def against_rivals() -> str:
    """Microseconds a row in other libraries, and how many times that of ours; below 1 it is a loss."""
    cells = read("cost_per_row")["cells"]
    lines = []
    for name, (_, _, ours) in other_libraries.RIVALS.items():
        line = [name, ours]
        for m in SHOWN:
            cell = cells[str(m)]
            if name in cell:
                factor = cell[name]["median"] / cell[ours]["median"]
                shown = f"{number(factor)} times" if factor >= 1 else f"**{number(factor)} times**"
                line.append(f"{number(cell[name]['median'])}, {shown}")
            else:
                line.append("not installed")
        lines.append(line)
    return table(["library", "compared with", *(f"µs, m = {m}" for m in SHOWN)], lines)


def losses() -> str:
    """Who is faster than our models, of all that was measured; in one line each."""
    cells = read("cost_per_row")["cells"]
    found = []
    for m in SIZES:
        cell = cells[str(m)]
        pairs = [(plain_name(name), name) for name in MODELS]
        pairs += [(name, ours) for name, (_, _, ours) in other_libraries.RIVALS.items()]
        for other, ours in pairs:
            if other in cell and cell[other]["median"] < cell[ours]["median"]:
                found.append(f"- m = {m}: {other} is faster than {ours}.")
    return "\n".join(found) or "Neither plain NumPy nor one of these libraries was faster at any size."


def calls() -> str:
    """One-row calls against the loop."""
    lines = []
    for name, cell in read("one_row")["cells"].items():
        shown = [number(cell[way]["median"]) for way in ("loop", "calls")]
        lines.append([name, *shown, times(cell["predict_one"]), times(cell["learn_one"])])
    header = ["row in track", "both calls", "predict_one (p99)", "learn_one (p99)"]
    return table([f"µs, m = {read('one_row')['m']}", *header], lines)


def lasting() -> str:
    """Time along a long stream, and bytes in memory and in a snapshot: one line a model."""
    results, footprint = read("rows_seen"), read("footprint")["cells"]
    m, lines = SHOWN[0], []
    for name, cell in results["cells"]["track"].items():
        kept = [number(footprint[str(m)][name][key] / 1024) for key in ("memory", "snapshot")]
        grown = f"{rows_seen.growth(cell['microseconds']):.2f}"
        lines.append([name, grown, *kept])
    header = [
        f"{results['rows']:,} rows, m = {results['m']}: time of the last fifth / first",
        f"KiB in memory, m = {m}",
        "in a snapshot",
    ]
    return table(["model", *header], lines)


def start() -> str:
    """Seconds of import and first calls."""
    cells = read("start_up")["cells"]
    names = [(name, cache) for name in cells if name != "KLMS" for cache in ("cold", "warm")]
    steps = ("import of what it needs", "first model", "first learn_one", "second learn_one")
    lines = [[step, *(milliseconds(cells[name][cache][step]) for name, cache in names)] for step in steps]
    return table(["ms in a fresh process", *(f"{name}, {cache} cache" for name, cache in names)], lines)


def milliseconds(seconds: float) -> str:
    return number(1e3 * seconds)


THREADS = ("1 threads", "16 threads")  # that the page shows; the file of results has others between
SHOWN_SIZES = ("1,000,000", "1,000")  # models, likewise
SHOWN_CAPACITIES = ("m = 50", "m = 100")


def on_cores() -> str:
    """Rows a second of fleets, and how many times as fast as the loop over single models."""
    results = read("fleet")
    lines = []
    for name, cell in results["cells"]["cpu"].items():
        rates = cell["rows a second"]
        gains = {key: gain for key, gain in cell["times the loop"].items() if key.startswith(THREADS)}
        cells = [f"{number(rates[key])} ({number(gain)})" for key, gain in gains.items()]
        lines.append([name, number(rates["loop"]), *cells, number(cell["bytes a model"])])
    header = ["recipe", "loop", *(key.replace("1 threads", "1 thread").replace("1 rows", "1 row") for key in gains)]
    return f"{table([*header, 'bytes a model'], lines)}\n\n{measured_on(results)}"


def on_gpu() -> str:
    """Milliseconds in which each model of a fleet takes one row; of each kind the fleet with the most models."""
    results = read("fleet")["cells"]["cuda"]
    columns = ("absorb", "absorb, 16 rows", "replace", "replace, 16 rows", "bytes a model")
    largest: dict[tuple[str, str], tuple[int, str]] = {}
    for name in results["kernel"]:
        m, models, precision = name.split(", ")
        if m not in SHOWN_CAPACITIES:
            continue
        count = int(models.removesuffix(" models").replace(",", ""))
        largest[m, precision] = max(largest.get((m, precision), (0, "")), (count, name))
    lines = [[name, *(number(results["kernel"][name][column]) for column in columns)] for _, name in largest.values()]
    return f"{table(['ms a row of all models', *columns], lines)}\n\n{gpu()}"


def whole_on_gpu() -> str:
    """Whole calls by where rows are, and what others take for the kernel's work; medians and the 95th percentile."""
    results = read("fleet")["cells"]["cuda"]
    kernel, whole, rivals = results["kernel"], results["whole"], results["rivals"]
    kinds = ("device arrays", "NumPy", "NumPy, predict_many")
    lines = []
    for name, cell in whole.items():
        if name.partition(" ")[0] not in SHOWN_SIZES:
            continue
        times = (cell.get(kind) for kind in kinds)
        shown = ("-" if one is None else f"{number(one['median'])} ({number(one['p95'])})" for one in times)
        absorb = kernel.get(f"m = 50, {name}", {}).get("absorb")
        lines.append([name, *shown, "-" if absorb is None else number(absorb)])
    found = table(["`fleet.track`, m = 50, ms", *kinds, "of it the kernel"], lines)
    return (
        f"{found}\n\nA million models in single precision absorb a row in {number(rivals['jax, vmap'])} ms with JAX "
        f"(`jit(vmap)`, state donated) and in {number(rivals['torch'])} ms with torch (`bmm` and `baddbmm`). {gpu()}"
    )


def loops_on_gpu() -> str:
    """Whole calls of recipes that kernels of the cores' own loops run, beside all cores."""
    lines = []
    for name, cell in read("fleet")["cells"]["cuda"]["loops"].items():
        there, here = cell.get("cuda, device arrays"), cell["cuda"]["median"]
        least, cores_ms = here if there is None else min(here, there["median"]), cell["cpu"]["median"]
        told = "-" if there is None else number(there["median"])
        lines.append([name, told, number(here), number(cores_ms), number(cores_ms / least)])
    heads = ["`fleet.track`, ms", "device arrays", "NumPy", "16 cores", "times as fast"]
    return f"{table(heads, lines)}\n\n{gpu()}"


def gpu() -> str:
    environment = read("fleet")["cells"]["cuda"]["environment"]
    return f"Measured on one {environment['gpu']}; {told(environment['versions'])}."


def adaptation() -> str:
    results, columns = read("adaptation_latency"), ("median", "p99", "p99.9")
    lines = [[name, *(number(cell[which]) for which in columns)] for name, cell in results["cells"].items()]
    return f"{table(['SOGP, µs a row', *columns], lines)}\n\n{measured_on(results)}"


UNCALIBRATED = "StreamRegressor(Standardize(KRLST()))"  # which errs as the default does


def river() -> str:
    """Errors, coverage and time beside River's regressors; the best RMSE of a stream is bold."""
    results = read("river_streams")
    cold = results["cold"]
    header = [
        "stream",
        "model",
        "RMSE",
        f"RMSE after {cold} rows",
        f"coverage of {results['level']:.0%} intervals",
        "µs/row",
    ]
    lines = []
    for stream, found in results["cells"].items():
        best = {key: min(r[key] for r in found["results"]) for key in ("rmse", f"rmse_after_{cold}")}
        for i, r in enumerate(found["results"]):
            if r["model"] == UNCALIBRATED:
                continue
            cells = [f"{stream}, {found['rows']} rows" if i == 0 else "", f"`{r['model'].replace('|', BAR)}`"]
            cells += [f"**{shown(r[key])}**" if r[key] == least else shown(r[key]) for key, least in best.items()]
            cells.append(f"{r['coverage']:.1%}" if "coverage" in r else "-")
            lines.append([*cells, f"{r['microseconds_per_row']:.0f}"])
    return f"{table(header, lines)}\n\nOne run, one thread, on {where(results)}; seed {results['seed']}."


def machine() -> str:
    """Where everything was measured; once if it was the same for all files, which also say which BLAS it was."""
    names = ("cost_per_row", "one_row", "where_time_goes", "rows_seen", "footprint", "start_up")
    found: dict[str, list[str]] = {}
    for name in names:
        results = read(name)
        own = {key: results["versions"][key] for key in ("streamgp", "python")}
        others = {key: version for key, version in results["versions"].items() if key not in own}
        place = f"{results['machine']}; {told(own)}"
        found.setdefault(place, []).append(f"`{name}.json`" + (f" (with {told(others)})" if told(others) else ""))
    return "\n".join(f"- {', '.join(files)}: {place}." for place, files in found.items())


def spark_cells() -> tuple[dict[str, Any], list[int], list[int]]:
    """The results, the numbers of keys and of shards."""
    cells = read("spark")["cells"]
    named = [key.split() for key in cells if " shards, " in key]
    return cells, sorted({int(words[0]) for words in named}), sorted({int(words[2]) for words in named})


def spark_speed() -> str:
    """Rows a second of queries and of the same fleet in one process, and processor time of a row."""
    results = read("spark")
    cells = results["cells"].values()
    loads = [cell["load before"] for cell in cells if "load before" in cell]
    return (
        f"{by_shards()}\n\n{measured_on(results)} The machine was shared: the load average "
        f"before each measurement was {number(min(loads))} to {number(max(loads))}. A quiet machine is faster."
    )


def by_shards() -> str:
    cells, keys, shards = spark_cells()
    each, lines = read("spark")["rows_per_key"], []
    for count in keys:
        names = [f"fleet, {count} keys, 2 cores", *(f"{count} keys, {n} shards, 2 cores" for n in shards)]
        rates = (f"{number(cells[k]['rows a second'])} ({number(cells[k]['processor us a row'])})" for k in names)
        lines.append([str(count), str(each[str(count)]), *rates])
    header = ["Fleet in one process", *(f"Spark, {n} shards" for n in shards)]
    return table(["keys, on two cores", "rows of a key in a batch", *header], lines)


def spark_exact() -> str:
    results = read("spark")
    cells, lines = results["cells"], []
    for key in ("equality", "equality after kills"):
        cell = cells[key]
        killed = ", ".join(f"{what} {count} times" for what, count in cell["killed"].items() if count) or "none"
        names = "keys", "rows", "batches", "predictions", "different"
        lines.append([killed, *(str(cell[name]) for name in names)])
    header = ["kill -9", "keys", "rows", "batches", "predictions", "different from one process"]
    return f"{table(header, lines)}\n\n{measured_on(results)}"


def spark_state() -> str:
    cells, keys, shards = spark_cells()
    state = cells["state"]
    lines = [
        ["state of a key, written whole", f"{number(state['whole bytes a key'])} bytes"],
        ["log of a row", f"{number(state['log bytes a row'])} bytes"],
        ["processor time to write a key whole", f"{number(state['us to write a key'])} µs"],
        ["processor time to read a key", f"{number(state['us to read a key'])} µs"],
        ["processor time to learn a row of the log again", f"{number(state['us to learn a row again'])} µs"],
    ]
    large = [cells[f"{keys[-1]} keys, {n} shards, 1 cores"] for n in shards]
    each = [cell for key, cell in cells.items() if " shards, " in key]
    lines += [
        [f"checkpoint, {keys[-1]} keys", between(large, "checkpoint bytes a key", "bytes a key")],
        [f"memory of the Python workers, {keys[-1]} keys", between(large, "worker memory a key", "bytes a key")],
        ["start of Spark, until a query can start", between(each, "seconds to start Spark", "s")],
        [
            f"first batch, {keys[0]} keys",
            between(first_batches(cells, keys[0], shards), "seconds of the first batch", "s"),
        ],
        [
            f"first batch, {keys[-1]} keys",
            between(first_batches(cells, keys[-1], shards), "seconds of the first batch", "s"),
        ],
    ]
    return f"{table(['what', 'how much'], lines)}\n\n{measured_on(read('spark'))}"


def first_batches(cells: dict[str, Any], keys: int, shards: list[int]) -> list[dict[str, Any]]:
    return [cells[f"{keys} keys, {n} shards, {cores} cores"] for n in shards for cores in (1, 2)]


def between(cells: list[dict[str, Any]], key: str, unit: str) -> str:
    values = [cell[key] for cell in cells]
    return f"{number(min(values))} to {number(max(values))} {unit}"


# By the name between the markers of a page: <!-- table of NAME --> ... <!-- end of table -->
TABLES = {
    "promises about the floor": promises,
    "other promises": other_promises,
    "cost per row": cost,
    "other libraries": against_rivals,
    "losses": losses,
    "one-row calls": calls,
    "long streams": lasting,
    "start": start,
    "fleets on the cores": on_cores,
    "fleets on a GPU": on_gpu,
    "a million models": whole_on_gpu,
    "other recipes on a GPU": loops_on_gpu,
    "queries on Spark": spark_speed,
    "queries that are killed": spark_exact,
    "state on Spark": spark_state,
    "machine": machine,
    "adaptation latency": adaptation,
    "River's streams": river,
}

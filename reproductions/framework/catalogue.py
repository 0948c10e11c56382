"""Where the experiments are: the scripts ``reproductions/<paper>/<table or figure>.py``."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from reproductions.framework.experiment import Experiment, Reference

ROOT = Path(__file__).parents[1]  # its name is that of a package, so that the scripts of one paper can share code


def names() -> list[str]:
    """Return the names of all experiments, such as "soh2014-table1", without importing them."""
    return [
        f"{path.parent.name}-{path.stem}"
        for path in sorted(ROOT.glob("*/*.py"))
        if "\nEXPERIMENT = " in path.read_text(encoding="utf-8")
    ]


def experiments() -> list[Experiment]:
    """Return all experiments, by paper."""
    return [find(name) for name in names()]


@cache
def find(name: str) -> Experiment:
    """Return an experiment by its name.

    Args:
        name: paper and table or figure, such as "soh2014-table1".
    """
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise ValueError(f"there is no reproduction {name!r}; {hint}")
    key, _, stem = name.partition("-")
    module = importlib.import_module(f"{ROOT.name}.{key}.{stem}")
    experiment: Experiment = module.EXPERIMENT
    return dataclasses.replace(experiment, key=key, stem=stem)


def expected(experiment: Experiment) -> dict[str, Reference]:
    """Return the paper's numbers for an experiment, from the ``expected.toml`` beside its script."""
    section = _section(experiment)
    references = _references(section, section.get("values", {}))
    for pattern, note in section.get("notes", {}).items():  # one sentence for all keys such as "* KLMS *"
        for key in fnmatch.filter(references, pattern):
            if not references[key].note:
                references[key] = dataclasses.replace(references[key], note=note)
    return references


def expected_quickly(experiment: Experiment) -> dict[str, Reference]:
    """Return what a quick run gives, by key: that is what the tests compare with."""
    section = _section(experiment)
    return _references({"tolerance": section.get("quick_tolerance", 0.1)}, section.get("quick", {}))


def _section(experiment: Experiment) -> dict[str, Any]:
    path = ROOT / experiment.key / "expected.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    section = dict(content.get(experiment.stem, {}))
    other = content.get(section.get("values_of", ""), {})  # the same table of the paper, reproduced in another way
    return {name: other[name] for name in ("source", "values") if name in other} | section


def _references(section: dict[str, Any], values: dict[str, Any]) -> dict[str, Reference]:
    """Read ``key = number`` or ``key = {value, tolerance, source, note}``; the section has the defaults."""
    defaults = {name: section[name] for name in ("tolerance", "source") if name in section}
    return {
        key: Reference(**defaults | (entry if isinstance(entry, dict) else {"value": entry}))
        for key, entry in values.items()
    }

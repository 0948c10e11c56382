"""Published: which model is from which paper, what it remembers and what a row costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from streamgp.settings import nearest


class Published(NamedTuple):
    """A model as its paper has it.

    Args:
        name: of the class.
        papers: keys of the bibliography, the one that is implemented first.
        memory: what of the past is an input.
        cost: of a row; m basis points or terms, D frequencies, N units, d inputs.
        variance: whether it has error bars of its own.
    """

    name: str
    papers: tuple[str, ...]
    memory: str
    cost: str
    variance: bool = True


PUBLISHED = (
    Published("SOGP", ("soh2014", "csato2002"), "window", "m²"),
    Published("OESGP", ("soh2014", "jaeger2003"), "reservoir", "m² + N²"),
    Published("OIESGP", ("soh2014", "hermans2012"), "window, recursive kernel", "m² + depth m d"),
    Published("RLSESN", ("soh2014", "jaeger2003"), "reservoir", "N²"),
    Published("SGDESN", ("soh2014", "jaeger2003"), "reservoir", "N² (state), N", variance=False),
    Published("KRLST", ("vanvaerenbergh2016", "vanvaerenbergh2012"), "window", "m²"),
    Published("KRLS", ("vanvaerenbergh2016", "engel2004"), "window", "m²"),
    Published("SWKRLS", ("vanvaerenbergh2006",), "window", "m²"),
    Published("FBKRLS", ("vanvaerenbergh2010",), "window", "m²"),
    Published("RecursiveGP", ("huber2013",), "none", "m²"),
    Published("ISSGPR", ("gijsberts2013", "lazarogredilla2010"), "window", "(2 D)²"),
    Published("IRFRR", ("gijsberts2013", "gijsberts2011"), "window", "(2 D)²", variance=False),
    Published("KLMS", ("vanvaerenbergh2016", "liu2008"), "window", "m d", variance=False),
    Published("QKLMS", ("vanvaerenbergh2016", "chen2012"), "window", "m d", variance=False),
    Published("KNLMS", ("vanvaerenbergh2016", "richard2009"), "window", "m d", variance=False),
    Published("BetaKLMS", ("vanvaerenbergh2016",), "window", "m d", variance=False),
    Published("NORMA", ("kivinen2004",), "window", "m d", variance=False),
    Published("LWPR", ("vijayakumar2005", "klanke2008"), "window", "active fields"),
    Published("LocalGP", ("nguyentuong2009",), "window", "m² of one expert"),
    Published("TimeGP", ("hartikainen2010", "solin2014"), "time alone", "q² for q coordinates"),
    Published("Encoded", ("alshedivat2017",), "trained encoder", "encoder + m²"),
    Published("Committee", ("raftery2010",), "that of its models", "that of all"),
    Published("OnlineGP", (), "any", "m²"),
)


def published(name: str) -> Published:
    """Return what is known of a model, by its name in any case."""
    names = {entry.name: entry for entry in PUBLISHED}
    known = next((known for known in names if known.lower() == name.lower()), None)
    if known is None:
        raise ValueError(f"there is no model {name!r}.{nearest(name, names)} Models: {', '.join(names)}")
    return names[known]


def citation(name: str) -> str:
    """Return the BibTeX entries of the papers of a model.

    Example:
        >>> print(citation("RecursiveGP").splitlines()[0])
        @inproceedings{huber2013,
    """
    entry = published(name)
    if not entry.papers:
        raise ValueError(f"{entry.name} is a composition of one's own; cite the models whose parts it uses")
    package = Path(__file__).parents[1]
    # In an installed package it lies in the package, in the sources at their root.
    installed, source = package / "references.bib", package.parents[1] / "references.bib"
    text = (installed if installed.exists() else source).read_text(encoding="utf-8")
    found = [re.search(rf"^@\w+\{{{key},\n.*?^\}}", text, re.DOTALL | re.MULTILINE) for key in entry.papers]
    return "\n\n".join(match[0] for match in found if match)

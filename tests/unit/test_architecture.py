"""The house stands: no circle, and imports point down."""

from __future__ import annotations

import pytest

import streamgp as sg
from streamgp import filters
from streamgp.filters.model import Filter
from tests import architecture

# Each may import what stands in its own line or below; docs/architecture.md says what each is for.
FLOORS = (
    {"__main__"},
    {"cli"},
    {"api", "serve"},
    {"adapters"},
    {"job"},
    {"deep", "export", "spark"},
    {"auto"},
    {"cuda", "fleet", "tuning"},
    {"batch", "data", "encoded", "evaluate", "tables", "wrappers"},
    {"filters", "local", "recipes"},
    {"process"},
    {"contract"},
    {"kernels"},
    {"linalg"},
    {"arrays", "names", "vocabulary"},
    {"blas", "compiled", "defaults", "settings", "version"},
)


def test_no_module_imports_itself_in_a_circle():
    assert architecture.circle(architecture.imports()) is None


def test_no_folder_imports_itself_in_a_circle():
    assert architecture.circle(architecture.folders()) is None


def test_every_folder_has_its_floor_and_imports_point_down():
    height = {name: -level for level, names in enumerate(FLOORS) for name in names}
    graph = architecture.folders()
    assert graph.keys() == height.keys()
    up = [(name, below) for name, targets in graph.items() for below in targets if height[below] > height[name]]
    assert up == []


def test_a_circle_is_found():
    assert architecture.circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None


COMPILED = ["CompiledModel", "StreamModel", "Saved", "Configured"]
KINDS = dict.fromkeys((sg.OnlineGP, sg.LWPR, sg.LocalGP, Filter), COMPILED)
RECIPES = (
    *(sg.SOGP, sg.OESGP, sg.OIESGP, sg.RLSESN, sg.KRLS, sg.KRLST, sg.SWKRLS, sg.FBKRLS, sg.RecursiveGP, sg.ISSGPR),
    *(sg.IRFRR, sg.TimeGP),
)
FILTERS = (filters.KLMS, filters.QKLMS, filters.KNLMS, filters.BetaKLMS, filters.NORMA, filters.SGDESN)
KINDS |= {kind: ["OnlineGP", *COMPILED] for kind in RECIPES} | {kind: ["Filter", *COMPILED] for kind in FILTERS}


@pytest.mark.parametrize("kind", KINDS)
def test_models_stand_on_the_contract_and_on_what_all_compiled_models_share(kind):
    own = [base.__name__ for base in kind.__mro__ if base.__module__.startswith("streamgp")]
    assert own == [kind.__name__, *KINDS[kind]]

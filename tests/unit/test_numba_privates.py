"""Everything that the sources take from Numba without a promise has a test here that fails when it goes.

Behaviour is tested in test_compiling.py; what is here names the part that is missing after an upgrade.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.caching import FunctionCache

import streamgp
from streamgp.compiled import INTERPRETED
from streamgp.process import stream
from tests import architecture

TESTED = {
    "_cache",
    "_cache_file",
    "_codelibrary",
    "_compiled",
    "_final_module",
    "_finalize_final_module",
    "_finalized",
    "_getvalue",
    "_index_key",
    "_load_index",
    "_object_caching_enabled",
    "_optimize_final_module",
    "_set_uuid",
    "_source_stamp",
}
SOURCES = Path(streamgp.__file__).parent
pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_a_cache_is_stamped_and_asked_through_its_parts():
    cache = stream.run_fixed._cache
    assert isinstance(cache, FunctionCache)
    assert "self._source_stamp" in inspect.getsource(type(cache._cache_file))
    assert parameters(cache._cache_file._load_index) == []
    assert isinstance(cache._cache_file._load_index(), dict)
    assert parameters(cache._index_key) == ["sig", "codegen"]


def test_an_array_in_compiled_code_is_a_structure_with_an_owner():
    from numba.core.cgutils import _StructProxy

    assert parameters(_StructProxy._getvalue) == ["self"]
    view = numba.core.datamodel.default_manager.lookup(types.Array(types.float64, 1, "C"))
    assert {"meminfo", "parent"} <= set(view._fields)


def test_a_record_is_mangled_by_a_property_of_its_type():
    assert isinstance(inspect.getattr_static(types.Type, "mangling_args"), property)
    record = numba.from_dtype(np.dtype([("a", np.int64)]))
    assert isinstance(record.name, str)
    assert isinstance(stream.run_fixed.overloads, dict)


def test_a_library_is_made_machine_code_by_one_method():
    from numba.core.codegen import Codegen, CPUCodeLibrary, JITCodeLibrary, JITCPUCodegen

    text = inspect.getsource(CPUCodeLibrary.finalize)
    assert text.rstrip().endswith("self._finalize_final_module()")
    assert "self._optimize_final_module()" in text
    assert "self._final_module" in inspect.getsource(CPUCodeLibrary._optimize_final_module)
    assert "self._final_module" in inspect.getsource(CPUCodeLibrary._finalize_final_module)
    assert "self._finalized = True" in inspect.getsource(CPUCodeLibrary._finalize_final_module)
    assert "self._object_caching_enabled and self._compiled_object" in inspect.getsource(CPUCodeLibrary)
    assert "self._library_class(" in inspect.getsource(Codegen.create_library)
    assert JITCPUCodegen._library_class is JITCodeLibrary
    assert parameters(JITCPUCodegen.set_env) == ["self", "env_name", "env"]


def test_a_kernel_of_a_gpu_keeps_its_library():
    dispatcher = pytest.importorskip("numba.cuda.dispatcher", reason="Numba for GPUs is not installed")
    from numba.cuda.codegen import CUDACodeLibrary

    assert "self._codelibrary = lib" in inspect.getsource(dispatcher._Kernel)
    assert parameters(CUDACodeLibrary.get_cufunc) == ["self"]


def test_an_intrinsic_of_a_gpu_keeps_the_identity_that_it_is_given():
    extending = pytest.importorskip("numba.cuda.extending", reason="Numba for GPUs is not installed")
    intrinsic = extending.intrinsic(lambda context: None)
    intrinsic._set_uuid("a name")
    assert intrinsic._uuid == "a name"


def private(name):
    return name.startswith("_") and not name.startswith("__")


def defined(tree):
    """Private names that are our own: functions, names of a module or a class, attributes of self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def test_no_other_private_part_is_used():
    trees = {path: architecture.tree(path) for path in sorted(SOURCES.rglob("*.py"))}
    ours = {name for tree in trees.values() for name in defined(tree)}
    used = {
        node.attr
        for path, tree in trees.items()
        if re.search(r"^\s*(import|from) numba", path.read_text(), re.MULTILINE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and private(node.attr) and ast.unparse(node.value) != "os"
    }
    assert used - (ours - TESTED) == TESTED, "a private part of Numba needs a test above"

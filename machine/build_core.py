"""Build the machine code of a wheel into a folder: one shared library for each processor, and a table of them.

    python machine/build_core.py FOLDER

Numba compiles each entry for a processor by name, in a process of its own; its optimized code becomes an object file
that can lie anywhere in memory; a C compiler links these with core.c, through which Python calls them.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))  # these very sources

# By machine, the best first: all can be told apart (streamgp/compiled/shipped.py).
PROCESSORS = {"x86_64": ["x86-64-v3", "x86-64"], "AMD64": ["x86-64-v3", "x86-64"], "aarch64": ["generic"]}
MOST = 512  # numbers that a call hands on, as core.c has it
ITEMS = {"float64": ("d", 8), "int64": ("q", 8), "boolean": ("?", 1)}
RESULTS = {"none": "", "int64": "L", "float64": "d", "bool": "?"}
# What compiled code calls to make an array: an entry gets its work space from Python, or has it in the state.
ALLOCATES = re.compile(r"(?:call|invoke) [^\n]*@(NRT_(?:Allocate|MemInfo_(?:alloc|new|varsize))\w*)\(")
OPTIONS = ["-shared", "-fPIC", "-O2", "-s", "-Wall", "-Wextra", "-fvisibility=hidden", "-fno-strict-aliasing", "-lm"]


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = PROCESSORS[platform.machine()]
    with tempfile.TemporaryDirectory() as cache:  # what is loaded from a cache has no code to link
        running = [
            subprocess.Popen(
                [sys.executable, __file__, str(folder), name],
                env=os.environ
                | {"STREAMGP_JIT": "1", "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
                | {"NUMBA_CACHE_DIR": f"{cache}/{name}"},
            )
            for name in names
        ]
        failed = [one.wait() for one in running]
    if any(failed):
        raise SystemExit("the machine code was not built")
    from streamgp.compiled.sources import digest

    table = {"digest": digest(), "processors": names, "entries": entries_of(folder)}
    (folder / "core.json").write_text(json.dumps(table, indent=1), encoding="utf-8")


def entries_of(folder: Path) -> list[str]:
    return json.loads((folder / "entries.json").read_text(encoding="utf-8"))


def compile_for(processor: str, folder: Path, *only: str) -> None:
    """Compile all entries for a processor, or only those of these names, and link them."""
    import llvmlite.binding as llvm

    from streamgp.compiled import compile_once, jit

    jit.for_python = False
    compile_once.prepare()
    from streamgp.job.ahead import every

    objects = folder / "objects" / processor
    objects.mkdir(parents=True, exist_ok=True)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu=processor, opt=3, reloc="pic", codemodel="small")
    entries, files = [function.entry for function in every()], []
    entries = [one for one in entries if not only or compile_once.name_of(one) in only]
    for i, one in enumerate(entries):
        one.compile(one.types)
        found = one.overloads[one.types]
        _, _, bitcode = found.library.serialize_using_bitcode()
        module = llvm.parse_bitcode(bitcode)
        refuse_allocations(compile_once.name_of(one), str(module))
        module.get_function(found.fndesc.llvm_func_name).name = symbol(i)
        files.append(objects / f"{i}.o")
        files[-1].write_bytes(machine.emit_object(module))
    (objects / "entries.h").write_text(tables(entries), encoding="utf-8")
    code = [str(HERE / "core.c"), f"-I{objects}", *map(str, files)]
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    library = folder / f"{processor}.so"
    subprocess.run([compiler, *code, "-o", str(library), *OPTIONS], check=True)
    ctypes.PyDLL(str(library.resolve()))  # which fails where core.c lacks a function of Numba's runtime
    (folder / "entries.json").write_text(json.dumps(list(map(compile_once.name_of, entries))), encoding="utf-8")


def refuse_allocations(name: str, code: str) -> None:
    """End where the code of an entry, in LLVM's language, makes an array."""
    if found := sorted(set(ALLOCATES.findall(code))):
        raise SystemExit(f"{name} makes an array, by {', '.join(found)}; pass it one, or keep it in the state")


def symbol(i: int) -> str:
    return f"streamgp_entry_{i}"


def tables(entries: list[Any]) -> str:
    """What core.c includes: the entries, what they take, and how to call each."""
    functions, lines = [], ["static const Entry entries[] = {"]
    for i, one in enumerate(entries):
        name, called = one.py_func.__name__, all(kind.item != "model" for kind in one.kinds)
        fields = [field for kind in one.kinds for field in fields_of(kind)] if called else []
        if len(fields) > MOST:
            raise SystemExit(f"{name} takes {len(fields)} numbers; core.c has room for {MOST}")
        functions.append(f"extern int {symbol(i)}({', '.join(['void *', 'void **', *fields])});")
        if called:  # the others take models, which compiled code alone hands over
            given = ", ".join(["result", "error", *(HANDED_ON[field].format(at) for at, field in enumerate(fields))])
            functions += [
                f"static const Argument arguments_{i}[] = {{{', '.join(map(described, one.kinds))}}};",
                f"static int call_{i}(int64_t *b, void *result, void **error) {{ return {symbol(i)}({given}); }}",
            ]
        arguments, call = (f"arguments_{i}", f"call_{i}") if called else ("0", "0")
        returns = one.overloads[one.types].signature.return_type
        count = getattr(returns, "count", 0)
        result = f"({RESULTS[str(returns.dtype)] * count})" if count else RESULTS[str(returns)]
        lines.append(f'    {{"{name}", {len(one.kinds)}, {arguments}, "{result}", (void *){symbol(i)}, {call}}},')
    return "\n".join([*functions, *lines, "};", ""])


# Numbers of the block, as C hands them on.
HANDED_ON = {"double": "*(double *)&b[{}]", "void *": "(void *)(intptr_t)b[{}]"} | {
    field: f"({field})b[{{}}]" for field in ("int64_t", "unsigned char")
}


def fields_of(kind: Any) -> list[str]:
    """What an argument is made of: of an array its owners, none, its sizes, its place, its shape and its strides."""
    if kind.axes:
        return ["void *", "void *", "int64_t", "int64_t", "void *", *["int64_t"] * 2 * kind.axes]
    return [{"d": "double", "q": "int64_t", "?": "unsigned char"}[ITEMS[kind.item][0]]]


def described(kind: Any) -> str:
    """An argument, as the tables have it."""
    item, size = ("r", kind.record.itemsize) if kind.item == "record" else ITEMS[kind.item]
    return f"{{'{item}', {kind.axes}, {int(kind.contiguous)}, {int(not kind.read)}, {size}}}"


def platform_tag(folder: Path) -> str:
    """The platform of a wheel with these libraries; on Linux by the newest C library that they ask for."""
    if platform.system() != "Linux":
        return re.sub(r"[-.]", "_", sysconfig.get_platform())
    asked = [re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes()) for path in folder.glob("*.so")]
    newest = max((int(version) for versions in asked for version in versions), default=17)
    return f"manylinux_2_{max(newest, 17)}_{platform.machine()}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        build(Path(sys.argv[1]))
    else:
        compile_for(sys.argv[2], Path(sys.argv[1]), *sys.argv[3:])

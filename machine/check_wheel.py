"""Whether an installation has the machine code of its wheel, and nothing that could compile it."""

from __future__ import annotations

from importlib.util import find_spec

from streamgp.compiled import way


def main() -> None:
    there = [name for name in ("numba", "llvmlite") if find_spec(name) is not None]
    if there:
        raise SystemExit(f"{' and '.join(there)} must not be installed here")
    print(way.described())
    if not way.described().startswith("machine code of the wheel"):
        raise SystemExit("the machine code of the wheel is not in use")


if __name__ == "__main__":
    main()

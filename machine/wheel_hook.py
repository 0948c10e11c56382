"""A wheel with machine code is one for its platform; without, it is one for all, and Numba compiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Add the folder that STREAMGP_CORE names, which build_core.py wrote."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        given = os.environ.get("STREAMGP_CORE")
        if version != "standard" or not given:
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from build_core import platform_tag

        folder = Path(self.root) / given
        files = [folder / "core.json", *sorted(folder.glob("*.so"))]
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform_tag(folder)}"
        build_data["force_include"] |= {str(path): f"streamgp/core/{path.name}" for path in files}

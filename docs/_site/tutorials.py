"""The tutorials as scripts: ``python docs/_site/tutorials.py`` writes examples/ from the pages and draws pictures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images" / "tutorials"
PAGES = {
    "robot_arm": "tutorials/robot-arm.md",
    "mpc": "tutorials/mpc.md",
    "late_load": "tutorials/late-load.md",
    "drifting_sensor": "tutorials/drifting-sensor.md",
    "demonstration": "tutorials/demonstration.md",
    "fleet": "tutorials/fleet.md",
    "from_river": "coming-from-river.md",
    "from_sklearn": "coming-from-sklearn.md",
    "from_kernel_filters": "coming-from-kernel-adaptive-filtering.md",
}


def script(name: str) -> str:
    """The code of a page, one block after the other, below a line that says where it is explained."""
    page = ROOT / "docs" / PAGES[name]
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join([f'"""The code of docs/{PAGES[name]}, which explains it."""\n', *blocks])


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        path = ROOT / "examples" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(script(name))
        print(f"{path.relative_to(ROOT)}:", flush=True)
        subprocess.run([sys.executable, path], cwd=PICTURES, env=os.environ | {"MPLBACKEND": "Agg"}, check=True)


if __name__ == "__main__":
    main()

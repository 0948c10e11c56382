"""A hook of the site: what lies beside docs/ and belongs to it, and which pages need no table of contents."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
BESIDE = ("reproductions/*/results/*.png", "examples/**/*", "CHANGELOG.md")


def on_files(files, config):
    for path in sorted(path for pattern in BESIDE for path in ROOT.glob(pattern) if path.is_file()):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    if "\n## " not in markdown and "\n::: " not in markdown:
        page.meta["hide"] = ["toc"]  # its room goes to the code
    # In the repository what lies beside docs/ is one folder up.
    return re.sub(r"\]\(\.\./(reproductions/|examples/|CHANGELOG\.md)", r"](\1", markdown)

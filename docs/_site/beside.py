"""A hook of the site: what lies beside docs/ and belongs to it, pictures of reproductions, examples, the changelog."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
BESIDE = ("reproductions/*/results/*.png", "examples/*", "CHANGELOG.md")


def on_files(files, config):
    for path in sorted(path for pattern in BESIDE for path in ROOT.glob(pattern) if path.is_file()):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """In the repository they are one folder up from docs/."""
    return re.sub(r"\]\(\.\./(reproductions/|examples/|CHANGELOG\.md)", r"](\1", markdown)

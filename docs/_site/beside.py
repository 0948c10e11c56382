"""A hook of the site: what lies beside docs/ and belongs to it, the pictures of the reproductions and the changelog."""

from __future__ import annotations

from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]


def on_files(files, config):
    for path in [*sorted(ROOT.glob("reproductions/*/results/*.png")), ROOT / "CHANGELOG.md"]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """In the repository they are one folder up from docs/."""
    return markdown.replace("](../reproductions/", "](reproductions/").replace("](../CHANGELOG.md)", "](CHANGELOG.md)")

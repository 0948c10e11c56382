"""A hook of the site: what lies beside docs/ and belongs to it, which pages need no table of contents, and the same
pages for machines: the Markdown of each beside its HTML, and a list of all as llms.txt."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
BESIDE = ("reproductions/*/results/*.png", "reproductions/*/README.md", "examples/**/*", "CHANGELOG.md")


TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_files(files, config):
    for path in sorted(path for pattern in BESIDE for path in ROOT.glob(pattern) if path.is_file()):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    if "\n## " not in markdown and "\n::: " not in markdown:
        page.meta["hide"] = ["toc"]  # its room goes to the code
    if page.file.src_uri.startswith("reproductions/"):
        return markdown.replace("](../../docs/", "](../../")
    # In the repository what lies beside docs/ is one folder up.
    markdown = re.sub(r"\]\(\.\./(reproductions/|examples/|CHANGELOG\.md)", r"](\1", markdown)
    return markdown.replace("](docs/", "](")  # as the changelog says


def on_post_build(config):
    """Write the Markdown of every page into the site, and llms.txt, which lists them in the order of the navigation."""
    site, lines = Path(config["site_dir"]), [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for section, pages in sections(config["nav"]):
        lines += ["", f"## {section}", ""]
        for path in pages:
            text = (ROOT / path if path == "CHANGELOG.md" else ROOT / "docs" / path).read_text()
            twin = site / path
            twin.parent.mkdir(parents=True, exist_ok=True)
            twin.write_text(text)
            lines.append(f"- [{TITLE.search(text)[1]}]({path})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n")


def sections(nav):
    """The parts of the navigation and all pages of each; pages that stand alone come first."""
    alone, parts = [], []
    for entry in nav:
        for name, inside in entry.items():
            if isinstance(inside, str):
                alone.append(inside)
            else:
                parts.append((name, list(leaves(inside))))
    return [("Begin here", alone), *parts]


def leaves(entries):
    for entry in entries:
        for inside in entry.values() if isinstance(entry, dict) else (entry,):
            if isinstance(inside, str):
                yield inside
            else:
                yield from leaves(inside)

"""Pages of the site for language models, as a list and as one text, in the llms.txt format (llmstxt.org)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Sections = Mapping[str, Sequence[str]]
"""Paths of pages by the title of their section, in the order of the navigation."""


def sections_of(nav: Sequence[Any]) -> dict[str, list[str]]:
    """Return the pages of the navigation *nav* of mkdocs.yml, by the sections at its top."""
    found: dict[str, list[str]] = {}
    for entry in nav:
        for title, inside in entry.items() if isinstance(entry, dict) else [("", entry)]:
            found.setdefault(title, []).extend(_paths(inside))
    return found


def summary(config: Mapping[str, Any], sections: Sections, pages: Path) -> str:
    """Return the text of llms.txt, with the title and the first paragraph of each page."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for title, paths in sections.items():
        lines += ["", f"## {title}", ""]
        for path in paths:
            heading, first = _beginning((pages / path).read_text(encoding="utf-8"))
            lines.append(f"- [{heading}]({path.removesuffix('.md').removesuffix('index')}): {first}")
    return "\n".join(lines) + "\n"


def full_text(sections: Sections, pages: Path) -> str:
    """Return the texts of all pages as one text."""
    texts = [(pages / path).read_text(encoding="utf-8").strip() for paths in sections.values() for path in paths]
    return "\n\n---\n\n".join(texts) + "\n"


def _paths(inside: Any) -> Iterator[str]:
    if isinstance(inside, str):
        yield inside
    elif isinstance(inside, dict):
        for each in inside.values():
            yield from _paths(each)
    else:
        for each in inside:
            yield from _paths(each)


def _beginning(text: str) -> tuple[str, str]:
    blocks = [block for block in text.split("\n\n") if block.strip()]
    heading = blocks[0].removeprefix("# ").strip()
    return heading, " ".join(blocks[1].split()) if len(blocks) > 1 else ""

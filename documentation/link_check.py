"""Checks of the built site: all links, anchors, pictures and scripts exist, and no page loads external content."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
"""Elements whose content browsers load automatically, with the attribute that contains the address."""
NOT_LOADED = frozenset({"canonical", "alternate", "prev", "next", "edit"})
"""Relations of ``<link>`` that a browser does not load."""


@dataclass
class Page(HTMLParser):
    """Addresses and anchors of one page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        attribute = LOADED.get(tag)
        if attribute in values and not (tag == "link" and NOT_LOADED & set(values.get("rel", "").split())):
            self.loads.append(values[attribute])


def faults(site: Path) -> list[str]:
    """Return one line for each broken link, and for each external file that a page loads."""
    pages: dict[Path, Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    found: list[str] = []
    for path, page in pages.items():
        if path.name != "404.html":
            found += [f"{path.relative_to(site)}: {fault}" for fault in _faults_of(path, page, site, pages)]
    return found


def _faults_of(path: Path, page: Page, site: Path, pages: dict[Path, Page]) -> list[str]:
    found = [f"{load} is loaded from outside" for load in page.loads if urlsplit(load).netloc]
    for address in [*page.links, *page.loads]:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file() or not target.is_relative_to(site.resolve()):
            found.append(f"{address} leads nowhere")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            found.append(f"{address} has no such anchor")
    return found

"""Input folder of the site generator, with the pages of docs/ and pages from other folders of the repository."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

REPOSITORY = "https://github.com/warmgate/warmgate"
"""Address of the repository. Links to files that are not on the site lead to this address."""

ELSEWHERE = {"CHANGELOG.md": "project/changelog.md", "SECURITY.md": "project/security-policy.md"}
"""Pages of the site from outside docs/, with their paths on the site."""

RESULTS, RESULTS_ON_SITE = "benchmarks/results", "performance/results"

_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def stage(root: Path, pages: Path) -> None:
    """Write all pages of the site and their pictures into the folder *pages*, after deleting its old content."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(root / "docs", pages)
    results = pages / RESULTS_ON_SITE
    results.mkdir(parents=True, exist_ok=True)
    for result in sorted((root / RESULTS).iterdir()):
        if result.suffix in {".md", ".svg"}:
            shutil.copy(result, results)
    for name, place in ELSEWHERE.items():
        if (root / name).exists():
            shutil.copy(root / name, pages / place)
    sites = places(root)
    for source, place in sites.items():
        page = pages / place
        page.write_text(relinked(page.read_text(encoding="utf-8"), source, place, sites, root), encoding="utf-8")


def places(root: Path) -> dict[str, str]:
    """Return the path on the site of each Markdown page, by its path in the repository."""
    found = {f"docs/{path}": str(path) for path in _markdown(root / "docs")}
    found |= {f"{RESULTS}/{path}": f"{RESULTS_ON_SITE}/{path}" for path in _markdown(root / RESULTS)}
    return found | {name: place for name, place in ELSEWHERE.items() if (root / name).exists()}


def relinked(text: str, source: str, place: str, sites: Mapping[str, str], root: Path) -> str:
    """Return *text* of the page *source*, with links adapted to its path *place* on the site.

    Links to pages of the site lead to their place there, links to other files of the repository to `REPOSITORY`.
    Fenced code stays as it is.
    """
    folder = PurePosixPath(source).parent

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        return f"{label}({_address(os.path.normpath(folder / path), place, sites, root)}{mark}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if _FENCE.fullmatch(part) else _LINK.sub(link, part) for part in parts)


def _address(path: str, place: str, sites: Mapping[str, str], root: Path) -> str:
    here = PurePosixPath(place).parent
    if path in sites:
        return os.path.relpath(sites[path], here)
    for folder, on_site in (("docs", "."), (RESULTS, RESULTS_ON_SITE)):
        if PurePosixPath(path).is_relative_to(folder) and (root / path).is_file():
            return os.path.relpath(PurePosixPath(on_site) / PurePosixPath(path).relative_to(folder), here)
    kind = "tree" if (root / path).is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path}"


def _markdown(folder: Path) -> list[PurePosixPath]:
    return sorted(PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob("*.md"))

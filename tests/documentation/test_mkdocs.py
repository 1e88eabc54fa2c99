"""Facts about mkdocs.yml, which Zensical and mkdocs-material both read."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
OF_MARKDOWN = {"admonition", "attr_list", "md_in_html", "tables", "toc"}


def test_icons_are_of_a_set_that_both_generators_have() -> None:
    """Only Zensical has the icons of lucide."""
    icons = [palette["toggle"]["icon"] for palette in CONFIG["theme"]["palette"]]

    assert ["material", "material"] == [icon.partition("/")[0] for icon in icons]


def test_extensions_are_of_packages_that_both_generators_have() -> None:
    """Python-Markdown and its extensions pymdownx."""
    names = [each if isinstance(each, str) else next(iter(each)) for each in CONFIG["markdown_extensions"]]

    assert [] == [name for name in names if name not in OF_MARKDOWN and not name.startswith("pymdownx.")]

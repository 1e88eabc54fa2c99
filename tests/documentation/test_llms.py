from pathlib import Path

import yaml

from documentation.llms import full_text, sections_of, summary

ROOT = Path(__file__).parents[2]
NAV = [{"Home": "index.md"}, {"Start": ["start/local.md", {"SDK": "start/openai-sdk.md"}]}]
CONFIG = {"site_name": "Warmgate", "site_description": "A gateway"}


def test_sections_have_their_pages_in_the_order_of_the_navigation() -> None:
    assert {"Home": ["index.md"], "Start": ["start/local.md", "start/openai-sdk.md"]} == sections_of(NAV)


def test_each_page_is_listed_with_its_title_and_first_paragraph(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# Warmgate\n\nFor everyone: what\nit is.\n\nMore.\n")

    text = summary(CONFIG, {"Home": ["index.md"]}, tmp_path)

    assert "# Warmgate\n\n> A gateway\n\n## Home\n\n- [Warmgate](): For everyone: what it is.\n" == text


def test_the_full_text_has_all_pages(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n")
    (tmp_path / "b.md").write_text("# B\n")

    assert "# A\n\n---\n\n# B\n" == full_text({"": ["a.md", "b.md"]}, tmp_path)


def test_every_page_of_docs_is_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = {path for paths in sections_of(nav).values() for path in paths}
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    assert set() == written - listed
    assert set() == listed - written - {"project/changelog.md", "project/security-policy.md"}

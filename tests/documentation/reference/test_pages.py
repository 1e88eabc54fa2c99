from pathlib import Path

import pytest

from documentation.reference.markdown import COMMAND
from documentation.reference.pages import PAGES, write

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", PAGES)
def test_the_committed_page_is_up_to_date(path: str) -> None:
    """A change of the code is followed by the command that writes the pages."""
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), f"Run {COMMAND}"


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_names_its_readers_and_the_command(path: str) -> None:
    """The first paragraph says for whom the page is, as on every page of the site."""
    title, note, first = PAGES[path]().split("\n\n")[:3]

    assert title.startswith("# ")
    assert COMMAND in note
    assert first.startswith("This page lists for ")


def test_all_pages_are_written_into_the_folder(tmp_path: Path) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    write(tmp_path)

    assert set(PAGES) == {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}

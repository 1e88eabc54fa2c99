"""The checks of language. `make lint` runs them over everything that is tracked."""

from pathlib import Path

from tests.language import EXCEPTIONS, ROOT, findings

MODULE = '''"""What a worker says."""

LIMIT = 1
"""Of one team."""


def told() -> str:
    """Return the reason."""
    return "nobody is there"  # sent anew


class Worker:
    """Workers of one model.

    Whoever asks is answered.
    """

    is_told_apart = True
'''


def found_in(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return sorted((finding.line, finding.found) for finding in findings(tmp_path, [name]))


def test_words_are_found_in_strings_comments_docstrings_and_names(tmp_path: Path) -> None:
    expected = [
        (1, "What a worker says."),
        (4, "Of one team."),
        (7, "told"),
        (9, "anew"),
        (9, "nobody"),
        (15, "Whoever"),
        (18, "told"),
    ]

    assert expected == found_in(tmp_path, "gateway/module.py", MODULE)


def test_a_test_may_begin_its_sentence_with_a_condition(tmp_path: Path) -> None:
    """In the product a docstring of these words would be read after the name."""
    text = 'def test_x():\n    """If the store is unavailable, the request fails."""\n'

    assert [] == found_in(tmp_path, "tests/test_module.py", text)
    assert [(2, "If the store is unavailable, the request fails.")] == found_in(tmp_path, "gateway/module.py", text)


def test_words_are_found_in_other_files(tmp_path: Path) -> None:
    assert [(2, "what became of"), (3, "behaviour")] == found_in(
        tmp_path, "docs/page.md", "# Page\nwhat became of it,\nand its behaviour.\n"
    )


def test_every_exception_is_still_needed() -> None:
    assert [] == [one for one in EXCEPTIONS if one.text not in (ROOT / one.path).read_text(encoding="utf-8")]

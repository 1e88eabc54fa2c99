from documentation.reference.markdown import code, page, sentence, table


def test_a_table_has_a_line_for_each_row() -> None:
    """Vertical bars and line breaks would end a cell."""
    assert "| a | b |\n|---|---|\n| 1 \\| 2 | x y |" == table(("a", "b"), [("1 | 2", "x\ny")])


def test_code_of_nothing_is_an_empty_cell() -> None:
    assert ["`x`", ""] == [code("x"), code("")]


def test_a_text_becomes_a_sentence() -> None:
    assert ["Port to use.", "Use 0.", ""] == [sentence("port to use"), sentence("Use\n0."), sentence("")]


def test_parts_of_a_page_are_separated_by_blank_lines() -> None:
    """Empty parts are left out, and the page ends with one line break."""
    title, note, *parts = page("Title", "one\n", "", "two").split("\n\n")

    assert "# Title" == title
    assert note.startswith("<!-- Generated")
    assert ["one", "two\n"] == parts

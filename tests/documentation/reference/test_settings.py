from documentation.reference.settings import anchor, page


def test_a_group_has_a_section_with_its_settings() -> None:
    """Settings of a group inside it stand in a section of their own."""
    section = page().partition("## `models[].workers[]`")[2].partition("\n## ")[0]

    assert "| `models[].workers[].url` | text | required |" in section
    assert "models[].workers[].kv_events" not in section


def test_the_index_leads_to_the_section_of_each_group() -> None:
    """The anchor is what the site generator makes of the heading."""
    assert "modelsworkerskv_events" == anchor("models[].workers[].kv_events")
    assert "| [`server`](#server) |" in page()

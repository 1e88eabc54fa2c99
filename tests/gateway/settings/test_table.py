import pytest

from gateway.settings.table import BEGIN, END, as_markdown, describe, with_table
from tests.gateway.settings.examples import sentences


def test_every_setting_is_described() -> None:
    """The table of docs/reference/settings.md is made of these rows."""
    rows = {row.path: row for row in describe()}

    assert [] == [row.path for row in rows.values() if not row.description]
    port = rows["server.port"]
    assert ("WARMGATE_SERVER__PORT", "integer", "8080") == (port.variable, port.type, port.default)
    key = rows["models[].workers[].api_key"]
    assert ("WARMGATE_MODELS__0__WORKERS__0__API_KEY", "secret text or null", "null") == (
        key.variable,
        key.type,
        key.default,
    )
    assert "required" == rows["models[].name"].default
    assert "derived" == rows["models[].upstream_model"].default
    assert "list of text" == rows["models[].aliases"].type
    assert "text or json" == rows["logging.format"].type


def test_every_described_variable_is_one_that_is_read() -> None:
    """Each is known: it may be refused for its value, not for its name."""
    for row in describe():
        assert "is not a setting" not in " ".join(sentences(**{row.variable: "~", "WARMGATE_SERVER__PORT": "x"}))


def test_the_page_gets_the_table_between_its_marks() -> None:
    """What was there goes, what is around it stays; a second time changes nothing."""
    page = with_table(f"# Page\n{BEGIN}\nold\n{END}\nafter\n")

    assert f"# Page\n{BEGIN}\n{as_markdown()}\n{END}\nafter\n" == page
    assert page == with_table(page)
    assert "| `server.keep_alive_s` | integer | `75` | seconds that an idle client connection stays open. " in page


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}{END}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    """Rather than guessed at."""
    with pytest.raises(ValueError, match="must contain <!-- settings --> and then <!-- /settings -->, each once"):
        with_table(page)

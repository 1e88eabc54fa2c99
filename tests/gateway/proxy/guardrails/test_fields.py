import pytest

from gateway.proxy.guardrails.fields import KeptFields, ScannedFields
from gateway.proxy.guardrails.filter import Action, Text
from tests.gateway.proxy.guardrails.examples import MAIL, a_filter


class Noted:
    def __init__(self) -> None:
        self.found: list[tuple[str, Action]] = []

    def __call__(self, name: str, action: Action) -> None:
        self.found.append((name, action))


def test_each_text_is_one_of_its_own() -> None:
    noted = Noted()
    fields = ScannedFields([a_filter()], noted)

    assert ["", ""] == [fields.feed((n, "content"), "jane.doe@exa", is_json=False) for n in (0, 1)]
    assert [(0, "content")] == fields.begun((0,))
    assert "[EMAIL] " == fields.feed((0, "content"), "mple.org x", is_json=False)
    assert ["x", "jane.doe@exa"] == [fields.end((n, "content")) for n in (0, 1)]
    assert "" == fields.end((7,))
    assert [("pii", "redact")] == noted.found


def test_what_only_logs_changes_nothing_and_makes_nothing_wait() -> None:
    noted = Noted()
    fields = ScannedFields([a_filter(action="log")], noted)

    assert MAIL[:5] == fields.feed((0,), MAIL[:5], is_json=False)
    assert MAIL[5:] == fields.feed((0,), MAIL[5:], is_json=False)
    assert "" == fields.end((0,))
    assert [("pii", "log")] == noted.found


def test_filters_see_a_text_in_their_order() -> None:
    """The second sees what the first has left."""
    noted = Noted()
    words = a_filter("words", kind="words", words=["example"])
    fields = ScannedFields([a_filter(), words], noted)

    assert "[EMAIL] [WORD]" == fields.whole(Text(f"{MAIL} example"))
    assert [("pii", "redact"), ("words", "redact")] == noted.found


def test_a_callback_may_end_the_stream() -> None:
    def ends(name: str, action: Action) -> None:
        raise RuntimeError(name)

    with pytest.raises(RuntimeError, match="pii"):
        ScannedFields([a_filter(action="block")], ends).whole(Text(MAIL))


def test_kept_texts_are_replaced_with_their_first_piece() -> None:
    kept = KeptFields()
    for path, text in (((0, "content"), "a"), ((1, "content"), "x"), ((0, "content"), "b")):
        assert text == kept.feed(path, text, is_json=False)
    assert "w" == kept.whole(Text("w"))
    assert [Text("ab"), Text("x"), Text("w")] == kept.texts

    replaced = kept.replaced(["AB", "X", "W"])
    assert ["AB", "X", ""] == [replaced.feed((n, "content"), "?", is_json=False) for n in (0, 1, 0)]
    assert "W" == replaced.whole(Text("w"))
    assert ["", []] == [replaced.end((0,)), replaced.begun(())]
    assert ["", []] == [kept.end((0,)), kept.begun(())]

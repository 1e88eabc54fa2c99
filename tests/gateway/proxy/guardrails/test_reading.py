"""The texts of a JSON request, read and written."""

import pytest

from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.proxy.guardrails.reading import MAX_TEXTS, AtOnce, rewrite_texts, texts_of


async def test_what_has_changed_is_written_and_nothing_else() -> None:
    raw = b'{"model":"tiny", "n" : 1.0e0,"messages":[{"content":"a"}], "tools":["b"]}'
    reader = AtOnce()
    texts = await reader.texts(raw, acts=True)

    assert ["a", "b"] == [text.said for text in texts]
    assert raw.replace(b'"b"', b'"c"') == await reader.rewritten(raw, ["a", "c"])
    assert raw == rewrite_texts(raw, ["a", "b"])


def test_tokens_are_refused_where_a_guardrail_acts() -> None:
    assert [] == texts_of(b'{"input_ids":[1]}', acts=False)
    with pytest.raises(InvalidField):
        texts_of(b'{"input_ids":[1]}', acts=True)


def test_bounds_are_named() -> None:
    """Limits of nesting and of texts; if all guardrails log, the first texts are checked."""
    many = b'{"tools":[' + b'"x",' * MAX_TEXTS + b'"x"]}'
    with pytest.raises(MalformedBody, match="nested too deeply"):
        texts_of(b'{"tools":' + b"[" * 700 + b'"x"' + b"]" * 700 + b"}", acts=False)
    with pytest.raises(MalformedBody, match="more than 20000 texts"):
        texts_of(many, acts=True)

    assert MAX_TEXTS == len(texts_of(many, acts=False))

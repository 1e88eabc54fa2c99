"""Where in a form there are texts. What was tried to get round it: tests/security/test_guardrail_bypasses.py."""

import pytest

from gateway.protocol.endpoints.multipart import parts_of
from gateway.protocol.errors import InvalidField
from gateway.proxy.guardrails.form_texts import MAX_TEXTS_BYTES, form_texts, with_form_texts

MEDIA = b"multipart/form-data; boundary=x"
HEAD = b"--x\r\nContent-Disposition: form-data; name="


def a_form(*parts: bytes) -> bytes:
    return b"".join([HEAD + part + b"\r\n" for part in parts]) + b"--x--\r\n"


PLAIN = a_form(
    b'"model"\r\n\r\ntiny',
    b'"file"; FileName="a"\r\n\r\nRIFF',
    b'"prompt"\r\n\r\nhi',
    b'"language"\r\n\r\n',
    b'"t[]"\r\n\r\nw',
)


def test_every_field_is_a_text_but_files_and_the_model() -> None:
    """Empty fields are left out; known places give the same texts."""
    places = tuple([(part.name, part.start, part.end) for part in parts_of(PLAIN, MEDIA)])
    fields = form_texts(PLAIN, MEDIA, None, acts=True)

    assert [("prompt", "hi"), ("t[]", "w")] == [(field.name, field.text.said) for field in fields]
    assert fields == form_texts(PLAIN, MEDIA, places, acts=True)


def test_only_what_has_changed_is_written() -> None:
    fields = form_texts(PLAIN, MEDIA, None, acts=True)

    assert PLAIN.replace(b"\r\nhi\r\n", "\r\nhé\r\n".encode()) == with_form_texts(PLAIN, MEDIA, fields, ["hé", "w"])
    assert PLAIN == with_form_texts(PLAIN, MEDIA, fields, ["hi", "w"])


@pytest.mark.parametrize(
    "part",
    [b'"prompt"\r\n\r\n\xff', b'"prompt"; filename=a\r\n\r\nx', b'"prompt"\r\n\r\n' + b"x" * (MAX_TEXTS_BYTES + 1)],
)
def test_what_cannot_be_looked_at_is_refused_where_a_guardrail_acts(part: bytes) -> None:
    """Where all only log it passes."""
    with pytest.raises(InvalidField) as refusal:
        form_texts(a_form(part), MEDIA, None, acts=True)

    assert "prompt" == refusal.value.param
    assert [] == form_texts(a_form(part), MEDIA, None, acts=False)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (b'"prompt"\r\nContent-Length: 2\r\n\r\nhi', "ho"),
        (b'"prompt"\r\n\r\nhi', "--x"),
        (b'"prompt"\r\n\r\nhi', "a\r\n--xy"),
    ],
)
def test_what_would_be_read_differently_is_refused(part: bytes, said: str) -> None:
    raw = a_form(part)
    with pytest.raises(InvalidField, match="A guardrail redacts the form field 'prompt'"):
        with_form_texts(raw, MEDIA, form_texts(raw, MEDIA, None, acts=True), [said])

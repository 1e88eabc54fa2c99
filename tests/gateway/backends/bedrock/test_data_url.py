import pytest

from gateway.backends.bedrock.data_url import Attachment, read_attachment
from gateway.protocol.errors import InvalidField


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,aGVsbG8=",
        "DATA:Image/PNG;charset=utf-8;BASE64,aGVsbG8=",
        "data:image/png;base64,aGVs\r\nbG8=",
        "data:image/png;base64,aGVsbG8%3D",
    ],
)
def test_the_bytes_of_a_data_url_are_read(url: str) -> None:
    """In any spelling of its head, with line breaks, and percent-encoded."""
    attachment = read_attachment(url, "x")

    assert ("image/png", b"hello", "aGVsbG8=") == (attachment.mime, attachment.data, attachment.base64)


def test_bare_base64_is_taken_where_it_is_allowed() -> None:
    assert Attachment("", b"hello") == read_attachment("aGVsbG8=", "x", allows_bare=True)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://example.com/a.png", "does not fetch"),
        ("http://169.254.169.254/latest", "does not fetch"),
        ("aGVsbG8=", "does not fetch"),
        ("data:image/png,hello", "base64 data: URL"),
        ("data:image/png;base64", "base64 data: URL"),
        ("data:image/png;base64,aGVsbG8", "not valid base64"),
        ("data:image/png;base64,größe", "not valid base64"),
        ("data:image/png;base64,aGVs*bG8=", "not valid base64"),
        ("data:image/png;base64,", "is empty"),
    ],
)
def test_everything_else_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidField, match=why) as caught:
        read_attachment(url, "messages[0].content[1]")

    assert "messages[0].content[1]" == caught.value.param
    assert url[5:] not in str(caught.value)


def test_an_address_is_not_taken_for_bare_base64() -> None:
    with pytest.raises(InvalidField, match="does not fetch"):
        read_attachment("https://example.com/a.pdf", "x", allows_bare=True)


def test_what_was_attached_is_not_shown() -> None:
    assert "hello" not in repr(Attachment("text/plain", b"hello"))

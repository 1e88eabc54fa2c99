import pytest

from gateway.backends.bedrock.json_object import read_object


def test_an_object_is_read() -> None:
    """Bytes of a JSON object become a dict."""
    assert {"a": [1, None]} == read_object(b' {"a": [1, null]}')


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "not valid JSON"),
        (b'{"a":', "not valid JSON"),
        (b'{"a": x}', "byte 6"),
        (b'{"a":"\xff"}', "not valid JSON"),
        (b'{"a":"\\ud800"}', "not valid JSON"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
    ],
)
def test_what_is_no_object_is_a_value_error(data: bytes, fault: str) -> None:
    """Every way to be no object is the same kind of error, which says what is wrong."""
    with pytest.raises(ValueError, match=fault):
        read_object(data)

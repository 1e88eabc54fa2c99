import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import ApiError
from simulator.multipart import read_form


def form(file: bytes) -> tuple[bytes, str]:
    """A form as httpx writes it."""
    request = httpx.Request("POST", "http://worker", files={"file": ("a.wav", file)}, data={"model": "größe"})
    return request.read(), request.headers["content-type"]


@given(st.binary(min_size=1) | st.text("\r\n-\x0b\x85a:", min_size=1).map(str.encode))
@settings(max_examples=50, deadline=None)
def test_a_file_comes_out_as_it_went_in(file: bytes) -> None:
    """Whatever its bytes: line ends, dashes, no text at all."""
    fields = read_form(*form(file))

    assert {"file": file, "model": "größe".encode()} == fields


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"{}", "application/json", "Only 'multipart/form-data' is allowed"),
        (b"", "", "Only 'multipart/form-data' is allowed"),
        (b"x", "multipart/form-data", "the body is not a form"),
        (b"--b--\r\n", "multipart/form-data; boundary=b", "the body is not a form"),
        (b"--b\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b", "the body is not a form"),
    ],
)
def test_what_is_no_form(body: bytes, content_type: str, message: str) -> None:
    """It is refused."""
    with pytest.raises(ApiError, match=message):
        read_form(body, content_type)

"""Texts in the Huffman code of HPACK. The examples are those of RFC 7541, appendix C."""

import pytest

from gateway.picker.http2.huffman import HuffmanError, decoded


@pytest.mark.parametrize(
    ("coded", "text"),
    [
        ("", b""),
        ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"),
        ("a8eb10649cbf", b"no-cache"),
        ("25a849e95bb8e8b4bf", b"custom-value"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", b"Mon, 21 Oct 2013 20:13:21 GMT"),
    ],
)
def test_a_text_is_decoded(coded: str, text: bytes) -> None:
    assert text == decoded(bytes.fromhex(coded))


@pytest.mark.parametrize("coded", ["00", "ffff"])
def test_a_wrong_padding_is_refused(coded: str) -> None:
    """A padding has at most seven bits, and all of them are ones."""
    with pytest.raises(HuffmanError, match="padding"):
        decoded(bytes.fromhex(coded))


@pytest.mark.parametrize("coded", ["fffffffc", "1fffffffff", "ffffffff"])
def test_the_symbol_of_the_end_is_refused(coded: str) -> None:
    with pytest.raises(HuffmanError, match="end"):
        decoded(bytes.fromhex(coded))

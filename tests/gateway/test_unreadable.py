import msgspec
import pytest

from gateway.unreadable import UNREADABLE


@pytest.mark.parametrize("data", [b"{", b'{"a": "\xff"}', b"[" * 100_000, b'"text"'])
def test_what_is_cut_off_not_utf_8_too_deep_or_of_another_shape_cannot_be_read(data: bytes) -> None:
    """One tuple to catch, whichever of them it is."""
    with pytest.raises(UNREADABLE):
        msgspec.json.decode(data, type=dict[str, list[str]] if data == b'"text"' else object)

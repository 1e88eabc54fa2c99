"""Token ids from msgpack without an int object for each: once compiled, at a third of the cost of a list.

It handles ids of at most four bytes and below 2**31; the caller decodes others in another way. As Python it is thirty
times slower than `msgspec` and `pack`: see `compiled`.
"""

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i32_be, write_i32_le

from cache_index.tokens import TokenIds

if TYPE_CHECKING:  # mypyc makes machine words of these; not needed at run time
    from mypy_extensions import i32, i64

_PAST_THE_END: Final = b"\0\0"
"""Four bytes are read behind each id's first, also where it has two."""
_UINT8: Final = 0xCC
_UINT16: Final = 0xCD
"""First byte of an unsigned int of 8 bits and of 16; that of one of 32 comes next. Below 0x80: the int itself.
https://github.com/msgpack/msgpack/blob/master/spec.md"""


def unpack(array: bytes) -> TokenIds | None:
    """Return the ids in *array*, any well-formed msgpack. O(ids), 4 ns each.

    None: it is not an array of unsigned ints, or one of them is beyond 31 bits.
    """
    header = _header_bytes(array[0])
    if not header:
        return None
    ids = BytesWriter()
    end: i64 = len(array)
    at: i64 = header
    array += _PAST_THE_END
    while at < end:
        value: i32
        # A processor cannot predict the order of long and short ids, so there is no branch between them.
        is_long: i32 = array[at]
        is_long -= _UINT16
        if 0 <= is_long <= 1:
            value = read_i32_be(array, at + 1) >> (16 - is_long * 16) & (0xFFFF | -is_long)
            at += 5 if is_long else 3
        elif is_long < 0x80 - _UINT16:
            value = is_long + _UINT16
            at += 1
        elif is_long == _UINT8 - _UINT16:
            value = array[at + 1]
            at += 2
        else:
            return None
        if value < 0:
            return None
        write_i32_le(ids, value)
    return ids.getvalue()


def _header_bytes(first: int) -> int:
    """Bytes of the header of an array of up to 15 elements, up to 65,535, or more; 0: *first* begins no array."""
    if first >> 4 == 9:
        return 1
    return {0xDC: 3, 0xDD: 5}.get(first, 0)

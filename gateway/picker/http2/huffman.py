"""Huffman code of HPACK (RFC 7541, appendix B)."""

from typing import Final

_LENGTHS: Final = (
    *(13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28),
    *(28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15),
    *(6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6),
    *(15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22),
    *(20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23),
    *(23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22),
    *(22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26),
    *(27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27),
    *(26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30),
)
"""Length in bits of the code of each byte, and of the end at last. Codes of one length ascend with their bytes, and
those of more bits follow, so the lengths determine the codes.
"""
_END: Final = 256
_NO_SYMBOL: Final = -1
_INVALID: Final = -2
_STEP_BITS: Final = 4


class HuffmanError(Exception):
    """Raised if bytes are no text in this code."""


def _tree() -> list[list[int]]:
    """Return the children of each inner node of the tree of codes. A leaf is the negative of its symbol, less one."""
    nodes: list[list[int]] = [[0, 0]]
    code, bits = 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(_LENGTHS)):
        code <<= length - bits
        bits = length
        node = 0
        for place in range(length - 1, 0, -1):
            side = code >> place & 1
            if nodes[node][side] == 0:
                nodes[node][side] = len(nodes)
                nodes.append([0, 0])
            node = nodes[node][side]
        nodes[node][code & 1] = -symbol - 1
        code += 1
    return nodes


def _steps(nodes: list[list[int]]) -> tuple[list[int], list[int]]:
    """Return the next node and the symbol for each node and each four bits. No code has fewer than five bits."""
    nexts, symbols = [], []
    for start in range(len(nodes)):
        for value in range(1 << _STEP_BITS):
            node, symbol = start, _NO_SYMBOL
            for place in range(_STEP_BITS - 1, -1, -1):
                node = nodes[node][value >> place & 1]
                if node < 0:
                    symbol = -node - 1 if node != -_END - 1 else _INVALID
                    node = 0
            nexts.append(node)
            symbols.append(symbol)
    return nexts, symbols


def _paddings(nodes: list[list[int]]) -> frozenset[int]:
    """Return the nodes at which a text can end: at most seven bits of ones after the last symbol."""
    found, node = [0], 0
    for _ in range(7):
        node = nodes[node][1]
        found.append(node)
    return frozenset(found)


_NODES: Final = _tree()
_NEXTS, _SYMBOLS = _steps(_NODES)
_ENDS: Final = _paddings(_NODES)


def decoded(data: bytes) -> bytes:
    """Return the text that *data* encodes.

    Raises:
        HuffmanError: if *data* contains the symbol of the end, or a wrong padding.
    """
    out = bytearray()
    node = 0
    for byte in data:
        at = node << _STEP_BITS | byte >> _STEP_BITS
        symbol = _SYMBOLS[at]
        if symbol >= 0:
            out.append(symbol)
        elif symbol == _INVALID:
            raise HuffmanError("a text contains the symbol of the end")
        at = _NEXTS[at] << _STEP_BITS | byte & 15
        symbol = _SYMBOLS[at]
        if symbol >= 0:
            out.append(symbol)
        elif symbol == _INVALID:
            raise HuffmanError("a text contains the symbol of the end")
        node = _NEXTS[at]
    if node not in _ENDS:
        raise HuffmanError("a text has a wrong padding")
    return bytes(out)

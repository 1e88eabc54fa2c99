"""Lines of several processes in one file."""

import io

from gateway.app.processes.whole_lines import ATOMIC_BYTES, WholeLines


class Pieces(io.BytesIO):
    """Remembers each write of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self.pieces.append(data)
        return super().write(data)


def written(data: bytes) -> list[bytes]:
    output = Pieces()
    WholeLines(output).write(data)
    return output.pieces


def test_few_lines_are_one_piece() -> None:
    assert [b"a\nb\n"] == written(b"a\nb\n")


def test_many_lines_are_split_between_lines() -> None:
    line = b"x" * (ATOMIC_BYTES // 2) + b"\n"

    assert [line, line, line] == written(3 * line)


def test_a_long_line_is_one_piece() -> None:
    short, long = b"a\n", b"x" * (2 * ATOMIC_BYTES) + b"\n"

    assert [short, long, short] == written(short + long + short)


def test_a_long_piece_without_an_end_is_written_as_it_is() -> None:
    assert [b"x" * (ATOMIC_BYTES + 1)] == written(b"x" * (ATOMIC_BYTES + 1))

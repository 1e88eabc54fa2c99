import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.continuation.overlap import LONGEST, SHORTEST, Overlap

BEFORE = "It was the best of times, it was the worst of times."


def said(overlap: Overlap, *pieces: str) -> str:
    return "".join(overlap.fed(piece, last=number == len(pieces) - 1) for number, piece in enumerate(pieces))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (" It was the age", " It was the age"),
        ("the worst of times. It was", " It was"),
        (BEFORE + " It was", " It was"),
        ("the worst of times.", ""),
        ("worst of times.", "worst of times."),  # fifteen characters may be chance
        ("it was the season", "it was the season"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 100])
def test_repeated_text_is_dropped(after: str, expected: str, size: int) -> None:
    """In one piece or several; text that continues differently is not a repetition."""
    pieces = [after[place : place + size] for place in range(0, len(after), size)] or [""]

    assert expected == said(Overlap(BEFORE), *pieces)


def test_other_text_comes_at_once() -> None:
    """All later text comes at once, too."""
    overlap = Overlap(BEFORE)

    assert " It" == overlap.fed(" It")
    assert "the worst of times." == overlap.fed("the worst of times.")


def test_a_possible_repetition_is_held() -> None:
    """It is held until it is one, or is not."""
    overlap = Overlap(BEFORE)

    assert "" == overlap.fed("the worst of")
    assert "the worst of all" == overlap.fed(" all")


def test_a_short_text_is_not_searched() -> None:
    """Its repetition would be chance."""
    assert "no no no" == said(Overlap("no" * (SHORTEST // 2 - 1)), "no no no")


@given(st.text("ab", max_size=300), st.text("ab", max_size=300), st.integers(1, 40))
def test_nothing_but_a_repeated_end_is_dropped(before: str, after: str, size: int) -> None:
    """Compared with a search of all lengths, over texts in which nearly everything repeats."""
    pieces = [after[place : place + size] for place in range(0, len(after), size)] or [""]
    kept = said(Overlap(before), *pieces)
    dropped = after[: len(after) - len(kept)]

    assert after.endswith(kept)
    assert not dropped or (before.endswith(dropped) and SHORTEST <= len(dropped) <= LONGEST)

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.bedrock.inline_reasoning import ReasoningSplitter


def split(*pieces: str) -> tuple[str, str]:
    splitter = ReasoningSplitter()
    parts = [*[splitter.feed(piece) for piece in pieces], splitter.rest()]
    return "".join(thought for thought, _ in parts), "".join(answer for _, answer in parts)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<reasoning>hm</reasoning>Four.", "hm", "Four."),
        ("\n <reasoning>hm</reasoning>\nFour.", "hm", "Four."),
        ("<reasoning>a < b </reason </reasoning>x", "a < b </reason ", "x"),
        ("<reasoning></reasoning>x", "", "x"),
        ("<reasoning>cut off", "cut off", ""),
        ("<reasoning>cut off</reas", "cut off</reas", ""),
        ("Four.", "", "Four."),
        ("Four. <reasoning>hm</reasoning>", "", "Four. <reasoning>hm</reasoning>"),
        ("<reasoning>a</reasoning><reasoning>b</reasoning>", "a", "<reasoning>b</reasoning>"),
        ("<reason", "", "<reason"),
        ("<b>bold</b>", "", "<b>bold</b>"),
        ("  ", "", "  "),
        ("<think>hm</think>\n\nFour.", "hm", "Four."),
        ("<think>a </reasoning> b</think>x", "a </reasoning> b", "x"),
        ("<think>hm</think>\n\n<think>", "hm", "<think>"),
        ("\n\nFour.\n", "", "Four.\n"),
        ("\r\n  indented", "", "  indented"),
        ("\n\n", "", ""),
        ("", "", ""),
    ],
)
def test_thoughts_stand_at_the_head(text: str, thought: str, answer: str) -> None:
    """Whole or letter by letter, the same is thought and the same is answer; only line breaks before it are lost."""
    assert (thought, answer) == split(text)
    assert (thought, answer) == split(*text)


@given(st.text("<reasoning>/ x\nthk", max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_how_the_text_is_cut_makes_no_difference(text: str, cuts: list[int]) -> None:
    """Any pieces give what the whole gives."""
    borders = sorted({0, len(text), *[min(cut, len(text)) for cut in cuts]})
    pieces = [text[start:end] for start, end in itertools.pairwise(borders)]

    assert split(text) == split(*pieces)


def test_an_answer_is_not_held_back() -> None:
    """Once the head is known each piece passes at once."""
    splitter = ReasoningSplitter()

    assert [("", ""), ("h", ""), ("m", ""), ("", "Fo"), ("", "ur.")] == [
        splitter.feed(piece) for piece in ("<reasoning", ">h", "m</", "reasoning>Fo", "ur.")
    ]


def test_without_tags_only_line_breaks_are_taken_away() -> None:
    splitter = ReasoningSplitter(has_tags=False)

    assert [("", ""), ("", "<think>x"), ("", "\n")] == [splitter.feed(piece) for piece in ("\n\n", "<think>x", "\n")]

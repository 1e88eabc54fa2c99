"""Answers about the tokens of a prompt."""

from cache_index.tokens import pack
from gateway.models.tokenizing.exactness import Exact, Unknowable


def test_an_exact_prompt_has_its_length() -> None:
    """In tokens, not bytes."""
    assert 3 == Exact(pack([7, 8, 9]), 3).tokens


def test_what_is_certain_is_a_part_from_the_front() -> None:
    """The rest only reports how long the prompt is."""
    assert pack([7, 8]) == Exact(pack([7, 8, 9]), 2).exact_ids


def test_what_cannot_be_known_has_a_reason() -> None:
    """It has nothing of the prompt."""
    assert "embeds" == Unknowable("embeds").reason
    assert "embeds" == str(Unknowable("embeds"))

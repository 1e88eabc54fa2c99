"""The identity of a block beside its tokens."""

import pytest

from gateway.workers.kv_events.identity import Item, Piece, identity_of, read_extra_keys


def test_equal_content_gives_equal_bytes() -> None:
    """However it is held, so that events and prompts agree."""
    assert identity_of([Item("hash", 3), b"digest"]) == identity_of([("hash", 3), b"digest"])  # type: ignore[list-item]


def test_other_content_gives_other_bytes() -> None:
    """Also where it only lies elsewhere, or is of another kind."""
    contents: list[list[Piece]] = [
        [Item("hash", 3)],
        [Item("hash", 4)],
        [Item("other", 3)],
        ["hash"],
        [b"hash"],
        [Item("hash", 3), Item("hash", 3)],
        [Item("hash", 3), b"hash"],
    ]

    assert len(contents) == len({identity_of(content) for content in contents})


def test_nothing_has_no_identity() -> None:
    """Most blocks hold nothing but their tokens."""
    assert identity_of([]) is None


def test_an_image_over_two_blocks() -> None:
    """Its offset counts from the first token of the block, so it is negative in the second."""
    salt, extras = read_extra_keys([[["img", 12]], [["img", -4]], None], is_root=True, adapter=None)

    assert salt is None
    assert [identity_of([Item("img", 12)]), identity_of([Item("img", -4)]), None] == extras


def test_the_salt_is_the_last_text_of_the_first_block() -> None:
    """Behind the adapter and the items."""
    salt, extras = read_extra_keys([["lora", ["img", 0], "salt"], ["lora"]], is_root=True, adapter="lora")

    assert "salt" == salt
    assert [identity_of([Item("img", 0)]), None] == extras


def test_a_salt_that_reads_like_the_adapter() -> None:
    """One of the two equal texts is the adapter, the other the salt."""
    assert ("same", None) == read_extra_keys([["same", "same"]], is_root=True, adapter="same")


def test_a_block_inside_a_sequence_has_no_salt() -> None:
    """A text there is an item, as vLLM below 0.20 wrote them."""
    assert (None, [identity_of(["img"])]) == read_extra_keys([["img"]], is_root=False, adapter=None)


def test_digests_of_embeddings_stay_with_their_block() -> None:
    """Prompt embeddings have zeros for tokens."""
    assert (None, [None, identity_of([b"\x01"])]) == read_extra_keys([None, [b"\x01"]], is_root=True, adapter=None)


@pytest.mark.parametrize("keys", [[[7]], ["text"], [[["img"]]], [[["img", "3"]]], [[None]], [[{"a": 1}]]])
def test_anything_else_is_refused(keys: list[object]) -> None:
    """A guess could give a wrong hit."""
    with pytest.raises(ValueError, match="extra key"):
        read_extra_keys(keys, is_root=True, adapter=None)

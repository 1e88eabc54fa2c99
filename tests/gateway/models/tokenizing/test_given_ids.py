"""Prompts that are token ids already."""

import json
from typing import Any

import pytest

from cache_index.tokens import pack
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.given_ids import GivenIds
from gateway.models.tokenizing.token_source import RawPrompt


async def reported(prompt: Any, path: str = "/v1/completions") -> Exact | NotExact:
    return await GivenIds().ids(RawPrompt(path, json.dumps({"prompt": prompt}).encode(), "m"))


async def test_ids_are_what_they_are() -> None:
    """No tokenizer has a say."""
    assert Exact(pack([1, 2, 3]), 3) == await reported([1, 2, 3])


async def test_of_several_prompts_the_first_is_certain() -> None:
    """All of them are work."""
    assert Exact(pack([1, 2, 3]), 2) == await reported([[1, 2], [3]])


async def test_texts_are_for_others() -> None:
    """Chats are for others, too."""
    assert NotExact("unavailable") == await reported("hi")
    assert NotExact("unavailable") == await reported([1], path="/v1/chat/completions")


@pytest.mark.parametrize("prompt", [[-1], [2**64], [], None, [[1, -1]]])
async def test_what_are_no_ids_is_malformed(prompt: Any) -> None:
    """The engine will say so."""
    assert NotExact("malformed") == await reported(prompt)

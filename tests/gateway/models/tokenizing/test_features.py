"""Features of prompts."""

from typing import Any

import pytest

from gateway.models.tokenizing.asked import AskedChat, AskedIds, AskedTexts
from gateway.models.tokenizing.features import features_of


def test_ids_have_nothing_to_differ_in() -> None:
    """They are what they are."""
    assert set() == features_of(AskedIds([[1]]))


def test_text_is_text() -> None:
    """No template is involved."""
    assert {"text"} == features_of(AskedTexts(["a"]))


@pytest.mark.parametrize(
    ("more", "message", "fields"),
    [
        (set(), {"role": "user", "content": "a"}, {}),
        ({"parts"}, {"role": "user", "content": []}, {}),
        ({"developer"}, {"role": "developer", "content": "a"}, {}),
        ({"tools"}, {"role": "user", "content": "a"}, {"tools": [{}]}),
        ({"tool_calls"}, {"role": "tool", "content": "a"}, {}),
        ({"tool_calls"}, {"role": "assistant", "tool_calls": [{}]}, {}),
        ({"reasoning"}, {"role": "assistant", "content": "a", "reasoning": "b"}, {}),
        ({"reasoning"}, {"role": "assistant", "content": "a", "reasoning_content": "b"}, {}),
        ({"effort"}, {"role": "user", "content": "a"}, {"reasoning_effort": "low"}),
    ],
)
def test_a_chat_can_have_more(more: set[str], message: dict[str, Any], fields: dict[str, Any]) -> None:
    """Each by its own sign."""
    assert {"chat", *more} == features_of(AskedChat(messages=[message], **fields))

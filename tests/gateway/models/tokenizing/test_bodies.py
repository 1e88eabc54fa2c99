"""Readers of bodies by path."""

import pytest

from gateway.models.tokenizing.asked import AskedChat, AskedTexts
from gateway.models.tokenizing.bodies import asked_of
from gateway.models.tokenizing.exactness import Unknowable

HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/v1/chat/completions", b'{"messages":[{"role":"user","content":"hi"}]}'),
        ("/v1/messages", b'{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}'),
        ("/v1/responses", b'{"input":"hi"}'),
    ],
)
def test_one_chat_can_come_in_three_ways(path: str, raw: bytes) -> None:
    """The template gets the same."""
    assert AskedChat(messages=HI) == asked_of(path, raw)


def test_a_completion_is_text() -> None:
    """No template is rendered."""
    assert AskedTexts(["hi"]) == asked_of("/v1/completions", b'{"prompt":"hi"}')


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions/batch", "/tokenize", ""])
def test_other_endpoints_have_no_prompt_that_is_known(path: str) -> None:
    """The body does not matter."""
    with pytest.raises(Unknowable, match="endpoint"):
        asked_of(path, b"{}")

"""Prompt and answer of a request, kept for receivers that may get them."""

from typing import Any

from gateway.proxy.tracing.content import KEPT_FACTOR, Content


async def fed(content: Content, *messages: Any, is_wanted: bool = True) -> list[Any]:
    """Return the messages that are sent on."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    watched = content.watching(send, lambda: is_wanted)
    for message in messages:
        await watched(message)
    return sent


def body(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def test_the_bodies_of_an_answer_are_kept_and_sent_on() -> None:
    """Each message is sent unchanged."""
    content = Content(100)
    start = {"type": "http.response.start", "status": 200, "headers": []}
    messages = [start, body(b"one "), body(b""), body(b"two"), {"type": "http.response.body"}]

    assert messages == await fed(content, *messages)
    assert b"one two" == content.answer


async def test_unwanted_content_is_not_kept() -> None:
    content = Content(100)

    assert 1 == len(await fed(content, body(b"one"), is_wanted=False))
    assert b"" == content.answer


async def test_kept_content_is_bounded() -> None:
    """The answer is still sent."""
    content = Content(1)

    assert 3 == len(await fed(content, body(b"x" * (KEPT_FACTOR - 1)), body(b"yz"), body(b"more")))
    assert b"x" * (KEPT_FACTOR - 1) + b"y" == content.answer


def test_a_body_is_kept_as_a_whole_or_not_at_all() -> None:
    """A part of it cannot be decoded."""
    content, other = Content(1), Content(1)
    content.asked(b"x" * KEPT_FACTOR)
    other.asked(b"x" * (KEPT_FACTOR + 1))

    assert (b"x" * KEPT_FACTOR, b"") == (content.request, other.request)


def test_the_beginning_of_the_prompt_is_kept_with_the_body() -> None:
    content, other = Content(1), Content(1)
    content.asked(b"x", b"y" * 257)
    other.asked(b"x" * (KEPT_FACTOR + 1), b"y" * 257)

    assert (b"y" * 256, b"") == (content.beginning, other.beginning)

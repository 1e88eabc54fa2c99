"""Hints of callers about the reuse of prompts, which OpenAI's and Anthropic's APIs define."""

from typing import Any

import pytest

from tests.e2e.stack import stack

HINTS = {
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
}
MARKS: dict[str, Any] = {"cache_control": {"type": "ephemeral"}, "prompt_cache_breakpoint": {"mode": "explicit"}}
LONG = "The beginning of a long conversation. " * 40
QUESTIONS = [LONG, "And then?", "Who was it?"]


def turns(count: int, kind: str) -> list[dict[str, Any]]:
    """The first *count* questions, with the marks on the last, as agents move them."""
    return [
        {"role": "user", "content": [{"type": kind, "text": text, **(MARKS if number == count else {})}]}
        for number, text in enumerate(QUESTIONS[:count], 1)
    ]


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/v1/chat/completions", "text", lambda said: {"max_tokens": 1, "messages": said}),
        ("/v1/messages", "text", lambda said: {"max_tokens": 1, "messages": said}),
        ("/v1/responses", "input_text", lambda said: {"max_output_tokens": 1, "input": said}),
    ],
)
async def test_no_request_fails_and_no_hit_is_lost_because_of_hints(path: str, kind: str, body: Any) -> None:
    """Marks that move from turn to turn do not hide that a prompt continues the one before."""
    async with stack(2) as served:
        replies = [
            await served.http.post(path, json={"model": "tiny", **HINTS, **body(turns(count, kind))})
            for count in (1, 2, 3)
        ]

    assert [200, 200, 200] == [reply.status_code for reply in replies]
    assert 1 == len({reply.headers["x-warmgate-worker"] for reply in replies})
    assert min(int(reply.headers["x-warmgate-hit-blocks"]) for reply in replies[1:]) > 20

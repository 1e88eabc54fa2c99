"""The Anthropic SDK against a gateway: `anthropic_python.py BASE_URL KEY`.

One line per check on standard output; exit status 1 if one fails.
"""

import sys
from collections.abc import Callable
from typing import Any

import anthropic

QUESTION: dict[str, Any] = {
    "model": "tiny",
    "max_tokens": 8,
    "system": "You answer the questions of curious children.",
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
}
"""Short of any answer of the simulated worker, which has 16 words at least: it always ends at its limit."""


def answers(client: Any) -> None:
    """a message is answered, with usage"""
    message = client.messages.create(**QUESTION)
    assert ("message", "assistant") == (message.type, message.role), message
    assert message.content[0].text, message
    assert "max_tokens" == message.stop_reason, message
    assert message.usage.input_tokens > 0, message
    assert 8 == message.usage.output_tokens, message


def takes_content_blocks(client: Any) -> None:
    """a conversation of content blocks is answered"""
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "Why is the sky blue?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Air scatters blue light more than red."}]},
        {"role": "user", "content": "And at sunset?"},
    ]
    assert client.messages.create(**{**QUESTION, "messages": turns}).content[0].text


def streams(client: Any) -> None:
    """a stream has the text and the usage of the whole answer"""
    whole = client.messages.create(**QUESTION)
    with client.messages.stream(**QUESTION) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert whole.content[0].text == text == final.content[0].text, (whole, text, final)
    assert "max_tokens" == final.stop_reason, final
    assert 8 == final.usage.output_tokens, final


def reports_events_in_order(client: Any) -> None:
    """the events of a stream come in their order"""
    kinds = [event.type for event in client.messages.create(**QUESTION, stream=True)]
    once = list(dict.fromkeys(kind for kind in kinds if kind != "ping"))
    expected = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
    assert [*expected, "message_stop"] == once, kinds


def may_be_left(client: Any) -> None:
    """a stream can be left, and the client goes on"""
    with client.messages.stream(**{**QUESTION, "max_tokens": 500}) as stream:
        assert next(iter(stream.text_stream))
    assert client.messages.create(**QUESTION).content


def counts_tokens(client: Any) -> None:
    """tokens are counted as a cold worker counts them"""
    asked: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Count this; no other asks it."}],
    }
    counted = client.messages.count_tokens(**asked).input_tokens
    assert counted > 0
    assert counted == client.messages.create(**asked, max_tokens=8).usage.input_tokens, counted


def says_which_worker(client: Any) -> None:
    """the response says which worker answered"""
    reply = client.messages.with_raw_response.create(**QUESTION)
    assert reply.headers["x-warmgate-worker"].startswith("worker-"), reply.headers
    assert reply.headers["x-request-id"], reply.headers


def has_a_request_id(client: Any) -> None:
    """the SDK finds the request id, which it looks for in the header request-id"""
    reply = client.messages.with_raw_response.create(**QUESTION)
    assert reply.headers["x-request-id"] == reply.request_id, reply.headers


def refuses_an_unknown_model(client: Any) -> None:
    """an unknown model is a NotFoundError in Anthropic's shape"""
    for streams in (False, True):
        body = refusal(client, anthropic.NotFoundError, model="claude-9", stream=streams)
        assert ("error", "not_found_error") == (body["type"], body["error"]["type"]), body


def refuses_a_wrong_field(client: Any) -> None:
    """a field that is wrong is a BadRequestError in Anthropic's shape"""
    body = refusal(client, anthropic.BadRequestError, messages=[])
    assert ("error", "invalid_request_error") == (body["type"], body["error"]["type"]), body
    assert "messages" in body["error"]["message"], body


def refuses_an_unknown_key(client: Any) -> None:
    """an unknown key is an AuthenticationError in Anthropic's shape, and is not tried again"""
    stranger = client.with_options(api_key="sk-ant-any", max_retries=2)
    body = refusal(stranger, anthropic.AuthenticationError)
    assert ("error", "authentication_error") == (body["type"], body["error"]["type"]), body
    assert body["request_id"], body


def refusal(client: Any, kind: type[Exception], **changes: Any) -> Any:
    """The body of the error that is the answer to a changed question."""
    try:
        client.messages.create(**{**QUESTION, **changes})
    except kind as error:
        return getattr(error, "body", None)
    raise AssertionError(f"no {kind.__name__}")


CHECKS: tuple[Callable[[Any], None], ...] = (
    answers,
    takes_content_blocks,
    streams,
    reports_events_in_order,
    may_be_left,
    counts_tokens,
    says_which_worker,
    has_a_request_id,
    refuses_an_unknown_model,
    refuses_a_wrong_field,
    refuses_an_unknown_key,
)


def main(base_url: str, key: str) -> int:
    status = 0
    with anthropic.Anthropic(base_url=base_url, api_key=key, max_retries=0) as client:
        for check in CHECKS:
            try:
                check(client)
            except Exception as error:  # noqa: BLE001  # whatever it was, the next check is made
                status = 1
                said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
                sys.stdout.write(f"FAIL  {check.__doc__}: {said}\n")
            else:
                sys.stdout.write(f"ok    {check.__doc__}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

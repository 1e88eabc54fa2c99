from simulator.errors import ApiError
from simulator.replies import ChatShape, ChoiceText, CompletionShape, usage_json
from simulator.sse import DONE, Event

TOKEN = ChoiceText(index=0, text="bak ", token_ids=[5], prompt_token_ids=[1, 2], finish_reason=None)
LAST = ChoiceText(index=0, text="tol ", token_ids=None, prompt_token_ids=None, finish_reason="length")
USAGE = usage_json(prompt_tokens=2, completion_tokens=1, cached_tokens=0)


def test_usage() -> None:
    """Details only where cached tokens are known."""
    assert {
        "prompt_tokens": 2,
        "total_tokens": 3,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
    } == USAGE
    assert None is usage_json(prompt_tokens=2, completion_tokens=1)["prompt_tokens_details"]


def test_a_chat_stream() -> None:
    """The role comes first with empty content, the reason to end with the last token, usage without choices."""
    shape = ChatShape("chatcmpl-1", 7, "tiny")
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}
    opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    token = {"index": 0, "delta": {"content": "bak "}, "logprobs": None, "finish_reason": None, "token_ids": [5]}
    last = (shape.token(LAST, None)[0].data or {})["choices"][0]

    assert [] == shape.begin()
    assert [Event(head | {"choices": [opening], "prompt_token_ids": [1, 2]})] == shape.opening(TOKEN, None)
    assert [Event(head | {"choices": [token]})] == shape.token(TOKEN, None)
    assert ("length", None, None) == (last["finish_reason"], last["stop_reason"], last["token_ids"])
    usage = Event(head | {"choices": [], "usage": USAGE})
    assert [usage, DONE] == shape.closing([LAST], USAGE, include_usage=True)
    assert [DONE] == shape.closing([LAST], USAGE, include_usage=False)


def test_a_stream_that_fails() -> None:
    """The error is an event, and the end mark follows all the same."""
    for shape in (ChatShape("chatcmpl-1", 7, "tiny"), CompletionShape("cmpl-1", 7, "tiny")):
        assert [Event({"error": {}}), DONE] == shape.failure(ApiError(500, "no"), {"error": {}})


def test_a_whole_chat() -> None:
    """One message per choice."""
    body = ChatShape("chatcmpl-1", 7, "tiny").body([TOKEN], USAGE)

    assert ("chat.completion", [1, 2], USAGE) == (body["object"], body["prompt_token_ids"], body["usage"])
    assert ("assistant", "bak ") == (body["choices"][0]["message"]["role"], body["choices"][0]["message"]["content"])
    assert [5] == body["choices"][0]["token_ids"]


def test_a_completion_stream() -> None:
    """No opening; every chunk has a usage, mostly null."""
    shape = CompletionShape("cmpl-1", 7, "tiny")

    expected = {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 7,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "text": "bak ",
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
                "prompt_token_ids": [1, 2],
                "token_ids": [5],
            }
        ],
        "usage": None,
    }

    assert [] == shape.begin() + shape.opening(TOKEN, None)
    assert [Event(expected)] == shape.token(TOKEN, None)
    usage = Event(expected | {"choices": [], "usage": USAGE})
    assert [usage, DONE] == shape.closing([LAST], USAGE, include_usage=True)
    assert [DONE] == shape.closing([LAST], USAGE, include_usage=False)
    assert "bak " == shape.body([TOKEN], USAGE)["choices"][0]["text"]

"""`/v1/messages` with a real engine, as a client of Anthropic's API asks it."""

import json
from typing import Any

from tests.engine.examples import STORY
from tests.engine.stack import MODEL, WORKER_HEADER, Stack

ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 20,
    "temperature": 0,
    "system": "You sell seats.",
    "messages": [{"role": "user", "content": STORY}],
}


def ask(served: Stack, **changes: Any) -> Any:
    reply = served.http.post("/v1/messages", json={**ASKED, **changes})
    assert 200 == reply.status_code, reply.text
    return reply.json()


def test_a_message_has_text_and_usage(served: Stack) -> None:
    """In the words of that API."""
    message = ask(served)

    assert ("message", "assistant", "max_tokens") == (message["type"], message["role"], message["stop_reason"])
    assert message["content"][0]["text"]
    assert 20 == message["usage"]["output_tokens"]


def test_a_message_streams(served: Stack) -> None:
    """Its events in their order, its pieces the whole."""
    whole = ask(served)["content"][0]["text"]
    text = served.http.post("/v1/messages", json={**ASKED, "stream": True}).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines]
    kinds = list(dict.fromkeys(event["type"] for event in events))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]

    assert ["message_start", "content_block_start", "content_block_delta"] == kinds[:3]
    assert "message_stop" == kinds[-1]
    assert whole == "".join(delta["text"] for delta in deltas)


def test_the_second_turn_goes_to_the_engine_of_the_first(served: Stack) -> None:
    first = served.http.post("/v1/messages", json={**ASKED, "system": "You sell seats, turn by turn."})
    turns = [
        *ASKED["messages"],
        {"role": "assistant", "content": first.json()["content"][0]["text"]},
        {"role": "user", "content": "At the window?"},
    ]
    second = served.http.post(
        "/v1/messages", json={**ASKED, "system": "You sell seats, turn by turn.", "messages": turns}
    )
    line = served.line(second.headers["x-request-id"])

    assert first.headers[WORKER_HEADER] == second.headers[WORKER_HEADER]
    assert abs(line["hit_blocks"] / line["prompt_blocks"] - line["cached_tokens"] / line["prompt_tokens"]) < 0.1
    assert line["cached_tokens"] > line["prompt_tokens"] / 2


def test_tokens_are_counted_as_the_answer_counts_them(served: Stack) -> None:
    """`count_tokens` before, `usage` after; what was cached stands apart there."""
    counted = served.http.post(
        "/v1/messages/count_tokens", json={key: ASKED[key] for key in ("model", "system", "messages")}
    ).json()
    usage = ask(served)["usage"]

    assert counted["input_tokens"] == usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0)


def test_a_fault_has_the_shape_of_the_api(served: Stack) -> None:
    """The engine's own words in it."""
    reply = served.http.post(
        "/v1/messages", json={**ASKED, "messages": [{"role": "user", "content": "seat " * 30_000}]}
    )
    said = reply.json()

    assert 400 == reply.status_code
    assert ("error", "invalid_request_error") == (said["type"], said["error"]["type"])
    assert "16384" in said["error"]["message"]

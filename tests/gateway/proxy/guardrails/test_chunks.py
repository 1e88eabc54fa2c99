import json
from typing import Any

import pytest

from gateway.protocol.errors import ContentBlocked
from gateway.proxy.guardrails.chunks import Chunks
from gateway.proxy.guardrails.fields import ScannedFields
from gateway.proxy.guardrails.stream_form import Event
from tests.fakes.speaker import events_of
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_filter

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}


def event(finish: str | None = None, *, index: int = 0, **delta: Any) -> Event:
    return {**HEAD, "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}]}


def nothing(name: str, action: str) -> None:
    """Takes no note."""


def says(name: str, text: str) -> Event:
    return {**HEAD, "choices": [{"index": 0, "delta": {name: text}, "logprobs": None, "finish_reason": None}]}


class Stream:
    def __init__(self) -> None:
        self.form = Chunks()
        self.fields = ScannedFields([a_filter()], nothing)

    def says(self, *events: Event) -> list[Event]:
        return [changed for each in events for changed in self.form.changed(each, self.fields)]


def contents(events: list[Event], index: int = 0) -> str:
    choices = [choice for each in events for choice in each["choices"] if choice["index"] == index]
    return "".join([choice["delta"].get("content") or "" for choice in choices])


def test_an_event_in_which_nothing_has_changed_is_the_very_same() -> None:
    stream, first = Stream(), event(role="assistant", content="")

    assert stream.says(first)[0] is first


def test_events_whose_texts_all_wait_do_not_come_out() -> None:
    stream = Stream()

    assert [] == stream.says(event(content="4111"), event(content=" 1111 1111"))
    (changed,) = stream.says(event(content=" 1111, yes "))
    assert {
        **HEAD,
        "choices": [{"index": 0, "delta": {"content": "[CARD], yes "}, "logprobs": None, "finish_reason": None}],
    } == changed


def test_an_event_that_says_something_else_comes_out_though_its_text_waits() -> None:
    stream = Stream()
    usage = {**event(content="4111"), "usage": {"completion_tokens": 1}}

    assert [{**event(content=""), "usage": {"completion_tokens": 1}}] == stream.says(usage)
    assert [event(role="assistant", content="")] == stream.says(event(role="assistant", content=" 1111"))


def test_what_is_left_comes_before_the_finish() -> None:
    changed = Stream().says(event(content="the end"), event("stop"))

    assert ["the ", "end"] == [each["choices"][0]["delta"]["content"] for each in changed[:2]]
    assert [None, None, "stop"] == [each["choices"][0]["finish_reason"] for each in changed]


def test_a_finish_that_has_text_itself_takes_the_rest_along() -> None:
    changed = Stream().says(event(content="jane.doe@"), event("stop", content="example.org"))

    assert [event("stop", content="[EMAIL]")] == changed


def test_choices_do_not_mix() -> None:
    stream = Stream()
    changed = stream.says(
        event(content="4111 1111", index=0),
        event(content=" 1111 1111", index=1),
        event("stop", index=0),
        event("stop", index=1),
    )

    assert ("4111 1111", " 1111 1111") == (contents(changed, 0), contents(changed, 1))


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning", "refusal", "since_invented"])
def test_every_text_of_a_delta_is_looked_at(name: str) -> None:
    changed = Stream().says(*[says(name, letter) for letter in f"to {MAIL}"], event("stop"))

    assert "to [EMAIL]" == "".join([each["choices"][0]["delta"].get(name, "") for each in changed])


def test_arguments_of_calls_are_texts_of_their_own() -> None:
    def call(index: int, arguments: str, **more: Any) -> Event:
        return event(tool_calls=[{"index": index, **more, "function": {"arguments": arguments}}])

    changed = Stream().says(
        call(0, "", id="a"),
        call(0, '{"to":"jane.doe@'),
        call(1, '{"n":4111', id="b"),
        call(0, 'example.org"}'),
        call(1, "111111111111}"),
        event("tool_calls"),
    )
    said = {0: "", 1: ""}
    for each in changed:
        for one in each["choices"][0]["delta"].get("tool_calls", ()):
            said[one["index"]] += one["function"]["arguments"]

    assert {"to": "[EMAIL]"} == json.loads(said[0])
    assert {"n": "[CARD]"} == json.loads(said[1])


def test_a_text_in_parts_is_one_text_for_each_part() -> None:
    def parts(first: str, second: str, finish: str | None = None) -> Event:
        return event(finish, parts=[{"text": first}, second, None])

    changed = Stream().says(parts("jane.doe@", "4111 1111 "), parts("example.org", "1111 1111"), event("stop"))

    assert MAIL not in str(changed)
    assert "[EMAIL]" in str(changed)
    assert "[CARD]" in str(changed)


def test_completions_are_guarded_as_chats_are() -> None:
    def text(said: str, finish: str | None = None) -> Event:
        return {
            "id": "c",
            "object": "text_completion",
            "choices": [{"index": 0, "text": said, "finish_reason": finish}],
        }

    changed = Stream().says(text("card 4111 1111"), text(" 1111 1111"), text("", "stop"))

    assert "card [CARD]" == "".join([each["choices"][0].get("text", "") for each in changed])
    assert "stop" == changed[-1]["choices"][0]["finish_reason"]


def test_tokens_do_not_tell_what_the_text_does_not() -> None:
    changed = event(content="hello ")
    changed["choices"][0] |= {"logprobs": {"content": [{"token": CARD}]}, "token_ids": [1, 2]}
    changed["prompt_token_ids"] = [3]

    assert [{**event(content="hello "), "prompt_token_ids": None}] == [
        {**each, "choices": [{k: v for k, v in each["choices"][0].items() if k != "token_ids"}]}
        for each in Stream().says(changed)
    ]


def test_an_error_event_is_looked_at_as_a_whole() -> None:
    assert [{"error": {"message": "no [EMAIL]", "code": 400}}] == Stream().says(
        {"error": {"message": f"no {MAIL}", "code": 400}}
    )


def test_a_stream_without_a_finish_gives_what_is_left_at_its_end() -> None:
    stream = Stream()
    stream.says(event(content="bye"))

    assert [event(content="bye")] == stream.form.closed(stream.fields)


def test_a_stream_that_is_blocked_finishes_every_choice_that_has_not() -> None:
    stream = Stream()
    stream.says(event(content="a "), event(content="b ", index=1), event("stop", index=1))
    end = stream.form.blocked(ContentBlocked("pii"), lambda error, number: b"an error")

    assert [event("content_filter")] == events_of(end)
    assert end.endswith(b"data: [DONE]\n\n")
    assert b"an error" == Chunks().blocked(ContentBlocked("pii"), lambda error, number: b"an error")


def test_a_completion_that_is_blocked_finishes_with_an_empty_text() -> None:
    stream = Stream()
    head = {"id": "c", "object": "text_completion"}
    stream.says({**head, "choices": [{"index": 0, "text": "a ", "finish_reason": None}]})
    (changed,) = events_of(stream.form.blocked(ContentBlocked("pii"), lambda error, number: b""))

    assert ("", "content_filter") == (changed["choices"][0]["text"], changed["choices"][0]["finish_reason"])

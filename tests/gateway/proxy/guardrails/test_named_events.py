from typing import Any

from gateway.protocol.errors import ContentBlocked
from gateway.proxy.guardrails.fields import ScannedFields
from gateway.proxy.guardrails.named_events import MessageEvents, ResponseEvents
from gateway.proxy.guardrails.stream_form import Event, StreamForm
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_filter

PLACE = {"item_id": "i", "output_index": 0, "content_index": 0}


def says(form: StreamForm, *events: Event) -> list[Event]:
    def nothing(name: str, action: str) -> None:
        """Takes no note."""

    fields = ScannedFields([a_filter()], nothing)
    changed = [each for event in events for each in form.changed(event, fields)]
    return changed + form.closed(fields)


def numbered(*events: Event) -> list[Event]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events, start=4)]


def delta(text: str, kind: str = "response.output_text", **more: Any) -> Event:
    return {"type": f"{kind}.delta", "delta": text, **PLACE, **more}


# ---- responses


def test_the_done_of_a_text_says_what_its_deltas_said() -> None:
    done = {"type": "response.output_text.done", "text": f"to {MAIL}", **PLACE}
    changed = says(ResponseEvents(), *[delta(letter) for letter in f"to {MAIL}"], done)

    assert "to [EMAIL]" == "".join([each.get("delta", "") for each in changed])
    assert {**done, "text": "to [EMAIL]"} == changed[-1]


def test_events_are_numbered_without_gaps_whatever_is_left_out() -> None:
    done = {"type": "response.output_text.done", "text": CARD, **PLACE}
    changed = says(ResponseEvents(), *numbered({"type": "response.created"}, *[delta(letter) for letter in CARD], done))

    assert [4, 5, 6] == [each["sequence_number"] for each in changed]
    assert ["[CARD]", "[CARD]"] == [changed[1]["delta"], changed[2]["text"]]


def test_texts_of_several_items_do_not_mix() -> None:
    other: Event = {"item_id": "j", "output_index": 1}
    changed = says(ResponseEvents(), delta("4111 1111"), delta(" 1111 1111", **other))

    assert "4111 1111" == "".join([each["delta"] for each in changed if each["item_id"] == "i"])
    assert " 1111 1111" == "".join([each["delta"] for each in changed if each["item_id"] == "j"])


def test_arguments_and_reasoning_are_looked_at_too() -> None:
    calls = [delta(piece, "response.function_call_arguments") for piece in ('{"n":4111111111', "111111}")]
    done = {"type": "response.function_call_arguments.done", "arguments": '{"n":4111111111111111}', **PLACE}
    thoughts = [delta(piece, "response.reasoning_text") for piece in MAIL]
    changed = says(ResponseEvents(), *calls, done, *thoughts)

    assert '{"n":"[CARD]"}' == "".join([each["delta"] for each in changed if "call_arguments.delta" in each["type"]])
    assert ['{"n":"[CARD]"}'] == [each["arguments"] for each in changed if "arguments" in each]
    assert "[EMAIL]" == "".join([each["delta"] for each in changed if "reasoning" in each["type"]])


def test_the_response_at_the_end_is_redacted_and_has_no_tokens() -> None:
    part = {"type": "output_text", "text": MAIL, "logprobs": [{"token": MAIL}]}
    (changed,) = says(ResponseEvents(), {"type": "response.completed", "response": {"output": [{"content": [part]}]}})

    assert [{"type": "output_text", "text": "[EMAIL]", "logprobs": None}] == changed["response"]["output"][0]["content"]


def test_log_probabilities_of_a_delta_do_not_come_out() -> None:
    assert [delta("hello ", logprobs=[])] == says(ResponseEvents(), delta("hello ", logprobs=[{"token": "hello "}]))


def test_a_blocked_response_ends_with_the_next_number() -> None:
    form = ResponseEvents()
    says(form, *numbered({"type": "response.created"}))

    assert b"5" == form.blocked(ContentBlocked("pii"), lambda error, number: b"%d" % number)


# ---- messages


def block(text: str, index: int = 0, kind: str = "text") -> Event:
    name = {"text": "text", "input_json": "partial_json", "thinking": "thinking"}[kind]
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", name: text}}


def test_what_is_left_of_a_block_comes_before_its_stop() -> None:
    stop = {"type": "content_block_stop", "index": 0}
    changed = says(MessageEvents(), *[block(letter) for letter in f"to {MAIL}"], stop)

    assert "to [EMAIL]" == "".join([each["delta"]["text"] for each in changed[:-1]])
    assert stop == changed[-1]


def test_blocks_and_kinds_do_not_mix() -> None:
    changed = says(
        MessageEvents(), block("4111 1111 "), block("1111 1111", 1), block("x", 1, "thinking"), {"type": "message_stop"}
    )

    texts = [(each["index"], each["delta"]["text"]) for each in changed[:-1] if "text" in each["delta"]]
    assert "4111 1111 " == "".join([text for index, text in texts if index == 0])
    assert "1111 1111" == "".join([text for index, text in texts if index == 1])
    assert {"type": "message_stop"} == changed[-1]


def test_the_input_of_a_tool_stays_json() -> None:
    changed = says(MessageEvents(), block('{"n": 4111', 0, "input_json"), block("111111111111}", 0, "input_json"))

    assert '{"n": "[CARD]"}' == "".join([each["delta"]["partial_json"] for each in changed])


def test_other_events_pass_as_they_are() -> None:
    events: list[Event] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "ping"},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "4111111111111111"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]

    assert all(changed is event for changed, event in zip(says(MessageEvents(), *events), events, strict=True))


def test_a_blocked_message_ends_with_an_error() -> None:
    assert b"0" == MessageEvents().blocked(ContentBlocked("pii"), lambda error, number: b"%d" % number)

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.protocol.body import Body
from gateway.protocol.endpoints.messages import MessagesObserver, parse_messages, usage_of_message
from gateway.protocol.errors import InvalidField
from gateway.protocol.usage import Usage
from tests.gateway.protocol.endpoints.streams import DONE, event, fed, observed

# As vLLM writes them.
START = event(
    "message_start",
    message={"id": "chatcmpl-1", "content": [], "model": "tiny", "usage": {"input_tokens": 31, "output_tokens": 0}},
)
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
DELTA = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
BLOCK_STOP = event("content_block_stop", index=0)
ENDING = event(
    "message_delta",
    delta={"stop_reason": "end_turn"},
    usage={
        "input_tokens": 15,
        "output_tokens": 5,
        "cache_read_input_tokens": 16,
        "cache_creation_input_tokens": 0,
    },
)
STOP = event("message_stop")
PING = event("ping")
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})


def read(**fields: Any) -> Body:
    turns = [{"role": "user", "content": "Hello"}]
    return parse_messages(json.dumps({"model": "tiny", "max_tokens": 8, "messages": turns, **fields}).encode())


class TestWhatIsRead:
    def test_the_smallest_body_has_plain_defaults(self) -> None:
        """It does not stream, names no session, and may use and fill the cache."""
        smallest = read()

        assert ("tiny", False, 8, None, 1) == (
            smallest.model,
            smallest.streams,
            smallest.max_tokens,
            smallest.session,
            smallest.n,
        )
        assert (True, True, True) == (smallest.asks_usage, smallest.reads_cache, smallest.writes_cache)

    def test_the_user_of_the_metadata_is_the_session(self) -> None:
        """Claude Code puts the id of its session there."""
        assert "u_session_1" == read(metadata={"user_id": "u_session_1"}).session
        assert [None, None, None] == [read(metadata=odd).session for odd in (None, {"user_id": 5}, "u")]

    def test_session_id_names_the_session_before_the_user(self) -> None:
        body = read(session_id="s", metadata={"user_id": "u"})

        assert ("s", "u", True) == (body.session, body.user, body.hides_session_id)

    def test_stream_and_salt_are_read(self) -> None:
        """They have the same names as in a chat."""
        body = read(stream=True, cache_salt="s")

        assert (True, "s") == (body.streams, body.cache_salt)

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"model": "m" * 513}, "model"),
            ({"messages": []}, "messages"),
            ({"messages": [{"content": "Hello"}]}, "messages[0].role"),
            ({"max_tokens": 1.5}, "max_tokens"),
            ({"system": 5}, "system"),
        ],
    )
    def test_a_wrong_field_is_named(self, fields: dict[str, Any], param: str) -> None:
        """Before a worker is chosen."""
        with pytest.raises(InvalidField) as raised:
            read(**fields)

        assert param == raised.value.param


class TestStream:
    def test_a_whole_answer_passes_and_is_understood(self) -> None:
        """What came from the cache is part of the prompt, though Anthropic counts it beside the input."""
        stream = START + PING + BLOCK + DELTA + BLOCK_STOP + ENDING + STOP
        observer = MessagesObserver()

        assert stream + DONE == observer.feed(stream + DONE + DONE)
        assert (Usage(31, 5, 16), True, None, False) == (
            observer.usage,
            observer.done,
            observer.failed,
            observer.aborted,
        )

    def test_anthropics_own_delta_has_only_the_output(self) -> None:
        """The input stays what the start said."""
        start = event(
            "message_start",
            message={
                "usage": {
                    "input_tokens": 5,
                    "cache_creation_input_tokens": 2,
                    "cache_read_input_tokens": 100,
                    "output_tokens": 1,
                }
            },
        )
        observer = MessagesObserver()
        observer.feed(start + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 15}))

        assert Usage(107, 15, 100) == observer.usage

    def test_the_start_is_no_beginning(self) -> None:
        """The first block is: until then another worker can be asked."""
        observer = MessagesObserver()

        assert [False, False, True] == [observer.feed(data) and observer.begun for data in (START, PING, BLOCK)]

    def test_an_answer_without_blocks_has_begun_at_its_end(self) -> None:
        """A model may have nothing to say."""
        observer = MessagesObserver()
        observer.feed(START + ENDING)

        assert observer.begun

    @pytest.mark.parametrize(
        ("last", "failed"),
        [
            (OVERLOADED, b'{"type":"overloaded_error","message":"Overloaded"}'),
            (b'data: {"error":{"message":"no"}}\n\n', b'{"message":"no"}'),
            (b"event: error\ndata: no json\n\n", b"no json"),
        ],
    )
    def test_an_error_is_noticed_and_no_done_follows_it(self, last: bytes, failed: bytes) -> None:
        """vLLM sends [DONE] after its errors too."""
        observer = MessagesObserver()

        assert START + last == observer.feed(START + last + DONE)
        assert (failed, False) == (observer.failed, observer.done)
        observer.feed(OVERLOADED)
        assert failed == observer.failed

    def test_no_reason_to_stop_is_an_abort(self) -> None:
        """vLLM has no word of Anthropic's for it, and says null."""
        observer = MessagesObserver()
        observer.feed(START + event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 0}))

        assert observer.aborted

    def test_the_mark_of_the_end_alone_is_no_end(self) -> None:
        """It would claim a success that there was not."""
        observer = MessagesObserver()

        assert DELTA == observer.feed(DELTA + DONE)
        assert not observer.done

    def test_text_that_looks_like_it_is_only_text(self) -> None:
        """A model may write about all of this."""
        text = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "error message_stop [DONE]"})
        observer = MessagesObserver()

        assert text == observer.feed(text)
        assert (None, False, None) == (observer.failed, observer.done, observer.usage)

    def test_an_error_longer_than_can_be_held_still_is_one(self) -> None:
        """Its text is not kept."""
        observer = MessagesObserver(max_held=200)
        observer.feed(event("error", error={"type": "api_error", "message": "x" * 500}))

        assert b"{}" == observer.failed


pieces = st.sampled_from(
    [
        START,
        PING,
        BLOCK,
        DELTA,
        ENDING,
        STOP,
        OVERLOADED,
        STOP.replace(b"\n", b"\r\n"),
        DELTA.replace(b"\n", b"\r\n"),
        event("content_block_delta", delta={"text": "y" * 700}),
        event("message_delta", delta={"stop_reason": None}),
        event("error", error={"message": "y" * 700}),
        DONE,
        DONE.replace(b"\n", b"\r\n"),
        b": keep-alive\n\n",
        b"\n",
        b"\r\n",
        b"data: ",
        b"event: message_stop\n",
    ]
)


@given(st.lists(pieces, max_size=8).map(b"".join), st.lists(st.integers(1, 500), max_size=40))
@example(START + DELTA + ENDING + STOP + DONE + DONE, [1] * 40)
def test_the_cuts_between_packets_do_not_show(stream: bytes, sizes: list[int]) -> None:
    """The same bytes come out, and the same is observed, for all cuts of the stream."""
    whole, cut = MessagesObserver(max_held=600), MessagesObserver(max_held=600)

    assert fed(whole, stream, []) == fed(cut, stream, sizes)
    assert observed(whole) == observed(cut)


class TestUsageOfAnAnswer:
    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            ({"input_tokens": 9, "output_tokens": 2}, Usage(9, 2, None)),
            ({"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 30}, Usage(39, 2, 30)),
            (None, None),
            (5, None),
        ],
    )
    def test_what_was_cached_belongs_to_the_prompt(self, usage: Any, expected: Usage | None) -> None:
        """Whether it was cached is unknown where the engine does not say."""
        assert expected == usage_of_message(json.dumps({"type": "message", "usage": usage}).encode())

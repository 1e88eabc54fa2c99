import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.protocol.body import Body
from gateway.protocol.endpoints.responses import ResponsesObserver, parse_responses, response_id_of, usage_of_response
from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.protocol.usage import Usage
from tests.gateway.protocol.endpoints.streams import DONE, event, fed, observed

USAGE = {
    "input_tokens": 31,
    "input_tokens_details": {"cached_tokens": 16},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 36,
}


def response(status: str, **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "error": None, "usage": None, **fields}


CREATED = event("response.created", sequence_number=0, response=response("in_progress"))
IN_PROGRESS = event("response.in_progress", sequence_number=1, response=response("in_progress"))
ITEM = event("response.output_item.added", sequence_number=2, output_index=0, item={"id": "msg_1", "content": []})
DELTA = event("response.output_text.delta", sequence_number=3, item_id="msg_1", delta="Hi", logprobs=[])
COMPLETED = event("response.completed", sequence_number=4, response=response("completed", usage=USAGE))
FAILED = event(
    "response.failed",
    sequence_number=4,
    response=response("failed", error={"code": "server_error", "message": "the engine died"}),
)


def read(**fields: Any) -> Body:
    return parse_responses(json.dumps({"model": "tiny", "input": "Hello", **fields}).encode())


class TestWhatIsRead:
    def test_the_smallest_body_has_plain_defaults(self) -> None:
        """It does not stream, sets no limit, goes on from nothing, and may use and fill the cache."""
        smallest = read()

        assert ("tiny", False, None, None, None) == (
            smallest.model,
            smallest.streams,
            smallest.max_tokens,
            smallest.session,
            smallest.previous_response_id,
        )
        assert (True, True, True, 1) == (smallest.asks_usage, smallest.reads_cache, smallest.writes_cache, smallest.n)

    def test_every_field_that_decides_is_read(self) -> None:
        """The limit has a name of its own here."""
        full = read(
            stream=True,
            max_output_tokens=64.0,
            previous_response_id="resp_0",
            prompt_cache_key="s1",
            user="u1",
            cache_salt="salt",
        )

        assert (True, 64, "resp_0") == (full.streams, full.max_tokens, full.previous_response_id)
        assert ("s1", "salt") == (full.session, full.cache_salt)
        assert "u1" == read(user="u1").session
        assert ("s", True) == (
            read(session_id="s", prompt_cache_key="k").session,
            read(session_id="s").hides_session_id,
        )

    def test_what_goes_on_from_a_response_is_no_prefix(self) -> None:
        """The worker computes it behind a conversation that is not in the body."""
        added = read(previous_response_id="resp_0")

        assert (False, False) == (added.reads_cache, added.writes_cache)

    def test_an_input_may_be_missing(self) -> None:
        """Workers know prompts under other names, and say themselves what they miss."""
        assert b"" == parse_responses(b'{"model":"m","prompt":{"id":"p"}}').prompt

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"model": "m" * 513}, "model"),
            ({"input": 5}, "input"),
            ({"input": ["Hello"]}, "input[0]"),
            ({"max_output_tokens": -1}, "max_output_tokens"),
            ({"instructions": 5}, "instructions"),
            ({"previous_response_id": 5}, "previous_response_id"),
        ],
    )
    def test_a_wrong_field_is_named(self, fields: dict[str, Any], param: str) -> None:
        """Before a worker is chosen."""
        with pytest.raises(InvalidField) as raised:
            read(**fields)

        assert param == raised.value.param

    def test_what_is_no_json_is_malformed(self) -> None:
        """The error is the same as for chats."""
        with pytest.raises(MalformedBody):
            parse_responses(b'{"model":"tiny","input":"Hel')


class TestStream:
    def test_a_whole_answer_passes_and_is_understood(self) -> None:
        """Usage, id and end are in it; every byte goes on."""
        stream = CREATED + IN_PROGRESS + ITEM + DELTA + COMPLETED
        observer = ResponsesObserver()

        assert stream == observer.feed(stream)
        assert (Usage(31, 5, 16), True, None, "resp_1") == (
            observer.usage,
            observer.done,
            observer.failed,
            observer.response_id,
        )
        assert 5 == observer.next_sequence_number

    def test_announcements_are_no_beginning(self) -> None:
        """vLLM sends them before the engine has seen the request, so another worker can still be asked."""
        observer = ResponsesObserver()
        begun = [observer.feed(data) and observer.begun for data in (b": keep-alive\n\n", CREATED, IN_PROGRESS, ITEM)]

        assert [False, False, False, True] == begun

    def test_the_id_is_known_from_the_first_event(self) -> None:
        """It is known even if the stream is cut."""
        observer = ResponsesObserver()
        observer.feed(CREATED)

        assert "resp_1" == observer.response_id

    def test_a_very_long_id_is_not_worth_remembering(self) -> None:
        """The memory for ids is bounded."""
        observer = ResponsesObserver()
        observer.feed(event("response.created", response={"id": "r" * 257}))

        assert observer.response_id is None
        assert response_id_of(b'{"id":"' + b"r" * 257 + b'"}') is None

    def test_an_annotation_without_data_is_no_event(self) -> None:
        """Dynamo sends a name and a comment; no client sees more than nothing."""
        stream = b'event: response.completed\n: "x"\n\nevent: error\n: "x"\n\n'
        observer = ResponsesObserver()

        assert stream == observer.feed(stream)
        assert (False, None, False) == (observer.done, observer.failed, observer.begun)

    def test_an_incomplete_answer_has_ended_all_the_same(self) -> None:
        """It ran into its limit: that is no failure."""
        observer = ResponsesObserver()
        observer.feed(CREATED + event("response.incomplete", response=response("incomplete", usage=USAGE)))

        assert (True, None, Usage(31, 5, 16)) == (observer.done, observer.failed, observer.usage)

    @pytest.mark.parametrize(
        ("last", "failed", "done"),
        [
            (FAILED, b'{"code":"server_error","message":"the engine died"}', True),
            (event("response.failed", response=response("failed")), b"{}", True),
            (event("response.failed"), b"{}", True),
            (
                event("error", code="500", message="no", param=None, sequence_number=3),
                b'{"type":"error","code":"500","message":"no","param":null,"sequence_number":3}',
                False,
            ),
            (event("error", error={"message": "no"}), b'{"message":"no"}', False),
            (b'data: {"error":{"message":"no","code":500}}\n\n', b'{"message":"no","code":500}', False),
            (b'event: error\ndata: {"message":"no"}\n\n', b'{"message":"no"}', False),
            (b"event: error\ndata: no json\n\n", b"no json", False),
        ],
    )
    def test_a_failure_is_noticed_and_no_done_follows_it(self, last: bytes, failed: bytes, done: bool) -> None:
        """In each of the ways in which engines tell it; the first one counts."""
        observer = ResponsesObserver()

        assert CREATED + last == observer.feed(CREATED + last + DONE)
        assert (failed, done) == (observer.failed, observer.done)
        observer.feed(FAILED)
        assert failed == observer.failed

    def test_the_mark_of_the_end_passes_once_and_only_after_the_end(self) -> None:
        """Alone it would claim a success that there was not."""
        observer = ResponsesObserver()

        assert DELTA == observer.feed(DELTA + DONE)
        assert not observer.done
        complete = ResponsesObserver()
        assert COMPLETED + DONE == complete.feed(COMPLETED + DONE + DONE)

    def test_an_answer_longer_than_can_be_held_still_ends(self) -> None:
        """Its name stands in its beginning; only its usage stays unknown."""
        long = event("response.completed", response=response("completed", output="x" * 500, usage=USAGE))
        cut, whole = ResponsesObserver(max_held=200), ResponsesObserver(max_held=200)

        assert long == fed(cut, long, [150, 100])
        assert long == whole.feed(long)
        assert (True, None, True) == (cut.done, cut.usage, cut.begun)
        assert observed(whole) == observed(cut)

    def test_a_failure_longer_than_can_be_held_still_is_one(self) -> None:
        """Its text is not kept."""
        observer = ResponsesObserver(max_held=200)
        observer.feed(event("response.failed", response=response("failed", output="x" * 500)))

        assert (True, b"{}") == (observer.done, observer.failed)

    @pytest.mark.parametrize("usage", [None, 5, {"input_tokens": "many"}])
    def test_an_end_without_usage_is_an_end(self, usage: Any) -> None:
        """What cannot be read costs nothing that we know of."""
        observer = ResponsesObserver()
        observer.feed(event("response.completed", response=response("completed", usage=usage)))

        assert (True, None) == (observer.done, observer.usage)

    def test_numbers_in_a_text_are_not_the_number_of_the_event(self) -> None:
        """Quotes in a text are escaped."""
        observer = ResponsesObserver()
        observer.feed(event("response.output_text.delta", sequence_number=7, delta='"sequence_number":99'))

        assert 8 == observer.next_sequence_number


pieces = st.sampled_from(
    [
        CREATED,
        ITEM,
        DELTA,
        COMPLETED,
        FAILED,
        COMPLETED.replace(b"\n", b"\r\n"),
        DELTA.replace(b"\n", b"\r\n"),
        event("error", message="no"),
        event("response.output_text.delta", delta="error response.completed [DONE]"),
        event("response.output_text.done", text="y" * 700),
        event("response.completed", response=response("completed", output="y" * 700, usage=USAGE)),
        DONE,
        DONE.replace(b"\n", b"\r\n"),
        b": keep-alive\n\n",
        b"event: note\n: text\n\n",
        b"\n",
        b"\r\n",
        b"data: ",
        b"event: response.completed\n",
    ]
)


@given(st.lists(pieces, max_size=8).map(b"".join), st.lists(st.integers(1, 500), max_size=40))
@example(CREATED + DELTA + COMPLETED + DONE + DONE, [1] * 40)
def test_the_cuts_between_packets_do_not_show(stream: bytes, sizes: list[int]) -> None:
    """The same bytes come out, and the same is observed, for all cuts of the stream."""
    whole, cut = ResponsesObserver(max_held=600), ResponsesObserver(max_held=600)

    assert fed(whole, stream, []) == fed(cut, stream, sizes)
    assert observed(whole) == observed(cut)


class TestWholeAnswer:
    def test_usage_and_id_are_read(self) -> None:
        """Wherever they stand."""
        body = json.dumps(response("completed", output=[], usage=USAGE)).encode()

        assert (Usage(31, 5, 16), "resp_1") == (usage_of_response(body), response_id_of(body))

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"usage":null,"id":null}', b"\xff"])
    def test_there_may_be_none(self, body: bytes) -> None:
        """An error, or what is no JSON."""
        assert (None, None) == (usage_of_response(body), response_id_of(body))

    def test_cached_tokens_may_be_unknown(self) -> None:
        """The details are left out by some engines."""
        assert Usage(3, 4, None) == usage_of_response(b'{"usage":{"input_tokens":3,"output_tokens":4}}')

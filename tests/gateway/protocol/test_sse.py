import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.protocol.errors import ReplyBroken
from gateway.protocol.sse import ChunkObserver, error_event
from gateway.protocol.usage import Usage, usage_of

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def says(text: str, **fields: Any) -> bytes:
    return event(id="c", choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}], **fields)


HELLO = says("hello")
STOP = event(id="c", choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
FINAL = event(id="c", choices=[], usage=USAGE)
DONE = b"data: [DONE]\n\n"


def observer() -> ChunkObserver:
    return ChunkObserver(strip_usage=True)


class TestRelay:
    def test_ordinary_events_pass_as_they_are(self) -> None:
        """The very same bytes object goes on, so nothing was copied."""
        watched = observer()

        assert HELLO is watched.feed(HELLO)

    def test_events_are_counted_as_they_come_out(self) -> None:
        """The count is the usage of a stream whose end is missing; cuts do not matter."""
        watched = observer()
        for data in (HELLO, HELLO[:7], HELLO[7:] + HELLO):
            watched.feed(data)

        assert 3 == watched.events

    def test_half_an_event_waits_for_its_other_half(self) -> None:
        """Downstream gets whole events only."""
        watched = observer()

        assert b"" == watched.feed(HELLO[:7])
        assert HELLO + HELLO == watched.feed(HELLO[7:] + HELLO + STOP[:-1])
        assert STOP == watched.feed(b"\n")

    def test_a_held_event_comes_out_at_the_end(self) -> None:
        """A worker that forgets the last blank line loses nothing."""
        watched = observer()

        assert b"" == watched.feed(b"data: [DONE]")
        assert b"data: [DONE]" == watched.finish()
        assert watched.done
        assert b"" == watched.finish()

    def test_the_end_passes_once(self) -> None:
        """A second [DONE] is dropped, in the same read or later."""
        watched = observer()

        assert HELLO + DONE == watched.feed(HELLO + DONE + DONE)
        assert watched.done
        assert b"" == watched.feed(DONE)

    def test_comments_and_named_events_pass(self) -> None:
        """Keep-alives and annotations pass unread."""
        stream = b': keep-alive\n\nevent: llm_metrics\n: "{\\"usage\\": 1, [DONE]}"\n\n: "usage" [DONE]\n\n'
        watched = observer()

        assert stream == watched.feed(stream)
        assert (None, False, None) == (watched.usage, watched.done, watched.failed)

    def test_an_event_that_is_no_json_passes(self) -> None:
        """What cannot be read is the client's to judge."""
        stream = b'data: {"usage"\n\ndata: "usage"\n\ndata: {"choices":5,"usage":{}}\n\n'

        assert stream == observer().feed(stream)


class TestUsage:
    @pytest.mark.parametrize(
        "final",
        [
            FINAL,
            FINAL.replace(b"\n", b"\r\n"),
            FINAL.replace(b"data: ", b"data:"),
            FINAL.replace(b"[]", b" [ ] ").replace(b'"usage":', b'"usage" :  '),
            b"event: message\nid: 5\n" + FINAL,
            b": hello\n" + FINAL,
            FINAL.replace(b',"usage"', b',\ndata: "usage"'),
            b'data: {"usage":' + json.dumps(USAGE).encode() + b',"choices":[]}\n\n',
        ],
    )
    def test_the_usage_chunk_is_read_and_taken_out(self, final: bytes) -> None:
        """In every spelling that SSE and JSON allow."""
        watched = observer()

        assert HELLO + DONE == watched.feed(HELLO + final + DONE)
        assert Usage(prompt_tokens=9, completion_tokens=2, cached_tokens=8) == watched.usage

    def test_the_usage_chunk_stays_for_those_who_asked(self) -> None:
        """It is read all the same."""
        watched = ChunkObserver(strip_usage=False)

        assert FINAL == watched.feed(FINAL)
        assert Usage(9, 2, 8) == watched.usage

    def test_usage_beside_text_stays_and_the_last_counts(self) -> None:
        """``continuous_usage_stats`` puts usage on chunks that carry the answer."""
        stream = says("a", usage={"prompt_tokens": 9, "completion_tokens": 1}) + says("b", usage=USAGE)
        watched = observer()

        assert stream == watched.feed(stream)
        assert Usage(9, 2, 8) == watched.usage

    @pytest.mark.parametrize("usage", [None, 5, "x", []])
    def test_a_chunk_without_a_usage_object_stays(self, usage: Any) -> None:
        """OpenAI sends ``"usage":null`` with every chunk, and empty choices elsewhere too."""
        stream = says("a", usage=None) + event(choices=[], usage=usage) + event(choices=[]) + event(usage=USAGE)
        watched = observer()

        assert stream == watched.feed(stream)

    def test_usage_is_seen_among_nulls(self) -> None:
        """The chunk that counts may share a read with many that say null."""
        watched = observer()

        assert says("a", usage=None) * 3 == watched.feed(says("a", usage=None) * 3 + FINAL)
        assert Usage(9, 2, 8) == watched.usage

    @pytest.mark.parametrize(
        "text",
        [
            "usage",
            '"usage":null',
            '"choices":[],"usage":{"prompt_tokens":1}',
            'data: {"choices":[],"usage":{}}\n\n',
            "[DONE]",
            "data: [DONE]\n\n",
            "error",
            'data: {"error":{}}',
            "abort",
        ],
    )
    def test_text_that_looks_like_it_is_only_text(self, text: str) -> None:
        """A model may write about all of this."""
        stream = says(text) + says(text, usage=None)
        watched = observer()

        assert stream == watched.feed(stream)
        assert (None, False, None, False) == (watched.usage, watched.done, watched.failed, watched.aborted)

    def test_cached_tokens_may_be_unknown(self) -> None:
        """Engines leave the details out, or null, unless a flag asks for them."""
        for details in ({}, {"prompt_tokens_details": None}, {"prompt_tokens_details": {"cached_tokens": None}}):
            watched = observer()
            watched.feed(event(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 2, **details}))

            assert Usage(9, 2, None) == watched.usage


class TestFailure:
    @pytest.mark.parametrize(
        ("stream", "failed"),
        [
            (b'data: {"error":{"message":"no","code":500}}\n\n', b'{"message":"no","code":500}'),
            (b'data: {"error" : "Unauthorized"}\r\n\r\n', b'"Unauthorized"'),
            (b'data: {"object":"error","message":"full"}\n\n', b'{"object":"error","message":"full"}'),
            (b'event: error\ndata: {"error":{"code":1}}\n\n', b'{"code":1}'),
        ],
    )
    def test_an_error_event_is_noticed_and_passes_without_the_done_after_it(self, stream: bytes, failed: bytes) -> None:
        """Engines answer 200 first and end failed streams as if they were complete."""
        watched = observer()

        assert stream == watched.feed(stream + DONE)
        assert stream == watched.feed(stream)
        assert failed == watched.failed

    def test_a_null_error_is_ignored(self) -> None:
        """Some servers list every field."""
        watched = observer()
        watched.feed(says("a", error=None))

        assert watched.failed is None

    def test_an_aborted_choice_is_noticed(self) -> None:
        """vLLM ends requests so while it shuts down, with status 200."""
        watched = observer()
        watched.feed(event(choices=[{"index": 0, "delta": {}, "finish_reason": "abort"}]))

        assert watched.aborted

    def test_our_own_error_event_is_one_data_line(self) -> None:
        """In OpenAI's shape, and without a [DONE] that would pass the answer off as complete."""
        sent = error_event(ReplyBroken("worker closed\nthe stream"))

        assert (
            b'data: {"error":{"message":"worker closed\\nthe stream","type":"upstream_error","param":null,'
            b'"code":"upstream_broken"}}\n\n'
        ) == sent


class TestLongEvents:
    def test_an_event_beyond_the_bound_passes_as_it_comes(self) -> None:
        """Memory stays bounded, and the events after it are watched again."""
        watched = ChunkObserver(strip_usage=True, max_held=150)
        long = says("x" * 200)

        assert (b"", False) == (watched.feed(long[:150]), watched.inside_event)
        assert (long[:151], True) == (watched.feed(long[150:151]), watched.inside_event)
        assert (long[151:-1], True) == (watched.feed(long[151:-1]), watched.inside_event)
        assert (b"\n" + DONE, False) == (watched.feed(b"\n" + FINAL + DONE), watched.inside_event)
        assert (Usage(9, 2, 8), True) == (watched.usage, watched.done)

    def test_a_long_event_is_read_neither_whole_nor_in_pieces(self) -> None:
        """What is found does not depend on the packets."""
        long = event(choices=[], usage=USAGE, padding="x" * 200)
        whole, cut = (ChunkObserver(strip_usage=True, max_held=100) for _ in range(2))

        assert long == whole.feed(long)
        assert long == b"".join(cut.feed(long[i : i + 7]) for i in range(0, len(long), 7))
        assert whole.usage is None
        assert cut.usage is None


pieces = st.sampled_from(
    [
        HELLO,
        STOP,
        FINAL,
        DONE,
        FINAL.replace(b"\n", b"\r\n"),
        HELLO.replace(b"\n", b"\r\n"),
        DONE.replace(b"\n", b"\r\n"),
        says("y" * 400),
        says("[DONE]", usage=None),
        says("z", usage=USAGE),
        event(error={"message": "no"}),
        b": keep-alive\n\n",
        b"event: note\n: text\n\n",
        event(choices=[{"finish_reason": "abort"}]),
        b"\n",
        b"\r\n",
        b"\r",
        b"data: ",
        b"data:\n",
    ]
)


class TestAnyPackets:
    @given(st.lists(pieces, max_size=8).map(b"".join), st.lists(st.integers(1, 400), max_size=40))
    @example(b"".join([HELLO, b"\n", b"\r\n", FINAL, b"\r\n", DONE, DONE]), [1] * 40)
    def test_the_cuts_between_packets_do_not_show(self, stream: bytes, sizes: list[int]) -> None:
        """The same bytes come out, and the same is observed, for all cuts of the stream."""
        whole, cut = (ChunkObserver(strip_usage=True, max_held=300) for _ in range(2))
        expected = whole.feed(stream) + whole.finish()
        packets: list[bytes] = []
        rest = stream
        for size in sizes:
            packets.append(rest[:size])
            rest = rest[size:]
        got = b"".join(cut.feed(packet) for packet in [*packets, rest] if packet) + cut.finish()

        assert expected == got
        assert (whole.usage, whole.done, whole.failed) == (cut.usage, cut.done, cut.failed)
        assert (whole.begun, whole.aborted) == (cut.begun, cut.aborted)


class TestBeginning:
    @pytest.mark.parametrize(
        "data",
        [
            b": keep-alive\n\n",
            b'event: llm_metrics\n: "{\\"usage\\": 1}"\n\n',
            b"event: ping\ndata:\n\n",
            b": keep-alive\r\n\r\n",
            b"\n\r\n",
            FINAL,
            DONE,
        ],
    )
    def test_what_holds_no_answer_is_no_beginning(self, data: bytes) -> None:
        """Nothing of it would be missed if another worker answered instead."""
        watched = observer()
        watched.feed(data)

        assert not watched.begun

    def test_the_first_chunk_is_the_beginning(self) -> None:
        """Also behind a comment in the same read, and when its event is complete at last."""
        watched, late = observer(), observer()
        watched.feed(b": keep-alive\n\n" + HELLO)
        late.feed(HELLO[:-1])

        assert (True, False) == (watched.begun, late.begun)
        late.feed(HELLO[-1:])
        assert late.begun

    def test_a_flood_of_comments_is_a_beginning(self) -> None:
        """The bytes kept before the beginning are bounded."""
        watched = ChunkObserver(strip_usage=True, max_held=100)
        begun = [watched.feed(b": keep-alive\n\n") and watched.begun for _ in range(8)]

        assert [False] * 7 + [True] == begun

    def test_a_last_event_without_a_blank_line_is_one_too(self) -> None:
        """A worker may answer with a single chunk."""
        watched = observer()
        watched.feed(HELLO[:-2])

        assert (HELLO[:-2], True) == (watched.finish(), watched.begun)


class TestUsageOfAnAnswer:
    def test_it_is_read_wherever_it_stands(self) -> None:
        """Before or after the choices, among anything else."""
        answer = {"id": "c", "choices": [{"message": {"content": '"usage":{"prompt_tokens":1}'}}]}

        assert Usage(9, 2, 8) == usage_of(json.dumps({**answer, "usage": USAGE, "x": {"usage": {}}}).encode())
        assert Usage(9, 2, 8) == usage_of(json.dumps({"usage": USAGE, **answer}).encode())

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[]", b'{"usage":null}', b'{"usage":{"prompt_tokens":"x"}}', b"\xff"]
    )
    def test_there_may_be_none(self, body: bytes) -> None:
        """An error, or what is no JSON, costs nothing that we know of."""
        assert usage_of(body) is None

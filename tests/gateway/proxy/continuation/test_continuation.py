"""Streams that are cut and go on, against an engine that knows what should have come."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol.body import parse_chat
from gateway.protocol.errors import ReplyBroken
from gateway.protocol.splice import members_of
from gateway.protocol.usage import Usage
from gateway.proxy.continuation.continuation import MAX_HELD, MAX_UNSETTLED, Continuation, continuation_of
from gateway.proxy.continuation.transcript import MAX_IDS
from tests.gateway.proxy.continuation.engine import (
    CHAT_PATH,
    DONE,
    PROMPT,
    TEXT_PATH,
    Engine,
    Seen,
    a_call,
    a_continuation,
    relayed,
    seen,
)

WORDS = [b"Hi", b" there", b" \xf0\x9f", b"\x98\x80", b" <", b"div", b">", b"\xc3", b"\xa9t", b"\xc3\xa9", b".", b" So"]
TEXT = b"".join(WORDS).decode()
USAGE = {"include_usage": True}
PATHS = pytest.mark.parametrize("path", [CHAT_PATH, TEXT_PATH])


def going_on(path: str = CHAT_PATH, *, mode: Any = "tokens", **fields: Any) -> Continuation:
    continuation = a_continuation(a_call(path, **fields), mode=mode)
    assert continuation is not None
    return continuation


def an_engine(**more: Any) -> Engine:
    return Engine(WORDS, **more)


def whole(path: str, *, usage: bool = True) -> Seen:
    """Return what the caller of an uncut stream sees that did not ask for ids."""
    shape = "chat.completion.chunk" if path == CHAT_PATH else "text_completion"
    return Seen(
        content=TEXT,
        reasoning="",
        roles=int(path == CHAT_PATH),
        finishes=["stop"],
        ids=[],
        prompts=[],
        heads={("id-1", shape, 1001, "tiny")},
        usages=[{"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}] if usage else [],
        ends=1,
    )


def event_ends(stream: bytes) -> list[int]:
    return [place + 2 for place in range(len(stream)) if stream.startswith(b"\n\n", place)]


class TestUncut:
    @PATHS
    @pytest.mark.parametrize("packet", [None, 1, 100])
    def test_requested_ids_do_not_show(self, path: str, packet: int | None) -> None:
        """The stream is byte for byte that of the caller's own request, however it is cut into packets."""
        own = an_engine().stream(a_call(path, stream_options=USAGE))

        assert own == relayed(going_on(path, stream_options=USAGE), an_engine(), packet=packet)

    @pytest.mark.parametrize("engine", [{"holds": "<"}, {"reasoning": [b"Let", b" me"]}])
    def test_events_with_ids_only_are_dropped(self, engine: Any) -> None:
        """vLLM sends an event for held text only if ids are requested."""
        own = an_engine(**engine).stream(a_call())

        assert own == relayed(going_on(), an_engine(**engine))

    @PATHS
    def test_a_caller_who_asks_for_ids_gets_them(self, path: str) -> None:
        """They pass unchanged."""
        own = an_engine().stream(a_call(path, return_token_ids=True))

        assert own == relayed(going_on(path, return_token_ids=True), an_engine())

    def test_the_generated_tokens_are_always_known(self) -> None:
        """A stream without usage is charged by its ids."""
        continuation, engine = going_on(), an_engine()
        events = engine.events(continuation.call)

        assert continuation.usage(None) is None
        continuation.passed(b"".join(events[:4]))
        assert Usage(3, 3) == continuation.usage(None)
        assert Usage(3, 4, 2) == continuation.usage(Usage(3, 4, 2))


class TestByTokens:
    @PATHS
    def test_a_cut_at_any_byte_is_not_noticed(self, path: str) -> None:
        """Nothing is lost or repeated; there is one role, one finish, one end, and one usage."""
        stream = an_engine().stream(going_on(path, stream_options=USAGE).call)
        for cut in range(event_ends(stream)[0], len(stream), 1 if path == CHAT_PATH else 4):
            continuation = going_on(path, stream_options=USAGE)
            assert whole(path) == seen(relayed(continuation, an_engine(), cut)), cut

    @PATHS
    def test_before_the_first_event_it_is_the_second_workers_answer(self, path: str) -> None:
        """The caller has seen nothing of the first."""
        own = whole(path)
        for cut in (0, 30, 200):
            reported = seen(relayed(going_on(path, stream_options=USAGE), an_engine(), cut))
            assert dataclasses.replace(own, heads={("id-2", *next(iter(own.heads))[1:2], 1002, "tiny")}) == reported

    @PATHS
    @pytest.mark.parametrize("packet", [1, 7, 250])
    def test_two_cuts_at_any_events_are_not_noticed(self, path: str, packet: int) -> None:
        """A worker that continues a stream may die too."""
        first = event_ends(an_engine().stream(going_on(path).call))
        for number, cut in enumerate(first[:-1]):
            continuation = going_on(path)
            second = first[-1] // 2 if number % 2 else cut // 3
            stream = relayed(continuation, an_engine(), cut, second, packet=packet)
            assert whole(path, usage=False) == seen(stream), cut

    @PATHS
    def test_a_caller_who_asks_for_ids_gets_each_once(self, path: str) -> None:
        """Ids are shown only with their text, wherever the stream is cut."""
        length = len(an_engine().stream(a_call(path, return_token_ids=True)))
        for cut in range(0, length, 5):
            engine = an_engine()
            reported = seen(relayed(going_on(path, return_token_ids=True), engine, cut))
            assert (TEXT, engine.ids, [PROMPT]) == (reported.content, reported.ids, reported.prompts), cut

    def test_text_that_a_parser_holds_is_not_lost(self) -> None:
        """It shows a blank of " <" first: the next worker does not go on after that."""
        for cut in event_ends(an_engine(holds="<").stream(going_on().call))[:-1]:
            assert whole(CHAT_PATH, usage=False) == seen(relayed(going_on(), an_engine(holds="<"), cut)), cut

    def test_a_line_of_punctuation_is_not_held_forever(self) -> None:
        """Its events come out in groups."""
        engine = Engine([b"-"] * 40)
        continuation = going_on()
        events = engine.events(continuation.call)
        out = [continuation.passed(event) for event in events[: MAX_UNSETTLED + 2]]

        assert [True, *[False] * MAX_UNSETTLED, True] == [bool(passed) for passed in out]
        assert "-" * (MAX_UNSETTLED + 1) == seen(b"".join(out)).content

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def test_any_text_in_any_tokens_is_exact(self, data: st.DataObject) -> None:
        """Characters are split over tokens, events over packets; streams are cut up to three times."""
        text = data.draw(st.text(min_size=1, max_size=30).filter(lambda text: "\ud800" not in text)).encode(
            "utf-8", "replace"
        )
        places = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=12)))
        tokens = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True) if a != b]
        path = data.draw(st.sampled_from([CHAT_PATH, TEXT_PATH]))
        asks_ids = data.draw(st.booleans())
        holds = data.draw(st.sampled_from(["", "<"]))
        cuts = data.draw(st.lists(st.integers(0, 3000), max_size=3))
        packet = data.draw(st.integers(1, 400))
        engine = Engine(tokens, holds=holds)
        continuation = going_on(path, return_token_ids=asks_ids, stream_options=USAGE)
        reported = seen(relayed(continuation, engine, *cuts, packet=packet))

        assert (text.decode(), ["stop"], 1) == (reported.content, reported.finishes, reported.ends)
        assert (engine.ids if asks_ids else []) == reported.ids
        assert len(engine.ids) == reported.usages[-1]["completion_tokens"]

    def test_the_call_asks_for_the_remaining_tokens(self) -> None:
        """The other fields are passed on, except for those that made the prompt."""
        fields: Any = {"seed": 3, "temperature": 0.5, "min_tokens": 7, "logit_bias": {"5": 1.0}, "cache_salt": "s"}
        continuation, engine = going_on(stream_options=USAGE, chat_template_kwargs={"a": 1}, **fields), an_engine()
        continuation.passed(b"".join(engine.events(continuation.call)[:3]))
        following = continuation.next_call()
        assert following is not None
        body = json.loads(following.body)
        expected = {
            "model": "tiny",
            "stream": True,
            "stream_options": USAGE,
            "prompt": [*PROMPT, *engine.ids[:2]],
            "max_tokens": 98,
            "return_token_ids": True,
            **fields,
            "min_tokens": 5,
        }

        assert expected == body
        assert (b"/v1/completions", [(b"x-request-id", b"7")], True) == (
            following.path,
            following.headers,
            following.streams,
        )

    @pytest.mark.parametrize("least", [None, "x", [1], 3.0])
    def test_a_malformed_min_tokens_is_left_to_the_engine(self, least: Any) -> None:
        """The gateway does not fail at it."""
        assert going_on(min_tokens=least).next_call() is not None

    def test_a_chat_without_a_limit_goes_on_without_one(self) -> None:
        """On the chat route, whose limit is what fits; completions would stop after 16 tokens."""
        for cut in event_ends(an_engine().stream(going_on().call))[2:-3]:
            engine = an_engine()
            stream = relayed(going_on(max_tokens=..., stream_options=USAGE), engine, cut)
            assert whole(CHAT_PATH) == seen(stream)
            assert "kv_transfer_params" in engine.calls[-1]
            assert not engine.calls[-1].keys() & {"max_tokens", "prompt"}

    @pytest.mark.parametrize("has_ids", [False, True])
    def test_a_worker_that_ignores_the_ids_is_refused(self, *, has_ids: bool) -> None:
        """It reports another prompt, or none."""
        continuation, engine = going_on(max_tokens=...), an_engine(takes_ids_in_chats=False)
        shown = continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        for _ in range(2):
            following = continuation.next_call()
            assert following is not None
            continuation.resumed()
            engine.has_ids = has_ids
            events = engine.events(following)
            assert has_ids or b"" == continuation.passed(events[0])
            with pytest.raises(ReplyBroken, match="continued the stream from different tokens"):
                continuation.passed(b"".join(events))
            assert b"" == continuation.passed(events[-1])

        assert "Hi there" == seen(shown).content

    def test_a_worker_that_reports_another_prompt_is_refused(self) -> None:
        """This holds for completions as well."""
        continuation, engine = going_on(), an_engine()
        continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        continuation.resumed()

        with pytest.raises(ReplyBroken):
            continuation.passed(b"".join(engine.events(a_call(TEXT_PATH, return_token_ids=True))))

    def test_limits_end_the_whole_answer(self) -> None:
        """The last worker sends the finish; if it was lost with that worker, the gateway makes one."""
        uncut = seen(an_engine().stream(a_call(max_tokens=5)))
        for cut in range(0, len(an_engine().stream(going_on(max_tokens=5).call)), 3):
            reported = seen(relayed(going_on(max_tokens=5), an_engine(), cut))
            assert (uncut.content, ["length"], 1) == (reported.content, reported.finishes, reported.ends), cut

    def test_a_text_completion_without_a_limit_has_sixteen_tokens(self) -> None:
        """This is OpenAI's default."""
        engine = Engine([b"a"] * 40)
        cut = event_ends(engine.stream(going_on(TEXT_PATH, max_tokens=...).call))[10]
        reported = seen(relayed(going_on(TEXT_PATH, max_tokens=...), engine, cut))

        assert ("a" * 16, ["length"]) == (reported.content, reported.finishes)
        assert 5 == engine.calls[-1]["max_tokens"]

    def test_usage_with_every_event_is_that_of_the_whole(self) -> None:
        """It grows by one with each event, on both sides of the splice."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        uncut = seen(an_engine().stream(a_call(TEXT_PATH, stream_options=options)))
        cut = event_ends(an_engine().stream(going_on(TEXT_PATH, stream_options=options).call))[5]
        reported = seen(relayed(going_on(TEXT_PATH, stream_options=options), an_engine(), cut))

        assert uncut.usages == reported.usages

    @pytest.mark.parametrize(("hit_share", "hit_tokens"), [(0.0, 0), (2 / 3, 2)])
    def test_cached_tokens_are_those_of_the_worker_that_began(self, hit_share: float, hit_tokens: int) -> None:
        """If its engine reported none, its predicted hit counts: the second hit is on another prompt."""
        options = {"include_usage": True}
        cut = event_ends(an_engine().stream(going_on(stream_options=options).call))[5]
        continuation = going_on(stream_options=options)
        reported = seen(relayed(continuation, an_engine(details=True), cut, hit_share=hit_share))

        expected = {"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}
        assert [expected | {"prompt_tokens_details": {"cached_tokens": hit_tokens}}] == reported.usages
        assert Usage(3, 13, hit_tokens) == continuation.usage(Usage(8, 8, 7))

    def test_without_a_prediction_they_are_those_of_the_worker_that_went_on(self) -> None:
        """They are at most the tokens of the prompt."""
        continuation = going_on()
        cut = event_ends(an_engine().stream(continuation.call))[5]
        relayed(continuation, an_engine(), cut)

        assert (Usage(3, 13, 2), Usage(3, 13, 3)) == tuple(
            continuation.usage(Usage(8, 8, reported)) for reported in (2, 7)
        )

    def test_engines_that_report_no_cached_tokens_get_none_invented(self) -> None:
        """A prediction alone is not reported as usage."""
        options = {"include_usage": True}
        cut = event_ends(an_engine().stream(going_on(stream_options=options).call))[5]
        reported = seen(relayed(going_on(stream_options=options), an_engine(), cut, hit_share=0.5))

        assert [{"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}] == reported.usages

    def test_cached_tokens_that_the_first_engine_reported_itself_count(self) -> None:
        """Engines that send usage with each event report them before they are lost."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        uncut = seen(an_engine(details=True).stream(a_call(stream_options=options)))
        cut = event_ends(an_engine(details=True).stream(going_on(stream_options=options).call))[5]
        reported = seen(relayed(going_on(stream_options=options), an_engine(details=True), cut, hit_share=0.5))

        assert uncut.usages == reported.usages

    def test_splices_are_counted(self) -> None:
        """After none, one and two."""
        for cuts in ((), (900,), (900, 700)):
            continuation = going_on()
            relayed(continuation, an_engine(), *cuts)
            assert len(cuts) == continuation.splices


REASONING: Any = {"reasoning": [b"Let", b" me"]}


class TestReasoning:
    def test_content_after_reasoning_goes_on(self) -> None:
        """Completions continue it, because they parse nothing: all their text is content."""
        ends = event_ends(an_engine(**REASONING).stream(going_on().call))
        for cut in ends[4:-1]:
            reported = seen(relayed(going_on(), an_engine(**REASONING), cut))
            assert (TEXT, "Let me", 1, ["stop"]) == (
                reported.content,
                reported.reasoning,
                reported.roles,
                reported.finishes,
            ), cut

    def test_the_end_of_reasoning_is_not_generated_twice(self) -> None:
        """Completions would show it, so held content does not count as begun."""
        engine = Engine([b"\n\n", b"So"], reasoning=[b"Let"])
        continuation = going_on()
        events = engine.events(continuation.call)
        shown = continuation.passed(b"".join(events[:4]))
        assert continuation.next_call() is None
        shown += continuation.passed(events[4])
        following = continuation.next_call()
        assert following is not None
        continuation.resumed()
        shown += continuation.passed(engine.stream(following))

        assert ("\n\nSo", "Let") == (seen(shown).content, seen(shown).reasoning)

    @pytest.mark.parametrize("mode", ["tokens", "text"])
    @pytest.mark.parametrize("events", [2, 3, 4])
    def test_unfinished_reasoning_does_not_go_on(self, mode: str, events: int) -> None:
        """Another worker would take the rest of it for content."""
        continuation = going_on(mode=mode)
        continuation.passed(b"".join(an_engine(**REASONING).events(continuation.call)[:events]))

        assert continuation.next_call() is None
        assert continuation.closing() is None

    def test_reasoning_after_content_does_not_go_on(self) -> None:
        """The next worker could not tell which of both it continues."""
        continuation = going_on()
        events = an_engine(**REASONING).events(continuation.call)
        continuation.passed(b"".join(events[:6] + events[1:2]))

        assert continuation.next_call() is None


class TestBeginning:
    def test_the_request_begins_again_after_the_role_alone(self) -> None:
        """In each mode, and with engines that return no ids."""
        for engine in (an_engine(has_ids=False), an_engine(reasoning=[b"Let"]), an_engine()):
            continuation = going_on(stream_options=USAGE)
            events = engine.events(continuation.call)
            assert continuation.passed(events[0])
            assert continuation.call == continuation.next_call()

    def test_held_content_begins_again(self) -> None:
        """The caller has not seen it."""
        engine = Engine([b"\n\n", b"So"])
        continuation = going_on()
        shown = continuation.passed(b"".join(engine.events(continuation.call)[:2]))
        assert continuation.call == continuation.next_call()
        continuation.resumed()
        shown += continuation.passed(engine.stream(continuation.call))

        assert ("\n\nSo", 1, ["stop"]) == (seen(shown).content, seen(shown).roles, seen(shown).finishes)

    def test_its_usage_is_that_of_the_second_answer(self) -> None:
        """With all details, because the second worker answered all of the request."""
        cut = event_ends(an_engine().stream(going_on(stream_options=USAGE).call))[0]
        continuation = going_on(stream_options=USAGE)
        reported = seen(relayed(continuation, an_engine(details=True), cut))

        assert [{"cached_tokens": 2}] == [usage["prompt_tokens_details"] for usage in reported.usages]
        assert Usage(3, 13, 2) == continuation.usage(Usage(3, 13, 2))
        assert (TEXT, 1) == (reported.content, reported.roles)

    def test_the_body_is_forgotten_with_the_first_text(self) -> None:
        """A long prompt is not needed any more, unless its text may be."""
        for mode, is_kept in (("tokens", False), ("text", True)):
            continuation = going_on(mode=mode)
            events = an_engine().events(continuation.call)
            continuation.passed(events[0])
            assert continuation.call.body
            continuation.passed(events[1])
            assert is_kept == bool(continuation.call.body)


class TestFailures:
    @pytest.mark.parametrize(
        "failure",
        [
            b'data: {"error":{"message":"CUDA","type":"x","code":500}}\n\n',
            b'data: {"object":"error","message":"CUDA","code":500}\n\n',
            b'data: {"id":"a","choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}\n\n',
            b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"abort"}]}\r\n\r\n',
        ],
    )
    def test_they_do_not_come_out(self, failure: bytes) -> None:
        """Later events do not come out either, until another worker goes on."""
        continuation, engine = going_on(), an_engine()
        events = engine.events(continuation.call)
        shown = continuation.passed(b"".join(events[:4]) + failure + DONE)
        assert b"" == continuation.passed(DONE)
        following = continuation.next_call()
        assert following is not None
        continuation.resumed()
        shown += continuation.passed(engine.stream(following))

        assert whole(CHAT_PATH, usage=False) == seen(shown)

    def test_an_empty_error_field_passes(self) -> None:
        """Some engines send every field."""
        event = b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"x"}}],"error":null}\n\n'

        assert event == going_on().passed(event)

    @pytest.mark.parametrize(
        "event",
        [
            b"data: hello\n\n",
            b'data: {"choices":[{"index":1,"delta":{"content":"x"},"token_ids":[5]}]}\n\n',
            b'data: {"choices":[{"index":0},{"index":1}]}\n\n',
            b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"token_ids":[5]}]}\n\n',
            b'data: {"choices":[{"index":0,"delta":{"function_call":{"name":"f"}},"token_ids":[5]}]}\n\n',
        ],
    )
    def test_events_that_are_not_understood_end_the_continuation(self, event: bytes) -> None:
        """An open call, a second answer, or no chunk at all: it passes unchanged."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine().events(continuation.call)[:4]))

        assert continuation.passed(event)
        assert continuation.next_call() is None
        assert continuation.closing() is None

    @pytest.mark.parametrize("event", [b": keep-alive\n\n", b"event: a\n\n", b'data: {"metrics":1}\n\n'])
    def test_other_events_pass_unchanged(self, event: bytes) -> None:
        """Before and after a splice."""
        continuation, engine = going_on(), an_engine()
        assert event == continuation.passed(event)
        continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        following = continuation.next_call()
        assert following is not None
        continuation.resumed()
        assert event == continuation.passed(event)
        continuation.passed(engine.stream(following))

    def test_text_without_ids_does_not_go_on(self) -> None:
        """SGLang returns no ids, and vLLM none of hidden reasoning."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine(has_ids=False).events(continuation.call)[:4]))

        assert continuation.next_call() is None
        assert continuation.usage(None) is None
        assert Usage(3, 9) == continuation.usage(Usage(3, 9))


class TestClosing:
    def test_an_answer_that_had_finished_is_ended(self) -> None:
        """Only the missing events are added: its usage, and the end."""
        own = an_engine().events(a_call(stream_options=USAGE))
        for count, missing in ((-2, 2), (-1, 1)):
            continuation = going_on(stream_options=USAGE)
            shown = continuation.passed(b"".join(an_engine().events(continuation.call)[:count]))
            assert continuation.next_call() is None
            assert b"".join(own[-missing:]) == continuation.closing()
            assert b"" == continuation.closing()
            assert own[1] in shown

    @PATHS
    def test_an_answer_of_all_tokens_has_finished_too(self, path: str) -> None:
        """Some engines send the finish in an event of its own, which may be lost."""
        continuation, engine = going_on(path, max_tokens=2, stream_options=USAGE), an_engine()
        events = engine.events(continuation.call)[: 3 if path == CHAT_PATH else 2]
        events[-1] = events[-1].replace(b'"finish_reason":"length"', b'"finish_reason":null')
        shown = continuation.passed(b"".join(events))
        assert continuation.next_call() is None
        reported = seen(shown + (continuation.closing() or b""))

        assert ("Hi there", ["length"], 1) == (reported.content, reported.finishes, reported.ends)
        assert [{"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}] == reported.usages

    def test_usage_is_added_only_if_requested(self) -> None:
        """Otherwise only the end is added."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine().events(continuation.call)[:-1]))

        assert DONE == continuation.closing()

    def test_unknown_usage_is_not_invented(self) -> None:
        """Without ids only the end is certain."""
        continuation = going_on(stream_options=USAGE)
        continuation.passed(b"".join(an_engine(has_ids=False).events(continuation.call)[:-2]))

        assert DONE == continuation.closing()

    def test_an_unfinished_stream_is_not_closed(self) -> None:
        """Neither before the first event nor in the middle."""
        continuation = going_on()
        assert continuation.closing() is None
        continuation.passed(b"".join(an_engine().events(continuation.call)[:4]))

        assert continuation.closing() is None

    def test_after_the_end_nothing_is_missing(self) -> None:
        """The connection may break then."""
        continuation = going_on()
        continuation.passed(an_engine().stream(continuation.call))

        assert b"" == continuation.closing()


class TestByText:
    @PATHS
    @pytest.mark.parametrize("engine", [{}, {"has_ids": False}])
    def test_text_is_used_where_tokens_are_not_exact(self, path: str, engine: Any) -> None:
        """Stop strings match only the output of one worker; the setting accepts that."""
        for cut in event_ends(an_engine(**engine).stream(a_call(path)))[1:-2]:
            continuation = going_on(path, mode="text", stop=["\n\n\n"])
            reported = seen(relayed(continuation, an_engine(**engine), cut))
            assert (TEXT, ["stop"], 1) == (reported.content, reported.finishes, len(reported.heads)), cut

    def test_tokens_come_first(self) -> None:
        """They are exact."""
        engine = an_engine()
        relayed(going_on(mode="text"), engine, event_ends(engine.stream(a_call()))[4])

        assert PROMPT == engine.calls[-1]["prompt"][:3]

    def test_the_text_is_the_last_message(self) -> None:
        """It is an open message of the assistant; the remaining limits are passed on."""
        continuation, engine = going_on(mode="text", stop=["#"], min_tokens=4), an_engine(has_ids=False)
        continuation.passed(b"".join(engine.events(continuation.call)[:3]))
        following = continuation.next_call()
        assert following is not None
        expected = {
            "model": "tiny",
            "stream": True,
            "messages": [{"role": "user", "content": "Tell"}, {"role": "assistant", "content": "Hi there"}],
            "max_tokens": 98,
            "stop": ["#"],
            "min_tokens": 2,
            "continue_final_message": True,
            "add_generation_prompt": False,
        }

        assert expected == json.loads(following.body)

    def test_usage_is_about_that_of_the_whole(self) -> None:
        """It is the usage of the last worker, divided differently."""
        engine = an_engine(has_ids=False)
        cut = event_ends(engine.stream(a_call(stop=["#"])))[2]
        continuation = going_on(mode="text", stop=["#"], stream_options=USAGE)
        reported = seen(relayed(continuation, engine, cut))

        assert [{"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}] == reported.usages
        assert Usage(3, 13) == continuation.usage(Usage(5, 11))

    def test_repeated_text_is_shown_once(self) -> None:
        """A worker may begin with the end of the text so far."""
        before = [b"It was the best of times, ", b"it was the worst of times."]
        continuation = going_on(mode="text", stop=["#"])
        shown = continuation.passed(b"".join(Engine(before, has_ids=False).events(continuation.call)[:3]))
        continuation.resumed()
        again = Engine([b"it was ", b"the worst of times.", b" It was", b" the age"], has_ids=False)
        shown += continuation.passed(again.stream(continuation.call))

        expected = "It was the best of times, it was the worst of times. It was the age"
        assert expected == seen(shown).content

    def test_an_answer_may_be_continued_by_text_twice(self) -> None:
        """Then by tokens if the engine returned them, otherwise by text."""
        for engine in (an_engine(), an_engine(has_ids=False)):
            ends = event_ends(engine.stream(going_on(mode="text").call))
            reported = seen(relayed(going_on(mode="text", stop=["#"]), engine, ends[3], ends[2]))
            assert (TEXT, ["stop"]) == (reported.content, reported.finishes)


class TestEventsTooLong:
    def test_an_answer_to_a_prompt_of_a_hundred_thousand_ids_goes_on(self) -> None:
        """Its first event of 700 kB is not passed on."""
        ids = list(range(100_000, 200_000))
        continuation = going_on()
        events = an_engine().events(continuation.call)
        first = events[0].replace(json.dumps(PROMPT, separators=(",", ":")).encode(), json.dumps(ids).encode())
        observer = continuation.observer(strip_usage=True)
        shown = b"".join(
            continuation.passed(observer.feed(first[at : at + 60_000])) for at in range(0, len(first), 60_000)
        )
        shown += continuation.passed(observer.feed(events[1]))
        following = continuation.next_call()
        assert following is not None

        assert ids == json.loads(following.body)["prompt"][:100_000]
        assert (1, "Hi", []) == (seen(shown).roles, seen(shown).content, seen(shown).prompts)

    def test_a_prompt_with_too_many_ids_does_not_go_on(self) -> None:
        """The stream itself is not affected."""
        ids = b"[" + b"5," * MAX_IDS + b"5]"
        continuation = going_on()
        events = an_engine().events(continuation.call)
        shown = continuation.passed(events[0].replace(b"[7,4000000000,9]", ids) + b"".join(events[1:]))

        assert whole(CHAT_PATH, usage=False) == seen(shown)
        assert continuation.usage(None) is None

    def test_an_answer_with_too_many_ids_does_not_go_on(self) -> None:
        """Its ids are dropped."""
        continuation = going_on(max_tokens=2 * MAX_IDS)
        events = an_engine().events(continuation.call)
        continuation.passed(events[0])
        many = events[1].replace(b'"token_ids":[10]', b'"token_ids":[' + b"5," * (MAX_IDS // 2) + b"5]")
        continuation.passed(many)
        assert continuation.next_call() is not None
        continuation.passed(many)

        assert continuation.next_call() is None

    def test_an_event_too_long_to_be_read_passes_as_it_comes(self) -> None:
        """Later events pass unchanged, too, because the answer so far is unknown."""
        continuation = going_on()
        observer = continuation.observer(strip_usage=True)
        pieces = [b'data: {"id":"' + b"a" * MAX_HELD, b"b" * 100, b'"}\n\n' + DONE]

        assert pieces == [continuation.passed(observer.feed(piece)) for piece in pieces]
        assert continuation.next_call() is None


def test_requests_that_cannot_be_continued_have_no_continuation() -> None:
    """No stream, several answers, another endpoint, the setting `off`, or fields that make it inexact."""
    assert a_continuation(a_call(), mode="off") is None
    assert a_continuation(a_call(stream=False)) is None
    assert a_continuation(a_call(n=2)) is None
    assert a_continuation(a_call(TEXT_PATH, prompt=["a", "b"])) is None
    assert a_continuation(a_call("/v1/chat/completions/batch")) is None
    assert a_continuation(a_call(stop=["#"])) is None
    assert a_continuation(a_call(tools=[{"type": "function"}]), mode="text") is None


def test_known_positions_of_fields_make_the_same_continuation() -> None:
    """Another process finds them in a large body."""
    call = a_call(min_tokens=3, temperature=0.5)
    body = parse_chat(call.body)
    found = continuation_of(CHAT_PATH, call, body, mode="text")
    known = continuation_of(CHAT_PATH, call, body, mode="text", places=members_of(call.body))

    assert found is not None
    assert known is not None
    assert found.call == known.call
    assert {name: bytes(value) for name, value in found._resumption._fields.items()} == {
        name: bytes(value) for name, value in known._resumption._fields.items()
    }

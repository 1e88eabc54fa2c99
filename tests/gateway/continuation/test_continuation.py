"""Streams that are cut and go on, against an engine that knows what should have come."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.body import parse_chat
from gateway.continuation.continuation import MAX_HELD, MOST_UNSETTLED, Continuation, continuation_of
from gateway.continuation.transcript import MOST_IDS
from gateway.errors import ReplyBroken
from gateway.splice import members_of
from gateway.usage import Usage
from tests.gateway.continuation.engine import (
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
    """What the caller of a stream that is not cut sees, who did not ask for ids."""
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
    def test_nobody_notices_the_ids_that_were_asked_for(self, path: str, packet: int | None) -> None:
        """Byte by byte the stream is the one of the caller's own request, however it was cut into packets."""
        own = an_engine().stream(a_call(path, stream_options=USAGE))

        assert own == relayed(going_on(path, stream_options=USAGE), an_engine(), packet=packet)

    @pytest.mark.parametrize("engine", [{"holds": "<"}, {"reasoning": [b"Let", b" me"]}])
    def test_events_that_ids_alone_are_the_reason_for_do_not_come_out(self, engine: Any) -> None:
        """vLLM sends an event for what its parser keeps back only where ids are wanted."""
        own = an_engine(**engine).stream(a_call())

        assert own == relayed(going_on(), an_engine(**engine))

    @PATHS
    def test_a_caller_who_asks_for_ids_gets_them(self, path: str) -> None:
        """As they came."""
        own = an_engine().stream(a_call(path, return_token_ids=True))

        assert own == relayed(going_on(path, return_token_ids=True), an_engine())

    def test_what_was_generated_is_known_at_any_time(self) -> None:
        """Also where no usage has come: a stream that is given up is billed by its ids."""
        continuation, engine = going_on(), an_engine()
        events = engine.events(continuation.call)

        assert continuation.usage(None) is None
        continuation.passed(b"".join(events[:4]))
        assert Usage(3, 3) == continuation.usage(None)
        assert Usage(3, 4, 2) == continuation.usage(Usage(3, 4, 2))


class TestByTokens:
    @PATHS
    def test_a_cut_at_any_byte_is_not_noticed(self, path: str) -> None:
        """Nothing lost, nothing twice, one role, one finish, one end, the usage of all, in the words of the first."""
        stream = an_engine().stream(going_on(path, stream_options=USAGE).call)
        for cut in range(event_ends(stream)[0], len(stream), 1 if path == CHAT_PATH else 4):
            continuation = going_on(path, stream_options=USAGE)
            assert whole(path) == seen(relayed(continuation, an_engine(), cut)), cut

    @PATHS
    def test_before_the_first_event_it_is_the_second_workers_answer(self, path: str) -> None:
        """Nobody has seen anything of the other."""
        own = whole(path)
        for cut in (0, 30, 200):
            told = seen(relayed(going_on(path, stream_options=USAGE), an_engine(), cut))
            assert dataclasses.replace(own, heads={("id-2", *next(iter(own.heads))[1:2], 1002, "tiny")}) == told

    @PATHS
    @pytest.mark.parametrize("packet", [1, 7, 250])
    def test_two_cuts_at_any_events_are_not_noticed(self, path: str, packet: int) -> None:
        """A worker that went on may die too."""
        first = event_ends(an_engine().stream(going_on(path).call))
        for number, cut in enumerate(first[:-1]):
            continuation = going_on(path)
            second = first[-1] // 2 if number % 2 else cut // 3
            stream = relayed(continuation, an_engine(), cut, second, packet=packet)
            assert whole(path, usage=False) == seen(stream), cut

    @PATHS
    def test_a_caller_who_asks_for_ids_gets_each_once(self, path: str) -> None:
        """At whichever byte the stream is cut: ids are shown only when their text is out."""
        length = len(an_engine().stream(a_call(path, return_token_ids=True)))
        for cut in range(0, length, 5):
            engine = an_engine()
            told = seen(relayed(going_on(path, return_token_ids=True), engine, cut))
            assert (TEXT, engine.ids, [PROMPT]) == (told.content, told.ids, told.prompts), cut

    def test_what_a_parser_kept_back_is_not_lost(self) -> None:
        """It shows a blank of " <" and owes the rest: the next worker is not asked to go on behind that."""
        for cut in event_ends(an_engine(holds="<").stream(going_on().call))[:-1]:
            assert whole(CHAT_PATH, usage=False) == seen(relayed(going_on(), an_engine(holds="<"), cut)), cut

    def test_many_signs_are_not_kept_back_for_ever(self) -> None:
        """A line of them comes out in time, though not one by one."""
        engine = Engine([b"-"] * 40)
        continuation = going_on()
        events = engine.events(continuation.call)
        out = [continuation.passed(event) for event in events[: MOST_UNSETTLED + 2]]

        assert [True, *[False] * MOST_UNSETTLED, True] == [bool(passed) for passed in out]
        assert "-" * (MOST_UNSETTLED + 1) == seen(b"".join(out)).content

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_any_text_in_any_tokens_is_exact(self, data: st.DataObject) -> None:
        """Characters are split over tokens, and events over packets; streams are cut anywhere, up to three times."""
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
        told = seen(relayed(continuation, engine, *cuts, packet=packet))

        assert (text.decode(), ["stop"], 1) == (told.content, told.finishes, told.ends)
        assert (engine.ids if asks_ids else []) == told.ids
        assert len(engine.ids) == told.usages[-1]["completion_tokens"]

    def test_the_rest_of_the_limits_is_asked_for(self) -> None:
        """What has come counts; all else of the request goes along, but what made the prompt does not."""
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
    def test_a_least_number_that_is_none_is_the_engines_to_refuse(self, least: Any) -> None:
        """Nothing here fails at it."""
        assert going_on(min_tokens=least).next_call() is not None

    def test_a_chat_without_a_limit_goes_on_without_one(self) -> None:
        """On the chat route, whose limit is what fits; completions would stop after 16 tokens."""
        for cut in event_ends(an_engine().stream(going_on().call))[2:-3]:
            engine = an_engine()
            stream = relayed(going_on(max_tokens=..., stream_options=USAGE), engine, cut)
            assert whole(CHAT_PATH) == seen(stream)
            assert "kv_transfer_params" in engine.calls[-1]
            assert not engine.calls[-1].keys() & {"max_tokens", "prompt"}

    @pytest.mark.parametrize("tells_ids", [False, True])
    def test_a_worker_that_answers_something_else_is_refused(self, *, tells_ids: bool) -> None:
        """One that does not know how to be given ids in a chat; it shows by the prompt that it tells, or does not."""
        continuation, engine = going_on(max_tokens=...), an_engine(takes_ids_in_chats=False)
        shown = continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        for _ in range(2):
            following = continuation.next_call()
            assert following is not None
            continuation.resumed()
            engine.tells_ids = tells_ids
            events = engine.events(following)
            assert tells_ids or b"" == continuation.passed(events[0])
            with pytest.raises(ReplyBroken, match="does not go on"):
                continuation.passed(b"".join(events))
            assert b"" == continuation.passed(events[-1])

        assert "Hi there" == seen(shown).content

    def test_a_worker_that_tells_another_prompt_is_refused(self) -> None:
        """Where completions were asked as well."""
        continuation, engine = going_on(), an_engine()
        continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        continuation.resumed()

        with pytest.raises(ReplyBroken):
            continuation.passed(b"".join(engine.events(a_call(TEXT_PATH, return_token_ids=True))))

    def test_limits_end_the_whole_answer(self) -> None:
        """The finish of the last worker says so; where it was lost with the worker, one is made."""
        uncut = seen(an_engine().stream(a_call(max_tokens=5)))
        for cut in range(0, len(an_engine().stream(going_on(max_tokens=5).call)), 3):
            told = seen(relayed(going_on(max_tokens=5), an_engine(), cut))
            assert (uncut.content, ["length"], 1) == (told.content, told.finishes, told.ends), cut

    def test_a_text_completion_without_a_limit_has_sixteen_tokens(self) -> None:
        """As with OpenAI."""
        engine = Engine([b"a"] * 40)
        cut = event_ends(engine.stream(going_on(TEXT_PATH, max_tokens=...).call))[10]
        told = seen(relayed(going_on(TEXT_PATH, max_tokens=...), engine, cut))

        assert ("a" * 16, ["length"]) == (told.content, told.finishes)
        assert 5 == engine.calls[-1]["max_tokens"]

    def test_usage_with_every_event_is_that_of_the_whole(self) -> None:
        """It grows by one from event to event, on both sides of the splice."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        uncut = seen(an_engine().stream(a_call(TEXT_PATH, stream_options=options)))
        cut = event_ends(an_engine().stream(going_on(TEXT_PATH, stream_options=options).call))[5]
        told = seen(relayed(going_on(TEXT_PATH, stream_options=options), an_engine(), cut))

        assert uncut.usages == told.usages

    @pytest.mark.parametrize(("hit_share", "hit_tokens"), [(0.0, 0), (2 / 3, 2)])
    def test_cached_tokens_are_those_of_the_worker_that_began(self, hit_share: float, hit_tokens: int) -> None:
        """Its predicted hit, where its engine did not report one: the second worker's hit is on another prompt."""
        options = {"include_usage": True}
        cut = event_ends(an_engine().stream(going_on(stream_options=options).call))[5]
        continuation = going_on(stream_options=options)
        told = seen(relayed(continuation, an_engine(details=True), cut, hit_share=hit_share))

        expected = {"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}
        assert [expected | {"prompt_tokens_details": {"cached_tokens": hit_tokens}}] == told.usages
        assert Usage(3, 13, hit_tokens) == continuation.usage(Usage(8, 8, 7))

    def test_without_a_prediction_they_are_those_of_the_worker_that_went_on(self) -> None:
        """Of the prompt at most."""
        continuation = going_on()
        cut = event_ends(an_engine().stream(continuation.call))[5]
        relayed(continuation, an_engine(), cut)

        assert (Usage(3, 13, 2), Usage(3, 13, 3)) == tuple(continuation.usage(Usage(8, 8, told)) for told in (2, 7))

    def test_engines_that_report_no_cached_tokens_get_none_invented(self) -> None:
        """A prediction alone is not reported as usage."""
        options = {"include_usage": True}
        cut = event_ends(an_engine().stream(going_on(stream_options=options).call))[5]
        told = seen(relayed(going_on(stream_options=options), an_engine(), cut, hit_share=0.5))

        assert [{"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}] == told.usages

    def test_cached_tokens_that_the_first_engine_reported_itself_count(self) -> None:
        """Engines that send usage with every event report them before they are lost."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        uncut = seen(an_engine(details=True).stream(a_call(stream_options=options)))
        cut = event_ends(an_engine(details=True).stream(going_on(stream_options=options).call))[5]
        told = seen(relayed(going_on(stream_options=options), an_engine(details=True), cut, hit_share=0.5))

        assert uncut.usages == told.usages

    def test_splices_are_counted(self) -> None:
        """None, one and two."""
        for cuts in ((), (900,), (900, 700)):
            continuation = going_on()
            relayed(continuation, an_engine(), *cuts)
            assert len(cuts) == continuation.splices


REASONING: Any = {"reasoning": [b"Let", b" me"]}


class TestReasoning:
    def test_content_after_reasoning_goes_on(self) -> None:
        """By completions, where nothing is parsed: all that comes is content."""
        ends = event_ends(an_engine(**REASONING).stream(going_on().call))
        for cut in ends[4:-1]:
            told = seen(relayed(going_on(), an_engine(**REASONING), cut))
            assert (TEXT, "Let me", 1, ["stop"]) == (told.content, told.reasoning, told.roles, told.finishes), cut

    def test_the_end_of_reasoning_is_not_generated_twice(self) -> None:
        """Completions would show it. So content that is kept back is no beginning yet."""
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
    def test_open_reasoning_does_not(self, mode: str, events: int) -> None:
        """Another worker would take the rest of it for content."""
        continuation = going_on(mode=mode)
        continuation.passed(b"".join(an_engine(**REASONING).events(continuation.call)[:events]))

        assert continuation.next_call() is None
        assert continuation.closing() is None

    def test_reasoning_after_content_does_not_either(self) -> None:
        """Nobody knows which of both the next worker would have to take it for."""
        continuation = going_on()
        events = an_engine(**REASONING).events(continuation.call)
        continuation.passed(b"".join(events[:6] + events[1:2]))

        assert continuation.next_call() is None


class TestBeginning:
    def test_as_long_as_only_the_role_is_out_the_request_is_asked_again(self) -> None:
        """As it was, by whichever mode, also of engines that tell no ids."""
        for engine in (an_engine(tells_ids=False), an_engine(reasoning=[b"Let"]), an_engine()):
            continuation = going_on(stream_options=USAGE)
            events = engine.events(continuation.call)
            assert continuation.passed(events[0])
            assert continuation.call == continuation.next_call()

    def test_content_that_is_kept_back_is_begun_anew(self) -> None:
        """By the caller's own request: nobody has seen it."""
        engine = Engine([b"\n\n", b"So"])
        continuation = going_on()
        shown = continuation.passed(b"".join(engine.events(continuation.call)[:2]))
        assert continuation.call == continuation.next_call()
        continuation.resumed()
        shown += continuation.passed(engine.stream(continuation.call))

        assert ("\n\nSo", 1, ["stop"]) == (seen(shown).content, seen(shown).roles, seen(shown).finishes)

    def test_its_usage_is_that_of_the_second_answer(self) -> None:
        """With all details: it answered all of the request."""
        cut = event_ends(an_engine().stream(going_on(stream_options=USAGE).call))[0]
        continuation = going_on(stream_options=USAGE)
        told = seen(relayed(continuation, an_engine(details=True), cut))

        assert [{"cached_tokens": 2}] == [usage["prompt_tokens_details"] for usage in told.usages]
        assert Usage(3, 13, 2) == continuation.usage(Usage(3, 13, 2))
        assert (TEXT, 1) == (told.content, told.roles)

    def test_the_body_is_forgotten_with_the_first_text(self) -> None:
        """A long prompt is of no use any more, but where its text may be wanted."""
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
        """Nor does anything behind them, until another worker goes on."""
        continuation, engine = going_on(), an_engine()
        events = engine.events(continuation.call)
        shown = continuation.passed(b"".join(events[:4]) + failure + DONE)
        assert b"" == continuation.passed(DONE)
        following = continuation.next_call()
        assert following is not None
        continuation.resumed()
        shown += continuation.passed(engine.stream(following))

        assert whole(CHAT_PATH, usage=False) == seen(shown)

    def test_an_error_that_is_none_passes(self) -> None:
        """Some engines list every field."""
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
    def test_nobody_goes_on_from_what_is_not_understood(self, event: bytes) -> None:
        """An open call, a second answer, no chunk at all: it passes, and that is the end of it."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine().events(continuation.call)[:4]))

        assert continuation.passed(event)
        assert continuation.next_call() is None
        assert continuation.closing() is None

    @pytest.mark.parametrize("event", [b": keep-alive\n\n", b"event: a\n\n", b'data: {"metrics":1}\n\n'])
    def test_what_is_no_answer_passes_as_it_is(self, event: bytes) -> None:
        """Before and after a splice."""
        continuation, engine = going_on(), an_engine()
        assert event == continuation.passed(event)
        continuation.passed(b"".join(engine.events(continuation.call)[:4]))
        following = continuation.next_call()
        assert following is not None
        continuation.resumed()
        assert event == continuation.passed(event)
        continuation.passed(engine.stream(following))

    def test_text_without_ids_is_not_gone_on_with(self) -> None:
        """SGLang tells none, and vLLM none of hidden reasoning."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine(tells_ids=False).events(continuation.call)[:4]))

        assert continuation.next_call() is None
        assert continuation.usage(None) is None
        assert Usage(3, 9) == continuation.usage(Usage(3, 9))


class TestClosing:
    def test_an_answer_that_had_finished_is_ended(self) -> None:
        """Only what nobody has told is added: its usage, and the end."""
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
        """Some engines say so in an event of its own, and that may be lost."""
        continuation, engine = going_on(path, max_tokens=2, stream_options=USAGE), an_engine()
        events = engine.events(continuation.call)[: 3 if path == CHAT_PATH else 2]
        events[-1] = events[-1].replace(b'"finish_reason":"length"', b'"finish_reason":null')
        shown = continuation.passed(b"".join(events))
        assert continuation.next_call() is None
        told = seen(shown + (continuation.closing() or b""))

        assert ("Hi there", ["length"], 1) == (told.content, told.finishes, told.ends)
        assert [{"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}] == told.usages

    def test_who_asks_for_no_usage_gets_none(self) -> None:
        """Only the end."""
        continuation = going_on()
        continuation.passed(b"".join(an_engine().events(continuation.call)[:-1]))

        assert DONE == continuation.closing()

    def test_usage_that_nobody_knows_is_not_made_up(self) -> None:
        """Without ids only the end is truthful."""
        continuation = going_on(stream_options=USAGE)
        continuation.passed(b"".join(an_engine(tells_ids=False).events(continuation.call)[:-2]))

        assert DONE == continuation.closing()

    def test_before_anything_came_there_is_nothing_to_close(self) -> None:
        """The same in the middle."""
        continuation = going_on()
        assert continuation.closing() is None
        continuation.passed(b"".join(an_engine().events(continuation.call)[:4]))

        assert continuation.closing() is None

    def test_after_the_end_nothing_is_missing(self) -> None:
        """The connection may break as it likes."""
        continuation = going_on()
        continuation.passed(an_engine().stream(continuation.call))

        assert b"" == continuation.closing()


class TestByText:
    @PATHS
    @pytest.mark.parametrize("engine", [{}, {"tells_ids": False}])
    def test_it_stands_in_where_tokens_do_not_do(self, path: str, engine: Any) -> None:
        """Stop strings are matched in what one worker generates; the setting says that this may be so."""
        for cut in event_ends(an_engine(**engine).stream(a_call(path)))[1:-2]:
            continuation = going_on(path, mode="text", stop=["\n\n\n"])
            told = seen(relayed(continuation, an_engine(**engine), cut))
            assert (TEXT, ["stop"], 1) == (told.content, told.finishes, len(told.heads)), cut

    def test_tokens_come_first(self) -> None:
        """They are exact."""
        engine = an_engine()
        relayed(going_on(mode="text"), engine, event_ends(engine.stream(a_call()))[4])

        assert PROMPT == engine.calls[-1]["prompt"][:3]

    def test_the_text_is_the_last_message(self) -> None:
        """Of the assistant, left open; what is left of the limits goes along."""
        continuation, engine = going_on(mode="text", stop=["#"], min_tokens=4), an_engine(tells_ids=False)
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
        """What the last worker read and generated, divided otherwise."""
        engine = an_engine(tells_ids=False)
        cut = event_ends(engine.stream(a_call(stop=["#"])))[2]
        continuation = going_on(mode="text", stop=["#"], stream_options=USAGE)
        told = seen(relayed(continuation, engine, cut))

        assert [{"prompt_tokens": 3, "total_tokens": 16, "completion_tokens": 13}] == told.usages
        assert Usage(3, 13) == continuation.usage(Usage(5, 11))

    def test_what_it_says_twice_is_said_once(self) -> None:
        """A worker may begin with the end of what was there."""
        before = [b"It was the best of times, ", b"it was the worst of times."]
        continuation = going_on(mode="text", stop=["#"])
        shown = continuation.passed(b"".join(Engine(before, tells_ids=False).events(continuation.call)[:3]))
        continuation.resumed()
        again = Engine([b"it was ", b"the worst of times.", b" It was", b" the age"], tells_ids=False)
        shown += continuation.passed(again.stream(continuation.call))

        expected = "It was the best of times, it was the worst of times. It was the age"
        assert expected == seen(shown).content

    def test_an_answer_may_be_gone_on_with_by_text_and_then_again(self) -> None:
        """By tokens where they were told meanwhile, by text where not."""
        for engine in (an_engine(), an_engine(tells_ids=False)):
            ends = event_ends(engine.stream(going_on(mode="text").call))
            told = seen(relayed(going_on(mode="text", stop=["#"]), engine, ends[3], ends[2]))
            assert (TEXT, ["stop"]) == (told.content, told.finishes)


class TestEventsTooLong:
    def test_a_prompt_of_a_hundred_thousand_ids_can_be_gone_on_behind(self) -> None:
        """Its first event, of 700 kB, does not come out."""
        ids = list(range(100_000, 200_000))
        continuation = going_on()
        events = an_engine().events(continuation.call)
        first = events[0].replace(json.dumps(PROMPT, separators=(",", ":")).encode(), json.dumps(ids).encode())
        tail = continuation.tail(strip_usage=True)
        shown = b"".join(continuation.passed(tail.feed(first[at : at + 60_000])) for at in range(0, len(first), 60_000))
        shown += continuation.passed(tail.feed(events[1]))
        following = continuation.next_call()
        assert following is not None

        assert ids == json.loads(following.body)["prompt"][:100_000]
        assert (1, "Hi", []) == (seen(shown).roles, seen(shown).content, seen(shown).prompts)

    def test_more_than_can_be_kept_is_not_gone_on_with(self) -> None:
        """The stream itself is none the worse."""
        ids = b"[" + b"5," * MOST_IDS + b"5]"
        continuation = going_on()
        events = an_engine().events(continuation.call)
        shown = continuation.passed(events[0].replace(b"[7,4000000000,9]", ids) + b"".join(events[1:]))

        assert whole(CHAT_PATH, usage=False) == seen(shown)
        assert continuation.usage(None) is None

    def test_an_answer_may_grow_too_long_too(self) -> None:
        """Its ids are forgotten then."""
        continuation = going_on(max_tokens=2 * MOST_IDS)
        events = an_engine().events(continuation.call)
        continuation.passed(events[0])
        many = events[1].replace(b'"token_ids":[10]', b'"token_ids":[' + b"5," * (MOST_IDS // 2) + b"5]")
        continuation.passed(many)
        assert continuation.next_call() is not None
        continuation.passed(many)

        assert continuation.next_call() is None

    def test_an_event_too_long_to_be_read_passes_as_it_comes(self) -> None:
        """And so does all that follows: nobody knows any more what has come."""
        continuation = going_on()
        tail = continuation.tail(strip_usage=True)
        pieces = [b'data: {"id":"' + b"a" * MAX_HELD, b"b" * 100, b'"}\n\n' + DONE]

        assert pieces == [continuation.passed(tail.feed(piece)) for piece in pieces]
        assert continuation.next_call() is None


def test_what_nobody_could_go_on_with_is_not_begun() -> None:
    """No stream, several answers, another endpoint, a setting that says no, or a body under which it is not exact."""
    assert a_continuation(a_call(), mode="off") is None
    assert a_continuation(a_call(stream=False)) is None
    assert a_continuation(a_call(n=2)) is None
    assert a_continuation(a_call(TEXT_PATH, prompt=["a", "b"])) is None
    assert a_continuation(a_call("/v1/chat/completions/batch")) is None
    assert a_continuation(a_call(stop=["#"])) is None
    assert a_continuation(a_call(tools=[{"type": "function"}]), mode="text") is None


def test_places_that_are_known_make_the_same_continuation() -> None:
    """Of a large body they are found by another process."""
    call = a_call(min_tokens=3, temperature=0.5)
    body = parse_chat(call.body)
    found = continuation_of(CHAT_PATH, call, body, mode="text")
    known = continuation_of(CHAT_PATH, call, body, mode="text", places=members_of(call.body))

    assert found is not None
    assert known is not None
    assert found.call == known.call
    assert {name: bytes(value) for name, value in found._fields.items()} == {
        name: bytes(value) for name, value in known._fields.items()
    }
